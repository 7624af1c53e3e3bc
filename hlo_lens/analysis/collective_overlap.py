"""What runs while a collective is under way: instructions, arithmetic, bytes.

Counted are the instructions between start and end in a scheduled computation that do work of their
own: no views (tuple, get-tuple-element, bitcast, parameter, constant), no starts and ends of other
asynchronous operations, no other collectives. None of them: the collective is exposed.

Arithmetic is that of dot, convolution and matrix products in custom calls, also inside fusions,
calls and loops (times the trip count): two for each multiply and add, as in HloCostAnalysis
(xla/service/hlo_cost_analysis.cc, HandleDot, HandleConvolution; padding is not taken off). Bytes
are those of the results.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.scalars import operand_shape
from hlo_lens.model.hlo import NAME, STRIDE
from hlo_lens.model.hlo_query import COLLECTIVE_KINDS, split_phase
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.call_counts import CallCounts
    from hlo_lens.model.hlo import HloInstruction
    from hlo_lens.model.hlo_query import InstructionTable
    from hlo_lens.model.shape import Shape

_IDLE_NAMES = """
    add-dependency after-all bitcast constant domain get-tuple-element opt-barrier parameter
    partition-id replica-id tuple
"""
_IDLE = frozenset((*_IDLE_NAMES.split(), *COLLECTIVE_KINDS))
_ALLOCATES = 'custom_call_target="AllocateBuffer"'
_DOTS = ("__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8")
_LHS_CONTRACTING = re.compile(r'"lhs_contracting_dimensions":\[([^\]]*)\]')
_NUMBER = re.compile(r"\d+")
_LABELS = re.compile(r"\w+_(\w+)->(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What runs between start and end.

    Attributes:
        instructions: How many; 0 means exposed.
        flops: Their multiplications and additions; None where a loop's trip count is not known.
        size_bytes: Bytes of their results, as far as these are known.
    """

    instructions: int
    flops: int | None
    size_bytes: int


EXPOSED = Overlap(instructions=0, flops=0, size_bytes=0)


class OverlapFinder:
    """Finds what runs between two instructions of a computation.

    Args:
        table: Table of the module.
        calls: Trip counts of its loops.
    """

    def __init__(self, table: InstructionTable, calls: CallCounts) -> None:
        self._table = table
        self._calls = calls
        self._flops: dict[str, int | None] = {}

    def between(self, start: HloInstruction, done: HloInstruction) -> Overlap:
        """Return what runs after a start and before its end."""
        count = size = 0
        flops: int | None = 0
        for row in self._rows_between(start, done):
            if not self._works(row):
                continue
            count += 1
            size += self._table.result_bytes(row) or 0
            more = self._flops_of(row)
            flops = None if flops is None or more is None else flops + more
        return Overlap(instructions=count, flops=flops, size_bytes=size)

    def _rows_between(self, start: HloInstruction, done: HloInstruction) -> Sequence[int]:
        rows = start.computation.rows
        spans = self._table.module.columns.spans

        def place(row: int) -> int:
            return spans[row * STRIDE + NAME]

        first = bisect_right(rows, start.span.start, key=place)
        return rows[first : bisect_left(rows, done.span.start, key=place)]

    def _works(self, row: int) -> bool:
        opcode = self._table.opcodes[row]
        if opcode in _IDLE or split_phase(opcode)[1]:
            return False
        if opcode != "custom-call":
            return True
        return _ALLOCATES not in self._table.module.columns.attributes_text(row)

    def _flops_of(self, row: int) -> int | None:
        opcode = self._table.opcodes[row]
        if opcode not in ("dot", "convolution", "custom-call", "fusion", "call", "while"):
            return 0
        instruction = self._table.instruction(row)
        if opcode in ("dot", "convolution", "custom-call"):
            try:
                return flops_of(instruction)
            except DumpSyntaxError:
                return None
        flops = self._of_computations(instruction)
        if opcode != "while" or not flops:
            return flops
        trips = self._calls.trip_count(instruction)
        return None if trips is None else flops * trips

    def _of_computations(self, instruction: HloInstruction) -> int | None:
        """Return the arithmetic in what an instruction calls, each once."""
        total = 0
        for name in instruction.called_computations:
            if name not in self._flops:
                self._flops[name] = 0  # what a computation that calls itself sees
                computation = self._table.module.computation(name)
                rows = () if computation is None else computation.rows
                parts = [self._flops_of(row) for row in rows]
                known = [part for part in parts if part is not None]
                self._flops[name] = sum(known) if len(known) == len(parts) else None
            part = self._flops[name]
            if part is None:
                return None
            total += part
        return total


def flops_of(instruction: HloInstruction) -> int | None:
    """Return multiplications and additions of a dot, convolution or matrix product; 0 for others.

    None where a shape or a dimension is not in the text.
    """
    if instruction.opcode == "dot":
        return _dot(instruction, instruction.attribute("lhs_contracting_dims") or "")
    if instruction.opcode == "convolution":
        return _convolution(instruction)
    if (instruction.attribute("custom_call_target") or "").strip('"') not in _DOTS:
        return 0
    config = (instruction.attribute("backend_config") or "").replace("\\", "").replace(" ", "")
    contracting = _LHS_CONTRACTING.search(config)
    return None if contracting is None else _dot(instruction, contracting[1])


def _dot(instruction: HloInstruction, contracting: str) -> int | None:
    left = _operand(instruction, 0)
    result = _first_array(instruction.shape)
    if left is None or result is None:
        return None
    places = [int(number) for number in _NUMBER.findall(contracting)]
    if any(place >= len(left.dimensions) for place in places):
        return None
    return _product(2, *result.dimensions, *(left.dimensions[k] for k in places))


def _convolution(instruction: HloInstruction) -> int | None:
    kernel = _operand(instruction, 1)
    result = _first_array(instruction.shape)
    labels = _LABELS.search(instruction.attribute("dim_labels") or "")
    if kernel is None or result is None or labels is None:
        return None
    if len(labels[1]) != len(kernel.dimensions):
        return None
    sizes = zip(labels[1], kernel.dimensions, strict=True)
    return _product(2, *result.dimensions, *(size for label, size in sizes if label != "o"))


def _product(*sizes: int | None) -> int | None:
    """Return a product; None where a size is not known."""
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def _operand(instruction: HloInstruction, position: int) -> Shape | None:
    operands = instruction.operands
    if position >= len(operands):
        return None
    return operand_shape(instruction, operands[position])


def _first_array(shape: Shape | None) -> Shape | None:
    """Return a shape, or of a tuple its first element: a matrix product also returns workspace."""
    if shape is None or not shape.is_tuple:
        return shape
    return shape.tuple_shapes[0] if shape.tuple_shapes else None
