"""Changes by source line as text and tables, a part of ``hlo-lens diff``."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from hlo_lens.program.pages import with_marks
from hlo_lens.questions.diff.matching.edits import Change, Noise
from hlo_lens.questions.diff.memory import PEAK, MemoryDiff
from hlo_lens.questions.diff.pairs import Delta
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Table, table_of
from hlo_lens.text.amount import Amount, Kind
from hlo_lens.text.units import (
    format_bytes,
    format_change,
    format_count,
    format_delta,
    listed,
    plural,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.diff.causes import Cause
    from hlo_lens.questions.diff.line_diff import LineDiff
    from hlo_lens.questions.diff.matching.program_diff import ProgramDiff
    from hlo_lens.questions.diff.memory import PeakDiff
    from hlo_lens.questions.diff.module_diff import ModuleDiff
    from hlo_lens.questions.diff.shardings import DonationDiff
    from hlo_lens.questions.snapshots.rows import SpacePeak


MOST_CAUSES = 4
_MOST_LINES = 4
_QUANTITIES = {
    "total_bytes": " must fit",
    "peak_bytes": " at the peak",
    "argument_bytes": " of arguments",
}
SAME_PROGRAM = "none in the program, which is the same"
OTHER_MEMORY = f"{SAME_PROGRAM}: the compiler assigned memory otherwise"
SAME_SOURCE = (
    "none in the program: the texts from before optimizations are the same; compiler, flags or "
    "target differ"
)
OTHER_TOOLS = (
    "no line of your program: the texts from before optimizations differ only in what JAX makes of "
    "the same operations"
)

NOT_FOUND = "not found among the changes of the lines of your program, which are below"


def cause_facts(diff: ModuleDiff) -> Iterator[tuple[str, str]]:
    """Yield the causes of the changes of a module, the first few."""
    lines, program = diff.lines, diff.program
    if lines is None:
        return
    if not lines.causes and program is not None and program.identical:
        has_other_memory = diff.memory is not None and diff.memory.is_changed
        yield "cause", OTHER_MEMORY if has_other_memory else SAME_PROGRAM
    elif not lines.causes and lines.is_source:
        is_changed = any(row.source is not None and row.changed for row in lines.lines)
        other = NOT_FOUND if is_changed else OTHER_TOOLS
        yield "cause", SAME_SOURCE if lines.is_source_equal else other
    elif not lines.causes and any(row.source is not None for row in lines.lines):
        yield "cause", NOT_FOUND
    for cause in lines.causes[:MOST_CAUSES]:
        yield "cause", cause_text(cause)
    more = len(lines.causes) - MOST_CAUSES
    if more > 0:
        yield "cause", f"[{plural(more, 'other cause')}] (--by source)"


def cause_text(cause: Cause) -> str:
    """Return lines, bytes and description of a cause."""
    places = list(cause.sources[:_MOST_LINES])
    more = len(cause.sources) - len(places)
    parts = [", ".join([*places, *([f"{more} more"] if more else [])])] if places else []
    if cause.delta_bytes:
        of = _QUANTITIES.get(cause.delta_bytes_of or "", "")
        parts.append(f"{format_delta(cause.delta_bytes)}{of}")
    parts += [f"{format_delta(cause.delta_wire_bytes)} sent"] if cause.delta_wire_bytes else []
    return "  ".join([*parts, cause.what])


def lines_table(lines: LineDiff, *, is_whole: bool = False) -> Table:
    """Return the lines of the user's program that changed."""
    shown = [
        "source",
        "added",
        "removed",
        "changed",
        "delta_peak_bytes",
        "delta_wire_bytes",
        "what",
    ]
    if lines.is_source is None:  # of a snapshot
        shown = ["source", "delta_peak_bytes", "delta_wire_bytes"]
    table = Table.of(
        lines,
        title="Lines of your program that changed",
        shown=shown,
        notes=("instructions are those after optimizations",) if lines.is_source is False else (),
    )
    return replace(table, is_whole=is_whole, wrapped=("what",))


NO_CHANGE = "no change"

_MOST_NAMES = 8


def delta_text(delta: Delta, kinds: tuple[Kind, Kind] = (Kind.EXACT, Kind.EXACT)) -> str:
    """Return a size before and after, marked by kind, with the difference; ``?`` if not known."""
    base, head = (
        "?" if size is None else Amount(size, kind).text(format_bytes)
        for size, kind in zip((delta.base, delta.head), kinds, strict=True)
    )
    if delta.base == delta.head:
        return f"{base} ({NO_CHANGE})" if delta.base is not None else "not known"
    if delta.delta is None or delta.base is None or delta.head is None:
        return f"{base} -> {head}"
    percent = format_change(delta.base, delta.head)
    return f"{base} -> {head}, {format_delta(delta.delta)} ({percent})"


