"""Number of instructions of each opcode in a module, and the bytes of their results.

Opcodes are as written, async sugar included. Result bytes are logical: the elements of all leaves,
no tiles, no padding, no tuple tables. A tuple repeats the bytes of its elements, so this is the sum
of the printed shapes, not memory; `largest_instructions` leaves the repetitions out.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.columns import END, NAME, NOTHING
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import opcode_totals
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import Origins, origins
from hlo_lens.program.summary import instruction_table
from hlo_lens.render.result import Column, Records, Result, Row, Unit
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.columns import HloOperand
    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.origins import Origin, Origins, Stack
    from hlo_lens.program.runs import CallCounts, Runs


class OpcodeCount(NamedTuple):
    """Instructions with one opcode."""

    opcode: Annotated[str, "opcode as written"]
    instructions: Annotated[int, Unit.COUNT, "how many instructions have it"]
    result_bytes: Annotated[
        int, Unit.BYTES, "bytes of all their results, logical; known sizes only"
    ]
    unknown_sizes: Annotated[int, Unit.COUNT, "how many results are of unknown size"]


@dataclass(frozen=True, kw_only=True)
class Opcodes(Records[OpcodeCount]):
    """Opcode histogram, the most frequent first."""

    KIND: ClassVar[str] = "opcodes"
    TOTALS: ClassVar[tuple[str, ...]] = ("instructions", "result_bytes", "unknown_sizes")
    counts: tuple[OpcodeCount, ...]

    @property
    def unknown_opcodes(self) -> tuple[str, ...]:
        """Opcodes that XLA of August 2026 does not have, by name."""
        return tuple(sorted(c.opcode for c in self.counts if not opcode_traits(c.opcode).is_known))


@fact
def opcodes(module: ModuleDump) -> Opcodes:
    """Return the opcode histogram of a module, most frequent first, then by name."""
    found = opcode_totals(instruction_table(module))
    order = sorted(found, key=lambda opcode: (-found[opcode][0], opcode))
    return Opcodes(counts=tuple(OpcodeCount(opcode, *found[opcode]) for opcode in order))


@dataclass(frozen=True, kw_only=True)
class LargestInstructions(Result):
    """Instructions by the bytes they produce, largest first, unknown sizes last.

    Attributes:
        table: The instructions.
        origins: Origins of their values.
        positions: Positions in the table's `producers`, by bytes.
        total_bytes: Sum of the known bytes.
        unknown_sizes: Number of rows of unknown size.
        left_out_views: Number of instructions that pass on arrays of others.
        left_out_embedded: Number of instructions in computations without buffers of their own.
    """

    KIND: ClassVar[str] = "largest-instructions"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("result_bytes", Unit.BYTES, "bytes of the arrays it produces, logical"),
        Column("name", Unit.NONE, "instruction name"),
        Column("opcode", Unit.NONE, "opcode as written"),
        Column("shape", Unit.NONE, "result shape, without layout"),
        Column("source", Unit.NONE, "source line that it comes from"),
        Column("op_name", Unit.NONE, "scope path of the framework"),
        Column("computation", Unit.NONE, "computation that holds it"),
        Column("origin_basis", Unit.NONE, "way that op_name and source were found"),
    )
    RECORDS: ClassVar[str] = "positions"
    table: InstructionTable
    origins: Origins
    positions: Sequence[int]
    total_bytes: int
    unknown_sizes: int
    left_out_views: int
    left_out_embedded: int

    def rows(self) -> Iterator[Row]:
        """Yield the rows; rows of equal bytes by name."""
        produced, producers = self.table.produced_bytes, self.table.producers
        name = self.table.module.columns.name
        for size, group in groupby(self.positions, key=produced.__getitem__):
            for row in sorted((producers[position] for position in group), key=name):
                one = self.table.instruction(row)
                origin = self.origins.of_row(row)
                where = origin.source, origin.op_name, one.computation.name, origin.basis
                yield (size, one.name, one.opcode, _shape_text(one), *where)

    def totals(self) -> Mapping[str, int]:
        """Return the sum of the known bytes."""
        return {"result_bytes": self.total_bytes}


@fact
def largest_instructions(module: ModuleDump) -> LargestInstructions:
    """Return the instructions that produce arrays, by bytes."""
    table = instruction_table(module)
    sizes = [-1 if size is None else size for size in table.produced_bytes]
    return LargestInstructions(
        table=table,
        origins=origins(module),
        positions=array("I", sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True)),
        total_bytes=sum(size for size in table.produced_bytes if size is not None),
        unknown_sizes=sizes.count(-1),
        left_out_views=table.left_out_views,
        left_out_embedded=table.left_out_embedded,
    )


def _shape_text(instruction: HloInstruction) -> str | None:
    """Return the shape without layout; as written if it cannot be parsed."""
    try:
        shape = instruction.shape
    except DumpSyntaxError:
        return instruction.shape_text
    return None if shape is None else shape.to_text(layout=False)


class SourceLine(NamedTuple):
    """Bytes that the instructions of one source line produce."""

    source_file: Annotated[str, "file of the user's program"]
    source_line: Annotated[int | None, "1-based line in it"]
    result_bytes: Annotated[int, Unit.BYTES, "bytes its instructions produce, logical"]
    instructions: Annotated[int, Unit.COUNT, "how many instructions produce them"]


@dataclass(frozen=True, kw_only=True)
class SourceBytes(Records[SourceLine]):
    """Source lines by the bytes that their instructions produce, largest first.

    Attributes:
        lines: The lines.
        parameters: Bytes and number of the program's parameters without a place.
        unattributed: Bytes and number of all others without a place.
        unknown_sizes: Number of counted instructions of unknown size.
    """

    KIND: ClassVar[str] = "source-bytes"
    TOTALS: ClassVar[tuple[str, ...]] = ("result_bytes", "instructions")
    lines: tuple[SourceLine, ...]
    parameters: tuple[int, int]
    unattributed: tuple[int, int]
    unknown_sizes: int

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the rows of instructions without a place."""
        return (
            ("[parameters]", None, *self.parameters),
            ("[unattributed]", None, *self.unattributed),
        )


