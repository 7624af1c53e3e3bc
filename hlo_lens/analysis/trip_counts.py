"""How often each while loop runs its body.

Printed: XLA writes ``known_trip_count`` into the loop's backend_config on CPU (since 0.4.35) and
GPU, never on TPU and never before optimization. Derived where it is not printed: the condition
compares a counter with a bound, the body adds a constant to the counter, and start, step and bound
are constants, be they written in place, copied, converted, inside fusions, or carried unchanged
through the tuples of this loop and the loops around it. The count is exact: a comparison that an
overflow of the counter would make true again gives no count. Zero is a count.

Sources: xla/service/while_loop_analysis.cc (MatchTrivialLoopTripCount), while_loop_trip_count_
annotator.cc, xla_data.proto (WhileLoopBackendConfig), as of August 2026.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from hlo_lens.analysis.result import Column, Result, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hlo_lens.analysis.result import Row
    from hlo_lens.model.hlo import HloComputation, HloInstruction, HloModule, HloOperand
    from hlo_lens.model.hlo_query import InstructionTable
    from hlo_lens.model.shape import Shape, ShapeIndex

_WHILES = frozenset({"while"})
_CALLERS = frozenset({"while", "call", "conditional", "async-start"})
_PRINTED = re.compile(r'"known_trip_count":\{(?:"n":"?(-?\d+)"?)?\}')
_NUMBER = re.compile(r"\s*\{*\s*(-?\d+|true|false)\s*\}*\s*")
_INTEGER = re.compile(r"([su])(\d+)$")
_DEPTH = 64
"""How many instructions a scalar is followed through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripCount:
    """How often one loop runs its body.

    Attributes:
        loop: Name of the while instruction.
        computation: Computation that holds it.
        body: Name of its body.
        condition: Name of its condition.
        trip_count: Number of runs of the body per run of the loop; None if unknown.
        source: ``printed`` or ``derived``; None if unknown.
        printed: What XLA printed; None where it did not.
        derived: What follows from condition, start and step; None where it does not.
        reason: Why it could not be derived; None where it could.
    """

    loop: str
    computation: str
    body: str | None
    condition: str | None
    trip_count: int | None
    source: str | None
    printed: int | None
    derived: int | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class TripCounts(Result):
    """All while loops of a module, in text order."""

    KIND: ClassVar[str] = "trip-counts"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("loop", Unit.NONE, "the while instruction"),
        Column("computation", Unit.NONE, "computation that holds it"),
        Column("trip_count", Unit.COUNT, "runs of the body per run of the loop"),
        Column("source", Unit.NONE, "printed by XLA, or derived"),
        Column("reason", Unit.NONE, "why it could not be derived"),
    )
    loops: tuple[TripCount, ...]

    def rows(self) -> Iterator[Row]:
        """Yield the loops in text order."""
        for loop in self.loops:
            yield loop.loop, loop.computation, loop.trip_count, loop.source, loop.reason

    def of(self, loop: HloInstruction) -> TripCount | None:
        """Return what is known of one while instruction."""
        wanted = (loop.computation.name, loop.name)
        return next((t for t in self.loops if (t.computation, t.loop) == wanted), None)


def trip_counts(table: InstructionTable) -> TripCounts:
    """Return the trip counts of all while loops of a module."""
    loops = [table.instruction(row) for row in table.rows_of(_WHILES)]
    if not loops:
        return TripCounts(loops=())
    scalars = _Scalars(table)
    return TripCounts(loops=tuple(_trip_count(loop, scalars) for loop in loops))


def _trip_count(loop: HloInstruction, scalars: _Scalars) -> TripCount:
    attributes = loop.attributes
    names = loop.computation.module.reader.names
    printed = printed_trip_count(attributes.get("backend_config", ""))
    derived = _derived(loop, scalars)
    count = derived if isinstance(derived, int) else None
    return TripCount(
        loop=loop.name,
        computation=loop.computation.name,
        body=next(iter(names(attributes.get("body", ""))), None) if "body" in attributes else None,
        condition=(
            next(iter(names(attributes["condition"])), None) if "condition" in attributes else None
        ),
        trip_count=count if printed is None else printed,
        source="printed" if printed is not None else "derived" if count is not None else None,
        printed=printed,
        derived=count,
        reason=derived.reason if isinstance(derived, _Unknown) else None,
    )


