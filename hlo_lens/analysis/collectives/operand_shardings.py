"""Shardings of an operation's operands, by the text from before optimizations.

Each dimension of an operand is followed back to an instruction with a sharding: an argument of the
program, a sharding constraint, or any other that prints one. The way goes through conversions,
transposes, slices, elementwise operations, products (a dimension of the result is one of either
operand), reductions, calls, and into loops: a simplified propagation of shardings, which gives the
most likely origin of a division.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.analysis.collectives.dimension_sources import (
    COMBINING,
    dimension_sources,
    needed_dimensions,
    operand_array_shape,
)
from hlo_lens.analysis.collectives.sharding_constraints import Constraint, constraints_on
from hlo_lens.model.hlo.links import operand_number
from hlo_lens.model.hlo.opcodes import opcode_traits
from hlo_lens.model.shapes import shardy
from hlo_lens.text.errors import DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Set

    from hlo_lens.analysis.collectives.collectives import Collective
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.shapes.mesh import Mesh
    from hlo_lens.model.shapes.named_sharding import NamedSharding
    from hlo_lens.model.shapes.shape import ShapeIndex
    from hlo_lens.model.shapes.sharding import HloSharding

_MOST_OPERATIONS = 48
"""Most operations of one path and line that are tried."""

_REORDERING = ("convert", "copy", "transpose", "bitcast-convert")

_FORMATTED = 8
"""Most conversions and transposes of a result that are followed back."""

_VISITS = 1000
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
    before: HloModule, collective: Collective, mesh: Mesh | None, paths: Collection[str]
) -> Operation | None:
    """Return the operation that needed a collective; None if the text has none of its paths.

    Of several operations of these paths, the first with a constraint on its result; else the first
    whose operands need communication along the collective's axes; else the first.

    Args:
        before: The text from before optimizations.
        collective: The collective.
        mesh: Mesh to name axes by.
        paths: Operation paths.
    """
    tracer = _Tracer(mesh, shardy.shardy_meshes(before.frontend_attributes.get(shardy.MESHES, "")))
    wanted = set(collective.axes or ())
    members = {member for path in paths for member in _member_paths(path)}
    users = _operations(before, members, collective.source_line)
    found = [tracer.operation(user, wanted) for user in itertools.islice(users, _MOST_OPERATIONS)]
    is_partial = collective.kind in PARTIAL
    constrained = (one for one in found if one.constraints and not is_partial)
    explained = (one for one in found if one.is_explained(wanted, is_partial=is_partial))
    summing = (one for one in found if is_partial and any(one.uses_of(a)[0] for a in wanted))
    choices = itertools.chain(constrained, explained, summing, found)
    return next(choices, None)


PARTIAL = ("all-reduce", "reduce-scatter")
"""Kinds that add up partial results, which no constraint causes."""


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
        computing = _computing(user)
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
            trace = _Trace(mesh=self._mesh, meshes=self._meshes)
            if position is None:
                divided = trace.own(user, dimension)
            else:
                divided = trace.operand(user, position, (), dimension, ())
            if divided is not None:
                axes, origin = divided
                one = DividedDimension(
                    dimension=dimension,
                    axes=axes,
                    origin=_name(origin),
                    is_needed=dimension in needed,
                )
                found.append((_VISITS - trace.visits, one))
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


def _operations(before: HloModule, paths: Set[str], line: int | None) -> Iterator[HloInstruction]:
    """Yield the instructions of some paths; those of a source line and products first."""
    if not paths:
        return
    listed = []
    for instruction in before.instructions:
        metadata = instruction.metadata
        if metadata is None or not metadata.op_name:
            continue
        if not any(path.endswith(metadata.op_name) for path in paths):
            continue
        if opcode_traits(instruction.opcode).is_view or paths.isdisjoint(_paths(instruction)):
            continue
        listed.append(instruction)
    yield from sorted(
        listed,
        key=lambda one: (
            not _is_on_line(one, line),
            not opcode_traits(_computing(one).opcode).is_heavy,
        ),
    )


def _computing(instruction: HloInstruction) -> HloInstruction:
    """Return an instruction, or the one whose result it converts, reorders or copies."""
    for _ in range(_FORMATTED):
        found = instruction.producer(0)
        if found is None or instruction.opcode not in _REORDERING:
            break
        if found[0].opcode in ("parameter", "get-tuple-element"):
            break
        instruction = found[0]
    return instruction


def _is_on_line(instruction: HloInstruction, line: int | None) -> bool:
    """Return whether a line is among the call stack of an instruction, or one is unknown."""
    metadata = instruction.metadata
    if line is None or metadata is None:
        return True
    frames = instruction.computation.module.stack_frames.stack(metadata.stack_frame_id or 0)
    place = instruction.source_location
    lines = {frame.line for frame in frames} | ({place.line} if place is not None else set())
    return not lines or line in lines


_PART = re.compile(r"[():]")


def _member_paths(path: str) -> list[str]:
    """Return the operation paths of a collective's members; XLA joins those of combined ones.

    >>> _member_paths("a/(b:jvp(c)/d)"), _member_paths("jit(f)/b")
    (['a/b', 'a/jvp(c)/d'], ['jit(f)/b'])
    """
    start, cuts, depth = -1, [], 0
    for match in _PART.finditer(path):
        place, sign = match.start(), match[0]
        if sign == "(" and start < 0 and (not place or path[place - 1] == "/"):
            start, cuts, depth = place, [place], 0
        elif start >= 0 and sign == ":" and not depth:
            cuts.append(place)
        elif sign == ")" and not depth and start >= 0:
            cuts.append(place)
            break
        else:
            depth += {"(": 1, ")": -1}.get(sign, 0)
    if len(cuts) < _LEAST_CUTS or cuts[-1] != len(path) - 1:
        return [path] if path else []
    members = (path[one + 1 : two] for one, two in itertools.pairwise(cuts))
    return list(dict.fromkeys(f"{path[:start]}{one}" for one in members))


_LEAST_CUTS = 3
"""Parentheses and colons of a path with two members."""


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


def _name(origin: HloInstruction) -> str:
    """Return the program's name of an argument, or the name of another instruction."""
    metadata = origin.metadata
    if origin.opcode == "parameter" and metadata is not None and metadata.op_name:
        return metadata.op_name
    return origin.name


