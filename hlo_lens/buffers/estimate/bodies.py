"""Computations of fusions: users of each instruction, and parameters updated in place.

Sources: xla/hlo/ir/hlo_instruction.cc (IsOpElementwise), xla/hlo/analysis/alias_info.cc, as of
August 2026.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.buffers.columns import parse_index
from hlo_lens.hlo.columns import NOTHING, OPERANDS, OPERANDS_END
from hlo_lens.hlo.computation import HloComputation
from hlo_lens.hlo.opcodes import opcodes_where

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.buffers.estimate.values import ShapeTree
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.shapes.shape import ShapeIndex


DEEPEST = 100
"""Deepest nesting of computations that is followed."""

ELEMENTWISE = opcodes_where(lambda one: one.is_elementwise)
_UPDATES = opcodes_where(lambda one: one.is_update)
_MAY_UPDATE = _UPDATES | {"fusion"}
_IN_PLACE_ROOTS = _UPDATES | {"tuple", "fusion", "get-tuple-element"}

INDEX = re.compile(r"\bindex=(\d{1,9})")
_KIND = re.compile(r"\bkind=(k\w+)")

_LONG = 10
"""Digits that are too many for a parameter number."""


def parameter_number(text: str) -> int:
    """Return the number between the parentheses of ``parameter(0)``; 0 if there is none."""
    number = text.strip()
    return int(number) if number.isdecimal() and len(number) < _LONG else 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FusedBody:
    """The computation of a fusion; instructions are numbered by position in the text.

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
        """Whether `is_elementwise` holds for the first operand at a position."""
        return self.is_elementwise(position, self.operands[position].index(operand))


class FusedBodies:
    """The computations of fusions, each read when it is first asked for."""

    def __init__(self, table: InstructionTable) -> None:
        self._table = table
        self._module = table.module
        self._bodies: dict[int, FusedBody | None] = {}
        calls = table.module.links.calls
        self._places = dict(zip(reversed(calls.rows), reversed(calls.places), strict=True))

    def kind(self, row: int) -> str:
        """Return the kind of a fusion: ``kLoop``, ``kInput``, ``kOutput``, ``kCustom``."""
        match = _KIND.search(self._attributes(row))
        return match[1] if match else ""

    def _attributes(self, row: int) -> str:
        return self._module.columns.attributes_text(row)

    def computation(self, row: int) -> HloComputation | None:
        """Return the computation of a fusion."""
        place = self._places.get(row, NOTHING)
        return None if place == NOTHING else HloComputation(self._module, place)

    def of(self, row: int) -> FusedBody | None:
        """Return the body of a fusion; None if there is none, or its result is lost."""
        computation = self.computation(row)
        if computation is None or computation.root_row < 0:
            return None
        if computation.place not in self._bodies:
            self._bodies[computation.place] = self._read(computation)
        return self._bodies[computation.place]

    def _read(self, computation: HloComputation) -> FusedBody:
        columns, links = self._module.columns, self._module.links
        rows = computation.rows
        position_of = {row: position for position, row in enumerate(rows)}
        opcodes = [self._table.opcodes[row] for row in rows]
        operands: list[list[int]] = []
        users: list[list[int]] = [[] for _ in rows]
        parameters: dict[int, int] = {}
        for position, row in enumerate(rows):
            if opcodes[position] == "parameter":
                text = columns.text(row, OPERANDS, OPERANDS_END)
                parameters[parameter_number(text)] = position
            found = [position_of[o] for o in links.operands_of(row) if o != NOTHING]
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
        """Return the definition of a part of a fusion's result. Source: FollowTupleIndirection."""
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


IN_PLACE = opcodes_where(lambda one: one.is_in_place)
"""Opcodes that may write into an operand without an ``output_to_operand_aliasing``."""

_ALIAS_PAIR = re.compile(r"\{([\d,\s]*)\}\s*:\s*\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}")


def in_place_pairs(
    opcode: str, count: int, tree: ShapeTree
) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
    """Yield operand number and index, and the output index that must share its bytes.

    Args:
        opcode: Opcode of an instruction.
        count: How many operands it has.
        tree: Its shape.
    """
    if opcode in ("dynamic-update-slice", "set-dimension-size"):
        yield 0, (), ()
    elif opcode in ("scatter", "all-reduce-start"):
        held = (count - 1) // 2 if opcode == "scatter" else count
        if held == 1:
            yield 0, (), ()
        else:
            yield from ((k, (), (k,)) for k in range(held))
    elif opcode == "ragged-all-to-all":
        yield 1, (), ()
    elif opcode in ("collective-permute", "collective-permute-start") and count == 4:
        yield from _permute_pairs(opcode, tree)


def _permute_pairs(opcode: str, tree: ShapeTree) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
    """Yield the pairs of a collective-permute that writes into operand 1."""
    prefix = (1,) if opcode.endswith("start") else ()
    node = tree.at(prefix)
    if node is None:
        return
    yield 1, (), prefix
    for k in range(len(tree.children(node))):
        yield 1, (k,), (*prefix, k)


def aliasing_pairs(attributes: str) -> Iterator[tuple[int, ShapeIndex, ShapeIndex]]:
    """Yield the pairs of ``output_to_operand_aliasing={{}: (0, {})}``, as `in_place_pairs` does."""
    start = attributes.find("output_to_operand_aliasing=")
    end = attributes.find("}}", start)
    closed = attributes.find(")}", start)
    text = attributes[start : max(end, closed) + 2]
    for match in _ALIAS_PAIR.finditer(text):
        yield int(match[2]), parse_index(match[3]), parse_index(match[1])