def printed_trip_count(backend_config: str) -> int | None:
    """Return the ``known_trip_count`` of a loop's backend_config; None where there is none.

    >>> printed_trip_count('{"known_trip_count":{"n":"4"}}')
    4
    """
    if "known_trip_count" not in backend_config:
        return None
    found = _PRINTED.search(backend_config.replace("\\", "").replace(" ", ""))
    return None if found is None else int(found[1] or 0)


# ---- what a scalar is --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Linear:
    """An integer: a constant, or an element of the loop's carried tuple plus a constant."""

    slot: ShapeIndex | None
    offset: int


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A scalar that cannot be followed further, and why."""

    reason: str


_Value = _Linear | _Unknown


class _Scope(Protocol):
    """What the parameters of a computation are, seen from somewhere else."""

    def __call__(self, number: int, index: ShapeIndex, depth: int) -> _Value: ...


def _carried(number: int, index: ShapeIndex, depth: int) -> _Value:
    """Return an element of the tuple that a loop carries: inside its body and condition."""
    del number, depth
    return _Linear(index, 0)


class _Scalars:
    """Follows scalars through a module.

    Args:
        table: Table of the module.
    """

    def __init__(self, table: InstructionTable) -> None:
        self.module: HloModule = table.module
        self._callers: dict[str, list[HloInstruction]] = {}
        for row in table.rows_of(_CALLERS):
            caller = table.instruction(row)
            for name in caller.called_computations:
                self._callers.setdefault(name, []).append(caller)

    def of(
        self, instruction: HloInstruction, index: ShapeIndex, scope: _Scope, depth: int = 0
    ) -> _Value:
        """Return what one element of an instruction's result is.

        Args:
            instruction: The instruction.
            index: Place of the scalar in its result; () where the result is the scalar.
            scope: What the parameters of its computation are.
            depth: How many instructions lie behind.
        """
        if depth > _DEPTH:
            return _Unknown("it is computed in too many steps")
        opcode = instruction.opcode
        if opcode == "parameter":
            return scope(instruction.parameter_number or 0, index, depth + 1)
        if opcode == "constant":
            return _constant(instruction)
        if opcode in _PASSING:
            return self.operand(instruction, 0, index, scope, depth)
        follow = _FOLLOW.get(opcode)
        if follow is None:
            return _Unknown(f"{instruction.name} ({opcode}) computes it")
        return follow(self, instruction, index, scope, depth)

    def operand(
        self,
        instruction: HloInstruction,
        position: int,
        index: ShapeIndex,
        scope: _Scope,
        depth: int,
    ) -> _Value:
        """Return what one element of an operand is."""
        operands = instruction.operands
        operand = operands[position] if position < len(operands) else None
        producer = None if operand is None else instruction.computation.instruction(operand.name)
        if operand is None or producer is None:
            return _Unknown(f"operand {position} of {instruction.name} is not in the text")
        return self.of(producer, (*operand.index, *index), scope, depth + 1)

    def root(self, name: str, index: ShapeIndex, scope: _Scope, depth: int = 0) -> _Value:
        """Return what one element of a computation's result is."""
        computation = self.module.computation(name)
        root = None if computation is None else computation.root
        if root is None:
            return _Unknown(f"computation {name} is not in the text")
        return self.of(root, index, scope, depth + 1)

    def inside(self, loop: HloInstruction) -> _Scope:
        """Return what the elements of a loop's carried tuple are: constants where they stay so."""
        found: dict[ShapeIndex, _Value] = {}

        def scope(number: int, index: ShapeIndex, depth: int) -> _Value:
            del number
            if index not in found:
                found[index] = _Linear(index, 0)
                if [self.root(b, index, _carried, depth) for b in _body(loop)] == [found[index]]:
                    around = self.outside(loop.computation)
                    start = self.operand(loop, 0, index, around, depth + 1)
                    if isinstance(start, _Linear) and start.slot is None:
                        found[index] = start
            return found[index]

        return scope

    def outside(self, computation: HloComputation) -> _Scope:
        """Return what a computation's parameters are for the whole program: constants or unknown.

        Followed through the only call of a computation, and through loops that carry an element
        unchanged.
        """

        def scope(number: int, index: ShapeIndex, depth: int) -> _Value:
            callers = self._callers.get(computation.name, [])
            if depth > _DEPTH or len(callers) != 1:
                return _Unknown(_argument(computation, number))
            caller = callers[0]
            position = number
            if caller.opcode == "while":
                after = [self.root(name, index, _carried) for name in _body(caller)]
                if after != [_Linear(index, 0)]:
                    return _Unknown(f"it changes in the loop {caller.name} around it")
                position = 0
            elif caller.opcode == "conditional":
                position = 1 + caller.called_computations.index(computation.name)
            around = self.outside(caller.computation)
            return self.operand(caller, position, index, around, depth + 1)

        return scope


