"""Pages of ``hlo-lens show``: instructions as a list, and single ones with what is around them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.query import names_printed_as, rows_named
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
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.memory.peak import rows_of_names
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import InstructionValues, instruction_values, memory_roles
from hlo_lens.render.table import Section, Sections, Table
from hlo_lens.render.to_json import ModulePage
from hlo_lens.text.errors import UnknownNameError
from hlo_lens.text.names import did_you_mean, matches
from hlo_lens.text.units import Amount, Kind, listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloComputation
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.instructions import InstructionList

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


# ---- names --------------------------------------------------------------------------------------


def details_of(module: ModuleDump, name: str) -> InstructionDetails:
    """Return the first instruction of a printed name, and what is next to it.

    Raises:
        UnknownNameError: If there is none.
    """
    row = next(_rows(module, name), None)
    if row is None:
        raise _unknown(name, [module])
    return instruction_details(hlo_text(module), row, origins(module), call_counts(module))


def modules_with(modules: Sequence[ModuleDump], names: Sequence[str]) -> Sequence[ModuleDump]:
    """Return the modules that have an instruction or computation of some names; all for none.

    Raises:
        UnknownNameError: If no module has one of the names.
    """
    having: set[int] = set()
    for name in names:
        places = {k for k, module in enumerate(modules) if _has(module, name)}
        if not places:
            raise _unknown(name, modules)
        having |= places
    return [modules[k] for k in sorted(having)] if names else modules


def _has(module: ModuleDump, name: str) -> bool:
    is_instruction = next(_rows(module, name), None) is not None
    return is_instruction or (module.has_hlo and hlo_text(module).computation(name) is not None)


def _rows(module: ModuleDump, name: str) -> Iterator[int]:
    """Yield the rows of the instructions, or of the leaves of an argument, that a name means.

    Raises:
        UnknownNameError: If it is the end of several names.
    """
    if not module.has_hlo:
        return
    hlo = hlo_text(module)
    plain = name.strip().removeprefix("%")
    names = {plain.partition("{")[0]}
    if plain.startswith("..."):
        names = set(names_printed_as(name, set(hlo.columns.names(range(len(hlo.columns))))))
        if len(names) > 1:
            ends = f"{plural(len(names), 'name')}: {listed(sorted(names), 4)}"
            raise UnknownNameError(f"{name} is the end of {ends}")
    rows = [row for row, _ in rows_named(hlo, names)]
    yield from rows
    if not rows:
        named = entry_signature(module).parameters
        numbers = {one.number for one in named if one.name and matches(name.strip(), one.name)}
        parameters = hlo.entry.parameters
        yield from (one.row for one in parameters if one.parameter_number in numbers)


def _unknown(name: str, modules: Sequence[ModuleDump]) -> UnknownNameError:
    texts = [hlo_text(module) for module in modules if module.has_hlo]
    names = (
        printed
        for text in texts
        for printed in (*text.columns.names(range(len(text.columns))), *text.computation_names)
    )
    hint = did_you_mean(name.removeprefix("%"), names) or "; see hlo-lens show PATH -n 0"
    return UnknownNameError(f"no instruction, computation or argument is named {name!r}{hint}")


# ---- pages --------------------------------------------------------------------------------------


def pages(modules: Iterable[ModuleDump], *, names: Sequence[str] = ()) -> Iterator[ModulePage]:
    """Yield a page for each module."""
    for module in modules:
        if not module.has_hlo:
            yield page_without_hlo(module, instructions=None, rows=None)
            continue
        hlo, steps = hlo_text(module), origins(module)
        rows = dict.fromkeys(row for name in names for row in _rows(module, name))
        lists: dict[str | None, InstructionList] = {}
        for name in (name.removeprefix("%") for name in names):
            if next(_rows(module, name), None) is None and hlo.computation(name) is not None:
                lists[name] = instruction_list(hlo, steps, name)
        if not names:
            lists[None] = instruction_list(hlo, steps)
        shown = [*_shown(module, list(rows))]
        yield ModulePage(
            sections=Sections(partial(_sections, module, shown, lists)),
            make_object=partial(_object, module, shown, lists),
        )


class _Shown(NamedTuple):
    """One instruction as a page shows it.

    Its values in memory are None where memory is not known, or not that of this one of several
    instructions of its name; its instant is None outside of the schedule. An embedded one is inside
    a fusion or reducer, and has no memory of its own.
    """

    details: InstructionDetails
    values: InstructionValues | None
    position: int | None
    is_embedded: bool


def _shown(module: ModuleDump, rows: Sequence[int]) -> Iterator[_Shown]:
    if not rows:
        return
    hlo, steps, counts = hlo_text(module), origins(module), call_counts(module)
    memory, roles = memory_results(module), memory_roles(module)
    first_rows = rows_of_names(hlo, {hlo.columns.name(row) for row in rows})
    schedule = () if memory is None else memory.layout.schedule or ()
    positions = {name: k for k, name in enumerate(schedule) if name in first_rows}
    reached: frozenset[int] = frozenset()
    if hlo.has_entry:
        start = hlo.entry.place
        reached = frozenset(hlo.links.reached(start, lambda traits: traits.is_control_flow))
    for row in rows:
        details = instruction_details(hlo, row, steps, counts)
        instruction = details.instruction
        values = position = None
        if first_rows[instruction.name] == row:  # figures of a name are those of its first row
            position = positions.get(instruction.name)
            if memory is not None and roles is not None:
                values = instruction_values(memory, roles, instruction, steps.steps)
        yield _Shown(details, values, position, instruction.computation.place not in reached)


def _sections(
    module: ModuleDump,
    shown: Sequence[_Shown],
    lists: Mapping[str | None, InstructionList],
) -> Iterator[Section]:
    for one in shown:
        note = _memory_note(module, one)
        yield Section(
            title=module.name,
            facts=tuple(_facts(module, one)),
            tables=tuple(_tables(one)),
            notes=(note,) if note else (),
        )
    hlo = hlo_text(module)
    for name, instructions in lists.items():
        computation = None if name is None else hlo.computation(name)
        facts = [("module", module.stage or "stage unknown")]
        columns = ["name", "opcode", "shape", "source", "users"]
        title = "Instructions in the order of the text"
        if computation is None:
            columns.insert(4, "computation")
            title += ", those of the entry first"
            count = plural(len(hlo.columns), "instruction")
            facts.append(("size", f"{count} in {plural(len(hlo.computations), 'computation')}"))
        else:
            facts.append(("computation", _runs_text(module, computation)))
            calls = hlo.links.calls.of_computation(computation.place)
            callers = [f"{hlo.columns.name(call.row)} ({call.role})" for call in calls]
            if callers:
                facts.append(("called by", listed(callers, 4)))
            if computation.root is not None:
                facts.append(("root", computation.root.name))
        table = with_marks(Table.of(instructions, title=title, shown=columns))
        yield Section(title=module.name, facts=tuple(facts), tables=(table,))


def _facts(module: ModuleDump, shown: _Shown) -> Iterator[tuple[str, str]]:
    details = shown.details
    instruction, origin = details.instruction, details.origin
    yield "module", module.stage or "stage unknown"
    root = ", the root of its computation" if instruction.is_root else ""
    yield "instruction", f"{instruction.name}, {instruction.opcode}{root}"
    yield "shape", instruction.shape_text or "not known"
    yield "in", _runs_text(module, instruction.computation)
    memory = memory_results(module)
    if shown.position is not None and memory is not None:
        yield "instant", f"{shown.position:,} of {len(memory.layout.schedule or ()):,}"
    argument = None if origin.argument == origin.op_name else origin.argument
    source = None if origin.source is None else origin.marked_source or ""
    for label, text in (("source", source), ("operation", origin.op_name), ("argument", argument)):
        if text is not None:
            yield label, text
    for number, frame in enumerate(stack_texts(details.stack)):
        yield "" if number else "stack", frame
    sharding = instruction.attribute("sharding")
    if sharding is not None:
        yield "sharding", sharding
    text = details.text
    more = len(text) - LONGEST_TEXT
    cut = f" ... [{plural(more, 'more character')}; -f json has all]" if more > 0 else ""
    yield f"line {instruction.line}", f"{text[:LONGEST_TEXT]}{cut}"


def _runs_text(module: ModuleDump, computation: HloComputation) -> str:
    entry = ", the entry" if computation.is_entry else ""
    runs = call_counts(module).of(computation.name)
    loops = f" in {' > '.join(runs.loop_path)}" if runs.loop_path else ""
    times = "runs not known"
    if runs.times is not None:
        amount = Amount(runs.times, Kind.AT_MOST if runs.is_at_most else Kind.EXACT)
        times = f"{amount} {'run' if runs.times == 1 else 'runs'}"
    return f"{computation.name}{entry}, {times}{loops}"


def _tables(shown: _Shown) -> Iterator[Table]:
    columns = ("role", "place", "name", "opcode", "shape", "source")
    table = Table.of(shown.details, title="Operands, users and computations", shown=columns)
    yield with_marks(replace(table, kept=("role", "place")))
    values = shown.values
    if values is not None and values.row_count:
        columns = ("value", "size_bytes", "role", "space", "category", "allocation")
        others = sum(not value.is_own for value in values.values)
        note = f"{plural(others, 'value')} that it passes on, of other instructions"
        yield Table.of(
            values,
            title="Its values in memory",
            shown=(*columns, "offset", "start", "end"),
            notes=(note,) if others else (),
        )


def _memory_note(module: ModuleDump, shown: _Shown) -> str:
    values, memory = shown.values, memory_results(module)
    if memory is None:
        return "memory is not known: no buffer assignment, and no schedule to estimate it from"
    if shown.is_embedded:
        return "no memory of its own: it runs inside a fusion, a reducer or the like"
    if values is None:
        return "memory is not known: other instructions have this name too"
    if not values.row_count:
        return "no value in memory has its name"
    is_estimate = memory.layout.source == "estimate"
    return "memory is an estimate (hlo-lens help estimates)" if is_estimate else ""


def _object(
    module: ModuleDump,
    shown: Sequence[_Shown],
    lists: Mapping[str | None, InstructionList],
) -> Mapping[str, object]:
    return {
        **module_head(module),
        "instructions": [_instruction_object(one) for one in shown],
        "rows": [row for instructions in lists.values() for row in instructions.objects()],
    }


def _instruction_object(shown: _Shown) -> Mapping[str, object]:
    details, values = shown.details, shown.values
    instruction, origin, runs = details.instruction, details.origin, details.runs
    place = origin.place
    rows: dict[str, list[Mapping[str, object]]] = {key: [] for key in (*_KEYS.values(), "")}
    for one in (*details.objects(), *(() if values is None else values.objects())):
        role = _KEYS.get(str(one.get("role")), "")
        own = ("instruction", "role") if role else ("instruction",)
        rows[role].append({key: cell for key, cell in one.items() if key not in own})
    of_values = rows.pop("")
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
        **rows,
        "values": None if values is None else of_values,
    }
