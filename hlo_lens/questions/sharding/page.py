"""Page of ``hlo-lens sharding``: parameters and outputs over devices, savings, donations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.program.pages import module_head
from hlo_lens.program.summary import no_hlo_text
from hlo_lens.program.texts import SingleTexts
from hlo_lens.questions.sharding.placement import (
    ALIAS,
    SHAPES,
    ShardedValue,
    ShardingTable,
    sharded_row,
)
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.render.envelope import ModulePage
from hlo_lens.render.result import Column, Unit, sum_of
from hlo_lens.render.table import Section, Table
from hlo_lens.render.to_json import RowObjects
from hlo_lens.text.rows import Rows
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.sharding.savings import ShardingResults
    from hlo_lens.render.result import Result, Row
    from hlo_lens.shapes.mesh import Mesh


def pages(
    modules: Iterable[ModuleDump], *, min_bytes: int = 0, is_parameters_only: bool = False
) -> Iterator[ModulePage]:
    """Yield the page on the sharding of each module.

    Args:
        modules: The modules.
        min_bytes: Values with fewer bytes on a device are hidden, and counted.
        is_parameters_only: Whether to show only the parameters.
    """
    for module in modules:
        results = sharding_results(module)
        if results is None:
            yield _page_of_texts(module)
            continue
        tables = [_values_table("parameters", results.table.parameters, min_bytes)]
        if not is_parameters_only:
            tables.append(_values_table("outputs", results.table.outputs, min_bytes))
            tables += _other_tables(results, min_bytes)
        section = Section(
            title=module.name,
            facts=tuple(_facts(module, results)),
            tables=tuple(tables),
            notes=tuple(_notes(module, results)),
        )
        make_object = partial(sharding_object, module, results)
        yield ModulePage(sections=(section,), make_object=make_object)


def _page_of_texts(module: ModuleDump) -> ModulePage:
    """Return the page of a module without HLO text: shardings in a log or in StableHLO, if any."""
    texts = SingleTexts(module)
    sections = tuple(texts.sharding_sections())
    missing = Section(title=module.name, notes=(no_hlo_text(module),))
    return ModulePage(
        sections=sections or (missing,),
        make_object=lambda: {
            **sharding_object(module, None),
            **(texts.known_objects() if sections else {}),
        },
    )


NOT_KNOWN = "not known: the text ends before the end of the entry"


def _facts(dump: ModuleDump, results: ShardingResults) -> Iterator[tuple[str, str]]:
    table, signature = results.table, results.found.own.signature
    yield "module", dump.stage or "stage unknown"
    yield "devices", f"{plural(table.num_devices, 'device')}{mesh_text(table.meshes)}"
    has_all = signature.parameter_count is not None
    yield "parameters", total_text(table.parameters) if has_all else NOT_KNOWN
    yield "outputs", total_text(table.outputs) if signature.has_outputs else NOT_KNOWN
    yield "replicated", replicated_text(results)
    yield "donation", donation_text(results)
    counts = results.annotations.counts()
    if counts:
        yield "annotations", ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _notes(dump: ModuleDump, results: ShardingResults) -> Iterator[str]:
    table = results.table
    count = sum(value.source == ALIAS for value in table.values)
    if count:
        yield f"{plural(count, 'output')} with the sharding of a parameter whose buffer is shared"
    count = sum(value.source == SHAPES for value in table.values)
    if count:
        yield (
            f"shardings of {plural(count, 'value')} are inferred from global and device shapes: "
            "no text has them, and the mesh allows no other"
        )
    if table.unknown:
        what = _unknown_text(table.unknown)
        yield f"the sharding of {what} is not known: {_hint(dump, results)}"
    if not table.meshes and table.num_devices > 1:
        yield "no text names mesh axes; name them with --mesh data=2,model=4"


def _hint(dump: ModuleDump, results: ShardingResults) -> str:
    """Return why shardings are not known, or where they are."""
    if results.found.before is not None or not results.found.is_per_device:
        return "no text has one that fits; the program leaves it to XLA"
    if dump.before_text is not None:
        return "the before_optimizations text has other parameters or results"
    return "the *.before_optimizations.txt of the same compile has those that the program names"


def _unknown_text(values: Sequence[ShardedValue]) -> str:
    size = sum_text(value.device_bytes for value in values)
    return f"{plural(len(values), 'value')} ({size})"


def _values_table(name: str, values: Sequence[ShardedValue], min_bytes: int) -> Table:
    kept = [v for v in values if _is_large((v.device_bytes, v.global_bytes), min_bytes)]
    sums = {
        "global_bytes": sum_of(value.global_bytes for value in kept),
        "device_bytes": sum_of(value.device_bytes for value in kept),
    }
    return Table(
        name=name,
        title="Parameters" if name == "parameters" else "Outputs",
        columns=ShardingTable.COLUMNS,
        read_rows=lambda: map(sharded_row, kept),
        row_count=len(kept),
        totals={column: size for column, size in sums.items() if size is not None},
        shown=_shown(name, kept),
        notes=_hidden(values, kept, min_bytes),
    )


def _shown(name: str, values: Sequence[ShardedValue]) -> tuple[str, ...]:
    """Return the columns with information, the spec instead of the longer sharding."""
    has_spec = any(value.spec is not None for value in values)
    has_all = all(value.spec is not None for value in values)
    return (
        "device_bytes",
        *(("index",) if name == "outputs" and any(v.value.index for v in values) else ()),
        "name",
        *(("spec",) if has_spec else ()),
        *(() if has_spec and has_all else ("sharding",)),
        "global_shape",
        "device_shape",
        "replication_factor",
        "global_bytes",
        *(("aliased_with",) if any(value.value.aliased_with for value in values) else ()),
    )


def _is_large(sizes: Iterable[int | None], min_bytes: int) -> bool:
    """Return whether a value is shown; a value of unknown size is."""
    known = [size for size in sizes if size is not None]
    return not known or known[0] >= min_bytes


def _hidden(
    values: Sequence[ShardedValue], kept: Sequence[ShardedValue], min_bytes: int
) -> tuple[str, ...]:
    """Return the note on the values that the filter hides."""
    count = len(values) - len(kept)
    if not count:
        return ()
    size = sum(v.device_bytes or 0 for v in values) - sum(v.device_bytes or 0 for v in kept)
    least = format_bytes(min_bytes)
    return (f"hidden: {plural(count, 'value')} under {least}, {format_bytes(size)} together",)


def _other_tables(results: ShardingResults, min_bytes: int) -> Iterator[Table]:
    by_axis = results.replicated.by_axis
    yield Table.of(by_axis, title="Replicated along an axis", is_data_only=True)
    yield _filtered(
        results.replicated,
        "device_bytes",
        min_bytes,
        title="Replicated values, and the savings of each device if a free axis divided them",
        shown=(
            *("saved_bytes", "axis", "dimension", "kind"),
            *("name", "spec", "device_shape", "device_bytes"),
        ),
    )
    yield _filtered(
        results.donations,
        "device_bytes",
        min_bytes,
        title="Donated and donatable arguments",
        shown=("device_bytes", "status", "name", "output", "reason"),
    )
    annotations = results.annotations
    has_spec = any(annotation.spec for annotation in annotations.annotations)
    what = ("spec",) if has_spec else ("sharding",)
    yield Table.of(
        annotations,
        title="Annotations in the program",
        shown=("annotation", "instruction", "shape", *what, "source", "op_name"),
    )


def _filtered(
    result: Result, measure: str, min_bytes: int, *, title: str, shown: tuple[str, ...]
) -> Table:
    """Return the table of a result without rows that are too small."""
    place = result.place_of(measure)

    def is_kept(row: Row) -> bool:
        size = row[place]
        return not isinstance(size, int) or size >= min_bytes

    rows = [row for row in result.rows() if is_kept(row)]
    hidden = result.row_count - len(rows)
    note = f"hidden: {plural(hidden, 'row')} under {format_bytes(min_bytes)}"
    table = Table.of(result, title=title, shown=shown, notes=(note,) if hidden else ())
    return replace(table, read_rows=lambda: rows, row_count=len(rows))


_KEYS = """
    num_devices meshes values unknown replicated replicated_by_axis donation annotations
