"""Page of a log: its messages, kind by kind, and counts of all other lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.logs.compile_oom import memory_sections
from hlo_lens.logs.compiled_stats import stats_section
from hlo_lens.logs.log import WarningKind
from hlo_lens.logs.shardings import sharding_log_section
from hlo_lens.logs.tables import OPERATOR, line_text, operator_cells
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Section, Table, filled, table_of
from hlo_lens.text.units import format_bytes, format_count, listed, plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hlo_lens.logs.log import BufferLogEntry, BufferStats, LogText
    from hlo_lens.logs.log_analysis import LogAnalysis
    from hlo_lens.logs.oom_message import MemoryShortage
    from hlo_lens.questions.dumps.warnings_in_dump import WarningJoins


MEMORY, WARNINGS, SHARDINGS = "memory", "warnings", "shardings"
"""Parts of the report on a log."""


def log_sections(
    known: LogAnalysis, parts: Collection[str] = (MEMORY, WARNINGS, SHARDINGS)
) -> Iterator[Section]:
    """Yield the sections of some parts of a log, an overview first."""
    name, log = known.name, known.log
    yield _head(name, log)
    if MEMORY in parts:
        yield from memory_sections(known)
        yield from _buffer_log_sections(known)
        yield from _stats_sections(known)
    if WARNINGS in parts and log.warnings:
        yield warnings_section(name, known.warnings)
    if SHARDINGS in parts and known.shardings is not None:
        yield sharding_log_section(name, known.shardings)


def _stats_sections(known: LogAnalysis) -> Iterator[Section]:
    stats = known.log.stats
    for number, one in enumerate(stats, 1):
        place = f", {number} of {len(stats)}" if len(stats) > 1 else ""
        yield stats_section(f"{known.name}: {one.kind.value}{place}", one)


def _head(name: str, log: LogText) -> Section:
    gaps = sum(gap.lines for gap in log.gaps)
    dumps = f", {format_count(log.dump_lines)} of dumps" if log.dump_lines else ""
    facts = [
        ("file", log.path),
        (
            "lines",
            f"{format_count(log.lines)}: {format_count(log.understood_lines)} understood, "
            f"{format_count(gaps)} in gaps, {format_count(log.passed_lines)} skipped{dumps}",
        ),
    ]
    if log.shardings is not None and log.shardings.dumps:
        count, lines = log.shardings.dumps, log.shardings.dump_lines
        dumped = f"{plural(count, 'Python object')} dumped over {lines:,} lines, skipped"
        facts.append(("objects", dumped))
    facts.append(("found", "; ".join(_found(log)) or "nothing"))
    return Section(title=f"{name}: log", facts=tuple(facts), notes=gap_notes(log.gaps, True))


def _found(log: LogText) -> Iterator[str]:
    for things, one, many in (
        (log.compile_ooms, "program too large for its memory", _TOO_LARGE),
        ([one for one in log.failures if one.is_fatal], "failed allocation", "failed allocations"),
        ([one for one in log.failures if not one.is_fatal], _ATTEMPT, "attempts that may fail"),
        (log.allocators, "allocator state", "allocator states"),
        (log.limits, "limit of rematerialization", "limits of rematerialization"),
        (log.warnings, "compiler warning", "compiler warnings"),
        (log.stats, "print of a compiled program", "prints of compiled programs"),
        (_entries(log), "block of buffer statistics", "blocks of buffer statistics"),
    ):
        if things:
            yield f"{format_count(len(things))} {one if len(things) == 1 else many}"
    if log.shardings is not None and log.shardings.values:
        count = len(log.shardings.values)
        one = "sharding, mesh or type" if count == 1 else "shardings, meshes and types"
        yield f"{format_count(count)} {one}"
    if log.shardings is not None and log.shardings.boxes:
        yield plural(len(log.shardings.boxes), "drawing")


_ATTEMPT = "attempt that may fail"
_TOO_LARGE = "programs too large for their memory"


def _entries(log: LogText) -> tuple[BufferLogEntry, ...]:
    return () if log.buffers is None else log.buffers.entries


# ---- buffers -----------------------------------------------------------------------------------


_STATS = (
    ("parameter", "arguments"),
    ("constant", "constants"),
    ("maybe_live_out", "outputs, reused arguments included"),
    ("preallocated_temp", "temporaries"),
    ("preallocated_temp_fragmentation", "of these, never in use"),
    ("total", "all allocations"),
    ("total_fragmentation", "of these, not needed by this schedule"),
)


def _buffer_log_sections(known: LogAnalysis) -> Iterator[Section]:
    entries = _entries(known.log)
    for number, (entry, groups) in enumerate(zip(entries, known.peak_buffers, strict=True), 1):
        what = "out of memory" if entry.is_oom else "buffer statistics"
        facts = [("line", line_text(entry.line, entry.repeats))]
        if entry.requested_bytes is not None:
            facts.append(("requested", format_bytes(entry.requested_bytes)))
        yield Section(
            title=f"{known.name}: {what}{f', {number} of {len(entries)}' * (len(entries) > 1)}",
            facts=tuple(facts),
            tables=tuple(_buffer_tables(entry, groups)),
            notes=gap_notes((), entry.is_complete),
        )


def _buffer_tables(entry: BufferLogEntry, groups: MemoryShortage) -> Iterator[Table]:
    if entry.stats is not None:
        yield _stats_table(entry.stats)
    if entry.peak_buffers:
        yield Table.of(
            groups,
            title="Largest values at the peak, equal ones together",
            shown=("what", "buffers", "at_most_bytes", "op_name", "source"),
        )
        rows: list[Row] = [
            (
                buffer.size.text,
                buffer.label or ("parameter" if buffer.is_entry_parameter else None),
                buffer.shape_text,
                *operator_cells(buffer.operator),
            )
            for buffer in entry.peak_buffers
        ]
        yield table_of(
            "peak-buffers",
            "Largest values at the peak, as listed by XLA",
            (
                Column("size", Unit.NONE, "bytes as printed"),
                Column("opcode", Unit.NONE, "XLA's label"),
                Column("shape", Unit.NONE, "shape without layout"),
                *OPERATOR,
            ),
            rows,
        )


def _stats_table(stats: BufferStats) -> Table:
    sizes = ((meaning, getattr(stats, field)) for field, meaning in _STATS)
    rows = [(meaning, size.text) for meaning, size in sizes if size is not None]
    return table_of(
        "buffer-stats",
        "Use of the buffers, as printed by XLA",
        (
            Column("buffers", Unit.NONE, "kind of buffers"),
            Column("size", Unit.NONE, "bytes as printed"),
        ),
        rows,
    )


def gap_notes(gaps: Sequence[object], is_complete: bool) -> tuple[str, ...]:
    """Return notes on lines that could not be read, and on missing ones."""
    notes = []
    if gaps:
        first = str(gaps[0]).partition("\n")[0]
        notes.append(f"{plural(len(gaps), 'line')} that could not be read, the first: {first}")
    if not is_complete:
        notes.append("the text is incomplete")
    return tuple(notes)


# ---- warnings -----------------------------------------------------------------------------------


def warnings_section(name: str, result: WarningJoins) -> Section:
    """Return the section on the warnings of a log.

    Args:
        name: Name of the log.
        result: Its warnings.
    """
    title = "Warnings, equal ones together"
    table = Table.of(result, title=title, shown=_warning_columns(result))
    return Section(
        title=f"{name}: compiler warnings",
        facts=tuple(_warning_facts(result)),
        tables=(replace(table, kept=("warning", "about")),),
        notes=tuple(_warning_notes(result)),
    )


def _warning_facts(result: WarningJoins) -> Iterator[tuple[str, str]]:
    counts: Counter[str] = Counter()
    sizes: dict[str, list[int | None]] = {}
    for join in result.joins:
        kind, size = join.warning.kind.value, join.warning.size_bytes
        counts[kind] += join.times
        sizes.setdefault(kind, []).append(size)
    for kind, count in counts.items():
        known = [size for size in sizes[kind] if size is not None]
        is_sum = kind == WarningKind.UNUSED_DONATION.value and len(known) == len(sizes[kind])
        yield kind, plural(count, "warning") + (f", {format_bytes(sum(known))}" if is_sum else "")
    if result.is_joined:
        sure = sum(join.module is not None for join in result.joins)
        yield "joined", f"{sure} of {len(result.joins)} with the dump"


_FIGURES = ("size_bytes", "limit_bytes", "seconds", "limit_seconds", "differences")


def _warning_columns(result: WarningJoins) -> tuple[str, ...]:
    wanted = ["about", "op_name", "source", "from_sharding", "to_sharding", *_FIGURES]
    if result.is_joined:
        is_all_found = all(join.instructions for join in result.joins)
        wanted = ["instruction", "source", "full_bytes", "how", "from_sharding", "to_sharding"]
        wanted = [*([] if is_all_found else ["about"]), *wanted, *_FIGURES]
    return ("line", "times", "warning", *filled(result.COLUMNS, list(result.rows()), wanted))


def _donation_notes(result: WarningJoins) -> Iterator[str]:
    """Yield what the log prints on the cause of unused donations."""
    warnings = [j.warning for j in result.joins if j.warning.kind.name == "UNUSED_DONATION"]
    for reason in dict.fromkeys(one.reason for one in warnings if one.reason):
        yield f"unused donation: {reason}"
    unexplained = [one for one in warnings if not one.reason]
    if unexplained:
        links = dict.fromkeys(one.explanation for one in unexplained if one.explanation)
        see = f"; JAX refers to {listed(list(links), 2)}" if links else ""
        yield f"unused donation: the memory is not reused; the log has no reason{see}"


def _warning_notes(result: WarningJoins) -> Iterator[str]:
    kinds = {join.warning.kind.name for join in result.joins}
    if "FULL_REMATERIALIZATION" in kinds:
        yield (
            "full rematerialization: every device gathers the whole value, then keeps its part; a "
            "sharding constraint in between, one axis at a time, may avoid it"
        )
    yield from _donation_notes(result)
    if "LARGE_ARGUMENTS" in kinds:
        yield (
            "arguments exceed the limit: arguments and outputs alone are larger than the memory "
            "that XLA's scheduler plans with"
        )
    if "WRONG_RESULT" in kinds:
        yield (
            "wrong result in autotuning: a candidate kernel differs from the reference; XLA does "
            "not use it, a loss of precision or a bug in the kernel are likely"
        )
    if "OUTSIDE_WRITE" in kinds:
        yield (
            "write outside a buffer in autotuning: XLA does not use the kernel; other kernels that "
            "were timed after it may have wrong data"
        )
    if "INEXACT_TIMING" in kinds:
        yield "inexact timing in autotuning: XLA may have chosen a slower kernel than the best"
    if not result.is_joined and result.joins:
        yield "instructions in a dump of the same program: hlo-lens report DUMP --log LOG"
