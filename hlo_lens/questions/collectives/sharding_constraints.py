"""Sharding constraints of a program that need an operation's result divided in another way.

From the text before optimizations: the result of an operation goes, unchanged or through
elementwise operations and calls, to a constraint (``with_sharding_constraint``) or to an output
with a sharding of its own. Where the constraint lacks an axis that divides a dimension of its
operand, the parts are gathered; where it has one at another dimension, they are exchanged. How the
operand is divided follows from its own operands (`operand_shardings`), so a constraint is named
only where both are known.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.collectives.dimension_sources import operand_array_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from hlo_lens.questions.collectives.operand_shardings import DividedDimension

_CONSTRAINT = "Sharding"
_OUTPUT = "xla.sdy.FuncResultSharding"
_STEPS = 200
_MOST_FRAMES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedDimension:
    """One dimension that a constraint divides in another way than its operand is.

    Attributes:
        dimension: The dimension.
        before: Axes that divide the operand.
        origin: Name of the argument or instruction that they come from.
        after: Axes of the constraint.
    """

    dimension: int
    before: tuple[str, ...]
    origin: str
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A sharding constraint, or the sharding of an output.

    Attributes:
        name: Its instruction in the text from before optimizations.
        operand: The instruction that it constrains.
        is_output: Whether it is the sharding of an output.
        place: Place in the user's program and the caller of its function; None if not known.
        changed: Dimensions that it divides in another way.
    """

    name: str
    operand: str
    is_output: bool
    place: str | None
    changed: tuple[ChangedDimension, ...]


def is_constraint(instruction: HloInstruction) -> bool:
    """Return whether an instruction is a constraint, or the sharding of an output."""
    if instruction.opcode != "custom-call":
        return False
    return _target(instruction) in (_CONSTRAINT, _OUTPUT)


def _target(instruction: HloInstruction) -> str:
    return (instruction.attribute("custom_call_target") or "").strip('"')


def constraints_on(
    operation: HloInstruction,
    axes: Collection[str],
    divided: Callable[[HloInstruction, int | None], Collection[DividedDimension]],
) -> tuple[Constraint, ...]:
    """Return the constraints that need the result of an operation divided in another way.

    Args:
        operation: The operation, which may be a constraint itself.
        axes: Mesh axes that matter.
        divided: Returns the divided dimensions of an operand of an instruction, or of its result
            for None.
    """
    found = []
    for constraint in _constraints_behind(operation):
        changed = tuple(_changed(constraint, axes, divided))
        if changed:
            found.append(
                Constraint(
                    name=constraint.name,
                    operand=next(iter(constraint.operand_names), "?"),
                    is_output=_target(constraint) == _OUTPUT,
                    place=_place(constraint),
                    changed=changed,
                )
            )
    return tuple(found)


def _changed(
    constraint: HloInstruction,
    axes: Collection[str],
    divided: Callable[[HloInstruction, int | None], Collection[DividedDimension]],
) -> Iterator[ChangedDimension]:
    """Yield the dimensions where a constraint and its operand differ in some axes."""
    before = {one.dimension: one for one in divided(constraint, 0)}
    after = {one.dimension: one.axes for one in divided(constraint, None)}
    for dimension, wanted in after.items():
        given = before.get(dimension)
        if given is None or given.axes == wanted:
            continue
        if set(given.axes).symmetric_difference(wanted).intersection(axes):
            yield ChangedDimension(
                dimension=dimension, before=given.axes, origin=given.origin, after=wanted
            )


def _constraints_behind(operation: HloInstruction) -> Iterator[HloInstruction]:
    """Yield the constraints that a result goes to; nothing else changes its dimensions."""
    waiting = deque([operation])
    seen = {(operation.computation.place, operation.row)}
    while waiting and len(seen) < _STEPS:
        instruction = waiting.popleft()
        if is_constraint(instruction):
            yield instruction
            continue
        for user in _users(instruction):
            key = (user.computation.place, user.row)
            if key not in seen:
                seen.add(key)
                waiting.append(user)


def _users(instruction: HloInstruction) -> Iterator[HloInstruction]:
    """Yield the instructions that a value goes to with its dimensions as they are."""
    computation = instruction.computation
    module, links = computation.module, computation.module.links
    if instruction.is_root and not computation.is_entry:
        yield from (caller for caller in computation.callers if caller.opcode == "call")
    for row, position in links.users_of(instruction.row):
        user = HloInstruction(computation, row)
        if user.opcode == "call":
            for call in links.calls.of_row(row):
                parameters = {} if call.place == NOTHING else links.parameters_of(call.place)
                if position in parameters:
                    yield module.instruction(parameters[position])
        elif is_constraint(user) or keeps_dimensions(user, position):
            yield user


def keeps_dimensions(user: HloInstruction, position: int) -> bool:
    """Return whether an instruction computes element by element from an operand."""
    traits = opcode_traits(user.opcode)
    if not (traits.is_elementwise or traits.is_same):
        return False
    given, made = operand_array_shape(user, position), user.shape
    return given is not None and made is not None and given.dimensions == made.dimensions


def _place(instruction: HloInstruction) -> str | None:
    """Return the innermost places of the user's program: ``gpt.py:16 (cs) < gpt.py:39 (call)``."""
    own = instruction.user_stack
    shown = [f"{one} ({one.function})" if one.function else str(one) for one in own]
    if shown:
        return " < ".join(shown[:_MOST_FRAMES])
    return instruction.source
