"""Value of a scalar: a constant, or an element of the tuple that a loop carries.

A scalar is followed through tuples and their elements, copies, conversions between integers,
broadcasts and reshapes, sums and products of constants, fusions and calls, and loops that carry an
element unchanged.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from hlo_lens.hlo.columns import NOTHING, OPERANDS, OPERANDS_END
from hlo_lens.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.hlo.calls import Call
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.shape import Shape, ShapeIndex

_NUMBER = re.compile(r"\s*\{*\s*(-?\d+|true|false)\s*\}*\s*")
_LONGEST = 40
"""Digits of a constant that is followed."""

_INTEGER = re.compile(r"([su])(\d+)$")
_DEPTH = 64
"""Limit on the number of instructions through which a scalar is followed."""


@dataclass(frozen=True, slots=True)
class Linear:
    """An integer: a constant, or an element of the loop's carried tuple plus a constant."""

    slot: ShapeIndex | None
    offset: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """A scalar that cannot be followed further, and the reason."""

    reason: str


Value: TypeAlias = Linear | Unknown


_Query: TypeAlias = "tuple[int, ShapeIndex, int, int]"
"""Row, index and depth of a question, and the number of loops whose trips are known."""

_Follower: TypeAlias = "Callable[[Scalars, int, ShapeIndex, Scope, int], Value]"


class Scope(Protocol):
    """Values of the parameters of a computation, in terms of a caller or a loop."""

    def __call__(self, parameter: int, index: ShapeIndex, depth: int) -> Value:
        """Return the value of one element of a parameter."""
        ...


def carried(parameter: int, index: ShapeIndex, depth: int) -> Value:
    """Return the element of the carried tuple: the scope of a loop's body and condition."""
    del parameter, depth
    return Linear(index, 0)


