"""Programs too large for their memory: statement, largest buffers, groups to free."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.logs.oom_message import MemoryShortage, missing_bytes, size_bounds, sum_bounds
from hlo_lens.logs.runtime_oom import allocator_section, runtime_section
from hlo_lens.logs.tables import (
    BOUNDS,
    OPERATOR,
    bounds_of,
    bounds_text,
    line_text,
    operator_cells,
    size_text,
)
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Section, Table, filled, table_of
from hlo_lens.text.units import format_bytes, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.logs.log_analysis import LogAnalysis
    from hlo_lens.logs.out_of_memory import CompileOutOfMemory
    from hlo_lens.questions.memory.oom_remedies import DumpShortage


def memory_sections(known: LogAnalysis) -> Iterator[Section]:
    """Yield the sections on memory in a log, apart from its buffer statistics."""
    name, log = known.name, known.log
    for number, (message, shortage) in enumerate(
        zip(log.compile_ooms, known.shortages, strict=True)
    ):
        place = f", {number + 1} of {len(log.compile_ooms)}" if len(log.compile_ooms) > 1 else ""
        yield _compile_section(
            f"{name}: out of {message.memory_space} at compile time{place}",
            message,
            shortage,
            has_dump=bool(known.modules),
        )
        for said in known.dump_shortages[number : number + 1]:
            yield _dump_section(f"{name}: facts from the dump{place}", said)
    if log.failures or log.limits:
        yield runtime_section(name, log, has_dump=bool(known.modules))
    for number, state in enumerate(log.allocators, 1):
        place = f", {number} of {len(log.allocators)}" if len(log.allocators) > 1 else ""
        title = f"{name}: allocator {state.name}".rstrip() + place
        yield allocator_section(title, state, log.failures)


def _dump_section(title: str, said: DumpShortage) -> Section:
    """Return the section on a message from the dump of the same compile."""
    if said.module is None or said.shortage is None:
        names = f" ({listed(said.candidates, 4)})" if said.candidates else ""
        count = plural(len(said.candidates), "module")
        fact = f"not known: {count}{names} of the dump may be that of the message"
        return Section(title=title, facts=(("module", fact),))
    verdict = {True: ", as in the message", False: ", other than in the message", None: ""}
    needed = format_bytes(said.module.needed_bytes)
    facts = (
        ("module", said.module.name),
        ("needs", f"{needed} of arguments, outputs and temporaries{verdict[said.agrees]}"),
    )
    tables = (shortage_table(said.shortage, _OF_DUMP),) if said.shortage.groups else ()
    return Section(title=title, facts=facts, tables=tables, notes=said.notes)


# ---- compiling ---------------------------------------------------------------------------------


_NO_DUMP = (
    "a message does not show replicated arguments or the values alive at the peak; "
    "next, with the dump of the same compile: hlo-lens report DUMP --log LOG"
)


def _compile_section(
    title: str, message: CompileOutOfMemory, shortage: MemoryShortage, *, has_dump: bool
) -> Section:
    notes = [] if message.is_complete else ["the message is not complete"]
    notes += [] if has_dump else [_NO_DUMP]
    return Section(
        title=title,
        facts=tuple(_compile_facts(message)),
        tables=tuple(_compile_tables(message, shortage)),
        notes=(*notes, *_statement_notes(message)),
    )


def _compile_facts(message: CompileOutOfMemory) -> Iterator[tuple[str, str]]:
    yield "line", line_text(message.line, message.repeats)
    if message.module is not None:
        yield "module", message.module
    if message.instruction is not None:
        yield "instruction", message.instruction
    if message.used:
        used = " + ".join(size_text(size) or "" for size in message.used)
        yield "used", f"{used}{f' for {message.used_for}' if message.used_for else ''}"
    if message.capacity is not None:
        yield "capacity", size_text(message.capacity) or ""
    missing = missing_bytes(message)
    yield "missing", "not known" if missing is None else bounds_text(missing)
    if message.output is not None:
        shared = message.output_shared
        rest = "" if shared is None else f", {size_text(shared)} of it in donated arguments"
        yield "outputs", f"{size_text(message.output)}{rest}"


def _compile_tables(message: CompileOutOfMemory, shortage: MemoryShortage) -> Iterator[Table]:
    rows = [*_statement_rows(message)]
    if rows:
        yield table_of(
            "oom-statement",
            "Use of the memory, as printed in the message",
            (
                Column("of", Unit.NONE, "sum with this part"),
                Column("name", Unit.NONE, "use of the memory"),
                Column("size", Unit.NONE, "bytes as printed"),
                *BOUNDS,
                Column("unpadded", Unit.NONE, "bytes of its values, without padding"),
                Column("padded", Unit.NONE, "the same with padding"),
                Column("fragmentation", Unit.NONE, "bytes that no value occupies"),
            ),
            rows,
            shown=("of", "name", "size"),
            if_filled=("unpadded", "padded", "fragmentation"),
        )
    if shortage.groups:
        yield shortage_table(shortage)
    if message.allocations:
        yield _allocations_table(message)


def _statement_rows(message: CompileOutOfMemory) -> Iterator[Row]:
    space, total, requirement = message.memory_space, message.total, message.requirement
    of_all = f"{space} usage, at least {total}" if total is not None else f"{space} usage"
    of_program = f"program {requirement}" if requirement is not None else space
    parts = [(of_all, part) for part in message.usage]
    for whole, part in (*parts, *((of_program, part) for part in message.parts)):
        yield (
            whole,
            part.name,
            size_text(part.size) or "not known",
            *bounds_of(part.size),
            size_text(part.unpadded),
            size_text(part.padded),
            size_text(part.fragmentation),
        )


def _statement_notes(message: CompileOutOfMemory) -> Iterator[str]:
    """Yield a note for each statement whose parts do not add up to its sum."""
    for what, whole, parts in (
        (f"{message.memory_space} usage", message.total, message.usage),
        ("program", message.requirement, message.parts),
    ):
        sizes = [part.size for part in parts if part.size is not None]
        if whole is None or not sizes or len(sizes) < len(parts):
            continue
        least, most = sum_bounds(sizes)
        low, high = size_bounds(whole)
        if most < low or least > high:
            yield (
                f"the lines of the {what} add up to {bounds_text((least, most))}, not to {whole}: "
                "the message omits the rest"
            )


_OF_MESSAGE = (
    "freeing a group saves less if its buffers are not alive when memory runs out, or share memory "
    "with others; the message does not show this"
)
_OF_DUMP = (
    "replicated along an axis: bytes saved by dividing over it too. Buffers are those alive at the "
    "peak; freeing some saves less if as much is alive at another instant"
)


def shortage_table(shortage: MemoryShortage, note: str = _OF_MESSAGE) -> Table:
    """Return the table of groups that could be freed."""
    rows = list(shortage.rows())
    optional = ("padding_bytes", "is_enough", "op_name", "source")
    missing = shortage.missing
    against = "" if missing is None else f"; missing: {bounds_text(missing)}"
    table = Table.of(
        shortage,
        title=f"Remedies, and the most bytes that each alone would free{against}",
        shown=(*("what", "buffers", "at_most_bytes"), *filled(shortage.COLUMNS, rows, optional)),
        notes=(note,),
    )
    return replace(table, kept=("at_most_bytes", "is_enough", "source"))


def _allocations_table(message: CompileOutOfMemory) -> Table:
    rows: list[Row] = [
        (
            size_text(allocation.size),
            *bounds_of(allocation.size),
            size_text(allocation.unpadded),
            size_text(allocation.padding),
            allocation.expansion,
            allocation.allocation_type,
            allocation.instruction,
            allocation.opcode,
            allocation.shape_text,
            *operator_cells(allocation.operator),
            allocation.label,
        )
        for allocation in message.allocations
    ]
    return table_of(
        "oom-allocations",
        f"Largest allocations in {message.memory_space}, as listed in the message",
        _ALLOCATION_COLUMNS,
        rows,
        shown=("size",),
        if_filled=(
            *("padding", "expansion", "allocation_type", "instruction", "shape"),
            *("op_name", "source_file", "source_line"),
        ),
    )


_ALLOCATION_COLUMNS = (
    Column("size", Unit.NONE, "bytes as printed, with padding"),
    *BOUNDS,
    Column("unpadded", Unit.NONE, "bytes without padding"),
    Column("padding", Unit.NONE, "extra bytes due to padding"),
    Column("expansion", Unit.NONE, "size divided by the size without padding"),
    Column("allocation_type", Unit.NONE, "kind of memory"),
    Column("instruction", Unit.NONE, "instruction that needs it"),
    Column("opcode", Unit.NONE, "its opcode"),
    Column("shape", Unit.NONE, "shape with layout"),
    *OPERATOR,
    Column("label", Unit.NONE, "instruction text as printed, may be cut off"),
)
