"""Instructions of modules: all, those of a computation, or single ones with their neighbours."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.hlo.query import names_printed_as, rows_named
from hlo_lens.load.module import ModuleDump
from hlo_lens.load.programs import Program, Progress, analysis_of, with_progress
from hlo_lens.program.instructions import InstructionDetails, instruction_details, instruction_list
from hlo_lens.program.origins import origins
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.dumps.leading import training_step_first
from hlo_lens.questions.dumps.show_page import ShownInstruction, ShownProgram, instructions_page
from hlo_lens.questions.memory.peak import rows_of_names
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import InstructionValues, instruction_values, memory_roles
from hlo_lens.render.envelope import report_of_pages
from hlo_lens.text.errors import UnknownNameError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.render.table import Report


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
    known = analysis_of(program, module)
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
