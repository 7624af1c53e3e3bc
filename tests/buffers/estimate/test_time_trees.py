"""Segment trees over time, against a simple count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from hlo_lens.buffers.estimate.heap_layout import BusyTimes, Interval, UsedBytes
from tests.buffers.estimate.chunks import EVENTS, chunk_lists

if TYPE_CHECKING:
    from hlo_lens.buffers.estimate.heap_layout import Chunk


@given(chunk_lists(), st.integers(0, EVENTS - 1), st.integers(0, EVENTS - 1))
def test_used_bytes_are_those_of_all_that_overlap(chunks: list[Chunk], one: int, two: int) -> None:
    used = UsedBytes(EVENTS)
    asked = Interval(min(one, two), max(one, two))
    expected: set[int] = set()
    for number, each in enumerate(chunks):
        start = 37 * number
        for interval in each.intervals:
            used.add(interval, start, start + each.size)
            if interval.start <= asked.end and asked.start <= interval.end:
                expected.update(range(start, start + each.size))
    starts, ends = used.during([asked])
    found = {
        byte
        for start, end in zip(starts, ends, strict=True)
        for byte in range(start, end)  # sorted apart, they still have the same union
    }
    assert found == expected


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12),
    st.tuples(st.integers(0, 40), st.integers(0, 40)),
)
def test_busy_times(times: list[tuple[int, int]], asked: tuple[int, int]) -> None:
    busy = BusyTimes(40)
    low, high = sorted(asked)
    expected = 0
    for number, pair in enumerate(times):
        start, end = sorted(pair)
        busy.add(1 << number, start, end)
        if start <= high and low <= end:
            expected |= 1 << number
    assert busy.over(low, high) == expected
