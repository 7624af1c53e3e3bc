"""Shardings of an operation's operands, by the text from before optimizations.

Each dimension of an operand is followed back to an instruction with a sharding: an argument of the
program, a sharding constraint, or any other that prints one. The way goes through conversions,
transposes, slices, elementwise operations, products (a dimension of the result is one of either
operand), reductions, calls, and into loops: a simplified propagation of shardings, which gives the
most likely origin of a division.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.analysis.collectives.dimension_sources import (
    dimension_sources,
    listed_numbers,
    operand_array_shape,
    summed_dimensions,
)
from hlo_lens.model.hlo.opcodes import opcode_traits
from hlo_lens.model.shapes import shardy
from hlo_lens.text.errors import DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.analysis.collectives.collectives import Collective
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.shapes.mesh import Mesh
    from hlo_lens.model.shapes.shape import ShapeIndex
    from hlo_lens.model.shapes.sharding import HloSharding

_MOST_OPERATIONS = 16
"""Most operations of one path and line that are tried."""

_VISITS = 400
"""Most instructions that are visited for one dimension."""

_CALLS = 16
"""Deepest nesting of calls in an operation path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedDimension:
    """One dimension of an operand, and the axes that divide it.

    Attributes:
        dimension: The dimension.
        axes: Mesh axes that divide it, most major first; () for none.
        origin: Name of the argument or instruction with the sharding.
        is_summed: Whether the operation sums over it.
    """

    dimension: int
    axes: tuple[str, ...]
    origin: str
    is_summed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedOperand:
    """One operand of an operation.

    Attributes:
        user: Name of the operation.
        position: Which operand of it.
        dimensions: Its dimensions with known shardings.
    """

    user: str
    position: int
    dimensions: tuple[DividedDimension, ...]


def sharded_operands(
    before: HloModule, collective: Collective, mesh: Mesh | None
) -> tuple[ShardedOperand, ...]:
    """Return the operands of the operation that needed a collective.

    Of several operations with its path and source line, the first that sums over a dimension that
    is divided along the collective's axes; else the first.

    Args:
        before: The text from before optimizations.
        collective: The collective, which has the operation's path and source line.
        mesh: Mesh to name axes by.
    """
    meshes = shardy.shardy_meshes(before.frontend_attributes.get(shardy.MESHES, ""))
    wanted = set(collective.axes or ())
    first: tuple[ShardedOperand, ...] = ()
    for user in itertools.islice(_operations(before, collective), _MOST_OPERATIONS):
        found = [_operand_of(user, k, mesh, meshes) for k in range(len(user.operands))]
        known = tuple(operand for operand in found if operand.dimensions)
        if any(d.is_summed and wanted.intersection(d.axes) for o in known for d in o.dimensions):
            return known
        first = first or known
    return first


def _operations(before: HloModule, collective: Collective) -> Iterator[HloInstruction]:
    """Yield the instructions with a collective's path and source line; products first."""
    path = collective.own_op_name
    if not path:
        return
    listed = []
    for instruction in before.instructions:
        metadata = instruction.metadata
        if metadata is None or not metadata.op_name or not path.endswith(metadata.op_name):
            continue
        if opcode_traits(instruction.opcode).is_view:
            continue
        place = instruction.source_location
        line = None if place is None else place.line
        if None not in (line, collective.source_line) and line != collective.source_line:
            continue
        if path in _paths(instruction):
            listed.append(instruction)
    yield from sorted(
        listed, key=lambda instruction: not opcode_traits(instruction.opcode).is_heavy
    )


def _paths(instruction: HloInstruction, depth: int = 0) -> set[str]:
    """Return the operation paths that an instruction gets when calls are inlined."""
    metadata = instruction.metadata
    own = metadata.op_name if metadata is not None and metadata.op_name else ""
    found = {own}
    if depth < _CALLS:
        for caller in instruction.computation.callers:
            if caller.opcode == "call":
                found |= {f"{path}/{own}" for path in _paths(caller, depth + 1) if path}
    return found


def _operand_of(
    user: HloInstruction, position: int, mesh: Mesh | None, meshes: Mapping[str, Mesh]
) -> ShardedOperand:
    shape = operand_array_shape(user, position)
    summed = _summed(user, position)
    found = []
    for dimension in range(len(shape.dimensions) if shape is not None else 0):
        trace = _Trace(mesh=mesh, meshes=meshes)
        divided = trace.operand(user, position, (), dimension, ())
        if divided is not None:
            axes, origin = divided
            found.append(
                DividedDimension(
                    dimension=dimension,
                    axes=axes,
                    origin=_name(origin),
                    is_summed=dimension in summed,
                )
            )
    return ShardedOperand(user=user.name, position=position, dimensions=tuple(found))


