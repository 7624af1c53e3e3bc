"""Segment trees over time: bytes and allocations in use during intervals.

A node of such a tree covers a span of instants: the root all, each of its two children half of its
parent's. An interval is stored in the fewest nodes that cover it, so that updates and queries take
a number of steps proportional to the tree's depth.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

BUCKET = 32
"""Events in a leaf of `UsedBytes`."""


class Interval(NamedTuple):
    """Live range of a value in its chunk: events of the simulated heap, both inclusive."""

    start: int
    end: int


class UsedBytes:
    """Offsets in use, as disjoint intervals in a tree over time.

    Leaves are buckets of events. A node has the offsets used during its whole span but not during
    all of its parent's, and the offsets used at any event of its span; a bucket also has the chunks
    used during a part of it. Adjacent intervals are joined, and chunks are dense, so all lists stay
    short. Offsets are best counted in units of the alignment:
    integers below 2**30 are sorted several times faster.
    """

    def __init__(self, events: int) -> None:
        self._width = 1
        while self._width * BUCKET < events + 1:
            self._width *= 2
        self._through: dict[int, _Intervals] = {}
        self._partly: dict[int, list[tuple[int, int, int, int]]] = {}
        self._somewhere: dict[int, _Intervals] = {}

    def add(self, interval: Interval, start: int, end: int) -> None:
        """Mark offsets from `start` up to `end` as used during an interval."""
        begin, last = interval
        first, final = begin // BUCKET, last // BUCKET
        left, right = first + self._width, final + self._width + 1
        if begin > first * BUCKET or (first == final and last < first * BUCKET + BUCKET - 1):
            self._partly.setdefault(first, []).append((begin, last, start, end))
            self._mark(left, start, end)
            left += 1
        if final > first and last < final * BUCKET + BUCKET - 1:
            self._partly.setdefault(final, []).append((begin, last, start, end))
            self._mark(right - 1, start, end)
            right -= 1
        for node in _covering(left, right):
            _join(self._through, node, start, end)
            self._mark(node, start, end)

    def _mark(self, node: int, start: int, end: int) -> None:
        """Mark offsets as used at some event of a node and of all its parents."""
        while node and _join(self._somewhere, node, start, end):
            node >>= 1

    def during(self, intervals: Sequence[Interval]) -> tuple[list[int], list[int]]:
        """Return starts and ends of the offset intervals used at any event of some intervals.

        Each list is ascending; the intervals may overlap. As many have ended before a free gap as
        have started, so the gaps are those from ``ends[k]`` to ``starts[k + 1]``, where positive.
        """
        starts: list[int] = []
        ends: list[int] = []
        through, somewhere, width = self._through, self._somewhere, self._width
        for begin, last in intervals:
            first, final = begin // BUCKET, last // BUCKET
            left, right = first + width, final + width + 1
            low, high = left, right - 1
            if begin > first * BUCKET or (first == final and last < first * BUCKET + BUCKET - 1):
                self._in_bucket(first, begin, last, starts, ends)
                left += 1
            if final > first and last < final * BUCKET + BUCKET - 1:
                self._in_bucket(final, begin, last, starts, ends)
                right -= 1
            found = [somewhere[node] for node in _covering(left, right) if node in somewhere]
            while low:
                if low in through:
                    found.append(through[low])
                if high != low and high in through:
                    found.append(through[high])
                low >>= 1
                high >>= 1
            for some_starts, some_ends in found:
                starts += some_starts
                ends += some_ends
        starts.sort()
        ends.sort()
        return starts, ends

    def _in_bucket(
        self, bucket: int, begin: int, last: int, starts: list[int], ends: list[int]
    ) -> None:
        for first, final, start, end in self._partly.get(bucket, ()):
            if first <= last and final >= begin:
                starts.append(start)
                ends.append(end)


_Intervals: TypeAlias = tuple[list[int], list[int]]
"""Starts of disjoint intervals, ascending, and their ends."""


def _covering(left: int, right: int) -> list[int]:
    """Return the fewest nodes of a tree that cover the leaves from `left` up to `right`."""
    found = []
    while left < right:
        if left & 1:
            found.append(left)
            left += 1
        if right & 1:
            right -= 1
            found.append(right)
        left >>= 1
        right >>= 1
    return found


def _join(lists: dict[int, _Intervals], node: int, start: int, end: int) -> bool:
    """Add an interval to a node's disjoint intervals; return whether that changed them."""
    listed = lists.get(node)
    if listed is None:
        lists[node] = [start], [end]
        return True
    starts, ends = listed
    low = bisect.bisect_left(ends, start)
    high = bisect.bisect_right(starts, end)
    if low < high:
        if starts[low] <= start and end <= ends[low]:
            return False
        start, end = min(start, starts[low]), max(end, ends[high - 1])
    starts[low:high] = [start]
    ends[low:high] = [end]
    return True


class BusyTimes:
    """Allocations in use: a segment tree over time of bit masks."""

    def __init__(self, instants: int) -> None:
        self._width = 1
        while self._width < instants + 1:
            self._width *= 2
        self._through = [0] * (2 * self._width)
        self._somewhere = [0] * (2 * self._width)

    def add(self, bit: int, start: int, end: int) -> None:
        """Mark an allocation's bit from `start` to `end`, both inclusive."""
        for node in _covering(start + self._width, end + self._width + 1):
            self._through[node] |= bit
            self._mark(node, bit)

    def _mark(self, node: int, bit: int) -> None:
        somewhere = self._somewhere
        while node and not somewhere[node] & bit:
            somewhere[node] |= bit
            node >>= 1

    def over(self, start: int, end: int) -> int:
        """Return the bits of allocations in use at any instant from `start` to `end`."""
        if start > end:
            return 0
        found = 0
        left, right = start + self._width, end + self._width + 1
        low, high = left, right - 1
        somewhere, through = self._somewhere, self._through
        for node in _covering(left, right):
            found |= somewhere[node]
        while low:
            found |= through[low] | through[high]
            low >>= 1
            high >>= 1
        return found
