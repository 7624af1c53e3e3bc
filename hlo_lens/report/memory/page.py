"""Memory of modules for people and for scripts: statement, peak, groups, timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.memory.grouping import (
    instructions_by_name,
    loop_of_body,
    loop_path,
    makers_of,
    memory_by,
    op_name_of,
)
from hlo_lens.analysis.memory.layout import DEFAULT_SPACE
from hlo_lens.analysis.memory.op_tree import memory_tree
from hlo_lens.analysis.memory.peak import SHARED
from hlo_lens.analysis.memory.results import at_instant, memory_results
from hlo_lens.analysis.memory.statement import space_name
from hlo_lens.analysis.memory.timeline import memory_timeline
from hlo_lens.analysis.program.backend import backend_of_dump
from hlo_lens.analysis.result import Column, Unit
from hlo_lens.report.memory.objects import memory_object, peak_object
from hlo_lens.report.memory.single_texts import texts_alone
from hlo_lens.report.render.envelope import SCHEMA_VERSION
from hlo_lens.report.render.table import Report, Section, Table
from hlo_lens.report.render.units import format_bytes, plural
from hlo_lens.text.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.memory.peak import PeakMemory
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.analysis.memory.timeline import MemoryTimeline
    from hlo_lens.analysis.result import Row
    from hlo_lens.model.dump import ModuleDump
    from hlo_lens.model.hlo.instruction import HloInstruction

BARS = 40
_BAR_WIDTH = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """What ``hlo-lens memory`` shows.

    Attributes:
        by: What the bytes are grouped by; None for the values themselves.
        at: ``peak``, a number or an instruction.
        color: Memory space.
        timeline: Whether to show the occupied bytes over the schedule.
    """

    by: str | None = None
    at: str = "peak"
    color: int = DEFAULT_SPACE
    timeline: bool = False


def memory_report(
    modules: Sequence[ModuleDump],
    view: MemoryView,
    *,
    tool_version: str,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Return the report on the memory of some modules.

    Raises:
        DumpMismatchError: If texts of one module contradict one another.
        UnknownNameError: If the schedule does not have what `view.at` names.
    """
    sections: list[Section] = []
    objects: list[Mapping[str, object]] = []
    for done, dump in enumerate(modules):
        if progress is not None and len(modules) > 1:
            progress(done, len(modules))
        results = memory_results(dump, backend=backend_of_dump(dump))
        alone = tuple(texts_alone(dump)) if results is None else ()
        sections.extend(alone or (_section(dump, results, view),))
        objects.append(_object(dump, results, view))
    data = {
        "schema_version": SCHEMA_VERSION,
        "kind": "memory",
        "tool_version": tool_version,
        "modules": objects,
    }
    return Report(kind="memory", sections=tuple(sections), data=data)


# ---- for scripts -------------------------------------------------------------------------------


def _object(
    dump: ModuleDump, results: MemoryResults | None, view: MemoryView
) -> Mapping[str, object]:
    found: dict[str, object] = {
        "name": _name(dump),
        "stage": dump.stage,
        "files": list(dump.files),
        "memory": memory_object(results),
    }
    if results is None:
        return found
    _check_space(results, view)
    instant = _instant(results, view)
    found["instant"] = None if instant is None else peak_object(results, instant)
    if view.by is not None and (peak := _instant(results, view)) is not None:
        groups = memory_by(peak, view.by, _makers(results, peak))
        found["groups"] = [
            {"group": name, "size_bytes": size, "values": count}
            for name, size, count in groups.groups
        ]
    if view.timeline and (timeline := memory_timeline(results.layout, color=view.color)):
        found["timeline"] = {"color": timeline.color, "occupied_bytes": list(timeline.series)}
    return found


# ---- for people --------------------------------------------------------------------------------


