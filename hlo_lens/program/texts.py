"""Sections of texts that are no compiled program: buffer texts, logs, StableHLO, call trees."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.logs.page import MEMORY, SHARDINGS, gap_notes, log_sections
from hlo_lens.program.summary import NOT_COMPILED
from hlo_lens.render.result import Column, Row, Unit, row_objects
from hlo_lens.render.table import Section, Table, filled, table_of
from hlo_lens.text.dump_kinds import TEXT_FLAGS
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from hlo_lens.buffers.assignment import BufferValues
    from hlo_lens.buffers.live_range import HloLiveRange
    from hlo_lens.buffers.memory_usage import MemoryUsageReport
    from hlo_lens.call_trees.page import TitledTree
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


class SingleTexts:
    """The texts of a module without HLO text and buffer assignment.

    Passes are imported with their first use, as most reports need none of them.

    Args:
        dump: The module.
    """

    def __init__(self, dump: ModuleDump) -> None:
        self.dump = dump

    @cached_property
    def trees(self) -> tuple[TitledTree, ...]:
        """The call trees that the text draws."""
        if self.dump.call_trees is None:
            return ()
        from hlo_lens.call_trees.page import drawn_trees

        return tuple(drawn_trees(self.dump.name, self.dump.call_trees))

    def sections(self) -> Iterator[Section]:
        """Yield a section for each text."""
        yield from _buffer_text_sections(self.dump)
        if self.dump.log is not None:
            yield from log_sections(self.dump.name, self.dump.log)
        yield from self._lowered_sections()
        if self.trees:
            from hlo_lens.call_trees.page import tree_section

            yield from map(tree_section, self.trees)

    def memory_sections(self) -> Iterator[Section]:
        """Yield the sections about memory, with those of a program that is not compiled."""
        yield from _buffer_text_sections(self.dump)
        if self.dump.log is not None and self.dump.log.has_memory:
            yield from log_sections(self.dump.name, self.dump.log, (MEMORY,))
        yield from self._lowered_sections()

    def sharding_sections(self) -> Iterator[Section]:
        """Yield the sections about shardings, with those of a program that is not compiled."""
        if self.dump.log is not None and self.dump.log.shardings is not None:
            yield from log_sections(self.dump.name, self.dump.log, (SHARDINGS,))
        yield from self._lowered_sections()

    def _lowered_sections(self) -> Iterator[Section]:
        if self.dump.lowered is not None:
            yield lowered_section(self.dump, self.dump.lowered)

    def known_objects(self) -> dict[str, object]:
        """Return the JSON objects of the texts that there are."""
        return {key: found for key, found in self.objects().items() if found is not None}

    def objects(self) -> dict[str, object]:
        """Return the JSON objects of log and call trees."""
        found: dict[str, object] = {"log": None}
        if self.dump.log is not None:
            from hlo_lens.logs.page import log_object

            found["log"] = log_object(self.dump.log)
        if self.dump.lowered is not None:
            found["lowered"] = lowered_object(self.dump.lowered)
        if self.dump.call_trees is not None:
            from hlo_lens.call_trees.page import trees_object

            found["call_trees"] = trees_object(self.dump.call_trees, self.trees)
        return found


def _buffer_text_sections(dump: ModuleDump) -> Iterator[Section]:
    """Yield a section for each buffer-side text of a module without a buffer assignment."""
    usage, ranges, values = dump.memory_usage_report, dump.live_range, dump.buffer_values
    if usage is not None:
        yield _usage_section(dump.name, usage)
    if ranges is not None:
        yield _live_range_section(dump.name, ranges)
    if values is not None:
        yield _values_section(dump.name, values)


def _usage_section(name: str, usage: MemoryUsageReport) -> Section:
    spaces: list[Row] = [(s.name, s.color, s.total_bytes) for s in usage.spaces]
    if not usage.is_by_memory_space:
        spaces = [("all", None, usage.total_bytes)]
    rows: list[Row] = [
        (row.size.text, row.offset, row.used_by_n_values, _shapes(row.shapes))
        for table in (
            *(table for space in usage.spaces for table in space.tables),
            *(a.table for a in usage.allocations if a.table is not None),
        )
        for row in table.rows
    ]
    return Section(
        title=f"{name}: memory-usage report",
        facts=(("total", f"{format_bytes(usage.total_bytes)} in all memory spaces"),),
        tables=(
            table_of(
                "usage-spaces",
                "Memory spaces, under the names that XLA prints",
                (
                    Column("name", Unit.NONE, "XLA's name, which may be misleading"),
                    Column("color", Unit.NONE, "its number"),
                    Column("total_bytes", Unit.BYTES, "sum of its allocations"),
                ),
                spaces,
            ),
            table_of(
                "usage-rows",
                "Values by offset, in the order of the report",
                (
                    Column("size", Unit.NONE, "size of the largest value there, as printed"),
                    Column("offset", Unit.NONE, "first byte in its allocation"),
                    Column("values", Unit.COUNT, "number of values that begin there"),
                    Column("shapes", Unit.NONE, "their shapes, without layout"),
                ),
                rows,
            ),
        ),
        notes=gap_notes(usage.gaps, usage.is_complete),
    )


def _shapes(shapes: Sequence[tuple[int, str]]) -> str:
    return ", ".join(text if count == 1 else f"{count} x {text}" for count, text in shapes)


def _live_range_section(name: str, ranges: HloLiveRange) -> Section:
    if not ranges.is_available:
        return Section(
            title=f"{name}: live ranges",
            notes=("XLA had no live ranges: the executable was finalized or came from a proto",),
        )
    facts = [("schedule", plural(len(ranges.flattened_instruction_sequence), "instruction"))]
    facts.append(("values", plural(len(ranges.buffer_live_ranges), "live range")))
    if ranges.peak_moment is not None and ranges.peak_bytes is not None:
        text = (
            f"{format_bytes(ranges.peak_bytes)} at {ranges.instruction_at(ranges.peak_moment)}"
            f" ({ranges.peak_moment}): whole instructions, no padding; often not the true peak"
        )
        facts.append(("XLA's peak", text))
    rows: list[Row] = [
        (value.size_bytes, value.instruction_name, _index(value[1])) for value in ranges.peak_values
    ]
    return Section(
        title=f"{name}: live ranges",
        facts=tuple(facts),
        tables=(
            table_of(
                "live-at-printed-peak",
                "Values alive at the peak that XLA prints",
                (
                    Column("size_bytes", Unit.BYTES, "bytes without padding"),
                    Column("instruction", Unit.NONE, "instruction that defines it"),
                    Column("index", Unit.NONE, "shape index of its result"),
                ),
                rows,
            ),
        ),
        notes=(
            *gap_notes(ranges.gaps, ranges.is_complete),
            "with the buffer assignment of the same compile, hlo-lens finds the true "
            f"peak; XLA writes it with {TEXT_FLAGS}",
        ),
    )


def _index(index: tuple[int, ...] | None) -> str:
    return "" if index is None else f"{{{','.join(map(str, index))}}}"


def _values_section(name: str, values: BufferValues) -> Section:
    facts = [("values", plural(len(values), "used value"))]
    if values.total_bytes is not None:
        facts.append(("total", f"{format_bytes(values.total_bytes)} in all memory spaces"))
    return Section(
        title=f"{name}: used values",
        facts=tuple(facts),
        notes=gap_notes(values.gaps, values.is_complete),
    )
