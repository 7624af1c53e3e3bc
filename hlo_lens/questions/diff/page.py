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
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.render.result import Result, Unit, columns_of, facts_object, rows_of
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

    from hlo_lens.questions.diff.causes import Cause
    from hlo_lens.questions.diff.collectives import CollectiveDiff, CollectiveRow
    from hlo_lens.questions.diff.explained import LineDiff
    from hlo_lens.questions.diff.memory import MemoryDiff, PeakDiff
    from hlo_lens.questions.diff.module_diff import DumpDiff, ModuleDiff
    from hlo_lens.questions.diff.shardings import ShardingDiff, ShardingRow
    from hlo_lens.questions.findings.findings import FindingChanges
    from hlo_lens.questions.matching.program_diff import ProgramDiff
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot

MOST_CHARACTERS = 65_000
"""Longest Markdown; a comment on GitHub may have 65,536 characters."""

NO_CHANGE = "no change"
NO_MEMORY = "not known: no side has a buffer assignment, or a schedule to estimate by"
NO_TEXT = "not known: one side has no HLO text"
CUT_TEXT = "not known: the HLO text of one side ends too early"
_MOST_NAMES = 8


def diff_report(diff: DumpDiff, names: tuple[str, str], *, by: str | None = None) -> Report:
    """Return the report on a diff."""
    shown = [one for one in diff.modules if not one.identical or one.unknown]
    shown.sort(key=lambda one: [-abs(size) for size in _deltas(one)])
    if not shown and len(diff.modules) == 1:
        shown = [diff.modules[0]]
    return Report(
        kind="diff",
        sections=(_head(diff, names), *(module_section(one, by) for one in shown)),
        data=diff_object(diff),
        most_characters=MOST_CHARACTERS,
    )


def _head(diff: DumpDiff, names: tuple[str, str]) -> Section:
    changed = [module for module in diff.modules if not module.identical]
    facts = [("compared", " -> ".join(names))]
    copies = sum(map(len, diff.copies))
    if len(diff.modules) != 1 or diff.added or diff.removed or copies:
        same = len(diff.modules) - len(changed)
        parts = [f"{plural(len(diff.modules), 'pair')}: {len(changed)} changed, {same} unchanged"]
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
    if diff.identical:
        is_unknown = any(module.unknown for module in diff.modules)
        verdict = f"{NO_CHANGE} in what is known" if is_unknown else NO_CHANGE
    elif diff.is_undecided:
        verdict = "undecided: a text ends too early"
    else:
        alone = _deltas(changed[0]) if len(changed) == 1 else ()  # several do not run together
        sizes = zip(alone, ("must fit", "sent"), strict=False)
        texts = [f"{format_delta(size)} {what}" for size, what in sizes if size]
        verdict = f"changed: {', '.join(texts)}" if texts else "changed"
    return Section(title=f"hlo-lens diff: {verdict}", facts=tuple(facts))


def _deltas(diff: ModuleDiff) -> tuple[int, int]:
    total = None if diff.memory is None else diff.memory.metrics["total_bytes"].delta
    sent = None if diff.collectives is None else diff.collectives.wire_bytes.delta
    return total or 0, sent or 0


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
    heads = (
        ("pair", diff.note),
        ("incomparable", "; ".join(diff.differences)),
        ("toolchain", diff.toolchain),
        ("fit", _fits_text(diff)),
    )
    yield from ((label, text) for label, text in heads if text)
    yield from _cause_facts(diff)
    if diff.memory is not None:
        yield from memory_facts(diff.memory)
    elif "memory" in diff.subjects:
        yield "memory", missing_memory(diff.head) or missing_memory(diff.base) or NO_MEMORY
    if "collectives" in diff.subjects:
        yield "sent", NO_TEXT if diff.collectives is None else _sent_text(diff.collectives)
    work = Delta(diff.base.facts.flops, diff.head.facts.flops)
    if work.delta:
        sizes = [format_flops(size) for size in (work.base, work.head) if size is not None]
        yield "work", f"{' -> '.join(sizes)} ({_percent(work)})"
    if diff.findings is not None:
        yield from findings_facts(diff.findings)
    yield from _program_facts(diff)


