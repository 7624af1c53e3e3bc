"""Value of a scalar: a constant, or an element of the tuple that a loop carries.

A scalar is followed through tuples and their elements, copies, conversions between integers,
broadcasts and reshapes, sums and products of constants, fusions and calls, and loops that carry an
element unchanged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from hlo_lens.model.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.model.hlo.computation import HloComputation
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.links import Call
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.hlo.query import InstructionTable
    from hlo_lens.model.shapes.shape import Shape, ShapeIndex

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


class Scope(Protocol):
    """Values of the parameters of a computation, in terms of a caller or a loop."""

    def __call__(self, number: int, index: ShapeIndex, depth: int) -> Value:
        """Return the value of one element of a parameter."""
        ...


def carried(number: int, index: ShapeIndex, depth: int) -> Value:
    """Return the element of the carried tuple: the scope of a loop's body and condition."""
    del number, depth
    return Linear(index, 0)


class Scalars:
    """Values of the scalars of a module."""

    def __init__(self, table: InstructionTable) -> None:
        self.module: HloModule = table.module
        self._after: dict[tuple[str, ShapeIndex], Value] = {}

    def of(
        self, instruction: HloInstruction, index: ShapeIndex, scope: Scope, depth: int = 0
    ) -> Value:
        """Return the value of one element of an instruction's result.

        Args:
            instruction: The instruction.
            index: Tuple index of the scalar in the result; () if the result is the scalar.
            scope: Values of the parameters of its computation.
            depth: Number of instructions followed so far.
        """
        if depth > _DEPTH:
            return Unknown("it is computed in too many steps")
        opcode = instruction.opcode
        if opcode == "parameter":
            return scope(instruction.parameter_number or 0, index, depth + 1)
        if opcode == "constant":
            return _constant(instruction)
        if opcode_traits(opcode).is_forwarding:
            return self.operand(instruction, 0, index, scope, depth)
        follow = _FOLLOW.get(opcode)
        if follow is None:
            return Unknown(f"{instruction.name} ({opcode}) computes it")
        return follow(_Element(self, instruction, index, scope, depth))

    def operand(
        self,
        instruction: HloInstruction,
        position: int,
        index: ShapeIndex,
        scope: Scope,
        depth: int,
    ) -> Value:
        """Return the value of one element of an operand."""
        found = instruction.producer(position)
        if found is None:
            return Unknown(f"operand {position} of {instruction.name} is not in the text")
        producer, element = found
        return self.of(producer, (*element, *index), scope, depth + 1)

    def root(self, name: str, index: ShapeIndex, scope: Scope, depth: int = 0) -> Value:
        """Return the value of one element of a computation's result."""
        computation = self.module.computation(name)
        root = None if computation is None else computation.root
        if root is None:
            return Unknown(f"computation {name} is not in the text")
        return self.of(root, index, scope, depth + 1)

    def after_trip(self, body: str, index: ShapeIndex, depth: int = 0) -> Value:
        """Return the value of an element of the carried tuple after one trip of a loop."""
        known = self._after.get((body, index))
        if known is None:
            known = self.root(body, index, carried, depth)
            if isinstance(known, Linear):  # others can depend on the depth
                self._after[body, index] = known
        return known

    def _calls_of(self, computation: HloComputation) -> list[Call]:
        """Return the calls of a computation by control flow."""
        calls = self.module.links.calls.of_computation(computation.place)
        opcodes = self.module.opcodes
        return [call for call in calls if opcode_traits(opcodes[call.row]).is_control_flow]

    def inside(self, loop: HloInstruction) -> Scope:
        """Return the scope inside a loop: constants for elements that never change."""
        found: dict[ShapeIndex, Value] = {}

        def scope(number: int, index: ShapeIndex, depth: int) -> Value:
            del number
            if index not in found:
                found[index] = Linear(index, 0)
                if [self.after_trip(b, index, depth) for b in body_of(loop)] == [found[index]]:
                    around = self.outside(loop.computation)
                    start = self.operand(loop, 0, index, around, depth + 1)
                    if isinstance(start, Linear) and start.slot is None:
                        found[index] = start
            return found[index]

        return scope

    def outside(self, computation: HloComputation) -> Scope:
        """Return the scope of a computation in the whole program: constants or unknown.

        Parameters are followed through the only call of a computation, and through loops that carry
        an element unchanged.
        """

        def scope(number: int, index: ShapeIndex, depth: int) -> Value:
            calls = self._calls_of(computation)
            if depth > _DEPTH or len(calls) != 1:
                return Unknown(_argument(computation, number))
            caller = self.module.instruction(calls[0].row)
            position = number
            if caller.opcode == "while":
                after = [self.after_trip(name, index) for name in body_of(caller)]
                if after != [Linear(index, 0)]:
                    return Unknown(f"it changes in the loop {caller.name} around it")
                position = 0
            elif caller.opcode == "conditional":
                position = 1 + calls[0].number
            around = self.outside(caller.computation)
            return self.operand(caller, position, index, around, depth + 1)

        return scope

    def around(
        self, computation: HloComputation, depth: int = 0
    ) -> tuple[HloInstruction, Scope] | None:
        """Return the loop whose body runs a computation once a trip, and the scope inside it.

        None for a computation that several instructions run, or one in a branch.
        """
        calls = self._calls_of(computation)
        if len(calls) != 1 or depth > _DEPTH:
            return None
        caller = self.module.instruction(calls[0].row)
        if caller.opcode == "while" and calls[0].role == "body":
            return caller, self.inside(caller)
        found = self.around(caller.computation, depth + 1) if caller.opcode == "call" else None
        return None if found is None else (found[0], of_operands(self, caller, found[1]))


