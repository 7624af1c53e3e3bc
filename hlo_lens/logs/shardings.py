"""Shardings in a log: the trail of decisions, arrays, drawings, and all values."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hlo_lens.logs.drawn_shardings import sharding_words
from hlo_lens.logs.sharding_trail import (
    CHANGE_COLUMNS,
    CHECK_COLUMNS,
    VALUE_COLUMNS,
    ShardingChange,
    ShardingTrail,
    value_cells,
)
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Section, Table, table_of
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.logs.jax_values import JaxValue, ShardingLog
    from hlo_lens.logs.log_analysis import ShardingLogResults


def sharding_log_section(name: str, known: ShardingLogResults) -> Section:
    """Return the section on shardings."""
    calls = known.log.code_calls
    notes = [f"{plural(calls, 'call')} in source code skipped"] if calls else []
    return Section(
        title=f"{name}: shardings",
        facts=tuple(_facts(known)),
        tables=tuple(_tables(known)),
        notes=tuple(notes),
    )


def _facts(known: ShardingLogResults) -> Iterator[tuple[str, str]]:
    log, trail, drawn, arrays = known.log, known.trail, known.drawn, known.arrays
    meshes = Counter(_mesh_words(v) for v in log.values if v.mesh is not None)
    for words, count in meshes.most_common():
        yield "mesh", f"{words}, {plural(count, 'time')}"
    if trail.calls:
        times = sum(call.times for call in trail.calls)
        yield "trail", f"{plural(times, 'call')}, {len(trail.calls)} after folding repeats"
    yield from _change_facts(trail)
    if trail.checks:
        right = sum(check.agrees is True for check in trail.checks)
        text = f"{right} of {len(trail.checks)} printed ones agree with the sharding"
        yield "device shapes", text
    if drawn.drawings:
        agreed = sum(bool(drawing.agrees_with) for drawing in drawn.drawings)
        yield "drawings", f"{agreed} of {len(drawn.drawings)} agree with a sharding of the log"
    both = [array.verdict for array in arrays.arrays if array.verdict is not None]
    if both:
        counts = ", ".join(f"{count} {words}" for words, count in Counter(both).most_common())
        yield "arrays", f"{plural(len(both), 'array')} with type and sharding; the type: {counts}"


def _mesh_words(value: JaxValue) -> str:
    mesh = value.mesh
    if mesh is None:
        return ""
    types = f" ({', '.join(mesh.axis_types)})" if mesh.axis_types else ""
    devices = "abstract" if mesh.is_abstract else plural(mesh.mesh.size, "device")
    return f"{mesh.text}{types}, {devices}"


def _change_facts(trail: ShardingTrail) -> Iterator[tuple[str, str]]:
    """Yield the printed shardings of the result, first to last."""
    if not trail.changes:
        return
    words = map(_said, (trail.changes[0].before, *(change.after for change in trail.changes)))
    verdicts = {change.places_alike for change in trail.changes}
    end = "; all place every element alike" if verdicts == {True} else ""
    if False in verdicts:
        end = "; they place elements differently: data moves, or a callback contradicts another"
    yield "result", f"{', then '.join(words)}{end}"
    reason = _size_one_axes(trail.changes)
    if verdicts == {True} and reason:
        yield "why alike", reason


def _said(value: JaxValue) -> str:
    spec = value.spec.text if value.spec is not None else sharding_words(value)
    return f"{spec} (line {value.line})"


def _size_one_axes(changes: tuple[ShardingChange, ...]) -> str:
    """Return a note on axes of size 1 in the specs, which divide nothing."""
    found: dict[str, None] = {}
    for change in changes:
        for value in (change.before, change.after):
            if value.mesh is None or value.spec is None:
                continue
            sizes = dict(zip(value.mesh.mesh.axis_names, value.mesh.mesh.axis_sizes, strict=True))
            for entry in value.spec.entries:
                names = () if entry is None else (entry,) if isinstance(entry, str) else entry
                found.update({name: None for name in names if sizes.get(name) == 1})
    return f"axes of size 1 divide nothing: {', '.join(found)}" if found else ""


def _tables(known: ShardingLogResults) -> Iterator[Table]:
    log, trail, drawn, arrays = known.log, known.trail, known.drawn, known.arrays
    if trail.calls:
        yield Table.of(
            trail,
            title="Trail: values that each function received and returned",
            shown=(
                *("line", "times", "function", "direction"),
                *("name", "value", "shape", "device_shape"),
            ),
        )
    if trail.changes:
        yield table_of(
            "sharding-changes",
            "Changes of the printed sharding of the result",
            CHANGE_COLUMNS,
            [change.row for change in trail.changes],
            shown=("line", "said", "next_line", "then", "next_by", "places_alike"),
        )
    if trail.checks:
        yield table_of(
            "device-shapes",
            "Shapes on one device, as printed and as computed from the sharding of the result",
            CHECK_COLUMNS,
            [check.row for check in trail.checks],
        )
    if drawn.drawings:
        is_named = all(drawing.spec is not None for drawing in drawn.drawings)
        yield Table.of(
            drawn,
            title="Drawings: which devices hold which part",
            shown=(
                *("line", "boxes", "label"),
                *(() if is_named else ("sharding",)),
                *("spec", "agrees_with", "sharding_text"),
            ),
        )
        yield _cells_table(log)
    if arrays.arrays:
        shown = ["line", "array", "type", "spec", "device_shape"]
        shown += ["type_says"] if any(array.verdict for array in arrays.arrays) else []
        yield Table.of(arrays, title="Arrays with their types and shardings", shown=shown)
    yield _values_table(log)


def _cells_table(log: ShardingLog) -> Table:
    rows: list[Row] = [
        (boxes.line, c.row, c.column, boxes.platform, c.devices)
        for boxes in log.boxes
        for c in boxes.cells
    ]
    return table_of(
        "drawn-boxes",
        "Boxes",
        (
            Column("line", Unit.NONE, "1-based line where the drawing begins"),
            Column("row", Unit.NONE, "row of boxes, from 0"),
            Column("column", Unit.NONE, "column of boxes, from 0"),
            Column("platform", Unit.NONE, "kind of device"),
            Column("devices", Unit.NONE, "ids of the devices that hold it"),
        ),
        rows,
        is_data_only=True,
    )


def _values_table(log: ShardingLog) -> Table:
    """Return all values, equal ones as one row, in order of their first place."""
    counts = Counter(log.values)
    rows: list[Row] = [
        (value.line, counts[value], value.label or None, *value_cells(value))
        for value in dict.fromkeys(log.values)
    ]
    return table_of(
        "logged-shardings",
        "All shardings, meshes and types, equal ones together",
        (
            Column("line", Unit.NONE, "1-based line of the first"),
            Column("times", Unit.COUNT, "number of equal values"),
            Column("label", Unit.NONE, "words before the first"),
            *VALUE_COLUMNS,
        ),
        rows,
        shown=("line", "times", *(column.name for column in VALUE_COLUMNS)),
    )