def _fits_text(diff: ModuleDiff) -> str:
    total = None if diff.memory is None else diff.memory.metrics["total_bytes"]
    limit = diff.limit_bytes
    if total is None or limit is None or total.base is None or total.head is None:
        return ""
    if total.base <= limit < total.head:
        over = format_bytes(total.head - limit)
        words, rest = "does not fit {} any more", f", {over} too much"
    elif total.head <= limit < total.base:
        words, rest = "fits {} now", ""
    else:
        return ""
    return f"{words.format(format_bytes(limit))}: {format_bytes(total.head)} must fit{rest}"


def _program_facts(diff: ModuleDiff) -> Iterator[tuple[str, str]]:
    causes = () if diff.lines is None else diff.lines.causes
    found, program = diff.shardings, diff.program
    if "sharding" in diff.subjects and found is None:
        is_cut = diff.base.is_truncated or diff.head.is_truncated
        yield "sharding", CUT_TEXT if is_cut else NO_TEXT
    elif found is not None and (not causes or found.problem or found.unknown):
        text = _counts((*found.entries, *found.annotations)) or NO_CHANGE
        if found.unknown:
            text += f"; {plural(found.unknown, 'value')} with a sharding on one side only"
        yield "sharding", f"{text}; {found.problem}" if found.problem else text
    if program is not None:
        facts = program_diff_facts(program)
        yield from facts if not causes or program.identical else facts[1:]
    elif "program" in diff.subjects and diff.is_program_equal:
        is_unknown = diff.is_heedful
        no_names = "not known: a snapshot without program does not keep noise"
        yield "program", no_names if is_unknown else f"{NO_CHANGE} but names"
    elif "program" in diff.subjects:
        is_known = diff.is_program_equal is False
        text = "changed; its edits are not known without the program of both sides"
        problem = f" ({diff.program_problem})" if diff.program_problem else ""
        yield "program", f"{text}{problem}" if is_known else NO_TEXT
    if not diff.identical:
        yield "more", "hlo-lens diff with --by source: lines; with -n 20: values, collectives"


def _tables(diff: ModuleDiff) -> Iterator[Table]:
    memory = diff.memory
    if diff.lines is not None and diff.lines.row_count:
        yield _lines_table(diff.lines)
    if diff.findings is not None and diff.findings.row_count:
        yield Table.of(diff.findings, title="Findings new and gone", is_data_only=True)
    if memory is not None and memory.is_changed:
        yield from [_statement_table(memory)] if memory.has_other_numbers else []
        for peak in filter(lambda peak: peak.row_count, memory.peaks):
            yield replace(_peak_table(peak), is_data_only=peak.is_small)
    if diff.donations is not None and diff.donations.row_count:
        yield Table.of(
            diff.donations,
            title="Aliases of arguments lost and gained",
            shown=("change", "name", "device_bytes", "device_shape", "base_output", "head_output"),
        )
    if diff.collectives is not None and diff.collectives.row_count:
        shown = (
            *("change", "count", "kind", "axis", "times", "delta_wire_bytes", "source", "details"),
            *("payload_bytes", "group_size"),
        )
        title = "Collectives that changed, bytes of one run"
        table = Table.of(diff.collectives, title=title, shown=shown)
        yield with_marks(replace(table, kept=("kind",)))
    if diff.shardings is not None and diff.shardings.row_count:
        yield _shardings_table(diff.shardings)
    if diff.program is not None and diff.program.groups:
        count = plural(diff.program.unseen_literals, "constant")
        note = f"{count} without printed value: taken to be equal"
        table = Table.of(
            diff.program,
            title="Program",
            shown=("edit", "instructions", "opcode", "what", "where", "op_name", "source"),
            notes=(note,) if diff.program.unseen_literals else (),
        )
        yield replace(table, kept=("opcode", "source"), wrapped=("what",))


