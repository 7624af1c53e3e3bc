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

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.program.loop_condition import comparisons
from hlo_lens.program.scalar_values import Linear, Scalars, Scope, Unknown
from hlo_lens.render.result import Records, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.calls import Call
    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.program.loop_condition import Comparison

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
