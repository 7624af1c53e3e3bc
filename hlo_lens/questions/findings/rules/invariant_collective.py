"""A collective in a loop has the same operand in every trip.

What:
    All operands of a collective in the body of a loop are computed from values that the loop
    carries unchanged, and constants: each trip gets the same result.

Why it costs:
    Its bytes on the wire in every trip but one.

Fix:
    Do it before the loop: compute the value outside of the function that lax.scan or fori_loop
    runs, with the wanted sharding (jax.lax.with_sharding_constraint), and close over it.

Fine when:
    The result is so large that it should not be in memory during the whole loop, as parameters
    that are gathered for each layer on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.summary import hlo_text
from hlo_lens.program.value_flow import COPIES, TUPLES, Route, Value, value_flow
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.findings.finding import Saves
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import (
    Transfer,
    by_line,
    finding_of,
    operands_of,
    subject,
    transfers,
)
from hlo_lens.render.result import sum_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloComputation, HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.findings.finding import Finding

_MOST_STEPS = 500
_COPIED = Route(TUPLES | COPIES)


def invariant_collective(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line with collectives of which each trip has the same operands."""
    trips = {one.loop: one.trip_count for one in collectives(known).trips.loops}
    carried: dict[int, _Carried] = {}
    found: list[Collective] = []
    for one in transfers(known):
        count = trips.get(one.collective.loop_path[-1]) if one.collective.loop_path else None
        if count is not None and count > 1 and _is_invariant(hlo_text(known), one, carried):
            found.append(one.collective)
    for group in by_line(found):
        count = max(trips[one.loop_path[-1]] or 1 for one in group)
        wire = sum_of(
            None
            if one.wire_bytes_per_run is None
            else one.wire_bytes_per_run - one.wire_bytes_per_run // (trips[one.loop_path[-1]] or 1)
            for one in group
        )
        yield finding_of(
            group,
            f"{subject(group)} in the loop {group[0].loop_path[-1]}: the same operands in each of "
            f"{count} trips",
            "compute it before the loop and close over the result",
            saves=Saves.up_to(sent_bytes=wire),
        )


class _Carried(NamedTuple):
    """Elements that a loop's body hands on unchanged, by their number in the carried tuple."""

    parameter: int
    numbers: frozenset[int]


def _is_invariant(module: HloModule, one: Transfer, carried: dict[int, _Carried]) -> bool:
    """Return whether all operands are the same in every trip of the innermost loop.

    Not those of constants alone, such as the zeros that the partitioner starts a windowed product
    with: the program has no value that could be made before the loop.
    """
    if not one.parts:
        return False
    place = module.links.owners[one.parts[0].operand.row]
    if not any(call.role == "body" for call in module.links.calls.of_computation(place)):
        return False
    if place not in carried:
        carried[place] = _carried(module, module.computations[place])
    waiting = [part.operand for part in one.parts]
    seen = set(waiting)
    is_carried = False
    while waiting:
        value = _passed(module, waiting.pop())
        if value.row == NOTHING or len(seen) > _MOST_STEPS:
            return False
        if value.row == carried[place].parameter and value.element[:1]:
            if value.element[0] not in carried[place].numbers:
                return False
            is_carried = True
            continue
        traits = opcode_traits(module.opcodes[value.row])
        if traits.is_impure or traits.is_control_flow or traits.opcode == "parameter":
            return False
        new = set(operands_of(module, value.row)) - seen
        seen |= new
        waiting += new
    return is_carried


def _carried(module: HloModule, body: HloComputation) -> _Carried:
    """Return the elements that each trip of a loop hands on unchanged."""
    root, opcodes = body.root_row, module.opcodes
    parameters = [row for row in body.rows if opcodes[row] == "parameter"]
    if root == NOTHING or opcodes[root] != "tuple" or len(parameters) != 1:
        return _Carried(NOTHING, frozenset())
    (parameter,) = parameters
    results = enumerate(operands_of(module, root))
    same = (k for k, value in results if _passed(module, value) == (parameter, (k,)))
    return _Carried(parameter, frozenset(same))


def _passed(module: HloModule, value: Value) -> Value:
    """Return the value before copies and views of it, and elements of tuples."""
    flow = value_flow(module)
    before = None if value.row == NOTHING else value
    for _ in range(_MOST_STEPS):
        if before is None:
            break
        value, before = before, flow.before(before, _COPIED)
    return value


RULE = ModuleRule("C003", invariant_collective)
