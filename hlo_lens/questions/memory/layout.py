"""Occupied bytes over a schedule: the union of byte intervals that are in use at each instant.

Values may share bytes: a result written in place begins at the instant at which its operand ends,
and both ends of a live range are inclusive, so sums of sizes count such bytes twice.
Definition: at an instant t, all bytes of an allocation that some value with ``start <= t <= end``
holds. Source of the inclusive ends: xla/hlo/utils/hlo_live_range.cc, ToString.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.buffers.assignment import BufferAllocation, BufferAssignment, BufferValues
    from hlo_lens.buffers.live_range import HloLiveRange, LiveRanges


class Occupant(NamedTuple):
    """A value in an allocation: ``size`` bytes from ``offset`` on, from ``start`` to ``end``.

    Both instants are inclusive; ``key`` is the number of the value.
    """

    allocation: int
    offset: int
    size: int
    start: int
    end: int
    key: int


def occupied_bytes(occupants: Iterable[Occupant], length: int) -> list[int]:
    """Return the occupied bytes at each instant from 0 to ``length - 1``."""
    change = [0] * length
    for group in by_allocation(occupants, length):
        joined: list[Occupant] = []  # values of the same bytes, one after the other, are as one
        for one in sorted(group, key=itemgetter(1, 2, 3)):
            last = joined[-1] if joined else None
            if last is not None and last[1:3] == one[1:3] and one.start <= last.end + 1:
                joined[-1] = last._replace(end=max(last.end, one.end))
            else:
                joined.append(one)
        for instant, _, delta in owned_changes(joined):
            if instant < length:
                change[instant] += delta
    return list(accumulate(change))


def by_allocation(occupants: Iterable[Occupant], length: int) -> Iterable[list[Occupant]]:
    """Return the values with bytes that live before an instant, by allocation."""
    groups: dict[int, list[Occupant]] = defaultdict(list)
    for one in occupants:
        if one.size > 0 and one.start <= one.end and one.start < length:
            groups[one.allocation].append(one)
    return groups.values()


class _Pieces:
    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.owners: list[int] = []

    def take(self, start: int, end: int, number: int) -> list[tuple[int, int]]:
        """Give a range of bytes to a value; return the bytes that each former owner lost."""
        first = last = bisect.bisect_right(self.ends, start)
        if first == len(self.starts) or self.starts[first] >= end:  # as most
            self.starts.insert(first, start)
            self.ends.insert(first, end)
            self.owners.insert(first, number)
            return []
        lost: list[tuple[int, int]] = []
        pieces = [(start, end, number)]
        while last < len(self.starts) and self.starts[last] < end:
            low, high, owner = self.starts[last], self.ends[last], self.owners[last]
            lost.append((owner, min(high, end) - max(low, start)))
            if low < start:
                pieces.insert(0, (low, start, owner))
            if high > end:
                pieces.append((end, high, owner))
            last += 1
        self.starts[first:last], self.ends[first:last], self.owners[first:last] = (
            [piece[column] for piece in pieces] for column in range(3)
        )
        return lost

    def free(self, start: int, end: int, number: int) -> list[tuple[int, int]]:
        place = bisect.bisect_right(self.ends, start)
        pieces: list[tuple[int, int]] = []
        while place < len(self.starts) and self.starts[place] < end:
            if self.owners[place] == number:
                pieces.append((self.starts[place], self.ends[place]))
                del self.starts[place], self.ends[place], self.owners[place]
            else:
                place += 1
        return pieces


def owned_changes(group: Sequence[Occupant]) -> Iterator[tuple[int, int, int]]:
    """Yield instant, value and the change of its bytes, where bytes belong to the youngest value.

    The values are of one allocation, and given by their number in the group; of values that begin
    together, that with the smaller key is the younger. Most values share no bytes with others, or
    take all those of a value that ends then; each of their events changes one piece.
    """
    events = [(one.start, 1, -one.key, number) for number, one in enumerate(group)]
    events += [(one.end + 1, 0, 0, number) for number, one in enumerate(group)]
    events.sort()
    pieces = _Pieces()
    covered: dict[int, set[int]] = {}  # value to the older ones of whose bytes it has some
    ended: set[int] = set()
    for instant, begins, _, number in events:
        one = group[number]
        start, end = one.offset, one.offset + one.size
        if begins:
            yield instant, number, one.size
            lost = pieces.take(start, end, number)
            for owner, size in lost:
                yield instant, owner, -size
                covered.setdefault(number, set()).update((owner,), covered.get(owner, ()))
            continue
        freed = pieces.free(start, end, number)
        yield instant, number, -sum(high - low for low, high in freed)
        ended.add(number)
        if number not in covered:
            continue
        older = covered.pop(number) - ended
        for other in sorted(older, key=lambda k: (group[k].start, -group[k].key)):  # get them back
            first, last = group[other].offset, group[other].offset + group[other].size
            for low, high in freed:
                low, high = max(low, first), min(high, last)
                if low < high:
                    yield instant, other, high - low
                    for owner, size in pieces.take(low, high, other):
                        yield instant, owner, -size


def owned_bytes(intervals: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each interval (offset, size) its bytes that no earlier one covers.

    They sum to the union.
    """
    owned = [size for _, size in intervals]
    pieces = _Pieces()
    for number, (offset, size) in reversed(list(enumerate(intervals))):
        for other, lost in pieces.take(offset, offset + size, number) if size else ():
            owned[other] -= lost
    return owned


