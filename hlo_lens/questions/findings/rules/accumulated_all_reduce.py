"""A loop adds up what all-reduces give in each trip: one after the loop would do.

What:
    All uses of an all-reduce in a loop, scaled and moved at most, add it to a value that the loop
    carries: gradients of microbatches that are summed over devices in every trip, not once.

Why it costs:
    Its bytes on the wire in every trip but one. The sum over devices of a sum over trips is the sum
    over trips of sums over devices, so the result is the same but for rounding.

Fix:
    Let each device add up its own gradients, and sum over devices after the loop: run the loop in
    jax.shard_map over the data axes, with params = jax.lax.pcast(params, axes, to="varying") before
    jax.grad, and gradients = jax.lax.psum(total, axes) after lax.scan. --prove cannot apply it.

Fine when:
    The gradients are kept divided (a reduce-scatter, which is no finding), or the compiler for TPU
    or GPU moves it out of the loop, which a dump of CPU does not show: there it is an info where
    the result is added as it is, and what-if --target shows it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import opcodes_where
from hlo_lens.program.origins import origins
from hlo_lens.program.runs import call_counts
from hlo_lens.program.summary import backend_of_dump, hlo_text
from hlo_lens.program.value_flow import COPIES, ENDS, TUPLES, Route, Value, value_flow
from hlo_lens.questions.collectives.collective import WIRE, run_sum
from hlo_lens.questions.findings.finding import Saves, Severity, at
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import finding_of, maker_of, subject, transfers
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.value_flow import Use, ValueFlow
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.shapes.shape import ShapeIndex

_MOST_STEPS = 500
_PASSING = TUPLES | ENDS | opcodes_where(lambda traits: traits.is_moving)
_PASSING |= {"negate", "fusion", "call"}
"""Opcodes that hand a value on, as a whole or changed as its sum is."""

_CHANGING = ("multiply", "divide", "convert", "dynamic-update-slice")
"""Opcodes after which compilers keep an all-reduce in its loop."""

_BACK = Route(TUPLES | COPIES | {"convert", "reshape"}, frozenset({"fusion"}))


class _Sum(NamedTuple):
    """A loop that adds up a value.

    Attributes:
        loop: Its row.
        trips: Its trips.
        addition: Row of the addition.
        is_plain: Whether the value itself is added, as the compilers for TPU and GPU move it.
    """

    loop: int
    trips: int
    addition: int
    is_plain: bool


def accumulated_all_reduce(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line that adds up the results of all-reduces in a loop."""
    groups: dict[str, tuple[SourceLocation | None, list[Collective], list[_Sum]]] = {}
    for one in transfers(known):
        if one.collective.kind == "all-reduce" and one.collective.loop_path and one.parts:
            sums = [_sum(known, part.result) for part in one.parts]
            if sums[0] is not None and {one and one.loop for one in sums} == {sums[0].loop}:
                is_written = (one.collective.op_name or "").endswith("psum")
                row = one.parts[0].result.row if is_written else sums[0].addition
                place = origins(known).place(row)
                _, summed, found = groups.setdefault(str(place), (place, [], []))
                summed.append(one.collective)
                found.append(sums[0])
    for place, summed, found in groups.values():
        yield _finding(known, place, summed, found)


def _finding(
    known: ModuleDump,
    place: SourceLocation | None,
    summed: Sequence[Collective],
    sums: Sequence[_Sum],
) -> Finding:
    trips = min(one.trips for one in sums)
    is_moved = backend_of_dump(known) == "cpu" and all(one.is_plain for one in sums)
    wire = run_sum(summed, WIRE)
    once = None if wire is None else wire.most // trips
    found = finding_of(
        summed,
        f"{subject(summed)} in each of {trips} trips of a loop that only adds them up"
        + ("" if once is None else f": one after it sends {format_bytes(once)}"),
        "add up the gradients of each device in the loop, in jax.shard_map with params = "
        'jax.lax.pcast(params, axes, to="varying"), and jax.lax.psum(total, axes) after it',
        saves=Saves.up_to(sent_bytes=None if wire is None or once is None else wire.most - once),
        severity=Severity.INFO if is_moved else None,
    )
    note = "the compilers for TPU and GPU move it: hlo-lens what-if --target shows it"
    return replace(found, **at(place), evidence=(*found.evidence, *[note] * is_moved))


