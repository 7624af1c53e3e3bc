"""Facts and notes on the memory of a module."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.program.pages import (
    module_head,
    text_objects,
    text_sections,
    with_marked_groups,
    with_marks,
)
from hlo_lens.program.summary import cut_facts, no_hlo_text
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.peak import instructions_by_name, loop_path, memory_by, memory_tree
from hlo_lens.questions.memory.results import (
    WRITERS,
    at_instant,
    memory_results,
    not_known_text,
    peak_by,
)
from hlo_lens.questions.memory.roles import memory_roles
from hlo_lens.questions.memory.statement import (
    FEW_BYTES,
    MemoryStatement,
    memory_amount,
    space_name,
)
from hlo_lens.questions.memory.timeline import (
    Instant,
    memory_timeline,
    plot_timelines,
    role_series,
    timelines,
)
from hlo_lens.render.result import Column, Row, Unit, facts_object
from hlo_lens.render.table import Section, Table, table_of
from hlo_lens.render.to_json import ModulePage
from hlo_lens.text.dump_kinds import TEXT_FLAGS
from hlo_lens.text.errors import UnknownNameError
from hlo_lens.text.units import Amount, Kind, format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.peak import MemoryBy, PeakMemory
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.memory.timeline import MemoryTimeline, Timeline


def memory_facts(
    results: MemoryResults, instant: PeakMemory | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the lines on the memory of a module and on the bytes in use at an instant."""
    statement, layout = results.statement, results.layout
    word = "" if layout.is_complete else "of a text that is not complete: "

    def text(figure: str, size_bytes: int) -> str:
        return memory_amount(statement, figure, size_bytes).text(format_bytes)

    others = (
        f", plus {format_bytes(space.total_bytes or 0)} {space.name} memory (color {space.color}) "
        "on the same device"
        for space in statement.on_same_device(results.backend)
    )
    yield (
        "memory",
        f"{word}{text('total', statement.total_bytes)} needed{''.join(others)}: "
        f"arguments {format_bytes(statement.argument_bytes)} "
        f"({format_bytes(statement.alias_bytes)} reused for outputs), "
        f"outputs {text('output', statement.output_bytes)}, "
        f"temp {text('temp', statement.temp_bytes)}, "
        f"constants {format_bytes(statement.constant_bytes)}",
    )
    peak = results.peak
    if peak is not None:
        amount = memory_amount(statement, "peak", peak.total_bytes)
        if not (layout.is_complete and layout.are_ranges_complete):
            amount = Amount(peak.total_bytes, Kind.AT_LEAST)
        yield "peak", f"{word}{amount.text(format_bytes)} {where_text(results, peak)}"
    if instant is not None and instant is not peak:
        space = space_name(instant.color, results.backend)
        what = "peak" if instant.is_peak else "in use"
        size = text("peak", instant.total_bytes)
        yield f"{what} {space}", f"{word}{size} {where_text(results, instant)}"


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


def memory_warnings(results: MemoryResults) -> Iterator[str]:
    """Yield what contradicts the figures of memory, or is missing in them."""
    statement, layout = results.statement, results.layout
    for one in statement.mismatches:
        yield (
            f"memory_analysis() has {one.name} {one.theirs:,}, hlo-lens {one.ours:,}: trust "
            "neither until the difference is explained"
        )
    if not layout.is_complete:
        parts = [f"{plural(layout.unassigned, 'value')} without memory"] * bool(layout.unassigned)
        if layout.misfits:
            parts.append(f"{plural(layout.misfits, 'size')} that do not fit the others")
        lost = f": {', '.join(parts)}" if parts else ""
        yield f"the buffer assignment is not complete{lost}; sums are of the part that is there"
    if statement.unknown_values:
        values = plural(statement.unknown_values, "value")
        yield f"{values} of instructions that the HLO text does not have"
    if not layout.are_ranges_complete:
        yield "the live ranges are not complete: the peak is at least what is found"
    if layout.schedule is None:
        return
    if layout.unplaced_held and not layout.are_ranges_complete:
        yield f"{plural(layout.unplaced_held, 'held value')} without a live range"
    if layout.unplaced:
        yield f"{plural(layout.unplaced, 'temporary value')} without a live range, in no instant"


