"""Partition specs, and shardings by mesh axes (V3) with the devices that they name.

Sources: xla/hlo/ir/named_sharding.cc, xla/hlo/ir/hlo_sharding.cc (V3ToV2Sharding), as of August
2026; jax/_src/sharding_impls.py (parse_flatten_op_sharding, unflatten_array) of jax 0.10.2: the
steps and their order are the same, so that the results are.
"""

from __future__ import annotations

import ast
import enum
import math
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hlo_lens.shapes.mesh import AxisRef, Mesh, TileAssignment, nested_loops
from hlo_lens.text.errors import UsageError
from hlo_lens.text.names import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.shapes.mesh import Mesh, TileAssignment


PartitionSpec: TypeAlias = tuple[str | tuple[str, ...] | None, ...]
"""For each dimension: not divided, divided by one mesh axis, or by several, most major first."""


def partition_spec(
    mesh: Mesh, tile_counts: Sequence[int], tiles: TileAssignment
) -> PartitionSpec | None:
    """Return the mesh axes that divide each dimension; None if no axes match these devices.

    Dimensions of `tiles` beyond those of `tile_counts` are ignored.
    """
    order = _axis_order(mesh, tiles)
    if order is None:
        return None
    axes = iter(order)
    entries: list[tuple[str, ...]] = []
    for tiles_left in tile_counts:
        count, names = tiles_left, []
        while count > 1:
            name, size = next(axes, ("", 0))
            if not size or count % size:
                return None
            count //= size
            names.append(name)
        entries.append(tuple(names))
    return spec_of_axes(entries)


def spec_of_axes(axes: list[tuple[str, ...]]) -> PartitionSpec:
    """Return the partition spec of the axes of each dimension, without undivided ones at the end.

    >>> spec_of_axes([("x",), (), ("y", "z"), ()])
    ('x', None, ('y', 'z'))
    """
    while axes and not axes[-1]:
        axes.pop()
    return tuple(names[0] if len(names) == 1 else names or None for names in axes)


