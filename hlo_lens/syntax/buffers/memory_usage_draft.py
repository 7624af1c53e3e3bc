"""Memory-usage reports that are being filled."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
    MemorySpaceUsage,
    MemoryUsageReport,
    ReportAllocation,
    ReportRow,
    ReportTable,
)
from hlo_lens.syntax.buffers import patterns

if TYPE_CHECKING:
    from hlo_lens.syntax.buffers.assignment_grammar import ReadAllocation
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
class SpaceDraft:
    """A memory space that is being filled."""

    name: str
    color: int
    total_bytes: int
    total: HumanSize
    tables: list[TableDraft] = field(default_factory=list)

    def done(self) -> MemorySpaceUsage:
        """Return the memory space."""
        return MemorySpaceUsage(
            name=self.name,
            color=self.color,
            total_bytes=self.total_bytes,
            total=self.total,
            tables=tuple(table.done() for table in self.tables),
        )


@dataclass(slots=True)
class ReportDraft:
    """A report that is being filled."""

    start: int
    total: tuple[int, HumanSize] | None = None
    spaces: list[SpaceDraft] = field(default_factory=list)
    rows: list[AllocationRow] = field(default_factory=list)
    hidden: tuple[int, int] | None = None
    with_values: bool = False
    usages: list[tuple[ReportAllocation, list[TableDraft]]] = field(default_factory=list)

    @property
    def tables(self) -> list[TableDraft] | None:
        """The list to which a new table belongs; None where no table can begin."""
        if self.with_values:
            return self.usages[-1][1] if self.usages else None
        return self.spaces[-1].tables if self.spaces else None

    def done(self, path: str) -> MemoryUsageReport:
        """Return the report of a file."""
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
        """Whether the parts of the report agree on its totals and counts."""
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
