"""What buffer-side texts say that stand alone: a usage report, live ranges, used values, a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.result import Column, Unit
from hlo_lens.report.table import Section, Table
from hlo_lens.report.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.analysis.result import Row
    from hlo_lens.model.buffer_log import BufferLog, BufferLogEntry, BufferStats
    from hlo_lens.model.buffers import BufferValues
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.model.live_range import HloLiveRange
    from hlo_lens.model.memory_usage_report import MemoryUsageReport


def texts_alone(dump: ModuleDump) -> Iterator[Section]:
    """Yield a section for each buffer-side text of a module without a buffer assignment."""
    usage, ranges, values = dump.memory_usage_report, dump.live_range, dump.buffer_values
    if usage is not None:
        yield _usage_section(dump.name, usage)
    if ranges is not None:
        yield _live_range_section(dump.name, ranges)
    if values is not None:
        yield _values_section(dump.name, values)
    if dump.buffer_log is not None:
        yield from _log_sections(dump.name, dump.buffer_log)


def _table(
    name: str, title: str, columns: Sequence[Column], rows: list[Row], notes: tuple[str, ...] = ()
) -> Table:
    return Table(
        name=name,
        title=title,
        columns=tuple(columns),
        read_rows=lambda: rows,
        row_count=len(rows),
        notes=notes,
    )


def _usage_section(name: str, usage: MemoryUsageReport) -> Section:
    spaces: list[Row] = [(s.name, s.color, s.total_bytes) for s in usage.spaces]
    if not usage.is_by_memory_space:
        spaces = [("all", None, usage.total_bytes)]
    rows: list[Row] = [
        (row.size.text, row.offset, row.used_by_n_values, _shapes(row.shapes))
        for table in (
            *(table for space in usage.spaces for table in space.tables),
            *(a.table for a in usage.allocations if a.table is not None),
        )
        for row in table.rows
    ]
    return Section(
        title=f"{name}: memory-usage report",
        facts=(("total", f"{format_bytes(usage.total_bytes)} in all memory spaces"),),
        tables=(
            _table(
                "usage-spaces",
                "Memory spaces, under the names that XLA prints",
                (
                    Column("space", Unit.NONE, "XLA's name, which may mislead"),
                    Column("color", Unit.NONE, "its number"),
                    Column("total_bytes", Unit.BYTES, "sum of its allocations"),
                ),
                spaces,
            ),
            _table(
                "usage-rows",
                "What begins at each offset, in the order of the report",
                (
                    Column("size", Unit.NONE, "size of the largest value there, as printed"),
                    Column("offset", Unit.NONE, "first byte in its allocation"),
                    Column("values", Unit.COUNT, "how many values begin there"),
                    Column("shapes", Unit.NONE, "their shapes, without layout"),
                ),
                rows,
            ),
        ),
        notes=_gaps(usage.gaps, usage.is_complete),
    )


def _shapes(shapes: Sequence[tuple[int, str]]) -> str:
    return ", ".join(text if count == 1 else f"{count} x {text}" for count, text in shapes)


def _live_range_section(name: str, ranges: HloLiveRange) -> Section:
    if not ranges.is_available:
        return Section(
            title=f"{name}: live ranges",
            notes=("XLA had no live ranges: the executable was finalized or came from a proto",),
        )
    facts = [("schedule", plural(len(ranges.flattened_instruction_sequence), "instruction"))]
    facts.append(("values", plural(len(ranges.buffer_live_ranges), "live range")))
    if ranges.peak_moment is not None and ranges.peak_bytes is not None:
        facts.append(
            (
                "XLA's peak",
                f"{format_bytes(ranges.peak_bytes)} at {ranges.instruction_at(ranges.peak_moment)}"
                f" ({ranges.peak_moment}): whole instructions, no padding; often not the true peak",
            )
        )
    rows: list[Row] = [
        (value.size_bytes, value.instruction_name, _index(value[1])) for value in ranges.peak_values
    ]
    return Section(
        title=f"{name}: live ranges",
        facts=tuple(facts),
        tables=(
            _table(
                "live-at-printed-peak",
                "Values alive where XLA prints the peak",
                (
                    Column("size_bytes", Unit.BYTES, "bytes without padding"),
                    Column("instruction", Unit.NONE, "who defines it"),
                    Column("index", Unit.NONE, "which part of its result"),
                ),
                rows,
            ),
        ),
        notes=(
            *_gaps(ranges.gaps, ranges.is_complete),
            "with the buffer assignment of the same compile beside it, hlo-lens finds the true "
            "peak; XLA writes it with --xla_dump_to=DIR --xla_dump_hlo_as_text",
        ),
    )


def _index(index: tuple[int, ...] | None) -> str:
    return "" if index is None else f"{{{','.join(map(str, index))}}}"


def _values_section(name: str, values: BufferValues) -> Section:
    facts = [("values", plural(len(values), "used value"))]
    if values.total_bytes is not None:
        facts.append(("total", f"{format_bytes(values.total_bytes)} in all memory spaces"))
    return Section(
        title=f"{name}: used values",
        facts=tuple(facts),
        notes=_gaps(values.gaps, values.is_complete),
    )


_STATS = (
    ("parameter", "arguments"),
    ("constant", "constants"),
    ("maybe_live_out", "outputs, reused arguments included"),
    ("preallocated_temp", "temporaries"),
    ("preallocated_temp_fragmentation", "of them, in use at no time"),
    ("total", "all allocations"),
    ("total_fragmentation", "of them, not needed by this schedule"),
)


def _log_sections(name: str, log: BufferLog) -> Iterator[Section]:
    for number, entry in enumerate(log.entries, 1):
        what = "out of memory" if entry.is_oom else "buffer statistics"
        facts = [("line", str(entry.line))]
        if entry.requested_bytes is not None:
            facts.append(("requested", format_bytes(entry.requested_bytes)))
        yield Section(
            title=f"{name}: {what}, {number} of {len(log.entries)}",
            facts=tuple(facts),
            tables=tuple(_log_tables(entry)),
            notes=_gaps(log.gaps, entry.is_complete) if number == 1 else (),
        )


def _log_tables(entry: BufferLogEntry) -> Iterator[Table]:
    if entry.stats is not None:
        yield _stats_table(entry.stats)
    if entry.peak_buffers:
        rows: list[Row] = [
            (
                buffer.size.text,
                buffer.label or ("parameter" if buffer.is_entry_parameter else None),
                buffer.shape_text,
                None if buffer.operator is None else buffer.operator.op_name,
                None if buffer.operator is None else buffer.operator.source_file,
                None if buffer.operator is None else buffer.operator.source_line,
            )
            for buffer in entry.peak_buffers
        ]
        yield _table(
            "peak-buffers",
            "Largest values at the peak, as XLA lists them",
            (
                Column("size", Unit.NONE, "bytes as printed"),
                Column("opcode", Unit.NONE, "XLA's label"),
                Column("shape", Unit.NONE, "shape without layout"),
                Column("op_name", Unit.NONE, "operation path"),
                Column("source_file", Unit.NONE, "file of the program"),
                Column("source_line", Unit.NONE, "line in it"),
            ),
            rows,
        )


def _stats_table(stats: BufferStats) -> Table:
    rows: list[Row] = []
    for field, meaning in _STATS:
        size = getattr(stats, field)
        if size is not None:
            rows.append((meaning, size.text))
    return _table(
        "buffer-stats",
        "What the buffers are for, as XLA printed it",
        (
            Column("buffers", Unit.NONE, "which"),
            Column("size", Unit.NONE, "bytes as printed"),
        ),
        rows,
    )


def _gaps(gaps: Sequence[object], is_complete: bool) -> tuple[str, ...]:
    notes = []
    if gaps:
        notes.append(f"{plural(len(gaps), 'line')} that could not be read, the first: {gaps[0]}")
    if not is_complete:
        notes.append("the text is not complete")
    return tuple(notes)
