"""Text of an HloLiveRange to the model: by the scanner, or by the grammar alone.

The dump has a file of its own (since April 2026), follows the allocations and used values of its
module (before), or is part of a log. The scanner makes one pass over the lines of a text and
matches the schedule and the ranges many lines at once.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING

from hlo_lens.buffers import patterns
from hlo_lens.buffers.lines import (
    ANY_HEADER,
    Node,
    first_found,
    header_of_others,
    scan_source,
    source_of,
)
from hlo_lens.buffers.live_range import UNKNOWN, HloLiveRange
from hlo_lens.buffers.live_range_draft import NAMES, LiveRangeDraft, parser, spaced_number
from hlo_lens.grammar.reader_choice import ReaderName, uses_grammar
from hlo_lens.text.dump_kinds import DumpKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.text.source import Source


def parse_live_range(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    reader: ReaderName = "scanner",
) -> HloLiveRange:
    """Return the live range of a text: alone, after a BufferAssignment, or in a log.

    Unread parts are listed in its ``gaps``. Of several the first is returned, with a gap
    at the start of the second.

    Args:
        text: A ``-live-range.txt`` dump, or a ``-buffer-assignment.txt`` of before April 2026.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        reader: ``grammar`` reads by the grammar alone and raises at the first error.

    Raises:
        DumpSyntaxError: If it has no live range, or, if strict, at the first gap.
    """
    source = source_of(text, path)
    scan: LiveRangeDraft
    if uses_grammar(reader):
        from hlo_lens.buffers.grammar_reader import read_buffer_dump

        _, scan = read_buffer_dump(source)
    else:
        scan = scan_source(source, LiveRangeScan)
    second = "a second HloLiveRange"
    return first_found(scan, scan.found, "'HloLiveRange'", second, strict=strict, width=12)


_OTHERS = header_of_others(DumpKind.LIVE_RANGE)
_HEADER = re.compile(r"\n(?=HloLiveRange |  InstructionSequence:|\*\*\* (?:Begin|End) )")
"""Line ends after which this reader resumes behind the text of another dump."""

_RESUME = re.compile(
    r"\n(?=[ \t]*+(?:InstructionSequence:|BufferLiveRange:|Live ranges at \d"
    r"|Stack trace breakdown|Peak memory could|\d++:\S|[^\s{}:]++(?:\{[\d,]*+\})?+:[ \t]?+\d"
    rf"|[│├└|+`]|{ANY_HEADER})"
    r"|[^\n]* bytes\)(?:\n|\Z))"
)
"""Line ends after which reading resumes behind unreadable text."""

_LIKE = re.compile(
    r"[ \t]*+(?:(\d++[ \t]*+:)|([^\s:{]++[ \t]*+\{[^\n]*\}[ \t]*+:[ \t]*+\d++[ \t]*+-)"
    r"|([^\s:]++[ \t]*+:[ \t]*+\d++[ \t]++bytes)|(Live ranges at)|(Stack trace breakdown)"
    r"|(HloLiveRange|BufferLiveRange|InstructionSequence)(?=[ :]))"
)
"""Apparent kind of a line."""

_EXPECTED = "a line of an HloLiveRange"


class LiveRangeScan(LiveRangeDraft):
    """One pass over a source."""

    # ---- lines ---------------------------------------------------------------------------------

    def _unit(self, position: int) -> int:
        """Read lines from one that is not blank, and return the offset after them."""
        end = self._many(position)
        if end == position:
            end = self._peak_line(position)
        if end == position:
            end = self._section(position)
        if end == position:
            end = self._irregular(position)
        if end == len(self.text) and self.text[-1] != "\n":
            current = self.current
            # The line of a range that is not available has no line end.
            self.is_damaged = self.is_damaged or current is None or current.is_available
        return end

    def _many(self, position: int) -> int:
        """Read lines of the schedule or of ranges, many at once; return the offset after them."""
        text = self.text
        while (match := patterns.SCHEDULED.match(text, position)) is not None:
            self.open(position)
            self._add_scheduled(position, match.end())
            position = match.end()
        while (match := patterns.BUFFER_LIVE_RANGE.match(text, position)) is not None:
            self.open(position)
            self._add_ranges(position, match.end())
            position = match.end()
        return position

    def _add_scheduled(self, start: int, end: int) -> None:
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

    def _peak_line(self, position: int) -> int:
        """Read values alive at the peak, or lines of the tree; return the offset after them."""
        text, columns = self.text, self.columns
        while (match := patterns.PEAK_VALUE.match(text, position)) is not None:
            self.open(position)
            columns = self.columns
            columns.peak_names.append(match.start(1))
            columns.peak_name_ends.append(match.end(1))
            columns.peak_sizes.append(int(match[2]))
            columns.peak_sums.append(UNKNOWN if match[3] is None else int(match[3]))
            position = match.end()
        while (match := patterns.STACK_NODE.match(text, position)) is not None:
            self.open(position)
            self.add_node(match)
            position = match.end()
        return position

    def _section(self, position: int) -> int:
        """Read a title; return the offset after it, or the position if there is none."""
        text = self.text
        if (match := patterns.LIVE_RANGE.match(text, position)) is not None:
            self.begin(position).schedule_end_time = int(match[1])
        elif (match := patterns.NOT_AVAILABLE.match(text, position)) is not None:
            self.begin(position).is_available = False
        elif (match := patterns.SEQUENCE.match(text, position)) is not None:
            self.open(position)
        elif (match := patterns.RANGES.match(text, position)) is not None:
            self.open(position)
            self.sections.add("ranges")
        elif (match := patterns.PEAK.match(text, position)) is not None:
            self.open(position).peak_moment = int(match[1])
        elif (match := patterns.UNDETERMINED.match(text, position)) is not None:
            self.open(position).is_peak_undetermined = True
        elif (match := patterns.STACK_TRACE.match(text, position)) is not None:
            self.open(position).stack_trace_bytes = spaced_number(match[1])
        return position if match is None else match.end()

    def _irregular(self, position: int) -> int:
        """Read a line that is not in XLA's layout, or skip the text of another dump."""
        text = self.text
        if _OTHERS.match(text, position):
            self.end()
            return self.after_other_dump(position, _HEADER)
        like = _LIKE.match(text, position)
        if like is None:
            return self.skip_junk(position, _RESUME, _EXPECTED)
        end = self.next_line(position)
        self._by_grammar(like.lastindex or 0, position, end)
        return end

    # ---- the grammar ---------------------------------------------------------------------------

    def _by_grammar(self, kind: int, position: int, end: int) -> None:
        """Read a line that is not in XLA's layout by the grammar."""
        readers: tuple[tuple[str, Callable[[Node, int], None]], ...] = (
            ("scheduled", self.add_scheduled),
            ("buffer_live_range", self.add_range),
            ("peak_value", self.add_peak),
        )
        if kind > len(readers):
            titles = ("'Live ranges at N (peak):'", "a stack trace", "a title")
            self.refuse(position, end, f"expected {titles[kind - 1 - len(readers)]}")
            return
        rule, add = readers[kind - 1]
        tree = self.ask(parser(), NAMES, rule, position, end)
        if tree is not None:
            self.open(position)
            add(tree, position)
