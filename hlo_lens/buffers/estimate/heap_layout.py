"""Allocations of a module, and the layout rules of a backend.

Reducers, comparators and the like use the stack of each thread, by allocations of their own.

Sources: GatherComputationsByAllocationType (xla/service/buffer_assignment.cc),
CallContext::kEmbedded (call_graph.cc), as of August 2026.

A node of a tree over time covers a span of instants: the root all, each of its two children half
of its parent's. An interval is stored in the fewest nodes that cover it, so that updates and
queries take a number of steps proportional to the tree's depth.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import operator
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from hlo_lens.buffers.estimate.values import NODES, PHI_ORDER, Dataflow
from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import OPCODES, OpcodeTraits, opcode_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.buffers.estimate.values import BufferSharing, Dataflow, Part


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
        somewhere = self._somewhere
        for node in _covering(start + self._width, end + self._width + 1):
            self._through[node] |= bit
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


class TooLargeError(Exception):
    """The values of a heap take more bytes than the simulated heap has."""


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
        return self.intervals[0].end - self.intervals[0].start

    @property
    def begin(self) -> int:
        return min(interval.start for interval in self.intervals)

    @property
    def span(self) -> int:
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
                    first_of[buffer] = value
                    if self._sizes[buffer] == 0:
                        self._empty.append(value)
                    else:
                        chunk = Chunk(self._sizes[buffer], values.orders[value], [])
                        self._chunks.append(chunk)
                        self._hold(value, chunk)
            for value in ending:
                self._free(value)
        return self._chunks, self._empty, self._event

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


@dataclass(slots=True, eq=False)
class Allocation:
    """A contiguous block of memory.

    Attributes:
        size: Bytes.
        color: Memory space.
        kind: ``parameter``, ``constant``, ``output``, ``tuple``, ``heap`` or ``thread-local``.
        values: The values in it, with their offsets.
        is_output: Whether a value in it may be (part of) the result.
        is_reusable: Whether other values may be put into it.
        parameter: Number of the entry parameter and node of its shape; None for others.
        row: The instruction of a thread-local computation whose result it holds; else -1.
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
        return not self.is_output and self.kind in ("heap", "tuple", "output")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeapLayout:
    """The allocations of a module with the offsets of their values.

    Attributes:
        allocations: Parameters, constants and outputs, then one per memory space for temporaries.
        temporaries: Memory space to the position of its temporary allocation.
    """

    allocations: list[Allocation]
    temporaries: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRules:
    """Layout rules of one backend.

    Attributes:
        alignment: Every offset in a heap, and every temporary allocation, is a multiple of it.
        alignments: The same, for memory spaces with another alignment.
        pack: Lays out the heap of one memory space.
        reuses_outputs: Whether a temporary may reuse any free output or donated parameter; that of
            an operand it always may.
    """

    alignment: int
    alignments: Mapping[int, int] = field(default_factory=dict)
    pack: Callable[[Sequence[Chunk], int, int], int] = pack
    reuses_outputs: bool = True

    def align(self, size: int, color: int) -> int:
        step = self.alignments.get(color, self.alignment)
        return -(-size // step) * step


def thread_local_allocations(flow: Dataflow) -> list[Allocation]:
    """Return an allocation for each value of a reducer, comparator or other embedded computation.

    Includes computations that these call, except those of fusions.
    """
    module, opcodes = flow.table.module, flow.table.opcodes
    calls = module.links.calls
    embedding = flow.table.rows_where(_is_embedding)
    places = dict.fromkeys(call.place for row in embedding for call in calls.of_row(row))
    places.pop(NOTHING, None)
    found: list[Allocation] = []
    waiting = list(places)
    for place in waiting:
        rows = module.computations[place].rows
        for call in calls.of_rows(rows):
            if call.place not in places and call.place != NOTHING and opcodes[call.row] != "fusion":
                places[call.place] = None
                waiting.append(call.place)
        for row in rows:
            kind = "constant" if opcodes[row] == "constant" else "thread-local"
            parts = _defined_parts(flow, row)
            found += [Allocation(p.size_bytes, p.color, kind, row=row) for p in parts]
    return found


def _is_embedding(opcode: OpcodeTraits) -> bool:
    """Return whether an opcode, or what it starts, runs a computation for one element at a time."""
    return not opcode.is_end and OPCODES.get(opcode.base, opcode).is_applier


def _defined_parts(flow: Dataflow, row: int) -> list[Part]:
    opcode = flow.table.opcodes[row]
    if opcode_traits(opcode).is_valueless:
        return []
    tree = flow.tree(row)
    parts = tree.parts
    if opcode == "tuple":
        return parts[:1]
    if opcode == "async-done":
        return [part for part in parts if part.is_tuple]
    if opcode in ("async-start", "async-update"):
        own = tree.children(0)[2:3]  # operands and results are not its own
        return [p for node, p in enumerate(parts) if p.is_tuple or (own and node >= own[0])]
    if "output_to_operand_aliasing=" in flow.table.module.columns.attributes_text(row):
        return [part for part in parts if part.is_tuple]
    return parts


_END = itemgetter(1)


def heap_layout(flow: Dataflow, sharing: BufferSharing, rules: LayoutRules) -> HeapLayout:
    """Return the allocation and offset of each buffer of a module.

    Args:
        flow: Values, buffers and live ranges.
        sharing: Which results may be written over operands.
        rules: Layout rules of the backend.

    Raises:
        TooLargeError: If a heap would end beyond `LAST`.
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
        self._bit_of: dict[int, int] = {}
        self._bits_of_color: dict[int, int] = defaultdict(int)
        self._busy = BusyTimes(2 * flow.end + 2)
        self._held: list[_Held] = []
        self._outputs = {flow.buffer_of[v] for v in flow.output_values}
        self._parameters = {
            flow.carried(value): (number, node)
            for number, values in flow.parameter_values.items()
            for node, value in enumerate(values)
        }
        self._waiting: list[int] = []

    def run(self) -> HeapLayout:
        flow = self._flow
        parts = self._values.parts
        sizes = [max([parts[value].size_bytes for value in buffer]) for buffer in flow.buffers]

        def rank(buffer: int) -> tuple[int, bool, tuple[int, int]]:
            first = min([self._post_order(value) for value in flow.buffers[buffer]])
            return -sizes[buffer], buffer not in self._outputs, first

        for buffer in sorted(range(len(flow.buffers)), key=rank):
            self._assign(buffer, sizes[buffer])
        heaps = self._heaps(sizes)
        for buffer in self._outputs:
            number = self._allocation_of.get(flow.buffers[buffer][0])
            if number is not None:
                self._allocations[number].is_output = True
        return self._combined(heaps)

    def _post_order(self, value: int) -> tuple[int, int]:
        order = self._values.orders[value]
        if order < PHI_ORDER:
            number = order // NODES
        else:
            number = self._flow.numbers.get(self._values.places[value] // NODES, 0)
        return -(number >> 32), number & 0xFFFFFFFF

    def _new(self, buffer: int, size: int, kind: str) -> int:
        members = self._flow.buffers[buffer]
        color = self._values.parts[members[0]].color
        self._allocations.append(Allocation(size, color, kind, is_output=buffer in self._outputs))
        self._held.append(_Held())
        number = len(self._allocations) - 1
        self._put(buffer, number)
        return number

    def _put(self, buffer: int, number: int) -> None:
        allocation = self._allocations[number]
        for value in self._flow.buffers[buffer]:
            allocation.values.append((value, 0))
            self._allocation_of[value] = number
            start, end = self._values.starts[value], self._values.ends[value]
            self._held[number].add(start, end, value)
            if allocation.is_reusable:
                self._busy.add(self._bit_of[number], 2 * start, 2 * end)
        if buffer in self._outputs:
            allocation.is_output = True

    def _offer(self, number: int) -> None:
        allocation = self._allocations[number]
        allocation.is_reusable = True
        bit = 1 << len(self._reusable)
        self._reusable.append(number)
        self._bit_of[number] = bit
        self._bits_of_color[allocation.color] |= bit
        for start, end, _ in self._held[number].values:
            self._busy.add(bit, 2 * start, 2 * end)

    def _assign(self, buffer: int, size: int) -> None:
        """Allocate a buffer, or leave it for the heap. Source: AssignSingleHloBuffer."""
        members = self._flow.buffers[buffer]
        values = self._values
        opcodes = self._flow.table.opcodes
        for value in members:
            place = values.places[value]
            if opcodes[place // NODES] == "constant":
                self._new(buffer, size, "constant")
                return
            parameter = self._parameters.get(value)
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
        members = self._flow.buffers[buffer]
        starts, ends = self._values.starts, self._values.ends
        candidates = self._bits_of_color[self._values.parts[members[0]].color]
        for value in members:
            if not candidates:
                return False
            # instants are even numbers here; the odd ones between them show whether a value
            # lives on, or only ends where this one begins
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

    def _interferes(self, value: int, held: _Held) -> bool:
        """Whether a value's live range overlaps that of any other. Source: LiveRangeInterferes."""
        start, end = self._values.starts[value], self._values.ends[value]
        for other_start, other_end, other in held.since(start):
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
        values = self._values
        row, node = divmod(values.places[user], NODES)
        return self._sharing.may_share(values.last_places[operand], row, node)

    def _heaps(self, sizes: Sequence[int]) -> dict[int, Allocation]:
        by_color: dict[int, list[int]] = defaultdict(list)
        for buffer in self._waiting:
            by_color[self._values.parts[self._flow.buffers[buffer][0]].color].append(buffer)
        found = {}
        for color in sorted(by_color):
            chunks, empty, events = HeapSimulation(
                self._flow, self._sharing, by_color[color], sizes
            ).run()
            step = self._rules.alignments.get(color, self._rules.alignment)
            if sum(chunk.size + step for chunk in chunks) > LAST:
                raise TooLargeError
            size = self._rules.pack(chunks, step, events)
            allocation = Allocation(size, color, "heap")
            for chunk in chunks:
                allocation.values += [(value, chunk.offset) for value in chunk.keys]
            allocation.values += [(value, 0) for value in empty]
            found[color] = allocation
        return found

    def _combined(self, heaps: dict[int, Allocation]) -> HeapLayout:
        everything = self._allocations + [heaps[color] for color in sorted(heaps)]
        everything += thread_local_allocations(self._flow)
        everything, first = partition(everything, lambda a: not a.is_temp)
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


class _Held:
    """Values in one allocation, by start: start, end, value."""

    def __init__(self) -> None:
        self.values: list[tuple[int, int, int]] = []
        self._is_ascending = True  # by their ends too: no range contains another

    def add(self, start: int, end: int, value: int) -> None:
        values = self.values
        place = bisect.bisect(values, (start, end, value))
        if any(one[1] > end for one in values[max(place - 1, 0) : place]):
            self._is_ascending = False
        if any(one[1] < end for one in values[place : place + 1]):
            self._is_ascending = False
        values.insert(place, (start, end, value))

    def since(self, start: int) -> Iterator[tuple[int, int, int]]:
        """Yield values that end at an instant or later, and possibly others, in order."""
        first = bisect.bisect_left(self.values, start, key=_END) if self._is_ascending else 0
        return map(self.values.__getitem__, range(first, len(self.values)))


def partition(
    items: list[Allocation], goes_first: Callable[[Allocation], bool]
) -> tuple[list[Allocation], int]:
    """Return items in the order of std::partition, and the start of the second part."""
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
