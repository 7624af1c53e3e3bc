"""Shardings of the operation that needed a collective, by the text from before optimizations."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from hlo_lens.questions.collectives.sharding_constraints import Constraint, constraints_on
from hlo_lens.shapes import shardy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.collectives.collectives import Collective
    from hlo_lens.shapes.mesh import Mesh

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
