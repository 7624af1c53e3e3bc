"""Placement of parameters and outputs: global shape, shape on one device, and sharding.

A sharding comes from the texts of the dump (`module_shardings`) and counts only if it divides the
global shape into the device's shape: a program may leave the sharding of results to XLA, and then
the text before optimizations has the requested sharding, not the actual one.

Where no text has the sharding of a value, its shapes give the number of tiles of each dimension; if
the axes of a known mesh can divide it in exactly one way, that is the sharding, and its `source`
is ``shapes``.

An output without a sharding in any text, and without a global shape, that has the buffer of a
parameter gets that parameter's placement (`source` is ``alias``): JAX names both in
``input_output_alias`` only if they agree (jax/_src/interpreters/mlir.py, _set_up_aliases). Not so
where the header leaves the shardings of outputs to XLA (``allow_spmd_sharding_propagation_to_
output``): XLA itself then finds aliases, by the bytes of one device, and the shardings may differ.

Global shapes that no text has are computed as tiles times the device's shape: an upper bound where
a dimension is divided, since the last tile may be short. (JAX divides parameters and results evenly
or refuses to.)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, fields
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.partition_spec import partition_spec_text
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.program.signature import EntryValue
    from hlo_lens.questions.sharding.sources import EntryText, Key, ModuleShardings
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.partition_spec import PartitionSpec
    from hlo_lens.shapes.shape import Shape


SHAPES = "shapes"
"""Source of a sharding inferred from the shapes alone."""

ARGUMENTS = "arguments"
"""Source of a sharding that the framework reports for its arguments and results."""

ALIAS = "alias"
"""Source of an output's sharding taken from the parameter whose buffer it shares."""

