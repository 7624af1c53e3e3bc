"""Overlap of a collective: instructions, arithmetic and bytes between its start and its end.

Counted are instructions between start and end in a scheduled computation, except views (tuple,
get-tuple-element, bitcast, parameter, constant), starts and ends of other asynchronous operations,
and other collectives. A collective without such instructions is exposed.

Arithmetic is that of dot, convolution and matrix products in custom calls (see `flops`), also
inside fusions, calls and loops (times the trip count). Bytes are those of the results.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.program.flops import flops_of
from hlo_lens.analysis.result import sum_of
from hlo_lens.model.hlo.columns import NAME, STRIDE
from hlo_lens.model.hlo.opcodes import opcode_traits
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.program.call_counts import CallCounts
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.query import InstructionTable

_ALLOCATES = 'custom_call_target="AllocateBuffer"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Work between start and end.

    Attributes:
        instructions: Number of instructions; 0 means exposed.
        flops: Their multiplications and additions; None if a loop's trip count is unknown.
        size_bytes: Bytes of their results, if known.
    """

    instructions: int
    flops: int | None
    size_bytes: int


EXPOSED = Overlap(instructions=0, flops=0, size_bytes=0)


class OverlapFinder:
    """Finds the work between two instructions of a computation.

    Args:
        table: Table of the module.
        calls: Trip counts of its loops.
    """

    def __init__(self, table: InstructionTable, calls: CallCounts) -> None:
        self._table = table
        self._calls = calls
        self._flops: dict[str, int | None] = {}

    def between(self, start: HloInstruction, done: HloInstruction) -> Overlap:
        """Return the work after a start and before its end."""
        rows = [row for row in self._rows_between(start, done) if self._works(row)]
        return Overlap(
            instructions=len(rows),
            flops=sum_of(self._flops_of(row) for row in rows),
            size_bytes=sum(self._table.result_bytes(row) or 0 for row in rows),
        )

    def _rows_between(self, start: HloInstruction, done: HloInstruction) -> Sequence[int]:
        rows = start.computation.rows
        spans = self._table.module.columns.spans

        def place(row: int) -> int:
            return spans[row * STRIDE + NAME]

        first = bisect_right(rows, start.span.start, key=place)
        return rows[first : bisect_left(rows, done.span.start, key=place)]

    def _works(self, row: int) -> bool:
        opcode = self._table.opcodes[row]
        traits = opcode_traits(opcode)
        if traits.is_idle or traits.is_collective or traits.phase:
            return False
        if opcode != "custom-call":
            return True
        return _ALLOCATES not in self._table.module.columns.attributes_text(row)

    def _flops_of(self, row: int) -> int | None:
        opcode = self._table.opcodes[row]
        if opcode_traits(opcode).is_product:
            try:
                return flops_of(self._table.instruction(row))
            except DumpSyntaxError:
                return None
        if opcode not in ("fusion", "call", "while"):
            return 0
        instruction = self._table.instruction(row)
        flops = self._of_computations(instruction)
        if opcode != "while" or not flops:
            return flops
        trips = self._calls.trip_count(instruction)
        return None if trips is None else flops * trips

    def _of_computations(self, instruction: HloInstruction) -> int | None:
        for name in instruction.called_computations:
            if name not in self._flops:
                self._flops[name] = 0  # a computation that calls itself finds this entry
                computation = self._table.module.computation(name)
                rows = () if computation is None else computation.rows
                self._flops[name] = sum_of([self._flops_of(row) for row in rows])
        return sum_of(self._flops[name] for name in instruction.called_computations)
