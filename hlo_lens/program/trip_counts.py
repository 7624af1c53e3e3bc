"""Value of a scalar: a constant, or an element of the tuple that a loop carries.

A scalar is followed through tuples and their elements, copies, conversions between integers,
broadcasts and reshapes, sums and products of constants, fusions and calls, and loops that carry an
element unchanged.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from hlo_lens.hlo.columns import NOTHING, OPERANDS, OPERANDS_END
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.render.result import Records, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hlo_lens.hlo.calls import Call
    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable
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


_MOST_STEPS = 100
"""Instructions from a condition's result to its comparisons; damaged texts may have circles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison of two scalars that decides whether the body runs once more."""

    left: Linear
    direction: str
    right: Linear
    bounds: tuple[int, int]


def comparisons(root: int, scalars: Scalars, inside: Scope) -> Sequence[Comparison] | Unknown:
    """Return the comparisons that must all be true for a condition to be."""
    found: list[Comparison] = []
    still = [(root, inside)]
    for _ in range(_MOST_STEPS):
        if not still:
            return found
        row, scope = still.pop()
        if scalars.opcodes[row] == "compare":
            test = _comparison(row, scalars, scope)
            if isinstance(test, Unknown):
                return test
            found.append(test)
        else:
            below = _below(row, scalars, scope)
            if not below:
                opcode = scalars.opcodes[row]
                return Unknown(f"the condition is {scalars.name(row)} ({opcode}), no comparison")
            still += below
    return Unknown("the condition is too long")


def _below(row: int, scalars: Scalars, scope: Scope) -> Sequence[tuple[int, Scope]]:
    """Return the instructions whose conjunction is the result of one; none if not known."""
    opcode, links = scalars.opcodes[row], scalars.module.links
    called = links.calls.of_row(row) if opcode in ("fusion", "call") else []
    result = links.root(called[0]) if called else NOTHING
    if result != NOTHING:
        return [(result, of_operands(scalars, row, scope))]
    is_passed_on = opcode_traits(opcode).is_forwarding or opcode in ("convert", "copy-done")
    places = (0, 1) if opcode == "and" else (0,) if is_passed_on else ()
    sides = dict.fromkeys(links.operand(row, place)[0] for place in places)
    return [] if NOTHING in sides else [(side, scope) for side in sides]


def _comparison(row: int, scalars: Scalars, scope: Scope) -> Comparison | Unknown:
    bounds = scalars.operand_bounds(row, 0) or scalars.operand_bounds(row, 1)
    if bounds is None:
        return Unknown(f"{scalars.name(row)} compares what is no integer")
    left = scalars.operand(row, 0, (), scope, 0)
    right = scalars.operand(row, 1, (), scope, 0)
    if isinstance(left, Unknown):
        return left
    if isinstance(right, Unknown):
        return right
    direction = scalars.module.instruction(row).attribute("direction") or ""
    return Comparison(left=left, direction=direction, right=right, bounds=bounds)


_PRINTED = re.compile(r'"known_trip_count":\{(?:"n":"?(-?\d+)"?)?\}')

