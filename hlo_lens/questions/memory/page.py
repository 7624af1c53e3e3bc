"""Facts and notes on the memory of a module."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.logs.page import gap_notes
from hlo_lens.program.summary import no_hlo_text
from hlo_lens.questions.memory.grouping import peak_by
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.peak import instructions_by_name, loop_path
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.statement import (
    FEW_BYTES,
    MemoryStatement,
    memory_amount,
    space_name,
)
from hlo_lens.questions.snapshots import module_facts as facts
from hlo_lens.questions.snapshots.writing import facts_object
from hlo_lens.render.envelope import ModulePage, module_head
from hlo_lens.render.origins import with_marked_groups, with_marks
from hlo_lens.render.result import Column, Row, Unit, row_objects
from hlo_lens.render.table import Section, Table, table_of
from hlo_lens.text.dump_kinds import TEXT_FLAGS
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.buffers.live_range import HloLiveRange
    from hlo_lens.buffers.memory_usage_report import MemoryUsageReport
    from hlo_lens.buffers.values import BufferValues
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.grouping import MemoryBy, MemoryTree
    from hlo_lens.questions.memory.peak import PeakMemory
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.memory.roles import RoleSeries
    from hlo_lens.questions.memory.timeline import MemoryTimeline


def memory_facts(
    results: MemoryResults, instant: PeakMemory | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the lines on the memory of a module and on the bytes in use at an instant.

    Args:
        results: The memory of the module.
        instant: An instant or memory space other than the peak of the default one.
    """
    statement = results.statement
    layout = results.layout
    word = "" if layout.is_complete else "of a text that is not complete: "

    def text(figure: str, size_bytes: int) -> str:
        return memory_amount(statement, figure, size_bytes, results.stated).text(format_bytes)

    yield (
        "memory",
        f"{word}{text('total', statement.total_bytes)} must fit{_same_device_text(results)}: "
        f"arguments {format_bytes(statement.argument_bytes)} "
        f"({format_bytes(statement.alias_bytes)} reused for outputs), "
        f"outputs {text('output', statement.output_bytes)}, "
        f"temp {text('temp', statement.temp_bytes)}, "
        f"constants {format_bytes(statement.constant_bytes)}",
    )
    peak = results.peak
    if peak is not None:
        bound = "" if layout.is_complete and layout.are_ranges_complete else "at least "
        size = text("peak", peak.total_bytes)
        yield "peak", f"{word}{bound}{size} {where_text(results, peak)}"
    if instant is not None and instant is not peak:
        space = space_name(instant.color, results.backend)
        what = "peak" if instant.is_peak else "in use"
        size = text("peak", instant.total_bytes)
        yield f"{what} {space}", f"{word}{size} {where_text(results, instant)}"


def _same_device_text(results: MemoryResults) -> str:
    """Return the bytes of other memory spaces that the same device must hold; empty for none."""
    return "".join(
        f", plus {format_bytes(space.total_bytes or 0)} {space.name} memory (color {space.color}) "
        "on the same device"
        for space in results.statement.on_same_device(results.backend)
    )


def where_text(results: MemoryResults, peak: PeakMemory) -> str:
    """Return the place of an instant in the program: position, instruction, loop, source line."""
    length = len(results.layout.schedule or ())
    if peak.position is None:
        return "during the whole program (no temporaries)"
    if peak.instruction is None:
        return f"at the end of the schedule ({peak.position} of {length})"
    text = f"at {peak.instruction} ({peak.position} of {length})"
    if results.module is None:
        return text
    instruction = instructions_by_name(results.module, {peak.instruction}).get(peak.instruction)
    if instruction is None:
        return text
    loops = loop_path(instruction)
    if loops:
        text += f" in {' > '.join(loops)}"
    elif not instruction.computation.is_entry:
        text += f" in {instruction.computation.name}"
    source = peak.instruction_origin.marked_source
    return text if source is None else f"{text}, {source}"


