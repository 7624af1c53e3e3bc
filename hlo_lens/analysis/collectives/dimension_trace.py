"""Axes that divide one dimension of a value, by the text from before optimizations.

The dimension is followed back to an instruction with a sharding: an argument of the program, a
sharding constraint, or any other that prints one. The way goes through conversions, transposes,
slices, elementwise operations, products (a dimension of the result is one of either operand),
reductions, calls, and into loops: a simplified propagation of shardings, which gives the most
likely origin of a division.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.analysis.collectives.dimension_sources import dimension_sources
from hlo_lens.model.hlo.calls import operand_number
from hlo_lens.model.shapes import shardy
from hlo_lens.text.errors import DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.shapes.mesh import Mesh
    from hlo_lens.model.shapes.named_sharding import NamedSharding
    from hlo_lens.model.shapes.shape import ShapeIndex
    from hlo_lens.model.shapes.sharding import HloSharding

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
        found = user.producer(position)
        if found is None:
            return None
        producer, element = found
        return self.value(producer, (*element, *index), dimension, calls)

    def own(self, instruction: HloInstruction, dimension: int) -> Found:
        """Return the axes of a dimension by the instruction's own sharding, unless it is open."""
        sharding = self._sharding(instruction, ())
        named = None if sharding is None else sharding.named
        if sharding is None or (named is not None and _is_open(named, dimension)):
            return None
        axes = self._axes(sharding, dimension)
        return None if axes is None else (axes, instruction)

    def value(
        self, instruction: HloInstruction, index: ShapeIndex, dimension: int, calls: Calls
    ) -> Found:
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
        if opcode in _PASSING:
            return self._around(instruction, index, dimension, calls)
        best: Found = None
        for position, source in dimension_sources(instruction, dimension):
            found = self.operand(instruction, position, index, source, calls)
            if found is not None and (best is None or (found[0] and not best[0])):
                best = found
            if best is not None and best[0]:
                break
        return best

    def _around(
        self, instruction: HloInstruction, index: ShapeIndex, dimension: int, calls: Calls
    ) -> Found:
        opcode = instruction.opcode
        if opcode == "get-tuple-element":
            number = instruction.tuple_index or 0
            return self.operand(instruction, 0, (number, *index), dimension, calls)
        if opcode == "opt-barrier":
            return self.operand(instruction, 0, index, dimension, calls)
        if opcode == "tuple":
            if not index:
                return None
            return self.operand(instruction, index[0], index[1:], dimension, calls)
        if opcode == "while":
            found = self.operand(instruction, 0, index, dimension, calls)
            return found or self._after_trip(instruction, index, dimension)
        if opcode == "call":
            root = instruction.computation.module.links.root_of(instruction.row)
            if root is None:
                return None
            result = instruction.computation.module.instruction(root)
            return self.value(result, index, dimension, (*calls, instruction))
        return self._outside(instruction, index, dimension, calls)

    def _after_trip(self, loop: HloInstruction, index: ShapeIndex, dimension: int) -> Found:
        """Follow an element of a loop's result to the body that computes it."""
        module = loop.computation.module
        root = module.links.root_of(loop.row, "body")
        if root is None or not index:
            return None
        return self.value(module.instruction(root), index, dimension, ())

    def _outside(
        self, parameter: HloInstruction, index: ShapeIndex, dimension: int, calls: Calls
    ) -> Found:
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
