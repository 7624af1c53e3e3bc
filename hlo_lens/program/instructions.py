"""Instructions of a module: number and bytes by opcode, by source line, and one by one.

Bytes are logical: the elements of all leaves of a result, no tiles, no padding, no tuple tables.

* `opcodes`: opcodes as written, async sugar included. A tuple repeats the bytes of its elements, so
  their sum is that of the printed shapes, not memory.
* `largest_instructions`, `source_bytes`: the arrays that an instruction itself produces. Left out
  are views, which pass on arrays of others (tuple, get-tuple-element, bitcast, while, conditional,
  call, ``-done``, inner parameters; see `InstructionTable`), and instructions of embedded
  computations (fusions, reducers), whose values never reach memory. Of a ``-start`` only the array
  that it produces counts, not the operand that its tuple repeats. Parameters and constants of the
  program itself count. In-place operations (dynamic-update-slice, aliased fusions and custom calls)
  share their operand's buffer, which only a buffer assignment shows: the sum is no memory figure.
* A fusion has the metadata of one of its instructions, so its bytes count for that source line.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.columns import END, NAME, NOTHING
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.query import opcode_totals
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import Origins, origins
from hlo_lens.program.summary import instruction_table
from hlo_lens.render.result import Records, Row, Unit
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
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


class LargestInstruction(NamedTuple):
    """An instruction that produces arrays."""

    result_bytes: Annotated[int | None, Unit.BYTES, "bytes of the arrays it produces, logical"]
    name: Annotated[str, "instruction name"]
    opcode: Annotated[str, "opcode as written"]
    shape: Annotated[str | None, "result shape, without layout"]
    source: Annotated[str | None, "source line that it comes from"]
    op_name: Annotated[str | None, "scope path of the framework"]
    computation: Annotated[str, "computation that holds it"]
    origin_basis: Annotated[str | None, "way that op_name and source were found"]


@dataclass(frozen=True, kw_only=True)
class LargestInstructions(Records[LargestInstruction]):
    """Instructions by the bytes they produce, largest first, unknown sizes last."""

    KIND: ClassVar[str] = "largest-instructions"
    positions: Sequence[int]
    """Positions in the table's `producers`, by bytes."""
    table: InstructionTable
    origins: Origins
    total_bytes: int  # known ones
    unknown_sizes: int
    left_out_views: int
    left_out_embedded: int
    """Number of instructions in computations without buffers of their own."""

    def rows(self) -> Iterator[Row]:
        """Yield the rows; rows of equal bytes by name."""
        produced, producers = self.table.produced_bytes, self.table.producers
        name = self.table.module.columns.name
        for size, group in groupby(self.positions, key=produced.__getitem__):
            for row in sorted((producers[position] for position in group), key=name):
                instruction, origin = self.table.instruction(row), self.origins.of_row(row)
                try:
                    shape = instruction.shape
                    text = None if shape is None else shape.to_text(layout=False)
                except DumpSyntaxError:
                    text = instruction.shape_text
                yield LargestInstruction(
                    result_bytes=size,
                    name=instruction.name,
                    opcode=instruction.opcode,
                    shape=text,
                    source=origin.source,
                    op_name=origin.op_name,
                    computation=instruction.computation.name,
                    origin_basis=origin.basis,
                )

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


class SourceLine(NamedTuple):
    """Bytes that the instructions of one source line produce."""

    source_file: Annotated[str, "file of the user's program"]
    source_line: Annotated[int | None, "1-based line in it"]
    result_bytes: Annotated[int, Unit.BYTES, "bytes its instructions produce, logical"]
    instructions: Annotated[int, Unit.COUNT, "how many instructions produce them"]


@dataclass(frozen=True, kw_only=True)
class SourceBytes(Records[SourceLine]):
    """Source lines by the bytes that their instructions produce, largest first."""

    KIND: ClassVar[str] = "source-bytes"
    TOTALS: ClassVar[tuple[str, ...]] = ("result_bytes", "instructions")
    lines: tuple[SourceLine, ...]
    parameters: tuple[int, int]
    """Bytes and number of the program's parameters without a place."""
    unattributed: tuple[int, int]
    """Bytes and number of all others without a place."""
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
    sizes: Counter[tuple[str, int | None]] = Counter()
    counts: Counter[tuple[str, int | None]] = Counter()
    for row, size in zip(table.producers, table.produced_bytes, strict=True):
        place = place_of(row)
        nameless = "[parameters]" if table.opcodes[row] == "parameter" else "[unattributed]"
        key = (nameless, None) if place is None else (place.file, place.line)
        sizes[key] += size or 0
        counts[key] += 1
    parameters, unattributed = (
        (sizes[name, None], counts.pop((name, None), 0))
        for name in ("[parameters]", "[unattributed]")
    )
    lines = [SourceLine(file, line, sizes[file, line], n) for (file, line), n in counts.items()]
    lines.sort(key=lambda line: (-line.result_bytes, line.source_file, line.source_line or 0))
    return SourceBytes(
        lines=tuple(lines),
        parameters=parameters,
        unattributed=unattributed,
        unknown_sizes=list(table.produced_bytes).count(None),
    )


