"""What is in use when, against the same by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from hlo_lens.analysis.buffer_assignment.time_trees import BusyTimes, Interval, UsedBytes
from tests.analysis.buffer_assignment.chunks import EVENTS, chunk_lists

if TYPE_CHECKING:
    from hlo_lens.analysis.buffer_assignment.packing import Chunk


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
    depth = begin = 0
    found: set[int] = set()
    for edge in used.edges([asked]):
        if depth == 0:
            begin = edge >> 1
        depth += -1 if edge & 1 else 1
        if depth == 0:
            found.update(range(begin, edge >> 1))
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
