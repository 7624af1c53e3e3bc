"""Pages of ``hlo-lens show``: instructions as a list, and single ones with what is around them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hlo_lens.program.instructions import (
    CALLED,
    CALLER,
    OPERAND,
    PREDECESSOR,
    USER,
    InstructionDetails,
)
from hlo_lens.program.origins import stack_texts
from hlo_lens.program.pages import module_head, page_without_hlo, with_marks
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.render.envelope import ModulePage
from hlo_lens.render.table import Section, Sections, Table
from hlo_lens.text.units import format_count, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.instructions import InstructionList
    from hlo_lens.questions.memory.roles import InstructionValues

LONGEST_TEXT = 4000
"""Characters of an instruction in text; further ones are counted."""

_KEYS = {
    OPERAND: "operands",
    USER: "users",
    PREDECESSOR: "control_predecessors",
    CALLED: "called_computations",
    CALLER: "callers",
}
"""Keys of the JSON object with what is next to an instruction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownInstruction:
    """One instruction as a page shows it.

    Attributes:
        details: The instruction, and what is next to it.
        values: Its values in memory; None where memory is not known, or not that of this one of
            several instructions of its name.
        position: Its instant in the schedule; None if not known, or not in it.
        is_embedded: Whether it is inside a fusion or reducer, and has no memory of its own.
    """

    details: InstructionDetails
    values: InstructionValues | None
    position: int | None
    is_embedded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProgram:
    """What a page shows of a module.

    Attributes:
        known: The module.
        instructions: Single instructions.
        lists: Lists of the instructions of a computation, by its name; None for the whole program.
    """

    known: ModuleDump
    instructions: Sequence[ShownInstruction] = ()
    lists: Mapping[str | None, InstructionList] = field(default_factory=dict)


def instructions_page(shown: ShownProgram) -> ModulePage:
    """Return the page of a module on instructions, or on lists of them."""
    known = shown.known
    if not known.has_hlo:
        return page_without_hlo(known, instructions=None, rows=None)
    return ModulePage(
        sections=Sections(lambda: _sections(shown)),
        make_object=lambda: {
            **module_head(known),
            "instructions": [_object(one) for one in shown.instructions],
            "rows": [row for listed in shown.lists.values() for row in listed.objects()],
        },
    )


def _sections(shown: ShownProgram) -> Iterator[Section]:
    for one in shown.instructions:
        yield _details_section(shown.known, one)
    for name, listed in shown.lists.items():
        yield _list_section(shown.known, name, listed)


# ---- lists -------------------------------------------------------------------------------------


def _list_section(known: ModuleDump, computation: str | None, listed: InstructionList) -> Section:
    shown = ["name", "opcode", "shape", "source", "users"]
    title = "Instructions in the order of the text"
    if computation is None:
        shown.insert(4, "computation")
        title = "Instructions in the order of the text, those of the entry first"
    return Section(
        title=known.name,
        facts=tuple(_list_facts(known, computation)),
        tables=(with_marks(Table.of(listed, title=title, shown=shown)),),
    )


def _list_facts(known: ModuleDump, computation: str | None) -> Iterator[tuple[str, str]]:
    module = hlo_text(known)
    found = None if computation is None else module.computation(computation)
    yield "module", known.stage or "stage unknown"
    if found is None:
        count = plural(len(module.columns), "instruction")
        yield "size", f"{count} in {plural(len(module.computations), 'computation')}"
        return
    entry = ", the entry" if found.is_entry else ""
    yield "computation", f"{found.name}{entry}, {_runs_text(known, found.name)}"
    callers = module.links.calls.of_computation(found.place)
    for number, call in enumerate(callers[:_MOST_CALLERS]):
        yield "" if number else "called by", f"{module.columns.name(call.row)} ({call.role})"
    if len(callers) > _MOST_CALLERS:
        yield "", f"[{len(callers) - _MOST_CALLERS} others]"
    if found.root is not None:
        yield "root", found.root.name


_MOST_CALLERS = 4


# ---- one instruction ---------------------------------------------------------------------------


def _details_section(known: ModuleDump, shown: ShownInstruction) -> Section:
    values = shown.values
    tables = [_adjacent_table(shown.details)]
    if values is not None and values.row_count:
        tables.append(_values_table(values))
    return Section(
        title=known.name,
        facts=tuple(_facts(known, shown)),
        tables=tuple(tables),
        notes=tuple(_memory_notes(known, shown)),
    )


