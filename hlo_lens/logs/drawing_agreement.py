"""Agreement of a sharding with a drawing: every device has the same tile.

One row of boxes is a value of one dimension, or one of two dimensions that is cut along the second.
A partition spec without a mesh is tried over the only mesh of the log; without any mesh in the log,
over meshes with the sizes of the drawing.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

from hlo_lens.logs.jax_values import JaxMesh
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.text.errors import HloLensError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.logs.jax_values import JaxValue, ShardingBoxes

_RANKS = (2, 1)
"""Dimensions of drawn values."""

_COPIES = "(copies)"
"""Axis of the devices that share a box, along which a spec does not cut."""


def agreeing_rank(value: JaxValue, boxes: ShardingBoxes, only_mesh: JaxMesh | None) -> int | None:
    """Return the dimensions with which a sharding agrees with a drawing; None if it does not.

    Args:
        value: The sharding, or a partition spec without a mesh.
        boxes: The drawing.
        only_mesh: Mesh for a spec that has none; None to try meshes of the drawing's sizes.
    """
    tiles = boxes.tiles()
    if tiles is None:
        return None
    if value.shape is not None:
        return value.shape.rank if _agrees(value, value.shape.rank, tiles, boxes) else None
    entries = () if value.spec is None else value.spec.entries
    for rank in _RANKS:
        if len(entries) > rank:
            continue
        candidates = _with_meshes(value, rank, boxes, only_mesh)
        if any(_agrees(one, rank, tiles, boxes) for one in candidates):
            return rank
    return None


def _with_meshes(
    value: JaxValue, rank: int, boxes: ShardingBoxes, only_mesh: JaxMesh | None
) -> Iterator[JaxValue]:
    """Yield a value as it is, or a bare spec over each mesh that it may have."""
    if value.kind != "PartitionSpec" or value.spec is None or value.mesh is not None:
        yield value
    elif only_mesh is not None:
        yield replace(value, mesh=only_mesh)
    else:
        for mesh in _meshes_of(value.spec.entries, rank, boxes):
            yield replace(value, mesh=JaxMesh(mesh=mesh))


def _meshes_of(entries: tuple[object, ...], rank: int, boxes: ShardingBoxes) -> Iterator[Mesh]:
    """Yield the meshes over which a spec of single axes can give a drawing, in any order of axes.

    A drawing of one device says nothing of a mesh.
    """
    counts = (boxes.rows, boxes.columns)[2 - rank :]
    sizes: dict[str, int] = {}
    for entry, count in zip((*entries, *[None] * (rank - len(entries))), counts, strict=True):
        axes = entry if isinstance(entry, tuple) else (entry,)
        if len(axes) != 1 or (axes[0] is None) != (count == 1) or axes[0] in sizes:
            return
        if axes[0] is not None:
            sizes[str(axes[0])] = count
    copies = len(boxes.cells[0].devices or ())
    if copies * len(boxes.cells) < 2:
        return
    if copies > 1:
        sizes[_COPIES] = copies
    for order in permutations(sizes):
        yield Mesh(axis_names=order, axis_sizes=tuple(sizes[name] for name in order))


def _agrees(
    value: JaxValue, rank: int, drawn: Mapping[int, tuple[int, int]], boxes: ShardingBoxes
) -> bool:
    """Whether a sharding of a value of a rank gives every device the tile in the drawing."""
    sharding = value.sharding(rank)
    if sharding is None or len(sharding.tile_counts) > rank or rank > max(_RANKS):
        return False
    if (boxes.rows, boxes.columns) != (1, 1, *sharding.tile_counts)[-2:]:
        return False
    devices = set(sharding.devices())
    if devices and devices != set(drawn):
        return False
    try:
        return all((0, 0, *sharding.tile_of(device))[-2:] == tile for device, tile in drawn.items())
    except HloLensError:
        return False
