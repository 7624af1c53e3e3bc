"""Tiles and splits of layouts, and the padding that they add.

Sources: xla/shape_util.cc (ArraySize), xla/layout.cc, as of August 2026.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One level of tiling: ``T(8,128)``.

    Attributes:
        dimensions: Sizes, most major first; None (``*``) joins a dimension with the next minor one.
    """

    dimensions: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"({','.join('*' if size is None else str(size) for size in self.dimensions)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitConfig:
    """A dimension stored in parts: ``SC(0:2,4)``.

    Attributes:
        dimension: Which dimension is split.
        split_indices: Where each further part begins, ascending.
    """

    dimension: int
    split_indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dimension}:{','.join(map(str, self.split_indices))})"

    def largest_part(self, size: int) -> int:
        """Return the size of the largest part of a dimension of this size."""
        edges = (0, *self.split_indices, size)
        return max(end - start for start, end in itertools.pairwise(edges))


_LANES = 128


def smaller_tiles(tiles: Sequence[Tile], sizes: Sequence[int]) -> tuple[Tile, ...]:
    """Return the tiles of an array after it became smaller, as TPU compilers choose them.

    The rows of the first tile are a power of two that holds the rows of the array, at least as many
    as share a word; a tile of a vector is 128 of these long, or more: ``f32[3,256]{1,0:T(4,128)}``,
    ``bf16[1,256]{1,0:T(2,128)(2,1)}``, ``f32[200]{0:T(256)}``. So are 99 % of the arrays below a
    tile in texts of libtpu 0.0.42 to 0.0.52; the others have a larger tile.

    Args:
        tiles: Its tiles before.
        sizes: Its sizes now, minor first.
    """
    first = tiles[0].dimensions if tiles else ()
    if len(first) not in (1, 2) or len(sizes) < len(first) or first[0] is None:
        return tuple(tiles)
    rows = sizes[len(first) - 1]
    packed = tiles[-1].dimensions[0] or 1 if len(tiles) > 1 else 1
    least = packed if len(first) > 1 else packed * _LANES
    fitting = min(first[0], max(least, 1 << max(rows - 1, 0).bit_length()))
    return (Tile(dimensions=(fitting, *first[1:])), *tiles[1:])


def padded_count(sizes: Sequence[int], tile_sizes: Sequence[int | None], alignment: int) -> int:
    """Return the number of elements with padding.

    Args:
        sizes: Sizes of the dimensions, minor first.
        tile_sizes: Sizes of the first tile, major first.
        alignment: Multiple to which the number of elements is rounded up.
    """
    count = 1
    joined = 1
    tile = 1
    for position, tile_size in enumerate(reversed(tile_sizes)):
        size = sizes[position] if position < len(sizes) else 1
        if tile_size is None:
            joined *= size
        else:
            count *= _round_up(joined, tile)
            joined, tile = size, tile_size
    count *= _round_up(joined, tile)
    count *= math.prod(sizes[len(tile_sizes) :])
    return _round_up(count, alignment)


def _round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple that is not below a number; an alignment of 0 is none."""
    return -(-number // multiple) * multiple if multiple else number