def _argument(computation: HloComputation, number: int) -> str:
    if computation.is_entry:
        return f"it is argument {number} of the program"
    return f"it is an argument of {computation.name}, which has several callers or none"


def _body(loop: HloInstruction) -> tuple[str, ...]:
    """Return the name of a loop's body, alone; () where the text does not tell."""
    value = loop.attribute("body")
    return loop.computation.module.reader.names(value) if value else ()


def _constant(instruction: HloInstruction) -> _Value:
    found = _NUMBER.fullmatch(instruction.operand_text)
    if found is None:
        return _Unknown(f"{instruction.name} is no integer")
    text = found[1]
    return _Linear(None, int(text) if text not in ("true", "false") else int(text == "true"))


def _through_tuple(
    scalars: _Scalars, instruction: HloInstruction, index: ShapeIndex, scope: _Scope, depth: int
) -> _Value:
    if not index:
        return _Unknown(f"{instruction.name} is a tuple")
    return scalars.operand(instruction, index[0], index[1:], scope, depth)


def _through_element(
    scalars: _Scalars, instruction: HloInstruction, index: ShapeIndex, scope: _Scope, depth: int
) -> _Value:
    position = instruction.attributes.get("index", "")
    if not position.isdecimal():
        return _Unknown(f"{instruction.name} has no index")
    return scalars.operand(instruction, 0, (int(position), *index), scope, depth)


def _through_copy_start(
    scalars: _Scalars, instruction: HloInstruction, index: ShapeIndex, scope: _Scope, depth: int
) -> _Value:
    """Follow copy-start: (destination, source, context), all of them the operand but the last."""
    return scalars.operand(instruction, 0, index[1:], scope, depth)


def _through_copy_done(
    scalars: _Scalars, instruction: HloInstruction, index: ShapeIndex, scope: _Scope, depth: int
) -> _Value:
    return scalars.operand(instruction, 0, (0, *index), scope, depth)


def _through_convert(
    scalars: _Scalars, instruction: HloInstruction, index: ShapeIndex, scope: _Scope, depth: int
) -> _Value:
    """Follow a conversion between integers that cannot lose any; a loop counter is not large."""
    if not _is_integer(instruction.shape):
        return _Unknown(f"{instruction.name} is no integer")
    operand = _operand_shape(instruction, 0)
    if operand is not None and not _is_integer(operand):
        return _Unknown(f"{instruction.name} converts what is no integer")
    return scalars.operand(instruction, 0, index, scope, depth)


def _through_sum(
    scalars: _Scalars, instruction: HloInstruction, index: ShapeIndex, scope: _Scope, depth: int
) -> _Value:
    """Follow add and subtract: at most one side may depend on the loop."""
    left = scalars.operand(instruction, 0, index, scope, depth)
    right = scalars.operand(instruction, 1, index, scope, depth)
    if isinstance(left, _Unknown):
        return left
    if isinstance(right, _Unknown):
        return right
    if instruction.opcode == "subtract":
        if right.slot is not None:
            return _Unknown(f"{instruction.name} subtracts what changes")
        return _wrapped(left.slot, left.offset - right.offset, instruction)
    if left.slot is not None and right.slot is not None:
        return _Unknown(f"{instruction.name} adds what changes")
    slot = right.slot if left.slot is None else left.slot
    return _wrapped(slot, left.offset + right.offset, instruction)


def _wrapped(slot: ShapeIndex | None, number: int, instruction: HloInstruction) -> _Linear:
    """Return a sum as the type of the result holds it.

    What is added to an element of the carried tuple is the nearest number to zero that does the
    same: adding 4294967295 to a u32 takes one away.
    """
    bounds = _bounds(instruction.shape)
    if bounds is None:
        return _Linear(slot, number)
    low, high = bounds
    if slot is not None:
        low = -(high - low + 1) // 2
    return _Linear(slot, (number - low) % (bounds[1] - bounds[0] + 1) + low)


