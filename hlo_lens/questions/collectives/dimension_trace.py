"""Axes that divide one dimension of a value, by the text from before optimizations.

The dimension is followed back to an instruction with a sharding: an argument of the program, a
sharding constraint, or any other that prints one. The way goes through conversions, transposes,
slices, elementwise operations, products (a dimension of the result is one of either operand),
reductions, calls, and into loops: a simplified propagation of shardings, which gives the most
likely origin of a division.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.calls import operand_number
from hlo_lens.questions.collectives.dimension_sources import dimension_sources
from hlo_lens.shapes import shardy
from hlo_lens.text.errors import DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.named_sharding import NamedSharding
    from hlo_lens.shapes.shape import ShapeIndex
    from hlo_lens.shapes.sharding import HloSharding

_VISITS = 1000
"""Most instructions that are visited for one dimension."""


def _is_open(sharding: NamedSharding, dimension: int) -> bool:
    """Return whether propagation may add axes to a dimension."""
    dims = sharding.dim_shardings
    return dimension < len(dims) and dims[dimension].is_open


Calls = tuple["HloInstruction", ...]
Found = tuple[tuple[str, ...], "HloInstruction"] | None


_PASSING = ("parameter", "while", "call", "get-tuple-element", "tuple", "opt-barrier")
"""Opcodes that pass elements of tuples on."""


class _Step(NamedTuple):
    """A dimension of a value, and the calls that were entered."""

    instruction: HloInstruction
    element: ShapeIndex
    dimension: int
    calls: Calls


@dataclass(slots=True)
class DimensionTrace:
    """Follows one dimension back to a sharding."""

    mesh: Mesh | None
    meshes: Mapping[str, Mesh]
    visits: int = _VISITS
    seen: set[tuple[object, ...]] = field(default_factory=set)

    @property
    def distance(self) -> int:
        """Number of instructions visited so far."""
        return _VISITS - self.visits

    def operand(
        self, user: HloInstruction, position: int, index: ShapeIndex, dimension: int, calls: Calls
    ) -> Found:
        """Return the axes that divide a dimension of an operand, and the instruction with them."""
        step = _operand(user, position, index, dimension, calls)
        return None if step is None else self._value(step)

    def own(self, instruction: HloInstruction, dimension: int) -> Found:
        """Return the axes of a dimension by the instruction's own sharding, unless it is open."""
        sharding = self._sharding(instruction, ())
        named = None if sharding is None else sharding.named
        if sharding is None or (named is not None and _is_open(named, dimension)):
            return None
        axes = self._axes(sharding, dimension)
        return None if axes is None else (axes, instruction)

    def _value(self, step: _Step) -> Found:
        """Return the axes that divide a dimension of a value, and the instruction with them.

        The first that is found in front of all others; one without axes only if none has some.
        """
        waiting = [(step, math.inf)]
        found: list[tuple[tuple[str, ...], HloInstruction]] = []
        while waiting:
            step, most_found = waiting.pop()
            if len(found) > most_found:
                continue
            instruction, index, dimension, _ = step
            key = (instruction.computation.name, instruction.name, index, dimension)
            self.visits -= 1
            if self.visits < 0 or key in self.seen:
                continue
            self.seen.add(key)
            sharding = self._sharding(instruction, index)
            if sharding is None:
                waiting += reversed(_steps(step, len(found)))
                continue
            axes = self._axes(sharding, dimension)
            if axes is not None:
                found.append((axes, instruction))
            if axes:
                break
        return max(found, key=lambda one: len(one[0]) > 0, default=None)

    def _sharding(self, instruction: HloInstruction, index: ShapeIndex) -> HloSharding | None:
        """Return the sharding that an instruction prints for one array, or None."""
        if len(index) > 1:
            return None
        text = instruction.frontend_attributes.get(shardy.SHARDING)
        place = index[0] if index else 0
        try:
            found = shardy.shardy_shardings(text, self.meshes) if text else ()
            printed = instruction.sharding
        except DumpSyntaxError:
            return None
        if index and printed is not None:
            printed = printed.elements[place] if place < len(printed.elements) else None
        is_whole = len(found) == 1 and not index
        sharding = found[place] if is_whole or (index and place < len(found)) else printed
        sharding = sharding or printed
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


def _operand(
    user: HloInstruction, position: int, index: ShapeIndex, dimension: int, calls: Calls
) -> _Step | None:
    """Return the step to an operand; None if the text does not define it."""
    found = user.producer(position)
    return None if found is None else _Step(found[0], (*found[1], *index), dimension, calls)


def _steps(step: _Step, found: int) -> list[tuple[_Step, float]]:
    """Return the steps from a value to those it is computed from, in the order to take them.

    Each comes with the number of axes that may be found until then, else it is not taken.
    """
    instruction, index, dimension, calls = step
    if instruction.opcode == "while":
        before = _operand(instruction, 0, index, dimension, calls)
        following = [(before, math.inf), (_after_trip(step), found)]
    elif instruction.opcode in _PASSING:
        following = [(_around(step), math.inf)]
    else:
        sources = dimension_sources(instruction, dimension)
        following = [
            (_operand(instruction, position, index, source, calls), math.inf)
            for position, source in sources
        ]
    return [(one, most_found) for one, most_found in following if one is not None]


def _around(step: _Step) -> _Step | None:
    """Return the step from an element of a tuple, a call, or a parameter, to what it is."""
    instruction, index, dimension, calls = step
    opcode = instruction.opcode
    if opcode == "get-tuple-element":
        number = instruction.tuple_index or 0
        return _operand(instruction, 0, (number, *index), dimension, calls)
    if opcode == "opt-barrier":
        return _operand(instruction, 0, index, dimension, calls)
    if opcode == "tuple":
        return _operand(instruction, index[0], index[1:], dimension, calls) if index else None
    if opcode == "call":
        root = instruction.computation.module.links.root_of(instruction.row)
        if root is None:
            return None
        result = instruction.computation.module.instruction(root)
        return _Step(result, index, dimension, (*calls, instruction))
    return _outside(step)


def _after_trip(step: _Step) -> _Step | None:
    """Return the step from an element of a loop's result to the body that computes it."""
    module = step.instruction.computation.module
    root = module.links.root_of(step.instruction.row, "body")
    if root is None or not step.element:
        return None
    return _Step(module.instruction(root), step.element, step.dimension, ())


def _outside(step: _Step) -> _Step | None:
    """Return the step from a parameter to the call that was entered, else to the first caller."""
    parameter, index, dimension, calls = step
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
        return _operand(caller, number, index, dimension, rest)
    return None
