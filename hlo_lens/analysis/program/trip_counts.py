"""Trip counts of while loops: the number of runs of the body per run of the loop.

Printed: XLA writes ``known_trip_count`` into the loop's backend_config on CPU (since 0.4.35) and
GPU, never on TPU and never before optimization. Derived if not printed: the condition compares a
counter with a bound, the body adds a constant to the counter, and start, step and bound are
constants: written in place, copied, converted, inside fusions, or carried unchanged through the
tuples of this loop and the loops around it. The count is exact: a comparison that becomes true
again when the counter overflows gives no count. Zero is a count.

Sources: xla/service/while_loop_analysis.cc (MatchTrivialLoopTripCount), while_loop_trip_count_
annotator.cc, xla_data.proto (WhileLoopBackendConfig), as of August 2026.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.program.scalar_values import (
    Linear,
    Scalars,
    Scope,
    Unknown,
    body_of,
    integer_bounds,
    of_operands,
)
from hlo_lens.analysis.result import Column, Result, Unit
from hlo_lens.model.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.query import InstructionTable

_PRINTED = re.compile(r'"known_trip_count":\{(?:"n":"?(-?\d+)"?)?\}')


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
    """

    loop: str
    computation: str
    body: str | None
    condition: str | None
    trip_count: int | None
    trip_source: str | None
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
        Column("trip_source", Unit.NONE, "printed by XLA, or derived"),
        Column("reason", Unit.NONE, "why it could not be derived"),
    )
    RECORDS: ClassVar[str] = "loops"
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
    loops = [table.instruction(row) for row in table.rows_of({"while"})]
    if not loops:
        return TripCounts(loops=())
    scalars = Scalars(table)
    found = [_trip_count(loop, scalars, derives_printed=derives_printed) for loop in loops]
    return TripCounts(loops=tuple(found))


def _trip_count(loop: HloInstruction, scalars: Scalars, *, derives_printed: bool) -> TripCount:
    attributes = loop.attributes
    names = loop.computation.module.reader.names
    printed = printed_trip_count(attributes.get("backend_config", ""))
    derived = _derived(loop, scalars) if printed is None or derives_printed else None
    count = derived if isinstance(derived, int) else None
    return TripCount(
        loop=loop.name,
        computation=loop.computation.name,
        body=next(iter(names(attributes.get("body", ""))), None) if "body" in attributes else None,
        condition=(
            next(iter(names(attributes["condition"])), None) if "condition" in attributes else None
        ),
        trip_count=count if printed is None else printed,
        trip_source="printed" if printed is not None else "derived" if count is not None else None,
        printed=printed,
        derived=count,
        reason=derived.reason if isinstance(derived, Unknown) else None,
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


# ---- the condition -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    """A comparison of two scalars that decides whether the body runs once more."""

    left: Linear
    direction: str
    right: Linear
    bounds: tuple[int, int]


def _derived(loop: HloInstruction, scalars: Scalars) -> int | Unknown:
    """Return the trip count that follows from a loop's condition, start and step."""
    condition = loop.attribute("condition")
    names = loop.computation.module.reader.names(condition) if condition else ()
    computation = scalars.module.computation(names[0]) if names else None
    root = None if computation is None else computation.root
    if root is None or not body_of(loop):
        return Unknown("condition or body is not in the text")
    inside = scalars.inside(loop)
    test = _test(root, scalars, inside)
    if isinstance(test, Unknown):
        return test
    return _solved(loop, test, scalars, inside)


def _test(root: HloInstruction, scalars: Scalars, scope: Scope) -> _Test | Unknown:
    """Return the comparison that computes a condition."""
    if root.opcode == "compare":
        return _comparison(root, scalars, scope)
    if root.opcode in ("fusion", "call") and root.called_computations:
        called = scalars.module.computation(root.called_computations[0])
        if called is not None and called.root is not None:
            return _test(called.root, scalars, of_operands(scalars, root, scope))
    before = root.producer(0)
    is_forwarding = opcode_traits(root.opcode).is_forwarding
    passes_on = is_forwarding or root.opcode in ("convert", "copy-done")
    if passes_on and before is not None:
        return _test(before[0], scalars, scope)
    return Unknown(f"the condition is {root.name} ({root.opcode}), no comparison")


def _comparison(compare: HloInstruction, scalars: Scalars, scope: Scope) -> _Test | Unknown:
    bounds = integer_bounds(compare.operand_shape(0)) or integer_bounds(compare.operand_shape(1))
    if bounds is None:
        return Unknown(f"{compare.name} compares what is no integer")
    left = scalars.operand(compare, 0, (), scope, 0)
    right = scalars.operand(compare, 1, (), scope, 0)
    if isinstance(left, Unknown):
        return left
    if isinstance(right, Unknown):
        return right
    direction = compare.attribute("direction") or ""
    return _Test(left=left, direction=direction, right=right, bounds=bounds)


def _solved(loop: HloInstruction, test: _Test, scalars: Scalars, inside: Scope) -> int | Unknown:
    """Return the number of trips for which a comparison is true."""
    sides = []
    for side in (test.left, test.right):
        found = _start_and_step(loop, side, scalars, inside)
        if isinstance(found, Unknown):
            return found
        sides.append(found)
    (left, left_step), (right, right_step) = sides
    direction, bounds = test.direction, test.bounds
    if left_step and right_step:
        return Unknown("both sides of the condition change")
    if right_step:
        left, left_step, right = right, right_step, left
        direction = _MIRRORED.get(direction, direction)
    count = count_true(left, left_step, direction, right, bounds)
    return Unknown("it does not end before the counter overflows") if count is None else count


def _start_and_step(
    loop: HloInstruction, side: Linear, scalars: Scalars, inside: Scope
) -> tuple[int, int] | Unknown:
    """Return the first value of one side of the comparison, and its step per trip."""
    if side.slot is None:
        return side.offset, 0
    body = body_of(loop)[0]
    start = scalars.operand(loop, 0, side.slot, scalars.outside(loop.computation), 0)
    after = scalars.after_trip(body, side.slot)
    if not isinstance(after, Linear):  # with the constants that the loop carries
        after = scalars.root(body, side.slot, inside)
    if isinstance(after, Unknown):
        return after
    if after.slot != side.slot:
        return Unknown("the counter is not a sum of itself and a constant")
    if isinstance(start, Unknown):
        return start
    if start.slot is not None:
        return Unknown("it changes in the loop around it")
    return start.offset + side.offset, after.offset


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
