"""Trip counts of while loops: the number of runs of the body per run of the loop.

Printed: XLA writes ``known_trip_count`` into the loop's backend_config on CPU (since 0.4.35) and
GPU, never on TPU and never before optimization. Derived if not printed: the condition compares a
counter with a bound, or is the conjunction of such comparisons (TensorFlow prints one of the loop's
own counter and of the program's), the body adds a constant to the counter, and start, step and
bound are constants: written in place, copied, converted, inside fusions, or carried unchanged
through the tuples of this loop and the loops around it, or what a counter is after another loop of
known trip count. The count is exact: a comparison that becomes true again when the counter
overflows gives no count. Zero is a count.

If start or bound change with the trips of the loop around it by a constant, the count is another
for each of those trips: then their sum over one run of that loop is known.

Sources: xla/service/while_loop_analysis.cc (MatchTrivialLoopTripCount), while_loop_trip_count_
annotator.cc, xla_data.proto (WhileLoopBackendConfig), as of August 2026.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from hlo_lens.hlo.columns import NOTHING, OPERANDS, OPERANDS_END
from hlo_lens.hlo.opcodes import opcode_traits, opcodes_where
from hlo_lens.program.value_flow import TUPLES, Route, Value, value_flow
from hlo_lens.render.result import Records, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hlo_lens.hlo.links import Call
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.shapes.shape import Shape, ShapeIndex

_PRINTED = re.compile(r'"known_trip_count":\{(?:"n":"?(-?\d{1,18})"?)?\}')
_NUMBER = re.compile(r"\s*\{*\s*(-?\d{1,40}|true|false)\s*\}*\s*")
_INTEGER = re.compile(r"([su])(\d{1,3})$")
_DEPTH = 64
"""Limit on the number of instructions through which a scalar is followed."""

_MOST_STEPS = 100
"""Instructions from a condition's result to its comparisons; damaged texts may have circles."""

_MOST_OUTER_TRIPS = 100_000
"""Trips of a loop in each of which the trips of a loop inside it are counted."""

_SAME = Route(
    TUPLES | opcodes_where(lambda traits: traits.is_forwarding) | {"copy-start", "copy-done"}
)
"""Instructions whose result is a scalar of an operand, unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripCount:
    """Trip count of one loop."""

    loop: Annotated[str, "the while instruction"]
    computation: Annotated[str, "computation that holds it"]
    trip_count: Annotated[int | None, Unit.COUNT, "runs of the body per run of the loop"] = None
    trip_source: Annotated[str | None, "printed by XLA, or derived"] = None
    reason: Annotated[str | None, "why it could not be derived"] = None
    trips_at_most: Annotated[
        int | None,
        Unit.COUNT,
        "upper bound of an unknown count, from the tests of the condition that can be counted",
    ] = None
    trips_of_outer_run: Annotated[
        int | None,
        Unit.COUNT,
        "sum over a run of the loop around it, where it changes with that loop's trips",
    ] = None
    around: str | None = None
    """Computation that runs the loop around it, where the count changes with that loop's trips."""

    @property
    def text(self) -> str:
        """The count, or its bound, as ``x4``, ``x<=4`` or ``x?``."""
        return trips_text(self.trip_count, self.trips_at_most)


def trips_text(count: int | None, most: int | None, show: Callable[[int], str] = str) -> str:
    """Return a trip count, or its bound, as text: ``x4``, ``x<=4`` or ``x?``."""
    if count is None:
        return "x?" if most is None else f"x<={show(most)}"
    return f"x{show(count)}"


@dataclass(frozen=True, kw_only=True)
class TripCounts(Records[TripCount]):
    """All while loops of a module, in text order."""

    KIND: ClassVar[str] = "trip-counts"
    loops: tuple[TripCount, ...]


def trip_counts(table: InstructionTable) -> TripCounts:
    """Return the trip counts of all while loops of a module."""
    scalars = _Scalars(table.module)
    counts = []
    for row in table.rows_of({"while"}):
        count = _trip_count(row, scalars)
        counts.append(count)
        if count.trip_count is not None:
            scalars.trips[row] = count.trip_count
    return TripCounts(loops=tuple(counts))


def _trip_count(row: int, scalars: _Scalars) -> TripCount:
    loop = scalars.module.instruction(row)
    count = TripCount(loop=loop.name, computation=loop.computation.name)
    printed = printed_trip_count(loop.attribute("backend_config") or "")
    if printed is not None:
        return replace(count, trip_count=printed, trip_source="printed")
    try:
        return replace(count, trip_count=_derived(row, scalars), trip_source="derived")
    except _UnknownError as unknown:
        return replace(
            count,
            reason=unknown.reason,
            trips_at_most=unknown.most,
            trips_of_outer_run=unknown.total,
            around=unknown.around,
        )


