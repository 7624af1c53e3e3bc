"""Pages of ``hlo-lens show``: instructions as a list, and single ones with what is around them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.hlo.query import names_printed_as, rows_named
from hlo_lens.load.module import ModuleDump
from hlo_lens.load.programs import Program, Progress, one_module, with_progress
from hlo_lens.program.instructions import (
    CALLED,
    CALLER,
    OPERAND,
    PREDECESSOR,
    USER,
    InstructionDetails,
    instruction_details,
    instruction_list,
)
from hlo_lens.program.origins import origins, stack_texts
from hlo_lens.program.pages import module_head, page_without_hlo, with_marks
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.dumps.groups import training_step_first
from hlo_lens.questions.memory.peak import rows_of_names
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import InstructionValues, instruction_values, memory_roles
from hlo_lens.render.envelope import ModulePage, report_of_pages
from hlo_lens.render.table import Section, Sections, Table
from hlo_lens.text.errors import UnknownNameError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import format_count, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.instructions import InstructionList
    from hlo_lens.questions.memory.roles import InstructionValues
    from hlo_lens.render.table import Report


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
            "rows": [row for found in shown.lists.values() for row in found.objects()],
        },
    )


def _sections(shown: ShownProgram) -> Iterator[Section]:
    for one in shown.instructions:
        yield _details_section(shown.known, one)
    for name, found in shown.lists.items():
        yield _list_section(shown.known, name, found)


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


def instruction(program: Program, name: str, *, module: str | None = None) -> InstructionDetails:
    """Return an instruction of a module with its origin, and what is next to it.

    >>> import hlo_lens
    >>> found = hlo_lens.instruction("sample_dumps/tpu/tp_mlp", "all-reduce.11")
    >>> found.instruction.opcode, found.origin.source, found.runs.times
    ('all-reduce', 'programs/tp_mlp.py:34', 4)
    >>> found.to_frame()["role"].tolist()
    ['operand', 'user', 'called', 'caller']

    Args:
        program: A path, HLO text, or what was read from either.
        name: Its name as printed: with or without ``%``; of several of a name, the first.
        module: Regular expression for the name of the module, where there are several.

    Raises:
        UnknownNameError: If there is none.
    """
    known = one_module(program, module)
    rows = list(_rows(known, name))
    if not rows:
        raise _unknown(name, [known])
    return instruction_details(hlo_text(known), rows[0], origins(known), call_counts(known))


def show_report(
    modules: Sequence[ModuleDump], names: Sequence[str] = (), *, progress: Progress | None = None
) -> Report:
    """Return the report on instructions of some modules.

    Args:
        modules: The modules.
        names: Instructions and computations, as tables print them; none for all instructions.
        progress: Called with modules done and modules in all.

    Raises:
        UnknownNameError: If no module has one of the names.
    """
    shown = [_shown(one, names) for one in with_progress(modules, progress)]
    if names:
        for name in names:
            if not any(_has(one, name) for one in modules):
                raise _unknown(name, modules)
        shown = [one for one in shown if one.instructions or one.lists]
    pages = map(instructions_page, shown)
    return report_of_pages("show", pages, partial(training_step_first, [s.known for s in shown]))


def _has(known: ModuleDump, name: str) -> bool:
    return known.has_hlo and (
        next(_rows(known, name), None) is not None or hlo_text(known).computation(name) is not None
    )


def _shown(known: ModuleDump, names: Sequence[str]) -> ShownProgram:
    """Return the instructions and computations of some names, all instructions for none."""
    if not known.has_hlo:
        return ShownProgram(known=known)
    module = hlo_text(known)
    if not names:
        return ShownProgram(known=known, lists={None: instruction_list(module, origins(known))})
    rows = list(dict.fromkeys(row for name in names for row in _rows(known, name)))
    computations = (name.removeprefix("%") for name in names if not any(_rows(known, name)))
    return ShownProgram(
        known=known,
        instructions=_instructions(known, rows),
        lists={
            name: instruction_list(module, origins(known), name)
            for name in computations
            if module.computation(name) is not None
        },
    )


def _rows(known: ModuleDump, name: str) -> Iterator[int]:
    """Yield the rows of the instructions that a printed name means.

    Raises:
        UnknownNameError: If it is the end of several names.
    """
    if not known.has_hlo:
        return
    module = hlo_text(known)
    plain = name.strip().removeprefix("%")
    names = {plain.partition("{")[0]}
    if plain.startswith("..."):
        names = set(names_printed_as(name, set(module.columns.names(range(len(module.columns))))))
        if len(names) > 1:
            found = f"{plural(len(names), 'name')}: {listed(sorted(names), 4)}"
            raise UnknownNameError(f"{name} is the end of {found}")
    yield from (row for row, _ in rows_named(module, names))


def _unknown(name: str, known: Sequence[ModuleDump]) -> UnknownNameError:
    names = (
        text
        for one in known
        if one.has_hlo
        for columns in (hlo_text(one).columns,)
        for text in (*columns.names(range(len(columns))), *hlo_text(one).computation_names)
    )
    hint = did_you_mean(name.removeprefix("%"), names) or "; see hlo-lens show PATH -n 0"
    return UnknownNameError(f"no instruction or computation is named {name!r}{hint}")


def _instructions(known: ModuleDump, rows: Sequence[int]) -> list[ShownInstruction]:
    """Return instructions with their values and instants."""
    module = hlo_text(known)
    found = [instruction_details(module, row, origins(known), call_counts(known)) for row in rows]
    firsts = rows_of_names(module, {one.instruction.name for one in found})
    positions = _positions(known, firsts)
    reached: frozenset[int] = frozenset()
    if module.has_entry:
        start = module.entry.place
        reached = frozenset(module.links.reached(start, lambda traits: traits.is_control_flow))
    shown = []
    for row, details in zip(rows, found, strict=True):
        is_first = firsts[details.instruction.name] == row
        shown.append(
            ShownInstruction(
                details=details,
                values=_values(known, details) if is_first else None,
                position=positions.get(details.instruction.name) if is_first else None,
                is_embedded=details.instruction.computation.place not in reached,
            )
        )
    return shown


def _values(known: ModuleDump, details: InstructionDetails) -> InstructionValues | None:
    memory, roles = memory_results(known), memory_roles(known)
    if memory is None or roles is None:
        return None
    return instruction_values(memory, roles, details.instruction, origins(known).steps)


def _positions(known: ModuleDump, names: Mapping[str, int]) -> Mapping[str, int]:
    """Return the instants at which instructions of some names run."""
    memory = memory_results(known)
    schedule = None if memory is None else memory.layout.schedule
    return {name: k for k, name in enumerate(schedule or ()) if name in names}
