"""Page of programs compiled again: figures now and with changes, whether they fit, the new dump."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from hlo_lens.questions.what_if.recompiling import FIGURES, RECOMPILED
from hlo_lens.render.envelope import envelope
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Report, Section, Table, table_of
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.questions.what_if.recompiling import Change, ChangedPart, Figures, Recompiled

_LABELS = {
    "total_bytes": "must fit",
    "peak_bytes": "peak",
    "temp_bytes": "temporaries",
    "argument_bytes": "arguments",
    "output_bytes": "outputs",
    "alias_bytes": "of these aliased",
    "wire_bytes_per_device": "sent by each device",
}
_COLUMNS = (
    Column("figure", Unit.NONE, "name of the figure"),
    Column("now", Unit.BYTES, "compiled again without changes"),
    Column("changed", Unit.BYTES, "with the changes"),
    Column("delta", Unit.BYTES, "difference"),
)
_CHANGE_COLUMNS = (
    Column("change", Unit.NONE, "kind of change, and its value"),
    Column("alone_bytes", Unit.BYTES, "change of what must fit, with this change only"),
    Column("applies", Unit.NONE, "whether it can be made, or why not"),
)


def what_if_report(rows: Sequence[Recompiled], path: str) -> Report:
    """Return the report on modules compiled again; one section for each module."""
    sections = [
        _section(group[0], path) if len(group) == 1 else _table_section(group)
        for group in _by_module(rows)
    ]
    targets = {row.target for row in rows if row.target}
    versions = next((row.versions for row in rows if row.versions), {})
    data = envelope(
        "what-if",
        target=targets.pop() if len(targets) == 1 else None,
        versions=dict(versions),
        modules=[_object(row) for row in rows],
    )
    return Report(kind="what-if", sections=tuple(sections), data=data)


def _by_module(rows: Sequence[Recompiled]) -> list[list[Recompiled]]:
    """Return the rows of each module; the same changes again are of another one of that name."""
    found: dict[tuple[str, int], list[Recompiled]] = {}
    seen: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
    for row in rows:
        request = (row.name, tuple((one.kind, one.target) for one in row.changes))
        found.setdefault((row.name, seen[request]), []).append(row)
        seen[request] += 1
    return list(found.values())


def _object(row: Recompiled) -> dict[str, object]:
    found = row.reproduction
    return {
        "name": row.name,
        "basis": RECOMPILED,
        "target": row.target or None,
        "reproduced": found.is_equal,
        "differences": [asdict(one) for one in found.differences],
        "reasons": list(found.reasons),
        "changes": [
            {**asdict(part), "note": part.note or None, "request": change.target}
            for change in row.changes
            for part in change.all_parts
        ],
        "requests": [_change_object(change) for change in row.changes],
        "own": row.own.to_dict(),
        "base": row.base.to_dict(),
        "predicted": _figures_object(row.predicted),
        "memory_limit_bytes": row.memory_limit,
        "memory_limit_source": row.memory_source or None,
        "fits": row.fits,
        "refusal": row.refusal or None,
        "shortage": dict(row.shortage) or None,
        "needed_bytes": row.needed_bytes,
        "remedies": [{"change": change, "saves_bytes": saved} for change, saved in row.remedies],
        "wire_by_axis": {
            "base": dict(row.base.wire_by_axis),
            "predicted": None if row.predicted is None else dict(row.predicted.wire_by_axis),
        },
        "flops": {
            "base": row.base.flops,
            "predicted": None if row.predicted is None else row.predicted.flops,
        },
        "peak_source": {
            "base": row.base.peak_source,
            "predicted": None if row.predicted is None else row.predicted.peak_source,
        },
        "versions": dict(row.versions),
        "base_versions": dict(row.base_versions),
        "seconds": row.seconds,
        "notes": list(row.notes),
        "dump": row.dump,
    }


def _figures_object(found: Figures | None) -> dict[str, int | None] | None:
    return None if found is None else found.to_dict()


def _change_object(change: Change) -> dict[str, object]:
    return {
        "kind": change.kind,
        "target": change.target,
        "applies": change.applies,
        "why_not": change.why_not,
        "alone": _figures_object(change.alone),
    }


def _section(row: Recompiled, path: str) -> Section:
    facts = [("compiled again", _reproduced_text(row)), *_target_facts(row)]
    if row.predicted is not None and row.base.peak_source != row.predicted.peak_source:
        facts.append(("peak at", _arrow(row.base.peak_source, row.predicted.peak_source)))
    if row.fits is False:
        facts += _fit_facts(row, path)
    if row.dump is not None:
        facts.append(("new dump", row.dump))
        facts.append(("next", _command("diff", row, path, row.dump)))
    tables = (*_figure_tables(row), *_change_tables(row), *_difference_tables(row))
    return Section(title=row.name, facts=tuple(facts), tables=tables, notes=row.notes)


def _reproduced_text(row: Recompiled) -> str:
    found = row.reproduction
    with_ = _versions_text(row.base_versions, row.base_seconds)
    if found.is_equal is None and row.refusal and not row.changes:
        return f"not possible: {row.refusal}{with_}"
    if found.is_equal is None:
        why = row.refusal or "the dump has no buffer assignment to compare with"
        return f"not known whether reproduced: {why}{with_}"
    if found.is_equal:
        return f"reproduced, all {found.compared} figures equal{with_}"
    because = f"; {'; '.join(found.reasons)}" if found.reasons else ""
    return f"not reproduced: {plural(len(found.differences), 'figure')} differ{because}{with_}"


def _versions_text(versions: Mapping[str, str], seconds: float) -> str:
    words = [f"{name} {version}" for name, version in versions.items()]
    return f" ({', '.join((*words, f'{seconds:.0f} s'))})" if words else ""


def _target_facts(row: Recompiled) -> Iterator[tuple[str, str]]:
    if row.target:
        by = _versions_text(row.versions, row.seconds) if row.predicted is not None else ""
        yield "target", f"{_arrow(row.base_target or None, row.target)}{by}"
    yield from row.shortage
    if row.refusal and (row.changes or row.reproduction.is_equal is not None):
        yield "with changes", row.refusal
    known = row.predicted or (row.base if not row.changes else None)
    if row.memory_limit is not None and row.fits is not None:
        limit = f"{format_bytes(row.memory_limit)} of a device ({row.memory_source})"
        size = known.total_bytes if known is not None else None
        used = "" if size is None else f"{format_bytes(size)} of "
        yield "fits", f"{'yes' if row.fits else 'no'}: {used}{limit}"


def _fit_facts(row: Recompiled, path: str) -> Iterator[tuple[str, str]]:
    """Yield the changes that ``fit`` would try for a program that does not fit, and its command."""
    if row.remedies:
        words = (f"{change} ({format_bytes(-saved)})" for change, saved in row.remedies)
        yield "fit would try", ", ".join(words)
    is_named = any(change.kind == "target" for change in row.changes)
    target = f" --target {shell_word(row.target)}" if is_named else ""
    yield "next", f"{_command('fit', row, path)}{target}"


def _command(name: str, row: Recompiled, *paths: str) -> str:
    """Return a command on the module of a row alone; the first path is that of its dump."""
    words = (shell_word(path or "PATH") for path in paths)
    return " ".join(filter(None, ("hlo-lens", name, *words, row.module_option)))


def _arrow(base: str | None, head: str | None) -> str:
    if base == head:
        return base or "not known"
    return f"{base or 'not known'} -> {head or 'not known'}"


def _figure_tables(row: Recompiled) -> Iterator[Table]:
    if row.base.total_bytes is None and row.predicted is None:
        return
    rows = [_figure_row(_LABELS[name], name, row) for name in _LABELS]
    axes = dict(row.base.wire_by_axis)
    head = None if row.predicted is None else row.predicted.wire_by_axis
    for axis in (*axes, *(a for a in head or () if a not in axes)):
        changed = None if head is None else head.get(axis, 0)
        rows.append(_cells(f"  over {axis}", axes.get(axis, 0), changed))
    shown = ("figure", "now") if row.predicted is None else ("figure", "now", "changed", "delta")
    yield table_of("figures", "Figures of one device", _COLUMNS, rows, shown=shown)


def _figure_row(label: str, name: str, row: Recompiled) -> Row:
    head = None if row.predicted is None else getattr(row.predicted, name)
    return _cells(label, getattr(row.base, name), head)


def _cells(label: str, base: int | None, head: int | None) -> Row:
    return label, base, head, None if base is None or head is None else head - base


def _change_tables(row: Recompiled) -> Iterator[Table]:
    if not row.changes:
        return
    rows = [cells for change in row.changes for cells in _change_rows(row, change)]
    is_alone = any(one.alone is not None for one in row.changes)
    shown = ("change", "alone_bytes", "applies") if is_alone else ("change", "applies")
    yield table_of("changes", "Changes", _CHANGE_COLUMNS, rows, shown=shown)


def _change_rows(row: Recompiled, change: Change) -> Iterator[Row]:
    """Yield the row of a change, and those of its parts if there are several."""
    parts = change.all_parts
    if len(parts) == 1:
        yield f"{parts[0].kind} {parts[0].target}", _alone(row, change), _answer(parts[0])
        return
    made = sum(part.applies for part in parts)
    name = f"{change.kind} {change.target}"
    yield name, _alone(row, change), f"{made} of {len(parts)} values"
    for part in parts:
        yield f"  {part.target}", None, _answer(part)


def _answer(part: ChangedPart) -> str:
    if not part.applies:
        return f"no: {part.why_not}"
    return f"yes: {part.note}" if part.note else "yes"


def _alone(row: Recompiled, change: Change) -> int | None:
    found = None if change.alone is None else change.alone.total_bytes
    base = row.base.total_bytes
    return None if found is None or base is None else found - base


def _difference_tables(row: Recompiled) -> Iterator[Table]:
    if row.reproduction.differences:
        yield Table.of(row.reproduction, title="Figures that are not reproduced")


_COMBINATION_COLUMNS = (
    Column("changes", Unit.NONE, "values of this row"),
    Column("fits", Unit.NONE, "whether it fits in the target's memory"),
    *(Column(name, Unit.BYTES, _LABELS[name]) for name in FIGURES),
    Column("flops", Unit.COUNT, "arithmetic of matrix products and convolutions"),
    Column("sent", Unit.NONE, "bytes that leave each device, by mesh axes"),
    Column("refusal", Unit.NONE, "why there are no figures"),
)


def _table_section(rows: Sequence[Recompiled]) -> Section:
    """Return the section on one module with several combinations of changes."""
    first = rows[0]
    cells = [_combination(row) for row in rows]
    shown = ["changes", "fits", "total_bytes", "temp_bytes", "sent", "flops"]
    table = table_of(
        "combinations",
        "Combinations of changes",
        _COMBINATION_COLUMNS,
        cells,
        shown=shown,
        if_filled=("refusal",),
    )
    base = first.base.total_bytes
    facts = [("compiled again", _reproduced_text(first)), ("now", first.base_target)]
    if base is not None:
        facts[1] = ("now", f"{first.base_target}: must fit {format_bytes(base)}")
    return Section(title=first.name, facts=tuple(facts), tables=(table,), notes=first.notes)


def _combination(row: Recompiled) -> Row:
    known = row.predicted
    why = [f"{c.target}: {c.why_not}" for c in row.changes if not c.applies]
    fits = {True: "yes", False: "no", None: None if row.refusal or why else "not known"}[row.fits]
    axes = {} if known is None else known.wire_by_axis
    sent = (f"{axis} {'?' if n is None else format_bytes(n)}" for axis, n in axes.items())
    return (
        ", ".join(change.target for change in row.changes),
        fits,
        *(None if known is None else getattr(known, name) for name in FIGURES),
        None if known is None else known.flops,
        ", ".join(sent),
        "; ".join(filter(None, (row.refusal, *why))) or None,
    )