_MOST_OUTER_TRIPS = 100_000
"""Trips of a loop in each of which the trips of a loop inside it are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripCount:
    """Trip count of one loop; fields without description are columns of `TripCounts`.

    Attributes:
        body: Name of its body.
        condition: Name of its condition.
        trip_source: ``printed`` or ``derived``; None if unknown.
        printed: The count that XLA printed; None if not printed.
        derived: The count from condition, start and step; None if it cannot be derived, and
            for a printed count that is not derived too.
        around: Computation that runs the loop around it, for a count that changes with that
            loop's trips; None for all others.
    """

    loop: Annotated[str, "the while instruction"]
    computation: Annotated[str, "computation that holds it"]
    body: str | None
    condition: str | None
    trip_count: Annotated[int | None, Unit.COUNT, "runs of the body per run of the loop"]
    trip_source: Annotated[str | None, "printed by XLA, or derived"]
    printed: int | None
    derived: int | None
    reason: Annotated[str | None, "why it could not be derived"]
    trips_of_outer_run: Annotated[
        int | None,
        Unit.COUNT,
        "sum over a run of the loop around it, where it changes with that loop's trips",
    ] = None
    around: str | None = None


@dataclass(frozen=True, kw_only=True)
class TripCounts(Records[TripCount]):
    """All while loops of a module, in text order."""

    KIND: ClassVar[str] = "trip-counts"
    loops: tuple[TripCount, ...]

    def of(self, loop: HloInstruction) -> TripCount | None:
        """Return the trip count of one while instruction, or None."""
        wanted = (loop.computation.name, loop.name)
        return next((t for t in self.loops if (t.computation, t.loop) == wanted), None)


def trip_counts(table: InstructionTable, *, derives_printed: bool = True) -> TripCounts:
    """Return the trip counts of all while loops of a module.

    Args:
        table: Table of the module.
        derives_printed: Whether counts that XLA prints are derived too.
    """
    loops = table.rows_of({"while"})
    if not loops:
        return TripCounts(loops=())
    scalars = Scalars(table.module)
    found = []
    for loop in loops:
        one = _trip_count(loop, scalars, derives_printed=derives_printed)
        found.append(one)
        if one.trip_count is not None:
            scalars.trips[loop] = one.trip_count
    return TripCounts(loops=tuple(found))


def _trip_count(row: int, scalars: Scalars, *, derives_printed: bool) -> TripCount:
    loop = scalars.module.instruction(row)
    calls = scalars.module.links.calls.of_row(row)
    called = {call.role: call for call in reversed(calls)}
    names = {role: scalars.called_name(call) for role, call in called.items()}
    printed = printed_trip_count(loop.attribute("backend_config") or "")
    derived = _derived(called, scalars) if printed is None or derives_printed else None
    count = derived if isinstance(derived, int) else None
    return TripCount(
        loop=loop.name,
        computation=loop.computation.name,
        body=names.get("body"),
        condition=names.get("condition"),
        trip_count=count if printed is None else printed,
        trip_source="printed" if printed is not None else "derived" if count is not None else None,
        printed=printed,
        derived=count,
        reason=derived.reason if isinstance(derived, Unknown | _Varying) else None,
        trips_of_outer_run=derived.total if isinstance(derived, _Varying) else None,
        around=derived.around if isinstance(derived, _Varying) else None,
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


def _derived(called: Mapping[str, Call], scalars: Scalars) -> int | Unknown | _Varying:
    """Return the trip count that follows from a loop's condition, start and step."""
    condition, body = called.get("condition"), called.get("body")
    root = NOTHING if condition is None else scalars.module.links.root(condition)
    if root == NOTHING or body is None:
        return Unknown("condition or body is not in the text")
    inside = scalars.inside(body)
    tests = comparisons(root, scalars, inside)
    if isinstance(tests, Unknown):
        return tests
    counts = []
    for test in tests:
        found = _solved(body, test, scalars, inside)
        if isinstance(found, Unknown):
            varying = _varying(body, test, scalars, inside) if len(tests) == 1 else None
            return varying or found
        counts.append(found)
    return min(counts)


def _solved(body: Call, test: Comparison, scalars: Scalars, inside: Scope) -> int | Unknown:
    """Return the number of trips for which a comparison is true."""
    sides = []
    outside = scalars.outside(body.row)
    for side in (test.left, test.right):
        found = _start_and_step(body, side, scalars, (inside, outside))
        if isinstance(found, Unknown):
            return found
        if found.start.slot is not None:
            return Unknown("it changes in the loop around it")
        sides.append((found.start.offset, found.step))
    return _count(sides[0], sides[1], test)


def _count(left: tuple[int, int], right: tuple[int, int], test: Comparison) -> int | Unknown:
    """Return the number of trips, of the start and the step of each side."""
    direction = test.direction
    if left[1] and right[1]:
        return Unknown("both sides of the condition change")
    if right[1]:
        left, right, direction = right, left, _MIRRORED.get(direction, direction)
    count = count_true(*left, direction, right[0], test.bounds)
    return Unknown("it does not end before the counter overflows") if count is None else count


