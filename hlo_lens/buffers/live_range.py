"""HloLiveRange: the flattened schedule, and the live range of each value.

Times are positions in the flattened schedule (LogicalTime): bodies of calls, conditionals and loops
are in it once, before the instruction that calls them. Source: xla/hlo/utils/hlo_live_range.h and
.cc, hlo_stack_trace.cc.
"""

from __future__ import annotations

import functools
from array import array
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.buffers.assignment import LARGEST_OFFSET, parse_index
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.shapes.shape import ShapeIndex
    from hlo_lens.text.errors import Gap
    from hlo_lens.text.source import Source

UNKNOWN = -1
"""In columns of signed numbers: not printed."""

LogicalTime = int
"""Position in the flattened schedule, from 0; the length of the schedule is a legal end."""


class BufferLiveRange(NamedTuple):
    """A value and its live range.

    Attributes:
        instruction_name: Instruction that defines it, without ``%``.
        index: Index into its shape; () also where that is no tuple.
        start: Position of the instruction that defines it (of parameters: of the first
            instruction of their computation).
        end: Position of its last use, inclusive; the end of the schedule for live-out values.
    """

    instruction_name: str
    index: ShapeIndex  # type: ignore[assignment] # hides tuple.index, which is not used
    start: LogicalTime
    end: LogicalTime

    @property
    def name(self) -> str:
        """Instruction and index as printed: ``fusion.5{0}``."""
        return f"{self.instruction_name}{{{','.join(map(str, self.index))}}}"

    @property
    def bounds(self) -> tuple[LogicalTime, LogicalTime]:
        """Start and end."""
        return self.start, self.end


class PeakValue(NamedTuple):
    """A value that XLA lists as alive at its peak.

    Attributes:
        instruction_name: Instruction that defines it, without ``%``.
        index: Index into its shape; None before April 2025, when it was not printed.
        size_bytes: Bytes without padding, pointers of tuples 8 bytes each.
        cumulative_bytes: Sum up to and with this line; None before May 2025.
    """

    instruction_name: str
    index: ShapeIndex | None  # type: ignore[assignment] # as above
    size_bytes: int
    cumulative_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackTraceNode:
    """A computation, an operation or a value in the tree of values alive at the peak.

    Attributes:
        name: As printed: a computation, an op_name or a key of it.
        total_bytes: Bytes of it and of all its descendants.
        current_bytes: Bytes of it alone; None in the forms of May to July 2025.
        remaining_bytes: Bytes of the lines below it; None if not printed.
        children: Its children, largest first.
    """

    name: str
    total_bytes: int
    current_bytes: int | None = None
    remaining_bytes: int | None = None
    children: tuple[StackTraceNode, ...] = ()


@dataclass(slots=True, eq=False)
class LiveRangeColumns:
    """Places and numbers of the lines of a live range; lists of equal length.

    Attributes:
        source: The text.
        scheduled_times: Position of each scheduled instruction.
        scheduled_names: Start of its name, which extends to the end of the line.
        range_names: Start of the name of each value; ``{`` ends it.
        starts: First position at which it lives.
        ends: Last position at which it lives.
        peak_names: Start of the name of each value alive at the peak.
        peak_name_ends: Its end, index included.
        peak_sizes: Its bytes.
        peak_sums: Bytes up to it, or UNKNOWN.
        node_depths: Depth of each line of the tree, from 0.
        node_names: Start of its name.
        node_name_ends: End of its name.
        node_numbers: Total, current and remaining bytes of each, or UNKNOWN.
    """

    source: Source
    scheduled_times: array[int] = field(default_factory=lambda: array("I"))
    scheduled_names: array[int] = field(default_factory=lambda: array("I"))
    range_names: array[int] = field(default_factory=lambda: array("I"))
    starts: array[int] = field(default_factory=lambda: array("I"))
    ends: array[int] = field(default_factory=lambda: array("I"))
    peak_names: array[int] = field(default_factory=lambda: array("I"))
    peak_name_ends: array[int] = field(default_factory=lambda: array("I"))
    peak_sizes: array[int] = field(default_factory=lambda: array("q"))
    peak_sums: array[int] = field(default_factory=lambda: array("q"))
    node_depths: array[int] = field(default_factory=lambda: array("I"))
    node_names: array[int] = field(default_factory=lambda: array("I"))
    node_name_ends: array[int] = field(default_factory=lambda: array("I"))
    node_numbers: array[int] = field(default_factory=lambda: array("q"))

    def __post_init__(self) -> None:
        if len(self.source.text) > LARGEST_OFFSET:
            self.scheduled_names, self.range_names = array("Q"), array("Q")
            self.peak_names, self.peak_name_ends = array("Q"), array("Q")
            self.node_names, self.node_name_ends = array("Q"), array("Q")

    def scheduled(self, row: int) -> str:
        """Return the name of the scheduled instruction of a row."""
        text, start = self.source.text, self.scheduled_names[row]
        end = text.find("\n", start)
        return text[start : len(text) if end < 0 else end].rstrip()

    def live_range(self, row: int) -> BufferLiveRange:
        """Return the live range of a row."""
        text, start = self.source.text, self.range_names[row]
        name_end = text.index("{", start)
        return BufferLiveRange(
            instruction_name=text[start:name_end].rstrip(),
            index=parse_index(text[name_end : text.index("}", name_end)]),
            start=self.starts[row],
            end=self.ends[row],
        )

    def peak_value(self, row: int) -> PeakValue:
        """Return the value alive at the peak of a row."""
        text = self.source.text[self.peak_names[row] : self.peak_name_ends[row]]
        name, brace, index = text.partition("{")
        total = self.peak_sums[row]
        return PeakValue(
            instruction_name=name.rstrip(),
            index=parse_index(index) if brace else None,
            size_bytes=self.peak_sizes[row],
            cumulative_bytes=None if total == UNKNOWN else total,
        )

    def node(self, row: int, children: Sequence[StackTraceNode]) -> StackTraceNode:
        """Return the line of the tree of a row."""
        total, current, remaining = self.node_numbers[3 * row : 3 * row + 3]
        return StackTraceNode(
            name=self.source.text[self.node_names[row] : self.node_name_ends[row]],
            total_bytes=total,
            current_bytes=None if current == UNKNOWN else current,
            remaining_bytes=None if remaining == UNKNOWN else remaining,
            children=tuple(children),
        )


