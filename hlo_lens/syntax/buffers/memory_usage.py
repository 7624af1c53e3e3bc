"""Text of a memory-usage report to the model: a scanner, with the grammar's help.

Two forms: by allocation (October 2024 to March 2026), and by memory space (since).
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from lark import Token

from hlo_lens.model.buffers.assignment import BufferAssignment
from hlo_lens.model.buffers.columns import (
    ALLOCATION_STRIDE,
    ASSIGNED_STRIDE,
    REUSED_STRIDE,
    SIZE,
    BufferColumns,
)
from hlo_lens.model.buffers.human_size import HumanSize
from hlo_lens.model.buffers.memory_usage_report import (
    AllocationRow,
    AllocationUsage,
    CountedShape,
    MemorySpaceUsage,
    MemoryUsageReport,
    ReportAllocation,
    ReportRow,
    ReportTable,
)
from hlo_lens.syntax.buffers import patterns
from hlo_lens.syntax.buffers.assignment_grammar import Places, ReadAllocation
from hlo_lens.syntax.buffers.lines import (
    LineScan,
    Node,
    find_all,
    first_found,
    grammar_tree,
    header_of_others,
    nothing_found,
    scan_source,
    source_of,
)
from hlo_lens.syntax.buffers.memory_usage_grammar import (
    NAMES,
    hidden_of,
    parser,
    percent_of,
    row_of,
)
from hlo_lens.syntax.buffers.parts import ShapeCheck, read_items
from hlo_lens.syntax.hlo.patterns import LINE
from hlo_lens.text.dump_kinds import DumpKind

if TYPE_CHECKING:
    from hlo_lens.text.source import Source

_COUNTED_SHAPE = re.compile(
    rf"(?:({patterns.SMALL})\N{{MULTIPLICATION SIGN}})?+({LINE.shape})(?:, |\Z)"
)
_OTHERS = header_of_others(DumpKind.MEMORY_USAGE_REPORT, DumpKind.BUFFER_VALUES)
_OWN = re.compile(
    r"\n(?=Memory Space: |Total bytes used: [^\n]*\n\s*Allocations sorted|\*\*\* (?:Begin|End) )"
)
"""Where, after text of another dump, a line begins that may be ours."""

_LIKE_ROW = re.compile(rf"[ \t]*+(?:{patterns.HUMAN})[ \t]*+\(")
_RESUME = re.compile(
    r"\n(?=[ \t]*+(?:Memory Space: |Total bytes used: |Allocations sorted|cumulative_size;"
    rf"|The rest|allocation \d|(?:{patterns.HUMAN})\(|BufferAssignment:|Used values:"
    r"|HloLiveRange |HloModule |\*\*\* ))"
)
"""Where reading can begin anew after text that could not be read."""

_EXPECTED = "a line of a memory-usage report"


def parse_memory_usage_report(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> MemoryUsageReport:
    """Return the report that a text prints, of either form.

    What could not be read is in its ``gaps``. Of several the first is returned, and a gap says
    where the second begins.

    Args:
        text: A ``-memory-usage-report.txt`` dump.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.

    Raises:
        DumpSyntaxError: If it holds no report, or, when strict, at the first gap.
    """
    scan = scan_memory_usage_reports(source_of(text, path))
    if not scan.found:
        raise nothing_found(scan, "'Memory Space:' or 'Allocations sorted by size:'")
    return first_found(scan, scan.found, "a second memory-usage report", strict=strict)


def scan_memory_usage_reports(source: Source) -> ReportScan:
    """Return a finished scan: all reports that a source holds."""
    return scan_source(source, ReportScan)


@dataclass(slots=True)
class _Table:
    rows: list[ReportRow] = field(default_factory=list)
    hidden: tuple[int, int] | None = None

    def done(self) -> ReportTable:
        count, percent = self.hidden or (0, None)
        return ReportTable(rows=tuple(self.rows), hidden_rows=count, hidden_percent=percent)

    @property
    def is_whole(self) -> bool:
        """Whether the last row ends the sum, or XLA says that it left out the rest.

        An allocation that holds no value has a table without rows.
        """
        if self.hidden is not None or not self.rows:
            return True
        return self.rows[-1].cumulative_percent in (100, None)


@dataclass(slots=True)
class _Space:
    name: str
    color: int
    total_bytes: int
    total: HumanSize
    tables: list[_Table] = field(default_factory=list)

    def done(self) -> MemorySpaceUsage:
        return MemorySpaceUsage(
            name=self.name,
            color=self.color,
            total_bytes=self.total_bytes,
            total=self.total,
            tables=tuple(table.done() for table in self.tables),
        )


@dataclass(slots=True)
class _Draft:
    """A report that is being filled."""

    start: int
    total: tuple[int, HumanSize] | None = None
    spaces: list[_Space] = field(default_factory=list)
    rows: list[AllocationRow] = field(default_factory=list)
    hidden: tuple[int, int] | None = None
    with_values: bool = False
    usages: list[tuple[ReportAllocation, list[_Table]]] = field(default_factory=list)

    @property
    def tables(self) -> list[_Table] | None:
        """Where a table belongs that begins now; None where none can."""
        if self.with_values:
            return self.usages[-1][1] if self.usages else None
        return self.spaces[-1].tables if self.spaces else None

    def done(self, path: str) -> MemoryUsageReport:
        total, human = self.total or (None, None)
        hidden, percent = self.hidden or (0, None)
        return MemoryUsageReport(
            spaces=tuple(space.done() for space in self.spaces),
            printed_total=total,
            total=human,
            allocation_rows=tuple(self.rows),
            hidden_allocations=hidden,
            hidden_percent=percent,
            allocations=tuple(
                AllocationUsage(allocation=a, table=tables[0].done() if tables else None)
                for a, tables in self.usages
            ),
            start=self.start,
            path=path,
        )

    @property
    def is_whole(self) -> bool:
        """Whether all is there that its parts say of one another."""
        tables = [t for space in self.spaces for t in space.tables]
        tables += [t for _, found in self.usages for t in found]
        if not all(table.is_whole for table in tables):
            return False
        if self.total is None:
            return bool(self.spaces) and all(space.tables for space in self.spaces)
        hidden = self.hidden[0] if self.hidden else 0
        if not hidden and self.rows and not self.rows[-1].remaining.matches(0):
            return False
        return self.with_values and len(self.usages) == len(self.rows) + hidden


class ReportScan(LineScan):
    """One pass over a source. Holds the report that is being filled.

    Attributes:
        found: Reports so far.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.found: list[MemoryUsageReport] = []
        self._draft: _Draft | None = None
        self._shapes = ShapeCheck()
        self._first_gap = 0

    def run(self) -> None:
        """Read the whole text."""
        super().run()
        self._end()

    def _open(self, position: int) -> _Draft:
        if self._draft is None:
            self._draft = _Draft(position)
        return self._draft

    def _end(self) -> None:
        draft, self._draft = self._draft, None
        if draft is None:
            return
        report = draft.done(self.source.path)
        report.gaps = tuple(self.gaps[self._first_gap :])
        self._first_gap = len(self.gaps)
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
            name, color, total, human = match.groups()
            space = _Space(name.strip(), int(color), int(total), HumanSize(human))
            self._open(position).spaces.append(space)
        elif (match := patterns.REPORT_TOTAL.match(text, position)) is not None:
            self._end()
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
        tables.append(_Table())
        return match.end()

    def _row(self, position: int) -> int:
        match = patterns.REPORT_ROW.match(self.text, position)
        table = self._table()
        if match is None or table is None:
            return self._allocation_row(position)
        shapes = self._counted_shapes(match[6])
        if shapes is None:
            return position
        table.rows.append(
            ReportRow(
                cumulative_size=HumanSize(match[1]),
                cumulative_percent=percent_of(match[2]),
                size=HumanSize(match[3]),
                offset=int(match[4]),
                used_by_n_values=int(match[5]),
                shapes=shapes,
            )
        )
        return match.end()

    def _table(self) -> _Table | None:
        """Return the table that rows belong to; None where none has begun."""
        tables = None if self._draft is None else self._draft.tables
        return tables[-1] if tables else None

    def _counted_shapes(self, text: str) -> tuple[CountedShape, ...] | None:
        """Return the shapes of a row; None where one of them is none."""
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
        row = AllocationRow(
            cumulative_size=HumanSize(match[1]),
            cumulative_percent=percent_of(match[2]),
            remaining=HumanSize(match[3]),
            allocation=allocation,
        )
        self._open(position).rows.append(row)
        return short.end()

    def _allocation_line(self, position: int) -> int:
        match = patterns.SHORT_ALLOCATION.match(self.text, position)
        allocation = None if match is None else self._allocation(match)
        if match is None or allocation is None:
            return position
        self._add_usage(allocation, position)
        return match.end()

    def _add_usage(self, allocation: ReportAllocation, position: int) -> None:
        draft = self._open(position)
        draft.with_values = True
        draft.usages.append((allocation, []))

    def _allocation(self, match: re.Match[str]) -> ReportAllocation | None:
        read = read_items(self.text, match)
        return None if read is None else self.allocation(read)

    def allocation(self, read: ReadAllocation) -> ReportAllocation:
        """Return an allocation whose places are known."""
        columns = BufferColumns(self.source, ALLOCATION_STRIDE, array("q", read.cells))
        assignment = BufferAssignment(
            columns=columns,
            assigned=BufferColumns(self.source, ASSIGNED_STRIDE),
            reused_columns=BufferColumns(self.source, REUSED_STRIDE),
        )
        view = assignment.allocations[0]
        size = _HUMAN.match(self.text, read.cells[SIZE])
        return ReportAllocation(
            index=view.index,
            size=HumanSize(size[0] if size else ""),
            color=view.color,
            page_id=view.page_id,
            parameter_number=view.parameter_number,
            param_shape_index=view.param_shape_index,
            parameter_shape_text=view.parameter_shape_text,
            output_shape_text=view.output_shape_text,
            is_constant=view.is_constant,
            is_thread_local=view.is_thread_local,
            maybe_live_out=view.maybe_live_out,
            is_preallocated_temp=view.is_preallocated_temp,
            other=read.other,
        )

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
        """Read a line that is not as XLA prints it, or leave text to other readers."""
        text = self.text
        if _OTHERS.match(text, position) or text.startswith("Used values:", position):
            self._end()
            if text.startswith("***", position):
                return self.next_line(position)
            return self.next_match(position, _OWN)
        if _LIKE_ROW.match(text, position) is None:
            return self.skip_junk(position, _RESUME, _EXPECTED)
        end = self.next_line(position)
        table = self._table()
        is_allocation = "allocation" in text[position:end]
        if table is None and not is_allocation:
            self.refuse(position, end, "a row that stands in no table")
            return end
        rule = "allocation_row" if is_allocation else "row"
        tree = self.ask(parser(), NAMES, rule, position, end)
        if tree is not None and is_allocation:
            self._open(position).rows.append(self.allocation_row_of(tree, position))
        elif tree is not None and table is not None:
            table.rows.append(row_of(tree, text[position:end]))
        return end

    def allocation_row_of(self, tree: Node, offset: int) -> AllocationRow:
        """Return what a row of the list of allocations says."""
        total, percent, remaining, allocation = tree.children
        read = Places(offset).allocation(cast("Node", allocation))
        return AllocationRow(
            cumulative_size=HumanSize(str(total)),
            cumulative_percent=percent_of(str(percent)),
            remaining=HumanSize(str(remaining)),
            allocation=self.allocation(read),
        )


