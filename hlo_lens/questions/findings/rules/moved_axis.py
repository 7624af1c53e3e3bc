"""A sharding constraint moves a mesh axis to another dimension, and the parts are exchanged.

What:
    Two constraints divide activations along different dimensions in turn, and nothing between them
    combines elements along the dimension that the first one makes whole: activations are exchanged
    back and forth between layers for nothing. Or a constraint takes an axis from the batch, the
    first dimension, and divides another one, while the values that it meets keep it.

Why it costs:
    An all-to-all for each, again in the backward pass, and gathers where both divisions meet.

Fix:
    Keep one division from layer to layer: the same PartitionSpec in all constraints on activations,
    with the batch over the data axes. what-if --constraint "drop FILE:LINE" compiles the program
    without a constraint.

Fine when:
    The next operation needs the dimension whole, as attention over a sequence that is divided
    elsewhere (Ulysses), or experts whose tokens are sent to them: those are no findings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.value_flow import Value, value_flow
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.origin import member_paths
from hlo_lens.questions.findings.finding import Remedy, at
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import finding_of
from hlo_lens.questions.memory.peak import rows_of_names
from hlo_lens.questions.memory.roles import BACKWARD
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.collectives.operand_shardings import ChangedAxes, MovedAxis
    from hlo_lens.questions.findings.finding import Finding

_EXCHANGES = ("all-to-all", "collective-permute")
_MOST_STEPS = 500


def moved_axis(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line whose constraints move an axis for nothing."""
    before = known.before
    exchanges = [one for one in collectives(known).collectives if one.kind in _EXCHANGES]
    if before is None or not exchanges:
        return
    from hlo_lens.questions.collectives.operand_shardings import changed_axes

    meshes = collectives(known).meshes
    changed = [
        one
        for one in changed_axes(before, meshes[0].mesh if meshes else None)
        if one.moved and one.argument is None and one.place is not None
    ]
    seen = set()
    for one in changed:
        is_forward = not any(BACKWARD in path for path in one.paths)
        for move in one.moved if is_forward and one.place not in seen else ():
            back = _way_back(before, one, move, changed)
            along = [two for two in exchanges if move.axis in (two.axes or ())]
            caused = along
            if back is not None:
                lines = {one.place, back.place}
                paths = {path for two in changed if two.place in lines for path in two.paths}
                caused = [two for two in along if not paths.isdisjoint(_paths(two))]
            if caused and (back is not None or _leaves_batch(move, changed)):
                seen.add(one.place)
                yield _finding(one, move, back, caused)


def _paths(one: Collective) -> list[str]:
    return member_paths(one.own_op_name or "")


def _leaves_batch(move: MovedAxis, changed: Sequence[ChangedAxes]) -> bool:
    """Return whether an axis leaves the first dimension, and no constraint moves it back."""
    is_moved_back = any(
        other.axis == move.axis and other.after == 0
        for one in changed
        if not any(BACKWARD in path for path in one.paths)
        for other in one.moved
    )
    return move.before == 0 and not is_moved_back


def _way_back(
    before: HloModule, one: ChangedAxes, move: MovedAxis, changed: Sequence[ChangedAxes]
) -> ChangedAxes | None:
    """Return the next constraint that undoes a move, if nothing between needs what it frees."""
    for other in changed:
        is_back = (move.axis, move.after, move.before) in other.moved
        if is_back and other.origin == one.name:
            rows = rows_of_names(before, {one.name, other.name})
            if not _is_needed(before, rows, (one.name, other.name), move.before):
                return other
    return None


def _is_needed(
    module: HloModule, rows: Mapping[str, int], names: tuple[str, str], dimension: int
) -> bool:
    """Return whether something between two constraints combines elements along a dimension.

    True where it is not known: attention, loops, sorts, kernels.
    """
    flow = value_flow(module)
    first, last = (rows[name] for name in names)
    waiting, seen = [Value(last)], {Value(last), Value(first)}
    while waiting:
        for operand in map(flow.definition, flow.operands(waiting.pop().row)):
            if operand in seen or not _is_as_large(module, operand, first):
                continue
            if len(seen) > _MOST_STEPS or _combines(module, operand.row, dimension):
                return True
            seen.add(operand)
            waiting.append(operand)
    return False


def _is_as_large(module: HloModule, value: Value, row: int) -> bool:
    """Return whether a value may be an activation computed from another: it has its batch."""
    shape, other = module.instruction(value.row).shape, module.instruction(row).shape
    if shape is None or other is None or shape.is_tuple or not shape.rank or not other.rank:
        return False
    return shape.dimensions[0] == other.dimensions[0]


def _combines(module: HloModule, row: int, dimension: int) -> bool:
    from hlo_lens.questions.collectives.operand_shardings import COMBINING, listed_numbers

    instruction, opcode = module.instruction(row), module.opcodes[row]
    if opcode == "dot":
        has_batch = instruction.attribute("lhs_batch_dims") is not None
        return has_batch or dimension in listed_numbers(instruction, "lhs_contracting_dims")
    if opcode == "reduce":
        return dimension in listed_numbers(instruction, "dimensions")
    return opcode in COMBINING or opcode == "while" or opcode_traits(opcode).is_contraction


def _finding(
    one: ChangedAxes, move: MovedAxis, back: ChangedAxes | None, caused: Sequence[Collective]
) -> Finding:
    line, sent = _line(one), plural(len(caused), "exchange")
    away = f"from dimension {move.before} to {move.after}"
    if back is None:
        message = (
            f"the sharding constraint moves {move.axis} {away}, away from the batch: "
            f"{sent} over {move.axis}"
        )
    else:
        message = (
            f"the sharding constraint moves {move.axis} {away}, and the one at {_line(back)} moves "
            f"it back: {sent}, and nothing between needs it"
        )
    fix = (
        f"keep {move.axis} at dimension {move.before} in the PartitionSpec, or drop the constraint"
    )
    return replace(
        finding_of(caused, message, fix),
        **at(one.place),
        changes=(Remedy(kind="constraint", target=f"drop {line}"),),
    )


def _line(one: ChangedAxes) -> str:
    place = one.place
    return "" if place is None else f"{place.file.rpartition('/')[2]}:{place.line}"


RULE = ModuleRule("C017", moved_axis)