def _is_open(sharding: NamedSharding, dimension: int) -> bool:
    """Return whether propagation may add axes to a dimension."""
    dims = sharding.dim_shardings
    return dimension < len(dims) and dims[dimension].is_open


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

    def own(self, instruction: HloInstruction, dimension: int) -> _Found:
        """Return the axes of a dimension by the instruction's own sharding, unless it is open."""
        sharding = self._sharding(instruction, ())
        named = None if sharding is None else sharding.named
        if sharding is None or (named is not None and _is_open(named, dimension)):
            return None
        axes = self._axes(sharding, dimension)
        return None if axes is None else (axes, instruction)

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
            found = self.operand(instruction, 0, index, dimension, calls)
            return found or self._after_trip(instruction, index, dimension)
        if opcode == "call":
            names = instruction.called_computations
            called = instruction.computation.module.computation(names[0]) if names else None
            if called is None or called.root is None:
                return None
            return self.value(called.root, index, dimension, (*calls, instruction))
        return self._outside(instruction, index, dimension, calls)

    def _after_trip(self, loop: HloInstruction, index: ShapeIndex, dimension: int) -> _Found:
        """Follow an element of a loop's result to the body that computes it."""
        module = loop.computation.module
        value = loop.attribute("body")
        names = module.reader.names(value) if value else ()
        body = module.computation(names[0]) if names else None
        if body is None or body.root is None or not index:
            return None
        return self.value(body.root, index, dimension, ())

    def _outside(
        self, parameter: HloInstruction, index: ShapeIndex, dimension: int, calls: _Calls
    ) -> _Found:
        """Follow a parameter to the call that was entered, else to the first caller."""
        computation = parameter.computation
        if computation.is_entry:
            return None
        module = computation.module
        listed = module.links.calls.of_computation(computation.place)
        entered = [call for call in listed if calls and call.row == calls[-1].row]
        rest = calls[:-1] if entered else calls
        for call in entered or listed:
            caller = module.instruction(call.row)
            number = operand_number(call, caller.opcode, parameter.parameter_number or 0)
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
