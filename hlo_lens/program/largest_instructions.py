"""The instructions that produce the most bytes.

Ranked by the logical bytes of the arrays that an instruction itself produces. Two kinds of
instructions are left out, and their number is reported: views, which pass on arrays of others
(tuple, get-tuple-element, bitcast, while, conditional, call, ``-done``, inner parameters; see
`InstructionTable`), and instructions of embedded computations (fusions, reducers), whose values
never reach memory. Of a ``-start`` only the array that it produces counts, not the operand that its
tuple repeats. Parameters and constants of the program itself count.

Limits: in-place operations (dynamic-update-slice, aliased fusions and custom calls) share their
operand's buffer, which only a buffer assignment shows. The sum is therefore no memory figure.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.load.fact import fact
from hlo_lens.program.hlo_text import instruction_table
from hlo_lens.program.origins import Origins, origins
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump


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
