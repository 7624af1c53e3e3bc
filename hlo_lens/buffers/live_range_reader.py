"""Text of an HloLiveRange to the model.

The dump has a file of its own (since April 2026), follows the allocations and used values of its
module (before), or is part of a log. Lines of the schedule and of the ranges are matched many at
once and split afterwards: one by one they take twice the time.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from hlo_lens.buffers.lines import (
    NAMES as LINE_NAMES,
    RuleScan,
    first_found,
    header_of_others,
    scan_text,
)
from hlo_lens.buffers.live_range import UNKNOWN, HloLiveRange, LiveRangeColumns
from hlo_lens.grammar.lines import LineParser, LineRule
from hlo_lens.text.dump_kinds import DumpKind

if TYPE_CHECKING:
    from hlo_lens.grammar.files import Spans
    from hlo_lens.text.source import Source


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
        """End the previous live range and begin a new one."""
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
        """End the live range: set its gaps, and whether it is complete."""
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
    """Return whether the parts of a live range agree on its length and sizes."""
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
