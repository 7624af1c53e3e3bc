"""HloSharding: division of a value among devices.

A sharding is printed in one of three forms: V1 lists the devices of each tile, V2 has them as an
iota, V3 names mesh axes. `HloSharding` keeps the printed form (`text`, `form`); its methods go by
meaning: the tile of each device.

A device id is a position in the module's device assignment, not the id of a piece of hardware.

Sources: xla/hlo/ir/hlo_sharding.cc (TileShape, TileIndexForDevice, V3ToV2Sharding, PartialTile),
xla/hlo/ir/named_sharding.cc, as of August 2026; jax/_src/sharding_impls.py
(parse_flatten_op_sharding) of jax 0.10.2.

JAX passes shardings to XLA as Shardy attributes in ``frontend_attributes``; the partitioner removes
them, so only texts before it have them. A Shardy sharding is a V3 sharding with other quotes and a
mesh by name, so it is rewritten as one and parsed as one. Sources: xla/service/spmd/shardy/
constants.h (the keys); parsers.cc and printers.cc of shardy/dialect/sdy/ir (``#sdy.mesh``,
``#sdy.sharding``, ``#sdy.sharding_per_value``), as of August 2026. The priority of a dimension
(``{"x"}p1``) only affects propagation and is dropped.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, overload

from hlo_lens.grammar.files import MisplacedError, present, whole_number
from hlo_lens.grammar.lines import SmallLanguage
from hlo_lens.shapes.mesh import (
    MESH_NAMES,
    MOST_DEVICES,
    Axis,
    AxisRef,
    Iota,
    Mesh,
    MeshLike,
    MeshRules,
    Sizes,
    TileAssignment,
    device_array,
    resolved,
)
from hlo_lens.shapes.named_sharding import (
    DimensionSharding,
    NamedSharding,
    PartitionSpec,
    ShardingKind,
    named_sharding,
    partition_spec,
    spec_of_axes,
)
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError, UnknownNameError, UsageError
from hlo_lens.text.names import lazy_pattern
from hlo_lens.text.units import bounded_int

_NUMBERED = (ShardingKind.MANUAL, ShardingKind.UNREDUCED, ShardingKind.MAXIMAL)
"""Kinds of subgroups whose devices hold different parts."""


def _numbers_by_device(
    tiles: TileAssignment, rank: int, subgroup_types: Sequence[ShardingKind]
) -> Mapping[int, tuple[int, ...]]:
    """Return device to the numbers of its tile and subgroups.

    One number for each dimension that divides the value, the first `rank` ones, and one for each
    kind of subgroup. Devices that replicate a tile have equal numbers.
    """
    sizes = tiles.dimensions
    divided = [dimension for dimension in range(rank) if sizes[dimension] > 1]
    found: dict[int, tuple[int, ...]] = {}
    for device, index in zip(tiles.devices(), itertools.product(*map(range, sizes)), strict=True):
        numbers = dict.fromkeys(_NUMBERED, 0)
        for kind, place, size in zip(subgroup_types, index[rank:], sizes[rank:], strict=True):
            if kind in numbers:
                numbers[kind] = numbers[kind] * size + place
        found[device] = (*(index[dimension] for dimension in divided), *numbers.values())
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class HloSharding:
    """A sharding as printed, with its meaning.

    Attributes:
        kind: Its kind; of a tiling that divides nothing, the kind of its subgroup.
        tile_assignment: Array of devices, printed in V1 and V2, computed for V3: one dimension for
            each of the value's, then one for each of `subgroup_types`.
        subgroup_types: Kind of each trailing dimension: devices that share a tile.
        device: The one device of a maximal sharding.
        named: The mesh axes of a V3 sharding.
        elements: For a tuple: one sharding for each leaf, depth first.
        shard_group: ``shard_as 1`` or ``shard_like 1``: values that must have the same sharding.
        reduction: Reduction of partial results (``sum``, ``max``, ``min``), if printed.
        metadata: Text of the metadata inside, without its outer braces.
        text: The sharding as printed; inside a tuple, as XLA would print it without metadata.
    """

    kind: ShardingKind
    tile_assignment: TileAssignment | None = None
    subgroup_types: tuple[ShardingKind, ...] = ()
    device: int | None = None
    named: NamedSharding | None = None
    elements: tuple[HloSharding, ...] = ()
    shard_group: str | None = None
    reduction: str | None = None
    metadata: str = field(default="", compare=False)
    text: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.text:
            object.__setattr__(self, "text", _printed(self))

    @classmethod
    def parse(cls, text: str) -> HloSharding:
        return parse_sharding(text)

    @classmethod
    def tiled(
        cls, tiles: TileAssignment, subgroup_types: tuple[ShardingKind, ...] = ()
    ) -> HloSharding:
        """Return the sharding of an array of devices whose trailing dimensions are subgroups."""
        kind = ShardingKind.TILED
        rank = len(tiles.dimensions) - len(subgroup_types)
        sizes = zip(subgroup_types, tiles.dimensions[rank:], strict=True)
        uses = {use for use, size in sizes if size > 1} or {ShardingKind.REPLICATED}
        if subgroup_types and len(uses) == 1 and math.prod(tiles.dimensions[:rank]) == 1:
            kind = uses.pop()
        return cls(kind=kind, tile_assignment=tiles, subgroup_types=subgroup_types)

    @classmethod
    def from_named(cls, named: NamedSharding) -> HloSharding:
        """Return a sharding by mesh axes in V2 form: as an array of devices.

        Raises:
            UnknownNameError: If an axis is not in the mesh.
            UsageError: If axes overlap, or sub-axes do not divide their axis.
        """
        kind, tiles, subgroup_types = named.to_tiles()
        if kind is ShardingKind.MAXIMAL:
            return cls(kind=kind, device=named.mesh.device_ids[0])
        return cls(kind=kind) if tiles is None else cls.tiled(tiles, subgroup_types)

    @classmethod
    def from_partition_spec(
        cls, mesh: MeshLike, spec: PartitionSpec, *, rank: int | None = None
    ) -> HloSharding:
        """Return the sharding of a partition spec as JAX makes it, in V2 form.

        Args:
            mesh: A `Mesh`, sizes by axis name, or a ``jax.sharding.Mesh``.
            spec: For each dimension None, an axis name, or several, most major first.
            rank: Number of dimensions of the value, if the spec has fewer.

        Raises:
            UnknownNameError: If an axis is not in the mesh.
            UsageError: If an axis is used twice.
        """
        return cls.from_named(named_sharding(Mesh.of(mesh), spec, rank or 0))

    @property
    def form(self) -> str:
        """Printed form: the kind's name, ``v1-list``, ``v2-iota``, ``v3-named`` or ``tuple``."""
        if self.named is not None:
            return "v3-named"
        if self.tile_assignment is not None:
            return "v2-iota" if self.tile_assignment.device_ids is None else "v1-list"
        return self.kind.value

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole value; of a tuple, of each element."""
        if self.kind is ShardingKind.TUPLE:
            return all(element.is_replicated for element in self.elements)
        return self.kind is ShardingKind.REPLICATED

    @property
    def num_devices(self) -> int | None:
        """Number of devices that it names; None if it names none, as ``{replicated}``.

        For a tuple: the largest number of any element.
        """
        if self.kind is ShardingKind.TUPLE:
            return max((e.num_devices for e in self.elements if e.num_devices), default=None)
        if self.kind is ShardingKind.MAXIMAL:
            return 1
        if self.named is not None and self.named.mesh.size:
            return self.named.mesh.size
        return self.tile_assignment.size if self.tile_assignment else None

    @property
    def tile_counts(self) -> tuple[int, ...]:
        """Number of tiles of each dimension; empty if nothing is divided."""
        if self.tile_assignment is None:
            return ()
        dimensions = self.tile_assignment.dimensions
        return dimensions[: len(dimensions) - len(self.subgroup_types)]

    def devices(self) -> tuple[int, ...]:
        """Return the device ids, row-major over tiles and subgroups; empty if none are named."""
        if self.device is not None:
            return (self.device,)
        if self.tile_assignment is not None:
            return self.tile_assignment.devices()
        return self.named.mesh.device_ids if self.named else ()

    def tile_of(self, device: int) -> tuple[int, ...]:
        """Return the tile of a device: for each dimension, the number of the tile.

        Empty if nothing is divided.

        Raises:
            UnknownNameError: If the device holds no part.
            UsageError: If it is a tuple, whose elements have tiles of their own.
        """
        if self.kind is ShardingKind.TUPLE:
            raise UsageError("a tuple sharding has no tiles; its elements have")
        if self.tile_assignment is not None:
            index = self.tile_assignment.index_of(device)
            known = index is not None
        else:
            index = ()
            known = not self.num_devices or device in self.devices()
        if index is None or not known:
            raise UnknownNameError(f"device {device} is not in sharding {self.text}")
        return index[: len(self.tile_counts)]

    @overload
    def shard_shape(self, shape: Shape) -> Shape: ...
    @overload
    def shard_shape(self, shape: Sequence[int]) -> tuple[int, ...]: ...
    def shard_shape(self, shape: Shape | Sequence[int]) -> Shape | tuple[int, ...]:
        """Return the shape of one device's part: each dimension divided and rounded up.

        The parts of the last devices may be smaller in fact, or empty. A sharding that is no tuple
        applies to every leaf of a tuple shape. Source: HloSharding::TileShape.

        Args:
            shape: A shape, or the sizes of an array; the result is of the same type.

        Raises:
            DumpMismatchError: If ranks or element counts differ.
            UsageError: If sizes are given to the sharding of a tuple.

        >>> HloSharding.parse("{devices=[4,2]<=[8]}").shard_shape((16, 32))
        (4, 16)
        """
        if not isinstance(shape, Shape):
            if self.kind is ShardingKind.TUPLE:
                raise UsageError(
                    "a tuple sharding has no shard shape of one array; its elements have"
                )
            return tuple(size or 0 for size in _tile_sizes(self, shape, tuple(shape)))
        leaves = [leaf for _, leaf in shape.leaves()]
        shardings = self.elements if self.kind is ShardingKind.TUPLE else (self,) * len(leaves)
        if len(shardings) != len(leaves) and leaves:
            raise DumpMismatchError(
                f"{len(shardings)} shardings for a shape of {len(leaves)} leaves"
            )
        return shape.with_leaves(
            leaf
            if one.kind is not ShardingKind.TILED or leaf.is_token or leaf.is_opaque
            else replace(leaf, dimensions=_tile_sizes(one, leaf.dimensions, leaf))
            for one, leaf in zip(shardings, leaves, strict=False)
        )

    def replication_factor(self, num_devices: int | None = None) -> int | None:
        """Return the number of devices that hold each element.

        Args:
            num_devices: Devices of the program, for a sharding that names none.

        Returns:
            1 for a value on one device; None for a tuple, an unknown sharding, a replicated one on
            an unknown number of devices, and a fully manual one, whose copies depend on the
            program. Manual and unreduced subgroups hold different parts.
        """
        if self.kind is ShardingKind.MAXIMAL:
            return 1
        if self.kind is ShardingKind.REPLICATED:
            return self.num_devices or num_devices
        if self.kind is ShardingKind.UNREDUCED:
            return 1
        if self.kind is not ShardingKind.TILED or self.tile_assignment is None:
            return None
        sizes = self.tile_assignment.dimensions[len(self.tile_counts) :]
        kinds = zip(self.subgroup_types, sizes, strict=True)
        return math.prod(size for kind, size in kinds if kind is ShardingKind.REPLICATED)

    def equivalent(self, other: HloSharding) -> bool:
        """Return whether two shardings have the same meaning, in any form.

        They have if each device holds the same tile in a subgroup of the same kind. Tilings are
        compared by their expanded devices. Not compared are the order of devices that replicate a
        tile, undivided dimensions at the end, metadata, and shard groups.
        """
        mine, yours = self.elements, other.elements
        if self.kind is ShardingKind.TUPLE and other.kind is ShardingKind.TUPLE:
            pairs = zip(mine, yours, strict=False)
            return len(mine) == len(yours) and all(a.equivalent(b) for a, b in pairs)
        return self.meaning() == other.meaning()

    def to_v2(self) -> HloSharding:
        """Return the sharding without mesh axes. Source: HloSharding::V3ToV2Sharding."""
        if self.kind is ShardingKind.TUPLE:
            elements = tuple(element.to_v2() for element in self.elements)
            return HloSharding(kind=self.kind, elements=elements)
        if self.named is None:
            return self
        return replace(
            HloSharding.from_named(self.named),
            reduction=self.reduction,
            metadata=self.metadata,
            text="",
        )

    def to_partition_spec(self, mesh: MeshLike | None = None) -> PartitionSpec | None:
        """Return the sharding as a partition spec over a mesh; None if it is not one.

        For each dimension None, an axis name, or a tuple of names, most major first; dimensions at
        the end that are not divided are left out. Axes of subgroups are not part of it.

        If the sharding names axes of this mesh (or of its own, if no mesh is given), these are
        returned. Otherwise the axes are recovered as in jax's parse_flatten_op_sharding: the axis
        order that generates the devices, then axes for each dimension until it is divided enough.
        Axes of size 1 are lost, and of two possible results the first is returned.

        None for: manual, unknown, unreduced, a tuple, a maximal sharding on several devices,
        sub-axes, devices in an order of no axes, and subgroups of more than one kind.
        """
        own = self.named.mesh if self.named else None
        given = own if mesh is None else Mesh.of(mesh)
        if self.kind is ShardingKind.MAXIMAL:
            return () if given is None or given.size == 1 else None
        if self.kind not in {ShardingKind.TILED, ShardingKind.REPLICATED}:
            return None
        if self.named is not None and given == own:
            dims = [dim.axes for dim in self.named.dim_shardings]
            if all(axis.size is None for axes in dims for axis in axes):  # no sub-axes
                return spec_of_axes([tuple(axis.axis for axis in axes) for axes in dims])
        if self.kind is ShardingKind.REPLICATED:
            return ()
        if given is None or self.tile_assignment is None or len(self.subgroup_types) > 1:
            return None
        return partition_spec(given, self.tile_counts, self.tile_assignment)

    def __str__(self) -> str:
        return self.text

    def meaning(self) -> tuple[object, ...]:
        """Return a value that is equal for two shardings exactly if they have the same meaning.

        Not for a tuple, whose elements have meanings of their own.
        """
        tiles = self.tile_assignment
        reduction = self.reduction or "sum"
        if self.kind is not ShardingKind.TILED or tiles is None:
            return (self.kind, self.device, reduction)
        counts = self.tile_counts
        devices = _numbers_by_device(tiles, len(counts), self.subgroup_types)
        if len(set(devices.values())) == 1:
            return (ShardingKind.REPLICATED, None, reduction)
        last = max((place for place, count in enumerate(counts, 1) if count > 1), default=0)
        return (self.kind, counts[:last], reduction, devices)


def _tile_sizes(
    sharding: HloSharding, sizes: Sequence[int | None], shown: object
) -> tuple[int | None, ...]:
    """Return the sizes of one device's part of an array; `shown` is the array in messages."""
    if sharding.kind is not ShardingKind.TILED:
        return tuple(sizes)
    counts = sharding.tile_counts
    if len(counts) > len(sizes) or (len(counts) < len(sizes) and sharding.named is None):
        raise DumpMismatchError(
            f"sharding {sharding.text} is for {len(counts)} dimensions, {shown} has "
            + str(len(sizes))
        )
    pairs = itertools.zip_longest(sizes, counts, fillvalue=1)
    return tuple(None if size is None else -(-size // (count or 1)) for size, count in pairs)


def _printed(sharding: HloSharding) -> str:
    """Return a sharding as XLA prints it, without metadata except the reduction."""
    if sharding.kind is ShardingKind.TUPLE:
        texts = [one.text for one in sharding.elements]
        marks = [f"/*index={k}*/" * (k > 0 and k % 5 == 0) for k in range(len(texts))]
        return f"{{{', '.join(map(operator.add, marks, texts))}}}"
    if sharding.named is not None:
        return str(sharding.named)
    words = [] if sharding.shard_group is None else [sharding.shard_group]
    if sharding.reduction is not None:
        name = sharding.reduction.upper()
        words.append(f'metadata={{op_type="sdy::reduction_op" op_name="{name}"}}')
    if sharding.kind is ShardingKind.MAXIMAL:
        return f"{{{' '.join([f'maximal device={sharding.device}', *words])}}}"
    if sharding.kind is not ShardingKind.TILED or sharding.tile_assignment is None:
        return f"{{{' '.join([sharding.kind.value, *words])}}}"
    kinds = sharding.subgroup_types
    if kinds == (ShardingKind.REPLICATED,):
        words.insert(0, "last_tile_dim_replicate")
    elif kinds:
        words.insert(0, f"last_tile_dims={{{', '.join(kind.value for kind in kinds)}}}")
    return f"{{{' '.join([f'devices={sharding.tile_assignment.canonical()}', *words])}}}"


SHARDING_NAMES = {
    "SHARDING_OPEN": "a sharding",
    **dict.fromkeys(("SHARDING_KIND", "SHARDING_MAXIMAL"), "a kind of sharding"),
    "SHARDING_SUBGROUP": "a kind of subgroup",
    "SHARDING_GROUP": "'shard_as' or 'shard_like'",
    "SHARDING_METADATA": "'metadata='",
    "SHARDING_AXES": "'replicated=', 'unreduced=' or 'manual='",
    "SHARDING_REDUCTION": "a reduction",
    **MESH_NAMES,
}
"""Names of the terminals of sharding.lark for users."""

_REDUCTION = re.compile(r'op_type="sdy::reduction_op" op_name="(\w+)"')

_Part: TypeAlias = tuple[str, Any]
"""Name and value of a part of a sharding."""


@functools.lru_cache(maxsize=1 << 14)
def parse_sharding(text: str) -> HloSharding:
    """Return the sharding that a text prints; each distinct text is parsed once.

    Raises:
        DumpSyntaxError: If it is malformed; line and column are those within the text.
    """
    sharding: HloSharding = SHARDINGS.parse(text)
    return replace(sharding, text=text.strip())


class _ShardingRules(MeshRules):
    """Rules of sharding.lark to objects of the model.

    The text of a sharding inside a tuple is the one that XLA prints; its white space may differ
    from the source.
    """

    def sharding_tuple(self, *elements: HloSharding | None) -> HloSharding:
        return HloSharding(kind=ShardingKind.TUPLE, elements=tuple(present(elements)))

    def sharding_tiled(self, brace: str, *parts: _Part) -> HloSharding:
        """Return a sharding in V1 or V2 form; raises MisplacedError if a part occurs twice."""
        found, extra = _parts_by_name(brace, parts)
        kind: ShardingKind | None = found.pop("kind", None)
        device: int | None = found.pop("device", None)
        subgroups: tuple[ShardingKind, ...] = found.pop("subgroups", ())
        tiles: TileAssignment | None = found.pop("tiles", None)
        if sum(value is not None for value in (kind, device, tiles)) != 1:
            raise MisplacedError.at_token(
                brace, "expected one of a kind of sharding, a device and 'devices='"
            )
        if tiles is None and subgroups:
            raise MisplacedError.at_token(brace, "expected 'devices=' before its last dimensions")
        if device is not None:
            return HloSharding(kind=ShardingKind.MAXIMAL, device=device, **extra)
        if tiles is None:
            return HloSharding(kind=kind or ShardingKind.UNKNOWN, **extra)
        if len(subgroups) > len(tiles.dimensions):
            raise MisplacedError.at_token(
                brace, f"{len(subgroups)} kinds of subgroups for {len(tiles.dimensions)} dimensions"
            )
        sharding = HloSharding.tiled(tiles, subgroups)
        return replace(sharding, text="", **extra) if extra else sharding

    def sharding_named(self, brace: str, mesh: Mesh, *parts: _Part) -> HloSharding:
        found, extra = _parts_by_name(brace, parts)
        kind: ShardingKind | None = found.pop("kind", None)
        axes: dict[str, tuple[AxisRef, ...]] = {}
        for name in ("replicated", "unreduced", "manual"):
            listed = found.pop(name, (None, []))[1]
            if listed is None or (kind is not None and kind.value == name):
                axes[name] = tuple(AxisRef(axis=axis) for axis in mesh.axis_names)
            else:
                axes[name] = resolved(mesh, listed)
        named = NamedSharding(
            mesh=mesh,
            dim_shardings=tuple(
                DimensionSharding(axes=resolved(mesh, dim), is_open=is_open)
                for dim, is_open in found.pop("dims", [])
            ),
            replicated_axes=() if kind is ShardingKind.REPLICATED else axes["replicated"],
            unreduced_axes=axes["unreduced"],
            manual_axes=axes["manual"],
            reduction=extra.get("reduction"),
        )
        try:
            return replace(HloSharding.from_named(named), named=named, text="", **extra)
        except UsageError as error:
            raise MisplacedError.at_token(brace, str(error)) from error

    def sharding_short(self, brace: str, *parts: _Part) -> HloSharding:
        found, extra = _parts_by_name(brace, parts)
        if "device" in found:
            return HloSharding(kind=ShardingKind.MAXIMAL, device=found["device"], **extra)
        name, value = found.popitem()
        if name != "kind" and (name != "unreduced" or value[1]):
            raise MisplacedError.at_token(brace, "expected a mesh before its axes")
        return HloSharding(kind=value if name == "kind" else ShardingKind.UNREDUCED, **extra)

    def sharding_kind(self, kind: str) -> _Part:
        return "kind", ShardingKind(str(kind))

    sharding_whole = sharding_kind

    def sharding_maximal(self, _maximal: str, _device: str, device: str) -> _Part:
        return "device", whole_number(device)

    def sharding_devices(self, key: str, dimensions: Sizes, ids: Iota | Sizes) -> _Part:
        return "tiles", device_array(key, dimensions.values, ids)

    def sharding_last_replicate(self, _: str) -> _Part:
        return "subgroups", (ShardingKind.REPLICATED,)

    def sharding_last_dims(self, _: str, *kinds: str) -> _Part:
        return "subgroups", tuple(ShardingKind(str(kind)) for kind in kinds)

    def sharding_group(self, keyword: str, group_id: str) -> _Part:
        return "shard_group", f"{keyword} {whole_number(group_id)}"

    def sharding_metadata(self, text: str) -> _Part:
        return "metadata", text.partition("=")[2][1:-1]

    def sharding_dims(self, *dims: tuple[list[Axis], bool] | None) -> _Part:
        return "dims", present(dims)

    def sharding_dim(self, *parts: Axis | str | None) -> tuple[list[Axis], bool]:
        items = present(parts)
        axes = [item for item in items if isinstance(item, Axis)]
        return axes, len(axes) < len(items)

    def sharding_axes(self, key: str, reduction: str | None, axes: list[Axis] | None) -> _Part:
        return key[:-1], (None if reduction is None else str(reduction), axes)


def _parts_by_name(brace: str, parts: Sequence[_Part]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parts by name, apart from those that have no effect on where data is.

    Raises MisplacedError if one occurs twice.
    """
    found = dict(parts)
    if len(found) != len(parts):
        raise MisplacedError.at_token(brace, "a part of the sharding occurs twice")
    names = {"shard_group", "metadata"} & found.keys()
    extra: dict[str, Any] = {name: found.pop(name) for name in names}
    match = _REDUCTION.search(extra.get("metadata", ""))
    reduction = match[1].lower() if match else None
    reduction = found.get("unreduced", (None, None))[0] or reduction
    return found, extra | ({"reduction": reduction} if reduction else {})


SHARDINGS = SmallLanguage(
    "sharding", "hlo_tokens", "sharding", results=_ShardingRules(), names=SHARDING_NAMES
)


Meshes: TypeAlias = "Mapping[str, Mesh]"

MESHES = "xla.sdy.meshes"
SHARDING = "xla.sdy.sharding"
IN_SHARDINGS = "xla.sdy.in_shardings"
OUT_SHARDINGS = "xla.sdy.out_shardings"
MANUAL_AXES = "xla.sdy.manual_axes"
SHARDINGS_BEGIN = "#sdy.sharding"
TUPLE_ARGS_SHARDINGS = "xla.sdy.tuple_args_shardings"
TUPLE_RESULTS_SHARDINGS = "xla.sdy.tuple_results_shardings"

MANUAL_BODIES = (
    "xla.sdy.manual_computation_body",
    "xla.sdy.inlinable_manual_computation_body",
)
"""Prefixes of the names of shard_map bodies; shapes in them are those of one device."""

_BODY = r"<\[(?P<axes>[^\]]*)\](?:\s*,\s*device_ids\s*=\s*\[(?P<ids>[^\]]*)\])?>"
_MESH = lazy_pattern(rf"@?\"?(?P<name>[\w.$-]+)\"?\s*=\s*#sdy\.mesh{_BODY}")
_LOWERED = lazy_pattern(rf"sdy\.mesh\s+@\"?(?P<name>[\w.$-]+)\"?\s*=\s*{_BODY}")
_AXIS = re.compile(r'"([^"]*)"\s*=\s*(\d+)')

_SHARDING = lazy_pattern(rf'<(?:@"?(?P<name>[\w.$-]+)"?|mesh{_BODY})\s*,\s*(?P<rest>\[[^<>]*)>')
_PRIORITY = re.compile(r"(?<=\})p\d+")
_NAME = re.compile(r'"([^"]*)"')


def _meshes(pattern: re.Pattern[str], text: str) -> dict[str, Mesh]:
    found = ((match["name"], _mesh(match)) for match in pattern.finditer(text))
    return {name: mesh for name, mesh in found if mesh is not None}


def shardy_meshes(text: str) -> dict[str, Mesh]:
    """Return the meshes of an ``xla.sdy.meshes`` value by name, without those of no devices.

    >>> str(shardy_meshes('{mesh = #sdy.mesh<["data"=2, "model"=4]>}')["mesh"])
    "mesh['data'=2,'model'=4]"
    """
    return _meshes(_MESH, _plain(text))


def lowered_meshes(text: str) -> tuple[Mesh, ...]:
    """Return the meshes with axes of a program as lowered to MLIR (``sdy.mesh``), in text order.

    >>> [str(mesh) for mesh in lowered_meshes('sdy.mesh @mesh_0 = <["p"=4, "q"=2]>')]
    ["mesh['p'=4,'q'=2]"]
    """
    found = meshes_by_name(text).values()
    return tuple(dict.fromkeys(mesh for mesh in found if mesh.axis_names))


def meshes_by_name(text: str) -> dict[str, Mesh]:
    """Return the meshes of a program as lowered by name, without those of no devices."""
    return _meshes(_LOWERED, text)


def shardy_shardings(text: str, meshes: Meshes) -> tuple[HloSharding | None, ...]:
    """Return the shardings of ``#sdy.sharding<...>``, or of each in ``sharding_per_value``.

    >>> shardy_shardings('#sdy.sharding<@m, [{"x"}, {}]>', {"m": Mesh.of({"x": 4})})[0].text
    "{mesh['x'=4], [{'x'}, {}]}"
    """
    found: list[HloSharding | None] = []
    for match in _SHARDING.finditer(_plain(text)):
        mesh = meshes.get(match["name"]) if match["name"] else _mesh(match)
        found.append(None if mesh is None else _sharding(mesh, match["rest"]))
    return tuple(found)


def shardy_axes(text: str) -> tuple[str, ...]:
    """Return the axis names of ``#sdy<manual_axes{"x", "y"}>``."""
    return tuple(_NAME.findall(_plain(text)))


def _plain(text: str) -> str:
    return text.replace("\\22", '"').replace('\\"', '"')


def _mesh(match: re.Match[str]) -> Mesh | None:
    """Return a mesh; None for one without devices, or with too many."""
    sizes = {name: bounded_int(size) for name, size in _AXIS.findall(match["axes"])}
    ids = [bounded_int(number) for number in re.findall(r"\d+", match["ids"] or "")]
    if not sizes:
        return Mesh.maximal(ids[0]) if ids else Mesh()
    if not 0 < math.prod(sizes.values()) <= MOST_DEVICES:
        return None
    assignment = None
    if len(ids) == math.prod(sizes.values()) and ids != sorted(ids):
        assignment = TileAssignment(dimensions=(*sizes.values(),), device_ids=tuple(ids))
    return replace(Mesh.of(sizes), device_assignment=assignment)


def _sharding(mesh: Mesh, rest: str) -> HloSharding | None:
    """Return a sharding on a mesh; None if its axes are not those of the mesh."""
    if not mesh.axis_names and not mesh.is_maximal:
        return None
    dims = _PRIORITY.sub("", rest).replace('"', "'")
    try:
        return HloSharding.parse(f"{{{mesh}}}" if mesh.is_maximal else f"{{{mesh}, {dims}}}")
    except DumpSyntaxError:
        return None