def printed_trip_count(backend_config: str) -> int | None:
    """Return the ``known_trip_count`` of a loop's backend_config; None without one.

    >>> printed_trip_count('{"known_trip_count":{"n":"4"}}')
    4
    """
    if "known_trip_count" not in backend_config:
        return None
    found = _PRINTED.search(backend_config.replace("\\", "").replace(" ", ""))
    return None if found is None else int(found[1] or 0)


# ---- scalars -----------------------------------------------------------------------------------


class _Linear(NamedTuple):
    """An integer: a constant, or an element of the loop's carried tuple plus a constant."""

    slot: ShapeIndex | None
    offset: int


class _UnknownError(Exception):
    """A number is not known, for a reason; perhaps its sum over a loop around, or its bound is."""

    def __init__(
        self,
        reason: str,
        total: int | None = None,
        around: str | None = None,
        most: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason, self.total, self.around, self.most = reason, total, around, most


_Scope: TypeAlias = "Callable[[Value, int], _Linear]"
"""Values of the parameters of a computation, in terms of a caller or a loop, at a depth."""


def _carried(parameter: Value, depth: int) -> _Linear:
    """Return the element of the carried tuple: the scope of a loop's body and condition."""
    del depth
    return _Linear(parameter.element, 0)


class _Scalars:
    """Values of the scalars of a module; an unknown one raises `_UnknownError`.

    A scalar is followed through tuples and their elements, copies, conversions between integers,
    broadcasts and reshapes, sums and products of constants, fusions and calls, and loops that carry
    an element unchanged.
    """

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.trips: dict[int, int] = {}  # of loops whose count is known, by row
        self.counted: set[int] = set()  # rows of the loops whose trips are being counted
        self.flow = value_flow(module)
        self.name = module.columns.name
        self._links = module.links
        self._after: dict[tuple[int, ShapeIndex], _Linear] = {}
        self._open: set[tuple[int, ShapeIndex]] = set()
        # else a chain of sums such as b = a + a, c = b + b doubles the work at each step
        self._combined: WeakKeyDictionary[_Scope, dict[tuple[int, int, int], _Linear]] = (
            WeakKeyDictionary()
        )

    def of(self, value: Value, scope: _Scope, depth: int = 0) -> _Linear:
        """Return the value of a scalar, by those of the parameters of its computation."""
        before: Value | None = value
        while before is not None and depth <= _DEPTH:
            value, before, depth = before, self.flow.before(before, _SAME), depth + 1
        depth -= 1
        row, opcode = value.row, self.module.opcodes[value.row]
        if before is not None or depth > _DEPTH:
            raise _UnknownError("it is computed in too many steps")
        if opcode == "parameter":
            return scope(value, depth + 1)
        if opcode in _VERBS:
            combined = self._combined.setdefault(scope, {})
            query = row, depth, len(self.trips)
            if query not in combined:
                combined[query] = self._sum_or_product(row, opcode, scope, depth)
            return combined[query]
        if opcode in ("fusion", "call"):
            calls = self._links.calls.of_row(row)
            if calls:
                return self.result(calls[0], value.element, self.of_operands(row, scope), depth)
        if opcode == "while":
            return self._after_loop(value, scope, depth)
        return self._other(value, opcode, scope, depth)

    def _other(self, value: Value, opcode: str, scope: _Scope, depth: int) -> _Linear:
        row = value.row
        if opcode == "constant":
            number = _NUMBER.fullmatch(self.module.columns.text(row, OPERANDS, OPERANDS_END))
            if number is not None:
                is_truth = number[1] in ("true", "false")
                return _Linear(None, int(number[1] == "true" if is_truth else number[1]))
        if opcode in ("convert", "bitcast-convert"):  # a counter is small enough for both types
            shapes = self.module.instruction(row).shape, self.module.operand_shape(row, 0)
            if None not in map(_integer_bounds, shapes):
                return self.operand(row, 0, value.element, scope, depth)
        raise _UnknownError(f"it depends on {self.name(row)} ({opcode})")

    def operand(
        self, row: int, position: int, index: ShapeIndex, scope: _Scope, depth: int = 0
    ) -> _Linear:
        """Return the value of one element of an operand."""
        operand = self.flow.operand(row, position, index)
        if operand is None:
            raise _UnknownError(f"operand {position} of {self.name(row)} is not in the text")
        return self.of(operand, scope, depth + 1)

    def _sum_or_product(self, row: int, opcode: str, scope: _Scope, depth: int) -> _Linear:
        """Return what add, subtract or multiply gives; one side of a sum may be of the loop."""
        left, right = (self.operand(row, side, (), scope, depth) for side in (0, 1))
        is_changing = right.slot is not None and (left.slot is not None or opcode == "subtract")
        if opcode == "multiply":
            if left.slot is None and right.slot is None:
                return _Linear(None, left.offset * right.offset)
            is_changing = True
        if is_changing:
            raise _UnknownError(f"{self.name(row)} {_VERBS[opcode]} what changes")
        sign = -1 if opcode == "subtract" else 1
        slot = right.slot if left.slot is None else left.slot
        shape = self.module.instruction(row).shape
        return _wrapped(slot, left.offset + sign * right.offset, shape)

    def _after_loop(self, value: Value, scope: _Scope, depth: int) -> _Linear:
        """Return what a loop carries unchanged, or adds to in a known number of trips."""
        row, index = value
        body = self.body(row)
        if body is not None and self._keeps(body, index, depth):
            return self.operand(row, 0, index, scope, depth)
        try:
            if body is not None and row in self.trips:
                after = self.after_trip(body, index, depth)
                start = self.operand(row, 0, index, scope, depth)
                if after.slot == index:
                    shape = self.module.instruction(row).shape_of(index)
                    return _wrapped(
                        start.slot, start.offset + self.trips[row] * after.offset, shape
                    )
        except _UnknownError:
            pass
        raise _UnknownError(f"the loop {self.name(row)} changes it")

    def body(self, row: int) -> Call | None:
        """Return the call of a loop's body."""
        calls = self._links.calls.of_row(row)
        return next((call for call in calls if call.role == "body"), None)

    def result(self, call: Call, index: ShapeIndex, scope: _Scope, depth: int = 0) -> _Linear:
        """Return the value of one element of the result of a called computation."""
        root = self._links.root(call)
        if root == NOTHING:
            raise _UnknownError(f"the text lacks what {self.name(call.row)} runs")
        return self.of(Value(root, index), scope, depth + 1)

    def after_trip(self, body: Call, index: ShapeIndex, depth: int = 0) -> _Linear:
        """Return the value of an element of the carried tuple after one trip of a loop."""
        key = (body.place, index)
        if key not in self._after:
            if key in self._open:
                raise _UnknownError("it is computed from itself")
            self._open.add(key)
            try:
                self._after[key] = self.result(body, index, _carried, depth)
            finally:
                self._open.remove(key)
        return self._after[key]

    def _keeps(self, body: Call, index: ShapeIndex, depth: int = 0) -> bool:
        try:
            return self.after_trip(body, index, depth) == _Linear(index, 0)
        except _UnknownError:
            return False

    def _calls_of(self, row: int) -> list[Call]:
        calls = self._links.calls.of_computation(self._links.owners[row])
        opcodes = self.module.opcodes
        return [call for call in calls if opcode_traits(opcodes[call.row]).is_control_flow]

    def inside(self, body: Call) -> _Scope:
        """Return the scope inside a loop: constants for elements that never change."""
        values: dict[ShapeIndex, _Linear] = {}

        def scope(parameter: Value, depth: int) -> _Linear:
            index = parameter.element
            if index not in values:
                values[index] = _Linear(index, 0)
                if self._keeps(body, index, depth):
                    try:
                        start = self.operand(body.row, 0, index, self.outside(body.row), depth + 1)
                    except _UnknownError:
                        return values[index]
                    if start.slot is None:
                        values[index] = start
            return values[index]

        return scope

    def outside(self, row: int) -> _Scope:
        """Return the scope of an instruction in the whole program: constants.

        Parameters are followed through the only call of a computation, and through loops that carry
        an element unchanged.
        """

        def scope(parameter: Value, depth: int) -> _Linear:
            calls = self._calls_of(row)
            if depth > _DEPTH or len(calls) != 1:
                raise _UnknownError(self._argument(parameter.row))
            (call,) = calls
            if self.module.opcodes[call.row] == "while":
                body = self.body(call.row)
                if body is None or not self._keeps(body, parameter.element):
                    raise _UnknownError(f"it changes in the loop {self.name(call.row)} around it")
            operand = self.flow.argument(parameter, call)
            if operand is None:
                raise _UnknownError(f"an operand of {self.name(call.row)} is not in the text")
            return self.of(operand, self.outside(call.row), depth + 2)

        return scope

    def around(self, row: int, depth: int = 0) -> tuple[Call, _Scope] | None:
        """Return the loop whose body runs an instruction once a trip, and the scope inside it.

        The loop is returned as the call of its body. None for an instruction of a computation that
        several instructions run, or one in a branch.
        """
        calls = self._calls_of(row)
        if len(calls) != 1 or depth > _DEPTH:
            return None
        (call,) = calls
        opcode = self.module.opcodes[call.row]
        if opcode == "while" and call.role == "body":
            return call, self.inside(call)
        outer = self.around(call.row, depth + 1) if opcode == "call" else None
        return None if outer is None else (outer[0], self.of_operands(call.row, outer[1]))

    def of_operands(self, row: int, scope: _Scope) -> _Scope:
        """Return the scope of a called computation: its parameters are the caller's operands."""

        def parameters(parameter: Value, depth: int) -> _Linear:
            number = self.module.instruction(parameter.row).parameter_number or 0
            return self.operand(row, number, parameter.element, scope, depth)

        return parameters

    def _argument(self, row: int) -> str:
        parameter = self.module.instruction(row)
        if parameter.computation.is_entry:
            return f"it is argument {parameter.parameter_number or 0} of the program"
        name = parameter.computation.name
        return f"it is an argument of {name}, which has several callers or none"


_VERBS = {"add": "adds", "subtract": "subtracts", "multiply": "multiplies"}


def _wrapped(slot: ShapeIndex | None, number: int, shape: Shape | None) -> _Linear:
    """Return a sum modulo the range of the result type.

    A number added to an element of the carried tuple is replaced by the equivalent one nearest to
    zero: adding 4294967295 to a u32 subtracts one.
    """
    bounds = _integer_bounds(shape)
    if bounds is None:
        return _Linear(slot, number)
    low, high = bounds
    size = high - low + 1
    low = low if slot is None else -size // 2
    return _Linear(slot, (number - low) % size + low)


def _integer_bounds(shape: Shape | None) -> tuple[int, int] | None:
    """Return the least and greatest number of an integer type; None for other types."""
    return None if shape is None or shape.is_tuple else _bounds(shape.element_type)


@functools.cache
def _bounds(element_type: str) -> tuple[int, int] | None:
    match = _INTEGER.match(element_type)
    if match is None:
        return None
    width = int(match[2])
    return (0, 2**width - 1) if match[1] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)