class ListedInstruction(NamedTuple):
    """An instruction with its origin."""

    name: Annotated[str, "instruction name"]
    opcode: Annotated[str, "opcode as written"]
    shape: Annotated[str, "result shape, as written"]
    source: Annotated[str | None, "source line that it comes from"]
    op_name: Annotated[str | None, "scope path of the framework"]
    computation: Annotated[str, "computation that holds it"]
    users: Annotated[int, Unit.COUNT, "instructions that use its result"]
    origin_basis: Annotated[str | None, "way that op_name and source were found"]


@dataclass(frozen=True, kw_only=True)
class InstructionList(Records[ListedInstruction]):
    """Instructions with their origins, each made when it is read."""

    KIND: ClassVar[str] = "instructions"
    listed: Sequence[ListedInstruction] = field(repr=False)


def instruction_list(
    module: HloModule, origins: Origins, computation: str | None = None
) -> InstructionList:
    """Return the instructions of a computation; for None all, those of the entry first."""
    rows: Sequence[int] = entry_first(module, range(len(module.columns)))
    if computation is not None:
        listed = module.computation(computation)
        rows = () if listed is None else listed.rows

    def read(row: int) -> ListedInstruction:
        origin = origins.of_row(row)
        return ListedInstruction(
            name=module.columns.name(row),
            opcode=module.opcodes[row],
            shape=module.shape_texts[row],
            source=origin.source,
            op_name=origin.op_name,
            computation=module.computation_names[module.links.owners[row]],
            users=len(users_of(module, row)),
            origin_basis=origin.basis,
        )

    return InstructionList(listed=Rows(read, rows))


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
    opcode: Annotated[str | None, "opcode as written; of a computation that of its root"] = None
    shape: Annotated[str | None, "result shape, as written"] = None
    source: Annotated[str | None, "source line that it comes from"] = None
    op_name: Annotated[str | None, "scope path of the framework"] = None
    origin_basis: Annotated[str | None, "way that op_name and source were found"] = None


@dataclass(frozen=True, kw_only=True)
class InstructionDetails(Records[AdjacentPart]):
    """One instruction, with its origin, and what is next to it."""

    KIND: ClassVar[str] = "instruction"
    adjacent: tuple[AdjacentPart, ...] = field(repr=False)
    """Operands, users, control predecessors, called computations, callers of its computation."""
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
    instruction, links = module.instruction(row), module.links
    origin = origins.of_row(row)

    def part(role: str, place: str, other: int, name: str = "") -> AdjacentPart:
        if other == NOTHING:  # the text does not define it
            return AdjacentPart(instruction.name, role, place, name)
        found = origins.of_row(other)
        return AdjacentPart(
            instruction=instruction.name,
            role=role,
            place=place,
            name=module.columns.name(other),
            opcode=module.opcodes[other],
            shape=module.shape_texts[other] or None,
            source=found.source,
            op_name=found.op_name,
            origin_basis=found.basis,
        )

    adjacent = []
    pairs = zip(instruction.operands, links.operands_of(row), strict=False)
    for number, (operand, other) in enumerate(pairs):
        index = f"{{{','.join(map(str, operand.index))}}}" if operand.index else ""
        adjacent.append(part(OPERAND, f"{number}{index}", other, operand.name))
    adjacent += [part(USER, str(number), user) for user, number in links.users_of(row)]
    for name in instruction.control_predecessors:
        before = instruction.computation.instruction(name)
        adjacent.append(part(PREDECESSOR, "", NOTHING if before is None else before.row, name))
    for role, name in instruction.calls:
        called = module.computation(name)
        root = NOTHING if called is None else called.root_row
        adjacent.append(part(CALLED, role, root)._replace(name=name))
    callers = links.calls.of_computation(instruction.computation.place)
    adjacent += [part(CALLER, call.role, call.row) for call in callers]
    return InstructionDetails(
        instruction=instruction,
        origin=origin,
        stack=origins.stack(origin),
        runs=calls.at(instruction.computation.place),
        adjacent=tuple(adjacent),
    )
