"""One sharding in all spellings that XLA and JAX have for it.

V1 lists the devices, V2 writes them as an iota, V3 names mesh axes, JAX has a mesh and a
PartitionSpec. Without a mesh, V3 and the PartitionSpec get a generated one: an axis for each step
between device ids, named ``axis_0`` and so on as XLA names its own axes
(xla/hlo/ir/mesh_and_axis.cc). All spellings are equal by `HloSharding.equivalent`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.shapes.mesh import AxisRef, Mesh
from hlo_lens.shapes.named_sharding import DimensionSharding, NamedSharding, ShardingKind
from hlo_lens.shapes.partition_spec import PartitionSpec, partition_spec_text
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.shapes.tile_assignment import TileAssignment

_OTHER_USES = {
    ShardingKind.REPLICATED: "replicated_axes",
    ShardingKind.UNREDUCED: "unreduced_axes",
    ShardingKind.MANUAL: "manual_axes",
}


@dataclass(frozen=True, kw_only=True)
class ShardingSpellings(Result):
    """Spellings of one sharding.

    Attributes:
        v1: With a list of devices.
        v2: With an iota; None if no iota has the devices in this order.
        v3: With mesh axes; None if mesh axes cannot express it (maximal, unknown, tuples).
        spec: The partition spec over `mesh`; None where there is none.
        mesh: The mesh of `v3` and `spec`; None where there is none.
        is_made_up: Whether the mesh and its names are generated.
    """

    KIND: ClassVar[str] = "sharding-spellings"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("form", Unit.NONE, "v1, v2, v3 or spec"),
        Column("text", Unit.NONE, "the sharding in this form; empty if it cannot express it"),
    )
    v1: str
    v2: str | None
    v3: str | None
    spec: PartitionSpec | None
    mesh: Mesh | None
    is_made_up: bool = False

    def rows(self) -> Iterator[Row]:
        """Yield the form and its text: v1, v2, v3 and spec, a PartitionSpec."""
        yield "v1", self.v1
        yield "v2", self.v2
        yield "v3", self.v3
        yield "spec", None if self.spec is None else partition_spec_text(self.spec)


def sharding_spellings(
    sharding: HloSharding, mesh: Mesh | None = None, *, rank: int | None = None
) -> ShardingSpellings:
    """Return a sharding in all spellings.

    Args:
        sharding: Any sharding but a tuple.
        mesh: Mesh for V3 and the partition spec; None for the sharding's own, or a generated one.
        rank: Dimensions of the value, for spellings that list each.
    """
    plain = sharding.to_v2()
    known = mesh or (sharding.named.mesh if sharding.named else None)
    is_made_up = known is None or not known.axis_names
    if known is None or is_made_up:
        named = _made_up(plain, rank)
        known = named.mesh if named else None
    else:
        named = _named(sharding, known, rank)
    # Two manual subgroups can divide the devices in an order that V3 cannot express, and jax does
    # not check whether the axes that it finds give these devices.
    v3 = None
    if named is not None and HloSharding.from_named(named).equivalent(plain):
        v3 = HloSharding.parse(str(named))
    spec = None if v3 is None else v3.to_partition_spec(known)
    return ShardingSpellings(
        v1=_with_tiles(plain, as_list=True) or plain.text,
        v2=_with_tiles(plain, as_list=False),
        v3=None if v3 is None else v3.text,
        spec=_padded(spec, rank),
        mesh=known,
        is_made_up=is_made_up and known is not None,
    )


def _with_tiles(plain: HloSharding, *, as_list: bool) -> str | None:
    """Return a sharding with its devices as a list or an iota; unchanged if it has none."""
    tiles = plain.tile_assignment
    if tiles is None or plain.kind is not ShardingKind.TILED:
        return plain.text
    written = tiles.as_list() if as_list else tiles.as_iota()
    if written is None:
        return None
    return replace(plain, tile_assignment=written, metadata="", text="").text


def _named(sharding: HloSharding, mesh: Mesh, rank: int | None) -> NamedSharding | None:
    """Return a sharding by the axes of a mesh; None if they cannot express it."""
    if sharding.named is not None and sharding.named.mesh == mesh:
        return sharding.named
    spec = sharding.to_partition_spec(mesh)
    if spec is not None:
        entries = [() if e is None else (e,) if isinstance(e, str) else e for e in spec]
        entries += [()] * (max(rank or 0, len(sharding.tile_counts)) - len(entries))
        dims = tuple(DimensionSharding(axes=tuple(AxisRef(axis=a) for a in e)) for e in entries)
        return NamedSharding(mesh=mesh, dim_shardings=dims)
    return _by_steps(sharding.to_v2(), mesh, rank)


def _by_steps(plain: HloSharding, mesh: Mesh, rank: int | None) -> NamedSharding | None:
    """Return a tiling by axes and sub-axes of a mesh whose devices are in order."""
    tiles = plain.tile_assignment
    steps = tiles.axes_of_dimensions() if tiles is not None else None
    if steps is None or mesh.device_assignment is not None or plain.num_devices != mesh.size:
        return None
    axes: list[list[AxisRef]] = []
    for group in steps:
        parts = [_parts_of_step(mesh, *step) for step in group]
        if None in parts:
            return None
        axes.append([axis for part in parts for axis in part or ()])
    return _with_uses(plain, mesh, axes, rank)


def _parts_of_step(mesh: Mesh, size: int, stride: int) -> list[AxisRef] | None:
    """Return the axes and sub-axes of `size` steps of `stride`, most major first."""
    found = []
    inner = mesh.size
    for name, whole in zip(mesh.axis_names, mesh.axis_sizes, strict=True):
        outer, inner = inner, inner // whole
        low, high = max(inner, stride), min(outer, stride * size)
        if low >= high:
            continue
        if outer % high or high % low or low % inner:
            return None
        is_whole = (low, high) == (inner, outer)
        sub = AxisRef(axis=name, pre_size=outer // high, size=high // low)
        found.append(AxisRef(axis=name) if is_whole else sub)
    return found


def _made_up(plain: HloSharding, rank: int | None) -> NamedSharding | None:
    """Return a tiling by the axes of a generated mesh."""
    tiles = plain.tile_assignment
    if tiles is None or plain.kind is not ShardingKind.TILED:
        return None
    steps = tiles.axes_of_dimensions()
    listed = None
    if steps is None:  # an axis for each dimension, over devices in this very order
        strides = [math.prod(tiles.dimensions[k + 1 :]) for k in range(len(tiles.dimensions))]
        pairs = zip(tiles.dimensions, strides, strict=True)
        steps = [[(size, stride)] if size > 1 else [] for size, stride in pairs]
        sizes = tuple(size for size in tiles.dimensions if size > 1)
        listed = TileAssignment(dimensions=sizes, device_ids=tiles.devices())
    order = sorted({step for group in steps for step in group}, key=lambda step: -step[1])
    axis_of = {step: AxisRef(axis=f"axis_{n}") for n, step in enumerate(order)}
    mesh = Mesh(
        axis_names=tuple(axis.axis for axis in axis_of.values()),
        axis_sizes=tuple(size for size, _ in order),
        device_assignment=listed,
    )
    return _with_uses(plain, mesh, [[axis_of[step] for step in group] for group in steps], rank)


def _with_uses(
    plain: HloSharding, mesh: Mesh, axes: list[list[AxisRef]], rank: int | None
) -> NamedSharding | None:
    """Return the sharding with these axes for its dimensions, then for its subgroups."""
    divided = len(plain.tile_counts)
    uses: dict[str, tuple[AxisRef, ...]] = {}
    for kind, group in zip(plain.subgroup_types, axes[divided:], strict=True):
        name = _OTHER_USES.get(kind)
        if name is None:
            return None
        if kind is not ShardingKind.REPLICATED:  # unnamed axes are replicated anyway
            uses[name] = tuple(sorted((*uses.get(name, ()), *group), key=lambda a: _place(mesh, a)))
    dims = [DimensionSharding(axes=tuple(group)) for group in axes[:divided]]
    dims += [DimensionSharding()] * ((rank or 0) - len(dims))
    return NamedSharding(
        mesh=mesh,
        dim_shardings=tuple(dims),
        unreduced_axes=uses.get("unreduced_axes", ()),
        manual_axes=uses.get("manual_axes", ()),
        reduction=plain.reduction if "unreduced_axes" in uses else None,
    )


def _place(mesh: Mesh, axis: AxisRef) -> tuple[int, int]:
    """Return the sort key of an axis in the mesh, XLA's order of the axes of a subgroup."""
    return mesh.axis_names.index(axis.axis), axis.pre_size or 1


def _padded(spec: PartitionSpec | None, rank: int | None) -> PartitionSpec | None:
    """Return a spec with None for the dimensions at the end that are not divided."""
    if spec is None:
        return None
    return (*spec, *(None,) * ((rank or 0) - len(spec)))