def memory_notes(results: MemoryResults) -> Iterator[str]:
    """Yield the limits of the numbers, the missing dumps, and the figures of other tools."""
    yield from results.statement.notes
    yield from _framework_notes(results)
    layout = results.layout
    if not layout.is_complete:
        parts = [f"{plural(layout.unassigned, 'value')} without memory"] * bool(layout.unassigned)
        if layout.misfits:
            parts.append(f"{plural(layout.misfits, 'size')} that do not fit the others")
        lost = f": {', '.join(parts)}" if parts else ""
        yield f"the buffer assignment is not complete{lost}; sums are of the part that is there"
    if results.unknown_values:
        yield (
            f"{plural(results.unknown_values, 'value')} of instructions that the HLO text does "
            "not have"
        )
    if not layout.are_ranges_complete:
        yield "the live ranges are not complete: the peak is at least what is found"
    if layout.schedule is not None and layout.unplaced_held and not layout.are_ranges_complete:
        yield f"{plural(layout.unplaced_held, 'held value')} without a live range"
    if layout.schedule is not None and layout.unplaced:
        yield f"{plural(layout.unplaced, 'temporary value')} without a live range, in no instant"
    for name, flag in results.missing:
        yield f"missing: {name}; XLA writes it with {flag}"
    yield from _other_tools(results)


def _framework_notes(results: MemoryResults) -> Iterator[str]:
    for name, ours, theirs in results.mismatches:
        yield (
            f"memory_analysis() has {name} {theirs:,}, hlo-lens {ours:,}: trust neither until the "
            "difference is explained"
        )
    if results.stated and not results.mismatches:
        is_told = any(value for name, value in results.stated.items() if "size_in" in name)
        yield (
            "equal to memory_analysis()"
            if is_told
            else "memory_analysis() is all zeros here, so nothing was compared"
        )


def _other_tools(results: MemoryResults) -> Iterator[str]:
    """Yield the peaks of other tools that differ from ours."""
    texts = []
    for one in results.other_peaks:
        size = "not known" if one.peak_bytes is None else format_bytes(one.peak_bytes)
        texts.append(f"{one.tool} {size} ({one.definition})")
    if texts:
        yield f"peaks of other tools: {'; '.join(texts)}"


def buffer_text_sections(dump: ModuleDump) -> Iterator[Section]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """View of ``hlo-lens memory``.

    Attributes:
        by: Kind of groups; None for the values themselves.
        at: ``peak``, a number or an instruction.
        color: Memory space.
        timeline: Whether to show the bytes held and in use over the schedule.
    """

    by: str | None = None
    at: str = "peak"
    color: int = DEFAULT_SPACE
    timeline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewedMemory:
    """Memory of a module as a view shows it.

    Attributes:
        results: Memory of the module.
        instant: Values alive at the instant; None without live ranges.
        groups: The same in groups; None where the view has none.
        tree: The groups as a tree of operation paths; None for other groups.
        timeline: Occupied bytes over the schedule; None if not shown or unknown.
        roles: The bytes held by role over the schedule; None if not shown or unknown.
    """

    results: MemoryResults
    instant: PeakMemory | None = None
    groups: MemoryBy | None = None
    tree: MemoryTree | None = None
    timeline: MemoryTimeline | None = None
    roles: RoleSeries | None = None


def memory_page(
    dump: ModuleDump,
    viewed: ViewedMemory | None,
    single_texts: Sequence[Section] = (),
    text_objects: Callable[[], Mapping[str, object]] = dict,
) -> ModulePage:
    """Return the page on the memory of a module.

    Args:
        dump: The module.
        viewed: Its memory; None if unknown.
        single_texts: Sections on other texts about the memory of a module of unknown memory.
        text_objects: Returns the JSON objects of these texts.
    """
    if viewed is None:
        missing = (Section(title=dump.title, notes=_no_memory(dump)),)
        sections = tuple(single_texts) or missing
    else:
        sections = (_section(dump, viewed),)
    return ModulePage(
        sections=sections, make_object=lambda: {**_object(dump, viewed), **text_objects()}
    )


# ---- JSON --------------------------------------------------------------------------------------


def _object(dump: ModuleDump, viewed: ViewedMemory | None) -> Mapping[str, object]:
    found = {**module_head(dump), "name": dump.title, "memory": None}
    if viewed is None:
        return found
    found["memory"] = memory_object(viewed.results)
    found["instant"] = None if viewed.instant is None else peak_object(viewed.instant)
    if viewed.groups is not None:
        found["groups"] = row_objects(viewed.groups.COLUMNS, viewed.groups.all_rows())
    if viewed.tree is not None:
        found["tree"] = viewed.tree.objects()
    if viewed.timeline is not None:
        found["timeline"] = timeline_object(viewed.timeline, viewed.roles)
    return found


