"""Nodes of each computation of a program graph, and their operands."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from hashlib import blake2b
from itertools import chain, islice, repeat
from operator import sub
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.analysis.program_diff.graph import ProgramGraph, View
from hlo_lens.model.hlo.columns import END, LONG_NUMBER, NOTHING, OPERANDS_END, STRIDE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from hlo_lens.model.hlo.computation import HloComputation
    from hlo_lens.model.shapes.shape import ShapeIndex

Link: TypeAlias = "tuple[object, ...]"
"""Number of operands of each node of a computation, the operands, and the result, by position.

Equal for two computations with the same edges, node by node.
"""

_INDEX = ", index="
_VIEW = -2
"""Node of a row that is a view."""

_LARGE = 1 << 12
"""Keys of more bytes are stored as a digest."""


class GraphOperands:
    """Nodes, operands and views of a graph, filled computation by computation.

    Args:
        graph: The graph, still empty.
        without: Positions of computations that have no nodes.

    Attributes:
        node_of: Node of each row; negative for a row without node.
        links: Link of each computation.
        view_rows: Rows of all views.
        has_other_nodes: Whether the nodes are not just the rows.
    """

    def __init__(self, graph: ProgramGraph, without: Collection[int]) -> None:
        module = graph.module
        self.node_of = [NOTHING] * (len(module.columns) + 1)  # one more: the node of `NOTHING`
        self.links: list[Link] = []
        self.view_rows = module.opcodes.places_of({"get-tuple-element"})
        self.has_other_nodes = True
        self._graph = graph
        self._edges = module.links
        self._own_indices: dict[str, ShapeIndex] = {}
        self._viewed: dict[int, tuple[int, ShapeIndex]] = {}
        self._number(without)
        self._resolve_views()
        operands = self._operands()
        for position, computation in enumerate(module.computations):
            rows = () if position in without else computation.rows
            self._add(position, computation, rows, operands)

    def _number(self, without: Collection[int]) -> None:
        """Number the nodes in text order, computation by computation."""
        graph, node_of = self._graph, self.node_of
        for row in self.view_rows:
            node_of[row] = _VIEW
        columns = graph.module.computation_columns
        for position in range(len(columns)):
            rows: Sequence[int] = columns.rows(position)
            if position in without:
                graph.wrapped.extend(rows)
                continue
            if self.view_rows:
                rows = [row for row in rows if node_of[row] != _VIEW]
            graph.rows.extend(rows)
        self.has_other_nodes = graph.rows != list(range(len(node_of) - 1))
        if not self.has_other_nodes:
            node_of[:-1] = graph.rows
            return
        for node, row in enumerate(graph.rows):
            node_of[row] = node

    def _operands(self) -> list[tuple[int, ...]]:
        """Return the nodes that are the operands of each row."""
        edges = self._edges
        offsets = edges.operand_offsets
        nodes = tuple(edges.operand_rows)
        if self.has_other_nodes:
            nodes = tuple(map(self.node_of.__getitem__, nodes))
        special = set(edges.operand_elements)
        if self.view_rows:
            through = (edge for edge, node in enumerate(nodes) if node == _VIEW)
            special.update(bisect_right(offsets, edge) - 1 for edge in through)
        operands = list(map(nodes.__getitem__, map(slice, offsets, islice(offsets, 1, None))))
        for row in sorted(special):
            targets = edges.operands_of(row)
            elements = edges.operand_elements.get(row, repeat(()))
            found = list(map(self.behind, targets, elements))
            operands[row] = tuple(node for node, _ in found)
            if self.node_of[row] >= 0 and any(index for _, index in found):
                self._graph.indices[self.node_of[row]] = tuple(index for _, index in found)
        return operands

    def _add(
        self,
        position: int,
        computation: HloComputation,
        rows: Sequence[int],
        operands: Sequence[tuple[int, ...]],
    ) -> None:
        """Add the nodes and views of some rows of a computation."""
        graph, node_of = self._graph, self.node_of
        first = len(graph.operands)
        if self.view_rows or not isinstance(rows, range):
            own: Sequence[tuple[int, ...]] = [operands[row] for row in rows if node_of[row] >= 0]
        else:
            own = operands[rows.start : rows.stop]
        graph.operands += own
        nodes = range(first, len(graph.operands))
        graph.nodes.append(nodes)
        graph.owner.extend(repeat(position, len(nodes)))
        for row in rows if self.view_rows else ():
            if node_of[row] == _VIEW:
                graph.views.append(View(row, *self._viewed[row]))
        root, index = self.behind(computation.root_row, ()) if rows else (NOTHING, ())
        graph.roots.append((root, index))
        relative = array("i", chain.from_iterable(own))
        if NOTHING in relative:
            relative = array("i", (node - first if node >= 0 else node for node in relative))
        elif first:
            relative = array("i", map(sub, relative, repeat(first)))
        indexed = [node for node in nodes if node in graph.indices] if graph.indices else ()
        indices = tuple((node - first, graph.indices[node]) for node in indexed)
        root = root - first if root >= 0 else NOTHING
        shape = numbers_key(chain(map(len, own), relative))  # as many lengths as there are labels
        self.links.append((shape, indices, root, index))

    def behind(self, row: int, index: ShapeIndex) -> tuple[int, ShapeIndex]:
        """Return the node behind an element of a row, and the tuple index into its result."""
        if self.node_of[row] != _VIEW:
            return self.node_of[row], index
        node, outer = self._viewed[row]
        return node, (*outer, *index)

    # ---- views ---------------------------------------------------------------------------------

    def _resolve_views(self) -> None:
        """Find the node and index behind each view; views in a cycle have none."""
        viewed, node_of = self._viewed, self.node_of
        for start in self.view_rows:
            path: dict[int, ShapeIndex] = {}
            row = start
            while row not in viewed:
                if row in path:
                    viewed.update(dict.fromkeys(path, (NOTHING, ())))
                    break
                source, index = self._first_operand(row)
                path[row] = (*index, *self._own_index(row))
                if node_of[source] != _VIEW:
                    viewed[row] = (node_of[source], path.pop(row))
                    break
                row = source
            node, outer = viewed[row]
            for inner, index in reversed(path.items()):
                outer = (*outer, *index)
                viewed.setdefault(inner, (node, outer))

    def _first_operand(self, row: int) -> tuple[int, ShapeIndex]:
        operands = self._edges.operands_of(row)
        elements = self._edges.operand_elements.get(row, ((),))
        return (operands[0], elements[0]) if operands else (NOTHING, ())

    def _own_index(self, row: int) -> ShapeIndex:
        """Return the tuple index of a view."""
        columns = self._graph.module.columns
        text, base = columns.source.text, row * STRIDE
        start, end = columns.spans[base + OPERANDS_END] + 1, columns.spans[base + END]
        if text.startswith(_INDEX, start):
            comma = text.find(",", start + len(_INDEX), end)
            digits = text[start + len(_INDEX) : comma if comma >= 0 else end]
            known = self._own_indices.get(digits)
            if known is not None:
                return known
            if digits.isdecimal() and len(digits) < LONG_NUMBER:
                return self._own_indices.setdefault(digits, (int(digits),))
        number = self._graph.module.instruction(row).tuple_index
        return () if number is None else (number,)


def numbers_key(numbers: Iterable[int]) -> bytes:
    """Return numbers as bytes, equal for equal ones; a digest if they are many."""
    data = array("i", numbers).tobytes()
    return data if len(data) < _LARGE else blake2b(data, digest_size=16).digest()
