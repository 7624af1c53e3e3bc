"""HloLiveRange: the flattened schedule, and the live range of each value.

Times are positions in the flattened schedule (LogicalTime): bodies of calls, conditionals and loops
are in it once, before the instruction that calls them. Source: xla/hlo/utils/hlo_live_range.h and
.cc, hlo_stack_trace.cc.

The dump has a file of its own (since April 2026), follows the allocations and used values of its
module (before), or is part of a log. Lines of the schedule and of the ranges are matched many at
once and split afterwards: one by one they take twice the time.
"""

from __future__ import annotations

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


class PeakValue(NamedTuple):
    """A value that XLA lists as alive at its peak.

    Attributes:
        instruction_name: Instruction that defines it, without ``%``.
        index: Index into its shape; None before April 2025, when it was not printed.
        size_bytes: Bytes without padding, pointers of tuples 8 bytes each.
    """

    instruction_name: str
    index: ShapeIndex | None  # type: ignore[assignment] # as above
    size_bytes: int


@dataclass(slots=True, eq=False)
class LiveRangeColumns:
    """Places in the text and numbers of the lines of a live range; names are where they start.

    A scheduled name extends to the end of the line, that of a value to ``{``.
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

    def __post_init__(self) -> None:
        if len(self.source.text) > LARGEST_OFFSET:
            self.scheduled_names, self.range_names = array("Q"), array("Q")
            self.peak_names, self.peak_name_ends = array("Q"), array("Q")

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
        return PeakValue(name.rstrip(), parse_index(index) if brace else None, self.peak_sizes[row])


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
        gaps: Parts that could not be read, in text order.
        is_complete: Whether no part is known to be missing.
        start: Offset in the text where it begins.
    """

    columns: LiveRangeColumns = field(repr=False)
    schedule_end_time: LogicalTime | None = None
    is_available: bool = True
    peak_moment: LogicalTime | None = None
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
            *(self.columns.scheduled_times, self.flattened_instruction_sequence),
            *(self.buffer_live_ranges, self.peak_values),
        )

    @property
    def path(self) -> str:
        return self.columns.source.path

    @property
    def flattened_instruction_sequence(self) -> Sequence[str]:
        """Names of the scheduled instructions, without ``%``, in the order of the text."""
        return Rows(self.columns.scheduled, range(len(self.columns.scheduled_names)))

    def instruction_at(self, time: LogicalTime) -> str | None:
        times = self.columns.scheduled_times
        return self.columns.scheduled(times.index(time)) if time in times else None

    @property
    def buffer_live_ranges(self) -> Sequence[BufferLiveRange]:
        return Rows(self.columns.live_range, range(len(self.columns.range_names)))

    def live_at(self, time: LogicalTime) -> Sequence[BufferLiveRange]:
        starts, ends = self.columns.starts, self.columns.ends
        alive = [start <= time <= end for start, end in zip(starts, ends, strict=True)]
        return Rows(self.columns.live_range, list(compress(range(len(starts)), alive)))

    @property
    def peak_values(self) -> Sequence[PeakValue]:
        return Rows(self.columns.peak_value, range(len(self.columns.peak_names)))

    @property
    def peak_bytes(self) -> int | None:
        return None if self.peak_moment is None else sum(self.columns.peak_sizes)


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


class LiveRangeScan(RuleScan):
    """One pass over a source, with the live ranges so far; the last may be being filled."""

    parser = LineParser(
        *_FILES,
        rules=(
            *(_TITLE, _NOT_AVAILABLE, _SEQUENCE_TITLE, _SCHEDULED, _RANGES_TITLE, _RANGE),
            *(_UNDETERMINED, _PEAK_TITLE, _PEAK_VALUE, _STACK_TITLE, _STACK_NODE),
        ),
        names={
            **LINE_NAMES,
            **dict.fromkeys(("TIME", "END", "BYTES", "SUM", "CURRENT", "REMAINING"), "a number"),
            "_NOT_AVAILABLE": "'HloLiveRange not available'",
            "_UNDETERMINED": "'Peak memory could not be determined'",
        },
    )
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
        self._has_ranges = self._is_undetermined = False
        self._remaining = 0  # bytes of the tree of call stacks below the last line
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
        self._has_ranges, self._is_undetermined, self._remaining = False, False, 0
        self.current = HloLiveRange(columns=self.columns, start=start)
        self.found.append(self.current)
        return self.current

    def _opened(self, spans: Spans) -> HloLiveRange:
        return self.current or self._begin(spans[0][0])

    def end(self) -> None:
        current, self.current = self.current, None
        if current is None:
            return
        current.gaps = self.take_gaps()
        is_whole = not current.is_available or (self._has_ranges and self._is_whole(current))
        current.is_complete = is_whole and not self.is_damaged
        self.is_damaged = False

    def _is_whole(self, current: HloLiveRange) -> bool:
        columns = current.columns
        if current.schedule_end_time != len(columns.scheduled_times):
            return False
        if current.peak_moment is None:
            return self._is_undetermined
        alive = current.live_at(current.peak_moment)
        return len(columns.peak_names) == len(alive) and not self._remaining

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
        return int(self.text[slice(*span)].replace(" ", ""))  # spaces between thousands

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
        _, (name, name_end), (_, index_end), size, _ = spans
        columns = self.columns
        columns.peak_names.append(name)
        columns.peak_name_ends.append(max(name_end, index_end))
        columns.peak_sizes.append(self._number(size))

    def _stack_title(self, spans: Spans) -> None:
        self._opened(spans)
        self._remaining = self._number(spans[1])

    def _stack_node(self, spans: Spans) -> None:
        self._opened(spans)
        *_, remaining = spans
        self._remaining = self._number(remaining) if remaining[0] >= 0 else 0

    def _title(self, spans: Spans) -> None:
        self._begin(spans[0][0]).schedule_end_time = self._number(spans[1])

    def _not_available(self, spans: Spans) -> None:
        self._begin(spans[0][0]).is_available = False

    def _sequence_title(self, spans: Spans) -> None:
        self._opened(spans)

    def _ranges_title(self, spans: Spans) -> None:
        self._opened(spans)
        self._has_ranges = True

    def _peak_title(self, spans: Spans) -> None:
        self._opened(spans).peak_moment = self._number(spans[1])

    def _undetermined(self, spans: Spans) -> None:
        self._opened(spans)
        self._is_undetermined = True
