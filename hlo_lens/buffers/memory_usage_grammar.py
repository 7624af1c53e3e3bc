"""Memory-usage reports by the grammar: the reference and the fallback of the scanner."""

from __future__ import annotations

import functools
import re
from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from lark import Lark, Token, Tree

from hlo_lens.buffers import patterns
from hlo_lens.buffers.assignment import BufferAssignment
from hlo_lens.buffers.assignment_grammar import NAMES as BUFFER_NAMES, Places, ReadAllocation
from hlo_lens.buffers.columns import (
    ALLOCATION_STRIDE,
    ASSIGNED_STRIDE,
    REUSED_STRIDE,
    SIZE,
    BufferColumns,
)
from hlo_lens.buffers.human_size import HumanSize
from hlo_lens.buffers.lines import Node, find_all, grammar_tree, tokens
from hlo_lens.buffers.memory_usage_report import (
    AllocationRow,
    AllocationUsage,
    CountedShape,
    MemorySpaceUsage,
    MemoryUsageReport,
    ReportAllocation,
    ReportRow,
    ReportTable,
)
from hlo_lens.grammar.parsers import build_parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.text.source import Source


@dataclass(slots=True)
class TableDraft:
    """A table that is being filled."""

    rows: list[ReportRow] = field(default_factory=list)
    hidden: tuple[int, int] | None = None

    def done(self) -> ReportTable:
        """Return the table."""
        count, percent = self.hidden or (0, None)
        return ReportTable(rows=tuple(self.rows), hidden_rows=count, hidden_percent=percent)

    @property
    def is_whole(self) -> bool:
        """Whether the last row has the total, or the rest is counted as hidden.

        An allocation without values has a table without rows.
        """
        if self.hidden is not None or not self.rows:
            return True
        return self.rows[-1].cumulative_percent in (100, None)


