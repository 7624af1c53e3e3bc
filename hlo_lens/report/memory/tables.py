"""Tables of the memory of a module: statement, values at an instant, groups, timeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.analysis.memory.statement import MemoryStatement, space_name
from hlo_lens.analysis.result import Column, Unit
from hlo_lens.report.memory.facts import where_text
from hlo_lens.report.render.table import Table
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.analysis.memory.grouping import MemoryBy
    from hlo_lens.analysis.memory.op_tree import MemoryTree
    from hlo_lens.analysis.memory.peak import PeakMemory
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.analysis.memory.timeline import MemoryTimeline
    from hlo_lens.analysis.result import Row

_BARS = 40
_BAR_WIDTH = 30
_ALWAYS = ("argument_bytes", "output_bytes", "temp_bytes")
"""Figures that the statement shows even if 0."""


def statement_tables(results: MemoryResults) -> tuple[Table, Table]:
    """Return the statement for people, and the same for CSV."""
    return _statement_table(results), Table.of(results.statement, title="Memory", is_data_only=True)


def _statement_table(results: MemoryResults) -> Table:
    """Return the statement with a row per figure and a column per memory space."""
    spaces = results.statement.spaces
    rows: list[Row] = []
    for column in MemoryStatement.COLUMNS:
        cells = [getattr(space, column.name) for space in spaces]
        if column.unit is Unit.BYTES and (any(cells) or column.name in _ALWAYS):
            rows.append((column.name, *cells, column.meaning))
    source = "as XLA assigned it" if results.layout.source == "buffer-assignment" else "estimated"
    return Table(
        name="memory-statement",
        title=f"Memory of one device, {source}",
        columns=(
            Column("quantity", Unit.NONE, "name of the figure"),
            *(Column(space.name, Unit.BYTES, f"colour {space.color}") for space in spaces),
            Column("definition", Unit.NONE, "bytes that it sums"),
        ),
        read_rows=lambda: rows,
        row_count=len(rows),
        is_text_only=True,
        is_whole=True,
    )


def peak_table(results: MemoryResults, peak: PeakMemory) -> Table:
    """Return the table of the values alive at an instant, largest first."""
    what = "the peak" if peak.is_peak else f"instant {peak.position}"
    space = space_name(peak.color, results.backend)
    word = "Estimated values" if results.layout.source == "estimate" else "Values"
    size = format_bytes(peak.total_bytes)
    names = [column.name for column in peak.COLUMNS if column.name != "size_bytes"]
    return Table.of(
        peak,
        title=f"{word} alive at {what} of {space}: {size} {where_text(results, peak)}",
        shown=("size_bytes", *names),
    )


def groups_table(peak: PeakMemory, groups: MemoryBy) -> Table:
    """Return the table of the bytes alive at an instant in groups."""
    return Table.of(
        groups,
        title=_groups_title(peak, groups.by),
        shown=("size_bytes", "share", "values", "group"),
    )


def tree_table(peak: PeakMemory, tree: MemoryTree) -> Table:
    """Return the table of the bytes alive at an instant as a tree of scopes, indented by depth."""

    def indented() -> Iterator[Row]:
        for (scope, depth, _), row in zip(tree.branches(), tree.rows(), strict=True):
            yield ("  " * depth + scope, *row[1:])

    table = Table.of(
        tree,
        title=_groups_title(peak, "operation"),
        shown=("size_bytes", "share", "values", "scope"),
    )
    return replace(table, read_shown=indented)


def _groups_title(peak: PeakMemory, by: str) -> str:
    what = "the peak" if peak.is_peak else f"instant {peak.position}"
    return f"Bytes at {what} by {by}"


def timeline_tables(timeline: MemoryTimeline, space: str) -> tuple[Table, Table]:
    """Return the timeline as bars for people, and all instants for CSV."""
    return _chart(timeline, space), Table.of(timeline, title="Timeline", is_data_only=True)


def _chart(timeline: MemoryTimeline, space: str) -> Table:
    """Return the timeline as bars, each the largest of a range of instants."""
    series = timeline.series
    step = max(1, -(-len(series) // _BARS))
    most = max(series, default=0) or 1
    rows: list[Row] = []
    for start in range(0, len(series), step):
        best = max(range(start, min(start + step, len(series))), key=series.__getitem__)
        name = timeline.schedule[best] if best < len(timeline.schedule) else "[end]"
        bar = "█" * round(series[best] * _BAR_WIDTH / most)
        rows.append((best, series[best], bar, name))
    position, instruction, occupied = timeline.COLUMNS
    return Table(
        name="memory-chart",
        title=f"Occupied bytes of {space} over the schedule, {plural(step, 'instant')} a line",
        columns=(position, occupied, Column("bar", Unit.NONE, "occupied bytes"), instruction),
        read_rows=lambda: rows,
        row_count=len(rows),
        is_text_only=True,
        is_whole=True,
    )
