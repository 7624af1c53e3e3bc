"""HloLiveRange: the flattened schedule, and the live range of each value.

Times are positions in the flattened schedule (LogicalTime): bodies of calls, conditionals and loops
are in it once, before the instruction that calls them. Source: xla/hlo/utils/hlo_live_range.h and
.cc, hlo_stack_trace.cc.

The dump has a file of its own (since April 2026), follows the allocations and used values of its
module (before), or is part of a log. Lines of the schedule and of the ranges are matched many at
once and split afterwards: one by one they take twice the time.
"""

from __future__ import annotations

import functools
from array import array
from dataclasses import dataclass, field
from itertools import accumulate, compress
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.buffers.assignment import LARGEST_OFFSET, parse_index
from hlo_lens.buffers.assignment_reader import (
    LINE_NAMES,
    RuleScan,
    first_found,
    header_of_others,
    scan_text,
)
from hlo_lens.grammar.lines import LineParser, LineRule
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.grammar.files import Spans
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
        text, start = self.source.text, self.scheduled_names[row]
        end = text.find("\n", start)
        return text[start : len(text) if end < 0 else end].rstrip()

    def live_range(self, row: int) -> BufferLiveRange:
        text, start = self.source.text, self.range_names[row]
        name_end = text.index("{", start)
        return BufferLiveRange(
            instruction_name=text[start:name_end].rstrip(),
            index=parse_index(text[name_end : text.index("}", name_end)]),
            start=self.starts[row],
            end=self.ends[row],
        )

    def peak_value(self, row: int) -> PeakValue:
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
        return Rows(self.columns.peak_value, range(len(self.columns.peak_names)))

    @property
    def peak_bytes(self) -> int | None:
        """Sum of the sizes listed at the peak; None without a list."""
        return None if self.peak_moment is None else sum(self.columns.peak_sizes)

    @functools.cached_property
    def stack_trace(self) -> tuple[StackTraceNode, ...]:
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
        source: Their origin, in words.
        is_complete: Whether every instruction was modelled.
    """

    schedule: Sequence[str] = field(repr=False)
    ranges: Mapping[str, tuple[int, int]] = field(repr=False)
    source: str = "live ranges follow from the schedule by XLA's rules: no text has them"
    is_complete: bool = True


def parse_live_range(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> HloLiveRange:
    """Return the live range of a text: alone, after a BufferAssignment, or in a log.

    Unread parts are listed in its ``gaps``. Of several the first is returned, with a gap
    at the start of the second.

    Args:
        text: A ``-live-range.txt`` dump, or a ``-buffer-assignment.txt`` of before April 2026.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.

    Raises:
        DumpSyntaxError: If it has no live range, or, if strict, at the first gap.
    """
    scan = scan_text(text, path, LiveRangeScan)
    second = "a second HloLiveRange"
    return first_found(scan, scan.found, "'HloLiveRange'", second, strict=strict, width=12)


_FILES = ("hlo_tokens", "buffer_tokens", "live_range")
_TITLE = LineRule("range_title", *_FILES)
_NOT_AVAILABLE = LineRule("range_not_available", *_FILES)
_SEQUENCE_TITLE = LineRule("sequence_title", *_FILES)
_SCHEDULED = LineRule("scheduled", *_FILES)
_RANGES_TITLE = LineRule("ranges_title", *_FILES)
_RANGE = LineRule("buffer_live_range", *_FILES)
_UNDETERMINED = LineRule("undetermined", *_FILES)
_PEAK_TITLE = LineRule("peak_title", *_FILES)
_PEAK_VALUE = LineRule("peak_value", *_FILES)
_STACK_TITLE = LineRule("stack_title", *_FILES)
_STACK_NODE = LineRule("stack_node", *_FILES)
_RULES = (
    *(_TITLE, _NOT_AVAILABLE, _SEQUENCE_TITLE, _SCHEDULED, _RANGES_TITLE, _RANGE),
    *(_UNDETERMINED, _PEAK_TITLE, _PEAK_VALUE, _STACK_TITLE, _STACK_NODE),
)
PARSER = LineParser(
    *_FILES,
    rules=_RULES,
    names={
        **LINE_NAMES,
        **dict.fromkeys(("TIME", "END", "BYTES", "SUM", "CURRENT", "REMAINING"), "a number"),
        "_NOT_AVAILABLE": "'HloLiveRange not available'",
        "_UNDETERMINED": "'Peak memory could not be determined'",
    },
)


class LiveRangeScan(RuleScan):
    """One pass over a source: its live ranges, one of them being filled.

    Attributes:
        found: Live ranges so far.
        columns: Columns of the one being filled.
        current: The one being filled, or None.
        sections: Its sections found so far.
    """

    parser = PARSER
    expected = "a line of an HloLiveRange"
    others = header_of_others(DumpKind.LIVE_RANGE)
    own_titles = (_TITLE, _SEQUENCE_TITLE)
    landmarks = (
        *(_SEQUENCE_TITLE, _RANGES_TITLE, _PEAK_TITLE, _STACK_TITLE, _UNDETERMINED),
        *(_SCHEDULED, _RANGE, _PEAK_VALUE, _STACK_NODE),
    )

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.found: list[HloLiveRange] = []
        self.columns = LiveRangeColumns(source)
        self.current: HloLiveRange | None = None
        self.has_ranges = False
        self.rules = (
            (_SCHEDULED, self._scheduled),
            (_RANGE, self._range),
            (_PEAK_VALUE, self._peak_value),
            (_STACK_NODE, self._stack_node),
            (_TITLE, self._title),
            (_NOT_AVAILABLE, self._not_available),
            (_SEQUENCE_TITLE, self._sequence_title),
            (_RANGES_TITLE, self._ranges_title),
            (_PEAK_TITLE, self._peak_title),
            (_UNDETERMINED, self._undetermined),
            (_STACK_TITLE, self._stack_title),
        )

    def _begin(self, start: int) -> HloLiveRange:
        self.end()
        self.columns = LiveRangeColumns(self.source)
        self.has_ranges = False
        self.current = HloLiveRange(columns=self.columns, start=start)
        self.found.append(self.current)
        return self.current

    def _opened(self, spans: Spans) -> HloLiveRange:
        """Return the live range being filled; one without its header if there is none."""
        return self.current or self._begin(spans[0][0])

    def end(self) -> None:
        current, self.current = self.current, None
        if current is None:
            return
        current.gaps = self.take_gaps()
        is_whole = not current.is_available or (self.has_ranges and _is_whole(current))
        current.is_complete = is_whole and not self.is_damaged
        self.is_damaged = False

    def note_cut(self) -> None:
        """Note that the last line has no line end, which only a range that is missing lacks."""
        self.is_damaged |= self.current is None or self.current.is_available

    # ---- lines ---------------------------------------------------------------------------------

    def _unit(self, position: int) -> int:
        """Read lines from one that is not blank, and return the offset after them."""
        start, text = position, self.text
        for rule, add in ((_SCHEDULED, self._add_schedule), (_RANGE, self._add_ranges)):
            while (match := rule.block.match(text, position)) is not None:
                self._opened(match.regs)
                add(position, match.end())
                position = match.end()
        return position if position > start else super()._unit(position)

    def _add_schedule(self, start: int, end: int) -> None:
        lines = self.text[start : end - 1].split("\n")
        times = [line.partition(":")[0] for line in lines]
        offsets = accumulate([len(line) + 1 for line in lines], initial=start)
        names = [o + len(time) + 1 for o, time in zip(offsets, times, strict=False)]
        self.columns.scheduled_times.extend(map(int, times))
        self.columns.scheduled_names.extend(names)

    def _add_ranges(self, start: int, end: int) -> None:
        lines = self.text[start : end - 1].split("\n")
        bounds = [line.rpartition(":")[2].partition("-") for line in lines]
        lengths = [len(line) + 1 for line in lines]
        lengths.pop()
        self.columns.range_names.extend(accumulate(lengths, initial=start + 4))
        self.columns.starts.extend([int(first) for first, _, _ in bounds])
        self.columns.ends.extend([int(last) for _, _, last in bounds])

    def _number(self, span: tuple[int, int]) -> int:
        """Return a number, which may have spaces between thousands; UNKNOWN for an absent one."""
        return UNKNOWN if span[0] < 0 else int(self.text[slice(*span)].replace(" ", ""))

    def _scheduled(self, spans: Spans) -> None:
        self._opened(spans)
        self.columns.scheduled_times.append(self._number(spans[1]))
        self.columns.scheduled_names.append(spans[2][0])

    def _range(self, spans: Spans) -> None:
        self._opened(spans)
        _, (name, _), _, start, end = spans
        self.columns.range_names.append(name)
        self.columns.starts.append(self._number(start))
        self.columns.ends.append(self._number(end))

    def _peak_value(self, spans: Spans) -> None:
        self._opened(spans)
        _, (name, name_end), (_, index_end), size, total = spans
        columns = self.columns
        columns.peak_names.append(name)
        columns.peak_name_ends.append(max(name_end, index_end))
        columns.peak_sizes.append(self._number(size))
        columns.peak_sums.append(self._number(total))

    def _stack_node(self, spans: Spans) -> None:
        self._opened(spans)
        _, (branch, branch_end), name, root, *numbers = spans
        columns = self.columns
        start, end = name if branch >= 0 else root
        depth = max(1, (branch_end - branch - 5) // 4) if branch >= 0 else 0
        columns.node_depths.append(depth)
        columns.node_names.append(start)
        columns.node_name_ends.append(end)
        columns.node_numbers.extend(map(self._number, numbers))

    def _title(self, spans: Spans) -> None:
        self._begin(spans[0][0]).schedule_end_time = self._number(spans[1])

    def _not_available(self, spans: Spans) -> None:
        self._begin(spans[0][0]).is_available = False

    def _sequence_title(self, spans: Spans) -> None:
        self._opened(spans)

    def _ranges_title(self, spans: Spans) -> None:
        self._opened(spans)
        self.has_ranges = True

    def _peak_title(self, spans: Spans) -> None:
        self._opened(spans).peak_moment = self._number(spans[1])

    def _undetermined(self, spans: Spans) -> None:
        self._opened(spans).is_peak_undetermined = True

    def _stack_title(self, spans: Spans) -> None:
        self._opened(spans).stack_trace_bytes = self._number(spans[1])


def _is_whole(current: HloLiveRange) -> bool:
    columns = current.columns
    if current.schedule_end_time != len(columns.scheduled_times):
        return False
    if current.is_peak_undetermined:
        return True
    if current.peak_moment is None:
        return False
    if len(columns.peak_names) != len(current.live_at(current.peak_moment)):
        return False
    return _is_whole_tree(current)


def _is_whole_tree(current: HloLiveRange) -> bool:
    """Return whether the tree is complete.

    No bytes remain after its last line, and the bytes of each node are its own and those of the
    nodes below it. Source: hlo_stack_trace.cc.
    """
    columns = current.columns
    if not columns.node_depths or current.stack_trace_bytes is None:
        return not columns.node_depths and not current.stack_trace_bytes
    if columns.node_numbers[-1] not in (0, UNKNOWN):
        return False
    below: dict[int, int] = {}  # depth to the bytes of nodes that belong to a node further up
    totals, own = columns.node_numbers[::3], columns.node_numbers[1::3]
    for depth, total, current_bytes in zip(
        reversed(columns.node_depths), reversed(totals), reversed(own), strict=True
    ):
        inside = below.pop(depth + 1, 0)
        if current_bytes != UNKNOWN and total != current_bytes + inside:
            return False
        below[depth] = below.get(depth, 0) + total
    return below == {0: current.stack_trace_bytes}