def _through_product(
    scalars: _Scalars, instruction: HloInstruction, index: ShapeIndex, scope: _Scope, depth: int
) -> _Value:
    left = scalars.operand(instruction, 0, index, scope, depth)
    right = scalars.operand(instruction, 1, index, scope, depth)
    if isinstance(left, _Linear) and isinstance(right, _Linear) and left.slot == right.slot is None:
        return _Linear(None, left.offset * right.offset)
    return _Unknown(f"{instruction.name} multiplies what changes")


def _through_call(
    scalars: _Scalars, instruction: HloInstruction, index: ShapeIndex, scope: _Scope, depth: int
) -> _Value:
    """Follow a fusion or call into what it calls."""
    called = instruction.called_computations
    if not called:
        return _Unknown(f"{instruction.name} calls nothing that the text has")
    return scalars.root(called[0], index, _of_operands(scalars, instruction, scope), depth)


def _of_operands(scalars: _Scalars, instruction: HloInstruction, scope: _Scope) -> _Scope:
    """Return what the parameters of a called computation are: the caller's operands."""

    def parameters(number: int, index: ShapeIndex, depth: int) -> _Value:
        return scalars.operand(instruction, number, index, scope, depth)

    return parameters


def _through_loop(
    scalars: _Scalars, instruction: HloInstruction, index: ShapeIndex, scope: _Scope, depth: int
) -> _Value:
    """Follow an element that a loop carries unchanged."""
    for body in _body(instruction):
        if scalars.root(body, index, _carried, depth) == _Linear(index, 0):
            return scalars.operand(instruction, 0, index, scope, depth)
    return _Unknown(f"the loop {instruction.name} changes it")


_PASSING_NAMES = """
    bitcast broadcast copy opt-barrier optimization-barrier reshape async-done domain add-dependency
"""
_PASSING = frozenset(_PASSING_NAMES.split())
"""Opcodes whose result is their first operand; one scalar of it, in all that is asked here."""

_FOLLOW: Mapping[str, Callable[[_Scalars, HloInstruction, ShapeIndex, _Scope, int], _Value]] = {
    "tuple": _through_tuple,
    "get-tuple-element": _through_element,
    "copy-start": _through_copy_start,
    "copy-done": _through_copy_done,
    "convert": _through_convert,
    "bitcast-convert": _through_convert,
    "add": _through_sum,
    "subtract": _through_sum,
    "multiply": _through_product,
    "fusion": _through_call,
    "call": _through_call,
    "while": _through_loop,
}


def _operand_shape(instruction: HloInstruction, position: int) -> Shape | None:
    """Return the shape of an operand, or None where the text does not tell."""
    operands = instruction.operands
    if position >= len(operands):
        return None
    return operand_shape(instruction, operands[position])


def operand_shape(instruction: HloInstruction, operand: HloOperand) -> Shape | None:
    """Return the shape of one of an instruction's operands, or None where it is not told."""
    producer = instruction.computation.instruction(operand.name)
    shape = None if producer is None else producer.shape
    for position in operand.index:
        parts = () if shape is None else shape.tuple_shapes
        shape = parts[position] if position < len(parts) else None
    return shape


def _is_integer(shape: Shape | None) -> bool:
    return _bounds(shape) is not None


def _bounds(shape: Shape | None) -> tuple[int, int] | None:
    """Return the least and greatest number of an integer type; None for other types."""
    found = None if shape is None or shape.is_tuple else _INTEGER.match(shape.element_type)
    if found is None:
        return None
    width = int(found[2])
    return (0, 2**width - 1) if found[1] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)


# ---- the condition -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """A comparison of two scalars that decides whether the body runs once more."""

    left: _Linear
    direction: str
    right: _Linear
    bounds: tuple[int, int]


def _derived(loop: HloInstruction, scalars: _Scalars) -> int | _Unknown:
    """Return the trip count that follows from a loop's condition, start and step."""
    condition = loop.attribute("condition")
    names = loop.computation.module.reader.names(condition) if condition else ()
    computation = scalars.module.computation(names[0]) if names else None
    root = None if computation is None else computation.root
    if root is None or not _body(loop):
        return _Unknown("condition or body is not in the text")
    inside = scalars.inside(loop)
    test = _test(root, scalars, inside)
    if isinstance(test, _Unknown):
        return test
    return _solved(loop, test, scalars, inside)


