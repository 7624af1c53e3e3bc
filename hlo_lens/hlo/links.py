"""Edges of a module: operands, users, calls and callers, made once per module when asked for.

Edges are columns of numbers, one list of targets for all rows and the offset at which each row's
begin, because a module has up to a million. They are columns of the standard library, not of
numpy, which takes longer to import than the edges of most modules take to read; `memoryview` and
`numpy.asarray` read them without a copy.

Hand-written text may give several instructions of a computation one name: a name means the last.
A name that the text does not define has no target.
"""

from __future__ import annotations

import functools
from array import array
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.hlo.calls import Call, Calls
from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.computation import HloComputation
from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.hlo.opcodes import OpcodeTraits, opcode_traits
from hlo_lens.hlo.operand_columns import OperandColumns, rows_by_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.shape import Shape, ShapeIndex

_Mark = TypeVar("_Mark")


class Links:
    """The edges of a module.

    Attributes:
        walks: What walkers of values keep, by name; not pickled.
    """

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self.walks: dict[str, object] = {}
        self._of_computations: dict[int, OperandColumns] = {}
        self._parameters: dict[int, Mapping[int, int]] = {}
        self._whole: OperandColumns | None = None
        self._of_elements: dict[int, Mapping[int | None, Sequence[tuple[int, int]]]] = {}

    def __getstate__(self) -> dict[str, object]:
        """Return the pickled state: what is known of all instructions."""
        empty = ("walks", "_of_computations", "_parameters", "_of_elements")
        return {**vars(self), **{name: {} for name in empty}}

    # ---- operands and users --------------------------------------------------------------------

    def operand_columns(self, row: int) -> OperandColumns:
        """Return the operands of the computation of a row, or of all if these are known."""
        if self._whole is not None:
            return self._whole
        place = self.owners[row]
        found = self._of_computations.get(place)
        if found is None:
            rows = self._module.computation_columns.rows(place)
            extent = range(rows[0], rows[-1] + 1)
            found = OperandColumns(self._module, [place], extent, self._printed)
            self._of_computations[place] = found
        return found

    @functools.cached_property
    def _printed(self) -> frozenset[str]:
        """Opcodes whose parentheses hold a value, no operands."""
        traits = map(opcode_traits, self._module.opcodes.different)
        return frozenset(one.opcode for one in traits if one.is_printed_value)

    def all_operands(self) -> OperandColumns:
        """Return the operands of all instructions, found faster than one computation at a time."""
        if self._whole is None:
            module = self._module
            rows = range(len(module.columns))
            places = range(len(module.computations))
            self._whole = OperandColumns(module, places, rows, self._printed)
            self._of_computations.clear()
        return self._whole

    @property
    def operand_offsets(self) -> Sequence[int]:
        """Offset of the first operand of each row in `operand_rows`, and the end of the last."""
        return self.all_operands().offsets

    @property
    def operand_rows(self) -> array[int]:
        """Row of each operand of each row; `NOTHING` for a name that its computation lacks."""
        return self.all_operands().rows

    @property
    def operand_elements(self) -> Mapping[int, tuple[ShapeIndex, ...]]:
        """Row to the tuple index of each operand (``%w#1``), for rows with any index."""
        return self.all_operands().elements

    def operands_of(self, row: int) -> Sequence[int]:
        """Return the rows of a row's operands, in order; `NOTHING` for an undefined one."""
        return self.operand_columns(row).of(row)

    def elements_of(self, row: int) -> tuple[ShapeIndex, ...] | None:
        """Return the tuple index of each operand of a row; None if no operand has one."""
        return self.operand_columns(row).elements.get(row)

    def operand(self, row: int, position: int) -> tuple[int, ShapeIndex]:
        """Return the row of one operand and the tuple index into its result.

        `NOTHING` if there is no such operand, or the text does not define it.
        """
        columns = self.operand_columns(row)
        place = row - columns.first
        edge = columns.offsets[place] + position
        if edge >= columns.offsets[place + 1]:
            return NOTHING, ()
        elements = columns.elements.get(row) if columns.elements else None
        return columns.rows[edge], () if elements is None else elements[position]

    def operand_shape(self, row: int, position: int) -> Shape | None:
        """Return the shape of an operand; None if the text does not define it."""
        operand, element = self.operand(row, position)
        return None if operand == NOTHING else self._module.instruction(operand).shape_of(element)

    def undefined_operands(self) -> Iterator[int]:
        """Yield the rows with an operand that their computation does not define."""
        if NOTHING in self.operand_rows:
            edges = (edge for edge, row in enumerate(self.operand_rows) if row == NOTHING)
            yield from dict.fromkeys(bisect_right(self.operand_offsets, edge) - 1 for edge in edges)

    def users_of(self, row: int) -> list[tuple[int, int]]:
        """Return row and operand number of each use of a row, in text order."""
        return self.operand_columns(row).users_of(row)

    def users_of_element(self, row: int, number: int) -> list[tuple[int, int]]:
        """Return row and operand number of each use of an element of a row's result.

        Uses of the whole tuple come first; both are in text order.

        Args:
            row: The row.
            number: Number of the element in the outermost tuple.
        """
        if row not in self._of_elements:
            found: dict[int | None, list[tuple[int, int]]] = {}
            for user, position in self.users_of(row):
                _, read = self.operand(user, position)
                first = read[0] if read else self._module.instruction(user).tuple_index
                found.setdefault(first, []).append((user, position))
            self._of_elements[row] = found
        uses = self._of_elements[row]
        return [*uses.get(None, ()), *uses.get(number, ())]

    @functools.cached_property
    def control_predecessors(self) -> Mapping[int, tuple[int, ...]]:
        """Row to the rows that must run before it, as far as the text defines them."""
        module = self._module
        found: dict[int, tuple[int, ...]] = {}
        computation: HloComputation | None = None
        rows: dict[str, int] = {}
        for row in module.columns.rows_with_attribute_text("control-predecessors="):
            if computation is None or row not in computation.rows:
                computation = HloComputation(module, self.owners[row])
                rows = rows_by_name(computation)
            names = HloInstruction(computation, row).control_predecessors
            before = tuple(rows[name] for name in names if name in rows)
            if before:
                found[row] = before
        return found

    def post_order(self, rows: Sequence[int]) -> list[int]:
        """Return the rows of a computation in XLA's order: operands first, the first one's first.

        Control predecessors come before operands, the last one first. Rows of a cycle of operands
        without users outside come last, in text order. Source:
        HloComputation::MakeInstructionPostOrder.
        """
        controls = self.control_predecessors
        offsets, targets = self.operand_offsets, self.operand_rows
        if isinstance(rows, range) and rows:
            used = set(targets[offsets[rows[0]] : offsets[rows[-1] + 1]])
        else:
            used = {target for row in rows for target in self.operands_of(row)}
        for row in rows if controls else ():
            used.update(controls.get(row, ()))
        order: dict[int, None] = {NOTHING: None}  # which is no row, and never waits
        visiting: set[int] = set()
        for root in rows:
            if root in used:
                continue
            stack = [root]
            while stack:
                row = stack[-1]
                if row in order:
                    stack.pop()
                elif row in visiting:
                    stack.pop()
                    order[row] = None
                else:
                    visiting.add(row)
                    stack.extend(reversed(targets[offsets[row] : offsets[row + 1]]))
                    if row in controls:
                        stack.extend(controls[row])
        order.update(dict.fromkeys(rows))
        return list(islice(order, 1, None))

    # ---- computations --------------------------------------------------------------------------

    @functools.cached_property
    def owners(self) -> array[int]:
        """For each row the position of its computation among the module's."""
        module = self._module
        owners = array("I", bytes(4 * len(module.columns)))
        for position, rows in enumerate(module.computation_columns.all_rows()):
            if isinstance(rows, range):
                owners[rows.start : rows.stop] = array("I", [position]) * len(rows)
            else:
                for row in rows:
                    owners[row] = position
        return owners

    @functools.cached_property
    def calls(self) -> Calls:
        """The calls of the module."""
        return Calls(self._module)

    @functools.cached_property
    def roots(self) -> Sequence[int]:
        """For each computation the row of its result; `NOTHING` if it has none."""
        module = self._module
        columns = module.computation_columns
        roots = array("i", [NOTHING]) * len(columns)
        for place, rows in enumerate(columns.all_rows()):
            if rows and columns.is_complete(place):
                roots[place] = rows[-1]
        for row in module.columns.roots:
            roots[self.owners[row]] = row
        return roots

    def root_of(self, row: int, *roles: str) -> int | None:
        """Return the root of the first computation that a row calls, or calls in some roles.

        None if the text has no such computation, or it has no root.
        """
        for call in self.calls.of_row(row):
            if call.place != NOTHING and (not roles or call.role in roles):
                root = self.roots[call.place]
                return None if root == NOTHING else root
        return None

    def parameters_of(self, place: int) -> Mapping[int, int]:
        """Return number to row of the parameters of a computation."""
        if place not in self._parameters:
            rows = self.parameter_rows(place)
            numbers = [(self._module.instruction(row).parameter_number, row) for row in rows]
            numbers.sort(key=lambda one: (one[0] is None, one[0] or 0))
            self._parameters[place] = {number or 0: row for number, row in numbers}
        return self._parameters[place]

    def parameter_rows(self, place: int) -> list[int]:
        """Return the rows of the parameters of a computation, ascending."""
        rows, opcodes = self._module.computation_columns.rows(place), self._module.opcodes
        if isinstance(rows, range):
            return opcodes.places_of({"parameter"}, rows)
        return [row for row in rows if opcodes[row] == "parameter"]

    def is_root(self, row: int) -> bool:
        """Return whether a row is the root of its computation."""
        return self.roots[self.owners[row]] == row

    def root(self, call: Call) -> int:
        """Return the row of the result of a called computation; `NOTHING` if there is none."""
        return NOTHING if call.place == NOTHING else self.roots[call.place]

    def reached(self, start: int, through: Callable[[OpcodeTraits], bool]) -> list[int]:
        """Return the positions of a computation and of those it reaches, ascending.

        Args:
            start: Position of the computation.
            through: Returns whether calls by an opcode are followed.
        """
        module, opcodes = self._module, self._module.opcodes
        traits = map(opcode_traits, opcodes.different)
        followed = {number for number, one in enumerate(traits) if through(one)}
        found, waiting = {start}, [start]
        while waiting:
            rows = module.computation_columns.rows(waiting.pop())
            for row, place in self.calls.targets(rows):
                is_new = place != NOTHING and place not in found
                if is_new and opcodes.numbers[row] in followed:
                    found.add(place)
                    waiting.append(place)
        return sorted(found)

    def below(self, roots: Mapping[int, _Mark]) -> dict[int, _Mark]:
        """Return the positions of some computations and of all below them, with marks.

        Args:
            roots: Position of a computation to its mark, which those below it get; a computation
                below several has that of the last.
        """
        found = dict(roots)
        waiting = list(roots)
        while waiting:
            place = waiting.pop()
            for call in self.calls.of_rows(self._module.computations[place].rows):
                if call.place != NOTHING and call.place not in found:
                    found[call.place] = found[place]
                    waiting.append(call.place)
        return found
