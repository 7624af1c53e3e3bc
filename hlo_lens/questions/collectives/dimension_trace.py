"""Axes that divide one dimension of a value, by the text from before optimizations.

The dimension is followed back to an instruction with a sharding: an argument of the program, a
sharding constraint, or any other that prints one. The way goes through conversions, transposes,
slices, elementwise operations, products (a dimension of the result is one of either operand),
reductions, calls, and into loops: a simplified propagation of shardings, which gives the most
likely origin of a division.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.program.value_flow import TUPLES, Route, Value, ValueFlow, value_flow
from hlo_lens.questions.collectives.dimension_sources import dimension_sources
from hlo_lens.shapes import shardy
from hlo_lens.text.errors import DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import ShapeIndex
    from hlo_lens.shapes.sharding import HloSharding

_VISITS = 1000
"""Most instructions that are visited for one dimension."""

_ELEMENTS = Route(TUPLES | {"opt-barrier"})

Division = tuple[tuple[str, ...], "HloInstruction"]
"""The axes that divide a dimension, () for none, and the instruction with the sharding."""


class _Visit(NamedTuple):
    """A dimension of a value that is to be visited.

    Attributes:
        value: The value.
        dimension: The dimension.
        calls: Rows of the calls that were entered.
        most_found: Divisions up to which it is visited.
    """

    value: Value
    dimension: int
    calls: tuple[int, ...] = ()
    most_found: float = math.inf


@dataclass(slots=True)
class DimensionTrace:
    """Follows one dimension back to a sharding.

    Attributes:
        mesh: Mesh to name axes by; None for that of the sharding.
        meshes: Meshes of the text by name.
        distance: Number of instructions visited so far.
    """

    mesh: Mesh | None
    meshes: Mapping[str, Mesh]
    distance: int = 0

    def own(self, instruction: HloInstruction, dimension: int) -> Division | None:
        """Return the axes of a dimension by the instruction's own sharding.

        None if propagation may add axes to the dimension.
        """
        sharding = self._sharding(instruction, ())
        if sharding is None:
            return None
        dims = () if sharding.named is None else sharding.named.dim_shardings
        is_open = dimension < len(dims) and dims[dimension].is_open
        axes = None if is_open else self._axes(sharding, dimension)
        return None if axes is None else (axes, instruction)

    def operand(self, user: HloInstruction, position: int, dimension: int) -> Division | None:
        """Return the axes that divide a dimension of an operand, and the instruction with them.

        The first that are found in front of all others; no axes only if none has some.
        """
        flow = value_flow(user.computation.module)
        start = flow.operand(user.row, position)
        waiting = [] if start is None else [_Visit(start, dimension)]
        found: list[Division] = []
        seen: set[tuple[Value, int]] = set()
        while waiting and self.distance < _VISITS:
            visit = waiting.pop()
            if len(found) > visit.most_found:
                continue
            self.distance += 1
            if visit[:2] in seen:
                continue
            seen.add(visit[:2])
            instruction = flow.module.instruction(visit.value.row)
            sharding = self._sharding(instruction, visit.value.element)
            if sharding is None:
                waiting += reversed(list(_sources(flow, instruction, visit, len(found))))
                continue
            axes = self._axes(sharding, visit.dimension)
            if axes is not None:
                found.append((axes, instruction))
            if axes:
                break
        return max(found, key=lambda division: len(division[0]) > 0, default=None)

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


def _sources(
    flow: ValueFlow, instruction: HloInstruction, visit: _Visit, found: int
) -> Iterator[_Visit]:
    """Yield the values that one is computed from, in the order to visit them."""
    value, dimension, calls, _ = visit
    row, opcode = value.row, instruction.opcode
    before: Value | None = None
    if opcode == "while":
        before = flow.operand(row, 0, value.element)
    elif opcode == "call":
        before, calls = flow.result(value), (*calls, row)
    elif opcode == "parameter":
        is_entry = instruction.computation.is_entry
        place = instruction.computation.place
        callers = [] if is_entry else flow.module.links.calls.of_computation(place)
        entered = [call for call in callers if calls and call.row == calls[-1]]
        calls = calls[:-1] if entered else calls
        before = flow.argument(value, (entered or callers)[0]) if callers else None
    elif opcode in _ELEMENTS.through:
        before = flow.before(value, _ELEMENTS)
    else:
        for position, source in dimension_sources(instruction, dimension):
            operand = flow.operand(row, position, value.element)
            if operand is not None:
                yield _Visit(operand, source, calls)
    if before is not None:
        yield _Visit(before, dimension, calls)
    after_trip = flow.result(value, "body") if opcode == "while" and value.element else None
    if after_trip is not None:  # only if the way before the loop finds no axes
        yield _Visit(after_trip, dimension, (), found)