def memory_facts(
    results: MemoryResults, instant: PeakMemory | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the lines that say what memory a module takes, and what is in use at an instant.

    Args:
        results: The memory of the module.
        instant: Another instant or memory space than the peak of the default one.
    """
    statement = results.statement
    layout = results.layout
    word = "" if statement.source == "buffer-assignment" else "estimated: "
    if not layout.is_complete:
        word = "of a text that is not complete: "
    arguments = format_bytes(statement.argument_bytes)
    temp = format_bytes(statement.temp_bytes)
    least, most = statement.temp_range
    if least != most:
        temp = f"{format_bytes(least)} to {format_bytes(most)}"
    yield (
        "memory",
        f"{word}arguments {arguments} ({format_bytes(statement.alias_bytes)} reused for outputs), "
        f"outputs {format_bytes(statement.output_bytes)}, temp {temp}, "
        f"constants {format_bytes(statement.constant_bytes)}",
    )
    peak = results.peak
    if peak is not None:
        bound = "" if layout.is_complete and layout.are_ranges_complete else "at least "
        yield "peak", f"{word}{bound}{format_bytes(peak.total_bytes)} {_where(results, peak)}"
    if instant is not None and instant is not peak:
        space = space_name(instant.color, results.backend)
        what = "peak" if instant.is_peak else "in use"
        text = f"{format_bytes(instant.total_bytes)} {_where(results, instant)}"
        yield f"{what} {space}", f"{word}{text}"


def _where(results: MemoryResults, peak: PeakMemory) -> str:
    """Return where in the program an instant is: position, instruction, loop, source line."""
    length = len(results.layout.schedule or ())
    if peak.instruction is None:
        return f"at the end of the schedule ({peak.position} of {length})"
    text = f"at {peak.instruction} ({peak.position} of {length})"
    if results.module is None:
        return text
    instruction = instructions_by_name(results.module, {peak.instruction}).get(peak.instruction)
    if instruction is None:
        return text
    loops = loop_path(instruction, loop_of_body(results.module))
    if loops:
        text += f" in {' > '.join(loops)}"
    elif not instruction.computation.is_entry:
        text += f" in {instruction.computation.name}"
    place = instruction.source_location
    return text if place is None else f"{text}, {place}"


def memory_notes(results: MemoryResults) -> Iterator[str]:
    """Yield what weakens the numbers, what is missing, and what other tools will show."""
    yield from results.statement.notes
    yield from _framework_notes(results)
    layout = results.layout
    if not layout.is_complete:
        lost = f": {plural(layout.unassigned, 'value')} without memory" if layout.unassigned else ""
        yield f"the buffer assignment is not complete{lost}; sums are of what is there"
    if results.unknown_values:
        yield (
            f"{plural(results.unknown_values, 'value')} of instructions that the HLO text does "
            "not have"
        )
    if not layout.are_ranges_complete:
        yield "the live ranges are not complete: the peak is at least what is found"
    if layout.schedule is not None and layout.unplaced:
        yield f"{plural(layout.unplaced, 'temporary value')} without a live range, in no instant"
    for name, flag in results.missing:
        yield f"not there: {name}; XLA writes it with {flag}"
    yield from _other_tools(results)


def _framework_notes(results: MemoryResults) -> Iterator[str]:
    for name, ours, theirs in results.mismatches:
        yield (
            f"memory_analysis() says {name} {theirs:,}, this says {ours:,}: trust neither before "
            "you know why"
        )
    if results.stated and not results.mismatches:
        is_told = any(value for name, value in results.stated.items() if "size_in" in name)
        yield (
            "equal to memory_analysis()"
            if is_told
            else "memory_analysis() is all zeros here, which tells nothing"
        )


def _other_tools(results: MemoryResults) -> Iterator[str]:
    layout = results.layout
    if layout.source != "buffer-assignment":
        return
    parts = []
    if layout.printed_peak is not None:
        position, size = layout.printed_peak
        parts.append(
            f"XLA's live-range text says {format_bytes(size)} at {position} (whole instructions, "
            "no padding, all spaces)"
        )
    static = sum(a.size for a in layout.allocations if a.category not in ("temp", "thread-local"))
    if results.backend == "cpu":
        parts.append(f"peak_memory_in_bytes {format_bytes(static)} (leaves temporaries out)")
    elif results.backend == "tpu":
        parts.append("peak_memory_in_bytes more (adds VMEM)")
    if parts:
        yield f"other tools will show: {'; '.join(parts)}"


def memory_tables(results: MemoryResults) -> Iterator[Table]:
    """Yield the tables that belong on the first page: spaces, the peak, its source lines."""
    yield from _statement_tables(results)
    if results.peak is not None:
        yield _peak_table(results, results.peak)
        by = memory_by(results.peak, "source", results.makers)
        yield Table.of(by, title="Bytes at the peak by source line")


def _statement_title(results: MemoryResults) -> str:
    source = "as XLA assigned it" if results.layout.source == "buffer-assignment" else "estimated"
    return f"Memory of one device, {source}"


_QUANTITIES = (
    ("argument_bytes", "arguments", "entry parameters"),
    ("alias_bytes", "  of these reused", "donated, and the memory of a result"),
    ("output_bytes", "outputs", "results, reused arguments included"),
    ("temp_bytes", "temp", "preallocated temporaries"),
    ("constant_bytes", "constants", "constants of the program"),
    ("thread_local_bytes", "thread-local", "scalars that lie on no heap"),
    ("other_bytes", "other", "allocations that are none of these"),
    ("total_bytes", "total", "all allocations"),
    ("peak_bytes", "peak", "most bytes in use at one instant"),
    ("fragmentation_bytes", "fragmentation", "total without thread-local, minus peak"),
    ("padding_bytes", "padding", "bytes beyond the elements, at the peak"),
)


def _statement_table(results: MemoryResults) -> Table:
    """Return the statement with a line a quantity and a column a memory space."""
    spaces = results.statement.spaces
    rows: list[Row] = []
    for field, label, meaning in _QUANTITIES:
        cells = [getattr(space, field) for space in spaces]
        if any(cells) or field in ("argument_bytes", "output_bytes", "temp_bytes"):
            rows.append((label, *cells, meaning))
    columns = (
        Column("quantity", Unit.NONE, "what is summed"),
        *(Column(space.name, Unit.BYTES, f"colour {space.color}") for space in spaces),
        Column("definition", Unit.NONE, "which bytes these are"),
    )
    return Table(
        name="memory-statement",
        title=_statement_title(results),
        columns=columns,
        read_rows=lambda: rows,
        row_count=len(rows),
        is_whole=True,
    )


def _statement_tables(results: MemoryResults) -> tuple[Table, Table]:
    """Return the statement for people, and the same for CSV."""
    return _statement_table(results), Table.of(results.statement, title="Memory", is_data_only=True)


_PEAK_COLUMNS = (
    Column("size_bytes", Unit.BYTES, "bytes it holds, padding included"),
    Column("value", Unit.NONE, "instruction and shape index"),
    Column("category", Unit.NONE, "what its allocation is for"),
    Column("source", Unit.NONE, "source line of the instruction that made it"),
    Column("opcode", Unit.NONE, "opcode of that instruction"),
    Column("shape", Unit.NONE, "its shape with layout"),
    Column("op_name", Unit.NONE, "operation path, or name of the argument"),
    Column("lives", Unit.NONE, "first and last instant, both inclusive"),
    Column("offset", Unit.NONE, "first byte in its allocation"),
    Column("allocation", Unit.NONE, "index of the allocation"),
)


def _peak_table(results: MemoryResults, peak: PeakMemory) -> Table:
    makers = _makers(results, peak)

    def rows() -> Iterator[Row]:
        for value in peak.live:
            maker = makers.get(value.value)
            place = None if maker is None else maker.source_location
            yield (
                value.size_bytes,
                value.value,
                value.category,
                None if place is None else str(place),
                None if maker is None else maker.opcode,
                value.shape,
                op_name_of(maker),
                f"{value.start}-{value.end}",
                value.offset,
                value.allocation,
            )

    shared: tuple[Row, ...] = ()
    if peak.shared_bytes:
        shared = ((-peak.shared_bytes, SHARED, *(None,) * (len(_PEAK_COLUMNS) - 2)),)
    what = "the peak" if peak.is_peak else f"instant {peak.position}"
    space = space_name(peak.color, results.backend)
    word = "Estimate of what is" if results.layout.source == "estimate" else "Values"
    return Table(
        name="peak-memory",
        title=f"{word} alive at {what} of {space}: {format_bytes(peak.total_bytes)} "
        f"{_where(results, peak)}",
        columns=_PEAK_COLUMNS,
        read_rows=rows,
        row_count=len(peak.live),
        residual_rows=shared,
        totals={"size_bytes": peak.total_bytes},
    )


def _makers(results: MemoryResults, peak: PeakMemory) -> Mapping[str, HloInstruction]:
    if peak is results.peak:
        return results.makers
    return makers_of(results.module, peak.live)


def _instant(results: MemoryResults, view: MemoryView) -> PeakMemory | None:
    if view.at == "peak" and view.color == DEFAULT_SPACE:
        return results.peak
    return at_instant(results, view.at, color=view.color)


def _section(dump: ModuleDump, results: MemoryResults | None, view: MemoryView) -> Section:
    if results is None:
        return Section(title=_name(dump), notes=_no_memory(dump))
    _check_space(results, view)
    tables: list[Table] = [*_statement_tables(results)]
    peak = _instant(results, view)
    if view.timeline:
        timeline = memory_timeline(results.layout, color=view.color)
        if timeline is not None:
            tables.append(_chart(timeline, space_name(view.color, results.backend)))
            tables.append(Table.of(timeline, title="Timeline", is_data_only=True))
    if peak is not None and view.by == "op":
        by = memory_by(peak, "op", _makers(results, peak))
        shown = ("size_bytes", "share", "values", "op_name")
        tables.append(Table.of(memory_tree(by), title=_title(peak, "operation"), shown=shown))
    elif peak is not None and view.by is not None:
        by = memory_by(peak, view.by, _makers(results, peak))
        shown = ("size_bytes", "share", "values", "group")
        tables.append(Table.of(by, title=_title(peak, view.by), shown=shown))
    elif peak is not None:
        tables.append(_peak_table(results, peak))
    return Section(
        title=_name(dump),
        facts=tuple(memory_facts(results, peak)),
        tables=tuple(tables),
        notes=tuple(memory_notes(results)),
    )


def _check_space(results: MemoryResults, view: MemoryView) -> None:
    """Raise UnknownNameError if the module has nothing in the memory space that is asked for."""
    colors = results.layout.colors
    if view.color not in colors:
        there = ", ".join(f"{c} ({space_name(c, results.backend)})" for c in colors)
        message = f"no memory space {view.color}; there is {there}"
        raise UnknownNameError(message)


def _name(dump: ModuleDump) -> str:
    """Return the name of a module: as in its HLO text, else as in the names of its files."""
    return dump.title


def _title(peak: PeakMemory, by: str) -> str:
    what = "the peak" if peak.is_peak else f"instant {peak.position}"
    return f"Bytes at {what} by {by}"


def _no_memory(dump: ModuleDump) -> tuple[str, ...]:
    module = dump.hlo
    if module is not None and not module.is_scheduled:
        return (
            "memory not known: there is no buffer assignment beside this text, and the module is "
            "not scheduled, so that nothing can be estimated; XLA writes both with "
            "--xla_dump_to=DIR --xla_dump_hlo_as_text",
        )
    return ("memory not known: there is no buffer assignment beside this text",)


def _chart(timeline: MemoryTimeline, space: str) -> Table:
    """Return the timeline as bars, each the largest of a stretch of instants."""
    series = timeline.series
    step = max(1, -(-len(series) // BARS))
    most = max(series, default=0) or 1
    rows: list[Row] = []
    for start in range(0, len(series), step):
        best = max(range(start, min(start + step, len(series))), key=series.__getitem__)
        name = timeline.schedule[best] if best < len(timeline.schedule) else "[end]"
        bar = "█" * round(series[best] * _BAR_WIDTH / most)
        rows.append((best, series[best], bar, name))
    columns = (
        Column("position", Unit.NONE, "instant of the largest use in this stretch"),
        Column("occupied_bytes", Unit.BYTES, "union of bytes in use then"),
        Column("bar", Unit.NONE, "the same as a bar"),
        Column("instruction", Unit.NONE, "what runs then"),
    )
    return Table(
        name="memory-chart",
        title=f"Occupied bytes of {space} over the schedule, {plural(step, 'instant')} a line",
        columns=columns,
        read_rows=lambda: rows,
        row_count=len(rows),
        is_whole=True,
    )
