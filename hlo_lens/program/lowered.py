"""Section and JSON object of a program that is lowered to StableHLO and not compiled yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.summary import NOT_COMPILED
from hlo_lens.render.result import Column, Unit, row_objects
from hlo_lens.render.table import Section, Table, filled, table_of
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from hlo_lens.hlo.lowered import LoweredModule, LoweredValue
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.render.result import Cell


VALUE_COLUMNS = (
    Column("name", Unit.NONE, "name of the argument, or path of the result"),
    Column("shape", Unit.NONE, "global shape"),
    Column("size_bytes", Unit.BYTES, "bytes of the whole array; empty if not known"),
    Column("device_bytes", Unit.BYTES, "bytes on each device, by its sharding; empty if not known"),
    Column("sharding_text", Unit.NONE, "sharding as written; empty if there is none"),
    Column("is_donated", Unit.NONE, "whether its memory is donated"),
    Column("output_number", Unit.COUNT, "result that reuses its memory; empty if none is chosen"),
)
COUNT_COLUMNS = (
    Column("name", Unit.NONE, "operation, or target of custom calls"),
    Column("count", Unit.COUNT, "number of them in the text"),
)


def lowered_section(dump: ModuleDump, lowered: LoweredModule) -> Section:
    """Return the section on a lowered program."""
    partitions, replicas = lowered.num_partitions, lowered.replica_count
    parts = [plural(partitions, "partition")] if partitions is not None else []
    parts += [plural(replicas, "replica")] if replicas is not None else []
    meshes = ", ".join(f"@{name} {mesh}" for name, mesh in lowered.meshes.items())
    facts = (
        ("program", f"StableHLO, {NOT_COMPILED}"),
        ("devices", " x ".join(parts) or "not printed"),
        ("meshes", meshes or "none"),
        ("arguments", _sum(lowered.arguments)),
        ("donated", _sum([one for one in lowered.arguments or () if one.is_donated])),
        ("results", _sum(lowered.results)),
        ("operations", str(lowered.operations.total())),
    )
    tables = (
        _values("lowered-arguments", "Arguments", lowered.arguments or ()),
        _values("lowered-results", "Results", lowered.results or ()),
        _counts("lowered-operations", "Operations in the text", lowered.operations),
        _counts("lowered-custom-calls", "Custom calls by target", lowered.custom_calls),
    )
    return Section(
        title=lowered.name or dump.name,
        facts=facts,
        tables=tuple(table for table in tables if table.row_count),
        notes=tuple(str(gap) for gap in lowered.gaps),
    )


def lowered_object(lowered: LoweredModule) -> dict[str, object]:
    """Return the JSON object of a lowered program."""
    return {
        "name": lowered.name,
        "num_partitions": lowered.num_partitions,
        "replica_count": lowered.replica_count,
        "meshes": {name: str(mesh) for name, mesh in lowered.meshes.items()},
        "arguments": _objects(lowered.arguments),
        "results": _objects(lowered.results),
        "operations": dict(lowered.operations.most_common()),
        "custom_calls": dict(lowered.custom_calls.most_common()),
    }


def _objects(values: Sequence[LoweredValue] | None) -> list[dict[str, Cell]] | None:
    return None if values is None else row_objects(VALUE_COLUMNS, map(_row, values))


def _sum(values: Sequence[LoweredValue] | None) -> str:
    """Return number and bytes of some values, global and on each device."""
    if values is None:
        return "not known: the signature could not be read"
    known = [one.size_bytes for one in values]
    if not values or None in known:
        return plural(len(values), "value") if values else "none"
    total = sum(size for size in known if size is not None)
    devices = [one.device_bytes for one in values if one.device_bytes is not None]
    sharded = ""
    if devices:
        of = "" if len(devices) == len(values) else f" of {len(devices)} with a sharding"
        sharded = f"; {format_bytes(sum(devices))} on each device{of}"
    return f"{plural(len(values), 'value')}, {format_bytes(total)} in all{sharded}"


def _row(value: LoweredValue) -> tuple[Cell, ...]:
    return (
        value.name,
        value.type_text if value.shape is None else str(value.shape),
        value.size_bytes,
        value.device_bytes,
        value.sharding_text,
        value.is_donated,
        value.output_number,
    )


def _values(name: str, title: str, values: Sequence[LoweredValue]) -> Table:
    rows = [_row(value) for value in values]
    rest = filled(VALUE_COLUMNS, rows, [column.name for column in VALUE_COLUMNS[3:]])
    return table_of(name, title, VALUE_COLUMNS, rows, shown=("name", "shape", "size_bytes", *rest))


def _counts(name: str, title: str, counts: Counter[str]) -> Table:
    return table_of(name, title, COUNT_COLUMNS, counts.most_common())