# ---- conditions --------------------------------------------------------------------------------


class _Comparison(NamedTuple):
    """A comparison of two scalars that decides whether the body runs once more."""

    left: _Linear
    direction: str  # LT, LE, GT, GE, EQ or NE
    right: _Linear
    bounds: tuple[int, int]  # least and greatest number of the type of both


def _comparisons(
    root: int, scalars: _Scalars, inside: _Scope
) -> tuple[Sequence[_Comparison], str | None]:
    """Return the comparisons that must all be true for a condition to be.

    The second is the reason why another test, which must be true as well, is not among them.
    """
    opcodes, links = scalars.module.opcodes, scalars.module.links
    tests: list[_Comparison] = []
    other: str | None = None
    waiting = [(root, inside)]
    for _ in range(_MOST_STEPS):
        if not waiting:
            return tests, other
        row, scope = waiting.pop()
        result = links.root_of(row) if opcodes[row] in ("fusion", "call") else None
        before = scalars.flow.before(Value(row), _SAME)
        sides = dict.fromkeys(links.operands_of(row)) if opcodes[row] in ("and", "convert") else {}
        if opcodes[row] == "compare":
            try:
                tests.append(_comparison(row, scalars, scope))
            except _UnknownError as unknown:
                other = other or unknown.reason
        elif result is not None:
            waiting.append((result, scalars.of_operands(row, scope)))
        elif before is not None:
            waiting.append((before.row, scope))
        elif sides and NOTHING not in sides:
            waiting += ((side, scope) for side in sides)
        else:
            name = f"{scalars.name(row)} ({opcodes[row]})"
            other = other or f"the condition is {name}, no comparison"
    return tests, "the condition is too long"


