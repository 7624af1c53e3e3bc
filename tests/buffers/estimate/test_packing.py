"""Offsets of chunks in a heap: XLA's rules on small cases, and invariants."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hlo_lens.buffers.estimate.heap_layout import Chunk, least_bytes, pack, pack_in_time
from tests.buffers.estimate.chunks import EVENTS, chunk, chunk_lists


def offsets(chunks: list[Chunk]) -> list[int]:
    return [each.offset for each in chunks]


def test_the_largest_is_placed_first_and_the_others_in_the_smallest_gap() -> None:
    chunks = [chunk(64, (0, 3)), chunk(256, (1, 2)), chunk(128, (0, 4), order=1)]
    assert pack(chunks, 64, 5) == 448
    assert offsets(chunks) == [384, 0, 256]


def test_chunks_that_live_apart_share_bytes() -> None:
    chunks = [chunk(100, (0, 1)), chunk(100, (2, 3), order=1), chunk(50, (1, 2), order=2)]
    assert pack(chunks, 64, 4) == 178
    assert offsets(chunks) == [0, 0, 128]


def test_a_chunk_with_a_pause_lets_others_in() -> None:
    chunks = [chunk(100, (0, 1), (6, 7)), chunk(100, (3, 4), order=1)]
    assert pack(chunks, 64, 8) == 100
    assert pack_in_time(chunks, 64, 8) == 228, "in time order, a chunk is held from first to last"


def test_in_time_each_takes_the_smallest_gap() -> None:
    chunks = [
        chunk(100, (0, 3)),
        chunk(20, (1, 9), order=1),
        chunk(40, (2, 5), order=2),
        chunk(30, (4, 8), order=3),
        chunk(35, (6, 8), order=4),
    ]
    assert pack_in_time(chunks, 10, 10) == 160
    assert offsets(chunks) == [0, 100, 120, 0, 30]


def test_no_chunks_need_no_heap() -> None:
    assert pack([], 64, 0) == pack_in_time([], 64, 0) == 0


def clashes(chunks: list[Chunk]) -> bool:
    """Whether two chunks hold a byte at one event."""
    for number, one in enumerate(chunks):
        for two in chunks[:number]:
            if one.offset < two.offset + two.size and two.offset < one.offset + one.size:
                pairs = ((a, b) for a in one.intervals for b in two.intervals)
                if any(a.start <= b.end and b.start <= a.end for a, b in pairs):
                    return True
    return False


@given(chunk_lists(), st.sampled_from([1, 64, 256]), st.sampled_from([pack, pack_in_time]))
def test_chunks_alive_at_once_are_disjoint(
    chunks: list[Chunk], alignment: int, rule: object
) -> None:
    assert callable(rule)
    size = rule(chunks, alignment, EVENTS)
    assert not clashes(chunks)
    assert all(each.offset % alignment == 0 for each in chunks)
    assert size == max((each.offset + each.size for each in chunks), default=0)
    assert size >= least_bytes(chunks, EVENTS)