def _notes(diff: ModuleDiff) -> Iterator[str]:
    if diff.memory is not None and diff.memory.unexplained:
        spaces = ", ".join(diff.memory.unexplained)
        yield f"the difference in {spaces} is not attributed to values: one side has no schedule"
    for side, module in (("base", diff.base), ("head", diff.head)):
        if module.gap_count:
            places = plural(module.gap_count, "place")
            yield f"{places} of the {side} could not be read and are not counted here"
        if module.undefined_count:
            parts = plural(module.undefined_count, "part")
            yield f"the {side} lacks {parts} that its text uses; they are not counted here"


MOST_CAUSES = 4
_MOST_LINES = 4
_MOST_CONSEQUENCES = 8
_LEAST_SHARE = 0.02
"""Share of the largest part of a cause from which a part has a line of its own."""

SAME_PROGRAM = "none in the program, which is the same"
OTHER_MEMORY = f"{SAME_PROGRAM}: the compiler assigned memory otherwise"
OTHER_TOOLS = (
    "no line of your program: the texts from before optimizations differ only in what JAX makes of "
    "the same operations"
)
NOT_FOUND = "not found among the changes of the lines of your program, which are below"


def _cause_facts(diff: ModuleDiff) -> Iterator[tuple[str, str]]:
    lines, program = diff.lines, diff.program
    if lines is None:
        return
    named = [row for row in lines.lines if row.source is not None]
    if lines.causes:
        pass
    elif program is not None and program.identical:
        has_other_memory = diff.memory is not None and diff.memory.is_changed
        yield "cause", OTHER_MEMORY if has_other_memory else SAME_PROGRAM
    elif lines.is_source:
        other = NOT_FOUND if any(row.changed for row in named) else OTHER_TOOLS
        yield "cause", SAME_SOURCE if lines.is_source_equal else other
    elif named:
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
    sums = (
        (sum(one.delta_bytes or 0 for one in causes), "must fit"),
        (sum(one.delta_wire_bytes or 0 for one in causes), "sent"),
    )
    texts = [f"{format_delta(size)} {what}" for size, what in sums if size]
    return f"  {', '.join(texts)}" if texts else ""


def _consequence_texts(cause: Cause) -> Iterator[str]:
    plain = [one for one in cause.consequences if one.delta_bytes is one.delta_wire_bytes is None]
    sizes = [
        (one, (abs(one.delta_bytes or 0), abs(one.delta_wire_bytes or 0)))
        for one in cause.consequences
        if one not in plain
    ]
    most = [max((pair[place] for _, pair in sizes), default=0) for place in (0, 1)]
    large = [
        one
        for one, pair in sizes
        if any(size > _LEAST_SHARE * top for size, top in zip(pair, most, strict=True))
    ][:_MOST_CONSEQUENCES]
    for one in (*plain[:FEW], *large):
        size = one.delta_wire_bytes if one.delta_bytes is None else one.delta_bytes
        yield "  ".join(
            part for part in (size and format_delta(size), one.what, one.source) if part
        )
    others = [one for one, _ in sizes if one not in large]
    sums = (
        (sum(one.delta_bytes or 0 for one in others), "other memory"),
        (sum(one.delta_wire_bytes or 0 for one in others), "sent otherwise"),
    )
    yield from (f"{format_delta(size)}  {what}" for size, what in sums if size)


def _lines_table(lines: LineDiff, *, is_whole: bool = False) -> Table:
    is_saved = lines.is_source is None  # counts of a snapshot are not known
    counts = () if is_saved else ("added", "removed", "changed")
    table = Table.of(
        lines,
        title="Lines of your program that changed",
        shown=("source", *counts, "delta_peak_bytes", "delta_wire_bytes", *["what"][is_saved:]),
        notes=("instructions are those after optimizations",) if lines.is_source is False else (),
    )
    return replace(table, is_whole=is_whole, wrapped=("what",))


