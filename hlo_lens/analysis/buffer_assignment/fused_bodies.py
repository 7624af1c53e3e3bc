"""The computations of fusions: who uses what in them, and which parameters they write into.

Sources: xla/hlo/ir/hlo_instruction.cc (IsOpElementwise), xla/hlo/analysis/alias_info.cc, as of
August 2026.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.model.hlo.columns import OPERANDS, OPERANDS_END

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.model.hlo.computation import HloComputation
    from hlo_lens.model.hlo.query import InstructionTable
    from hlo_lens.model.shapes.shape import ShapeIndex

DEEPEST = 100
"""Computations in computations that are followed."""

_ELEMENTWISE_OPCODES = """
abs acos acosh add and asin asinh atan2 atanh bitcast-convert cbrt ceil clamp compare complex
constant convert copy cos cosh cosine count-leading-zeros divide erf exponential
exponential-minus-one floor imag is-finite log log-plus-one logistic maximum minimum mulhi
multiply negate not or popcnt power real reduce-precision remainder rng round-nearest-afz
round-nearest-even rsqrt select shift-left shift-right-arithmetic shift-right-logical sign sine
sinh sqrt stochastic-convert subtract tan tanh xor
"""
ELEMENTWISE = frozenset(_ELEMENTWISE_OPCODES.split())
"""Source: HloInstruction::IsOpElementwise and the overrides of IsElementwiseImpl."""

_UPDATES = frozenset({"dynamic-update-slice", "scatter", "set-dimension-size"})
_MAY_UPDATE = _UPDATES | {"fusion"}
_IN_PLACE_ROOTS = _UPDATES | {"tuple", "fusion", "get-tuple-element"}

INDEX = re.compile(r"\bindex=(\d{1,9})")
_CALLS = re.compile(r"\bcalls=%?([\w.\-]+)")
_KIND = re.compile(r"\bkind=(k\w+)")

_LONG = 10
"""Digits that no number of a parameter has."""


def parameter_number(text: str) -> int:
    """Return the number between the parentheses of ``parameter(0)``; 0 where there is none."""
    number = text.strip()
    return int(number) if number.isdecimal() and len(number) < _LONG else 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FusedBody:
    """The computation of a fusion, its instructions by position in the text.

    Attributes:
        rows: Row of each.
        opcodes: Opcode of each.
        operands: Positions of the operands of each.
        users: Positions of the users of each, without repetition.
        parameters: Parameter number to position.
        root: Position of the result.
    """

    rows: Sequence[int]
    opcodes: Sequence[str]
    operands: Sequence[Sequence[int]]
    users: Sequence[Sequence[int]]
    parameters: dict[int, int]
    root: int

    def is_elementwise(self, position: int, operand_number: int) -> bool:
        """Whether an instruction computes each element from the same one of an operand."""
        opcode = self.opcodes[position]
        if opcode == "dynamic-update-slice":
            return operand_number == 0
        return opcode in ELEMENTWISE

    def is_elementwise_on(self, position: int, operand: int) -> bool:
        """Whether it is so for the first operand that is at a position."""
        return self.is_elementwise(position, self.operands[position].index(operand))


class FusedBodies:
    """The computations of fusions, each read when it is first asked for."""

    def __init__(self, table: InstructionTable) -> None:
        self._table = table
        self._module = table.module
        self._bodies: dict[str, FusedBody | None] = {}

    def kind(self, row: int) -> str:
        """Return the kind of a fusion: ``kLoop``, ``kInput``, ``kOutput``, ``kCustom``."""
        match = _KIND.search(self._attributes(row))
        return match[1] if match else ""

    def _attributes(self, row: int) -> str:
        return self._module.columns.attributes_text(row)

    def computation(self, row: int) -> HloComputation | None:
        """Return the computation of a fusion."""
        match = _CALLS.search(self._attributes(row))
        return self._module.computation(match[1]) if match else None

    def of(self, row: int) -> FusedBody | None:
        """Return the computation of a fusion, read; None where there is none."""
        computation = self.computation(row)
        if computation is None or not computation.rows:
            return None
        if computation.name not in self._bodies:
            self._bodies[computation.name] = self._read(computation)
        return self._bodies[computation.name]

    def _read(self, computation: HloComputation) -> FusedBody:
        columns, reader = self._module.columns, self._module.reader
        rows = list(computation.rows)
        position_of = {columns.name(row): k for k, row in enumerate(rows)}
        opcodes = [self._table.opcodes[row] for row in rows]
        operands: list[list[int]] = []
        users: list[list[int]] = [[] for _ in rows]
        parameters: dict[int, int] = {}
        for position, row in enumerate(rows):
            text = columns.text(row, OPERANDS, OPERANDS_END)
            if opcodes[position] == "parameter":
                parameters[parameter_number(text)] = position
            if opcodes[position] in ("parameter", "constant"):
                operands.append([])
                continue
            if "[" in text or "(" in text or "#" in text or "/" in text:
                names = [operand.name for operand in reader.operands(text)]
            else:
                names = text.replace("%", "").replace(" ", "").split(",")
            found = [position_of[name] for name in names if name in position_of]
            operands.append(found)
            for operand in set(found):
                users[operand].append(position)
        root = rows.index(computation.root_row)
        return FusedBody(
            rows=rows,
            opcodes=opcodes,
            operands=operands,
            users=users,
            parameters=parameters,
            root=root,
        )

    def in_place(
        self, row: int, depth: int = DEEPEST
    ) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
        """Yield the parameters of a fusion that its outputs are written into.

        Source: alias_info.cc, GetFusionInstructionInPlaceInputOutputPairs.
        """
        computation = self.computation(row)
        if computation is None or not computation.rows or not depth:
            return
        opcodes = self._table.opcodes
        if opcodes[computation.root_row] not in _IN_PLACE_ROOTS:
            return
        if not any(opcodes[inner] in _MAY_UPDATE for inner in computation.rows):
            return
        body = self.of(row)
        if body is None:
            return
        outputs: list[ShapeIndex] = [()]
        if body.opcodes[body.root] == "tuple":
            outputs = [(k,) for k in range(len(body.operands[body.root]))]
        for index in outputs:
            number = self._updated_parameter(body, index, depth)
            if number is not None:
                yield number, (), index

    def _updated_parameter(self, body: FusedBody, output: ShapeIndex, depth: int) -> int | None:
        """Return the number of the parameter that an output of a fusion is written into."""
        position, index = self._behind_tuples(body, body.root, output)
        number = self._updated_operand(body, position, index, depth)
        if number is None:
            return None
        source, index = self._behind_tuples(body, body.operands[position][number], ())
        if body.opcodes[source] == "fusion":
            number = self._updated_operand(body, source, index, depth)
            if number is not None:
                source, index = self._behind_tuples(body, body.operands[source][number], ())
        if body.opcodes[source] == "bitcast" and body.operands[source]:
            source = body.operands[source][0]
        return next((n for n, p in body.parameters.items() if p == source), None)

    def _updated_operand(
        self, body: FusedBody, position: int, output: ShapeIndex, depth: int
    ) -> int | None:
        """Return which operand an instruction inside a fusion is written into, or None."""
        opcode, count = body.opcodes[position], len(body.operands[position])
        number: int | None = None
        if opcode == "fusion":
            pairs = self.in_place(body.rows[position], depth - 1)
            number = next((found for found, _, index in pairs if index == output), None)
        elif opcode == "scatter" and count > 3 and output:
            number = output[0]
        elif opcode in _UPDATES and not output:
            number = 0
        return number if number is not None and number < count else None

    def _behind_tuples(
        self, body: FusedBody, position: int, index: ShapeIndex
    ) -> tuple[int, ShapeIndex]:
        """Return what defines a part of a result in a fusion. Source: FollowTupleIndirection."""
        for _ in body.rows:
            operands = body.operands[position]
            if body.opcodes[position] == "tuple" and index and index[0] < len(operands):
                position, index = operands[index[0]], index[1:]
            elif body.opcodes[position] == "get-tuple-element" and operands:
                match = INDEX.search(self._attributes(body.rows[position]))
                position, index = operands[0], (int(match[1]) if match else 0, *index)
            else:
                break
        return position, index