def _argument(computation: HloComputation, number: int) -> str:
    if computation.is_entry:
        return f"it is argument {number} of the program"
    return f"it is an argument of {computation.name}, which has several callers or none"


def body_of(loop: HloInstruction) -> tuple[str, ...]:
    """Return the name of a loop's body as the only item; () if not printed."""
    value = loop.attribute("body")
    return loop.computation.module.reader.names(value) if value else ()


def _constant(instruction: HloInstruction) -> Value:
    found = _NUMBER.fullmatch(instruction.operand_text)
    if found is None or len(found[1]) > _LONGEST:
        return Unknown(f"{instruction.name} is no integer")
    text = found[1]
    return Linear(None, int(text) if text not in ("true", "false") else int(text == "true"))


@dataclass(frozen=True, slots=True)
class _Element:
    """One element of an instruction's result, to be followed to operands (see `Scalars.of`)."""

    scalars: Scalars
    instruction: HloInstruction
    index: ShapeIndex
    scope: Scope
    depth: int

    def operand(self, position: int, index: ShapeIndex) -> Value:
        """Return the value of one element of an operand."""
        return self.scalars.operand(self.instruction, position, index, self.scope, self.depth)


def _through_tuple(at: _Element) -> Value:
    if not at.index:
        return Unknown(f"{at.instruction.name} is a tuple")
    return at.operand(at.index[0], at.index[1:])


def _through_element(at: _Element) -> Value:
    position = at.instruction.tuple_index
    if position is None:
        return Unknown(f"{at.instruction.name} has no index")
    return at.operand(0, (position, *at.index))


def _through_copy_start(at: _Element) -> Value:
    """Follow copy-start, (destination, source, context): the first two are the operand."""
    return at.operand(0, at.index[1:])


def _through_convert(at: _Element) -> Value:
    """Follow a conversion between integers; a loop counter is small enough for both types."""
    if not _is_integer(at.instruction.shape):
        return Unknown(f"{at.instruction.name} is no integer")
    operand = at.instruction.operand_shape(0)
    if operand is not None and not _is_integer(operand):
        return Unknown(f"{at.instruction.name} converts what is no integer")
    return at.operand(0, at.index)


def _through_sum(at: _Element) -> Value:
    """Follow add and subtract: at most one side may depend on the loop."""
    left = at.operand(0, at.index)
    right = at.operand(1, at.index)
    if isinstance(left, Unknown):
        return left
    if isinstance(right, Unknown):
        return right
    if at.instruction.opcode == "subtract":
        if right.slot is not None:
            return Unknown(f"{at.instruction.name} subtracts what changes")
        return _wrapped(left.slot, left.offset - right.offset, at.instruction)
    if left.slot is not None and right.slot is not None:
        return Unknown(f"{at.instruction.name} adds what changes")
    slot = right.slot if left.slot is None else left.slot
    return _wrapped(slot, left.offset + right.offset, at.instruction)


def _wrapped(slot: ShapeIndex | None, number: int, instruction: HloInstruction) -> Linear:
    """Return a sum modulo the range of the result type.

    A number added to an element of the carried tuple is replaced by the equivalent one nearest to
    zero: adding 4294967295 to a u32 subtracts one.
    """
    bounds = integer_bounds(instruction.shape)
    if bounds is None:
        return Linear(slot, number)
    low, high = bounds
    if slot is not None:
        low = -(high - low + 1) // 2
    return Linear(slot, (number - low) % (bounds[1] - bounds[0] + 1) + low)


def _through_product(at: _Element) -> Value:
    left = at.operand(0, at.index)
    right = at.operand(1, at.index)
    if isinstance(left, Linear) and isinstance(right, Linear) and left.slot == right.slot is None:
        return Linear(None, left.offset * right.offset)
    return Unknown(f"{at.instruction.name} multiplies what changes")


def _through_call(at: _Element) -> Value:
    """Follow a fusion or call into its computation."""
    called = at.instruction.called_computations
    if not called:
        return Unknown(f"{at.instruction.name} calls nothing that the text has")
    return at.scalars.root(
        called[0], at.index, of_operands(at.scalars, at.instruction, at.scope), at.depth
    )


def of_operands(scalars: Scalars, instruction: HloInstruction, scope: Scope) -> Scope:
    """Return the scope of a called computation: its parameters are the caller's operands."""

    def parameters(number: int, index: ShapeIndex, depth: int) -> Value:
        return scalars.operand(instruction, number, index, scope, depth)

    return parameters


def _through_loop(at: _Element) -> Value:
    """Follow an element that a loop carries unchanged."""
    for body in body_of(at.instruction):
        if at.scalars.after_trip(body, at.index, at.depth) == Linear(at.index, 0):
            return at.operand(0, at.index)
    return Unknown(f"the loop {at.instruction.name} changes it")


_FOLLOW: Mapping[str, Callable[[_Element], Value]] = {
    "tuple": _through_tuple,
    "get-tuple-element": _through_element,
    "copy-start": _through_copy_start,
    "copy-done": lambda at: at.operand(0, (0, *at.index)),
    "convert": _through_convert,
    "bitcast-convert": _through_convert,
    "add": _through_sum,
    "subtract": _through_sum,
    "multiply": _through_product,
    "fusion": _through_call,
    "call": _through_call,
    "while": _through_loop,
}


def _is_integer(shape: Shape | None) -> bool:
    return integer_bounds(shape) is not None


def integer_bounds(shape: Shape | None) -> tuple[int, int] | None:
    """Return the least and greatest number of an integer type; None for other types."""
    found = None if shape is None or shape.is_tuple else _INTEGER.match(shape.element_type)
    if found is None:
        return None
    width = int(found[2])
    return (0, 2**width - 1) if found[1] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