_LEFT_TO_XLA = "allow_spmd_sharding_propagation_to_output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Shapes and sharding of values; values that agree in both share one placement.

    Attributes:
        global_shape: Shape of the whole; None if unknown.
        device_shape: Shape of one device's part; None if unknown.
        is_upper_bound: Whether the global shape was computed and may be smaller.
        sharding: Sharding over the devices; None if unknown.
        source: Source of the sharding: ``arguments``, ``text``, ``before_optimizations``,
            ``shapes``, ``alias`` or None.
        spec: The sharding over `mesh`; None where there is no mesh or no spec.
        mesh: The mesh of `spec`.
        replication_factor: Number of devices that hold each element.
    """

    global_shape: Shape | None
    device_shape: Shape | None
    is_upper_bound: bool = False
    sharding: HloSharding | None = None
    source: str | None = None
    spec: PartitionSpec | None = None
    mesh: Mesh | None = None
    replication_factor: int | None = None


def placements_of(found: ModuleShardings) -> list[Placement]:
    """Return the placement of each parameter and output, in the order of the signature."""
    known = _Placements(found)
    placements = [known.of(key, value) for key, value in found.own.items()]
    if "true" not in found.own.module.header.get(_LEFT_TO_XLA, ""):
        _place_as_their_parameters(found.own.signature.values, placements)
    return placements


def _place_as_their_parameters(values: Sequence[EntryValue], placements: list[Placement]) -> None:
    """Give outputs of unknown sharding the placement of the parameters whose buffers they have."""
    unknown = {
        place: alias
        for place, placement in enumerate(placements)
        if placement.sharding is None and placement.global_shape is None
        if (alias := values[place].aliased_with) is not None
    }
    if not unknown:
        return
    parameters = {
        f"{value.number}{value.index}": placement
        for value, placement in zip(values, placements, strict=True)
        if value.number is not None
    }
    known: dict[int, Placement] = {}
    for place, alias in unknown.items():
        parameter = parameters.get(alias)
        if parameter is not None and _are_of_one_shape(placements[place], parameter):
            if id(parameter) not in known:
                known[id(parameter)] = dataclasses.replace(parameter, source=ALIAS)
            placements[place] = known[id(parameter)]


def _are_of_one_shape(output: Placement, parameter: Placement) -> bool:
    """Return whether devices hold arrays of one shape and type, and one sharding is known."""
    one, other = output.device_shape, parameter.device_shape
    if one is None or other is None or parameter.sharding is None:
        return False
    return (one.element_type, one.dimensions) == (other.element_type, other.dimensions)


class _Placements:
    """Finder of placements that computes each distinct one once."""

    def __init__(self, found: ModuleShardings) -> None:
        self._found = found
        self._other = {} if found.before is None else dict(found.before.items())
        self._specs: dict[str, tuple[PartitionSpec | None, Mesh | None]] = {}
        self._same: dict[tuple[str, str], bool] = {}
        self._placements: dict[tuple[object, ...], Placement] = {}

    def of(self, key: Key, value: EntryValue) -> Placement:
        """Return the placement of a value."""
        found = self._found
        other = self._other.get(key)
        said = [found.own.sharding(key, value), found.own.shardy.get(key)]
        if found.before is not None:
            said += [found.before.sharding(key, other), found.before.shardy.get(key)]
        told = found.own.told.get(key)
        like = (
            *((told.shape, told.sharding) if told is not None else ()),
            *(value.shape, value.layout),
            *((other.shape, other.layout) if other is not None else ()),
            *map(id, said),
        )
        known = self._placements.get(like)
        if known is None:
            known = self._placements[like] = self._new(key, value)
        return known

    def _new(self, key: Key, value: EntryValue) -> Placement:
        """Compute the placement of a value with new shapes or shardings."""
        found = self._found
        own = _shape_of(found.own, value)
        other = self._other.get(key)
        before = None if other is None or found.before is None else _shape_of(found.before, other)
        whole, part = (before, own) if found.is_per_device else (own, None)
        if whole is None and (told := found.own.told.get(key)) is not None:
            whole = told.shape
        if whole is not None and part is not None and whole.rank == part.rank:
            whole = dataclasses.replace(whole, layout=part.layout)  # int4 is packed by layout
        sharding, source = self._sharding(key, value, whole, part)
        is_upper_bound = False
        if part is None and whole is not None:
            part = _part_of(sharding, whole) if found.num_devices != 1 else whole
        elif whole is None and part is not None:
            whole = _whole_of(sharding, part) if found.num_devices != 1 else part
            is_upper_bound = whole is not None and whole != part
        if sharding is None and whole is not None and part is not None:
            sharding = _by_shapes(whole, part, found.meshes)
            source = None if sharding is None else SHAPES
        spec, mesh = (None, None) if sharding is None else self._spec(key, value, sharding)
        return Placement(
            global_shape=whole,
            device_shape=part,
            is_upper_bound=is_upper_bound,
            sharding=sharding,
            source=source,
            spec=spec,
            mesh=mesh,
            replication_factor=_copies(sharding, found.num_devices),
        )

    def _sharding(
        self, key: Key, value: EntryValue, whole: Shape | None, part: Shape | None
    ) -> tuple[HloSharding | None, str | None]:
        """Return the first sharding that fits the shapes, and its source."""
        own = self._found.own
        for sharding in self._said(key, value):
            if whole is not None and part is not None and not _fits(sharding, whole, part):
                continue
            told = own.told.get(key)
            if told is not None and sharding is told.sharding:
                return sharding, ARGUMENTS
            is_own = sharding in (own.sharding(key, value), own.shardy.get(key))
            return sharding, "text" if is_own else "before_optimizations"
        return None, None

    def _said(self, key: Key, value: EntryValue) -> list[HloSharding]:
        return self._found.shardings_of(key, value, self._other.get(key))

    def _spec(
        self, key: Key, value: EntryValue, sharding: HloSharding
    ) -> tuple[PartitionSpec | None, Mesh | None]:
        """Return a sharding over the mesh of the program.

        An equivalent spelling with axis names comes first: it has axes of size 1 too.
        """
        if not self._found.is_given:
            for other in self._said(key, value):
                if other.named is not None and self._are_same(other, sharding):
                    spec = other.to_partition_spec()
                    if spec is not None:
                        return spec, other.named.mesh
        if sharding.text not in self._specs:
            self._specs[sharding.text] = _spec_over(sharding, self._found.meshes)
        return self._specs[sharding.text]

    def _are_same(self, one: HloSharding, other: HloSharding) -> bool:
        pair = (one.text, other.text)
        if pair not in self._same:
            self._same[pair] = one.equivalent(other)
        return self._same[pair]


def _shape_of(text: EntryText, value: EntryValue) -> Shape | None:
    """Return a value's shape with its layout."""
    if value.shape is None:
        return None
    try:
        return text.module.reader.shape(f"{value.shape}{value.layout or ''}")
    except DumpSyntaxError:
        return None


