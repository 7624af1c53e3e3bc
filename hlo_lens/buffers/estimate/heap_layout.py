"""Allocations of a module, and the layout rules of a backend.

Reducers, comparators and the like use the stack of each thread, by allocations of their own.

Sources: GatherComputationsByAllocationType (xla/service/buffer_assignment.cc),
CallContext::kEmbedded (call_graph.cc), as of August 2026.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.packing import BusyTimes, Chunk, HeapSimulation, pack
from hlo_lens.buffers.estimate.values import NODES, PHI_ORDER, Dataflow
from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import OPCODES, OpcodeTraits, opcode_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.buffers.estimate.buffer_sharing import BufferSharing
    from hlo_lens.buffers.estimate.values import Dataflow, Part


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
        """Whether XLA preallocates it: neither parameter, constant nor output."""
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
        """Return a size rounded up to the alignment of a memory space."""
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
    """Return the parts of a thread-local result with bytes of their own."""
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
        """Return all allocations."""
        flow = self._flow
        parts = self._values.parts
        sizes = [max([parts[value].size_bytes for value in buffer]) for buffer in flow.buffers]

        def rank(buffer: int) -> tuple[int, bool, tuple[int, int]]:
            return -sizes[buffer], buffer not in self._outputs, self._post_order(buffer)

        for buffer in sorted(range(len(flow.buffers)), key=rank):
            self._assign(buffer, sizes[buffer])
        heaps = self._heaps(sizes)
        for buffer in self._outputs:
            number = self._allocation_of.get(flow.buffers[buffer][0])
            if number is not None:
                self._allocations[number].is_output = True
        return self._combined(heaps)

    def _post_order(self, buffer: int) -> tuple[int, int]:
        """Return the position of a buffer's first value in XLA's order, callers first."""
        return min([self._place_order(value) for value in self._flow.buffers[buffer]])

    def _place_order(self, value: int) -> tuple[int, int]:
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
        """Make an allocation reusable by later buffers."""
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
        """Add a value."""
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
