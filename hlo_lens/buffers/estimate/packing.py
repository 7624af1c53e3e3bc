"""Offsets in a heap as XLA places them: chunks in space and time, and the heap simulation.

A node of such a tree covers a span of instants: the root all, each of its two children half of its
parent's. An interval is stored in the fewest nodes that cover it, so that updates and queries take
a number of steps proportional to the tree's depth.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import operator
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hlo_lens.buffers.estimate.values import NODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hlo_lens.buffers.estimate.buffer_sharing import BufferSharing
    from hlo_lens.buffers.estimate.values import Dataflow


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


class HeapSimulation:
    """Allocates and frees in execution order.

    Args:
        flow: Values, buffers and live ranges.
        sharing: Which results may be written over operands.
        buffers: Buffers of the heap.
        sizes: Bytes of each buffer of the module.
    """

    def __init__(
        self,
        flow: Dataflow,
        sharing: BufferSharing,
        buffers: Iterable[int],
        sizes: Sequence[int],
    ) -> None:
        self._flow = flow
        self._sharing = sharing
        self._sizes = sizes
        values = flow.values
        starts, ends, orders = values.starts, values.ends, values.orders
        members = [value for buffer in buffers for value in flow.buffers[buffer]]
        members.sort(key=lambda v: (starts[v], ends[v], orders[v]))
        self._members = members
        self._chunk_of: dict[int, Chunk] = {}
        self._interval_at: dict[int, int] = {}
        self._chunks: list[Chunk] = []
        self._empty: list[int] = []
        self._event = 0

    def run(self) -> tuple[list[Chunk], list[int], int]:
        """Return the chunks, the values of size 0, and the number of events."""
        values = self._flow.values
        starts, ends = values.starts, values.ends
        defined: dict[int, list[int]] = defaultdict(list)
        freed: dict[int, list[int]] = defaultdict(list)
        for value in self._members:
            defined[starts[value]].append(value)
            freed[ends[value]].append(value)
        first_of: dict[int, int] = {}
        buffer_of, buffers = self._flow.buffer_of, self._flow.buffers
        for instant in sorted({*defined, *freed}):
            ending = freed[instant]
            for value in defined[instant]:
                buffer = buffer_of[value]
                first = first_of.get(buffer)
                if first is not None:
                    self._share(value, first)
                elif len(buffers[buffer]) == 1 and self._share_operand(value, ending):
                    continue
                else:
                    self._allocate(value, self._sizes[buffer])
                    first_of[buffer] = value
            for value in ending:
                self._free(value)
        return self._chunks, self._empty, self._event

    def _allocate(self, value: int, size: int) -> None:
        if size == 0:
            self._empty.append(value)
            return
        chunk = Chunk(size, self._flow.values.orders[value], [])
        self._chunks.append(chunk)
        self._hold(value, chunk)

    def _hold(self, value: int, chunk: Chunk) -> None:
        self._chunk_of[value] = chunk
        self._interval_at[value] = len(chunk.intervals)
        chunk.intervals.append(Interval(self._event, self._event))
        chunk.keys.append(value)
        self._event += 1

    def _share(self, value: int, other: int) -> None:
        chunk = self._chunk_of.get(other)
        if chunk is None:
            self._empty.append(value)
        else:
            self._hold(value, chunk)

    def _free(self, value: int) -> None:
        chunk = self._chunk_of.get(value)
        if chunk is None:
            return
        at = self._interval_at[value]
        chunk.intervals[at] = Interval(chunk.intervals[at].start, self._event)
        self._event += 1

    def _share_operand(self, value: int, ending: list[int]) -> bool:
        """Put a value into the chunk of an operand that ends here, if allowed; return whether."""
        flow = self._flow
        places = flow.values.places
        row, node = divmod(places[value], NODES)
        if not ending or not self._sharing.is_possible(row):
            return False
        for place in flow.operands.get(row, ()):
            if place % NODES:
                continue  # an implied get-tuple-element: the defining instruction is no operand
            listed = flow.value_lists.get(place // NODES)
            if not listed:
                continue
            operand = flow.carried(listed[0])
            if operand not in ending or len(flow.buffers[flow.buffer_of[operand]]) > 1:
                continue
            if self._sharing.may_share(places[operand], row, node):
                self._free(operand)
                ending.remove(operand)
                self._share(value, operand)
                return True
        return False