def _spec_over(
    sharding: HloSharding, meshes: Sequence[Mesh]
) -> tuple[PartitionSpec | None, Mesh | None]:
    """Return a sharding over the first mesh whose axes give its devices."""
    for mesh in meshes:
        if mesh.axis_names and sharding.num_devices in (None, mesh.size):
            spec = sharding.to_partition_spec(mesh)
            if spec is not None:
                return spec, mesh
    return None, None


def _copies(sharding: HloSharding | None, num_devices: int) -> int | None:
    """Return the number of devices that hold each element; 1 on one device, however sharded."""
    if sharding is None:
        return 1 if num_devices == 1 else None
    return sharding.replication_factor(num_devices)


def _fits(sharding: HloSharding, whole: Shape, part: Shape) -> bool:
    """Return whether a sharding divides the global shape into the device's shape."""
    made = _part_of(sharding, whole)
    return made is not None and made.dimensions == part.dimensions


def _part_of(sharding: HloSharding | None, whole: Shape) -> Shape | None:
    if sharding is None or sharding.kind is ShardingKind.TUPLE:
        return None
    try:
        return sharding.shard_shape(whole)
    except (DumpMismatchError, UsageError):
        return None


def _whole_of(sharding: HloSharding | None, part: Shape) -> Shape | None:
    """Return the largest global shape that a sharding divides into this part."""
    if sharding is None or sharding.kind is ShardingKind.TUPLE:
        return None
    counts = sharding.tile_counts if sharding.kind is ShardingKind.TILED else ()
    if len(counts) > part.rank:
        return None
    counts += (1,) * (part.rank - len(counts))
    pairs = zip(part.dimensions, counts, strict=True)
    sizes = tuple(None if size is None else size * count for size, count in pairs)
    return dataclasses.replace(part, dimensions=sizes)


# ---- shardings inferred from shapes -----------------------------------------------------------


