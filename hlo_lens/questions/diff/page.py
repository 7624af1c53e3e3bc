"""Page of a diff: one line for each subject, then tables of the changes; and its JSON object.

Scripts rely on the names in the object: names may be added, none changes. Bytes are integers. A key
whose value is unknown is present with null; 0 means zero.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

from hlo_lens.program.pages import with_marks
from hlo_lens.questions.diff.causes import SAME_SOURCE
from hlo_lens.questions.diff.line_edits import FEW
from hlo_lens.questions.diff.memory import PEAK, missing_memory
from hlo_lens.questions.diff.pairs import Delta
from hlo_lens.questions.findings.page import change_text
from hlo_lens.questions.matching.edits import Change, Noise
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.render.result import Result, Row, Unit, columns_of, facts_object, rows_of
from hlo_lens.render.table import Report, Section, Table, filled, table_of
from hlo_lens.render.to_json import envelope
from hlo_lens.text.units import (
    Amount,
    Kind,
    format_bytes,
    format_change,
    format_count,
    format_delta,
    format_flops,
    listed,
    plural,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.questions.diff.causes import Cause, Consequence
    from hlo_lens.questions.diff.collectives import CollectiveDiff, CollectiveRow, Detail
    from hlo_lens.questions.diff.explained import LineDiff
    from hlo_lens.questions.diff.memory import MemoryDiff, PeakDiff
    from hlo_lens.questions.diff.module_diff import DumpDiff, ModuleDiff
    from hlo_lens.questions.diff.shardings import (
        DonationDiff,
        ShardingDiff,
        ShardingRow,
    )
    from hlo_lens.questions.findings.changes import FindingChanges
    from hlo_lens.questions.matching.program_diff import ProgramDiff
    from hlo_lens.questions.snapshots.figures import SpacePeak
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot

MOST_CHARACTERS = 65_000
"""Longest Markdown; a comment on GitHub may have 65,536 characters."""

NO_CHANGE = "no change"
NO_MEMORY = "not known: no side has a buffer assignment, or a schedule to estimate by"
NO_KNOWN_CHANGE = f"{NO_CHANGE} in what is known"
NO_TEXT = "not known: one side has no HLO text"
CUT_TEXT = "not known: the HLO text of one side ends too early"
NO_NAMES = "not known: a snapshot without program does not keep noise"
ONLY_FINGERPRINT = "changed; its edits are not known without the program of both sides"
_MOST_NAMES = 8


def diff_report(diff: DumpDiff, names: tuple[str, str], *, by: str | None = None) -> Report:
    """Return the report on a diff.

    Args:
        diff: Changes of all modules.
        names: Paths of the two sides.
        by: ``source`` for the changed lines of the user's program alone.
    """
    shown = sorted((one for one in diff.modules if not one.identical or one.unknown), key=weight)
    if not shown and len(diff.modules) == 1:
        shown = [diff.modules[0]]
    return Report(
        kind="diff",
        sections=(_head(diff, names), *(module_section(one, by) for one in shown)),
        data=diff_object(diff),
        most_characters=MOST_CHARACTERS,
    )


def _head(diff: DumpDiff, names: tuple[str, str]) -> Section:
    changed = sum(not module.identical for module in diff.modules)
    facts = [("compared", " -> ".join(names))]
    if len(diff.modules) != 1 or diff.added or diff.removed or any(diff.copies):
        same = len(diff.modules) - changed
        parts = [f"{plural(len(diff.modules), 'pair')}: {changed} changed, {same} unchanged"]
        copies = sum(map(len, diff.copies))
        others = (
            (len(diff.removed), "removed"),
            (len(diff.added), "added"),
            (copies, "left out as copies of these"),
        )
        parts += [f"{count} {word}" for count, word in others if count]
        facts.append(("modules", ", ".join(parts)))
    for label, modules in (("removed", diff.removed), ("added", diff.added)):
        if modules:
            facts.append((label, listed_names(modules)))
    verdict = NO_KNOWN_CHANGE if any(module.unknown for module in diff.modules) else NO_CHANGE
    if not diff.identical:
        verdict = "undecided: a text ends too early" if diff.is_undecided else _changed_text(diff)
    tables = (modules_table(diff),) if changed > 1 else ()
    return Section(title=f"hlo-lens diff: {verdict}", facts=tuple(facts), tables=tables)


def _changed_text(diff: DumpDiff) -> str:
    """Return that something changed; of a single changed module, by how many bytes."""
    modules = [module for module in diff.modules if not module.identical]
    if len(modules) != 1:
        return "changed"
    row = changed_module(modules[0])
    sizes = ((row.delta_total_bytes, "must fit"), (row.delta_wire_bytes, "sent"))
    texts = [f"{format_delta(size)} {what}" for size, what in sizes if size]
    return f"changed: {', '.join(texts)}" if texts else "changed"


def listed_names(modules: Sequence[ModuleSnapshot]) -> str:
    """Return the names of modules, the first few."""
    return listed([module.name for module in modules], _MOST_NAMES)


def module_section(diff: ModuleDiff, by: str | None = None) -> Section:
    """Return head and tables of one pair of modules; by lines, its causes and all changed lines."""
    title = " -> ".join(dict.fromkeys((diff.base.name, diff.head.name)))
    if by is None:
        return Section(
            title=title,
            facts=tuple(_facts(diff)),
            tables=tuple(_tables(diff)),
            notes=tuple(_notes(diff)),
            is_short=True,
        )
    if diff.lines is None:
        return Section(title=title, facts=(("lines", NO_CHANGE),))
    tables = (_lines_table(diff.lines, is_whole=True),) if diff.lines.row_count else ()
    return Section(title=title, facts=tuple(_cause_facts(diff)), tables=tables)


def _facts(diff: ModuleDiff) -> Iterator[tuple[str, str]]:
    if diff.note:
        yield "pair", diff.note
    if diff.differences:
        yield "incomparable", "; ".join(diff.differences)
    if diff.toolchain:
        yield "toolchain", diff.toolchain
    if fits := _fits_text(diff):
        yield "fit", fits
    yield from _cause_facts(diff)
    if "memory" in diff.subjects and diff.memory is None:
        yield "memory", missing_memory(diff.head) or missing_memory(diff.base) or NO_MEMORY
    if diff.memory is not None:
        yield from memory_facts(diff.memory)
    if "collectives" in diff.subjects:
        yield "sent", NO_TEXT if diff.collectives is None else sent_text(diff.collectives)
    work = Delta(diff.base.facts.flops, diff.head.facts.flops)
    if work.delta:
        sizes = [format_flops(size) for size in (work.base, work.head) if size is not None]
        yield "work", f"{' -> '.join(sizes)} ({_percent(work)})"
    if diff.findings is not None:
        yield from findings_facts(diff.findings)
    yield from _program_facts(diff)


def _fits_text(diff: ModuleDiff) -> str:
    """Return whether the program still fits, where that changed; empty otherwise."""
    total = None if diff.memory is None else diff.memory.metrics["total_bytes"]
    limit = diff.limit_bytes
    if total is None or limit is None or total.base is None or total.head is None:
        return ""
    is_new = total.base <= limit < total.head
    if not is_new and not total.head <= limit < total.base:
        return ""
    over = f", {format_bytes(total.head - limit)} too much" if is_new else ""
    words = "does not fit {} any more" if is_new else "fits {} now"
    return f"{words.format(format_bytes(limit))}: {format_bytes(total.head)} must fit{over}"


def _program_facts(diff: ModuleDiff) -> Iterator[tuple[str, str]]:
    """Yield shardings and instructions where no cause says what changed, and the noise."""
    causes = () if diff.lines is None else diff.lines.causes
    if "sharding" in diff.subjects:
        cut_text = CUT_TEXT if diff.base.is_truncated or diff.head.is_truncated else NO_TEXT
        found = diff.shardings
        if found is None or not causes or found.problem or found.unknown:
            yield "sharding", cut_text if found is None else sharding_text(found)
    if diff.program is not None:
        facts = program_diff_facts(diff.program)
        yield from facts if not causes or diff.program.identical else facts[1:]
    elif "program" in diff.subjects:
        of_equal = NO_NAMES if diff.is_heedful else f"{NO_CHANGE} but names"
        texts = {None: NO_TEXT, True: of_equal, False: ONLY_FINGERPRINT}
        problem = diff.program_problem if diff.is_program_equal is False else ""
        yield "program", f"{texts[diff.is_program_equal]}{problem and f' ({problem})'}"
    if not diff.identical:
        yield "more", "hlo-lens diff with --by source: lines; with -n 20: values, collectives"


def _tables(diff: ModuleDiff) -> Iterator[Table]:
    memory = diff.memory
    if diff.lines is not None and diff.lines.row_count:
        yield _lines_table(diff.lines)
    if diff.findings is not None and diff.findings.row_count:
        yield Table.of(diff.findings, title="Findings new and gone", is_data_only=True)
    if memory is not None and memory.is_changed:
        yield from statement_tables(memory) if memory.has_other_numbers else ()
        for peak in filter(lambda peak: peak.row_count, memory.peaks):
            yield replace(peak_table(peak), is_data_only=peak.space in memory.small_spaces)
    if diff.donations is not None and diff.donations.row_count:
        yield Table.of(
            diff.donations,
            title="Aliases of arguments lost and gained",
            shown=("change", "name", "device_bytes", "device_shape", "base_output", "head_output"),
        )
    if diff.collectives is not None and diff.collectives.row_count:
        yield _collectives_table(diff.collectives)
    if diff.shardings is not None and diff.shardings.row_count:
        yield _shardings_table(diff.shardings)
    if diff.program is not None:
        yield from program_diff_tables(diff.program)


def _notes(diff: ModuleDiff) -> Iterator[str]:
    note = None if diff.program is None else text_note(diff.program)
    if note is not None:
        yield note
    if diff.memory is not None and diff.memory.unexplained:
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


# ---- causes and lines --------------------------------------------------------------------------

MOST_CAUSES = 4
_MOST_LINES = 4
_MOST_CONSEQUENCES = 8
SAME_PROGRAM = "none in the program, which is the same"
OTHER_MEMORY = f"{SAME_PROGRAM}: the compiler assigned memory otherwise"
OTHER_TOOLS = (
    "no line of your program: the texts from before optimizations differ only in what JAX makes of "
    "the same operations"
)
NOT_FOUND = "not found among the changes of the lines of your program, which are below"


def _cause_facts(diff: ModuleDiff) -> Iterator[tuple[str, str]]:
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
        yield from ((" ", f"  {text}") for text in _consequence_texts(cause))
    rest = lines.causes[MOST_CAUSES:]
    if rest:
        yield "cause", f"[{plural(len(rest), 'other cause')}]{_amounts(rest)} (--by source)"
    if len(lines.causes) > 1 and (amounts := _amounts(lines.causes)):
        yield "sum", amounts.strip()


def cause_text(cause: Cause) -> str:
    """Return lines, bytes and description of a cause."""
    places = list(cause.sources[:_MOST_LINES])
    more = len(cause.sources) - len(places)
    parts = [", ".join([*places, *([f"{more} more"] if more else [])])] if places else []
    return "  ".join([*parts, cause.what]) + _amounts([cause])


def _amounts(causes: Sequence[Cause]) -> str:
    """Return the bytes that causes explain together; empty for none, or not known."""
    sums = (
        (sum(one.delta_bytes or 0 for one in causes), "must fit"),
        (sum(one.delta_wire_bytes or 0 for one in causes), "sent"),
    )
    texts = [f"{format_delta(size)} {what}" for size, what in sums if size]
    return f"  {', '.join(texts)}" if texts else ""


def _consequence_texts(cause: Cause) -> Iterator[str]:
    """Yield what follows from a cause: without bytes first, then its parts, small ones as one."""
    plain = [one for one in cause.consequences if one.delta_bytes is one.delta_wire_bytes is None]
    parts = [one for one in cause.consequences if one not in plain]
    shown = [one for one in parts if _is_large(one, cause)][:_MOST_CONSEQUENCES]
    for one in (*plain[:FEW], *shown):
        size = one.delta_wire_bytes if one.delta_bytes is None else one.delta_bytes
        yield "  ".join(
            part for part in (size and format_delta(size), one.what, one.source) if part
        )
    others = [one for one in parts if one not in shown]
    sums = [
        (sum(one.delta_bytes or 0 for one in others), "other memory"),
        (sum(one.delta_wire_bytes or 0 for one in others), "sent otherwise"),
    ]
    texts = [f"{format_delta(size)}  {what}" for size, what in sums if size]
    yield from texts


_LEAST_SHARE = 0.02


def _is_large(one: Consequence, cause: Cause) -> bool:
    """Return whether a part is worth a line of its own."""
    known = [
        max((abs(part) for c in cause.consequences if (part := getattr(c, name))), default=0)
        for name in ("delta_bytes", "delta_wire_bytes")
    ]
    sizes = one.delta_bytes or 0, one.delta_wire_bytes or 0
    return any(
        size and abs(size) > _LEAST_SHARE * most for size, most in zip(sizes, known, strict=True)
    )


def _lines_table(lines: LineDiff, *, is_whole: bool = False) -> Table:
    """Return the lines of the user's program that changed."""
    counts = () if lines.is_source is None else ("added", "removed", "changed")  # of a snapshot
    what = () if lines.is_source is None else ("what",)
    table = Table.of(
        lines,
        title="Lines of your program that changed",
        shown=("source", *counts, "delta_peak_bytes", "delta_wire_bytes", *what),
        notes=("instructions are those after optimizations",) if lines.is_source is False else (),
    )
    return replace(table, is_whole=is_whole, wrapped=("what",))


