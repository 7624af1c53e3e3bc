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