def _by_shapes(whole: Shape, part: Shape, meshes: Sequence[Mesh]) -> HloSharding | None:
    """Return the sharding over the only mesh that gives these shapes, if there is just one."""
    if len(meshes) != 1 or not meshes[0].axis_names or whole.rank != part.rank:
        return None
    counts = []
    for size, length in zip(whole.dimensions, part.dimensions, strict=True):
        if size is None or not length:
            if size != length:
                return None
            counts.append(1)
            continue
        count = -(-size // length)
        if -(-size // count) != length:
            return None
        counts.append(count)
    mesh = meshes[0]
    sizes = {n: s for n, s in zip(mesh.axis_names, mesh.axis_sizes, strict=True) if s > 1}
    ways = _ways(counts, sizes)
    if len(ways) != 1 or any(len(axes) > 1 for axes in ways[0]):
        return None  # several axes on one dimension have an order, which shapes do not show
    spec = tuple(axes[0] if axes else None for axes in ways[0])
    return HloSharding.from_partition_spec(mesh, spec, rank=whole.rank)


def _ways(counts: Sequence[int], sizes: Mapping[str, int]) -> list[tuple[tuple[str, ...], ...]]:
    """Return ways to divide dimensions into these tile counts by different axes, two at most."""
    if not counts:
        return [()]
    found: list[tuple[tuple[str, ...], ...]] = []
    for number in range(len(sizes) + 1) if counts[0] > 1 else (0,):
        for axes in combinations(sizes, number):
            if prod(sizes[name] for name in axes) != counts[0]:
                continue
            rest = {name: size for name, size in sizes.items() if name not in axes}
            found += [(axes, *way) for way in _ways(counts[1:], rest)]
            if len(found) > 1:
                return found[:2]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedValue(Placement):
    """Placement of one parameter or output, or of a leaf of one.

    Attributes:
        value: Name, donation and layout, as in the text of the dump.
        cells: Cells of the placement in the table, computed once for equal placements.
    """

    value: EntryValue
    cells: Row = field(repr=False, compare=False)

    @property
    def global_bytes(self) -> int | None:
        """Bytes of the whole value, once."""
        return None if self.global_shape is None else self.global_shape.size_bytes

    @property
    def device_bytes(self) -> int | None:
        """Bytes of one device's part, its share of uneven tiles included."""
        return None if self.device_shape is None else self.device_shape.size_bytes

    @property
    def padded_device_bytes(self) -> int | None:
        """The same with the padding of tiles."""
        return None if self.device_shape is None else self.device_shape.padded_size_bytes

    @property
    def is_in_host_memory(self) -> bool:
        """Whether its layout is of host memory, which is the device's on CPU."""
        return self.device_shape is not None and self.device_shape.is_in_host_memory

    @property
    def spec_text(self) -> str | None:
        """The spec as JAX prints it."""
        return None if self.spec is None else partition_spec_text(self.spec)


@dataclass(frozen=True, kw_only=True)
class ShardingTable(Result):
    """Parameters by number, then outputs by index.

    Attributes:
        values: One for each array.
        num_devices: Partitions of the program.
        meshes: Meshes that specs are over.
    """

    KIND: ClassVar[str] = "sharding-table"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("kind", Unit.NONE, "parameter or output"),
        Column("number", Unit.NONE, "parameter number"),
        Column("index", Unit.NONE, "shape index of the leaf"),
        Column("name", Unit.NONE, "argument name, or the instruction that computes the value"),
        Column("global_shape", Unit.NONE, "shape of the whole"),
        Column("device_shape", Unit.NONE, "shape of one device's part"),
        Column("global_bytes", Unit.BYTES, "bytes of the whole, once"),
        Column("device_bytes", Unit.BYTES, "bytes of one device's part"),
        Column("padded_device_bytes", Unit.BYTES, "the same with the padding of tiles"),
        Column("spec", Unit.NONE, "partition spec over the known mesh"),
        Column("sharding", Unit.NONE, "sharding as written"),
        Column(
            "sharding_source", Unit.NONE, "arguments, text, before_optimizations, shapes, alias"
        ),
        Column("replication_factor", Unit.COUNT, "devices that hold each element"),
        Column("is_upper_bound", Unit.NONE, "whether the global shape may be smaller"),
        Column("donation", Unit.NONE, "may-alias, must-alias or donor"),
        Column("aliased_with", Unit.NONE, "value that shares its buffer"),
    )
    RECORDS: ClassVar[str] = "values"
    values: tuple[ShardedValue, ...]
    num_devices: int
    meshes: tuple[Mesh, ...]

    def rows(self) -> Iterator[Row]:
        """Yield parameters, then outputs."""
        for value in self.values:
            yield sharded_row(value)

    @property
    def parameters(self) -> tuple[ShardedValue, ...]:
        """The parameters."""
        return tuple(v for v in self.values if v.value.kind == "parameter")

    @property
    def outputs(self) -> tuple[ShardedValue, ...]:
        """The outputs."""
        return tuple(v for v in self.values if v.value.kind == "output")

    @property
    def unknown(self) -> tuple[ShardedValue, ...]:
        """Values of a program of several devices whose sharding is not known."""
        if self.num_devices == 1:
            return ()
        return tuple(v for v in self.values if v.sharding is None)


def sharded_row(value: ShardedValue) -> Row:
    """Return the row of a value."""
    entry = value.value
    head = (entry.kind, entry.number, entry.index, entry.name)
    return (*head, *value.cells, entry.donation, entry.aliased_with)


def _cells(placement: Placement) -> Row:
    """Return the cells of a placement, from ``global_shape`` to ``is_upper_bound``."""
    whole, part = placement.global_shape, placement.device_shape
    return (
        _text(whole),
        _text(part),
        None if whole is None else whole.size_bytes,
        None if part is None else part.size_bytes,
        None if part is None else part.padded_size_bytes,
        None if placement.spec is None else partition_spec_text(placement.spec),
        None if placement.sharding is None else placement.sharding.text,
        placement.source,
        placement.replication_factor,
        placement.is_upper_bound,
    )


def _text(shape: Shape | None) -> str | None:
    return None if shape is None else shape.to_text(layout=False)


def sharding_table(found: ModuleShardings) -> ShardingTable:
    """Return the table of parameters and outputs with their placements."""
    values, placements = found.own.signature.values, placements_of(found)
    names = [one.name for one in fields(Placement)]
    known: dict[int, dict[str, Any]] = {}

    def sharded(value: EntryValue, placement: Placement) -> ShardedValue:
        parts = known.get(id(placement))
        if parts is None:
            parts = {name: getattr(placement, name) for name in names}
            parts["cells"] = _cells(placement)
            known[id(placement)] = parts
        return ShardedValue(value=value, **parts)

    return ShardingTable(
        values=tuple(map(sharded, values, placements)),
        num_devices=found.num_devices,
        meshes=found.meshes,
    )
