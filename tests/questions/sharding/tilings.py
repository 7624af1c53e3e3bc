"""Random tilings."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from hlo_lens import HloSharding
from hlo_lens.shapes.mesh import TileAssignment
from hlo_lens.shapes.named_sharding import ShardingKind


@st.composite
def tiled(draw: st.DrawFn) -> HloSharding:
    """Return a tiling of one to three dimensions with subgroups, listed or as an iota."""
    dimensions = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    count = math.prod(dimensions)
    order = tuple(draw(st.permutations(range(len(dimensions)))))
    view = tuple(draw(st.permutations(dimensions)))
    tiles = TileAssignment(dimensions=dimensions, reshape_dims=view, transpose_perm=order)
    if draw(st.booleans()):
        ids = tuple(draw(st.permutations(range(count))))
        tiles = TileAssignment(dimensions=dimensions, device_ids=ids)
    kinds = [ShardingKind.REPLICATED, ShardingKind.MANUAL, ShardingKind.UNREDUCED]
    uses = draw(st.lists(st.sampled_from(kinds), max_size=len(dimensions) - 1))
    return HloSharding.tiled(tiles, tuple(uses))
