"""Shardings by mesh axes (V3), and the devices that they name.

Sources: xla/hlo/ir/named_sharding.cc, xla/hlo/ir/hlo_sharding.cc (V3ToV2Sharding), as of August
2026.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.shapes.mesh import AxisRef, Mesh
from hlo_lens.shapes.partition_spec import PartitionSpec, spec_of_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.shapes.tile_assignment import TileAssignment


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
    """Mesh axes that divide a dimension.

    Attributes:
        axes: Axes, most major first.
        is_open: Whether propagation may add axes (``?``); no effect on the placement of data.
    """

    axes: tuple[AxisRef, ...] = ()
    is_open: bool = False

    def __str__(self) -> str:
        return f"{{{', '.join([*map(str, self.axes), *(['?'] if self.is_open else [])])}}}"


class Tiles(NamedTuple):
    """A sharding as an array of devices.

    Attributes:
        kind: Tiled, or the kind of an undivided value.
        tiles: The devices of a tiled sharding: tiles, then subgroups.
        subgroup_types: Kind of each trailing dimension: devices that share a tile.
    """

    kind: ShardingKind
    tiles: TileAssignment | None = None
    subgroup_types: tuple[ShardingKind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSharding:
    """A sharding by mesh axes (V3).

    Attributes:
        mesh: The mesh.
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
            return Tiles(subgroups[0][0] if subgroups else self._kind_on_one_device())
        order = [part for group in parts for part in group]
        tiles = mesh.assignment.rearranged(split.sizes, order, dimensions)
        return Tiles(ShardingKind.TILED, tiles, tuple(kind for kind, _ in subgroups))

    def _kind_on_one_device(self) -> ShardingKind:
        """Return the kind if every axis has size 1, so that it does not follow from sizes."""
        if bool(self.manual_axes) == bool(self.unreduced_axes):
            return ShardingKind.REPLICATED
        return ShardingKind.MANUAL if self.manual_axes else ShardingKind.UNREDUCED

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


def spec_of_dimensions(dims: Sequence[DimensionSharding]) -> PartitionSpec | None:
    """Return the axes of each dimension as a partition spec; None if there are sub-axes."""
    if any(axis.size is not None for dim in dims for axis in dim.axes):
        return None
    return spec_of_axes([tuple(axis.axis for axis in dim.axes) for dim in dims])