class Scalars:
    """Values of the scalars of a module; instructions are rows of its columns.

    Args:
        module: The module.

    Attributes:
        trips: Row of a loop to its trip count, of loops whose count is known; what a counter is
            after the loop follows from it.
        counted: Rows of the loops whose trips are being counted.
    """

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.trips: dict[int, int] = {}
        self.counted: set[int] = set()
        self.opcodes = module.opcodes
        self._links = module.links
        self._follow = [_follower(opcode) for opcode in module.opcodes.different]
        self._after: dict[tuple[int, ShapeIndex], Value] = {}
        self._open: set[tuple[int, ShapeIndex]] = set()
        self._combined: WeakKeyDictionary[Scope, dict[_Query, Value]] = WeakKeyDictionary()

    def name(self, row: int) -> str:
        """Return the name of an instruction."""
        return self.module.columns.name(row)

    def of(self, row: int, index: ShapeIndex, scope: Scope, depth: int = 0) -> Value:
        """Return the value of one element of an instruction's result.

        Args:
            row: The instruction.
            index: Tuple index of the scalar in the result; () if the result is the scalar.
            scope: Values of the parameters of its computation.
            depth: Number of instructions followed so far.
        """
        if depth > _DEPTH:
            return Unknown("it is computed in too many steps")
        return self._follow[self.opcodes.numbers[row]](self, row, index, scope, depth)

    def operand(
        self, row: int, position: int, index: ShapeIndex, scope: Scope, depth: int
    ) -> Value:
        """Return the value of one element of an operand."""
        operand, element = self._links.operand(row, position)
        if operand == NOTHING:
            return Unknown(f"operand {position} of {self.name(row)} is not in the text")
        return self.of(operand, (*element, *index) if element else index, scope, depth + 1)

    def operand_bounds(self, row: int, position: int) -> tuple[int, int] | None:
        """Return the least and greatest number of an operand's type; None if no integer."""
        operand, element = self._links.operand(row, position)
        if operand == NOTHING:
            return None
        if element:
            return integer_bounds(self._links.operand_shape(row, position))
        return integer_bounds(self.module.instruction(operand).shape)

    def combined(
        self, combine: _Follower, row: int, index: ShapeIndex, scope: Scope, depth: int
    ) -> Value:
        """Return a value that is computed from several operands, found once for each question.

        Else a chain of sums such as ``b = a + a``, ``c = b + b`` doubles the work at each step.
        """
        known = self._combined.setdefault(scope, {})
        query = row, index, depth, len(self.trips)
        if query not in known:
            known[query] = combine(self, row, index, scope, depth)
        return known[query]

    def result(self, call: Call, index: ShapeIndex, scope: Scope, depth: int = 0) -> Value:
        """Return the value of one element of the result of a called computation."""
        root = self._links.root(call)
        if root == NOTHING:
            return Unknown(f"computation {self.called_name(call)} is not in the text")
        return self.of(root, index, scope, depth + 1)

    def called_name(self, call: Call) -> str:
        """Return the name of a called computation."""
        if call.place != NOTHING:
            return self.module.computation_names[call.place]
        return self.module.instruction(call.row).called_computations[call.number]

    def body(self, loop: int) -> Call | None:
        """Return the call of a loop's body; None if it is not printed."""
        calls = self._links.calls.of_row(loop)
        return next((call for call in calls if call.role == "body"), None)

    def after_trip(self, body: Call, index: ShapeIndex, depth: int = 0) -> Value:
        """Return the value of an element of the carried tuple after one trip of a loop."""
        key = (body.place, index)
        known = self._after.get(key)
        if known is not None:
            return known
        if key in self._open:
            return Unknown("it is computed from itself")
        self._open.add(key)
        known = self.result(body, index, carried, depth)
        self._open.remove(key)
        if isinstance(known, Linear):  # others can depend on the depth
            self._after[key] = known
        return known

    def is_kept(self, body: Call | None, index: ShapeIndex, depth: int = 0) -> bool:
        """Return whether a loop's body hands on an element of the carried tuple unchanged."""
        return body is not None and self.after_trip(body, index, depth) == Linear(index, 0)

    def _calls_of(self, place: int) -> list[Call]:
        """Return the calls of a computation by control flow."""
        calls = self._links.calls.of_computation(place)
        return [call for call in calls if opcode_traits(self.opcodes[call.row]).is_control_flow]

    def inside(self, body: Call) -> Scope:
        """Return the scope inside a loop: constants for elements that never change."""
        found: dict[ShapeIndex, Value] = {}
        loop = body.row

        def scope(parameter: int, index: ShapeIndex, depth: int) -> Value:
            del parameter
            if index not in found:
                found[index] = Linear(index, 0)
                if self.is_kept(body, index, depth):
                    start = self.operand(loop, 0, index, self.outside(loop), depth + 1)
                    if isinstance(start, Linear) and start.slot is None:
                        found[index] = start
            return found[index]

        return scope

    def outside(self, row: int) -> Scope:
        """Return the scope of an instruction in the whole program: constants or unknown.

        Parameters are followed through the only call of a computation, and through loops that carry
        an element unchanged.
        """
        place = self._links.owners[row]

        def scope(parameter: int, index: ShapeIndex, depth: int) -> Value:
            calls = self._calls_of(place)
            if depth > _DEPTH or len(calls) != 1:
                return Unknown(self._argument(place, parameter))
            caller = calls[0].row
            opcode = self.opcodes[caller]
            if opcode == "while":
                if not self.is_kept(self.body(caller), index):
                    return Unknown(f"it changes in the loop {self.name(caller)} around it")
                position = 0
            elif opcode == "conditional":
                position = 1 + calls[0].number
            else:
                position = self.number(parameter)
            return self.operand(caller, position, index, self.outside(caller), depth + 1)

        return scope

    def around(self, row: int, depth: int = 0) -> tuple[Call, Scope] | None:
        """Return the loop whose body runs an instruction once a trip, and the scope inside it.

        The loop is returned as the call of its body. None for an instruction of a computation that
        several instructions run, or one in a branch.
        """
        calls = self._calls_of(self._links.owners[row])
        if len(calls) != 1 or depth > _DEPTH:
            return None
        (call,) = calls
        opcode = self.opcodes[call.row]
        if opcode == "while" and call.role == "body":
            return call, self.inside(call)
        found = self.around(call.row, depth + 1) if opcode == "call" else None
        return None if found is None else (found[0], of_operands(self, call.row, found[1]))

    def number(self, parameter: int) -> int:
        """Return the number of a parameter."""
        return self.module.instruction(parameter).parameter_number or 0

    def _argument(self, place: int, parameter: int) -> str:
        computation = self.module.computations[place]
        if computation.is_entry:
            return f"it is argument {self.number(parameter)} of the program"
        return f"it is an argument of {computation.name}, which has several callers or none"


def of_operands(scalars: Scalars, row: int, scope: Scope) -> Scope:
    """Return the scope of a called computation: its parameters are the caller's operands."""

    def parameters(parameter: int, index: ShapeIndex, depth: int) -> Value:
        return scalars.operand(row, scalars.number(parameter), index, scope, depth)

    return parameters


# ---- one opcode: element of the result of a row, followed to its operands (see `Scalars.of`) ----


