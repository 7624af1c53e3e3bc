"""Offsets in a heap: chunks by best fit in space and time, as XLA places them.

`pack` is the algorithm of CPU and GPU: the largest chunks are placed first, in a second try the
longest-lived; the smaller heap wins, the first on a tie. A chunk goes into the smallest gap that is
free whenever its values live, the lowest on a tie. `pack_in_time` is the algorithm of TPU.

Sources: heap_simulator/heap_simulator.cc (GlobalDecreasingSizeBestFitHeap, FinishFastMerge),
free_chunks_manager.cc, as of August 2026.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hlo_lens.buffers.estimate.time_trees import Interval, UsedBytes

MANY = 5000
"""Chunks above which a second try needs a possible gain."""

NEAR = 0.005
"""Least possible gain of that second try, as a part of the heap."""

LAST = 1 << 62
"""End of the last free gap of a heap."""


@dataclass(slots=True, eq=False)
class Chunk:
    """Bytes of a heap that values use one after another.

    Attributes:
        size: Bytes.
        order: XLA's number of the first value, which breaks ties.
        intervals: Live ranges of its values; the first value's first.
        keys: The values.
        offset: First byte; -1 until it is placed.
    """

    size: int
    order: int
    intervals: list[Interval]
    keys: list[int] = field(default_factory=list)
    offset: int = -1

    @property
    def duration(self) -> int:
        """Length of the first value's live range."""
        return self.intervals[0].end - self.intervals[0].start

    @property
    def begin(self) -> int:
        """First event at which any value lives."""
        return min(interval.start for interval in self.intervals)

    @property
    def span(self) -> int:
        """From the first event of any value to the last."""
        return max(interval.end for interval in self.intervals) - self.begin


def pack(chunks: Sequence[Chunk], alignment: int, events: int) -> int:
    """Set the offsets of chunks as XLA does for CPU and GPU; return the bytes of the heap.

    Largest first, then longest-lived first; the smaller heap wins, the first on a tie. For
    more than `MANY` chunks the second try is skipped if it could save less than `NEAR` of the heap.

    Args:
        chunks: Chunks to place; their offsets are set.
        alignment: Every offset is a multiple of it.
        events: Number of instants that intervals name.
    """
    if not chunks:
        return 0
    by_size = sorted(chunks, key=lambda c: (-c.size, -c.duration, c.order))
    size = _place(by_size, alignment, events)
    spared = size - least_bytes(chunks, events)
    if spared <= 0 or (len(chunks) > MANY and spared < NEAR * size):
        return size
    first = [chunk.offset for chunk in chunks]
    by_time = sorted(chunks, key=lambda c: (-c.span, -c.size, c.order))
    second = _place(by_time, alignment, events, below=size)
    if second < size:
        return second
    for chunk, offset in zip(chunks, first, strict=True):
        chunk.offset = offset
    return size


def pack_in_time(chunks: Sequence[Chunk], alignment: int, events: int) -> int:
    """Set the offsets of chunks as XLA does for TPU; return the bytes of the heap.

    In the order of their begins, each takes the smallest free gap, the lowest on a tie, and keeps
    it from its first value's begin to its last value's end. Alignment bytes before a chunk are
    freed with it. Source: heap_simulator.cc, FinishFastMerge. That TPU compilers
    use it is observed (libtpu 0.0.11 to 0.0.51), not documented.

    Args:
        chunks: Chunks to place; their offsets are set.
        alignment: Every offset is a multiple of it.
        events: Unused.
    """
    del events
    gaps = _Gaps(alignment)
    held: list[tuple[int, int, int]] = []
    size = 0
    for begin, _, _, _, chunk in sorted(
        (chunk.begin, -chunk.size, chunk.order, place, chunk) for place, chunk in enumerate(chunks)
    ):
        while held and held[0][0] < begin:
            _, start, end = heapq.heappop(held)
            gaps.free(start, end)
        start, chunk.offset = gaps.take(chunk.size)
        end = chunk.offset + chunk.size
        heapq.heappush(held, (chunk.begin + chunk.span, start, end))
        size = max(size, end)
    return size


class _Gaps:
    """Free gaps of a heap, by offset and by size. Source: free_chunks_manager.cc."""

    def __init__(self, alignment: int) -> None:
        self._alignment = alignment
        self._starts = [0]
        self._ends = {0: LAST}
        self._by_size = [(LAST, 0)]

    def take(self, size: int) -> tuple[int, int]:
        """Take bytes from the smallest gap; return their start without and with alignment."""
        usable, start = self._by_size[bisect.bisect_left(self._by_size, (size, 0))]
        end = self._remove(start)
        aligned = end - usable
        if aligned + size < end:
            self._add(aligned + size, end)
        return start, aligned

    def free(self, start: int, end: int) -> None:
        """Free bytes, merged with adjacent gaps."""
        place = bisect.bisect_left(self._starts, start)
        if place < len(self._starts) and self._starts[place] == end:
            end = self._remove(end)
        if place > 0 and self._ends[self._starts[place - 1]] == start:
            start = self._starts[place - 1]
            self._remove(start)
        self._add(start, end)

    def _usable(self, start: int, end: int) -> int:
        return end + (-start // self._alignment) * self._alignment

    def _add(self, start: int, end: int) -> None:
        bisect.insort(self._starts, start)
        self._ends[start] = end
        bisect.insort(self._by_size, (self._usable(start, end), start))

    def _remove(self, start: int) -> int:
        """Remove the gap at an offset; return its end."""
        end = self._ends.pop(start)
        del self._starts[bisect.bisect_left(self._starts, start)]
        listed = (self._usable(start, end), start)
        del self._by_size[bisect.bisect_left(self._by_size, listed)]
        return end


def least_bytes(chunks: Iterable[Chunk], events: int) -> int:
    """Return the most bytes in use at one instant, a lower bound on the heap."""
    change = [0] * (events + 2)
    for chunk in chunks:
        for start, end in _union([(start, end + 1) for start, end in chunk.intervals]):
            change[start] += chunk.size
            change[end] -= chunk.size
    total = most = 0
    for delta in change:
        total += delta
        most = max(most, total)
    return most


def _place(chunks: Iterable[Chunk], alignment: int, events: int, below: int = LAST) -> int:
    """Place chunks one by one, each by best fit, and return the bytes of the heap.

    Stops early, without placing all chunks, once the heap reaches `below` bytes.
    """
    used = UsedBytes(events)
    heap = 0
    for chunk in chunks:
        units = -(-chunk.size // alignment)
        starts, ends = used.during(chunk.intervals)
        best = _best_fit(units, starts, ends)
        chunk.offset = best * alignment
        heap = max(heap, chunk.offset + chunk.size)
        if heap >= below:
            return heap
        for interval in chunk.intervals:
            used.add(interval, best, best + units)
    return heap


def _best_fit(size: int, starts: list[int], ends: list[int]) -> int:
    """Return the start of the smallest free gap of a size, the lowest on a tie, else the end."""
    if not starts:
        return 0
    gaps = list(map(operator.sub, starts, itertools.chain((0,), ends)))
    smallest = min([gap for gap in gaps if gap >= size], default=0)
    place = gaps.index(smallest) if smallest else len(ends)
    return ends[place - 1] if place else 0


def _union(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of intervals as disjoint intervals, ascending."""
    if len(intervals) < 2:
        return intervals
    intervals.sort()
    found = []
    low, high = intervals[0]
    for start, end in intervals:
        if start > high:
            found.append((low, high))
            low, high = start, end
        elif end > high:
            high = end
    found.append((low, high))
    return found
