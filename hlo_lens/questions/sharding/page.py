"""Page of ``hlo-lens sharding``: parameters and outputs over devices, savings, donations."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.program.pages import module_head, text_objects, text_sections
from hlo_lens.program.summary import no_hlo_text
from hlo_lens.questions.sharding.placement import (
    ALIAS,
    SHAPES,
    ShardedValue,
    ShardingTable,
    sharded_row,
)
from hlo_lens.questions.sharding.savings import DonationStatus, sharding_results
from hlo_lens.render.result import Column, Unit, sum_of
from hlo_lens.render.table import Section, Table
from hlo_lens.render.to_json import ModulePage, RowObjects
from hlo_lens.text.rows import Rows
from hlo_lens.text.units import Amount, Kind, format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.sharding.savings import ShardingResults
    from hlo_lens.shapes.mesh import Mesh


def pages(modules: Iterable[ModuleDump]) -> Iterator[ModulePage]:
    """Yield the page on the sharding of each module."""
    for module in modules:
        results = sharding_results(module)
        if results is None:
            sections = tuple(text_sections(module, "shardings"))
            known = text_objects(module) if sections else {}
            missing = Section(title=module.title, notes=(no_hlo_text(module),))
            data = {**sharding_object(module, None), **known}
            yield ModulePage(sections=sections or (missing,), make_object=data.copy)
            continue
        section = Section(
            title=module.title,
            facts=tuple(_facts(module, results)),
            tables=tuple(_tables(results)),
            notes=tuple(_notes(module, results)),
        )
        make_object = partial(sharding_object, module, results)
        yield ModulePage(sections=(section,), make_object=make_object)


NOT_KNOWN = "not known: the text ends before the end of the entry"


def _facts(module: ModuleDump, results: ShardingResults) -> Iterator[tuple[str, str]]:
    table, signature = results.table, results.found.own.signature
    if module.stage:
        yield "stage", module.stage
    yield "devices", f"{plural(table.num_devices, 'device')}{mesh_text(table.meshes)}"
    has_all = signature.parameter_count is not None
    yield "parameters", _total_text(table.parameters) if has_all else NOT_KNOWN
    yield "outputs", _total_text(table.outputs) if signature.has_outputs else NOT_KNOWN
    yield "replicated", replicated_text(results)
    yield "donation", donation_text(results)
    counts = results.annotations.counts()
    if counts:
        yield "annotations", ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _total_text(values: Sequence[ShardedValue]) -> str:
    if not values:
        return "none"
    is_bound = any(value.is_upper_bound for value in values)  # the device's part times its tiles
    whole = sum_text((v.global_bytes for v in values), Kind.AT_MOST if is_bound else Kind.EXACT)
    part = sum_text(value.device_bytes for value in values)
    return f"{len(values):,} of {whole} in all, {part} on each device"


def _notes(module: ModuleDump, results: ShardingResults) -> Iterator[str]:
    table = results.table
    sources = Counter(value.source for value in table.values)
    if count := sources[ALIAS]:
        yield f"{plural(count, 'output')} with the sharding of a parameter whose buffer is shared"
    if count := sources[SHAPES]:
        yield (
            f"shardings of {plural(count, 'value')} are inferred from global and device shapes: "
            "no text has them, and the mesh allows no other"
        )
    if table.unknown:
        hint = "the *.before_optimizations.txt of the same compile has those that it names"
        if module.before_text is not None or not results.found.is_per_device:
            hint = "no text has one that fits; the program leaves it to XLA"
        yield f"the sharding of {_sized_count(table.unknown)} is not known: {hint}"
    if not table.meshes and table.num_devices > 1:
        yield "no text names mesh axes; name them with --mesh data=2,model=4"


def _sized_count(values: Sequence[ShardedValue]) -> str:
    size = sum_text(value.device_bytes for value in values)
    return f"{plural(len(values), 'value')} ({size})"


def _tables(results: ShardingResults) -> Iterator[Table]:
    yield _values_table("Parameters", results.table.parameters)
    yield _values_table("Outputs", results.table.outputs)
    by_axis = results.replicated.by_axis
    yield Table.of(by_axis, title="Replicated along an axis", is_data_only=True)
    shown = "saved_bytes axis dimension kind name spec device_shape device_bytes"
    title = "Replicated values, and the savings of each device if a free axis divided them"
    yield Table.of(results.replicated, title=title, shown=shown.split())
    shown = "device_bytes status name output reason"
    title = "Donated and donatable arguments"
    yield Table.of(results.donations, title=title, shown=shown.split())
    annotations = results.annotations
    what = "spec" if any(one.spec for one in annotations.annotations) else "sharding"
    shown = f"annotation instruction shape {what} source op_name"
    yield Table.of(annotations, title="Annotations in the program", shown=shown.split())


def _values_table(title: str, values: Sequence[ShardedValue]) -> Table:
    """Return the table of parameters or outputs, for people the largest first."""
    sums = {
        "global_bytes": sum_of(value.global_bytes for value in values),
        "device_bytes": sum_of(value.device_bytes for value in values),
    }
    has_all = bool(values) and all(value.spec is not None for value in values)
    by_size = partial(sorted, values, key=lambda value: -(value.device_bytes or 0))
    return Table(
        name=title.lower(),
        title=f"{title}, the largest first",
        columns=ShardingTable.COLUMNS,
        read_rows=lambda: map(sharded_row, values),
        read_shown=lambda: map(sharded_row, by_size()),
        row_count=len(values),
        totals={column: size for column, size in sums.items() if size is not None},
        shown=(
            *("device_bytes", *("index",) * (title == "Outputs"), "name", "spec"),
            *("sharding",) * (not has_all),  # the spec is shorter
            *("global_shape", "device_shape", "replication_factor", "global_bytes"),
            "aliased_with",
        ),
        kept=("index",),
    )


def sharding_rows(results: ShardingResults) -> RowObjects:
    """Return the objects of parameters and outputs, which ``kind`` distinguishes."""
    values = results.table.values

    def row(place: int) -> tuple[object, ...]:
        spec = values[place].spec
        return *sharded_row(values[place]), None if spec is None else list(spec)

    spec = Column("partition_spec", Unit.NONE, "the spec as JSON: axes of each dimension")
    return RowObjects((*ShardingTable.COLUMNS, spec), Rows(row, range(len(values))))


_KEYS = """
    num_devices meshes values unknown replicated replicated_by_axis donation annotations
