"""Page of programs compiled again: figures now and with changes, whether they fit, the new dump."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from hlo_lens.questions.what_if.recompiling import FIGURES, RECOMPILED
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.render.to_json import envelope
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.questions.what_if.edits import Change
    from hlo_lens.questions.what_if.recompiling import Figures, Recompiled

_FIRST = ("total_bytes", "peak_bytes", "temp_bytes")
"""Figures that people read first."""

_OF_FULL = {"generated_code_size": "generated code", "peak_memory": "peak, as jax gives it"}
"""Figures that only a compile that goes on to its end has."""

_OF_WORK = {"flops": "products", "equal_share_flops": "an equal share"}

_FIGURE_COLUMNS = (
    Column("figure", Unit.NONE, "name of the figure"),
    Column("now", Unit.BYTES, "compiled again without changes"),
    Column("changed", Unit.BYTES, "with the changes"),
    Column("delta", Unit.BYTES, "difference"),
)
_WORK_COLUMNS = (_FIGURE_COLUMNS[0], *(replace(c, unit=Unit.FLOPS) for c in _FIGURE_COLUMNS[1:]))
_CHANGE_COLUMNS = (
    Column("change", Unit.NONE, "kind of change, and its value"),
    Column("alone_bytes", Unit.BYTES, "change of what must fit, with this change only"),
    Column("applies", Unit.NONE, "whether it can be made, or why not"),
)


def what_if_report(rows: Sequence[Recompiled], path: str) -> Report:
    """Return the report on modules compiled again; one section for each."""
    targets = {row.target.name for row in rows if row.target is not None}
    versions = filter(None, (row.shown.versions_for(row.target) for row in rows))
    return Report(
        kind="what-if",
        sections=[_section(row, path) for row in rows],
        data=envelope(
            "what-if",
            target=targets.pop() if len(targets) == 1 else None,
            versions=next(versions, {}),
            modules=[_object(row) for row in rows],
        ),
    )


def _object(row: Recompiled) -> dict[str, object]:
    known, shown, target, predicted = row.known, row.shown, row.target, row.predicted
    equal, alone = known.reproduction, row.alone or (None,) * len(row.changes)
    stats = (known.again, row.again)
    return {
        "name": row.name,
        "basis": RECOMPILED if known.figures is not None or predicted is not None else None,
        "target": None if target is None else target.name,
        "reproduced": equal.is_equal,
        "differences": [asdict(one) for one in equal.differences],
        "reasons": list(equal.reasons),
        "changes": [
            part.to_dict("note", "request") for change in row.changes for part in change.all_parts
        ],
        "requests": [
            {**change.to_dict(), "alone": None if made is None else made.to_dict()}
            for change, made in zip(row.changes, alone, strict=True)
        ],
        "own": known.own.to_dict(),
        "base": row.base.to_dict(),
        "predicted": None if predicted is None else predicted.to_dict(),
        "memory_limit_bytes": row.memory_limit,
        "memory_limit_source": None if target is None else target.memory_source or None,
        "fits": row.fits,
        "refusal": row.refusal or None,
        "shortage": dict(shown.shortage) or None,
        "needed_bytes": shown.needed_bytes,
        **{
            name: {"base": getattr(row.base, name), "predicted": getattr(predicted, name, None)}
            for name in ("wire_by_axis", "flops", "peak_source")
        },
        "memory_analysis": {
            name: None if made is None else dict(made.memory_analysis) or None
            for name, made in zip(("base", "predicted"), stats, strict=True)
        },
        "versions": shown.versions_for(target),
        "base_versions": known.again.versions_for(known.target),
        "seconds": shown.seconds,
        "notes": list(row.known.notes),
        "dump": row.dump,
    }


def _section(row: Recompiled, path: str) -> Section:
    tables = [*_figure_tables(row)]
    if row.changes:
        alone = row.alone or (None,) * len(row.changes)
        pairs = zip(row.changes, alone, strict=True)
        cells = [cells for pair in pairs for cells in _change_rows(row, *pair)]
        shown = ("change", *(("alone_bytes",) if any(alone) else ()), "applies")
        tables.append(table_of("changes", "Changes", _CHANGE_COLUMNS, cells, shown=shown))
    if row.known.reproduction.differences:
        title = "Figures that are not reproduced"
        tables.append(Table.of(row.known.reproduction, title=title))
    facts = tuple(_facts(row, path))
    return Section(title=row.name, facts=facts, tables=tuple(tables), notes=row.known.notes)


def _facts(row: Recompiled, path: str) -> Iterator[tuple[str, str]]:
    base, predicted, target = row.known.target, row.predicted, row.target
    yield "compiled again", _reproduced_text(row)
    if target is not None:
        versions = row.shown.versions_for(target) if predicted is not None else {}
        by = _versions_text(versions, row.shown.seconds)
        yield "target", f"{_arrow(None if base is None else base.name, target.name)}{by}"
    yield from row.shown.shortage
    if row.refusal and (row.changes or row.known.reproduction.is_equal is not None):
        yield "with changes", row.refusal
    if target is not None and row.memory_limit is not None and row.fits is not None:
        current = predicted or (row.base if not row.changes else None)
        size = None if current is None else current.total_bytes
        used = "" if size is None else f"{format_bytes(size)} of "
        limit = f"{format_bytes(row.memory_limit)} of a device ({target.memory_source})"
        yield "fits", f"{'yes' if row.fits else 'no'}: {used}{limit}"
    if predicted is not None and row.base.peak_source != predicted.peak_source:
        yield "peak at", _arrow(row.base.peak_source, predicted.peak_source)
    if row.fits is False:
        is_named = target is not None and any(one.kind == "target" for one in row.changes)
        option = f" --target {shell_word(target.name)}" if target and is_named else ""
        yield "next", f"{_command('fit', row, path)}{option}"
    if row.dump is not None:
        yield "new dump", row.dump
        yield "next", _command("diff", row, path, row.dump)


def _reproduced_text(row: Recompiled) -> str:
    known, again = row.known, row.known.again
    versions = again.versions_for(known.target)
    if not versions and not row.refusal and not any(one.applies for one in row.changes):
        return "not compiled: no change applies"
    equal, by = known.reproduction, _versions_text(versions, again.seconds)
    if equal.is_equal is None:
        if row.refusal and not row.changes:
            return f"not possible: {row.refusal}{by}"
        why = row.refusal or "the dump has no buffer assignment to compare with"
        return f"not known whether reproduced: {why}{by}"
    differ = (f"{plural(len(equal.differences), 'figure')} differ", *equal.reasons)
    all_equal = f"reproduced, all {equal.compared} figures equal"
    return (all_equal if equal.is_equal else f"not reproduced: {'; '.join(differ)}") + by


def _versions_text(versions: Mapping[str, str], seconds: float) -> str:
    words = [f"{name} {version}" for name, version in versions.items()]
    return f" ({', '.join((*words, f'{seconds:.0f} s'))})" if words else ""


def _command(name: str, row: Recompiled, *paths: str) -> str:
    """Return a command on the module of a row alone; the first path is that of its dump."""
    words = (shell_word(path or "PATH") for path in paths)
    return " ".join(filter(None, ("hlo-lens", name, *words, row.known.dump.module_option)))


def _arrow(base: str | None, head: str | None) -> str:
    first = base or "not known"
    return first if base == head else f"{first} -> {head or 'not known'}"


def _figure_tables(row: Recompiled) -> Iterator[Table]:
    base, head = row.base, row.predicted
    if base.total_bytes is None and head is None:
        return
    names = (*_FIRST, *(name for name in FIGURES if name not in _FIRST))
    values = [(FIGURES[name], getattr(base, name), getattr(head, name, None)) for name in names]
    axes = dict(head.wire_by_axis) if head is not None else {}
    for axis in dict.fromkeys((*base.wire_by_axis, *axes)):
        changed = None if head is None else axes.get(axis, 0)
        values.append((f"  over {axis}", base.wire_by_axis.get(axis, 0), changed))
    for name, label in _OF_FULL.items():
        now, changed = (
            None if made is None else made.memory_analysis.get(f"{name}_in_bytes")
            for made in (row.known.again, row.again)
        )
        if now or changed:
            values.append((label, now, changed))
    work = [(label, getattr(base, n), getattr(head, n, None)) for n, label in _OF_WORK.items()]
    shown = ("figure", "now", *(() if head is None else ("changed", "delta")))
    for key, title, columns, cells in (
        ("figures", "Figures of one device", _FIGURE_COLUMNS, values),
        ("work", "Work of one device in one run, FLOP", _WORK_COLUMNS, work),
    ):
        rows = [(*one, None if None in one[1:] else one[2] - one[1]) for one in cells]
        yield table_of(key, title, columns, rows, shown=shown)


def _change_rows(row: Recompiled, change: Change, made: Figures | None) -> Iterator[Row]:
    alone, base = None if made is None else made.total_bytes, row.base.total_bytes
    saved = None if alone is None or base is None else alone - base
    parts = change.all_parts
    if len(parts) > 1:
        count = sum(part.applies for part in parts)
        yield f"{change.kind} {change.target}", saved, f"{count} of {len(parts)} values"
    for part in parts:
        name = f"{part.kind} {part.target}" if len(parts) == 1 else f"  {part.target}"
        note = f"yes{f': {part.note}' if part.note else ''}"
        answer = note if part.applies else f"no: {part.why_not}"
        yield name, saved if len(parts) == 1 else None, answer