def _sum(known: ModuleDump, value: Value) -> _Sum | None:
    """Return the loop of several trips that all uses of a value add it up in; None without one."""
    module, flow = hlo_text(known), value_flow(hlo_text(known))
    found: dict[int, int] = {}
    waiting, seen = [value], {value}
    while waiting:
        one = waiting.pop()
        returned, uses = flow.returned(one), list(flow.uses(one))
        ahead = set() if returned is None else {returned}
        if returned is None and not uses:
            return None
        for use in uses:
            if flow.opcodes[use.row] == "add":
                found[_carrying_loop(module, use)] = use.row
            elif _is_passed(flow, use):
                ahead |= set(flow.after(use))
            else:
                return None
        waiting += ahead - seen
        seen |= ahead
        if len(seen) > _MOST_STEPS:
            return None
    loop = next(iter(found), NOTHING)
    trips = None if loop == NOTHING else call_counts(known).trip_count(module.instruction(loop))
    is_plain = {flow.opcodes[one.row] for one in seen}.isdisjoint(_CHANGING)
    return (
        _Sum(loop, trips, found[loop], is_plain)
        if len(found) == 1 and trips and trips > 1
        else None
    )


def _is_passed(flow: ValueFlow, use: Use) -> bool:
    """Return whether a use hands a value on, as a whole or scaled, also as a part of a stack."""
    opcode = flow.opcodes[use.row]
    if opcode == "dynamic-update-slice":
        return use.position == 1
    if opcode in ("multiply", "divide"):
        other = flow.operand(use.row, 1 - use.position)
        shape = None if other is None else flow.module.operand_shape(other.row, 0)
        is_scale = other is not None and flow.opcodes[other.row] in ("broadcast", "constant")
        return is_scale and (shape is None or shape.rank == 0)
    return opcode in _PASSING


def _carrying_loop(module: HloModule, use: Use) -> int:
    """Return the loop that carries the other operand of an addition, and its result in its place.

    The other operand may be reset in the first trip. `NOTHING` without such a loop.
    """
    flow = value_flow(module)
    other = flow.operand(use.row, 1 - use.position)
    for _ in range(_MOST_STEPS):
        if other is None:
            return NOTHING
        call = flow.caller(other.row)
        if flow.opcodes[other.row] == "parameter" and call is not None and call.role == "body":
            break
        is_reset = flow.opcodes[other.row] == "select"
        other = flow.operand(other.row, 2) if is_reset else flow.before(other, _BACK)
    else:
        return NOTHING
    root = flow.root(call.row, "body")
    made = None if root is None else maker_of(module, Value(root, other.element))
    while made is not None and flow.opcodes[made.row] == "convert":
        operand = flow.operand(made.row, 0)
        made = None if operand is None else maker_of(module, operand)
    if made is None or made.row != use.row:
        return NOTHING
    is_sum = _is_only_read_by(module, other, use.row) and root is not None
    is_sum = is_sum and _is_only_read_by(module, Value(use.row), root, other.element)
    return call.row if is_sum else NOTHING


def _is_only_read_by(
    module: HloModule, value: Value, reader: int | None, element: ShapeIndex = ()
) -> bool:
    """Return whether nothing in a loop reads a value but one instruction, as one of its elements.

    What only hands the value on, or resets it, does not count.
    """
    flow = value_flow(module)
    waiting, seen = [value], {value}
    while waiting:
        one = waiting.pop()
        returned = flow.returned(one)
        if returned is not None and returned not in seen:
            seen.add(returned)
            waiting.append(returned)
        for use in flow.uses(one):
            opcode = flow.opcodes[use.row]
            if use.row == reader and element in ((), (use.position,)):
                continue
            if opcode != "select" and not _is_passed(flow, use):
                return False
            ahead = {Value(use.row)} if opcode == "select" else set(flow.after(use))
            waiting += ahead - seen
            seen |= ahead
    return True


RULE = ModuleRule("C015", accumulated_all_reduce)