def _test(root: HloInstruction, scalars: _Scalars, scope: _Scope) -> _Test | _Unknown:
    """Return the comparison that a condition is made of."""
    if root.opcode == "compare":
        return _comparison(root, scalars, scope)
    operands = root.operands
    if root.opcode in ("fusion", "call") and root.called_computations:
        called = scalars.module.computation(root.called_computations[0])
        if called is not None and called.root is not None:
            return _test(called.root, scalars, _of_operands(scalars, root, scope))
    if root.opcode in ("bitcast", "copy", "reshape", "convert", "copy-done") and operands:
        before = root.computation.instruction(operands[0].name)
        if before is not None:
            return _test(before, scalars, scope)
    return _Unknown(f"the condition is {root.name} ({root.opcode}), no comparison")


def _comparison(compare: HloInstruction, scalars: _Scalars, scope: _Scope) -> _Test | _Unknown:
    bounds = _bounds(_operand_shape(compare, 0)) or _bounds(_operand_shape(compare, 1))
    if bounds is None:
        return _Unknown(f"{compare.name} compares what is no integer")
    left = scalars.operand(compare, 0, (), scope, 0)
    right = scalars.operand(compare, 1, (), scope, 0)
    if isinstance(left, _Unknown):
        return left
    if isinstance(right, _Unknown):
        return right
    direction = compare.attribute("direction") or ""
    return _Test(left=left, direction=direction, right=right, bounds=bounds)


def _solved(loop: HloInstruction, test: _Test, scalars: _Scalars, inside: _Scope) -> int | _Unknown:
    """Return how often a comparison is true: start and step of both sides put in."""
    sides = []
    for side in (test.left, test.right):
        found = _start_and_step(loop, side, scalars, inside)
        if isinstance(found, _Unknown):
            return found
        sides.append(found)
    (left, left_step), (right, right_step) = sides
    direction, bounds = test.direction, test.bounds
    if left_step and right_step:
        return _Unknown("both sides of the condition change")
    if right_step:
        left, left_step, right = right, right_step, left
        direction = _MIRRORED.get(direction, direction)
    count = count_true(left, left_step, direction, right, bounds)
    return _Unknown("it does not end before the counter overflows") if count is None else count


def _start_and_step(
    loop: HloInstruction, side: _Linear, scalars: _Scalars, inside: _Scope
) -> tuple[int, int] | _Unknown:
    """Return the first value of one side of the comparison, and what each trip adds to it."""
    if side.slot is None:
        return side.offset, 0
    start = scalars.operand(loop, 0, side.slot, scalars.outside(loop.computation), 0)
    after = scalars.root(_body(loop)[0], side.slot, inside)
    if isinstance(after, _Unknown):
        return after
    if after.slot != side.slot:
        return _Unknown("the counter is not a sum of itself and a constant")
    if isinstance(start, _Unknown):
        return start
    if start.slot is not None:
        return _Unknown("it changes in the loop around it")
    return start.offset + side.offset, after.offset


_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def count_true(
    start: int, step: int, direction: str, bound: int, bounds: tuple[int, int]
) -> int | None:
    """Return how often ``start + k * step DIRECTION bound`` holds for k = 0, 1, ... in a row.

    None where it never ends, or ends only because the counter overflows.

    Args:
        start: First value of the counter.
        step: What each trip adds.
        direction: LT, LE, GT, GE, EQ or NE.
        bound: What the counter is compared with.
        bounds: Least and greatest number of the counter's type.

    >>> count_true(0, 3, "LT", 100, (-128, 127))
    34
    """
    low, high = bounds
    if direction in ("GT", "GE"):
        start, step, bound, low, high = -start, -step, -bound, -high, -low
        direction = _MIRRORED[direction]
    if direction == "LE":
        bound, direction = bound + 1, "LT"
    if direction == "LT":
        if start >= bound:
            return 0
        count = -(-(bound - start) // step) if step > 0 else None
    elif direction == "NE":
        distance = bound - start
        if not distance:
            return 0
        ends = step and distance % step == 0 and distance // step > 0
        count = distance // step if ends else None
    elif direction == "EQ":
        if start != bound:
            return 0
        count = 1 if step else None
    else:
        count = None
    return count if count is not None and low <= start + count * step <= high else None
