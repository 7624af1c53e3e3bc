"""One instruction of a program: its origin, its runs, and the instructions around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.columns import END, NAME, NOTHING
from hlo_lens.render.result import Records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.columns import HloOperand
    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.call_counts import CallCounts, Runs
    from hlo_lens.program.origin import Origin
    from hlo_lens.program.origins import Origins
    from hlo_lens.program.source_places import Stack

OPERAND, USER, PREDECESSOR = "operand", "user", "predecessor"
CALLED, CALLER = "called", "caller"


class AdjacentPart(NamedTuple):
    """Instruction or computation next to an instruction; fields are columns of the details."""

    instruction: Annotated[str, "the instruction itself"]
    role: Annotated[str, "operand, user, control predecessor, called computation or caller"]
    place: Annotated[
        str,
        "number of the operand, with the index of a tuple's element; or the attribute that "
        "names the computation",
    ]
    name: Annotated[str, "instruction, or computation"]
    opcode: Annotated[str | None, "opcode as written; of a computation that of its root"]
    shape: Annotated[str | None, "result shape, as written"]
    source: Annotated[str | None, "source line that it comes from"]
    op_name: Annotated[str | None, "scope path of the framework"]
    origin_basis: Annotated[str | None, "way that op_name and source were found"]


@dataclass(frozen=True, kw_only=True)
class InstructionDetails(Records[AdjacentPart]):
    """One instruction, and what is next to it.

    Attributes:
        instruction: The instruction.
        origin: Its origin in the user's program.
        stack: Python call stack of the origin, innermost first.
        runs: Runs of its computation in one run of the program.
        adjacent: Operands, users, control predecessors, called computations, and callers of its
            computation.
    """

    KIND: ClassVar[str] = "instruction"
    adjacent: tuple[AdjacentPart, ...] = field(repr=False)
    instruction: HloInstruction
    origin: Origin
    stack: Stack
    runs: Runs

    @property
    def text(self) -> str:
        """The instruction as written."""
        columns = self.instruction.computation.module.columns
        return columns.text(self.instruction.row, NAME, END)


def instruction_details(
    module: HloModule, row: int, origins: Origins, calls: CallCounts
) -> InstructionDetails:
    """Return the details of the instruction of a row."""
    instruction = module.instruction(row)
    origin = origins.of_row(row)
    return InstructionDetails(
        instruction=instruction,
        origin=origin,
        stack=origins.stack(origin),
        runs=calls.at(instruction.computation.place),
        adjacent=tuple(_Adjacent(instruction, origins).parts()),
    )


class _Adjacent:
    """Parts of a module next to an instruction."""

    def __init__(self, instruction: HloInstruction, origins: Origins) -> None:
        self._instruction = instruction
        self._module = instruction.computation.module
        self._origins = origins

    def parts(self) -> Iterator[AdjacentPart]:
        """Yield operands, users, control predecessors, called computations and callers."""
        instruction, links = self._instruction, self._module.links
        row = instruction.row
        pairs = zip(instruction.operands, links.operands_of(row), strict=False)
        for number, (operand, found) in enumerate(pairs):
            yield self._row(OPERAND, _operand_place(number, operand), found, operand.name)
        for user, number in links.users_of(row):
            yield self._row(USER, str(number), user)
        for name in instruction.control_predecessors:
            before = instruction.computation.instruction(name)
            yield self._row(PREDECESSOR, "", NOTHING if before is None else before.row, name)
        for role, name in instruction.calls:
            called = self._module.computation(name)
            root = NOTHING if called is None else called.root_row
            yield self._row(CALLED, role, root)._replace(name=name)
        for call in links.calls.of_computation(instruction.computation.place):
            yield self._row(CALLER, call.role, call.row)

    def _row(self, role: str, place: str, row: int, name: str = "") -> AdjacentPart:
        """Return the instruction of a row; its name alone if the text does not define it."""
        own = self._instruction.name
        if row == NOTHING:
            return AdjacentPart(own, role, place, name, None, None, None, None, None)
        module, origin = self._module, self._origins.of_row(row)
        return AdjacentPart(
            own,
            role,
            place,
            module.columns.name(row),
            module.opcodes[row],
            module.shape_texts[row] or None,
            origin.source,
            origin.op_name,
            origin.basis,
        )


def _operand_place(number: int, operand: HloOperand) -> str:
    """Return the number of an operand, with the element of a tuple that it is.

    >>> from hlo_lens.hlo.columns import HloOperand
    >>> _operand_place(1, HloOperand(name="w", index=(2,)))
    '1{2}'
    """
    return f"{number}{{{','.join(map(str, operand.index))}}}" if operand.index else str(number)
