"""Text of a memory-usage report to the model: by the scanner, or by the grammar alone.

Two forms: by allocation (October 2024 to March 2026), and by memory space (since). The scanner
makes one pass over the lines of a text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.buffers import patterns
from hlo_lens.buffers.assignment_grammar import read_items
from hlo_lens.buffers.human_size import HumanSize
from hlo_lens.buffers.lines import (
    ANY_HEADER,
    LineScan,
    ShapeCheck,
    first_found,
    header_of_others,
    scan_source,
    source_of,
)
from hlo_lens.buffers.memory_usage_grammar import (
    NAMES,
    ReportDraft,
    TableDraft,
    allocation_row,
    allocation_row_of,
    empty_space,
    parser,
    read_report,
    report_allocation,
    report_row,
    row_of,
)
from hlo_lens.buffers.memory_usage_report import CountedShape, MemoryUsageReport, ReportAllocation
from hlo_lens.grammar.reader_choice import ReaderName, uses_grammar
from hlo_lens.hlo.patterns import LINE
from hlo_lens.text.dump_kinds import DumpKind

if TYPE_CHECKING:
    from hlo_lens.text.source import Source


def parse_memory_usage_report(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    reader: ReaderName = "scanner",
) -> MemoryUsageReport:
    """Return the report of a text, in either form.

    Unread parts are listed in its ``gaps``. Of several the first is returned, with a gap
    at the start of the second.

    Args:
        text: A ``-memory-usage-report.txt`` dump.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        reader: ``grammar`` reads by the grammar alone and raises at the first error.

    Raises:
        DumpSyntaxError: If it has no report, or, if strict, at the first gap.
    """
    source = source_of(text, path)
    if uses_grammar(reader):
        return read_report(source)
    scan = scan_source(source, ReportScan)
    expected = "'Memory Space:' or 'Allocations sorted by size:'"
    return first_found(scan, scan.found, expected, "a second memory-usage report", strict=strict)


_COUNTED_SHAPE = re.compile(
    rf"(?:({patterns.SMALL})\N{{MULTIPLICATION SIGN}})?+({LINE.shape})(?:, |\Z)"
)
_OTHERS = header_of_others(DumpKind.MEMORY_USAGE_REPORT, DumpKind.BUFFER_VALUES)
_OWN = re.compile(
    r"\n(?=Memory Space: |Total bytes used: [^\n]*\n\s*Allocations sorted|\*\*\* (?:Begin|End) )"
)
"""Line ends after which this reader resumes behind the text of another dump."""

_LIKE_ROW = re.compile(rf"[ \t]*+(?:{patterns.HUMAN})[ \t]*+\(")
_RESUME = re.compile(
    rf"\n(?=[ \t]*+(?:cumulative_size;|The rest|allocation \d|(?:{patterns.HUMAN})\(|{ANY_HEADER}))"
)
"""Line ends after which reading resumes behind unreadable text."""

_EXPECTED = "a line of a memory-usage report"


class ReportScan(LineScan):
    """One pass over a source, with the report that is being filled.

    Attributes:
        found: Reports so far.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.found: list[MemoryUsageReport] = []
        self._draft: ReportDraft | None = None
        self._shapes = ShapeCheck()

    def _open(self, position: int) -> ReportDraft:
        if self._draft is None:
            self._draft = ReportDraft(position)
        return self._draft

    def end(self) -> None:
        """End the report: set its gaps, and whether it is complete."""
        draft, self._draft = self._draft, None
        if draft is None:
            return
        report = draft.done(self.source.path)
        report.gaps = self.take_gaps()
        report.is_complete = draft.is_whole and not self.is_damaged
        self.is_damaged = False
        self.found.append(report)

    # ---- lines ---------------------------------------------------------------------------------

    def _unit(self, position: int) -> int:
        """Read one line that is not blank, or two that belong together."""
        for read in (self._row, self._title, self._table_head, self._rest, self._allocation_line):
            end = read(position)
            if end > position:
                break
        else:
            end = self._irregular(position)
        if end == len(self.text) and self.text[-1] != "\n":
            self.is_damaged = True  # XLA ends every line: this one may be cut off
        return end

    def _title(self, position: int) -> int:
        text = self.text
        if (match := patterns.MEMORY_SPACE.match(text, position)) is not None:
            self._open(position).spaces.append((empty_space(*match.groups()), []))
        elif (match := patterns.REPORT_TOTAL.match(text, position)) is not None:
            self.end()
            self._open(position).total = int(match[1]), HumanSize(match[2])
        elif (match := patterns.SORTED_HEAD.match(text, position)) is not None:
            self._open(position)
        elif (match := patterns.SORTED_WITH_VALUES.match(text, position)) is not None:
            self._open(position).with_values = True
        return position if match is None else match.end()

    def _table_head(self, position: int) -> int:
        match = patterns.TABLE_HEAD.match(self.text, position)
        tables = None if match is None else self._open(position).tables
        if match is None or tables is None:
            return position
        tables.append(TableDraft())
        return match.end()

    def _row(self, position: int) -> int:
        match = patterns.REPORT_ROW.match(self.text, position)
        table = self._table()
        if match is None or table is None:
            return self._allocation_row(position)
        shapes = self._counted_shapes(match[6])
        if shapes is None:
            return position
        table.rows.append(report_row(match.groups(), shapes))
        return match.end()

    def _table(self) -> TableDraft | None:
        """Return the table to which rows belong; None if none has begun."""
        tables = None if self._draft is None else self._draft.tables
        return tables[-1] if tables else None

    def _counted_shapes(self, text: str) -> tuple[CountedShape, ...] | None:
        """Return the shapes of a row; None if one is malformed."""
        found: list[CountedShape] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            match = _COUNTED_SHAPE.match(text, position)
            if match is None or self._shapes.problem(match[2]) is not None:
                return None
            found.append(CountedShape(count=int(match[1] or 1), shape_text=match[2]))
            position = match.end()
        return None if text.endswith(",") else tuple(found)

    def _allocation_row(self, position: int) -> int:
        match = patterns.ALLOCATION_ROW.match(self.text, position)
        if match is None:
            return position
        short = patterns.SHORT_ALLOCATION.match(self.text, match.end())
        allocation = None if short is None else self._allocation(short)
        if short is None or allocation is None:
            return position
        self._open(position).rows.append(allocation_row(match.groups(), allocation))
        return short.end()

    def _allocation_line(self, position: int) -> int:
        match = patterns.SHORT_ALLOCATION.match(self.text, position)
        allocation = None if match is None else self._allocation(match)
        if match is None or allocation is None:
            return position
        draft = self._open(position)
        draft.with_values = True
        draft.usages.append((allocation, []))
        return match.end()

    def _allocation(self, match: re.Match[str]) -> ReportAllocation | None:
        read = read_items(self.text, match)
        return None if read is None else report_allocation(self.source, read)

    def _rest(self, position: int) -> int:
        match = patterns.REST.match(self.text, position)
        if match is None:
            return position
        hidden = int(match[1]), int(match[3])
        table = self._table()
        if match[2] == "allocations":
            self._open(position).hidden = hidden
        elif table is not None:
            table.hidden = hidden
        else:
            return position
        return match.end()

    def _irregular(self, position: int) -> int:
        """Read a line that is not in XLA's layout, or skip the text of another dump."""
        text = self.text
        if _OTHERS.match(text, position) or text.startswith("Used values:", position):
            self.end()
            return self.after_other_dump(position, _OWN)
        if _LIKE_ROW.match(text, position) is None:
            return self.skip_junk(position, _RESUME, _EXPECTED)
        end = self.next_line(position)
        table = self._table()
        is_allocation = "allocation" in text[position:end]
        if table is None and not is_allocation:
            self.refuse(position, end, "a row outside any table")
            return end
        rule = "allocation_row" if is_allocation else "row"
        tree = self.ask(parser(), NAMES, rule, position, end)
        if tree is not None and is_allocation:
            self._open(position).rows.append(allocation_row_of(tree, self.source, position))
        elif tree is not None and table is not None:
            table.rows.append(row_of(tree, text[position:end]))
        return end
