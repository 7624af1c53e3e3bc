"""Work of one instruction of a schedule: bytes that it reads and writes, and FLOP.

Bytes are those of operands and result, as in HloCostAnalysis: of a slice or gather what it takes,
of an update what it writes; of a fusion each parameter as far as the fused instructions use it.
Work of loops counts trip count times, of a conditional the largest branch. Views, starts and ends
of asynchronous operations and collectives do no work, and neither do the parts of a fusion that
only carry a collective on (TPU: ``async_collective_fusion``).

FLOP are those of matrix products, convolutions and kernels (`flops`). What is not known (the trip
count of a loop, the arithmetic of a kernel) is None.

Source: xla/service/hlo_cost_analysis.cc, as of August 2026.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import OpcodeTraits, opcode_traits
from hlo_lens.program.flops import flops_of
from hlo_lens.render.result import sum_of
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.program.call_counts import CallCounts
    from hlo_lens.shapes.shape import ShapeIndex

CUSTOM = "custom-call"

_IDLE_TARGETS = tuple(
    f'custom_call_target="{target}"'
    for target in (
        *("AllocateBuffer", "ConcatBitcast", "AsyncCollectiveStart", "AsyncCollectiveDone"),
        *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint"),
    )
)
"""Custom calls that do no work when they run."""

_UPDATED = {"dynamic-update-slice": 1, "scatter": 2}
"""Opcodes that overwrite a part of operand 0, and the number of the operand with that part."""


class Work(NamedTuple):
    """Work of instructions; None where not known.

    Attributes:
        size_bytes: Bytes read and written.
        flops: Multiplications and additions of products.
    """

    size_bytes: int | None
    flops: int | None

    def times(self, count: int | None) -> Work:
        """Return the work of several runs."""
        return Work(*(_product(amount, count) for amount in self))


NO_WORK = Work(0, 0)


def _product(amount: int | None, count: int | None) -> int | None:
    if amount == 0 or count == 0:
        return 0
    return None if amount is None or count is None else amount * count


def _least(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one, other)


def total_work(parts: Iterable[Work]) -> Work:
    """Return the sum of some work."""
    listed = list(parts)
    return Work(sum_of(one.size_bytes for one in listed), sum_of(one.flops for one in listed))


def _largest(parts: Sequence[Work]) -> Work:
    """Return the largest bytes and the largest FLOP of several; None if one is not known."""
    sizes = [one.size_bytes for one in parts if one.size_bytes is not None]
    flops = [one.flops for one in parts if one.flops is not None]
    return Work(
        max(sizes, default=0) if len(sizes) == len(parts) else None,
        max(flops, default=0) if len(flops) == len(parts) else None,
    )


class WorkFinder:
    """Finds the work of instructions; that of each computation is found once.

    Args:
        table: Table of the module.
        calls: Trip counts of its loops.
    """

    def __init__(self, table: InstructionTable, calls: CallCounts) -> None:
        self._table = table
        self._calls = calls
        self._links = table.module.links
        self._run: dict[int, Work] = {}
        self._fused: dict[int, Work] = {}

    def of(self, row: int) -> Work:
        """Return the work of one run of an instruction."""
        opcode = self._table.opcodes[row]
        traits = opcode_traits(opcode)
        if traits.is_collective or traits.phase or _is_idle(traits):
            return NO_WORK
        if opcode == CUSTOM and self._is_idle_call(row):
            return NO_WORK
        if opcode == "fusion":
            body = next(iter(self._called(row)), NOTHING)
            return Work(self._moved(row), None) if body == NOTHING else self._of_fusion(body)
        if traits.is_control_flow:
            return self._of_control(row, opcode)
        inside = [self._of_computation(place).flops for place in self._run_by(row, opcode)]
        return Work(self._moved(row), sum_of([self._flops(row, traits), *inside]))

    def _run_by(self, row: int, opcode: str) -> list[int]:
        """Return the computations of the text that a custom call runs."""
        return [one for one in self._called(row) if one != NOTHING] if opcode == CUSTOM else []

    def _is_idle_call(self, row: int) -> bool:
        text = self._table.module.columns.attributes_text(row)
        return any(target in text for target in _IDLE_TARGETS)

    def _called(self, row: int) -> list[int]:
        return [call.place for call in self._links.calls.of_row(row)]

    def _of_control(self, row: int, opcode: str) -> Work:
        """Return the work of a loop, a conditional or a call."""
        parts = [self._of_computation(place) for place in self._called(row)]
        if opcode == "conditional":
            return _largest(parts)
        if opcode != "while":
            return total_work(parts)
        return total_work(parts).times(self._calls.trip_count(self._table.instruction(row)))

    def _of_computation(self, place: int) -> Work:
        if place == NOTHING:
            return Work(None, None)
        if place not in self._run:
            self._run[place] = Work(None, None)  # seen by a computation that calls itself
            rows = self._table.module.computations[place].rows
            self._run[place] = total_work([self.of(row) for row in rows])
        return self._run[place]

    # ---- bytes ---------------------------------------------------------------------------------

    def _size(self, row: int) -> int | None:
        return None if row == NOTHING else self._table.result_bytes(row)

    def _element_size(self, row: int, element: ShapeIndex) -> int | None:
        """Return the bytes of an element of a tuple (``%w#1``), or of the whole result."""
        if not element or row == NOTHING:
            return self._size(row)
        shape = self._table.instruction(row).shape_of(element)
        return None if shape is None else shape.size_bytes

    def _operands(self, row: int) -> list[tuple[int, ShapeIndex]]:
        """Return the row of each operand and the tuple index into its result."""
        operands = self._links.operands_of(row)
        elements = self._links.elements_of(row) or repeat((), len(operands))
        return [*zip(operands, elements, strict=True)]

    def _moved(self, row: int) -> int | None:
        """Return the bytes that an instruction, no fusion, reads and writes."""
        opcode, operands = self._table.opcodes[row], self._operands(row)
        if opcode_traits(opcode).is_cut:
            return _product(self._size(row), 2)
        if opcode in _UPDATED:
            part = _UPDATED[opcode]
            return _product(
                self._element_size(*operands[part]) if part < len(operands) else None, 2
            )
        return sum_of([self._size(row), *(self._element_size(*one) for one in operands)])

    def _of_fusion(self, place: int) -> Work:
        """Return the work of a fusion, found once for each computation."""
        if place not in self._fused:
            self._fused[place] = Work(None, None)  # seen by a computation that calls itself
            self._fused[place] = self._of_body(place)
        return self._fused[place]

    def _of_body(self, place: int) -> Work:
        """Return the work of the computation of a fusion."""
        computation = self._table.module.computations[place]
        flops: list[int | None] = []
        read: list[int | None] = []
        for row, opcode in zip(
            computation.rows, self._table.opcodes.at(computation.rows), strict=True
        ):
            if opcode == "parameter":
                read.append(self._read(row))
            elif opcode == "fusion":
                flops.append(self.of(row).flops)
            elif (traits := opcode_traits(opcode)).is_product:
                flops.append(self._flops(row, traits))
        written = self._written(computation.root_row)
        return Work(sum_of([*read, written]), sum_of(flops))

    def _read(self, row: int, above: frozenset[int] = frozenset()) -> int | None:
        """Return the bytes of a value of a body that its users read, at most all.

        None if the value is one of those `above`, from which it is reached, as in a damaged text.
        """
        if row in above:
            return None
        whole, above = self._size(row), above | {row}
        total: int | None = 0
        for user, position in self._links.users_of(row):
            opcode = self._table.opcodes[user]
            traits = opcode_traits(opcode)
            used = self._element_size(*self._links.operand(user, position))
            if (traits.is_cut or opcode in _UPDATED) and position == 0:
                used = self._size(user) if traits.is_cut else 0
            elif opcode in ("bitcast", "get-tuple-element"):
                used = self._read(user, above)
            elif traits.is_collective or traits.is_view or self._is_carrying(user, opcode):
                used = 0
            total = sum_of([total, used])
        return None if total is None or whole is None else min(total, whole)

    def _is_carrying(self, row: int, opcode: str) -> bool:
        return opcode == CUSTOM and self._is_idle_call(row)

    def _written(self, row: int, above: frozenset[int] = frozenset()) -> int | None:
        """Return the bytes that the root of a body writes; None if it is one of those `above`."""
        if row == NOTHING or row in above:
            return None
        above |= {row}
        opcode = self._table.opcodes[row]
        operands = self._operands(row)
        traits = opcode_traits(opcode)
        if opcode == "tuple":
            return sum_of([self._written_part(*one, above) for one in operands])
        if opcode in ("bitcast", "opt-barrier") and operands:
            return self._written_part(*operands[0], above)
        if opcode == "get-tuple-element" and operands:
            return _least(self._written_part(*operands[0], above), self._size(row))
        if traits.is_collective or _is_idle(traits) or self._is_carrying(row, opcode):
            return 0
        if opcode in _UPDATED and _UPDATED[opcode] < len(operands):
            return self._element_size(*operands[_UPDATED[opcode]])
        return self._size(row)

    def _written_part(self, row: int, element: ShapeIndex, above: frozenset[int]) -> int | None:
        """Return the bytes that a body writes of a value or an element of it."""
        written = self._written(row, above)
        return _least(written, self._element_size(row, element)) if element else written

    # ---- FLOP ----------------------------------------------------------------------------------

    def _flops(self, row: int, traits: OpcodeTraits) -> int | None:
        if not traits.is_product:
            return 0
        try:
            return flops_of(self._table.instruction(row))
        except DumpSyntaxError:
            return None


def _is_idle(traits: OpcodeTraits) -> bool:
    """Return whether an opcode does nothing when it runs."""
    return traits.is_idle or (traits.is_view and not traits.is_runner)