DEFAULT_SPACE = 0
"""Source: xla/layout.h, kDefaultMemorySpace."""

_GPU_TEMP = 2
"""Color of temporaries of their own on GPU (``xla_gpu_temp_buffer_use_separate_color``)."""


class LaidValue(NamedTuple):
    """A value in an allocation, with its live range; None where that is not known.

    `name` is instruction and index, ``add.2{}``; `size` includes the padding of tiles.
    """

    name: str
    instruction_name: str
    allocation: int
    offset: int
    size: int
    start: int | None
    end: int | None
    shape_text: str

    @property
    def is_table(self) -> bool:
        """Whether it is the table of pointers of a tuple.

        XLA gives each table an allocation of its own, outside of the simulated heap, and joins
        those of temporaries with it later; so no tool counts them at the peak.
        Source: xla/service/buffer_assignment.cc, AssignBuffersForComputations.
        """
        return self.shape_text.startswith("(")


@dataclass(frozen=True, slots=True)
class LaidAllocation:
    """A contiguous block of memory.

    `category` is its purpose: ``argument`` (also donated ones), ``output``, ``temp``, ``constant``,
    ``thread-local`` or ``other``; `is_output`, whether it may be (part of) the result.
    """

    index: int
    size: int
    color: int
    category: str
    is_output: bool = False
    parameter_number: int | None = None

    @property
    def is_aliased(self) -> bool:
        return self.parameter_number is not None and self.is_output

    @property
    def is_held(self) -> bool:
        """Whether the program holds all of it from start to end: all but temporaries.

        Thread-local scalars are on no heap and not held either.
        """
        return self.category not in ("temp", "thread-local")