@dataclass(eq=False)
class HloLiveRange:
    """Live ranges of the values of a scheduled module, and the peak according to XLA.

    Values of computations that are not in the schedule (reducers, fusions) have no range.

    Attributes:
        columns: Places and numbers of the lines.
        schedule_end_time: Length of the schedule as printed (``max N``); None if not printed.
        is_available: False if XLA had none: the executable was finalized or made from a proto.
        peak_moment: Position of the peak as printed, or None. XLA sums sizes of whole
            instructions, so the true peak is often elsewhere.
        is_peak_undetermined: Whether XLA could not determine the peak (dynamic shapes).
        stack_trace_bytes: Bytes at the peak in the title of the tree; None without a tree.
        gaps: Parts that could not be read, in text order.
        is_complete: Whether no part is known to be missing.
        start: Offset in the text where it begins.
    """

    columns: LiveRangeColumns = field(repr=False)
    schedule_end_time: LogicalTime | None = None
    is_available: bool = True
    peak_moment: LogicalTime | None = None
    is_peak_undetermined: bool = False
    stack_trace_bytes: int | None = None
    gaps: tuple[Gap, ...] = field(default=(), repr=False)
    is_complete: bool = True
    start: int = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HloLiveRange):
            return NotImplemented
        return self._content() == other._content()

    __hash__ = object.__hash__

    def _content(self) -> tuple[object, ...]:
        return (
            *(self.schedule_end_time, self.is_available, self.peak_moment),
            *(self.is_peak_undetermined, self.stack_trace_bytes),
            *(self.columns.scheduled_times, self.flattened_instruction_sequence),
            *(self.buffer_live_ranges, self.peak_values, self.stack_trace),
        )

    @property
    def path(self) -> str:
        """Name of the file that it was read from."""
        return self.columns.source.path

    @property
    def flattened_instruction_sequence(self) -> Sequence[str]:
        """Names of the scheduled instructions, without ``%``, in the order of the text."""
        return Rows(self.columns.scheduled, range(len(self.columns.scheduled_names)))

    def instruction_at(self, time: LogicalTime) -> str | None:
        """Return the name of the instruction at a position; None if there is none."""
        times = self.columns.scheduled_times
        if 0 <= time < len(times) and times[time] == time:
            return self.columns.scheduled(time)
        row = self._row_by_time.get(time)
        return None if row is None else self.columns.scheduled(row)

    @functools.cached_property
    def _row_by_time(self) -> dict[LogicalTime, int]:
        return {time: row for row, time in enumerate(self.columns.scheduled_times)}

    @property
    def buffer_live_ranges(self) -> Sequence[BufferLiveRange]:
        """Live ranges of all values, in the order of the text, which is by id of the value."""
        return Rows(self.columns.live_range, range(len(self.columns.range_names)))

    def live_at(self, time: LogicalTime) -> Sequence[BufferLiveRange]:
        """Return the ranges of the values alive at a position, both ends inclusive."""
        starts, ends = self.columns.starts, self.columns.ends
        alive = [start <= time <= end for start, end in zip(starts, ends, strict=True)]
        return Rows(self.columns.live_range, list(compress(range(len(starts)), alive)))

    @property
    def peak_values(self) -> Sequence[PeakValue]:
        """Values that XLA lists as alive at `peak_moment`, in its order."""
        return Rows(self.columns.peak_value, range(len(self.columns.peak_names)))

    @property
    def peak_bytes(self) -> int | None:
        """Sum of the sizes listed at the peak; None without a list."""
        return None if self.peak_moment is None else sum(self.columns.peak_sizes)

    @functools.cached_property
    def stack_trace(self) -> tuple[StackTraceNode, ...]:
        """Roots of the tree of values alive at the peak."""
        columns = self.columns
        waiting: dict[int, list[StackTraceNode]] = {}
        for row in range(len(columns.node_depths) - 1, -1, -1):
            depth = columns.node_depths[row]
            deeper = [d for d in waiting if d > depth]
            children = [node for d in sorted(deeper) for node in reversed(waiting.pop(d))]
            waiting.setdefault(depth, []).append(columns.node(row, children))
        return tuple(node for d in sorted(waiting) for node in reversed(waiting[d]))


@dataclass(frozen=True, kw_only=True)
class LiveRanges:
    """Live ranges computed from the schedule of a module without a live-range text.

    Attributes:
        schedule: Names of the instructions in the order of execution, flattened.
        ranges: Value (``add.2{}``) to first and last instant, both inclusive.
        moved: Values whose end was changed by the heap traces.
        source: Their origin, in words.
        is_complete: Whether every instruction was modelled.
    """

    schedule: Sequence[str] = field(repr=False)
    ranges: Mapping[str, tuple[int, int]] = field(repr=False)
    moved: tuple[str, ...] = ()
    source: str = "live ranges follow from the schedule by XLA's rules: no text or proto has them"
    is_complete: bool = True
