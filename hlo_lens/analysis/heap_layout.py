"""Where buffers lie: allocations of their own, reused outputs, and the heap of temporaries.

XLA's buffer assignment, in the order in which it works:

1. Buffers by decreasing size, those that live out of the program first. Parameters and constants
   get allocations of their own. So do tables of tuples. Any other buffer takes the allocation of an
   operand, else the smallest allocation that it fits in, of those of donated parameters and of
   outputs, if nothing in there lives when it does. What remains and is an output gets an allocation
   of its own; the rest waits for the heap.
2. The waiting ones are laid out per memory space by best fit in time and space: first placed are
   the largest, or in a second try those that live longest; the smaller heap wins, the first on a
   tie. A chunk goes into the smallest gap that is free whenever its values live, the lowest on a
   tie. A result that may be written over an operand shares its chunk.
3. Temporary allocations of one memory space (the heap, tables of tuples) are put end to end, each
   aligned.

Sources: xla/service/buffer_assignment.cc (BufferAssigner), heap_simulator/heap_simulator.cc
(HeapSimulator::RunComputation, GlobalDecreasingSizeBestFitHeap), as of August 2026.
"""

from __future__ import annotations

import bisect
import heapq
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.analysis.buffer_assignment.shape_tree import NODES
from hlo_lens.analysis.buffer_assignment.values import PHI_ORDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hlo_lens.analysis.buffer_assignment.buffer_sharing import BufferSharing
    from hlo_lens.analysis.buffer_assignment.shape_tree import Part
    from hlo_lens.analysis.buffer_assignment.values import Dataflow

MANY = 5000
"""Chunks above which a second try must promise something."""

NEAR = 0.005
"""What it must promise: this part of the heap."""

BUCKET = 64
"""Events in a leaf of `UsedBytes`."""

LAST = 1 << 62
"""End of the last free gap of a heap."""


class Interval(NamedTuple):
    """When a value holds its chunk: events of the simulated heap, both inclusive."""

    start: int
    end: int


@dataclass(slots=True, eq=False)
class Chunk:
    """Bytes of a heap that values take in turn.

    Attributes:
        size: Bytes.
        order: XLA's number of the first value, which breaks ties.
        intervals: When values hold it; the first value's first.
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
        """How long the first value holds it."""
        return self.intervals[0].end - self.intervals[0].start

    @property
    def begin(self) -> int:
        """First event at which any value holds it."""
        return min(interval.start for interval in self.intervals)

    @property
    def span(self) -> int:
        """From the first event of any value to the last."""
        return max(interval.end for interval in self.intervals) - self.begin


@dataclass(slots=True, eq=False)
class Allocation:
    """A contiguous piece of memory.

    Attributes:
        size: Bytes.
        color: Memory space.
        kind: ``parameter``, ``constant``, ``output``, ``tuple``, ``heap`` or ``thread-local``.
        values: The values in it, with their offsets.
        is_output: Whether a value in it may be (part of) the result.
        is_reusable: Whether other values may be put into it.
        parameter: Number of the entry parameter and node of its shape; None for others.
        row: Whose result it holds, if that is of a thread-local computation; else -1.
    """

    size: int
    color: int
    kind: str
    values: list[tuple[int, int]] = field(default_factory=list)
    is_output: bool = False
    is_reusable: bool = False
    parameter: tuple[int, int] | None = None
    row: int = -1

    @property
    def is_temp(self) -> bool:
        """Whether XLA preallocates it: neither parameter, constant nor output."""
        return not self.is_output and self.kind in ("heap", "tuple", "output")


def pack(chunks: Sequence[Chunk], alignment: int, events: int) -> int:
    """Give chunks their offsets, as XLA does for CPU and GPU; return the bytes of the heap.

    Largest first, then longest-lived first; the smaller heap wins, the first on a tie. Of very many
    chunks the second try is left out where it could save less than `NEAR` of the heap.

    Args:
        chunks: Those to place; their offsets are set.
        alignment: Every offset is a multiple of it.
        events: Number of instants that intervals name.
    """
    if not chunks:
        return 0
    by_size = sorted(chunks, key=lambda c: (-c.size, -c.duration, c.order))
    size = _place(by_size, alignment, events)
    spared = size - _least(chunks, events)
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
    """Give chunks their offsets, as XLA does for TPU; return the bytes of the heap.

    In the order in which they begin, each takes the smallest free gap, the lowest on a tie, and
    keeps it from its first value's begin to its last value's end. Bytes that alignment leaves free
    before a chunk are freed with it. Source: heap_simulator.cc, FinishFastMerge. That TPU compilers
    use it is observed (libtpu 0.0.11 to 0.0.51), not documented.

    Args:
        chunks: Those to place; their offsets are set.
        alignment: Every offset is a multiple of it.
        events: Not needed here.
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
        """Take bytes from the smallest gap; return where they begin, without and with alignment."""
        usable, start = self._by_size[bisect.bisect_left(self._by_size, (size, 0))]
        end = self._remove(start)
        aligned = end - usable
        if aligned + size < end:
            self._add(aligned + size, end)
        return start, aligned

    def free(self, start: int, end: int) -> None:
        """Give bytes back, joined with the gaps beside them."""
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
        """Remove the gap that begins somewhere; return its end."""
        end = self._ends.pop(start)
        del self._starts[bisect.bisect_left(self._starts, start)]
        listed = (self._usable(start, end), start)
        del self._by_size[bisect.bisect_left(self._by_size, listed)]
        return end