class _Side(NamedTuple):
    """One side of a comparison: its first value, and what each trip adds."""

    start: Linear
    step: int


def _start_and_step(
    body: Call, side: Linear, scalars: Scalars, scopes: tuple[Scope, Scope]
) -> _Side | Unknown:
    """Return the first value of one side of the comparison, and its step per trip.

    Args:
        body: The body of the loop.
        side: The side, in terms of the carried tuple.
        scalars: Values of the module.
        scopes: Values of parameters in the loop, and around it.
    """
    if side.slot is None:
        return _Side(side, 0)
    inside, outside = scopes
    start = scalars.operand(body.row, 0, side.slot, outside, 0)
    after = scalars.after_trip(body, side.slot)
    if not isinstance(after, Linear):  # with the constants that the loop carries
        after = scalars.result(body, side.slot, inside)
    if isinstance(after, Unknown):
        return after
    if after.slot != side.slot:
        return Unknown("the counter is not a sum of itself and a constant")
    if isinstance(start, Unknown):
        return start
    return _Side(Linear(start.slot, start.offset + side.offset), after.offset)


# ---- counts that change with the loop around ---------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Varying:
    """Trip counts that change with the trips of the loop around.

    Attributes:
        total: Their sum over one run of that loop.
        around: Computation that runs that loop.
        reason: The least and the most, in words.
    """

    total: int
    around: str
    reason: str


def _varying(body: Call, test: Comparison, scalars: Scalars, inside: Scope) -> _Varying | None:
    """Return the trip counts of a loop whose start or bound change with the loop around it."""
    found = scalars.around(body.row)
    if found is None:
        return None
    outer, scope = found
    if body.row in scalars.counted:  # loops that run each other, in damaged text
        return None
    scalars.counted.add(body.row)
    trips = _trip_count(outer.row, scalars, derives_printed=False).trip_count
    scalars.counted.remove(body.row)
    sides = [
        _in_outer_trips(_start_and_step(body, side, scalars, (inside, scope)), outer, scalars)
        for side in (test.left, test.right)
    ]
    if trips is None or not 0 < trips <= _MOST_OUTER_TRIPS or None in sides:
        return None
    counts = []
    low, high = test.bounds
    for trip in range(trips):
        left, right = ((s.start + trip * s.change, s.step) for s in sides if s is not None)
        is_in_range = all(low <= value <= high for value, _ in (left, right))
        count = _count(left, right, test) if is_in_range else None
        if not isinstance(count, int):
            return None
        counts.append(count)
    loop = scalars.module.instruction(outer.row)
    words = f"it is {min(counts)} to {max(counts)}, by the trip of {loop.name} around it"
    return _Varying(total=sum(counts), around=loop.computation.name, reason=words)


class _ChangingSide(NamedTuple):
    """One side of a comparison, whose first value changes with the trips of the loop around.

    Attributes:
        start: First value in the first trip of the loop around.
        change: Added to it by each trip of that loop.
        step: Added by each trip of the loop itself.
    """

    start: int
    change: int
    step: int


def _in_outer_trips(side: _Side | Unknown, outer: Call, scalars: Scalars) -> _ChangingSide | None:
    """Return how a side that starts from what the loop around carries changes with its trips."""
    if isinstance(side, Unknown):
        return None
    scopes = scalars.inside(outer), scalars.outside(outer.row)
    first = _start_and_step(outer, side.start, scalars, scopes)
    if isinstance(first, Unknown) or first.start.slot is not None:
        return None
    return _ChangingSide(first.start.offset, first.step, side.step)


_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def count_true(
    start: int, step: int, direction: str, bound: int, bounds: tuple[int, int]
) -> int | None:
    """Return for how many k = 0, 1, ... in a row ``start + k * step DIRECTION bound`` holds.

    None if it never ends, or ends only because the counter overflows.

    Args:
        start: First value of the counter.
        step: Added by each trip.
        direction: LT, LE, GT, GE, EQ or NE.
        bound: Compared with the counter.
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
