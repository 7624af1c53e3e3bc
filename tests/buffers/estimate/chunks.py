"""Chunks of a heap, fixed and generated."""

from __future__ import annotations

from hypothesis import strategies as st

from hlo_lens.buffers.estimate.heap_layout import Chunk, Interval

EVENTS = 300


def chunk(size: int, *intervals: tuple[int, int], order: int = 0) -> Chunk:
    return Chunk(size, order, [Interval(*interval) for interval in intervals])


@st.composite
def chunk_lists(draw: st.DrawFn) -> list[Chunk]:
    """Draw chunks with disjoint intervals."""
    found = []
    for order in range(draw(st.integers(0, 25))):
        ends = draw(st.lists(st.integers(0, EVENTS - 1), min_size=2, max_size=6, unique=True))
        ends = sorted(ends)[: len(ends) // 2 * 2]
        pairs = list(zip(ends[::2], ends[1::2], strict=True))
        found.append(chunk(draw(st.integers(1, 700)), *pairs, order=order))
    return found