_HUMAN = re.compile(patterns.HUMAN)


def parse_memory_usage_report_with_grammar(source: Source) -> MemoryUsageReport:
    """Return the report of a source as the grammar alone reads it: the scanner's reference.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    tree = grammar_tree(parser(), NAMES, source, "memory_usage_report", 0, len(source.text))
    draft = _Draft(0)
    draft.spaces = [_space_of(node, source.text) for node in find_all(tree, "memory_space")]
    scan = ReportScan(source)
    for node in find_all(tree, "by_allocation"):
        _, number, human, *_ = node.children
        draft.total = int(str(number)), HumanSize(str(human))
        draft.with_values = True
        for rows in find_all(node, "allocation_rows"):
            draft.rows = [scan.allocation_row_of(r, 0) for r in find_all(rows, "allocation_row")]
            draft.hidden = hidden_of(rows, "rest_allocations")
        for usage in find_all(node, "allocation_table"):
            read = Places(0).allocation(cast("Node", usage.children[0]))
            tables = [_table_of(t, source.text) for t in find_all(usage, "table")]
            draft.usages.append((scan.allocation(read), tables))
    return draft.done(source.path)


def _space_of(node: Node, text: str) -> _Space:
    tokens = {c.type: str(c) for c in node.children if isinstance(c, Token)}
    numbers = [int(c) for c in node.children if isinstance(c, Token) and c.type == "NATURAL"]
    return _Space(
        tokens["SPACE_NAME"].strip(),
        numbers[0],
        numbers[1],
        HumanSize(tokens["HUMAN_SIZE"]),
        [_table_of(table, text) for table in find_all(node, "table")],
    )


def _table_of(node: Node, text: str) -> _Table:
    rows = [row_of(row, text) for row in find_all(node, "row")]
    return _Table(rows, hidden_of(node, "rest_values"))