# ---- text --------------------------------------------------------------------------------------


def memory_tables(results: MemoryResults, by_source: MemoryBy | None) -> Iterator[Table]:
    """Yield the tables of the first page: memory spaces, values at the peak, source lines."""
    yield from statement_tables(results)
    if results.peak is not None:
        yield peak_table(results, results.peak)
    if by_source is not None:
        yield source_table(by_source)


def leading_table(analysis: ModuleDump) -> tuple[Table, str] | None:
    """Return the table of the peak for a first page, and the option of the command that prints it.

    It is by source line; by operation path where the text has no lines for most of the bytes, and
    value by value where it has neither. None where the peak is not known.
    """
    for by in ("source", "op"):
        groups = peak_by(analysis, by)
        if groups is None:
            return None
        if not groups.is_unattributed:
            return source_table(groups), f"--by {by}"
    results = memory_results(analysis)
    if results is None or results.peak is None:
        return None
    return peak_table(results, results.peak), ""


def source_table(groups: MemoryBy) -> Table:
    """Return the table of the bytes at the peak by source line, or by operation path."""
    name = "source line" if groups.by == "source" else "operation"
    title = f"Bytes at the peak by {name}, each with its largest value"
    last = ("op_name",) if groups.by == "source" else ()
    shown = ("size_bytes", "share", "values", "group", "shape", *last)
    return with_marked_groups(Table.of(groups, title=title, shown=shown))


def _section(dump: ModuleDump, viewed: ViewedMemory) -> Section:
    results, peak, timeline = viewed.results, viewed.instant, viewed.timeline
    tables: list[Table] = [*statement_tables(results)]
    if timeline is not None:
        tables.append(_chart(timeline, space_name(timeline.color, results.backend)))
        tables.append(Table.of(timeline, title="Timeline", is_data_only=True))
    if peak is not None and viewed.groups is not None:
        tables.append(_groups_table(peak, viewed.groups, viewed.tree))
    elif peak is not None:
        tables.append(peak_table(results, peak))
    return Section(
        title=dump.title,
        facts=tuple(memory_facts(results, peak)),
        tables=tuple(tables),
        notes=tuple(memory_notes(results)),
    )


def _no_memory(dump: ModuleDump) -> tuple[str, ...]:
    module = dump.hlo
    if module is not None and not module.is_scheduled:
        return (
            "memory not known: there is no buffer assignment with this text, and the module is "
            f"not scheduled, so that nothing can be estimated; XLA writes both with {TEXT_FLAGS}",
        )
    if module is None:
        return (f"memory not known: {no_hlo_text(dump)}",)
    return ("memory not known: there is no buffer assignment with this text",)


# ---- JSON ---------------------------------------------------------------------------------------


def memory_object(results: MemoryResults | None) -> Mapping[str, object] | None:
    """Return the MEMORY object, whose names scripts rely on; None where no memory is known."""
    if results is None:
        return None
    peak = None if results.peak is None else peak_object(results.peak)
    others = [one._asdict() for one in results.other_peaks]
    return {**facts_object(facts.memory_facts(results)), "peak": peak, "other_peaks": others}


def peak_object(peak: PeakMemory) -> Mapping[str, object]:
    """Return the memory held at an instant."""
    return {
        "bytes": peak.total_bytes,
        "color": peak.color,
        "position": peak.position,
        "instruction": peak.instruction,
        "shared_bytes": peak.shared_bytes,
        "temp_bytes": peak.temp_bytes,
        "live": peak.objects(),
    }


def timeline_object(
    timeline: MemoryTimeline, roles: RoleSeries | None = None
) -> Mapping[str, object]:
    """Return the bytes of a memory space, each column as a list over the instants.

    Args:
        timeline: Bytes held and in use.
        roles: The bytes held by role.
    """
    cells = zip(*timeline.rows(), strict=True)
    columns = zip((column.name for column in timeline.COLUMNS), map(list, cells), strict=True)
    by_role = None if roles is None else {one: roles.series(one) for one in roles.changes}
    return {"color": timeline.color, **dict(columns), "roles": by_role}


# ---- tables -------------------------------------------------------------------------------------


_GROUP_COLUMNS = ("size_bytes", "share", "values", "group")
_BARS = 40
_BAR_WIDTH = 30
_ALWAYS = ("argument_bytes", "output_bytes", "temp_bytes")
"""Figures that the statement shows even if 0."""


