"""Shardings of the operation that needed a collective, and the constraints that ask for others.

From the text before optimizations: the result of an operation goes, unchanged or through
elementwise operations and calls, to a constraint (``with_sharding_constraint``) or to an output
with a sharding of its own. Where the constraint lacks an axis that divides a dimension of its
operand, the parts are gathered; where it has one at another dimension, they are exchanged. How the
operand is divided follows from its own operands (`operand_shardings`), so a constraint is named
only where both are known.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.collectives.dimension_sources import (
    COMBINING,
    needed_dimensions,
    operand_array_shape,
)
from hlo_lens.questions.collectives.dimension_trace import DimensionTrace
from hlo_lens.questions.collectives.operation_search import (
    computing_one,
    member_paths,
    operations_of,
)
from hlo_lens.shapes import shardy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.collectives.collectives import Collective
    from hlo_lens.shapes.mesh import Mesh


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


_MOST_OPERATIONS = 48
"""Most operations of one path and line that are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedDimension:
    """One dimension of an operand, and the axes that divide it.

    Attributes:
        dimension: The dimension.
        axes: Mesh axes that divide it, most major first; () for none.
        origin: Name of the argument or instruction with the sharding.
        is_needed: Whether the operation combines elements along it: sums, sorts, shifts, ...
    """

    dimension: int
    axes: tuple[str, ...]
    origin: str
    is_needed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedOperand:
    """One operand of an operation.

    Attributes:
        position: Which operand of it.
        dimensions: Its dimensions with known shardings.
    """

    position: int
    dimensions: tuple[DividedDimension, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The operation that needed a collective, in the text from before optimizations.

    Attributes:
        name: Its name.
        verb: How it combines elements along dimensions: ``sums over``.
        is_product: Whether it is a matrix product or convolution.
        operands: Its operands with any known sharding.
        constraints: Constraints that need its result divided in another way.
    """

    name: str
    verb: str
    is_product: bool
    operands: tuple[ShardedOperand, ...]
    constraints: tuple[Constraint, ...]

    def uses_of(self, axis: str) -> tuple[list[Use], list[Use]]:
        """Return the dimensions that an axis divides: those it combines, and those it keeps."""
        uses = [
            (operand.position, found)
            for operand in self.operands
            for found in operand.dimensions
            if axis in found.axes
        ]
        return [use for use in uses if use[1].is_needed], [
            use for use in uses if not use[1].is_needed
        ]

    def has_partial_result(self, axis: str) -> bool:
        """Return whether each device of an axis has a part of what the operation combines."""
        needed, kept = self.uses_of(axis)
        return bool(needed) and not kept

    def has_half_combined(self, axis: str) -> bool:
        """Return whether an axis divides what it combines, in one operand of those that have it.

        A product whose both operands are divided so adds up partial results instead.
        """
        needed, kept = self.uses_of(axis)
        return not kept and (len(needed) == 1 or (len(needed) > 1 and not self.is_product))

    def has_conflict(self, axis: str) -> bool:
        """Return whether an axis divides dimensions of which not all can stay divided."""
        needed, kept = self.uses_of(axis)
        if needed and kept:
            return True
        places = {position for position, _ in kept}
        return len(places) > 1 and len({found.dimension for _, found in kept}) > 1

    def is_explained(self, wanted: set[str], *, is_partial: bool) -> bool:
        """Return whether its shardings need communication along some axes.

        Args:
            wanted: The axes.
            is_partial: Whether partial results are added up.
        """
        if is_partial:
            return any(self.has_partial_result(axis) for axis in wanted)
        return any(self.has_half_combined(a) or self.has_conflict(a) for a in wanted)


Use = tuple[int, DividedDimension]
"""Number of an operand, and a dimension of it."""


def needing_operation(
    before: HloModule,
    collective: Collective,
    mesh: Mesh | None,
    paths: Mapping[str, SourceLocation | None],
) -> Operation | None:
    """Return the operation that needed a collective; None if the text has none of its paths.

    Of several operations of these paths, the first with a constraint on its result; else the first
    whose operands need communication along the collective's axes; else the first. Those at the
    places come before all others.

    Args:
        before: The text from before optimizations.
        collective: The collective.
        mesh: Mesh to name axes by.
        paths: Operation paths, with places in the user's program.
    """
    tracer = _Tracer(mesh, shardy.shardy_meshes(before.frontend_attributes.get(shardy.MESHES, "")))
    wanted = set(collective.axes or ())
    members = {member: place for path, place in paths.items() for member in member_paths(path)}
    users = [*itertools.islice(operations_of(before, members), _MOST_OPERATIONS)]
    found = [tracer.operation(user, wanted) for _, user in users]
    nearest = [one for one, (frame, _) in zip(found, users, strict=True) if frame == users[0][0]]
    is_partial = opcode_traits(collective.kind).is_reduction
    communicating = (
        one
        for group in (nearest, found)
        for one in (
            *(one for one in group if one.constraints and not is_partial),
            *(one for one in group if one.is_explained(wanted, is_partial=is_partial)),
        )
    )
    summing = (one for one in found if is_partial and any(one.uses_of(a)[0] for a in wanted))
    return next(itertools.chain(communicating, summing, found), None)


def divided_dimensions(
    before: HloModule, user: HloInstruction, position: int | None, mesh: Mesh | None
) -> tuple[DividedDimension, ...]:
    """Return the known dimensions of an operand of an instruction, or of its result for None."""
    meshes = shardy.shardy_meshes(before.frontend_attributes.get(shardy.MESHES, ""))
    return _Tracer(mesh, meshes).divided(user, position)


class _Tracer:
    """Finds how operands and results are divided.

    Args:
        mesh: Mesh to name axes by.
        meshes: Meshes of the text by name.
    """

    def __init__(self, mesh: Mesh | None, meshes: Mapping[str, Mesh]) -> None:
        self._mesh = mesh
        self._meshes = meshes

    def operation(self, user: HloInstruction, wanted: set[str]) -> Operation:
        """Return an operation with the constraints on its result."""
        computing = computing_one(user)
        operands = (
            ShardedOperand(position=k, dimensions=self.divided(computing, k))
            for k in range(len(computing.operands))
        )
        return Operation(
            name=computing.name,
            verb=COMBINING.get(computing.opcode, "reads all of"),
            is_product=opcode_traits(computing.opcode).is_product,
            operands=tuple(operand for operand in operands if operand.dimensions),
            constraints=constraints_on(user, wanted, self.divided),
        )

    def divided(self, user: HloInstruction, position: int | None) -> tuple[DividedDimension, ...]:
        """Return the known dimensions of an operand, or of the result by its own sharding."""
        shape = user.shape if position is None else operand_array_shape(user, position)
        if shape is None or shape.is_tuple:
            return ()
        needed = () if position is None else needed_dimensions(user, position)
        found: list[tuple[int, DividedDimension]] = []
        for dimension in range(len(shape.dimensions)):
            trace = DimensionTrace(mesh=self._mesh, meshes=self._meshes)
            if position is None:
                divided = trace.own(user, dimension)
            else:
                divided = trace.operand(user, position, dimension)
            if divided is not None:
                axes, origin = divided
                one = DividedDimension(
                    dimension=dimension,
                    axes=axes,
                    origin=_name(origin),
                    is_needed=dimension in needed,
                )
                found.append((trace.distance, one))
        return _without_repeated_axes(found)


def _without_repeated_axes(
    found: list[tuple[int, DividedDimension]],
) -> tuple[DividedDimension, ...]:
    """Return dimensions without those whose axes divide a dimension with a nearer origin.

    An axis divides one dimension of a value; propagation keeps the first that reaches it.

    Args:
        found: Each with the distance of its origin.
    """
    taken: set[str] = set()
    kept: list[DividedDimension] = []
    for _, one in sorted(found, key=lambda pair: pair[0]):
        if taken.isdisjoint(one.axes):
            kept.append(one)
            taken.update(one.axes)
    return tuple(sorted(kept, key=lambda one: one.dimension))


def _name(origin: HloInstruction) -> str:
    """Return the program's name of an argument, or the name of another instruction."""
    metadata = origin.metadata
    if origin.opcode == "parameter" and metadata is not None and metadata.op_name:
        return metadata.op_name
    return origin.name