"""


def sharding_rows(results: ShardingResults) -> RowObjects:
    """Return the objects of parameters and outputs, which ``kind`` distinguishes."""
    values = results.table.values
    return RowObjects(_ROW_COLUMNS, Rows(partial(_sharding_row, values), range(len(values))))


_ROW_COLUMNS = (
    *ShardingTable.COLUMNS,
    Column("partition_spec", Unit.NONE, "the spec as JSON: axes of each dimension"),
)


def _sharding_row(values: Sequence[ShardedValue], place: int) -> tuple[object, ...]:
    value = values[place]
    return *sharded_row(value), None if value.spec is None else list(value.spec)


def sharding_object(dump: ModuleDump, results: ShardingResults | None) -> Mapping[str, object]:
    """Return the object of a module; all keys, on which scripts rely, null without HLO text."""
    if results is None:
        return {**module_head(dump), **dict.fromkeys(_KEYS.split())}
    is_whole = results.is_complete
    return {
        **module_head(dump),
        "num_devices": results.table.num_devices,
        "meshes": [
            {
                "axes": dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True)),
                "device_ids": None if mesh.device_assignment is None else list(mesh.device_ids),
            }
            for mesh in results.table.meshes
        ],
        "values": sharding_rows(results) if is_whole else None,
        "unknown": _unknown_object(results.table.unknown) if is_whole else None,
        "replicated": results.replicated.objects() if is_whole else None,
        "replicated_by_axis": results.replicated.by_axis.objects() if is_whole else None,
        "donation": results.donations.objects() if is_whole else None,
        "annotations": results.annotations.objects(),
    }


def _unknown_object(values: Sequence[ShardedValue]) -> Mapping[str, object]:
    """Return number and bytes on a device of the values whose sharding is not known."""
    return {
        "values": len(values),
        "device_bytes": sum_of(value.device_bytes for value in values),
    }


def mesh_text(meshes: Sequence[Mesh]) -> str:
    """Return the meshes of a program, after a comma; empty where none is known."""
    texts = []
    for mesh in meshes:
        sizes = zip(mesh.axis_names, mesh.axis_sizes, strict=True)
        texts.append(" x ".join(f"{name}={size}" for name, size in sizes))
    if not texts:
        return ""
    return f", mesh {'; '.join(texts)}"


def total_text(values: Sequence[ShardedValue]) -> str:
    """Return the number of values, and their bytes in all and on one device."""
    if not values:
        return "none"
    whole = [value.global_bytes for value in values]
    part = [value.device_bytes for value in values]
    text = f"{len(values):,} of {sum_text(whole)} in all, {sum_text(part)} on each device"
    return f"{text} (at most: {_BOUND})" if any(value.is_upper_bound for value in values) else text


_BOUND = "global shapes are the device's times its tiles"


def sum_text(sizes: Iterable[int | None]) -> str:
    """Return the sum of sizes, and the number of unknown ones."""
    listed = list(sizes)
    unknown = listed.count(None)
    if listed and unknown == len(listed):
        return "unknown size"
    text = format_bytes(sum(size or 0 for size in listed))
    return f"{text} and {plural(unknown, 'value')} of unknown size" if unknown else text


def replicated_text(results: ShardingResults) -> str:
    """Return the bytes held by several devices, and the savings of each axis."""
    if not results.is_complete:
        return NOT_KNOWN
    found = results.replicated
    unknown = [v for v in results.table.values if v.replication_factor is None]
    rest = [f"not known for {_unknown_text(unknown)}"] if unknown else []
    if not found.replicated:
        nothing = [] if len(unknown) == len(results.table.values) > 0 else ["nothing"]
        return "; ".join([*nothing, *rest])
    size = sum_text(value.device_bytes for value in found.replicated)
    text = f"{plural(len(found.replicated), 'value')} of {size} on each device"
    text += _padding_text(found.replicated) + _host_text(found.replicated)
    savings = [
        f"{axis} would save {format_bytes(saved)} ({plural(count, 'value')})"
        for axis, count, _, saved in found.by_axis.axes
    ]
    return "; ".join(["; dividing over ".join([text, *savings]), *rest])


def _padding_text(values: Sequence[ShardedValue]) -> str:
    """Return the bytes of values with the padding of tiles; empty where they are padded little."""
    sizes = [(one.value.padded_size_bytes, one.device_bytes) for one in values]
    known = [(padded, size) for padded, size in sizes if padded is not None and size is not None]
    padded, size = (sum(column) for column in zip(*known, strict=True)) if known else (0, 0)
    is_much = len(known) == len(sizes) and padded > size * _PADDED
    return f", {format_bytes(padded)} with padding" if is_much else ""


def _host_text(values: Sequence[ShardedValue]) -> str:
    """Return how many bytes of values are in host memory; empty for none."""
    host = [value.device_bytes for value in values if value.is_in_host_memory]
    size = "all" if len(host) == len(values) else sum_text(host)
    return f", {size} in host memory" if host else ""


_PADDED = 1.01
"""Ratio of bytes with and without padding above which both are printed."""

_OUTCOMES = {
    "ALIASED": "donated and aliased with an output",
    "UNUSED": "donated in vain: no output uses the memory",
    "LOST": "donated in vain: XLA dropped the alias",
    "DONATABLE": "could be donated",
}


def donation_text(results: ShardingResults) -> str:
    """Return the number and bytes of arguments by outcome of donation."""
    if not results.is_complete:
        return NOT_KNOWN
    from hlo_lens.questions.sharding.savings import DonationStatus

    parts = []
    for status in DonationStatus:
        found = results.donations.of(status)
        if found:
            size = sum_text(donation.value.device_bytes for donation in found)
            values = [donation.value for donation in found]
            size += _padding_text(values) + _host_text(values)
            count = plural(len(found), "argument")
            parts.append(f"{count} ({size}) {_OUTCOMES[status.name]}")
    return "; ".join(parts) or "none"