@dataclass(slots=True)
class ReportDraft:
    """A report that is being filled."""

    start: int
    total: tuple[int, HumanSize] | None = None
    spaces: list[tuple[MemorySpaceUsage, list[TableDraft]]] = field(default_factory=list)
    rows: list[AllocationRow] = field(default_factory=list)
    hidden: tuple[int, int] | None = None
    with_values: bool = False
    usages: list[tuple[ReportAllocation, list[TableDraft]]] = field(default_factory=list)

    @property
    def tables(self) -> list[TableDraft] | None:
        """The list to which a new table belongs; None where no table can begin."""
        if self.with_values:
            return self.usages[-1][1] if self.usages else None
        return self.spaces[-1][1] if self.spaces else None

    def done(self, path: str) -> MemoryUsageReport:
        """Return the report of a file."""
        total, human = self.total or (None, None)
        hidden, percent = self.hidden or (0, None)
        return MemoryUsageReport(
            spaces=tuple(
                replace(space, tables=tuple(table.done() for table in tables))
                for space, tables in self.spaces
            ),
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
        """Whether the parts of the report agree on its totals and counts."""
        tables = [t for _, found in (*self.spaces, *self.usages) for t in found]
        if not all(table.is_whole for table in tables):
            return False
        if self.total is None:
            return bool(self.spaces) and all(found for _, found in self.spaces)
        hidden = self.hidden[0] if self.hidden else 0
        if not hidden and self.rows and not self.rows[-1].remaining.matches(0):
            return False
        return self.with_values and len(self.usages) == len(self.rows) + hidden


_HUMAN = re.compile(patterns.HUMAN)


def report_allocation(source: Source, read: ReadAllocation) -> ReportAllocation:
    """Return the allocation of an allocation line."""
    columns = BufferColumns(source, ALLOCATION_STRIDE, array("q", read.cells))
    assignment = BufferAssignment(
        columns=columns,
        assigned=BufferColumns(source, ASSIGNED_STRIDE),
        reused_columns=BufferColumns(source, REUSED_STRIDE),
    )
    view = assignment.allocations[0]
    size = _HUMAN.match(source.text, read.cells[SIZE])
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


GRAMMARS = ("hlo_tokens", "shape", "buffer_tokens", "buffer_assignment", "memory_usage_report")

NAMES: Mapping[str, str] = {
    **BUFFER_NAMES,
    "MEMORY_SPACE": "'Memory Space:'",
    "SPACE_NAME": "a name",
    "TOTAL_BYTES": "'Total bytes:'",
    "TABLE_HEAD": "'cumulative_size;'",
    "ALLOCATIONS_HEAD": "'cumulative_size;'",
    "DASHES": "a line of dashes",
    "PERCENT": "a share such as ( 17%)",
    "COUNT": "a count such as 2\N{MULTIPLICATION SIGN}",
    "REST": "'The rest'",
    "REST_VALUES": "'values are less than'",
    "REST_ALLOCATIONS": "'allocations are less than'",
    "REST_END": "'% of the total size and not shown.'",
    "TOTAL_USED": "'Total bytes used:'",
    "SORTED": "'Allocations sorted by size:'",
    "SORTED_WITH_VALUES": "'Allocations sorted by size with their values:'",
}
"""Names of the terminals for users."""


@functools.cache
def parser() -> Lark:
    """Return the parser of reports and their rows."""
    return build_parser(
        *GRAMMARS,
        start=["memory_usage_report", "row", "allocation_row", "short_allocation"],
        has_positions=True,
    )


def percent_of(text: str) -> int | None:
    """Return a share in percent; None for nan, the share of a total of 0."""
    match = re.search(r"\d+", text)
    return None if match is None else int(match[0])


def row_of(node: Node, text: str) -> ReportRow:
    """Return a row of a table."""
    cells = [str(child) for child in node.children[:5]]
    return report_row(cells, tuple(_shapes_of(node.children[5:], text)))


def report_row(cells: Sequence[str], shapes: tuple[CountedShape, ...]) -> ReportRow:
    """Return a row of a table by its words: sum, percent, size, offset, number of values."""
    return ReportRow(
        cumulative_size=HumanSize(cells[0]),
        cumulative_percent=percent_of(cells[1]),
        size=HumanSize(cells[2]),
        offset=int(cells[3]),
        used_by_n_values=int(cells[4]),
        shapes=shapes,
    )


def _shapes_of(nodes: Sequence[object], text: str) -> Iterator[CountedShape]:
    for node in nodes:
        if not isinstance(node, Tree):
            continue
        count, shape = node.children
        meta = cast("Node", shape).meta
        number = 1 if count is None else int(str(count)[:-1])
        yield CountedShape(count=number, shape_text=text[meta.start_pos : meta.end_pos])


def hidden_of(node: Node, rule: str) -> tuple[int, int] | None:
    """Return the number of hidden rows, and the share below which rows are hidden."""
    for rest in find_all(node, rule):
        numbers = [int(c) for c in rest.children if isinstance(c, Token) and c.type == "NATURAL"]
        return numbers[0], numbers[1]
    return None


def allocation_row_of(tree: Node, source: Source, offset: int) -> AllocationRow:
    """Return a row of the list of allocations."""
    *cells, allocation = tree.children
    read = Places(offset).allocation(cast("Node", allocation))
    return allocation_row([str(cell) for cell in cells], report_allocation(source, read))


def allocation_row(cells: Sequence[str], allocation: ReportAllocation) -> AllocationRow:
    """Return a row of the list of allocations by its words: sum, percent, remaining bytes."""
    return AllocationRow(
        cumulative_size=HumanSize(cells[0]),
        cumulative_percent=percent_of(cells[1]),
        remaining=HumanSize(cells[2]),
        allocation=allocation,
    )


def read_report(source: Source) -> MemoryUsageReport:
    """Return the report of a source, read by the grammar alone.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    tree = grammar_tree(parser(), NAMES, source, "memory_usage_report", 0, len(source.text))
    draft = ReportDraft(0)
    draft.spaces = [_space_of(node, source.text) for node in find_all(tree, "memory_space")]
    for node in find_all(tree, "by_allocation"):
        _, number, human, *_ = node.children
        draft.total = int(str(number)), HumanSize(str(human))
        draft.with_values = True
        for rows in find_all(node, "allocation_rows"):
            draft.rows = [allocation_row_of(r, source, 0) for r in find_all(rows, "allocation_row")]
            draft.hidden = hidden_of(rows, "rest_allocations")
        for usage in find_all(node, "allocation_table"):
            read = Places(0).allocation(cast("Node", usage.children[0]))
            tables = [_table_of(t, source.text) for t in find_all(usage, "table")]
            draft.usages.append((report_allocation(source, read), tables))
    return draft.done(source.path)


def _space_of(node: Node, text: str) -> tuple[MemorySpaceUsage, list[TableDraft]]:
    (name,), (human,) = tokens(node, "SPACE_NAME"), tokens(node, "HUMAN_SIZE")
    color, total = tokens(node, "NATURAL")
    return empty_space(name, color, total, human), [
        _table_of(table, text) for table in find_all(node, "table")
    ]


def empty_space(name: str, color: str, total: str, human: str) -> MemorySpaceUsage:
    """Return a memory space without tables, by its words."""
    return MemorySpaceUsage(
        name=name.strip(),
        color=int(color),
        total_bytes=int(total),
        total=HumanSize(human),
        tables=(),
    )


def _table_of(node: Node, text: str) -> TableDraft:
    rows = [row_of(row, text) for row in find_all(node, "row")]
    return TableDraft(rows, hidden_of(node, "rest_values"))