def _comparison(row: int, scalars: _Scalars, scope: _Scope) -> _Comparison:
    shapes = (scalars.module.operand_shape(row, side) for side in (0, 1))
    bounds = next(filter(None, map(_integer_bounds, shapes)), None)
    if bounds is None:
        raise _UnknownError(f"{scalars.name(row)} compares what is no integer")
    left, right = (scalars.operand(row, side, (), scope) for side in (0, 1))
    direction = scalars.module.instruction(row).attribute("direction") or ""
    return _Comparison(left, direction, right, bounds)


# ---- counts ------------------------------------------------------------------------------------


def _derived(row: int, scalars: _Scalars) -> int:
    """Return the trip count that follows from a loop's condition, start and step."""
    called = {call.role: call for call in reversed(scalars.module.links.calls.of_row(row))}
    condition, body = called.get("condition"), called.get("body")
    root = NOTHING if condition is None else scalars.module.links.root(condition)
    if root == NOTHING or body is None:
        raise _UnknownError("condition or body is not in the text")
    scopes = scalars.inside(body), scalars.outside(row)
    tests, other = _comparisons(root, scalars, scopes[0])
    counts: list[int] = []
    for test in tests:
        try:
            left, right = (_side(body, one, scalars, scopes) for one in (test.left, test.right))
            counts.append(_count(left, right, test))
        except _UnknownError as unknown:
            if len(tests) == 1 and other is None:
                raise (_varying(body, test, scalars, scopes[0]) or unknown) from None
            other = other or unknown.reason
    if other is None or 0 in counts:  # no test may be false at the start
        return min(counts)
    raise _UnknownError(other, most=min(counts, default=None))