def _delta_text(delta: Delta, kinds: tuple[Kind, Kind] = (Kind.EXACT, Kind.EXACT)) -> str:
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
    return "" if delta.delta is None else format_change(delta.base or 0, delta.head or 0)


_LEAST_CHANGE = 0.01
"""Share by which memory spaces beside the default one changed that are listed."""


def memory_facts(memory: MemoryDiff) -> Iterator[tuple[str, str]]:
    """Yield the changes of what must fit and of the peaks, or why they are not known."""
    if memory.problem or not memory.is_changed:
        yield "memory", memory.problem or NO_CHANGE
    else:
        yield "memory", f"total {_delta_text(memory.metrics['total_bytes'], memory.kinds)}"
    for peak in memory.peaks:
        if peak.is_small or not peak.is_peak:
            continue
        base, head = ((one and one.bytes) or 0 for one in (peak.base, peak.head))
        text = _delta_text(Delta(base, head), memory.kinds)
        if peak.color == DEFAULT_SPACE:
            places = [
                one.source or one.op_name or one.opcode or "the whole program"
                for one in (peak.base, peak.head)
                if one is not None
            ]
            if peak.has_moved and places[0] != places[-1]:
                yield "peak", f"{text}; moved from {places[0]} to {places[1]}"
        elif abs(head - base) > _LEAST_CHANGE * base:
            yield peak.space, text


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure of the statement of memory in base and head."""

    metric: Annotated[str, "path in the report's memory object"]
    base: Annotated[int | None, Unit.BYTES, "before"]
    head: Annotated[int | None, Unit.BYTES, "after"]
    delta: Annotated[int | None, Unit.BYTES_DELTA, "difference"]
    change: Annotated[str, "difference in percent"]


def _statement_table(memory: MemoryDiff) -> Table:
    sides = zip(("base", "head"), memory.kinds, strict=True)
    estimated = " and ".join(side for side, kind in sides if kind is Kind.ESTIMATE)
    title = f"Memory of one device{f', {estimated} estimated' if estimated else ''}"
    figures = [
        _Figure(name, delta.base, delta.head, delta.delta, _percent(delta))
        for name, delta in memory.metrics.items()
        if delta.is_changed and not _is_repeated(name, memory.metrics)
    ]
    columns = columns_of(_Figure)
    table = table_of("memory-statement", title, columns, [*rows_of(figures, columns)])
    return replace(table, is_whole=True, text_only=("change",))


def _is_repeated(name: str, metrics: Mapping[str, Delta]) -> bool:
    if name == PEAK:
        return any(other.startswith("spaces[") for other in metrics)
    last = name.rpartition(".")[2]
    if not name.startswith("spaces[") or last in ("peak_bytes", "fragmentation_bytes"):
        return False
    return last != "total_bytes" or metrics[name] == metrics[last]


def _peak_table(peak: PeakDiff) -> Table:
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


_MOST_FINDINGS = 3


def findings_facts(changes: FindingChanges) -> Iterator[tuple[str, str]]:
    """Yield the findings that are new and gone, one line each, and what is not known."""
    texts = []
    for word, found in (("new", changes.new), ("gone", changes.gone)):
        texts += [f"{word} {change_text(one)}" for one in found[:_MOST_FINDINGS]]
        if len(found) > _MOST_FINDINGS:
            texts.append(f"{len(found) - _MOST_FINDINGS} more {word}")
    if codes := changes.undecided:
        texts.append(f"{plural(len(codes), 'rule')} not decided: {listed(codes, _MOST_NAMES)}")
    yield from zip(["findings", *[" "] * len(texts)], texts, strict=False)


def _sent_text(found: CollectiveDiff) -> str:
    if not found.changed:
        return f"{NO_CHANGE} ({plural(found.unchanged, 'collective')})"
    bound = "at most " if found.wire_bytes.is_at_most else ""
    kinds = [
        f"{kind} {delta.base:,} -> {delta.head:,}"
        for kind, delta in found.counts.items()
        if delta.base != delta.head
    ]
    return "; ".join([f"{bound}{_delta_text(found.wire_bytes)}", _counts(found.changed), *kinds])


def _counts(rows: Iterable[CollectiveRow | ShardingRow]) -> str:
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row.change] += row.count
    return ", ".join(f"{count:,} {change}" for change, count in counts.items())


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


_COUNTS = ("unchanged", "changed", "added", "removed", "moved")


def program_diff_facts(diff: ProgramDiff) -> tuple[tuple[str, str], ...]:
    """Return label and text of the summary lines.

    Numbers of noise count instructions; of the order of computations they count computations.
    """
    counts = {name: getattr(diff, name) for name in _COUNTS}
    counts["added"] -= diff.left_out_head  # text lists what is left out as noise
    counts["removed"] -= diff.left_out_base
    text = ", ".join(f"{format_count(count)} {kind}" for kind, count in counts.items())
    if diff.identical:
        text = f"{NO_CHANGE}: {plural(diff.unchanged, 'instruction')}"
    elif of_module := Counter(change.what for change in diff.module_changes):
        attributes = [f"{what} ({count})" for what, count in of_module.items()]
        text += f"; of the module: {listed(attributes, FEW)}"
    ignored = [f"{kind.value} ({format_count(n)})" for kind, n in diff.ignored.items()]
    return (("program", text), *([("ignored", ", ".join(ignored))] if ignored else []))


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
        "findings": findings
        and {
            "new": [*map(facts_object, findings.new)],
            "gone": [*map(facts_object, findings.gone)],
            "kept": findings.kept,
            "undecided": list(findings.undecided),
        },
        "donation_rows": _rows(diff.donations),
        **_collectives_object(diff.collectives),
        "sharding_rows": _rows(shardings),
        "sharding_unknown": shardings and shardings.unknown,
        "sharding_renamed": shardings and shardings.renamed,
        "sharding_problem": (shardings and shardings.problem) or None,
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
        **{name: getattr(peak, name) for name in ("space", "color", "is_peak")},
        "base": base,
        "head": head,
        "delta": peak.delta_bytes,
        "has_moved": peak.has_moved,
    }


def _collectives_object(diff: CollectiveDiff | None) -> dict[str, object]:

    def sides(deltas: Mapping[str, Delta]) -> dict[str, dict[str, int | None]]:
        return {kind: {"base": delta.base, "head": delta.head} for kind, delta in deltas.items()}

    return {
        "collectives": diff and sides(diff.counts),
        "collectives_dynamic": diff and sides(diff.dynamic_counts),
        "wire_bytes_per_device": diff and diff.wire_bytes.to_dict(),
        "collectives_dynamic_is_at_most": diff
        and {kind: delta.is_at_most for kind, delta in diff.dynamic_counts.items()},
        "wire_bytes_is_at_most": diff and diff.wire_bytes.is_at_most,
        "collective_rows": _rows(diff),
    }


def _program_object(diff: ModuleDiff) -> Mapping[str, object] | None:
    if "program" not in diff.subjects:
        return None
    if diff.program is not None:
        return program_diff_json(diff.program)
    if diff.is_program_equal:
        counts: dict[str, int | None] = dict.fromkeys(_COUNTS, 0)
        return {**counts, "unchanged": diff.head.facts.instructions}
    return dict.fromkeys(_COUNTS)


def program_diff_json(diff: ProgramDiff) -> Mapping[str, object]:
    """Return the JSON object ``program``: counts of instructions, and ignored noise."""
    kept = ("identical", "left_out_base", "left_out_head", "unseen_literals")
    return {
        **{name: getattr(diff, name) for name in (*_COUNTS, *kept)},
        "ignored": {kind.value: count for kind, count in diff.ignored.items()},
        "module_changes": [asdict(change) for change in diff.module_changes],
    }
