"""Page of a diff: one line for each subject, then tables of the changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.program.pages import with_marks
from hlo_lens.questions.diff.memory import PEAK, missing_memory
from hlo_lens.questions.diff.objects import diff_object
from hlo_lens.questions.diff.sections import (
    COUNTS,
    NO_CHANGE,
    cause_facts,
    delta_text,
    donation_text,
    lines_table,
    memory_facts,
    peak_table,
    program_diff_facts,
    program_diff_tables,
    statement_tables,
    text_note,
)
from hlo_lens.questions.findings.page import change_text
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Report, Section, Table, filled, table_of
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.questions.diff.collectives import CollectiveDiff, CollectiveRow, Detail
    from hlo_lens.questions.diff.memory import MemoryDiff
    from hlo_lens.questions.diff.module_diff import DumpDiff, ModuleDiff
    from hlo_lens.questions.diff.shardings import AnnotationRow, EntryRow, ShardingDiff
    from hlo_lens.questions.findings.changes import FindingChanges
    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot

MOST_CHARACTERS = 65_000
"""Longest Markdown; a comment on GitHub may have 65,536 characters."""

NO_MEMORY = "not known: no side has a buffer assignment, or a schedule to estimate by"
NO_KNOWN_CHANGE = f"{NO_CHANGE} in what is known"
NO_TEXT = "not known: one side has no HLO text"
CUT_TEXT = "not known: the HLO text of one side ends too early"
NO_NAMES = "not known: a snapshot does not keep noise; compare with the dump itself"
ONLY_FINGERPRINT = "changed; a snapshot has no instructions: compare with the dump itself"


def diff_report(diff: DumpDiff, names: tuple[str, str], *, by: str | None = None) -> Report:
    """Return the report on a diff.

    Args:
        diff: Changes of all modules.
        names: Paths of the two sides.
        by: ``source`` for the changed lines of the user's program alone.
    """
    sections = [_head(diff, names)]
    shown = sorted((one for one in diff.modules if not one.identical or one.unknown), key=weight)
    section = module_section if by is None else lines_section
    sections += [section(module) for module in shown]
    if not shown and len(diff.modules) == 1:
        sections.append(section(diff.modules[0]))
    return Report(
        kind="diff",
        sections=tuple(sections),
        data=diff_object(diff),
        most_characters=MOST_CHARACTERS,
    )


def _head(diff: DumpDiff, names: tuple[str, str]) -> Section:
    changed = sum(not module.identical for module in diff.modules)
    facts = [("compared", " -> ".join(names))]
    if len(diff.modules) != 1 or diff.added or diff.removed or any(diff.copies):
        same = [module.head.name for module in diff.modules if module.identical]
        parts = [f"{plural(len(diff.modules), 'pair')}: {changed} changed, {len(same)} unchanged"]
        parts += [f"{len(diff.removed)} removed"] if diff.removed else []
        parts += [f"{len(diff.added)} added"] if diff.added else []
        copies = sum(map(len, diff.copies))
        parts += [f"{copies} left out as copies of these"] if copies else []
        facts.append(("modules", ", ".join(parts)))
    for label, modules in (("removed", diff.removed), ("added", diff.added)):
        if modules:
            facts.append((label, listed_names(modules)))
    unknown = any(module.unknown for module in diff.modules)
    verdict = NO_KNOWN_CHANGE if unknown else NO_CHANGE
    if not diff.identical:
        verdict = "undecided: a text ends too early" if diff.is_undecided else "changed"
    tables = (modules_table(diff),) if changed > 1 else ()
    return Section(title=f"hlo-lens diff: {verdict}", facts=tuple(facts), tables=tables)


_MOST_NAMES = 8


def listed_names(modules: Sequence[ModuleSnapshot]) -> str:
    """Return the names of modules, the first few."""
    return listed([module.name for module in modules], _MOST_NAMES)


def module_section(diff: ModuleDiff) -> Section:
    """Return head and tables of one pair of modules."""
    names = dict.fromkeys((diff.base.name, diff.head.name))
    return Section(
        title=" -> ".join(names),
        facts=tuple(_facts(diff)),
        tables=tuple(_tables(diff)),
        notes=tuple(_notes(diff)),
    )


def lines_section(diff: ModuleDiff) -> Section:
    """Return the causes and all changed lines of one pair of modules."""
    names = dict.fromkeys((diff.base.name, diff.head.name))
    if diff.lines is None:
        return Section(title=" -> ".join(names), facts=(("lines", NO_CHANGE),))
    tables = (lines_table(diff.lines, is_whole=True),) if diff.lines.row_count else ()
    return Section(title=" -> ".join(names), facts=tuple(cause_facts(diff)), tables=tables)


def _facts(diff: ModuleDiff) -> Iterator[tuple[str, str]]:
    if diff.note:
        yield "pair", diff.note
    if diff.differences:
        yield "incomparable", "; ".join(diff.differences)
    if diff.toolchain:
        yield "toolchain", diff.toolchain
    yield from cause_facts(diff)
    if "memory" in diff.subjects:
        yield from _memory_facts(diff)
    if diff.findings is not None and (diff.findings.row_count or diff.findings.is_one_sided):
        yield "findings", findings_text(diff.findings)
    if "collectives" in diff.subjects:
        found = diff.collectives
        yield "collectives", NO_TEXT if found is None else collectives_text(found)
    if "sharding" in diff.subjects:
        found_text = CUT_TEXT if diff.base.is_truncated or diff.head.is_truncated else NO_TEXT
        yield "sharding", found_text if diff.shardings is None else sharding_text(diff.shardings)
    if "program" in diff.subjects:
        yield from program_facts(diff)


def _memory_facts(diff: ModuleDiff) -> Iterator[tuple[str, str]]:
    if diff.memory is None:
        yield "memory", missing_memory(diff.head) or missing_memory(diff.base) or NO_MEMORY
    else:
        yield from memory_facts(diff.memory)
    if diff.donations is not None and diff.donations.row_count:
        yield "donation", donation_text(diff.donations)


_MOST_FINDINGS = 3


def findings_text(changes: FindingChanges) -> str:
    """Return the findings that are new and gone, the first few of each, and what is not known."""
    parts = []
    codes = changes.undecided
    open_rules = (
        f" ({plural(len(codes), 'rule')} not decided: {listed(codes, _MOST_NAMES)})"
        if codes
        else ""
    )
    for label, found in (("new", changes.new), ("gone", changes.gone)):
        shown = [change_text(one) for one in found[:_MOST_FINDINGS]]
        more = [f"{len(found) - len(shown)} more"] if len(found) > len(shown) else []
        parts.append(f"{label}: {'; '.join([*shown, *more]) or 'none'}")
    return f"{'; '.join(parts)}{open_rules}"


def collectives_text(found: CollectiveDiff) -> str:
    """Return the changes of the numbers of collectives and of the bytes on the wire."""
    if not found.changed:
        return f"{NO_CHANGE} ({found.unchanged:,} in the text)"
    parts: list[str] = []
    for kind, delta in found.counts.items():
        runs = found.dynamic_counts[kind]
        if delta.base != delta.head:
            parts.append(f"{kind} {delta.base:,} -> {delta.head:,} in the text")
        if runs.base != runs.head and (delta.base or delta.head):
            one, other = ("x?" if n is None else f"{n:,}" for n in (runs.base, runs.head))
            bound = "at most " if runs.is_at_most else ""
            parts.append(f"{kind} {bound}{one} -> {other} in one run")
    wire = found.wire_bytes
    if wire.is_changed:
        bound = "at most " if wire.is_at_most else ""
        parts.append(f"on the wire per device {bound}{delta_text(wire)}")
    return "; ".join([_counts(found.changed), *parts])


def sharding_text(found: ShardingDiff) -> str:
    """Return the numbers of values whose sharding changed."""
    text = _counts((*found.entries, *found.annotations)) or NO_CHANGE
    if found.unknown:
        text += f"; {plural(found.unknown, 'value')} with a sharding on one side only"
    return f"{text}; {found.problem}" if found.problem else text


def _counts(rows: Iterable[CollectiveRow | EntryRow | AnnotationRow]) -> str:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row.change] += row.count
    return ", ".join(f"{count:,} {change}" for change, count in counts.items())


def program_facts(diff: ModuleDiff) -> Iterator[tuple[str, str]]:
    """Yield the numbers of changed instructions, and the ignored noise."""
    if diff.program is not None:
        yield from program_diff_facts(diff.program)
    elif diff.is_program_equal is None:
        yield "program", NO_TEXT
    elif diff.is_program_equal and diff.is_heedful:
        yield "program", NO_NAMES
    else:
        yield "program", f"{NO_CHANGE} but names" if diff.is_program_equal else ONLY_FINGERPRINT


_COLLECTIVES = (
    *("change", "count", "kind", "axis", "times", "delta_wire_bytes", "source", "details"),
    *("payload_bytes", "group_size"),
)


def detail_text(detail: Detail) -> str:
    """Return one difference between two collectives as text."""
    if not detail.is_bytes:
        return str(detail)
    sizes = [n if n is None else format_bytes(int(n)) for n in (detail.base, detail.head)]
    return str(detail._replace(base=sizes[0] or "?", head=sizes[1] or "?"))


def _collectives_table(found: CollectiveDiff) -> Table:
    """Return the changed collectives, with readable sizes in their details."""
    place = found.place_of("details")

    def rows() -> Iterator[Row]:
        for cells, row in zip(found.rows(), found.changed, strict=True):
            shown = (detail for detail in row.changes if detail.what != "times")
            text = ", ".join(map(detail_text, shown))
            yield (*cells[:place], text, *cells[place + 1 :])

    table = Table.of(found, title="Collectives that changed, bytes of one run", shown=_COLLECTIVES)
    return with_marks(replace(table, read_rows=rows, kept=("kind",)))


def _memory_tables(memory: MemoryDiff) -> Iterator[Table]:
    if memory.has_other_numbers:
        yield from statement_tables(memory)
    for peak in memory.peaks:
        if peak.row_count:
            is_folded = peak.space in memory.small_spaces
            yield replace(peak_table(peak), is_data_only=is_folded)


def _tables(diff: ModuleDiff) -> Iterator[Table]:
    memory = diff.memory
    if diff.lines is not None and diff.lines.row_count:
        yield lines_table(diff.lines)
    if diff.findings is not None and diff.findings.row_count:
        yield Table.of(diff.findings, title="Findings new and gone", is_data_only=True)
    if memory is not None and memory.is_changed:
        yield from _memory_tables(memory)
    if diff.donations is not None and diff.donations.row_count:
        yield Table.of(
            diff.donations,
            title="Aliases of arguments lost and gained",
            shown=("change", "name", "device_bytes", "device_shape", "base_output", "head_output"),
        )
    if diff.collectives is not None and diff.collectives.row_count:
        yield _collectives_table(diff.collectives)
    if diff.shardings is not None and diff.shardings.row_count:
        table = Table.of(
            diff.shardings,
            title="Shardings that changed",
            shown=_sharding_columns(diff.shardings),
        )
        yield replace(table, kept=("base_spec", "head_spec", "source"))
    if diff.program is not None:
        yield from program_diff_tables(diff.program)


def _sharding_columns(found: ShardingDiff) -> tuple[str, ...]:
    columns = ["change", "kind", "name", "base_spec", "head_spec"]
    sizes = ("base_device_shape", "head_device_shape", "delta_bytes")
    columns += filled(found.COLUMNS, [*found.rows()], sizes)
    if any(row.count > 1 for row in found.annotations):
        columns.append("count")
    if found.annotations:
        columns.append("source")
    return tuple(columns)


def _notes(diff: ModuleDiff) -> Iterator[str]:
    note = None if diff.program is None else text_note(diff.program)
    if note is not None:
        yield note
    old = [name for name, one in (("base", diff.base), ("head", diff.head)) if one.has_old_peaks]
    for side in old:
        yield (
            f"the {side} was saved by an older version, whose totals and peaks were defined "
            "otherwise: they are not compared; save it again"
        )
    if diff.memory is not None and diff.memory.unexplained and not old:
        spaces = ", ".join(diff.memory.unexplained)
        yield f"the difference in {spaces} is not attributed to values: one side has no schedule"
    for side, module in (("base", diff.base), ("head", diff.head)):
        if module.gap_count:
            yield (
                f"{plural(module.gap_count, 'place')} of the {side} could not be read and are not "
                "counted here"
            )
        if module.undefined_count:
            parts = plural(module.undefined_count, "part")
            yield f"the {side} lacks {parts} that its text uses; they are not counted here"


# ---- overview -----------------------------------------------------------------------------------


def weight(diff: ModuleDiff) -> tuple[int, int]:
    """Return the sort key: change of total bytes, then of bytes on the wire."""
    return -abs(_total(diff) or 0), -abs(_wire(diff) or 0)


def _total(diff: ModuleDiff) -> int | None:
    return None if diff.memory is None else diff.memory.metrics["total_bytes"].delta


def _wire(diff: ModuleDiff) -> int | None:
    return None if diff.collectives is None else diff.collectives.wire_bytes.delta


_MODULE_COLUMNS = (
    Column("module", Unit.NONE, "module"),
    Column("delta_total_bytes", Unit.BYTES_DELTA, "increase of allocated bytes"),
    Column("delta_peak_bytes", Unit.BYTES_DELTA, "increase of bytes at the peak"),
    Column("delta_wire_bytes", Unit.BYTES_DELTA, "increase of bytes on the wire of one run"),
    Column("collectives", Unit.COUNT, "collectives that changed"),
    Column("shardings", Unit.COUNT, "values whose sharding changed"),
    Column("instructions", Unit.COUNT, "instructions changed, added, removed or moved"),
)


def modules_table(diff: DumpDiff) -> Table:
    """Return one line for each module that changed."""
    changed = sorted((one for one in diff.modules if not one.identical), key=weight)
    rows = [_module_row(one) for one in changed]
    return table_of("modules", "Modules that changed", _MODULE_COLUMNS, rows, totals=_totals(rows))


def _totals(rows: Sequence[Row]) -> dict[str, int]:
    """Return the sums of columns that are known for every module."""
    found: dict[str, int] = {}
    for place, column in enumerate(_MODULE_COLUMNS):
        numbers = [cell for row in rows if isinstance(cell := row[place], int)]
        if numbers and len(numbers) == len(rows):
            found[column.name] = sum(numbers)
    return found


def _module_row(diff: ModuleDiff) -> Row:
    memory, program = diff.memory, diff.program
    return (
        diff.head.name,
        _total(diff),
        None if memory is None else memory.metrics[PEAK].delta,
        _wire(diff),
        None if diff.collectives is None else sum(row.count for row in diff.collectives.changed),
        None if diff.shardings is None else diff.shardings.row_count,
        None if program is None else sum(getattr(program, name) for name in COUNTS[1:]),
    )