def missing_texts(results: MemoryResults) -> Iterator[str]:
    """Yield the texts that the dump lacks, each with the flag that writes it."""
    for name in results.statement.missing:
        yield f"missing: {name}; XLA writes it with {WRITERS[name]}"


def memory_notes(results: MemoryResults) -> Iterator[str]:
    """Yield the limits of the numbers, and the missing dumps."""
    statement = results.statement
    yield from statement.notes
    yield from memory_warnings(results)
    if statement.memory_analysis and not statement.mismatches:
        is_told = any(n for name, n in statement.memory_analysis.items() if "size_in" in name)
        zeros = "memory_analysis() is all zeros here, so nothing was compared"
        yield "equal to memory_analysis()" if is_told else zeros
    yield from missing_texts(results)


def pages(
    modules: Iterable[ModuleDump],
    *,
    by: str | None = None,
    at: str = "peak",
    color: int = DEFAULT_SPACE,
    timeline: bool = False,
    plot: str | None = None,
) -> Iterator[ModulePage]:
    """Yield the page on the memory of each module: its values at an instant, or groups of them.

    Raises:
        DumpMismatchError: If texts of one module contradict one another.
        UnknownNameError: If a module has nothing in the memory space, or no such instant.
        UsageError: If the timelines cannot be drawn.
    """
    drawn: list[Timeline] = []
    for module in modules:
        if plot is not None:
            drawn += timelines([module], color)
        results = memory_results(module)
        if results is None:
            yield _page_of_texts(module)
            continue
        instant = _instant(results, at, color)
        groups = None
        if instant is not None and by is not None:
            roles = memory_roles(module) if by == "role" else None
            groups = memory_by(instant, by, None if roles is None else roles.of_live)
        instants = memory_timeline(results.layout, color=color) if timeline else None
        section = Section(
            title=module.title,
            facts=(*cut_facts(module), *memory_facts(results, instant)),
            tables=tuple(_tables(results, instant, groups, instants)),
            notes=tuple(memory_notes(results)),
        )
        make_object = partial(_object, module, results, instant, groups, instants)
        yield ModulePage(sections=(section,), make_object=make_object)
    if plot is not None:
        plot_timelines(drawn, plot)


def _instant(results: MemoryResults, at: str, color: int) -> PeakMemory | None:
    colors = results.layout.colors
    if color not in colors:
        spaces = ", ".join(f"{c} ({space_name(c, results.backend)})" for c in colors)
        raise UnknownNameError(f"no memory space {color}; there is {spaces}")
    is_peak = at == "peak" and color == DEFAULT_SPACE
    return results.peak if is_peak else at_instant(results, at, color=color)


def _page_of_texts(module: ModuleDump) -> ModulePage:
    text = module.hlo
    if text is None:
        reason = no_hlo_text(module)
    elif text.is_scheduled:
        reason = not_known_text(module)
    else:
        reason = (
            "there is no buffer assignment with this text, and the module is not scheduled, so "
            f"that nothing can be estimated; XLA writes both with {TEXT_FLAGS}"
        )
    notes = (f"memory not known: {reason}",)
    missing = Section(title=module.title, facts=tuple(cut_facts(module)), notes=notes)
    head = {**module_head(module), "name": module.title, "memory": None}
    return ModulePage(
        sections=tuple(text_sections(module, "memory")) or (missing,),
        make_object=lambda: {**head, **text_objects(module)},
    )


def _object(
    module: ModuleDump,
    results: MemoryResults,
    instant: PeakMemory | None,
    groups: MemoryBy | None,
    timeline: MemoryTimeline | None,
) -> Mapping[str, object]:
    found = {
        **module_head(module),
        "name": module.title,
        "memory": memory_object(results),
        "instant": None if instant is None else _peak_object(instant),
    }
    if groups is not None:
        found["groups"] = [one._asdict() for one in groups.groups]
        if groups.by == "op":
            found["tree"] = memory_tree(groups).objects()
    if timeline is not None:
        cells = zip(*timeline.instants, strict=True)
        columns = zip(Instant._fields, map(list, cells), strict=True)
        series = role_series(module, timeline.color)
        roles = None if series is None else {one: series.series(one) for one in series.changes}
        found["timeline"] = {"color": timeline.color, **dict(columns), "roles": roles}
    return found