def _least(chunks: Iterable[Chunk], events: int) -> int:
    """Return the most bytes in use at one instant: no heap is smaller."""
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

    It ends early, with chunks left over, once the heap is not `below` so many bytes.
    """
    used = UsedBytes(events)
    heap = 0
    for chunk in chunks:
        size = chunk.size
        best, best_size = -1, LAST + 1
        free = 0
        depth = 0
        for edge in used.edges(chunk.intervals):
            if edge & 1:
                depth -= 1
                if not depth:
                    free = edge >> 1
                continue
            if not depth and size <= (gap := (edge >> 1) - free) < best_size:
                best, best_size = free, gap
            depth += 1
        if best < 0:
            best = free
        chunk.offset = best
        heap = max(heap, best + size)
        if heap >= below:
            return heap
        end = -(-(best + size) // alignment) * alignment
        for interval in chunk.intervals:
            used.add(interval, best, end)
    return heap


class UsedBytes:
    """Which bytes are in use when, as disjoint byte intervals in a tree over time.

    Events stand in buckets, the leaves. A node has the bytes that some chunk uses through all of
    it but not through all of its parent, and the bytes used at any event below it; a bucket also
    has the chunks used in a part of it. Intervals that touch are joined, and chunks lie close to
    each other, so that all lists stay short. Offsets stand doubled in them, ends plus one.
    """

    def __init__(self, events: int) -> None:
        self._width = 1
        while self._width * BUCKET < events + 1:
            self._width *= 2
        self._through: dict[int, list[int]] = {}
        self._partly: dict[int, list[tuple[int, int, int, int]]] = {}
        self._somewhere: dict[int, list[int]] = {}

    def add(self, interval: Interval, start: int, end: int) -> None:
        """Use bytes from `start` up to `end` during an interval."""
        start, end = 2 * start, 2 * end + 1
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
        """Use bytes at some event of a node, and so of all above it."""
        while node and _join(self._somewhere, node, start, end):
            node >>= 1

    def edges(self, intervals: Sequence[Interval]) -> list[int]:
        """Return where the bytes used at any event of some intervals begin and end, ascending.

        An offset is doubled where bytes begin, and one more than doubled behind their end. The
        intervals between may lie in one another.
        """
        found: list[int] = []
        through, somewhere, width = self._through, self._somewhere, self._width
        for begin, last in intervals:
            first, final = begin // BUCKET, last // BUCKET
            left, right = first + width, final + width + 1
            low, high = left, right - 1
            if begin > first * BUCKET or (first == final and last < first * BUCKET + BUCKET - 1):
                self._in_bucket(first, begin, last, found)
                left += 1
            if final > first and last < final * BUCKET + BUCKET - 1:
                self._in_bucket(final, begin, last, found)
                right -= 1
            for node in _covering(left, right):
                if node in somewhere:
                    found += somewhere[node]
            while low:
                if low in through:
                    found += through[low]
                if high != low and high in through:
                    found += through[high]
                low >>= 1
                high >>= 1
        found.sort()
        return found

    def _in_bucket(self, bucket: int, begin: int, last: int, found: list[int]) -> None:
        """Add what is used in a part of a bucket."""
        for start, end, low, high in self._partly.get(bucket, ()):
            if start <= last and end >= begin:
                found += (low, high)


def _covering(left: int, right: int) -> list[int]:
    """Return the fewest nodes of a tree that hold the leaves from `left` up to `right`."""
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


def _join(lists: dict[int, list[int]], node: int, start: int, end: int) -> bool:
    """Add an interval to a node's disjoint intervals; return whether that changed them."""
    listed = lists.get(node)
    if listed is None:
        lists[node] = [start, end]
        return True
    low = bisect.bisect_left(listed, start)
    high = bisect.bisect_right(listed, end)
    if low == high and low & 1:
        return False
    if low & 1:
        low -= 1
        start = listed[low]
    if high & 1:
        end = listed[high]
        high += 1
    if low + 2 == high and listed[low] == start and listed[low + 1] == end:
        return False
    listed[low:high] = [start, end]
    return True


