"""Numbers of tiles and subgroups by device, equal for shardings of one meaning."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hlo_lens.shapes.named_sharding import ShardingKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.shapes.tile_assignment import TileAssignment


def tiles_by_device(
    tiles: TileAssignment, rank: int, subgroup_types: Sequence[ShardingKind]
) -> Mapping[int, tuple[int, ...]] | None:
    """Return device to the numbers of its tile and subgroups; None if all have the same.

    Devices that replicate a tile have equal numbers.

    Args:
        tiles: The devices.
        rank: Number of its dimensions that divide the value; the others are subgroups.
        subgroup_types: Kind of each subgroup.
    """
    weights = _weights(tiles.dimensions, rank, subgroup_types)
    if not any(any(row) for row in weights):
        return None
    keys = (
        tuple(sum(w * i for w, i in zip(row, index, strict=True)) for row in weights)
        for index in itertools.product(*map(range, tiles.dimensions))
    )
    return dict(zip(tiles.devices(), keys, strict=True))


def _weights(
    dimensions: Sequence[int], rank: int, subgroup_types: Sequence[ShardingKind]
) -> list[list[int]]:
    """Return the weights by which each number of a device follows from its tile index.

    One number for each divided dimension, and one for each kind of subgroup except replicated.
    """
    divided = [dimension for dimension in range(rank) if dimensions[dimension] > 1]
    rows = [[int(other == this) for other in range(len(dimensions))] for this in divided]
    for kind in (ShardingKind.MANUAL, ShardingKind.UNREDUCED, ShardingKind.MAXIMAL):
        row = [0] * len(dimensions)
        weight = 1
        for place in range(len(dimensions) - 1, rank - 1, -1):
            if subgroup_types[place - rank] is kind and dimensions[place] > 1:
                row[place] = weight
                weight *= dimensions[place]
        rows.append(row)
    return rows


def divided_counts(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Return tile counts without trailing ones."""
    end = len(counts)
    while end and counts[end - 1] == 1:
        end -= 1
    return counts[:end]