"""


def sharding_object(module: ModuleDump, results: ShardingResults | None) -> Mapping[str, object]:
    """Return the object of a module; all keys, on which scripts rely, null without HLO text."""
    data: dict[str, object] = {**module_head(module), **dict.fromkeys(_KEYS.split())}
    if results is None:
        return data
    table = results.table
    data["num_devices"] = table.num_devices
    data["meshes"] = [
        {
            "axes": mesh.sizes,
            "device_ids": None if mesh.device_assignment is None else list(mesh.device_ids),
        }
        for mesh in table.meshes
    ]
    data["annotations"] = results.annotations.objects()
    if results.is_complete:
        data["values"] = sharding_rows(results)
        data["unknown"] = {
            "values": len(table.unknown),
            "device_bytes": sum_of(value.device_bytes for value in table.unknown),
        }
        data["replicated"] = results.replicated.objects()
        data["replicated_by_axis"] = results.replicated.by_axis.objects()
        data["donation"] = results.donations.objects()
    return data


def mesh_text(meshes: Sequence[Mesh]) -> str:
    """Return the meshes of a program, after a comma; empty where none is known."""
    sizes = [" x ".join(f"{name}={size}" for name, size in one.sizes.items()) for one in meshes]
    return f", mesh {'; '.join(sizes)}" if sizes else ""


def sum_text(sizes: Iterable[int | None], kind: Kind = Kind.EXACT) -> str:
    """Return the sum of sizes, and the number of unknown ones."""
    listed = list(sizes)
    unknown = listed.count(None)
    if listed and unknown == len(listed):
        return "unknown size"
    text = Amount(sum(size or 0 for size in listed), kind).text(format_bytes)
    return f"{text} and {plural(unknown, 'value')} of unknown size" if unknown else text


def replicated_text(results: ShardingResults) -> str:
    """Return the bytes held by several devices, and the savings of each axis."""
    if not results.is_complete:
        return NOT_KNOWN
    found = results.replicated
    unknown = [v for v in results.table.values if v.replication_factor is None]
    rest = [f"not known for {_sized_count(unknown)}"] if unknown else []
    if not found.replicated:
        nothing = [] if len(unknown) == len(results.table.values) > 0 else ["nothing"]
        return "; ".join([*nothing, *rest])
    size = sum_text(value.device_bytes for value in found.replicated)
    text = f"{plural(len(found.replicated), 'value')} of {size} on each device"
    savings = [
        f"{axis} would save {format_bytes(saved)} ({plural(count, 'value')})"
        for axis, count, _, saved in found.by_axis.axes
    ]
    text = "; dividing over ".join([f"{text}{_remarks(found.replicated)}", *savings])
    return "; ".join([text, *rest])


def _remarks(values: Sequence[ShardedValue]) -> str:
    """Return bytes with the padding of tiles, if that is much, and those in host memory, if any."""
    sizes = [(one.value.padded_size_bytes, one.device_bytes) for one in values]
    known = [(padded, size) for padded, size in sizes if padded is not None and size is not None]
    padded, size = (sum(column) for column in zip(*known, strict=True)) if known else (0, 0)
    is_much = len(known) == len(sizes) and padded > size * _PADDED
    text = f", {format_bytes(padded)} with padding" if is_much else ""
    host = [value.device_bytes for value in values if value.is_in_host_memory]
    part = "all" if len(host) == len(values) else sum_text(host)
    return f"{text}, {part} in host memory" if host else text


_PADDED = 1.01
"""Ratio of bytes with and without padding above which both are printed."""

_OUTCOMES = {
    DonationStatus.ALIASED: "donated and aliased with an output",
    DonationStatus.UNUSED: "donated in vain: no output uses the memory",
    DonationStatus.LOST: "donated in vain: XLA dropped the alias",
    DonationStatus.DONATABLE: "could be donated",
}


def donation_text(results: ShardingResults) -> str:
    """Return the number and bytes of arguments by outcome of donation."""
    if not results.is_complete:
        return NOT_KNOWN
    parts = []
    for status, outcome in _OUTCOMES.items():
        found = results.donations.of(status)
        if found:
            values = [donation.value for donation in found]
            size = sum_text(value.device_bytes for value in values) + _remarks(values)
            count = plural(len(found), "argument")
            parts.append(f"{count} ({size}) {outcome}")
    return "; ".join(parts) or "none"