def _name(origin: HloInstruction) -> str:
    """Return the program's name of an argument, or the name of another instruction."""
    metadata = origin.metadata
    if origin.opcode == "parameter" and metadata is not None and metadata.op_name:
        return metadata.op_name
    return origin.name


def _summed(user: HloInstruction, position: int) -> tuple[int, ...]:
    if user.opcode == "reduce":
        return listed_numbers(user, "dimensions") if position == 0 else ()
    return summed_dimensions(user, position) or ()


_Calls = tuple["HloInstruction", ...]
_Found = tuple[tuple[str, ...], "HloInstruction"] | None


@dataclass(slots=True)
class _Trace:
    """Follows one dimension back to a sharding."""

    mesh: Mesh | None
    meshes: Mapping[str, Mesh]
    visits: int = _VISITS
    seen: set[tuple[object, ...]] = field(default_factory=set)

    def operand(
        self, user: HloInstruction, position: int, index: ShapeIndex, dimension: int, calls: _Calls
    ) -> _Found:
        """Return the axes that divide a dimension of an operand, and the instruction with them."""
        found = user.producer(position)
        if found is None:
            return None
        producer, element = found
        return self.value(producer, (*element, *index), dimension, calls)

    def value(
        self, instruction: HloInstruction, index: ShapeIndex, dimension: int, calls: _Calls
    ) -> _Found:
        """Return the axes that divide a dimension of a value, and the instruction with them."""
        key = (instruction.computation.name, instruction.name, index, dimension)
        self.visits -= 1
        if self.visits < 0 or key in self.seen:
            return None
        self.seen.add(key)
        sharding = self._sharding(instruction, index)
        if sharding is not None:
            axes = self._axes(sharding, dimension)
            return None if axes is None else (axes, instruction)
        opcode = instruction.opcode
        if opcode in ("parameter", "while", "call", "get-tuple-element", "tuple"):
            return self._around(instruction, index, dimension, calls)
        best: _Found = None
        for position, source in dimension_sources(instruction, dimension):
            found = self.operand(instruction, position, index, source, calls)
            if found is not None and (best is None or (found[0] and not best[0])):
                best = found
            if best is not None and best[0]:
                break
        return best

    def _around(
        self, instruction: HloInstruction, index: ShapeIndex, dimension: int, calls: _Calls
    ) -> _Found:
        opcode = instruction.opcode
        if opcode == "get-tuple-element":
            number = int(instruction.attributes.get("index", "0"))
            return self.operand(instruction, 0, (number, *index), dimension, calls)
        if opcode == "tuple":
            if not index:
                return None
            return self.operand(instruction, index[0], index[1:], dimension, calls)
        if opcode == "while":
            return self.operand(instruction, 0, index, dimension, calls)
        if opcode == "call":
            names = instruction.called_computations
            called = instruction.computation.module.computation(names[0]) if names else None
            if called is None or called.root is None:
                return None
            return self.value(called.root, index, dimension, (*calls, instruction))
        return self._outside(instruction, index, dimension, calls)

    def _outside(
        self, parameter: HloInstruction, index: ShapeIndex, dimension: int, calls: _Calls
    ) -> _Found:
        """Follow a parameter to the call that was entered, else to the first caller."""
        computation = parameter.computation
        if computation.is_entry:
            return None
        inside = calls and computation.name in calls[-1].called_computations
        callers = calls[-1:] if inside else computation.callers[:1]
        number = parameter.parameter_number or 0
        for caller in callers:
            if caller.opcode == "while":
                number = 0
            elif caller.opcode == "conditional":
                number = 1 + caller.called_computations.index(computation.name)
            rest = calls[:-1] if inside else calls
            return self.operand(caller, number, index, dimension, rest)
        return None

    def _sharding(self, instruction: HloInstruction, index: ShapeIndex) -> HloSharding | None:
        """Return the sharding that an instruction prints for one array, or None."""
        if index:
            return None
        text = instruction.frontend_attributes.get(shardy.SHARDING)
        try:
            found = shardy.shardy_shardings(text, self.meshes) if text else ()
            sharding = found[0] if len(found) == 1 else None
            sharding = sharding or instruction.sharding
        except DumpSyntaxError:
            return None
        if sharding is None or sharding.elements or sharding.kind.value in ("manual", "unknown"):
            return None
        return sharding

    def _axes(self, sharding: HloSharding, dimension: int) -> tuple[str, ...] | None:
        """Return the axes that divide a dimension; None without a mesh."""
        mesh = self.mesh or (None if sharding.named is None else sharding.named.mesh)
        try:
            spec = None if mesh is None else sharding.to_partition_spec(mesh)
        except UsageError:
            spec = None
        if spec is None:
            return None
        axes = spec[dimension] if dimension < len(spec) else None
        return (axes,) if isinstance(axes, str) else axes or ()