@dataclass(frozen=True, kw_only=True)
class MemoryLayout:
    """The memory of one module.

    Attributes:
        source: ``buffer-assignment`` or ``estimate``.
        schedule: Names of the instructions in execution order, flattened; None if unknown.
        printed_total: Sum of all allocations that XLA prints; None if not printed.
        unassigned: Number of values in other texts of the module that are in no allocation.
        are_ranges_complete: False if live ranges are known to be missing; peaks are then lower
            bounds.
    """

    source: str
    allocations: tuple[LaidAllocation, ...]
    values: tuple[LaidValue, ...] = field(repr=False)
    schedule: Sequence[str] | None = field(default=None, repr=False)
    printed_total: int | None = None
    unassigned: int = 0
    misfits: int = 0  # allocations and values of wrong sizes (`_misfits`)
    is_complete: bool = True
    are_ranges_complete: bool = True
    notes: tuple[str, ...] = ()
    _temporaries: dict[int, list[int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def length(self) -> int | None:
        """Number of instants: one more than the last instruction's; None without a schedule."""
        return None if self.schedule is None else len(self.schedule) + 1

    @property
    def colors(self) -> tuple[int, ...]:
        return tuple(sorted({DEFAULT_SPACE} | {a.color for a in self.allocations}))

    def held(self, color: int) -> list[LaidAllocation]:
        return [one for one in self.allocations if one.color == color and one.is_held]

    def held_bytes(self, color: int) -> int:
        return sum(allocation.size for allocation in self.held(color))

    def occupants(self, color: int, *, is_temp: bool = False) -> list[Occupant]:
        """Return the values of a memory space with their live ranges.

        Thread-local scalars and temporary tables of tuples are on no heap and omitted. Temporaries
        of unknown range are omitted too; other values of unknown range live throughout.
        """
        last = (self.length or 1) - 1
        found: list[Occupant] = []
        chosen = {
            one.index: one.category == "temp"
            for one in self.allocations
            if one.color == color
            and one.category != "thread-local"
            and (one.category == "temp" or not is_temp)
        }
        for key, value in enumerate(self.values):
            of_temp = chosen.get(value.allocation)
            if of_temp is None or (of_temp and value.is_table):
                continue
            start, end = value.start, value.end
            if start is None or end is None:
                if of_temp:
                    continue
                start, end = 0, last
            found.append(Occupant(value.allocation, value.offset, value.size, start, end, key))
        return found

    def temporary_series(self, color: int = DEFAULT_SPACE) -> list[int] | None:
        if self.length is None:
            return None
        if color not in self._temporaries:
            occupants = self.occupants(color, is_temp=True)
            self._temporaries[color] = occupied_bytes(occupants, self.length)
        return self._temporaries[color]

    def held_series(self, color: int = DEFAULT_SPACE) -> list[int] | None:
        """Return the bytes held at each instant; None without a schedule.

        The largest is the peak: `held_bytes`, and the union of the temporaries of that instant.
        """
        temporaries, held = self.temporary_series(color), self.held_bytes(color)
        return None if temporaries is None else [held + size for size in temporaries]

    def used_series(self, color: int = DEFAULT_SPACE) -> list[int] | None:
        length = self.length
        return None if length is None else occupied_bytes(self.occupants(color), length)

    @property
    def unplaced(self) -> int:
        return sum(1 for _ in self._rangeless("temp"))

    @property
    def unplaced_held(self) -> int:
        """Number of values of arguments, outputs and others of unknown live range.

        XLA prints those of all but thread-local scalars, and of constants in the schedule.
        """
        scheduled = set(self.schedule or ())
        constants = (v.instruction_name in scheduled for v in self._rangeless("constant"))
        return sum(1 for _ in self._rangeless("argument", "output", "other")) + sum(constants)

    def _rangeless(self, *categories: str) -> Iterator[LaidValue]:
        chosen = {a.index for a in self.allocations if a.category in categories}
        return (v for v in self.values if v.start is None and v.allocation in chosen)


def layout_of_dump(
    assignment: BufferAssignment,
    live_range: HloLiveRange | LiveRanges | None = None,
    used: BufferValues | None = None,
) -> MemoryLayout:
    """Return the layout that a BufferAssignment prints, with live ranges if given.

    Used values may show that the text is complete.
    """
    from hlo_lens.buffers.live_range import HloLiveRange

    schedule, ranges = _instants(live_range)
    allocations: list[LaidAllocation] = []
    values: list[LaidValue] = []
    for allocation in assignment.allocations:
        index, category = allocation.index, _category(allocation)
        uses = allocation.maybe_live_out, allocation.parameter_number
        allocations.append(
            LaidAllocation(index, allocation.size, allocation.color, category, *uses)
        )
        for value in allocation.values:
            instruction, place, offset, size, shape = value.facts()
            name = instruction + (place or "{}")
            start, end = ranges.get(name, (None, None))
            values.append(LaidValue(name, instruction, index, offset, size, start, end, shape))
    is_printed = isinstance(live_range, HloLiveRange)
    lost = len(ranges.keys() - {value.name for value in values}) if is_printed else 0
    is_complete = assignment.is_complete_with(used)
    is_reserved = is_complete and assignment.ends_without_values
    misfits = _misfits(allocations[:-1] if is_reserved else allocations, values)
    layout = MemoryLayout(
        source="buffer-assignment",
        allocations=tuple(allocations),
        values=tuple(values),
        schedule=schedule if values else None,
        printed_total=assignment.total_bytes,
        unassigned=lost,
        misfits=misfits,
        is_complete=is_complete and not (assignment.gaps or lost or misfits),
    )
    if schedule is None or live_range is None:
        return layout
    is_whole = live_range.is_complete and not layout.unplaced
    if isinstance(live_range, HloLiveRange):
        is_whole = is_whole and not live_range.gaps and not layout.unplaced_held
    return replace(layout, are_ranges_complete=is_whole)


def _instants(
    live_range: HloLiveRange | LiveRanges | None,
) -> tuple[Sequence[str] | None, Mapping[str, tuple[int, int]]]:
    from hlo_lens.buffers.live_range import LiveRanges

    if isinstance(live_range, LiveRanges):
        return tuple(live_range.schedule), live_range.ranges
    if live_range is None or not live_range.is_available:
        return None, {}
    schedule = tuple(live_range.flattened_instruction_sequence)
    last = max(len(schedule), live_range.schedule_end_time or 0)
    ranges = live_range.buffer_live_ranges
    return schedule, {r.name: (r.start, r.end) for r in ranges if 0 <= r.start <= r.end <= last}


def with_gpu_temporaries(layout: MemoryLayout, backend: str | None) -> MemoryLayout:
    """Return a layout with the temporaries of a GPU in the default memory space.

    ``--xla_gpu_temp_buffer_use_separate_color`` gives them a color of their own, which is the same
    memory of the device (`_GPU_TEMP`).
    """
    if backend != "gpu":
        return layout
    colors = {_GPU_TEMP: DEFAULT_SPACE}
    moved = (replace(a, color=colors.get(a.color, a.color)) for a in layout.allocations)
    return replace(layout, allocations=tuple(moved))


def _misfits(allocations: Sequence[LaidAllocation], values: Sequence[LaidValue]) -> int:
    """Return the number of wrong sizes, and of numbers that no allocation has.

    Both show a lost line or a damaged number. XLA numbers allocations from 0 and makes each as
    large as its values need: it ends with the last byte of one. Values of one shape in one memory
    space have one size. Only those of one buffer, such as a donated argument and the result in its
    place, have that of the largest (HloBufferSize in buffer_assignment.cc): another value of that
    size begins where they do. 0 for a text without values.
    """
    if not values:
        return 0
    ends = {allocation.index: 0 for allocation in allocations}
    colors = {allocation.index: allocation.color for allocation in allocations}
    sizes: dict[tuple[str, int], set[int]] = defaultdict(set)
    for value in values:
        ends[value.allocation] = max(ends[value.allocation], value.offset + value.size)
        sizes[value.shape_text, colors[value.allocation]].add(value.size)
    found = sum(ends[allocation.index] != allocation.size for allocation in allocations)
    if any(len(different) > 1 for different in sizes.values()):
        usual: set[tuple[int, int, int]] = set()
        odd: list[tuple[int, int, int]] = []
        for value in values:
            place = value.allocation, value.offset, value.size
            if value.size == min(sizes[value.shape_text, colors[value.allocation]]):
                usual.add(place)
            else:
                odd.append(place)
        found += sum(place not in usual for place in odd)
    return found + abs(max(ends, default=-1) + 1 - len(allocations))


def _category(allocation: BufferAllocation) -> str:
    purposes = {
        "argument": allocation.parameter_number is not None,
        "thread-local": allocation.is_thread_local,
        "output": allocation.maybe_live_out,
        "constant": allocation.is_constant,
        "temp": allocation.is_preallocated_temp,
    }
    return next((name for name, holds in purposes.items() if holds), "other")