class _Side(NamedTuple):
    """One side of a comparison: its first value, and what each trip adds."""

    start: _Linear
    step: int


def _side(
    body: Call,
    side: _Linear,
    scalars: _Scalars,
    scopes: tuple[_Scope, _Scope],
    *,
    is_constant: bool = True,
) -> _Side:
    """Return the first value of one side of a comparison, and its step per trip.

    The scopes are those in the loop, and around it; a first value that is constant there is asked
    for unless stated otherwise.
    """
    if side.slot is None:
        return _Side(side, 0)
    inside, outside = scopes
    try:
        after = scalars.after_trip(body, side.slot)
    except _UnknownError:  # with the constants that the loop carries
        after = scalars.result(body, side.slot, inside)
    if after.slot != side.slot:
        raise _UnknownError("the counter is not a sum of itself and a constant")
    start = scalars.operand(body.row, 0, side.slot, outside)
    if is_constant and start.slot is not None:
        raise _UnknownError("it changes in the loop around it")
    return _Side(_Linear(start.slot, start.offset + side.offset), after.offset)


def _count(left: _Side, right: _Side, test: _Comparison) -> int:
    """Return the number of trips for which a comparison of constants and counters is true."""
    direction = test.direction
    if left.step and right.step:
        raise _UnknownError("both sides of the condition change")
    if right.step:
        left, right, direction = right, left, _MIRRORED.get(direction, direction)
    start, bound = left.start.offset, right.start.offset
    count = count_true(start, left.step, direction, bound, test.bounds)
    if count is None:
        raise _UnknownError("it does not end before the counter overflows")
    return count


def _varying(
    body: Call, test: _Comparison, scalars: _Scalars, inside: _Scope
) -> _UnknownError | None:
    """Return the sum of the trip counts of a loop that change with the trips of the loop around."""
    around = scalars.around(body.row)
    if around is None or body.row in scalars.counted:  # loops that run each other
        return None
    outer, scope = around
    scalars.counted.add(body.row)
    trips = _trip_count(outer.row, scalars).trip_count
    scalars.counted.remove(body.row)
    if trips is None or not 0 < trips <= _MOST_OUTER_TRIPS:
        return None
    low, high = test.bounds
    counts = []
    try:
        sides: list[tuple[_Side, _Side]] = []  # in the loop, and its first value in the outer one
        for linear in (test.left, test.right):
            side = _side(body, linear, scalars, (inside, scope), is_constant=False)
            scopes = scalars.inside(outer), scalars.outside(outer.row)
            sides.append((side, _side(outer, side.start, scalars, scopes)))
        for trip in range(trips):
            left, right = (
                _Side(_Linear(None, first.start.offset + trip * first.step), side.step)
                for side, first in sides
            )
            if not all(low <= side.start.offset <= high for side in (left, right)):
                return None
            counts.append(_count(left, right, test))
    except _UnknownError:
        return None
    loop = scalars.module.instruction(outer.row)
    reason = f"it is {min(counts)} to {max(counts)}, by the trip of {loop.name} around it"
    return _UnknownError(reason, sum(counts), loop.computation.name)


_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def count_true(
    start: int, step: int, direction: str, bound: int, bounds: tuple[int, int]
) -> int | None:
    """Return for how many k = 0, 1, ... in a row ``start + k * step DIRECTION bound`` holds.

    None if it never ends, or ends only because the counter overflows.

    `bounds` are the least and greatest number of the counter's type.

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
    else:
        count = None
    return count if count is not None and low <= start + count * step <= high else None
