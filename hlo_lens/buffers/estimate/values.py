"""Values, buffers and live ranges of a module, the result of `dataflow`.

Definitions: `hlo_lens.buffers.estimate.dataflow`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.shape_tree import NODES, Part, ShapeTree, ShapeTrees
from hlo_lens.hlo.columns import SHAPE, SHAPE_END

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.buffers.estimate.fused_bodies import FusedBodies
    from hlo_lens.hlo.query import InstructionTable

PHI_ORDER = 1 << 120
"""Number of the first phi; XLA numbers phis after all other values."""


@dataclass(slots=True, eq=False)
class Values:
    """The values of a module, as columns; a value is its position in them.

    Attributes:
        places: Definition of each: row and node.
        parts: Shape part of each.
        orders: XLA's number of each, which breaks ties, smaller first.
        starts: First instant at which each lives.
        ends: Last instant, inclusive.
        position_ends: Instant of its last position (a computation's end if that returns it).
        last_places: That position; for a get-tuple-element that the text omits, ``-1 - place`` of
            the part that it takes.
    """

    places: list[int] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    position_ends: list[int] = field(default_factory=list)
    last_places: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.places)

    def add(self, place: int, part: Part, order: int, start: int, end: int) -> int:
        """Add a value and return it."""
        self.places.append(place)
        self.parts.append(part)
        self.orders.append(order)
        self.starts.append(start)
        self.ends.append(end)
        self.position_ends.append(end)
        self.last_places.append(place)
        return len(self.places) - 1


class DisjointSets:
    """Disjoint sets of values."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def find(self, value: int) -> int:
        """Return the representative of a value's set."""
        parents = self._parents
        root = value
        while root in parents:
            root = parents[root]
        while value != root:
            parents[value], value = root, parents[value]
        return root

    def union(self, first: int, second: int) -> None:
        """Join two sets; the representative of the first becomes that of both."""
        one, two = self.find(first), self.find(second)
        if one != two:
            self._parents[two] = one


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dataflow:
    """Values of a module, with their buffers and live ranges.

    Attributes:
        table: The module.
        trees: Shapes of its instructions.
        values: The values; those that a loop carries unchanged are merged.
        buffers: Values that share bytes; each value is in exactly one buffer. Sorted by
            `Values.orders`.
        buffer_of: Value to position in `buffers`.
        value_lists: Row to the values at each node of its shape; use `carried` on each.
        operands: Row to the places of its operands.
        schedule: Rows in execution order, flattened; the position is the instant.
        output_values: Values of the entry's result, with repetitions.
        parameter_values: Entry parameter number to values at each node.
        donated: Values of entry parameters that are aliased with an output.
        carried: Value to the one that it is merged into.
        numbers: Row to XLA's number, which orders a computation's instructions.
        bodies: The computations of its fusions.
        skipped: Descriptions of what was not understood.
    """

    table: InstructionTable
    trees: ShapeTrees
    values: Values
    buffers: list[list[int]]
    buffer_of: dict[int, int]
    value_lists: dict[int, list[int]]
    operands: dict[int, list[int]]
    schedule: list[int]
    output_values: list[int]
    parameter_values: dict[int, list[int]]
    donated: frozenset[int]
    carried: Callable[[int], int]
    numbers: dict[int, int]
    bodies: FusedBodies
    skipped: tuple[str, ...]

    @property
    def end(self) -> int:
        """The instant after the last instruction, at which parameters and results still live."""
        return len(self.schedule)

    def tree(self, row: int) -> ShapeTree:
        """Return the shape of a row's result."""
        columns = self.table.module.columns
        return self.trees.of(columns.text(row, SHAPE, SHAPE_END))

    def values_at(self, place: int) -> list[int]:
        """Return the values at a place and all below it."""
        row, node = divmod(place, NODES)
        values = self.value_lists.get(row, [])
        if node == 0:
            return [self.carried(value) for value in values]
        size = self.tree(row).sizes[node]
        return [self.carried(value) for value in values[node : node + size]]
