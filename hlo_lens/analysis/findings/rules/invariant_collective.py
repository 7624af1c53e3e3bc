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

from hlo_lens.analysis.findings.finding import Saves
from hlo_lens.analysis.findings.rule import ModuleRule
from hlo_lens.analysis.findings.transfers import Transfer, by_line, finding_of, subject, transfers
from hlo_lens.analysis.result import sum_of
from hlo_lens.model.hlo.columns import NOTHING
from hlo_lens.model.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.analysis.collectives.results import Collective
    from hlo_lens.analysis.findings.finding import Finding
    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.model.hlo.computation import HloComputation
    from hlo_lens.model.hlo.module import HloModule

_MOST_STEPS = 500


def invariant_collective(known: ModuleAnalysis) -> Iterator[Finding]:
    """Yield a finding for each line with collectives of which each trip has the same operands."""
    trips = {one.loop: one.trip_count for one in known.collectives.trips.loops}
    carried: dict[int, _Carried] = {}
    found: list[Collective] = []
    for one in known.once(transfers):
        count = trips.get(one.collective.loop_path[-1]) if one.collective.loop_path else None
        if count is not None and count > 1 and _is_invariant(known.module, one, carried):
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
            saves=Saves.at_most(wire_bytes=wire),
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
    place = module.links.owners[one.parts[0].operand]
    if not any(call.role == "body" for call in module.links.calls.of_computation(place)):
        return False
    if place not in carried:
        carried[place] = _carried(module, module.computations[place])
    waiting = [part.operand for part in one.parts]
    seen = set(waiting)
    is_carried = False
    while waiting:
        row = waiting.pop()
        traits = opcode_traits(module.opcodes[row])
        if _element_of(module, row, carried[place].parameter) in carried[place].numbers:
            is_carried = True
            continue
        operands = module.links.operands_of(row)
        is_pure = not (traits.is_impure or traits.is_control_flow or traits.opcode == "parameter")
        if not is_pure or NOTHING in operands or len(seen) > _MOST_STEPS:
            return False
        new = set(operands) - seen
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
    results = enumerate(module.links.operands_of(root))
    same = (k for k, row in results if _element_of(module, _passed(module, row), parameter) == k)
    return _Carried(parameter, frozenset(same))


def _element_of(module: HloModule, row: int, parameter: int) -> int | None:
    """Return the number of the element of a parameter that a row is; None if it is none."""
    if row == NOTHING or module.opcodes[row] != "get-tuple-element":
        return None
    operand, _ = module.links.operand(row, 0)
    return module.instruction(row).tuple_index if operand == parameter else None


def _passed(module: HloModule, row: int) -> int:
    """Return the row of the value before copies and views of it."""
    for _ in range(_MOST_STEPS):
        operands = module.links.operands_of(row)
        if row == NOTHING or not opcode_traits(module.opcodes[row]).is_same or not operands:
            return row
        row = operands[0]
    return row


RULE = ModuleRule("C003", invariant_collective)