def statement_tables(results: MemoryResults) -> tuple[Table, Table]:
    """Return the statement for people, and the same for CSV."""
    return _statement_table(results), Table.of(results.statement, title="Memory", is_data_only=True)


def _statement_table(results: MemoryResults) -> Table:
    """Return the statement with a row per figure and a column per memory space.

    The default space comes first, others by size; those of few bytes are a note.
    """
    default, *others = results.statement.spaces
    others.sort(key=lambda space: -(space.total_bytes or 0))
    small = [space for space in others if (space.total_bytes or 0) < FEW_BYTES]
    spaces = [default, *(space for space in others if space not in small)]
    texts = [f"{s.name} {format_bytes(s.total_bytes)}" for s in small if s.total_bytes]
    texts += [f"{s.name} not known" for s in small if s.total_bytes is None]
    rows: list[Row] = []
    for column in MemoryStatement.COLUMNS:
        cells = [getattr(space, column.name) for space in spaces]
        if column.unit is Unit.BYTES and (any(cells) or column.name in _ALWAYS):
            rows.append((column.name, *cells, column.meaning))
    source = "as XLA assigned it" if results.layout.source == "buffer-assignment" else "estimated"
    columns = (
        Column("quantity", Unit.NONE, "name of the figure"),
        *(Column(space.name, Unit.BYTES, f"colour {space.color}") for space in spaces),
        Column("definition", Unit.NONE, "bytes that it sums"),
    )
    table = table_of("memory-statement", f"Memory of one device, {source}", columns, rows)
    notes = (f"other spaces: {', '.join(texts)}",) if texts else ()
    return replace(table, is_text_only=True, is_whole=True, notes=notes, wrapped=("definition",))


def peak_table(results: MemoryResults, peak: PeakMemory) -> Table:
    """Return the table of the memory held at an instant, largest values first."""
    space = space_name(peak.color, results.backend)
    word = "Estimated values" if results.layout.source == "estimate" else "Values"
    amount = memory_amount(results.statement, "peak", peak.total_bytes)
    found = f"{amount.text(format_bytes)} {where_text(results, peak)}"
    left_out = ("size_bytes", "origin_basis", "argument", "library_source")
    names = [column.name for column in peak.COLUMNS if column.name not in left_out]
    title = f"{word} held at {_instant_text(peak)} of {space}: {found}"
    return with_marks(Table.of(peak, title=title, shown=("size_bytes", *names)))


def _groups_table(peak: PeakMemory, groups: MemoryBy, tree: MemoryTree | None) -> Table:
    """Return the table of the bytes at an instant in groups; a tree is indented by depth."""
    title = f"Bytes at {_instant_text(peak)} by"
    if tree is None:
        table = Table.of(groups, title=f"{title} {groups.by}", shown=_GROUP_COLUMNS)
        return with_marked_groups(table)

    def indented() -> Iterator[Row]:
        for (scope, depth, _), row in zip(tree.branches(), tree.rows(), strict=True):
            yield ("  " * depth + scope, *row[1:])

    shown = (*_GROUP_COLUMNS[:-1], "scope")
    table = Table.of(tree, title=f"{title} operation", shown=shown)
    return replace(table, read_shown=indented)


def _instant_text(peak: PeakMemory) -> str:
    return "the peak" if peak.is_peak else f"instant {peak.position}"


def _chart(timeline: MemoryTimeline, space: str) -> Table:
    """Return the timeline as bars, each the largest of a range of instants."""
    series = timeline.held
    step = max(1, -(-len(series) // _BARS))
    most = max(series, default=0) or 1
    rows: list[Row] = []
    for start in range(0, len(series), step):
        best = max(range(start, min(start + step, len(series))), key=series.__getitem__)
        name = timeline.schedule[best] if best < len(timeline.schedule) else "[end]"
        bar = "█" * round(series[best] * _BAR_WIDTH / most)
        rows.append((best, series[best], bar, timeline.used[best], name))
    position, instruction, held, used = timeline.COLUMNS
    title = f"Bytes of {space} held over the schedule, {plural(step, 'instant')} a line"
    columns = (position, held, Column("bar", Unit.NONE, "bytes held"), used, instruction)
    table = table_of("memory-chart", title, columns, rows)
    return replace(table, is_text_only=True, is_whole=True)