@fact
def source_bytes(module: ModuleDump) -> SourceBytes:
    """Return the source lines of a module by the bytes they produce, then by file and line."""
    table, place_of = instruction_table(module), origins(module).place
    found: defaultdict[tuple[str, int | None], list[int]] = defaultdict(lambda: [0, 0])
    parameters = [0, 0]
    unattributed = [0, 0]
    for row, size in zip(table.producers, table.produced_bytes, strict=True):
        place = place_of(row)
        if place is not None:
            entry = found[place.file, place.line]
        elif table.opcodes[row] == "parameter":
            entry = parameters
        else:
            entry = unattributed
        entry[0] += size or 0
        entry[1] += 1
    lines = [SourceLine(file, line, size, count) for (file, line), (size, count) in found.items()]
    return SourceBytes(
        lines=tuple(
            sorted(
                lines, key=lambda one: (-one.result_bytes, one.source_file, one.source_line or 0)
            )
        ),
        parameters=(parameters[0], parameters[1]),
        unattributed=(unattributed[0], unattributed[1]),
        unknown_sizes=list(table.produced_bytes).count(None),
    )


@dataclass(frozen=True, kw_only=True)
class InstructionList(Result):
    """Instructions with their origins.

    Attributes:
        module: The module.
        origins: Origins of its values.
        listed: Rows of the instructions, in their final order.
    """

    KIND: ClassVar[str] = "instructions"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("name", Unit.NONE, "instruction name"),
        Column("opcode", Unit.NONE, "opcode as written"),
        Column("shape", Unit.NONE, "result shape, as written"),
        Column("source", Unit.NONE, "source line that it comes from"),
        Column("op_name", Unit.NONE, "scope path of the framework"),
        Column("computation", Unit.NONE, "computation that holds it"),
        Column("users", Unit.COUNT, "instructions that use its result"),
        Column("origin_basis", Unit.NONE, "way that op_name and source were found"),
    )
    RECORDS: ClassVar[str] = "listed"
    module: HloModule = field(repr=False)
    origins: Origins = field(repr=False)
    listed: Sequence[int] = field(repr=False)

    def rows(self) -> Iterator[Row]:
        """Yield the rows."""
        module = self.module
        owners, names = module.links.owners, module.computation_names
        for row in self.listed:
            origin = self.origins.of_row(row)
            yield (
                module.columns.name(row),
                module.opcodes[row],
                module.shape_texts[row],
                origin.source,
                origin.op_name,
                names[owners[row]],
                len(users_of(module, row)),
                origin.basis,
            )


def instruction_list(
    module: HloModule, origins: Origins, computation: str | None = None
) -> InstructionList:
    """Return the instructions of a computation; for None all, those of the entry first."""
    listed: Sequence[int] = entry_first(module, range(len(module.columns)))
    if computation is not None:
        found = module.computation(computation)
        listed = () if found is None else found.rows
    return InstructionList(module=module, origins=origins, listed=listed)


def entry_first(module: HloModule, rows: Sequence[int]) -> list[int]:
    """Return rows in text order, those of the entry before the others."""
    owners, entry = module.links.owners, module.entry.place if module.has_entry else NOTHING
    return sorted(rows, key=lambda row: (owners[row] != entry, row))


def users_of(module: HloModule, row: int) -> list[int]:
    """Return the rows of the instructions that use a result, each once, in text order."""
    return list(dict.fromkeys(user for user, _ in module.links.users_of(row)))


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