def memory_object(results: MemoryResults | None) -> Mapping[str, object] | None:
    """Return the MEMORY object, whose names scripts rely on; None where no memory is known."""
    if results is None:
        return None
    peak = None if results.peak is None else _peak_object(results.peak)
    return {**facts_object(results.statement), "peak": peak}


def _peak_object(peak: PeakMemory) -> Mapping[str, object]:
    return {
        "bytes": peak.total_bytes,
        "color": peak.color,
        "position": peak.position,
        "instruction": peak.instruction,
        "shared_bytes": peak.shared_bytes,
        "temp_bytes": peak.temp_bytes,
        "live": peak.objects(),
    }


def verdict_text(statement: MemoryStatement) -> str:
    """Return whether a program fits, where it does not or that is not sure; empty otherwise."""
    limit = statement.limit_bytes
    if limit is None or statement.fits:
        return ""
    sizes = f"{format_bytes(statement.total_bytes)} of {format_bytes(limit)}"
    device = (statement.limit_source or "").partition(":")[0]
    of_device = "" if device == "--limit" else f" of a {device}"
    code = ", generated code of 30 to 39MiB not counted" * statement.lacks_code
    if statement.fits is None and statement.source != "estimate":
        return f"may not fit: {sizes}{of_device}{code}"
    if statement.fits is None:
        return f"may not fit: ~ {sizes}{of_device}, an estimate too near to the limit to tell"
    mark = "~ " * (statement.source == "estimate")
    excess = format_bytes(statement.excess_bytes or 0)
    return f"does not fit: {mark}{sizes}{of_device}, {mark}{excess} too much{code}"


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


def _tables(
    results: MemoryResults,
    instant: PeakMemory | None,
    groups: MemoryBy | None,
    timeline: MemoryTimeline | None,
) -> Iterator[Table]:
    yield from statement_tables(results)
    if timeline is not None:
        yield _chart(timeline, space_name(timeline.color, results.backend))
        yield Table.of(timeline, title="Timeline", is_data_only=True)
    if instant is not None and groups is not None:
        yield _groups_table(instant, groups)
    elif instant is not None:
        yield peak_table(results, instant)


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


def _groups_table(peak: PeakMemory, groups: MemoryBy) -> Table:
    title = f"Bytes at {_instant_text(peak)} by"
    shown = ("size_bytes", "share", "values")
    if groups.by != "op":
        table = Table.of(groups, title=f"{title} {groups.by}", shown=(*shown, "group"))
        return with_marked_groups(table)
    tree = memory_tree(groups)
    table = Table.of(tree, title=f"{title} operation", shown=(*shown, "scope"))
    indented = [one._replace(scope="  " * one.depth + one.scope) for one in tree.scopes]
    return replace(table, read_shown=lambda: indented)


def _instant_text(peak: PeakMemory) -> str:
    return "the peak" if peak.is_peak else f"instant {peak.position}"


def _chart(timeline: MemoryTimeline, space: str) -> Table:
    instants = timeline.instants
    step = max(1, -(-len(instants) // _BARS))
    ranges = (instants[start : start + step] for start in range(0, len(instants), step))
    highest = [max(part, key=lambda one: one.held_bytes) for part in ranges]
    most = max(one.held_bytes for one in highest) or 1
    rows: list[Row] = [
        (
            *(one.position, one.held_bytes, "█" * round(one.held_bytes * _BAR_WIDTH / most)),
            *(one.occupied_bytes, one.instruction or "[end]"),
        )
        for one in highest
    ]
    position, instruction, held, used = timeline.COLUMNS
    title = f"Bytes of {space} held over the schedule, {plural(step, 'instant')} a line"
    columns = (position, held, Column("bar", Unit.NONE, "bytes held"), used, instruction)
    table = table_of("memory-chart", title, columns, rows)
    return replace(table, is_text_only=True, is_whole=True)