def memory_facts(memory: MemoryDiff) -> Iterator[tuple[str, str]]:
    """Yield the changes of total and peaks, or why they are not known."""
    if memory.problem:
        yield "memory", memory.problem
    elif memory.is_outdated:
        yield "memory", "totals and peaks are not compared"
    elif not memory.is_changed:
        yield "memory", NO_CHANGE
    else:
        total = memory.metrics["total_bytes"]
        yield "memory", f"total {delta_text(total, memory.kinds)}"
    small = [peak for peak in memory.peaks if peak.space in memory.small_spaces]
    for peak in memory.peaks:
        if peak.is_peak and peak not in small and (peak.delta_bytes or peak.has_moved):
            label = "peak" if peak.color == 0 else f"peak of {peak.space}"
            yield label, peak_text(peak, memory.kinds)
    texts = [f"{peak.space} {size_text(peak, memory.kinds)}" for peak in small if peak.delta_bytes]
    if texts:
        yield "small spaces", "; ".join(texts)


def peak_text(peak: PeakDiff, kinds: tuple[Kind, Kind]) -> str:
    """Return the change of a space's peak, and where it moved."""
    base, head = peak.base, peak.head
    text = size_text(peak, kinds)
    if base is None or head is None or not peak.has_moved:
        return text
    return f"{text}; moved from {moment_text(base)} to {moment_text(head)}"


def size_text(peak: PeakDiff, kinds: tuple[Kind, Kind]) -> str:
    """Return the change of a space's peak."""
    base, head = peak.base, peak.head
    return delta_text(Delta(base.bytes if base else 0, head.bytes if head else 0), kinds)


def moment_text(peak: SpacePeak) -> str:
    """Return the place of a peak in the program."""
    words = [word for word in (peak.source, peak.op_name) if word]
    return " ".join(words) or peak.opcode or "the whole program"


_COLUMNS = (
    Column("metric", Unit.NONE, "path in the report's memory object"),
    Column("base", Unit.BYTES, "before"),
    Column("head", Unit.BYTES, "after"),
    Column("delta", Unit.BYTES_DELTA, "difference"),
    Column("change", Unit.NONE, "difference in percent"),
)


def statement_tables(memory: MemoryDiff) -> Iterator[Table]:
    """Yield the figures of the statement that differ; of one space, or of each of several.

    Text leaves out those of spaces of few bytes, and the name of the default space; CSV has both.
    """
    rows: list[Row] = [
        (name, delta.base, delta.head, delta.delta, _percent(delta))
        for name, delta in memory.metrics.items()
        if _is_shown(name, memory.metrics)
    ]
    changed = [row for row in rows if row[1] != row[2]]
    folded = tuple(f"spaces[{name}]." for name in memory.small_spaces)
    shown = [row for row in changed if not (folded and str(row[0]).startswith(folded))]
    hidden = len(changed) - len(shown)
    counts = ((len(rows) - len(changed), "without change"), (hidden, "of small spaces not shown"))
    notes = tuple(f"{plural(number, 'figure')} {what}" for number, what in counts if number)
    sides = zip(("base", "head"), memory.kinds, strict=True)
    estimated = " and ".join(side for side, kind in sides if kind is Kind.ESTIMATE)
    title = f"Memory of one device{f', {estimated} estimated' if estimated else ''}"
    table = table_of("memory-statement", title, _COLUMNS, changed)
    names = [f"spaces[{peak.space}]." for peak in memory.peaks if peak.color == DEFAULT_SPACE]
    short = [(str(row[0]).removeprefix("".join(names[:1])), *row[1:]) for row in shown]
    text = table_of("memory-statement", table.title, _COLUMNS, short)
    yield replace(text, notes=notes, is_whole=True, is_text_only=True)
    yield replace(table, text_only=("change",), is_data_only=True)


def _is_shown(name: str, metrics: Mapping[str, Delta]) -> bool:
    """Return whether no other figure is the same by definition."""
    if name == PEAK:
        return not any(other.startswith("spaces[") for other in metrics)
    last = name.rpartition(".")[2]
    if not name.startswith("spaces[") or last in ("peak_bytes", "fragmentation_bytes"):
        return True
    return last == "total_bytes" and metrics[name] != metrics[last]


def _percent(delta: Delta) -> str:
    if delta.base is None or delta.head is None or delta.delta is None:
        return ""
    return format_change(delta.base, delta.head)


def peak_table(peak: PeakDiff) -> Table:
    """Return the values that differ in a memory space."""
    title = f"Differences at the peak of {peak.space}"
    if peak.rest:
        title = f"Differences in {peak.space}: values at the peak, and other bytes"
    elif not peak.is_peak:
        title = f"Differences in {peak.space}: all allocated values; no live ranges"
    same = peak.unchanged_groups
    table = Table.of(
        peak,
        title=title,
        shown=("delta_bytes", "change", "source", "shape", "op_name"),
        notes=(f"{plural(same, 'group')} of values without change",) if same else (),
    )
    return with_marks(table)


