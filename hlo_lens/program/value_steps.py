"""Steps between a value and the values that it is, is computed from, or is used by.

A value is the row of an instruction and an index into its result. Steps cross the boundaries of
fusions, calls, loops and conditionals; of several callers the first counts.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING, SHAPE, SHAPE_END
from hlo_lens.hlo.opcodes import opcode_traits, opcodes_where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.calls import Call
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.shape import ShapeIndex

_STEPS = 64
"""Instructions by which a value is followed to its definition, at most."""

_STRUCTURE = frozenset({"tuple", "get-tuple-element", "parameter", "while", "conditional", "call"})
"""Opcodes that pass values on in their own ways."""

_STORING = frozenset({"dynamic-update-slice", "fusion", "async-done"})
"""Opcodes that may store a slice in a larger value."""

SOURCELESS = opcodes_where(lambda traits: traits.is_sourceless)
"""Opcodes that compute from no other value."""

_ASYNC_START = '"AsyncCollectiveStart"'
"""Custom call in texts whose fusions may carry an asynchronous TPU collective."""


class Value(NamedTuple):
    """The result of an instruction, or an element of it."""

    row: int
    element: ShapeIndex = ()


class ValueSteps:
    """Steps from the values of a module.

    Args:
        module: The module.

    Attributes:
        opcodes: Opcode of each row.
        passing: Opcodes whose results may be values of other instructions (`definition`).
        storing: Opcodes that may store a slice in a larger value (`update`).
    """

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self.opcodes = module.opcodes[:]
        self._links = module.links
        traits = [(opcode, opcode_traits(opcode)) for opcode in module.opcodes.different]
        views = {opcode for opcode, one in traits if one.is_view and one.is_forwarding}
        self._views = views - _STRUCTURE
        self.passing = self._views | _STRUCTURE
        if _ASYNC_START in module.columns.source.text:
            self.passing |= {"fusion"}
        self.storing = {opcode for opcode, one in traits if one.is_formatting} | _STORING
        self._callers: dict[int, Call | None] = {}
        self._sizes: dict[str, int] = {}
        self._kept: dict[int, dict[int, int]] = {}
        self._open: set[int] = set()
        self._sources: dict[Value, list[Value]] = {}

    # ---- backwards -----------------------------------------------------------------------------

    def operand(self, row: int, position: int, index: ShapeIndex = ()) -> Value | None:
        """Return an operand, or an element of it; None if the text does not define it."""
        operand, element = self._links.operand(row, position)
        if operand == NOTHING:
            return None
        return Value(operand, (*element, *index) if element else index)

    def operands(self, row: int, most: int | None = None) -> list[Value]:
        """Return the first operands that the text defines, by default all."""
        columns = self._links.operand_columns(row)
        rows, elements = columns.of(row)[:most], columns.elements.get(row)
        indices = elements[:most] if elements else repeat((), len(rows))
        pairs = zip(rows, indices, strict=True)
        return [Value(operand, index) for operand, index in pairs if operand != NOTHING]

    def sources(self, value: Value) -> list[Value]:
        """Return the definitions of the operands of a value's instruction, the largest first.

        Of an element that a loop carries, that of the element before the loop. None for constants
        and other instructions that are computed from no value.
        """
        if value not in self._sources:
            self._sources[value] = self._listed_sources(value)
        return self._sources[value]

    def _listed_sources(self, value: Value) -> list[Value]:
        row, index = value
        opcode = self.opcodes[row]
        if opcode in SOURCELESS:
            return []
        if opcode == "while" and index:
            operand = self.operand(row, 0, index)
            operands = [] if operand is None else [operand]
        else:
            operands = self.operands(row, _STEPS)
        defined = list(dict.fromkeys(map(self.definition, operands)))
        return sorted(defined, key=self.size, reverse=True) if len(defined) > 1 else defined

    def definition(self, value: Value, *, is_local: bool = False) -> Value:
        """Return the value before tuples, views, calls and loops passed it on.

        An element that the body of a loop overwrites is defined by the loop.

        Args:
            value: The value.
            is_local: Whether parameters of computations are definitions.
        """
        for _ in range(_STEPS):
            is_passed = self.opcodes[value.row] in self.passing
            before = self._before(value, is_local) if is_passed else None
            if before is None:
                break
            value = before
        return value

    def _before(self, value: Value, is_local: bool) -> Value | None:
        row, index = value
        opcode = self.opcodes[row]
        if opcode == "tuple":
            return self.operand(row, index[0], index[1:]) if index else None
        if opcode == "get-tuple-element":
            number = self._module.instruction(row).tuple_index
            return None if number is None else self.operand(row, 0, (number, *index))
        if opcode == "parameter":
            return None if is_local else self._outside(value)
        if opcode == "while":
            is_kept = bool(index) and self.written(value) is None
            return self.operand(row, 0, index) if is_kept else None
        if opcode == "call" and not is_local:
            root = self.root(row)
            return None if root is None else Value(root, index)
        if opcode == "fusion":
            position = self._kept_elements(row).get(index[0]) if index else None
            return None if position is None else self.operand(row, position, index[1:])
        return self.operand(row, 0, index) if opcode in self._views else None

    def _outside(self, value: Value) -> Value | None:
        """Return the value of a parameter at the caller; None for an argument of the program."""
        call = self.caller(value.row)
        if call is None:
            return None
        opcode = self.opcodes[call.row]
        if opcode == "while":
            return Value(call.row, value.element)
        number = self._module.instruction(value.row).parameter_number or 0
        if opcode == "conditional":
            return self.operand(call.row, 1 + call.number, value.element)
        if opcode == "async-start" and not self._links.operands_of(call.row):
            return self._late_operand(call.row, number, value.element)
        if opcode == "custom-call" and self._is_run_whole(value.row, call.row, number):
            return self.operand(call.row, number, value.element)
        is_positional = opcode_traits(opcode).is_positional
        return self.operand(call.row, number, value.element) if is_positional else None

    def _is_run_whole(self, parameter: int, call: int, number: int) -> bool:
        """Return whether a custom call runs a computation on whole operands, as SparseCores do."""
        operands = self._links.operands_of(call)
        count = len(self._links.parameters_of(self._links.owners[parameter]))
        if count != len(operands) or number >= count or operands[number] == NOTHING:
            return False
        operand = self.operand(call, number)
        return operand is not None and self.size(operand) == self.size(Value(parameter))

    def _late_operand(self, start: int, number: int, index: ShapeIndex) -> Value | None:
        """Return an operand of an operation that starts without operands: its update has them."""
        for user, position in self._links.users_of(start):
            if position == 0 and self.opcodes[user] == "async-update":
                return self.operand(user, 1 + number, index)
        return None

    def written(self, value: Value) -> Value | None:
        """Return the value that the body of a loop gives an element; None if it keeps it."""
        row, index = value
        root = self.root(row, "body")
        if root is None or not index or row in self._open:
            return None
        self._open.add(row)  # a damaged text may have a loop whose body is its own computation
        result = self.definition(Value(root, index), is_local=True)
        self._open.remove(row)
        if self.opcodes[result.row] == "parameter":
            return None if result.element == index else self.operand(row, 0, result.element)
        return result

    def root(self, row: int, *roles: str) -> int | None:
        """Return the root of the computation that an instruction calls, or of those of a role."""
        return self._links.root_of(row, *roles)

    def caller(self, row: int) -> Call | None:
        """Return the first call of an instruction's computation; None in the entry."""
        place = self._links.owners[row]
        if place not in self._callers:
            is_entry = self._module.computations[place].is_entry
            calls = [] if is_entry else self._links.calls.of_computation(place)
            self._callers[place] = calls[0] if calls else None
        return self._callers[place]

    def update(self, value: Value) -> Value | None:
        """Return what a dynamic-update-slice writes, also one in a fusion or run asynchronously."""
        for _ in range(_STEPS):
            row = value.row
            opcode = self.opcodes[row]
            if opcode not in self.storing:
                return None
            if opcode == "dynamic-update-slice":
                operand = self.operand(row, 1)
                return None if operand is None else self.definition(operand)
            if opcode in ("fusion", "async-done"):
                runner = row if opcode == "fusion" else self._links.operand(row, 0)[0]
                root = None if runner == NOTHING else self.root(runner)
                if root is None:
                    return None
                value = self.definition(Value(root, value.element), is_local=True)
            else:
                before = self.operand(row, 0)
                if before is None or before.element:
                    return None
                value = before
        return None

    def size(self, value: Value) -> int:
        """Return the bytes of a value; 0 if not known."""
        if value.element:
            return self._size(value)
        text = self._module.columns.text(value.row, SHAPE, SHAPE_END)
        if text.startswith("("):  # of send and recv more than is printed
            return self._size(value)
        if text not in self._sizes:
            self._sizes[text] = self._size(value)
        return self._sizes[text]

    def _size(self, value: Value) -> int:
        shape = self._module.instruction(value.row).shape
        for position in value.element:
            parts = () if shape is None else shape.tuple_shapes
            shape = parts[position] if position < len(parts) else None
        return (None if shape is None else shape.size_bytes) or 0

    # ---- forwards ------------------------------------------------------------------------------

    def users(self, value: Value) -> Iterator[Value]:
        """Yield the values that a value is part of, is passed on as, or is used for.

        A user that computes is the value of its whole result.
        """
        columns = self._links.operand_columns(value.row)
        for user, position in columns.users_of(value.row):
            if self.opcodes[user] not in self.passing and user not in columns.elements:
                yield Value(user)
            else:
                yield from self._into(value, user, position)
        if self._links.is_root(value.row):
            call = self.caller(value.row)
            if call is not None and opcode_traits(self.opcodes[call.row]).is_runner:
                yield Value(call.row, value.element)
            if call is not None and call.role == "body":  # the next iteration
                yield from (Value(row, value.element) for row in self._parameter(call.row, 0))

    def _into(self, value: Value, user: int, position: int) -> Iterator[Value]:
        opcode, index = self.opcodes[user], value.element
        taken = self._links.elements_of(user)
        if taken is not None:
            part = taken[position]
            if index[: len(part)] != part[: len(index)]:
                return
            index = index[len(part) :]
        if opcode == "tuple":
            yield Value(user, (position, *index))
        elif opcode == "get-tuple-element":
            number = self._module.instruction(user).tuple_index
            if not index or index[0] == number:
                yield Value(user, index[1:])
        elif opcode == "while":
            yield from (Value(row, index) for row in self._parameter(user, 0))
        elif opcode == "conditional":
            yield from (Value(row, index) for row in self._parameter(user, 0, position - 1))
        elif opcode == "call":
            yield from (Value(row, index) for row in self._parameter(user, position))
        elif opcode == "fusion":
            yield from self._through(user, position, index)
        else:
            yield Value(user, index if opcode in self._views else ())

    # ---- fusions that carry values on ----------------------------------------------------------

    def _kept_elements(self, row: int) -> dict[int, int]:
        """Return the elements of a fusion's result that are operands as they are, by position.

        TPU compilers so carry an asynchronous collective through the fusions that run beside it.
        """
        if row not in self._kept:
            root = self.root(row)
            kept: dict[int, int] = {}
            if root is not None and self.opcodes[root] == "tuple":
                for element in range(len(self._links.operands_of(root))):
                    value = self.definition(Value(root, (element,)), is_local=True)
                    if self.opcodes[value.row] == "parameter" and not value.element:
                        kept[element] = self._module.instruction(value.row).parameter_number or 0
            self._kept[row] = kept
        return self._kept[row]

    def _through(self, row: int, position: int, index: ShapeIndex) -> Iterator[Value]:
        """Yield the users of an operand behind a fusion that only carries it, else the fusion."""
        if not self._is_only_carried(row, position):
            yield Value(row)
            return
        for element, kept in self._kept_elements(row).items():
            if kept == position:
                yield from self.users(Value(row, (element, *index)))

    def _is_only_carried(self, row: int, position: int) -> bool:
        """Return whether a fusion passes an operand on, and only collectives in it use it."""
        if position not in self._kept_elements(row).values():
            return False
        return all(
            self.opcodes[user] == "tuple" or opcode_traits(self.opcodes[user]).collective_kind
            for parameter in self._parameter(row, position)
            for user, _ in self._links.users_of(parameter)
        )

    def _parameter(self, row: int, number: int, branch: int | None = None) -> Iterator[int]:
        """Yield the parameter of a number of the computations that an instruction runs.

        Args:
            row: The instruction.
            number: Number of the parameter.
            branch: Position of the one computation wanted; None for the bodies of loops and calls.
        """
        for call in self._links.calls.of_row(row):
            is_wanted = call.role != "condition" if branch is None else call.number == branch
            if call.place == NOTHING or not is_wanted:
                continue
            found = self._links.parameters_of(call.place).get(number)
            if found is not None:
                yield found