# ---- memory ------------------------------------------------------------------------------------


def delta_text(delta: Delta, kinds: tuple[Kind, Kind] = (Kind.EXACT, Kind.EXACT)) -> str:
    """Return a size before and after, marked by kind, with the difference; ``?`` if not known."""
    base, head = (
        "?" if size is None else Amount(size, kind).text(format_bytes)
        for size, kind in zip((delta.base, delta.head), kinds, strict=True)
    )
    if delta.base == delta.head:
        return f"{base} ({NO_CHANGE})" if delta.base is not None else "not known"
    if delta.delta is None:
        return f"{base} -> {head}"
    return f"{base} -> {head}, {format_delta(delta.delta)} ({_percent(delta)})"


def _percent(delta: Delta) -> str:
    is_known = delta.delta is not None
    return format_change(delta.base or 0, delta.head or 0) if is_known else ""


def memory_facts(memory: MemoryDiff) -> Iterator[tuple[str, str]]:
    """Yield the changes of what must fit and of the peaks, or why they are not known.

    Spaces beside the default one only where they changed by more than 1 %; `-n` shows the others.
    """
    if memory.problem:
        yield "memory", memory.problem
    elif not memory.is_changed:
        yield "memory", NO_CHANGE
    else:
        yield "memory", f"total {delta_text(memory.metrics['total_bytes'], memory.kinds)}"
    for peak in memory.peaks:
        base, head = ((one and one.bytes) or 0 for one in (peak.base, peak.head))
        is_default = peak.color == DEFAULT_SPACE
        if peak.space in memory.small_spaces or not peak.is_peak:
            continue
        text = delta_text(Delta(base, head), memory.kinds)
        if is_default and peak.has_moved and peak.base is not None and peak.head is not None:
            places = [one.source or moment_text(one) for one in (peak.base, peak.head)]
            if places[0] != places[1]:
                yield "peak", f"{text}; moved from {places[0]} to {places[1]}"
        elif not is_default and abs(head - base) > _LEAST_CHANGE * base:
            yield f"{peak.space}", text