def donation_text(donations: DonationDiff) -> str:
    """Return the arguments whose memory a result no longer reuses, or newly reuses."""
    parts: list[str] = []
    for change in ("lost", "gained"):
        rows = [row for row in donations.rows() if row[0] == change]
        if not rows:
            continue
        names = listed([str(row[1]) for row in rows], _MOST_NAMES)
        size = format_bytes(donations.bytes_of(change))
        parts.append(f"{change} for {plural(len(rows), 'argument')} of {size}: {names}")
    return "; ".join(parts)


SHOWN = ("edit", "instructions", "opcode", "what", "where", "op_name", "source")
"""Columns of edits in text."""

COUNTS = ("unchanged", "changed", "added", "removed", "moved")
"""Numbers of instructions by change."""

_MODULE_COLUMNS = (
    Column("what", Unit.NONE, "input_output_alias, buffer_donor, or the header attribute"),
    Column("edit", Unit.NONE, "lost, gained or changed"),
    Column("count", Unit.COUNT, "how many"),
    Column("base", Unit.NONE, "in the base, the first few"),
    Column("head", Unit.NONE, "in the head, the first few"),
)
_NAMED = 3
_OF_TEXTS = {Noise.CHANNEL_IDS, Noise.INSTRUCTION_ORDER, Noise.COMPUTATION_ORDER}
TEXTS_DIFFER = (
    "diff compares programs, which are equal here; hlo-lens ls compares texts, and counts other "
    "channel ids and another order of instructions as differences"
)
_LONGEST = 120


def program_diff_facts(diff: ProgramDiff) -> tuple[tuple[str, str], ...]:
    """Return label and text of the summary lines."""
    if diff.identical:
        text = f"no change: {plural(diff.unchanged, 'instruction')}"
    else:
        counts = _counts(diff)  # text lists what is left out as noise
        counts["added"] -= diff.left_out_head
        counts["removed"] -= diff.left_out_base
        text = ", ".join(f"{format_count(count)} {kind}" for kind, count in counts.items())
    return (("program", text), *(("ignored", text) for text in [ignored_text(diff)] if text))


def program_diff_tables(diff: ProgramDiff) -> tuple[Table, ...]:
    """Return the tables of changes of the module, and of instructions; without empty ones."""
    module = tuple(_module_rows(diff))
    tables = [table_of("module-diff", "Module", _MODULE_COLUMNS, module)] if module else []
    if diff.groups:
        count = plural(diff.unseen_literals, "constant")
        note = f"{count} without printed value: taken to be equal"
        notes = (note,) if diff.unseen_literals else ()
        table = Table.of(diff, title="Program", shown=SHOWN, notes=notes)
        tables.append(replace(table, kept=("opcode", "source"), wrapped=("what",)))
    return tuple(tables)


def program_diff_json(diff: ProgramDiff) -> Mapping[str, object]:
    """Return the JSON object ``program``: counts of instructions, and ignored noise."""
    return {
        **_counts(diff),
        "identical": diff.identical,
        "left_out_base": diff.left_out_base,
        "left_out_head": diff.left_out_head,
        "unseen_literals": diff.unseen_literals,
        "ignored": {kind.value: count for kind, count in diff.ignored.items()},
        "module_changes": [asdict(change) for change in diff.module_changes],
    }


def ignored_text(diff: ProgramDiff) -> str:
    """Return the ignored noise kinds with their numbers; empty without noise.

    Numbers count instructions; of the order of computations they count computations.
    """
    return ", ".join(
        f"{kind.value} ({format_count(count)})" for kind, count in diff.ignored.items()
    )


def text_note(diff: ProgramDiff) -> str | None:
    """Return a note if programs are equal whose texts differ for `hlo-lens ls`, else None."""
    is_equal = diff.identical and not _OF_TEXTS.isdisjoint(diff.ignored)
    return TEXTS_DIFFER if is_equal else None


def _counts(diff: ProgramDiff) -> dict[str, int]:
    return {name: getattr(diff, name) for name in COUNTS}


def _module_rows(diff: ProgramDiff) -> Iterator[Row]:
    """Yield changes of the module, those of one attribute and direction as one row."""
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in diff.module_changes:
        edit = "gained" if change.base is None else "lost" if change.head is None else "changed"
        groups.setdefault((change.what, edit), []).append(change)
    for (what, edit), changes in groups.items():
        base, head = (
            _few([text for text in texts if text is not None])
            for texts in zip(*((c.base, c.head) for c in changes), strict=True)
        )
        yield what, edit, len(changes), base, head


def _few(texts: list[str]) -> str | None:
    """Return the first few texts and the number of the others; None without any."""
    shown = [t if len(t) <= _LONGEST else f"{t[: _LONGEST - 3]}..." for t in texts[:_NAMED]]
    more = len(texts) - len(shown)
    return "; ".join([*shown, *([f"[{more} more]"] if more else [])]) or None
