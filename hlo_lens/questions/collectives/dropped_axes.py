"""Sharding constraints without an axis that divides their operand, which is gathered over it.

From the text before optimizations. Left out are constraints of arguments, which are wanted (a
parameter is gathered layer by layer), and axes that the constraint has at another dimension, where
parts are exchanged and not gathered.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.collectives.operand_shardings import (
    divided_dimensions,
    is_constraint,
    keeps_dimensions,
)
from hlo_lens.questions.collectives.operation_search import inlined_paths
from hlo_lens.questions.collectives.operations import CUSTOM_CALL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.mesh import Mesh

_MOST = 200
"""Limit on the constraints examined, in text order."""

_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedAxes:
    """A constraint that leaves out axes of its operand.

    Attributes:
        name: Name of the constraint in the text before optimizations.
        operand: Name of its operand.
        axes: Axes that divide the operand, and that the constraint has nowhere.
        origin: Name of the argument or instruction that they come from.
        paths: Operation paths of the constraint and of what computes its operand.
        place: Line to blame; None if not known.
    """

    name: str
    operand: str
    axes: tuple[str, ...]
    origin: str
    paths: frozenset[str]
    place: SourceLocation | None


def dropped_axes(before: HloModule, mesh: Mesh | None) -> tuple[DroppedAxes, ...]:
    """Return the constraints of a program that leave out axes of their operands.

    Args:
        before: The text from before optimizations.
        mesh: Mesh to name axes by.
    """
    rows = before.columns.rows_with_attribute_text('custom_call_target="Sharding"')
    calls = (before.instruction(row) for row in rows)
    constraints = list(islice((call for call in calls if is_constraint(call)), _MOST))
    found: list[DroppedAxes] = []
    wrappers = _wrappers(constraints)
    for one in constraints:
        if not _is_argument(one):
            found += _dropped(one, mesh, wrappers)
    return tuple(found)


def _dropped(
    constraint: HloInstruction, mesh: Mesh | None, wrappers: Collection[str]
) -> Iterator[DroppedAxes]:
    before = constraint.computation.module
    given = divided_dimensions(before, constraint, 0, mesh)
    own = divided_dimensions(before, constraint, None, mesh)
    wanted = {axis for one in own for axis in one.axes}
    axes = {axis: one.origin for one in given for axis in one.axes if axis not in wanted}
    if axes:
        frames = constraint.user_stack
        is_wrapped = len(frames) > 1 and str(frames[0]) in wrappers
        yield DroppedAxes(
            name=constraint.name,
            operand=next(iter(constraint.operand_names), "?"),
            axes=tuple(axes),
            origin=next(iter(axes.values())),
            paths=frozenset(path for one in _computed(constraint) for path in inlined_paths(one)),
            place=next(iter(frames[is_wrapped:]), None),
        )


def _wrappers(constraints: Sequence[HloInstruction]) -> Collection[str]:
    """Return the lines of constraints that are called from several lines, which are to blame."""
    called = {tuple(map(str, one.user_stack[:2])) for one in constraints}
    callers = Counter(lines[0] for lines in called if len(lines) > 1)
    return {line for line, count in callers.items() if count > 1}


def _is_argument(constraint: HloInstruction) -> bool:
    """Return whether a constraint is of an argument, or of a part of one."""
    instruction = constraint
    for _ in range(_STEPS):
        made = instruction.producer(0)
        if made is None:
            return instruction.opcode == "parameter"
        instruction = made[0]
        traits = opcode_traits(instruction.opcode)
        if not (traits.is_formatting or traits.is_view or traits.opcode == CUSTOM_CALL):
            return instruction.opcode == "parameter"
    return False


def _computed(constraint: HloInstruction) -> Iterator[HloInstruction]:
    """Yield a constraint and the instructions that compute its operand, element by element."""
    waiting, seen = deque([constraint]), {constraint.row}
    while waiting and len(seen) < _STEPS:
        instruction = waiting.popleft()
        yield instruction
        for position in range(len(instruction.operands)):
            made = instruction.producer(position)
            is_same = instruction is constraint or keeps_dimensions(instruction, position)
            if made is not None and made[0].row not in seen and is_same:
                seen.add(made[0].row)
                waiting.append(made[0])