def _facts(known: ModuleDump, shown: ShownInstruction) -> Iterator[tuple[str, str]]:
    details = shown.details
    instruction, origin = details.instruction, details.origin
    yield "module", known.stage or "stage unknown"
    root = ", the root of its computation" if instruction.is_root else ""
    yield "instruction", f"{instruction.name}, {instruction.opcode}{root}"
    yield "shape", instruction.shape_text or "not known"
    name = instruction.computation.name
    entry = ", the entry" if instruction.computation.is_entry else ""
    yield "in", f"{name}{entry}, {_runs_text(known, name)}"
    memory = memory_results(known)
    if shown.position is not None and memory is not None:
        yield "instant", f"{shown.position:,} of {len(memory.layout.schedule or ()):,}"
    if origin.source is not None:
        yield "source", origin.marked_source or ""
    if origin.op_name is not None:
        yield "operation", origin.op_name
    if origin.argument is not None and origin.argument != origin.op_name:
        yield "argument", origin.argument
    for number, frame in enumerate(stack_texts(details.stack)):
        yield "" if number else "stack", frame
    sharding = instruction.attribute("sharding")
    if sharding is not None:
        yield "sharding", sharding
    text = details.text
    more = len(text) - LONGEST_TEXT
    cut = f" ... [{plural(more, 'more character')}; -f json has all]" if more > 0 else ""
    yield f"line {instruction.line}", f"{text[:LONGEST_TEXT]}{cut}"


def _runs_text(known: ModuleDump, computation: str) -> str:
    """Return the number of runs of a computation, and the loops around it."""
    runs = call_counts(known).of(computation)
    loops = f" in {' > '.join(runs.loop_path)}" if runs.loop_path else ""
    if runs.times is None:
        return f"runs not known{loops}"
    bound = "at most " if runs.is_at_most else ""
    return f"{bound}{format_count(runs.times)} {'run' if runs.times == 1 else 'runs'}{loops}"


def _adjacent_table(details: InstructionDetails) -> Table:
    shown = ("role", "place", "name", "opcode", "shape", "source")
    table = Table.of(details, title="Operands, users and computations", shown=shown)
    return with_marks(replace(table, kept=("role", "place")))


def _values_table(values: InstructionValues) -> Table:
    shown = ["value", "size_bytes", "role", "space", "category", "allocation", "offset"]
    table = Table.of(values, title="Its values in memory", shown=(*shown, "start", "end"))
    others = sum(not one.is_own for one in values.values)
    note = f"{plural(others, 'value')} that it passes on, of other instructions"
    return replace(table, notes=(note,) if others else ())


def _memory_notes(known: ModuleDump, shown: ShownInstruction) -> Iterator[str]:
    """Yield why no values are listed, or how exact they are."""
    values, memory = shown.values, memory_results(known)
    if memory is None:
        yield "memory is not known: no buffer assignment, and no schedule to estimate it from"
    elif shown.is_embedded:
        yield "no memory of its own: it runs inside a fusion, a reducer or the like"
    elif values is None:
        yield "memory is not known: other instructions have this name too"
    elif not values.row_count:
        yield "no value in memory has its name"
    elif memory.layout.source == "estimate":
        yield "memory is an estimate (hlo-lens help estimates)"


def _object(shown: ShownInstruction) -> Mapping[str, object]:
    """Return the JSON object of an instruction."""
    details, values = shown.details, shown.values
    instruction, origin, runs = details.instruction, details.origin, details.runs
    place = origin.place
    by_role: dict[str, list[Mapping[str, object]]] = {role: [] for role in _KEYS}
    for one in details.objects():
        by_role[str(one.pop("role"))].append(_without_name(one))
    return {
        "name": instruction.name,
        "opcode": instruction.opcode,
        "shape": instruction.shape_text or None,
        "computation": instruction.computation.name,
        "is_root": instruction.is_root,
        "line": instruction.line,
        "text": details.text,
        "sharding": instruction.attribute("sharding"),
        "dynamic_count": runs.times,
        "is_at_most": runs.is_at_most,
        "loop_path": list(runs.loop_path),
        "position": shown.position,
        "op_name": origin.op_name,
        "source_file": None if place is None else place.file,
        "source_line": None if place is None else place.line,
        "origin_basis": origin.basis,
        "argument": origin.argument,
        "stack": list(stack_texts(details.stack)),
        **{key: by_role[role] for role, key in _KEYS.items()},
        "values": None if values is None else [_without_name(one) for one in values.objects()],
    }


def _without_name(row: Mapping[str, object]) -> Mapping[str, object]:
    """Return a row without the instruction, which the object around it names."""
    return {key: cell for key, cell in row.items() if key != "instruction"}