def _through_parameter(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    return scope(row, index, depth + 1)


def _of_constant(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    found = _NUMBER.fullmatch(s.module.columns.text(row, OPERANDS, OPERANDS_END))
    if found is None or len(found[1]) > _LONGEST:
        return Unknown(f"{s.name(row)} is no integer")
    text = found[1]
    return Linear(None, int(text) if text not in ("true", "false") else int(text == "true"))


def _through_tuple(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    if not index:
        return Unknown(f"{s.name(row)} is a tuple")
    return s.operand(row, index[0], index[1:], scope, depth)


def _through_element(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    position = s.module.instruction(row).tuple_index
    if position is None:
        return Unknown(f"{s.name(row)} has no index")
    return s.operand(row, 0, (position, *index), scope, depth)


def _through_copy_start(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    """Follow copy-start, (destination, source, context): the first two are the operand."""
    return s.operand(row, 0, index[1:], scope, depth)


def _through_copy_done(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    return s.operand(row, 0, (0, *index), scope, depth)


def _through_same(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    return s.operand(row, 0, index, scope, depth)


def _through_convert(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    """Follow a conversion between integers; a loop counter is small enough for both types."""
    instruction = s.module.instruction(row)
    if not _is_integer(instruction.shape):
        return Unknown(f"{instruction.name} is no integer")
    operand = s.module.links.operand_shape(row, 0)
    if operand is not None and not _is_integer(operand):
        return Unknown(f"{instruction.name} converts what is no integer")
    return s.operand(row, 0, index, scope, depth)


def _through_sum(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    """Follow add and subtract: at most one side may depend on the loop."""
    left = s.operand(row, 0, index, scope, depth)
    right = s.operand(row, 1, index, scope, depth)
    if isinstance(left, Unknown):
        return left
    if isinstance(right, Unknown):
        return right
    shape = s.module.instruction(row).shape
    if s.opcodes[row] == "subtract":
        if right.slot is not None:
            return Unknown(f"{s.name(row)} subtracts what changes")
        return _wrapped(left.slot, left.offset - right.offset, shape)
    if left.slot is not None and right.slot is not None:
        return Unknown(f"{s.name(row)} adds what changes")
    slot = right.slot if left.slot is None else left.slot
    return _wrapped(slot, left.offset + right.offset, shape)


def _wrapped(slot: ShapeIndex | None, number: int, shape: Shape | None) -> Linear:
    """Return a sum modulo the range of the result type.

    A number added to an element of the carried tuple is replaced by the equivalent one nearest to
    zero: adding 4294967295 to a u32 subtracts one.
    """
    bounds = integer_bounds(shape)
    if bounds is None:
        return Linear(slot, number)
    low, high = bounds
    if slot is not None:
        low = -(high - low + 1) // 2
    return Linear(slot, (number - low) % (bounds[1] - bounds[0] + 1) + low)


def _through_product(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    left = s.operand(row, 0, index, scope, depth)
    right = s.operand(row, 1, index, scope, depth)
    if isinstance(left, Linear) and isinstance(right, Linear) and left.slot == right.slot is None:
        return Linear(None, left.offset * right.offset)
    return Unknown(f"{s.name(row)} multiplies what changes")


def _through_call(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    """Follow a fusion or call into its computation."""
    called = s.module.links.calls.of_row(row)
    if not called:
        return Unknown(f"{s.name(row)} calls nothing that the text has")
    return s.result(called[0], index, of_operands(s, row, scope), depth)


def _through_loop(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    """Follow an element that a loop carries unchanged, or adds to in a known number of trips."""
    body, trips = s.body(row), s.trips.get(row)
    if s.is_kept(body, index, depth):
        return s.operand(row, 0, index, scope, depth)
    if body is not None and trips is not None:
        start = s.operand(row, 0, index, scope, depth)
        after = s.after_trip(body, index, depth)
        if isinstance(start, Linear) and isinstance(after, Linear) and after.slot == index:
            shape = s.module.instruction(row).shape_of(index)
            return _wrapped(start.slot, start.offset + trips * after.offset, shape)
    return Unknown(f"the loop {s.name(row)} changes it")


def _unfollowed(s: Scalars, row: int, index: ShapeIndex, scope: Scope, depth: int) -> Value:
    return Unknown(f"{s.name(row)} ({s.opcodes[row]}) computes it")


def _once(combine: _Follower) -> _Follower:
    return lambda s, row, index, scope, depth: s.combined(combine, row, index, scope, depth)


_FOLLOWERS: Mapping[str, _Follower] = {
    "parameter": _through_parameter,
    "constant": _of_constant,
    "tuple": _through_tuple,
    "get-tuple-element": _through_element,
    "copy-start": _through_copy_start,
    "copy-done": _through_copy_done,
    "convert": _through_convert,
    "bitcast-convert": _through_convert,
    "add": _once(_through_sum),
    "subtract": _once(_through_sum),
    "multiply": _once(_through_product),
    "fusion": _through_call,
    "call": _through_call,
    "while": _through_loop,
}


def _follower(opcode: str) -> _Follower:
    """Return the function that follows the results of an opcode."""
    known = _through_same if opcode_traits(opcode).is_forwarding else _unfollowed
    return _FOLLOWERS.get(opcode, known)


def _is_integer(shape: Shape | None) -> bool:
    return integer_bounds(shape) is not None


def integer_bounds(shape: Shape | None) -> tuple[int, int] | None:
    """Return the least and greatest number of an integer type; None for other types."""
    return None if shape is None or shape.is_tuple else _bounds(shape.element_type)


@functools.cache
def _bounds(element_type: str) -> tuple[int, int] | None:
    found = _INTEGER.match(element_type)
    if found is None:
        return None
    width = int(found[2])
    return (0, 2**width - 1) if found[1] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
