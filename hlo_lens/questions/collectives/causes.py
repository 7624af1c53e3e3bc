"""Cause of a collective, in sentences.

The partitioner gives a collective the operation path of the instruction that needed it. The
instruction of that path in the text from before optimizations shows the cause: a sharding
constraint of the program on its result, then operands whose shardings cannot both stay. Without
that text or path, and where the shardings there need no communication along the collective's axes,
the cause is not determined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.hlo.metadata import SourceLocation
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.collectives.asked import is_asked_path, last_part
from hlo_lens.questions.collectives.operand_shardings import (
    DividedDimension,
    Operation,
    needing_operation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.value_flow import Neighbour
    from hlo_lens.questions.collectives.collectives import Collective
    from hlo_lens.shapes.mesh import Mesh

Paths: TypeAlias = "Mapping[str, SourceLocation | None]"
"""Operation paths, each with a place in the user's program."""


def is_asked_for(collective: Collective) -> bool:
    """Return whether the program calls it itself, as by its operation path."""
    return is_asked_path(collective.own_op_name)


def paths_of(
    collective: Collective, producers: Sequence[Neighbour], consumers: Sequence[Neighbour]
) -> Iterator[Paths]:
    """Yield the operation path of a collective, then those of the products that it belongs to.

    Partial results are of its producers; a value is gathered for its consumers.
    """
    place = None
    if collective.source_file is not None:
        place = SourceLocation(file=collective.source_file, line=collective.source_line)
    if collective.own_op_name is not None:
        yield {collective.own_op_name: place}
    is_reduction = opcode_traits(collective.kind).is_reduction
    near = (one.instruction for one in (producers if is_reduction else consumers))
    found = {one.op_name: one.source_location for one in near}
    if is_reduction and collective.own_op_name is None:
        found.setdefault(collective.op_name, place)
    yield {path: at for path, at in found.items() if path is not None}


def causes(
    before: HloModule | None,
    collective: Collective,
    mesh: Mesh | None,
    candidates: Sequence[Paths],
) -> Iterator[str]:
    """Yield the cause by the text from before optimizations, or that it is not determined.

    Args:
        before: The text from before optimizations.
        collective: The collective.
        mesh: Mesh to name axes by.
        candidates: Operation paths; those count of which the text has an operation first.
    """
    if is_asked_for(collective) or collective.moves_nothing:
        return
    if collective.own_op_name is not None and last_part(collective.own_op_name) == "shard_map":
        yield "the in_specs or out_specs of the shard_map need another sharding than the value has"
        return
    if before is None:
        yield f"{_UNDETERMINED}: there is no text from before optimizations"
        return
    operations = (needing_operation(before, collective, mesh, paths) for paths in candidates)
    operation = next((one for one in operations if one is not None), None)
    if operation is None:
        problem = "before optimizations, no instruction has its operation path"
        yield f"{_UNDETERMINED}: {problem if any(candidates) else 'it has no operation path'}"
        return
    if collective.axes is None:
        yield f"{_UNDETERMINED}: its mesh axes are not known"
        return
    found = [*_constraint_causes(operation, collective), *_operand_causes(operation, collective)]
    yield from found
    if not found:
        yield (
            f"{_UNDETERMINED}: before optimizations, the shardings known around {operation.name} "
            f"need no {collective.kind} along {collective.axis}"
        )
    yield from _operand_facts(operation)


_UNDETERMINED = "the cause is not determined"


def _constraint_causes(operation: Operation, collective: Collective) -> Iterator[str]:
    """Yield the constraints that need the result divided in another way."""
    if collective.kind == "all-reduce":  # which adds up what the operands make partial
        return
    for constraint in operation.constraints:
        what = "the sharding of an output" if constraint.is_output else "a sharding constraint"
        place = "" if constraint.place is None else f" at {constraint.place}"
        changes = " and ".join(
            f"dimension {one.dimension} {_over(one.after)} where its operand has it "
            f"{_over(one.before)} (as {one.origin})"
            for one in constraint.changed
        )
        names = f"{constraint.name} of {constraint.operand}"
        yield f"{what}{place} ({names}) wants {changes}"


def _over(axes: Sequence[str]) -> str:
    return f"divided over {','.join(axes)}" if axes else "whole"


def _operand_causes(operation: Operation, collective: Collective) -> Iterator[str]:
    """Yield the shardings of operands that cannot both stay, for each axis of a collective."""
    for axis in collective.axes or ():
        needed, kept = operation.uses_of(axis)
        needed_texts = [f"{_dimension_text(*found)}, which it {operation.verb}" for found in needed]
        kept_texts = [f"{_dimension_text(*found)}, which it keeps" for found in kept]
        is_partial = opcode_traits(collective.kind).is_reduction
        if (needed and is_partial) or operation.has_half_combined(axis):
            places = " and ".join(_dimension_text(*found) for found in needed)
            yield (
                f"before optimizations, {operation.name} {operation.verb} {places}, "
                f"divided over {axis}"
            )
        elif not is_partial and operation.has_conflict(axis):
            yield (
                f"before optimizations, {operation.name} cannot keep all that {axis} divides: "
                f"{' and '.join((*needed_texts, *kept_texts))}"
            )


def _dimension_text(position: int, found: DividedDimension) -> str:
    return f"dimension {found.dimension} of operand {position} (as {found.origin})"


def _operand_facts(operation: Operation) -> Iterator[str]:
    """Yield how the operands are divided."""
    for operand in operation.operands:
        divided = [
            f"dimension {found.dimension} over {','.join(found.axes)} (as {found.origin})"
            for found in operand.dimensions
            if found.axes
        ]
        if divided:
            words = ", ".join(divided)
            yield f"before optimizations, operand {operand.position} of {operation.name}: {words}"
