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
    that begin or end in it. Adjacent intervals are joined, and chunks are dense, so all lists stay
    short. Offsets are best counted in units of the alignment: integers below 2**30 are sorted
    several times faster.
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
        for bucket in {first, final}:
            self._partly.setdefault(bucket, []).append((begin, last, start, end))
            self._mark(bucket + self._width, start, end)
        for node in _covering(first + 1 + self._width, final + self._width):
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
            for bucket in {first, final}:
                for one, other, start, end in self._partly.get(bucket, ()):
                    if one <= last and other >= begin:
                        starts.append(start)
                        ends.append(end)
            nodes = _covering(first + 1 + width, final + width)
            found = [somewhere[node] for node in nodes if node in somewhere]
            low, high = first + width, final + width
            while low:
                found += [through[node] for node in {low, high} if node in through]
                low >>= 1
                high >>= 1
            for some_starts, some_ends in found:
                starts += some_starts
                ends += some_ends
        starts.sort()
        ends.sort()
        return starts, ends


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
    """Bytes of a heap that values use one after another, by their live ranges."""

    size: int
    order: int  # XLA's number of the first value, which breaks ties
    intervals: list[Interval]  # the first value's first
    keys: list[int] = field(default_factory=list)  # the values
    offset: int = -1  # until it is placed

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
    freed with it. Source: heap_simulator.cc, FinishFastMerge. That TPU compilers use it is
    observed (libtpu 0.0.11 to 0.0.51), not documented.
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
        self._ends: dict[int, int] = {}
        self._starts: dict[int, int] = {}  # by end
        self._by_size: list[tuple[int, int]] = []
        self._add(0, LAST)

    def take(self, size: int) -> tuple[int, int]:
        """Take bytes from the smallest gap; return their start without and with alignment."""
        usable, start = self._by_size[bisect.bisect_left(self._by_size, (size, 0))]
        end = self._remove(start)
        aligned = end - usable
        if aligned + size < end:
            self._add(aligned + size, end)
        return start, aligned

    def free(self, start: int, end: int) -> None:
        if end in self._ends:
            end = self._remove(end)
        if start in self._starts:
            start = self._starts[start]
            self._remove(start)
        self._add(start, end)

    def _listed(self, start: int, end: int) -> tuple[int, int]:
        return end + (-start // self._alignment) * self._alignment, start

    def _add(self, start: int, end: int) -> None:
        self._ends[start], self._starts[end] = end, start
        bisect.insort(self._by_size, self._listed(start, end))

    def _remove(self, start: int) -> int:
        end = self._ends.pop(start)
        del self._starts[end]
        del self._by_size[bisect.bisect_left(self._by_size, self._listed(start, end))]
        return end


def least_bytes(chunks: Iterable[Chunk], events: int) -> int:
    """Return the most bytes in use at one instant, a lower bound on the heap."""
    change = [0] * (events + 2)
    for chunk in chunks:
        end = 0
        for start, last in sorted(chunk.intervals):
            start = max(start, end)  # what overlaps counts once
            end = max(end, last + 1)
            change[start] += chunk.size
            change[end] -= chunk.size
    return max(itertools.accumulate(change))


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


class HeapSimulation:
    """Allocates and frees buffers in execution order, which makes the chunks of a heap."""

    def __init__(self, flow: Dataflow, sharing: BufferSharing, sizes: Sequence[int]) -> None:
        self._flow = flow
        self._sharing = sharing
        self._sizes = sizes
        self._chunk_of: dict[int, Chunk] = {}
        self._interval_at: dict[int, int] = {}
        self.chunks: list[Chunk] = []
        self.empty: list[int] = []  # values of size 0
        self.events = 0

    def run(self, buffers: Iterable[int]) -> None:
        values, buffer_of = self._flow.values, self._flow.buffer_of
        starts, ends, orders = values.starts, values.ends, values.orders
        members = [value for buffer in buffers for value in self._flow.buffers[buffer]]
        defined: dict[int, list[int]] = defaultdict(list)
        freed: dict[int, list[int]] = defaultdict(list)
        for value in sorted(members, key=lambda v: (starts[v], ends[v], orders[v])):
            defined[starts[value]].append(value)
            freed[ends[value]].append(value)
        first_of: dict[int, int] = {}
        for instant in sorted({*defined, *freed}):
            ending = freed[instant]
            for value in defined[instant]:
                buffer = buffer_of[value]
                shared = first_of.get(buffer)
                if shared is None and len(self._flow.buffers[buffer]) == 1:
                    shared = self._shared_operand(value, ending)
                if shared is None:
                    first_of[buffer] = value
                    chunk = Chunk(self._sizes[buffer], orders[value], [])
                    if chunk.size:
                        self.chunks.append(chunk)
                else:
                    chunk = self._chunk_of[shared]
                self._hold(value, chunk)
            for value in ending:
                self._free(value)

    def _hold(self, value: int, chunk: Chunk) -> None:
        self._chunk_of[value] = chunk
        if not chunk.size:
            self.empty.append(value)
            return
        self._interval_at[value] = len(chunk.intervals)
        chunk.intervals.append(Interval(self.events, self.events))
        chunk.keys.append(value)
        self.events += 1

    def _free(self, value: int) -> None:
        chunk = self._chunk_of[value]
        if chunk.size:
            at = self._interval_at[value]
            chunk.intervals[at] = Interval(chunk.intervals[at].start, self.events)
            self.events += 1

    def _shared_operand(self, value: int, ending: list[int]) -> int | None:
        """Free an operand that ends here and whose chunk a value may use, and return it."""
        flow = self._flow
        places = flow.values.places
        row, node = divmod(places[value], NODES)
        if not ending or not self._sharing.is_possible(row):
            return None
        for place in flow.operands.get(row, ()):
            listed = flow.value_lists.get(place // NODES)
            if place % NODES or not listed:
                continue  # an implied get-tuple-element: the defining instruction is no operand
            operand = flow.carried(listed[0])
            if operand not in ending or len(flow.buffers[flow.buffer_of[operand]]) > 1:
                continue
            if self._sharing.may_share(places[operand], row, node):
                self._free(operand)
                ending.remove(operand)
                return operand
        return None


class _Held:
    def __init__(self) -> None:
        self.values: list[tuple[int, int, int]] = []
        self._is_ascending = True  # by their ends too: no range contains another

    def add(self, start: int, end: int, value: int) -> None:
        values = self.values
        place = bisect.bisect(values, (start, end, value))
        is_between = all(one[1] <= end for one in values[max(place - 1, 0) : place])
        is_between &= all(one[1] >= end for one in values[place : place + 1])
        self._is_ascending &= is_between
        values.insert(place, (start, end, value))

    def since(self, start: int) -> Iterator[tuple[int, int, int]]:
        """Yield values that end at an instant or later, and possibly others, in order."""
        key = itemgetter(1)
        first = bisect.bisect_left(self.values, start, key=key) if self._is_ascending else 0
        return map(self.values.__getitem__, range(first, len(self.values)))


@dataclass(slots=True, eq=False)
class Allocation:
    """A contiguous block of memory.

    Attributes:
        kind: ``argument``, ``constant``, ``output``, ``heap`` or ``thread-local``.
        values: The values in it, with their offsets.
        is_output: Whether a value in it may be (part of) the result.
        parameter: Number of the entry parameter and node of its shape; None for others.
        row: The instruction of a thread-local computation whose result it holds; else -1.
        bit: Its bit in `BusyTimes`; 0 unless other values may be put into it.
    """

    size: int
    color: int
    kind: str
    values: list[tuple[int, int]] = field(default_factory=list)
    is_output: bool = False
    parameter: tuple[int, int] | None = None
    row: int = -1
    bit: int = 0
    held: _Held = field(default_factory=_Held)

    @property
    def is_temp(self) -> bool:
        """Whether XLA preallocates it: neither parameter, constant nor output."""
        return not self.is_output and self.kind in ("heap", "output")


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
    aliasing = "output_to_operand_aliasing=" in flow.table.module.columns.attributes_text(row)
    if opcode == "tuple":
        return tree.parts[:1]
    if opcode in ("async-start", "async-update"):
        own = (*tree.children(0)[2:3], len(tree.parts))[0]  # operands and results are not its own
        return [part for node, part in enumerate(tree.parts) if part.is_tuple or node >= own]
    return [
        part for part in tree.parts if part.is_tuple or not (aliasing or opcode == "async-done")
    ]


def heap_layout(flow: Dataflow, sharing: BufferSharing, rules: LayoutRules) -> list[Allocation]:
    """Return the allocations of a module, with the offsets of the values in them.

    Parameters, constants and outputs, then one per memory space for temporaries.

    Raises:
        TooLargeError: If a heap would end beyond `LAST`.
    """
    return _Assigner(flow, sharing, rules).run()


class _Assigner:
    def __init__(self, flow: Dataflow, sharing: BufferSharing, rules: LayoutRules) -> None:
        self._flow = flow
        self._rules = rules
        self._values = flow.values
        self._sharing = sharing
        parts = flow.values.parts
        self._sizes = [max([parts[value].size_bytes for value in one]) for one in flow.buffers]
        self._allocations: list[Allocation] = []
        self._allocation_of: dict[int, Allocation] = {}
        self._reusable: list[Allocation] = []
        self._bits_of_color: dict[int, int] = defaultdict(int)
        self._busy = BusyTimes(2 * flow.end + 2)
        self._outputs = {flow.buffer_of[v] for v in flow.output_values}
        self._parameters = {
            flow.carried(value): (number, node)
            for number, values in flow.parameter_values.items()
            for node, value in enumerate(values)
        }
        self._waiting: dict[int, list[int]] = defaultdict(list)  # for the heap of a memory space

    def run(self) -> list[Allocation]:
        flow, sizes = self._flow, self._sizes

        def rank(buffer: int) -> tuple[int, bool, tuple[int, int]]:
            first = min([self._post_order(value) for value in flow.buffers[buffer]])
            return -sizes[buffer], buffer not in self._outputs, first

        for buffer in sorted(range(len(flow.buffers)), key=rank):
            self._assign(buffer, sizes[buffer])
        heaps = [self._heap(color) for color in sorted(self._waiting)]
        for buffer in self._outputs:
            allocation = self._allocation_of.get(flow.buffers[buffer][0])
            if allocation is not None:
                allocation.is_output = True
        everything = [*self._allocations, *heaps, *thread_local_allocations(flow)]
        everything, first = partition(everything, lambda a: not a.is_temp)
        combined: dict[int, Allocation] = {}
        for allocation in everything[first:]:  # those of one memory space are put end to end
            whole = combined.setdefault(allocation.color, allocation)
            if whole is not allocation:
                step = self._step(whole.color)
                base = -(-whole.size // step) * step
                whole.size = base + allocation.size
                whole.values += [(value, base + offset) for value, offset in allocation.values]
            whole.kind = "heap"
        return [*everything[:first], *combined.values()]

    def _step(self, color: int) -> int:
        return self._rules.alignments.get(color, self._rules.alignment)

    def _post_order(self, value: int) -> tuple[int, int]:
        order = self._values.orders[value]
        if order < PHI_ORDER:
            number = order // NODES
        else:
            number = self._flow.numbers.get(self._values.places[value] // NODES, 0)
        return -(number >> 32), number & 0xFFFFFFFF

    def _new(self, buffer: int, kind: str) -> Allocation:
        color = self._values.parts[self._flow.buffers[buffer][0]].color
        allocation = Allocation(self._sizes[buffer], color, kind)
        self._allocations.append(allocation)
        self._put(buffer, allocation)
        return allocation

    def _put(self, buffer: int, allocation: Allocation) -> None:
        for value in self._flow.buffers[buffer]:
            allocation.values.append((value, 0))
            self._allocation_of[value] = allocation
            start, end = self._values.starts[value], self._values.ends[value]
            allocation.held.add(start, end, value)
            if allocation.bit:
                self._busy.add(allocation.bit, 2 * start, 2 * end)
        allocation.is_output |= buffer in self._outputs

    def _offer(self, allocation: Allocation) -> None:
        allocation.bit = 1 << len(self._reusable)
        self._reusable.append(allocation)
        self._bits_of_color[allocation.color] |= allocation.bit
        for start, end, _ in allocation.held.values:
            self._busy.add(allocation.bit, 2 * start, 2 * end)

    def _assign(self, buffer: int, size: int) -> None:
        """Allocate a buffer, or leave it for the heap. Source: AssignSingleHloBuffer."""
        members = self._flow.buffers[buffer]
        values, opcodes = self._values, self._flow.table.opcodes
        for value in members:
            if opcodes[values.places[value] // NODES] == "constant":
                self._new(buffer, "constant")
                return
            parameter = self._parameters.get(value)
            if parameter is not None:
                allocation = self._new(buffer, "argument")
                allocation.parameter = parameter
                if value in self._flow.donated:
                    self._offer(allocation)
                return
        for value in members:
            if values.parts[value].is_tuple:
                self._new(buffer, "output")
                return
            if values.places[value] % NODES == 0 and self._reuse_operand(buffer, value, size):
                return
        if self._rules.reuses_outputs and self._reuse_any(buffer, size):
            return
        if buffer in self._outputs:
            self._offer(self._new(buffer, "output"))
        else:
            self._waiting[values.parts[members[0]].color].append(buffer)

    def _reuse_operand(self, buffer: int, value: int, size: int) -> bool:
        row = self._values.places[value] // NODES
        for place in self._flow.operands.get(row, ()):
            listed = self._flow.values_at(place)
            allocation = self._allocation_of.get(listed[0]) if listed else None
            if allocation is not None and allocation.bit and self._fits(buffer, size, allocation):
                self._put(buffer, allocation)
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
            # instants are even numbers here; the odd ones between them show whether a value
            # lives on, or only ends where this one begins
            candidates &= ~self._busy.over(2 * starts[value] + 1, 2 * ends[value] - 1)
        while candidates:
            last = candidates.bit_length() - 1
            candidates ^= 1 << last
            if self._fits(buffer, size, self._reusable[last]):
                self._put(buffer, self._reusable[last])
                return True
        return False

    def _fits(self, buffer: int, size: int, allocation: Allocation) -> bool:
        """Whether a buffer may be put into an allocation. Source: MaybeAssignBuffer."""
        members = self._flow.buffers[buffer]
        if self._values.parts[members[0]].color != allocation.color or size > allocation.size:
            return False
        if buffer in self._outputs and allocation.size != size:
            return False
        return not any(self._interferes(value, allocation.held) for value in members)

    def _interferes(self, value: int, held: _Held) -> bool:
        """Whether a value's live range overlaps that of any other. Source: LiveRangeInterferes."""
        start, end = self._values.starts[value], self._values.ends[value]
        for other_start, other_end, other in held.since(start):
            if other_start > end:
                return False
            if other_end < start:
                continue
            if end == other_start:
                is_after = self._may_follow(other, value)
            else:
                is_after = other_end == start and self._may_follow(value, other)
            if not is_after:
                return True
        return False

    def _may_follow(self, user: int, operand: int) -> bool:
        values = self._values
        row, node = divmod(values.places[user], NODES)
        return self._sharing.may_share(values.last_places[operand], row, node)

    def _heap(self, color: int) -> Allocation:
        heap = HeapSimulation(self._flow, self._sharing, self._sizes)
        heap.run(self._waiting[color])
        step = self._step(color)
        if sum(chunk.size + step for chunk in heap.chunks) > LAST:
            raise TooLargeError
        allocation = Allocation(self._rules.pack(heap.chunks, step, heap.events), color, "heap")
        for chunk in heap.chunks:
            allocation.values += [(value, chunk.offset) for value in chunk.keys]
        allocation.values += [(value, 0) for value in heap.empty]
        return allocation


def partition(
    items: list[Allocation], goes_first: Callable[[Allocation], bool]
) -> tuple[list[Allocation], int]:
    """Return items in the order of std::partition, and the start of the second part."""
    items = list(items)
    first, last = 0, len(items)
    while True:
        first = next((k for k in range(first, last) if not goes_first(items[k])), last)
        last = next((k for k in range(last - 1, first - 1, -1) if goes_first(items[k])), first)
        if first == last:
            return items, first
        items[first], items[last] = items[last], items[first]
        first += 1