_LEAST_CHANGE = 0.01
"""Share by which other memory spaces changed that are listed."""


def moment_text(peak: SpacePeak) -> str:
    """Return the place of a peak in the program."""
    words = [word for word in (peak.source, peak.op_name) if word]
    return " ".join(words) or peak.opcode or "the whole program"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the statement of memory in base and head."""

    metric: Annotated[str, "path in the report's memory object"]
    base: Annotated[int | None, Unit.BYTES, "before"]
    head: Annotated[int | None, Unit.BYTES, "after"]
    delta: Annotated[int | None, Unit.BYTES_DELTA, "difference"]
    change: Annotated[str, "difference in percent"]


def statement_tables(memory: MemoryDiff) -> Iterator[Table]:
    """Yield the figures of the statement that differ; of one space, or of each of several.

    Text leaves out those of spaces of few bytes, and the name of the default space; CSV has both.
    """
    figures = [
        Figure(name, delta.base, delta.head, delta.delta, _percent(delta))
        for name, delta in memory.metrics.items()
        if _is_shown(name, memory.metrics)
    ]
    changed = [figure for figure in figures if figure.base != figure.head]
    folded = tuple(f"spaces[{name}]." for name in memory.small_spaces)
    shown = [figure for figure in changed if not (folded and figure.metric.startswith(folded))]
    hidden = len(changed) - len(shown)
    counts = (
        (len(figures) - len(changed), "without change"),
        (hidden, "of small spaces not shown"),
    )
    sides = zip(("base", "head"), memory.kinds, strict=True)
    estimated = " and ".join(side for side, kind in sides if kind is Kind.ESTIMATE)
    title = f"Memory of one device{f', {estimated} estimated' if estimated else ''}"
    names = [f"spaces[{peak.space}]." for peak in memory.peaks if peak.color == DEFAULT_SPACE]
    short = [
        replace(figure, metric=figure.metric.removeprefix("".join(names[:1]))) for figure in shown
    ]
    text, table = (
        table_of("memory-statement", title, columns, [*rows_of(listed, columns)])
        for columns in (columns_of(Figure),)
        for listed in (short, changed)
    )
    notes = tuple(f"{plural(number, 'figure')} {what}" for number, what in counts if number)
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
        names = donations.names_of(change)
        if names:
            size = format_bytes(donations.bytes_of(change))
            words = f"{change} for {plural(len(names), 'argument')} of {size}"
            parts.append(f"{words}: {listed(names, _MOST_NAMES)}")
    return "; ".join(parts)


# ---- findings, collectives, shardings ----------------------------------------------------------

_MOST_FINDINGS = 3


def findings_facts(changes: FindingChanges) -> Iterator[tuple[str, str]]:
    """Yield the findings that are new and gone, one line each, and what is not known."""
    label = "findings"
    for word, found in (("new", changes.new), ("gone", changes.gone)):
        for one in found[:_MOST_FINDINGS]:
            yield label, f"{word} {change_text(one)}"
            label = " "
        if len(found) > _MOST_FINDINGS:
            yield label, f"{len(found) - _MOST_FINDINGS} more {word}"
    codes = changes.undecided
    if codes:
        yield label, f"{plural(len(codes), 'rule')} not decided: {listed(codes, _MOST_NAMES)}"


def sent_text(found: CollectiveDiff) -> str:
    """Return the bytes on the wire per device, and the changes of the numbers of collectives."""
    if not found.changed:
        return f"{NO_CHANGE} ({plural(found.unchanged, 'collective')})"
    wire = found.wire_bytes
    bound = "at most " if wire.is_at_most else ""
    kinds = [
        f"{kind} {delta.base:,} -> {delta.head:,}"
        for kind, delta in found.counts.items()
        if delta.base != delta.head
    ]
    return "; ".join([f"{bound}{delta_text(wire)}", _counts(found.changed), *kinds])


def sharding_text(found: ShardingDiff) -> str:
    """Return the numbers of values whose sharding changed."""
    text = _counts((*found.entries, *found.annotations)) or NO_CHANGE
    if found.unknown:
        text += f"; {plural(found.unknown, 'value')} with a sharding on one side only"
    return f"{text}; {found.problem}" if found.problem else text


def _counts(rows: Iterable[CollectiveRow | ShardingRow]) -> str:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row.change] += row.count
    return ", ".join(f"{count:,} {change}" for change, count in counts.items())


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


def _collectives_table(diff: CollectiveDiff) -> Table:
    """Return the changed collectives, with readable sizes in their details."""

    def rows() -> Iterator[Row]:
        for row in diff.changed:
            details = (detail_text(detail) for detail in row.changes if detail.what != "times")
            yield from rows_of([replace(row, details=", ".join(details))], diff.COLUMNS)

    table = Table.of(diff, title="Collectives that changed, bytes of one run", shown=_COLLECTIVES)
    return with_marks(replace(table, read_rows=rows, kept=("kind",)))


def _shardings_table(found: ShardingDiff) -> Table:
    sizes = ("base_device_shape", "head_device_shape", "delta_bytes")
    shown = [
        *("change", "kind", "name", "base_spec", "head_spec"),
        *filled(found.COLUMNS, [*found.rows()], sizes),
        *(["count"] if any(row.count > 1 for row in found.annotations) else []),
        *(["source"] if found.annotations else []),
    ]
    table = Table.of(found, title="Shardings that changed", shown=shown)
    return replace(table, kept=("base_spec", "head_spec", "source"))


# ---- the program -------------------------------------------------------------------------------

SHOWN = ("edit", "instructions", "opcode", "what", "where", "op_name", "source")
"""Columns of edits in text."""

COUNTS = ("unchanged", "changed", "added", "removed", "moved")
"""Numbers of instructions by change."""

_NAMED = 3
_OF_TEXTS = {Noise.CHANNEL_IDS, Noise.INSTRUCTION_ORDER, Noise.COMPUTATION_ORDER}
TEXTS_DIFFER = (
    "diff compares programs, which are equal here; hlo-lens ls compares texts, and counts other "
    "channel ids and another order of instructions as differences"
)
_LONGEST = 120


def program_diff_facts(diff: ProgramDiff) -> tuple[tuple[str, str], ...]:
    """Return label and text of the summary lines.

    Numbers of noise count instructions; of the order of computations they count computations.
    """
    counts = {name: getattr(diff, name) for name in COUNTS}
    counts["added"] -= diff.left_out_head  # text lists what is left out as noise
    counts["removed"] -= diff.left_out_base
    text = ", ".join(f"{format_count(count)} {kind}" for kind, count in counts.items())
    if diff.identical:
        text = f"{NO_CHANGE}: {plural(diff.unchanged, 'instruction')}"
    ignored = [f"{kind.value} ({format_count(n)})" for kind, n in diff.ignored.items()]
    return (("program", text), *([("ignored", ", ".join(ignored))] if ignored else []))


@dataclass(frozen=True, slots=True)
class ModuleChange:
    """Changes of one attribute of a module, in one direction."""

    what: Annotated[str, "input_output_alias, buffer_donor, or the header attribute"]
    edit: Annotated[str, "lost, gained or changed"]
    count: Annotated[int, Unit.COUNT, "how many"]
    base: Annotated[str | None, "in the base, the first few"]
    head: Annotated[str | None, "in the head, the first few"]


def program_diff_tables(diff: ProgramDiff) -> tuple[Table, ...]:
    """Return the tables of changes of the module, and of instructions; without empty ones."""
    groups: dict[tuple[str, str], list[Change]] = {}
    for change in diff.module_changes:
        edit = "gained" if change.base is None else "lost" if change.head is None else "changed"
        groups.setdefault((change.what, edit), []).append(change)
    changes = [
        ModuleChange(*key, len(group), _few(c.base for c in group), _few(c.head for c in group))
        for key, group in groups.items()
    ]
    columns, tables = columns_of(ModuleChange), []
    if changes:
        tables.append(table_of("module-diff", "Module", columns, [*rows_of(changes, columns)]))
    if diff.groups:
        count = plural(diff.unseen_literals, "constant")
        note = f"{count} without printed value: taken to be equal"
        notes = (note,) if diff.unseen_literals else ()
        table = Table.of(diff, title="Program", shown=SHOWN, notes=notes)
        tables.append(replace(table, kept=("opcode", "source"), wrapped=("what",)))
    return tuple(tables)


def _few(texts: Iterable[str | None]) -> str | None:
    """Return the first few texts and the number of the others; None without any."""
    some = [text for text in texts if text is not None]
    shown = [t if len(t) <= _LONGEST else f"{t[: _LONGEST - 3]}..." for t in some[:_NAMED]]
    more = len(some) - len(shown)
    return "; ".join([*shown, *([f"[{more} more]"] if more else [])]) or None


def text_note(diff: ProgramDiff) -> str | None:
    """Return a note if programs are equal whose texts differ for `hlo-lens ls`, else None."""
    is_equal = diff.identical and not _OF_TEXTS.isdisjoint(diff.ignored)
    return TEXTS_DIFFER if is_equal else None


# ---- overview of modules -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChangedModule:
    """Changes of one module in numbers; None if they are not known."""

    module: Annotated[str, "module"]
    delta_total_bytes: Annotated[int | None, Unit.BYTES_DELTA, "increase of allocated bytes"]
    delta_peak_bytes: Annotated[int | None, Unit.BYTES_DELTA, "increase of bytes at the peak"]
    delta_wire_bytes: Annotated[
        int | None, Unit.BYTES_DELTA, "increase of bytes on the wire of one run"
    ]
    collectives: Annotated[int | None, Unit.COUNT, "collectives that changed"]
    shardings: Annotated[int | None, Unit.COUNT, "values whose sharding changed"]
    instructions: Annotated[int | None, Unit.COUNT, "instructions changed, added, removed or moved"]


def changed_module(diff: ModuleDiff) -> ChangedModule:
    """Return the changes of a module in numbers."""
    metrics = {} if diff.memory is None else diff.memory.metrics
    unknown, found, program = Delta(None, None), diff.collectives, diff.program
    return ChangedModule(
        module=diff.head.name,
        delta_total_bytes=metrics.get("total_bytes", unknown).delta,
        delta_peak_bytes=metrics.get(PEAK, unknown).delta,
        delta_wire_bytes=None if found is None else found.wire_bytes.delta,
        collectives=None if found is None else sum(row.count for row in found.changed),
        shardings=None if diff.shardings is None else diff.shardings.row_count,
        instructions=None if program is None else sum(getattr(program, n) for n in COUNTS[1:]),
    )


def weight(diff: ModuleDiff) -> tuple[int, int]:
    """Return the sort key: change of total bytes, then of bytes on the wire."""
    module = changed_module(diff)
    return -abs(module.delta_total_bytes or 0), -abs(module.delta_wire_bytes or 0)


def modules_table(diff: DumpDiff) -> Table:
    """Return one line for each module that changed, with the sums that are known."""
    changed = sorted((one for one in diff.modules if not one.identical), key=weight)
    columns = columns_of(ChangedModule)
    rows = [*rows_of(map(changed_module, changed), columns)]
    totals: dict[str, int] = {}
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        numbers = [cell for cell in cells if isinstance(cell, int)]
        if len(numbers) == len(rows):
            totals[column.name] = sum(numbers)
    return table_of("modules", "Modules that changed", columns, rows, totals=totals)


# ---- JSON --------------------------------------------------------------------------------------


def diff_object(diff: DumpDiff) -> dict[str, object]:
    """Return the JSON object of ``hlo-lens diff``."""
    added, removed = (
        [{"name": module.name, "signature": module.signature} for module in modules]
        for modules in (diff.added, diff.removed)
    )
    return envelope(
        "diff",
        identical=diff.identical,
        modules=[module_object(module) for module in diff.modules],
        modules_added=added,
        modules_removed=removed,
        modules_copied=sum(map(len, diff.copies)),
    )


def module_object(diff: ModuleDiff) -> dict[str, object]:
    """Return the object of one pair of modules."""
    lines, findings, shardings = diff.lines, diff.findings, diff.shardings
    stages = {True: "before", False: "after", None: None}  # texts whose instructions lines count
    return {
        "name_base": diff.base.name,
        "name_head": diff.head.name,
        "identical": diff.identical,
        "unknown": list(diff.unknown),
        "note": diff.note or None,
        "incomparable": list(diff.differences),
        "toolchain": diff.toolchain or None,
        "causes": [] if lines is None else [cause.to_dict() for cause in lines.causes],
        "line_rows": _rows(lines),
        "line_rows_stage": stages[None if lines is None else lines.is_source],
        **_memory_object(diff.memory),
        "findings": None
        if findings is None
        else {
            "new": [*map(facts_object, findings.new)],
            "gone": [*map(facts_object, findings.gone)],
            "kept": findings.kept,
            "undecided": list(findings.undecided),
        },
        "donation_rows": _rows(diff.donations),
        **_collectives_object(diff.collectives),
        "sharding_rows": _rows(shardings),
        "sharding_unknown": None if shardings is None else shardings.unknown,
        "sharding_renamed": None if shardings is None else shardings.renamed,
        "sharding_problem": None if shardings is None else shardings.problem or None,
        "program": _program_object(diff),
        "program_rows": _rows(diff.program),
        "program_identical": diff.is_program_equal,
    }


def _rows(result: Result | None) -> list[object]:
    return [] if result is None else [*result.objects()]


def _memory_object(memory: MemoryDiff | None) -> dict[str, object]:
    peaks = () if memory is None else memory.peaks
    return {
        "memory": memory and {name: delta.to_dict() for name, delta in memory.metrics.items()},
        "memory_source": memory and {"base": memory.base_source, "head": memory.head_source},
        "memory_problem": (memory and memory.problem) or None,
        "memory_unexplained": [] if memory is None else list(memory.unexplained),
        "memory_rows": [row for peak in peaks for row in peak.objects()],
        "peaks": [_peak_object(peak) for peak in peaks],
    }


def _peak_object(peak: PeakDiff) -> dict[str, object]:
    left_out = ("color", "name", "is_peak", "groups")
    base, head = (
        None if side is None else facts_object(side, leave_out=left_out)
        for side in (peak.base, peak.head)
    )
    return {
        "space": peak.space,
        "color": peak.color,
        "is_peak": peak.is_peak,
        "base": base,
        "head": head,
        "delta": peak.delta_bytes,
        "has_moved": peak.has_moved,
    }


def _collectives_object(diff: CollectiveDiff | None) -> dict[str, object]:
    """Return the figures; ``*_is_at_most`` is whether one of either side is an upper bound."""

    def sides(deltas: Mapping[str, Delta]) -> dict[str, dict[str, int | None]]:
        return {kind: {"base": delta.base, "head": delta.head} for kind, delta in deltas.items()}

    runs = {} if diff is None else diff.dynamic_counts
    return {
        "collectives": diff and sides(diff.counts),
        "collectives_dynamic": diff and sides(runs),
        "wire_bytes_per_device": diff and diff.wire_bytes.to_dict(),
        "collectives_dynamic_is_at_most": diff
        and {kind: delta.is_at_most for kind, delta in runs.items()},
        "wire_bytes_is_at_most": diff and diff.wire_bytes.is_at_most,
        "collective_rows": _rows(diff),
    }


def _program_object(diff: ModuleDiff) -> Mapping[str, object] | None:
    """Return the numbers of instructions by change; all null if only digests are known."""
    if "program" not in diff.subjects:
        return None
    if diff.program is not None:
        return program_diff_json(diff.program)
    if diff.is_program_equal:
        counts: dict[str, int | None] = dict.fromkeys(COUNTS, 0)
        return {**counts, "unchanged": diff.head.facts.instructions}
    return dict.fromkeys(COUNTS)


def program_diff_json(diff: ProgramDiff) -> Mapping[str, object]:
    """Return the JSON object ``program``: counts of instructions, and ignored noise."""
    return {
        **{name: getattr(diff, name) for name in COUNTS},
        "identical": diff.identical,
        "left_out_base": diff.left_out_base,
        "left_out_head": diff.left_out_head,
        "unseen_literals": diff.unseen_literals,
        "ignored": {kind.value: count for kind, count in diff.ignored.items()},
        "module_changes": [asdict(change) for change in diff.module_changes],
    }