def axes_of_entry(entry: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the axes of one entry of a partition spec, which divide one dimension.

    >>> axes_of_entry("x"), axes_of_entry(("x", "y")), axes_of_entry(None)
    (('x',), ('x', 'y'), ())
    """
    return (entry,) if isinstance(entry, str) else tuple(entry or ())


def partition_spec_text(spec: PartitionSpec) -> str:
    """Return a partition spec as JAX prints it since 0.7.

    >>> partition_spec_text((None, ("x", "y"))), partition_spec_text(("x",))
    ("P(None, ('x', 'y'))", "P('x',)")
    """
    return f"P{spec!r}"


def written_spec(spec: PartitionSpec) -> str:
    """Return a partition spec as one writes it: without dimensions that end it undivided.

    >>> written_spec(("x", None)), written_spec((None, ("x", "y"))), written_spec((None,))
    ("P('x')", "P(None, ('x', 'y'))", 'P()')
    """
    last = max((k for k, one in enumerate(spec) if one), default=-1)
    return partition_spec_text(tuple(spec[: last + 1])).replace(",)", ")")


_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_SPEC_WORD = lazy_pattern(rf"{_QUOTED}|(?<![\w.'\"])([A-Za-z_][\w.]*)(?![\w.'\"])")
"""A string, which may be any axis, or a name without quotes."""


def read_partition_spec(text: str) -> PartitionSpec:
    """Return the partition spec of a text: ``x,None``, ``('x','y'),None``, ``P('x')``.

    Quotes are optional, and so are ``P`` and its parentheses. A tuple that is no group of axes is
    the whole spec, as ``str(tuple(spec))`` prints it: ``('x', None)``.

    Raises:
        UsageError: If it is malformed.

    >>> read_partition_spec("(x,y),None"), read_partition_spec("P('x')"), read_partition_spec("")
    ((('x', 'y'), None), ('x',), ())
    """
    call = re.fullmatch(r"\s*(?:P|PartitionSpec)\((.*)\)\s*", text, re.DOTALL)
    inner = (call[1] if call else text).strip().removesuffix(",").strip()
    words = _SPEC_WORD.sub(lambda m: m[0] if m[1] in (None, "None") else repr(m[1]), inner)
    message = f"not a partition spec: {text!r}; write it like x,None or ('x','y'),None"
    if re.search(r"""[\w'"]\s+[\w'"]""", re.sub(_QUOTED, "''", words)):
        raise UsageError(message)
    try:
        with warnings.catch_warnings(action="error", category=SyntaxWarning):  # 0in: 0 in ...
            found: object = ast.literal_eval(f"({words},)" if words else "()")
    except (
        SyntaxError,
        SyntaxWarning,
        ValueError,
        TypeError,
        MemoryError,
        RecursionError,
    ) as error:
        raise UsageError(message) from error
    if isinstance(found, tuple) and len(found) == 1 and isinstance(whole := found[0], tuple):
        is_spec = any(entry is None or isinstance(entry, tuple) for entry in whole)
        found = whole if is_spec else found  # no group of axes has None or a group
    entries: list[str | tuple[str, ...] | None] = []
    for entry in found if isinstance(found, tuple) else ():
        if isinstance(entry, (tuple, list)) and all(isinstance(axis, str) for axis in entry):
            entries.append(tuple(entry) if entry else None)
        elif entry is None or isinstance(entry, str):
            entries.append(entry)
        else:
            raise UsageError(message)
    return tuple(entries)


def _axis_order(mesh: Mesh, tiles: TileAssignment) -> list[tuple[str, int]] | None:
    """Return names and sizes of the axes in the order whose nested loops give the devices."""
    devices = tiles.devices()
    if mesh.device_assignment is not None:
        places = {device: place for place, device in enumerate(mesh.device_ids)}
        devices = tuple(places.get(device, -1) for device in devices)
    loops = nested_loops(devices) if len(devices) == mesh.size else None
    if loops is None:
        return None
    by_stride: dict[int, tuple[str, int]] = {}
    stride = mesh.size
    for name, size in mesh.sizes.items():
        if size != 1:
            stride //= size
            by_stride[stride] = name, size
    order: list[tuple[str, int]] = []
    for whole, first_stride in loops:  # innermost first
        size, stride = whole, first_stride
        while size > 1:
            axis = by_stride.get(stride)
            if axis is None or size % axis[1]:
                return None
            order.append(axis)
            size //= axis[1]
            stride *= axis[1]
    return order[::-1]


class ShardingKind(enum.Enum):
    """Kind of a sharding, or of a subgroup of devices that share a tile."""

    REPLICATED = "replicated"
    MAXIMAL = "maximal"
    MANUAL = "manual"
    UNKNOWN = "unknown"
    UNREDUCED = "unreduced"
    TILED = "tiled"
    TUPLE = "tuple"


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionSharding:
    """Mesh axes that divide a dimension, most major first.

    `is_open`: propagation may add axes (``?``); no effect on the placement of data.
    """

    axes: tuple[AxisRef, ...] = ()
    is_open: bool = False

    def __str__(self) -> str:
        return f"{{{', '.join([*map(str, self.axes), *(['?'] if self.is_open else [])])}}}"


class Tiles(NamedTuple):
    """A sharding as an array of devices: tiles, then subgroups of devices that share a tile."""

    kind: ShardingKind
    tiles: TileAssignment | None = None
    subgroup_types: tuple[ShardingKind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSharding:
    """A sharding by mesh axes (V3).

    Attributes:
        dim_shardings: One for each dimension; missing ones at the end are not divided.
        replicated_axes: Axes that must not be used.
        unreduced_axes: Axes along which partial results are not summed yet.
        manual_axes: Axes along which the program works on its own part.
        reduction: Reduction along unreduced axes, if printed: ``max``.
    """

    mesh: Mesh
    dim_shardings: tuple[DimensionSharding, ...] = ()
    replicated_axes: tuple[AxisRef, ...] = ()
    unreduced_axes: tuple[AxisRef, ...] = ()
    manual_axes: tuple[AxisRef, ...] = ()
    reduction: str | None = None

    def to_tiles(self) -> Tiles:
        """Return the same sharding as an array of devices.

        Raises:
            UnknownNameError: If an axis is not in the mesh.
            UsageError: If axes overlap, or sub-axes do not divide their axis.
        """
        mesh = self.mesh
        if mesh.is_maximal:
            return Tiles(ShardingKind.MAXIMAL)
        dims = [dim.axes for dim in self.dim_shardings]
        kinds = (self.manual_axes, self.unreduced_axes, self.replicated_axes)
        axes = [axis for group in (*dims, *kinds) for axis in group]
        split = mesh.split(axes)
        groups = dict(zip(axes, split.groups, strict=True))
        parts = [[part for axis in group for part in groups[axis]] for group in (*dims, *kinds)]
        parts[-1] = sorted((*parts[-1], *split.rest))
        sizes = [math.prod(split.sizes[part] for part in group) for group in parts]
        subgroups = [
            (kind, size)
            for kind, size in zip(_SUBGROUP_ORDER, sizes[len(dims) :], strict=True)
            if size > 1
        ]
        dimensions = (*sizes[: len(dims)], *(size for _, size in subgroups))
        if math.prod(sizes[: len(dims)]) == 1 and len(subgroups) < 2:
            if subgroups or bool(self.manual_axes) == bool(self.unreduced_axes):
                return Tiles(subgroups[0][0] if subgroups else ShardingKind.REPLICATED)
            return Tiles(ShardingKind.MANUAL if self.manual_axes else ShardingKind.UNREDUCED)
        order = [part for group in parts for part in group]
        tiles = mesh.assignment.rearranged(split.sizes, order, dimensions)
        return Tiles(ShardingKind.TILED, tiles, tuple(kind for kind, _ in subgroups))

    def __str__(self) -> str:
        if self.mesh.is_maximal:
            return f"{{{self.mesh}}}"
        fields = [str(self.mesh), f"[{', '.join(map(str, self.dim_shardings))}]"]
        for name, axes in (
            ("replicated=", self.replicated_axes),
            (f"unreduced={self.reduction or ''}", self.unreduced_axes),
            ("manual=", self.manual_axes),
        ):
            if axes:
                fields.append(f"{name}{{{', '.join(map(str, axes))}}}")
        return f"{{{', '.join(fields)}}}"


_SUBGROUP_ORDER = (ShardingKind.MANUAL, ShardingKind.UNREDUCED, ShardingKind.REPLICATED)
"""Order of the subgroups in XLA's device array."""


def named_sharding(
    mesh: Mesh, spec: PartitionSpec, rank: int = 0, unreduced: Sequence[str] = ()
) -> NamedSharding:
    """Return the sharding of a partition spec; dimensions that it lacks are not divided."""
    dims = [() if e is None else (e,) if isinstance(e, str) else tuple(e) for e in spec]
    dims += [()] * (rank - len(dims))
    axes = [tuple(AxisRef(axis=name) for name in names) for names in (*dims, unreduced)]
    return NamedSharding(
        mesh=mesh,
        dim_shardings=tuple(DimensionSharding(axes=names) for names in axes[:-1]),
        unreduced_axes=axes[-1],
    )
