"""Memory of the result of an instruction: the values that it defines, and those it passes on.

Tuples, views, calls and loops pass values on; such a value is listed with the instruction that
defines it (`ValueFlow.definition`). Instructions inside fusions and reducers have no memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from hlo_lens.program.value_flow import Value
from hlo_lens.questions.memory.statement import space_name
from hlo_lens.render.result import Column, Result, Unit
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.program.value_flow import ValueFlow
    from hlo_lens.questions.memory.layout import LaidValue
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.memory.roles import MemoryRoles
    from hlo_lens.shapes.shape import ShapeIndex

_MOST_ELEMENTS = 4096
"""Elements of a tuple that are followed to their definitions."""


class InstructionValue(NamedTuple):
    """Value in memory; fields are columns of `InstructionValues`."""

    instruction: str
    value: str
    size_bytes: int
    is_own: bool
    space: str
    category: str
    role: str
    basis: str
    allocation: int
    offset: int
    start: int | None
    end: int | None
    shape: str


@dataclass(frozen=True, kw_only=True)
class InstructionValues(Result):
    """Values of the result of an instruction."""

    KIND: ClassVar[str] = "instruction-values"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("instruction", Unit.NONE, "the instruction"),
        Column("value", Unit.NONE, "instruction that defines it, and shape index"),
        Column("size_bytes", Unit.BYTES, "bytes it holds, padding included"),
        Column("is_own", Unit.NONE, "whether the instruction defines it, or only passes it on"),
        Column("space", Unit.NONE, "memory space"),
        Column("category", Unit.NONE, "use of its allocation: argument, output, temp, ..."),
        Column("role", Unit.NONE, "role of the value"),
        Column("basis", Unit.NONE, "evidence for the role"),
        Column("allocation", Unit.NONE, "index of the allocation"),
        Column("offset", Unit.NONE, "first byte in its allocation"),
        Column("start", Unit.NONE, "first instant of its live range"),
        Column("end", Unit.NONE, "last instant, inclusive"),
        Column("shape", Unit.NONE, "its shape with layout"),
    )
    RECORDS: ClassVar[str] = "values"
    values: tuple[InstructionValue, ...]


def instruction_values(
    memory: MemoryResults, roles: MemoryRoles, instruction: HloInstruction, steps: ValueFlow
) -> InstructionValues:
    """Return the values of an instruction's result, in the order of its elements.

    Args:
        memory: Memory of the module.
        roles: Roles of its values.
        instruction: The instruction; of several of its name, one in the first computation.
        steps: Steps between the values of the module.
    """
    known = {value.name: value for value in memory.layout.values}
    allocations = {one.index: one for one in memory.layout.allocations}
    names = dict.fromkeys(_own_names(instruction, known))
    for index in _indices(instruction):
        before = steps.definition(Value(instruction.row, index))
        maker = instruction.computation.module.columns.name(before.row)
        names[f"{maker}{{{','.join(map(str, before.element))}}}"] = None
    found = [known[name] for name in names if name in known]
    values = [
        InstructionValue(
            instruction=instruction.name,
            value=one.name,
            size_bytes=one.size,
            is_own=one.instruction_name == instruction.name,
            space=space_name(allocations[one.allocation].color, memory.backend),
            category=allocations[one.allocation].category,
            role=role.role,
            basis=role.basis,
            allocation=one.allocation,
            offset=one.offset,
            start=one.start,
            end=one.end,
            shape=one.shape_text,
        )
        for one in found
        for role in (roles.of_value(one.name, one.allocation),)
    ]
    return InstructionValues(values=tuple(values))


def _own_names(instruction: HloInstruction, known: Mapping[str, LaidValue]) -> Iterator[str]:
    """Yield the names of the values that an instruction defines."""
    yield from (k for k, one in known.items() if one.instruction_name == instruction.name)


def _indices(instruction: HloInstruction) -> Iterator[ShapeIndex]:
    """Yield the indices of the leaves of a result."""
    try:
        shape = instruction.shape
    except DumpSyntaxError:
        shape = None
    if shape is not None:
        yield from (index for index, _ in islice(shape.leaves(), _MOST_ELEMENTS))