def _union(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of intervals, ascending and apart from one another."""
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


class BusyTimes:
    """Which allocations are in use when: a segment tree over time of bit masks."""

    def __init__(self, instants: int) -> None:
        self._width = 1
        while self._width < instants + 1:
            self._width *= 2
        self._through = [0] * (2 * self._width)
        self._somewhere = [0] * (2 * self._width)

    def add(self, bit: int, start: int, end: int) -> None:
        """Mark an allocation's bit from `start` to `end`, both inclusive."""
        left, right = start + self._width, end + self._width + 1
        while left < right:
            if left & 1:
                self._through[left] |= bit
                self._mark(left, bit)
                left += 1
            if right & 1:
                right -= 1
                self._through[right] |= bit
                self._mark(right, bit)
            left >>= 1
            right >>= 1

    def _mark(self, node: int, bit: int) -> None:
        somewhere = self._somewhere
        while node and not somewhere[node] & bit:
            somewhere[node] |= bit
            node >>= 1

    def over(self, start: int, end: int) -> int:
        """Return the bits of all that is in use at some instant from `start` to `end`."""
        if start > end:
            return 0
        found = 0
        left, right = start + self._width, end + self._width + 1
        low, high = left, right - 1
        somewhere, through = self._somewhere, self._through
        while left < right:
            if left & 1:
                found |= somewhere[left]
                left += 1
            if right & 1:
                right -= 1
                found |= somewhere[right]
            left >>= 1
            right >>= 1
        while low:
            found |= through[low] | through[high]
            low >>= 1
            high >>= 1
        return found


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeapLayout:
    """The memory of a module, laid out.

    Attributes:
        allocations: Parameters, constants and outputs, then one per memory space for temporaries.
        temporaries: Memory space to the position of its temporary allocation.
    """

    allocations: list[Allocation]
    temporaries: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRules:
    """What differs between backends.

    Attributes:
        alignment: Every offset in a heap, and every temporary allocation, is a multiple of it.
        alignments: The same for memory spaces where it is another.
        pack: Lays out the heap of one memory space.
        reuses_outputs: Whether temporaries are put into any output or donated parameter that is
            free; into that of an operand they are in any case.
    """

    alignment: int
    alignments: Mapping[int, int] = field(default_factory=dict)
    pack: Callable[[Sequence[Chunk], int, int], int] = pack
    reuses_outputs: bool = True

    def align(self, size: int, color: int) -> int:
        """Return the first place behind some bytes of a memory space at which others may begin."""
        step = self.alignments.get(color, self.alignment)
        return -(-size // step) * step


def heap_layout(flow: Dataflow, sharing: BufferSharing, rules: LayoutRules) -> HeapLayout:
    """Return where each buffer of a module lies.

    Args:
        flow: Values, buffers and live ranges.
        sharing: Which results may be written over operands.
        rules: Those of the backend.
    """
    return _Assigner(flow, sharing, rules).run()


class _Assigner:
    """Assigns one buffer after the other."""

    def __init__(self, flow: Dataflow, sharing: BufferSharing, rules: LayoutRules) -> None:
        self._flow = flow
        self._rules = rules
        self._values = flow.values
        self._sharing = sharing
        self._allocations: list[Allocation] = []
        self._allocation_of: dict[int, int] = {}
        self._reusable: list[int] = []
        self._bits_of_color: dict[int, int] = defaultdict(int)
        self._busy = BusyTimes(2 * flow.end + 2)
        self._held: list[list[tuple[int, int, int]]] = []
        self._outputs = {flow.buffer_of[v] for v in flow.output_values}
        self._entry_places = {
            self._values.places[value]: (number, node)
            for number, values in flow.parameter_values.items()
            for node, value in enumerate(values)
        }
        self._waiting: list[int] = []

    def run(self) -> HeapLayout:
        """Return all allocations."""
        flow = self._flow
        sizes = [
            max(self._values.parts[value].size_bytes for value in buffer) for buffer in flow.buffers
        ]
        order = sorted(
            range(len(flow.buffers)),
            key=lambda k: (-sizes[k], k not in self._outputs, self._post_order(k), k),
        )
        for buffer in order:
            self._assign(buffer, sizes[buffer])
        heaps = self._heaps(sizes)
        for buffer in self._outputs:
            number = self._allocation_of.get(flow.buffers[buffer][0])
            if number is not None:
                self._allocations[number].is_output = True
        return self._combined(heaps)

    def _post_order(self, buffer: int) -> tuple[int, int]:
        """Return where XLA's order of computations, callers first, has a buffer's first value."""
        return min(self._place_order(value) for value in self._flow.buffers[buffer])

    def _place_order(self, value: int) -> tuple[int, int]:
        order = self._values.orders[value]
        if order < PHI_ORDER:
            number = order // NODES
        else:
            number = self._flow.numbers.get(self._values.places[value] // NODES, 0)
        return -(number >> 32), number & 0xFFFFFFFF

    def _new(self, buffer: int, size: int, kind: str) -> int:
        """Make an allocation for a buffer."""
        members = self._flow.buffers[buffer]
        color = self._values.parts[members[0]].color
        self._allocations.append(Allocation(size, color, kind, is_output=buffer in self._outputs))
        self._held.append([])
        number = len(self._allocations) - 1
        self._put(buffer, number)
        return number

    def _put(self, buffer: int, number: int) -> None:
        """Put a buffer at the start of an allocation."""
        allocation = self._allocations[number]
        for value in self._flow.buffers[buffer]:
            allocation.values.append((value, 0))
            self._allocation_of[value] = number
            start, end = self._values.starts[value], self._values.ends[value]
            bisect.insort(self._held[number], (start, end, value))
            if allocation.is_reusable:
                self._busy.add(1 << self._reusable.index(number), 2 * start, 2 * end)
        if buffer in self._outputs:
            allocation.is_output = True

    def _offer(self, number: int) -> None:
        """Let later buffers be put into an allocation."""
        allocation = self._allocations[number]
        allocation.is_reusable = True
        bit = 1 << len(self._reusable)
        self._reusable.append(number)
        self._bits_of_color[allocation.color] |= bit
        for start, end, _ in self._held[number]:
            self._busy.add(bit, 2 * start, 2 * end)

    def _assign(self, buffer: int, size: int) -> None:
        """Give a buffer its allocation, or let it wait. Source: AssignSingleHloBuffer."""
        members = self._flow.buffers[buffer]
        values = self._values
        opcodes = self._flow.table.opcodes
        for value in members:
            place = values.places[value]
            if opcodes[place // NODES] == "constant":
                self._new(buffer, size, "constant")
                return
            parameter = self._entry_places.get(place)
            if parameter is not None:
                number = self._new(buffer, size, "parameter")
                self._allocations[number].parameter = parameter
                if value in self._flow.donated:
                    self._offer(number)
                return
        for value in members:
            if values.parts[value].is_tuple:
                self._new(buffer, size, "tuple")
                return
            if values.places[value] % NODES == 0 and self._reuse_operand(buffer, value, size):
                return
        if self._rules.reuses_outputs and self._reuse_any(buffer, size):
            return
        if buffer in self._outputs:
            self._offer(self._new(buffer, size, "output"))
        else:
            self._waiting.append(buffer)

    def _reuse_operand(self, buffer: int, value: int, size: int) -> bool:
        """Put a buffer into the allocation of an operand of one of its values, if possible."""
        row = self._values.places[value] // NODES
        for place in self._flow.operands.get(row, ()):
            listed = self._flow.values_at(place)
            number = self._allocation_of.get(listed[0]) if listed else None
            if number is None or not self._allocations[number].is_reusable:
                continue
            if self._fits(buffer, size, number):
                self._put(buffer, number)
                return True
        return False

    def _reuse_any(self, buffer: int, size: int) -> bool:
        """Put a buffer into the smallest allocation that takes it, if there is one."""
        members = self._flow.buffers[buffer]
        starts, ends = self._values.starts, self._values.ends
        candidates = self._bits_of_color[self._values.parts[members[0]].color]
        for value in members:
            if not candidates:
                return False
            # instants are even numbers here, and the odd ones between them tell whether
            # something lives through, or only ends where this begins
            candidates &= ~self._busy.over(2 * starts[value] + 1, 2 * ends[value] - 1)
        while candidates:
            last = candidates.bit_length() - 1
            candidates ^= 1 << last
            number = self._reusable[last]
            if self._fits(buffer, size, number):
                self._put(buffer, number)
                return True
        return False

    def _fits(self, buffer: int, size: int, number: int) -> bool:
        """Whether a buffer may be put into an allocation. Source: MaybeAssignBuffer."""
        allocation = self._allocations[number]
        members = self._flow.buffers[buffer]
        if self._values.parts[members[0]].color != allocation.color or size > allocation.size:
            return False
        if buffer in self._outputs and allocation.size != size:
            return False
        held = self._held[number]
        return not any(self._interferes(value, held) for value in members)

    def _interferes(self, value: int, held: Sequence[tuple[int, int, int]]) -> bool:
        """Whether a value lives when one of some others does. Source: LiveRangeInterferes."""
        start, end = self._values.starts[value], self._values.ends[value]
        for other_start, other_end, other in held:
            if other_start > end:
                return False
            if other_end < start:
                continue
            if end == other_start:
                if not self._may_follow(other, value):
                    return True
            elif other_end == start:
                if not self._may_follow(value, other):
                    return True
            else:
                return True
        return False

    def _may_follow(self, user: int, operand: int) -> bool:
        """Whether a value may be written over another that ends where it begins."""
        values = self._values
        row, node = divmod(values.places[user], NODES)
        return self._sharing.may_share(values.last_places[operand], row, node)

    def _heaps(self, sizes: Sequence[int]) -> dict[int, Allocation]:
        """Lay out what waits, per memory space."""
        by_color: dict[int, list[int]] = defaultdict(list)
        for buffer in self._waiting:
            by_color[self._values.parts[self._flow.buffers[buffer][0]].color].append(buffer)
        found = {}
        for color in sorted(by_color):
            chunks, empty, events = _Simulation(
                self._flow, self._sharing, by_color[color], sizes
            ).run()
            step = self._rules.alignments.get(color, self._rules.alignment)
            size = self._rules.pack(chunks, step, events)
            allocation = Allocation(size, color, "heap")
            for chunk in chunks:
                allocation.values += [(value, chunk.offset) for value in chunk.keys]
            allocation.values += [(value, 0) for value in empty]
            found[color] = allocation
        return found

    def _combined(self, heaps: dict[int, Allocation]) -> HeapLayout:
        """Put temporary allocations of one memory space end to end."""
        everything = self._allocations + [heaps[color] for color in sorted(heaps)]
        everything += thread_local_allocations(self._flow)
        everything, first = _partition(everything, lambda a: not a.is_temp)
        kept, temps = everything[:first], everything[first:]
        combined: dict[int, Allocation] = {}
        for allocation in temps:
            whole = combined.get(allocation.color)
            if whole is None:
                combined[allocation.color] = allocation
                continue
            base = self._rules.align(whole.size, whole.color)
            whole.size = base + allocation.size
            whole.values += [(value, base + offset) for value, offset in allocation.values]
        temporaries = {}
        for color, allocation in combined.items():
            temporaries[color] = len(kept)
            allocation.kind = "heap"
            kept.append(allocation)
        return HeapLayout(allocations=kept, temporaries=temporaries)


_EMBEDDING = frozenset(
    {
        "all-reduce",
        "custom-call",
        "map",
        "reduce",
        "reduce-scatter",
        "reduce-window",
        "scan",
        "scatter",
        "select-and-scatter",
        "sort",
        "topk",
    }
)
"""Opcodes whose computations run for one element at a time, on a stack of each thread."""

_CALLED = re.compile(
    r"\b(?:to_apply|select|scatter|called_computations|calls|condition|body|branch_computations|"
    r"true_computation|false_computation)=(?:\{([^}]*)\}|([^\s,}]+))"
)

_NO_VALUES = frozenset({"bitcast", "call", "conditional", "get-tuple-element", "while"})
"""Opcodes that define no value of their own, but for control flow's rare tables."""


def thread_local_allocations(flow: Dataflow) -> list[Allocation]:
    """Return an allocation for each value of a reducer, comparator and the like.

    And of what those call. Source: GatherComputationsByAllocationType, CallContext::kEmbedded;
    those of fusions are left out.
    """
    opcodes = flow.table.opcodes
    names: dict[str, None] = {}
    for row in flow.table.rows_of(_EMBEDDING | {f"{opcode}-start" for opcode in _EMBEDDING}):
        names.update(dict.fromkeys(_called(flow, row)))
    found: list[Allocation] = []
    waiting = list(names)
    for name in waiting:
        computation = flow.table.module.computation(name)
        for row in () if computation is None else computation.rows:
            if opcodes[row] == "fusion":
                continue
            for called in _called(flow, row):
                if called not in names:
                    names[called] = None
                    waiting.append(called)
        for row in () if computation is None else computation.rows:
            kind = "constant" if opcodes[row] == "constant" else "thread-local"
            parts = _defined_parts(flow, row)
            found += [Allocation(p.size_bytes, p.color, kind, row=row) for p in parts]
    return found


def _called(flow: Dataflow, row: int) -> list[str]:
    """Return the names of the computations that an instruction calls."""
    text = flow.table.module.columns.attributes_text(row)
    lists = [match[1] or match[2] for match in _CALLED.finditer(text)]
    return [name.strip().removeprefix("%") for names in lists for name in names.split(",")]


def _defined_parts(flow: Dataflow, row: int) -> list[Part]:
    """Return the parts of a thread-local result that lie in no operand's and no callee's bytes."""
    opcode = flow.table.opcodes[row]
    if opcode in _NO_VALUES:
        return []
    tree = flow.tree(row)
    parts = tree.parts
    if opcode == "tuple":
        return parts[:1]
    if opcode == "async-done":
        return [part for part in parts if part.is_tuple]
    if opcode in ("async-start", "async-update"):
        own = tree.children(0)[2:3]  # operands and results are others' values
        return [p for node, p in enumerate(parts) if p.is_tuple or (own and node >= own[0])]
    if "output_to_operand_aliasing=" in flow.table.module.columns.attributes_text(row):
        return [part for part in parts if part.is_tuple]
    return parts


def _partition(
    items: list[Allocation], goes_first: Callable[[Allocation], bool]
) -> tuple[list[Allocation], int]:
    """Return items partitioned as std::partition does it, and where the second part begins."""
    items = list(items)
    first, last = 0, len(items)
    while True:
        while first < last and goes_first(items[first]):
            first += 1
        if first == last:
            return items, first
        last -= 1
        while first < last and not goes_first(items[last]):
            last -= 1
        if first == last:
            return items, first
        items[first], items[last] = items[last], items[first]
        first += 1


class _Simulation:
    """Allocates and frees in execution order. Source: HeapSimulator::RunComputation."""

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
        self._begun: dict[int, int] = {}
        self._chunk_of: dict[int, Chunk] = {}
        self._interval_at: dict[int, int] = {}
        self._chunks: list[Chunk] = []
        self._empty: list[int] = []
        self._event = 0

    def run(self) -> tuple[list[Chunk], list[int], int]:
        """Return the chunks, the values of no bytes, and the number of events."""
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
        """Let a value take the chunk of an operand that ends here, if it may."""
        flow = self._flow
        places = flow.values.places
        row, node = divmod(places[value], NODES)
        if not ending or not self._sharing.is_possible(row):
            return False
        for place in flow.operands.get(row, ()):
            if place % NODES:
                continue  # a get-tuple-element: the value's own instruction is no operand
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
