"""Nodes of each computation of a program graph, and their operands."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from hashlib import blake2b
from itertools import chain, compress, islice, repeat
from operator import add, eq, gt, sub
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.program.value_flow import value_flow
from hlo_lens.questions.diff.matching.graph import NodeOperands, ProgramGraph, View

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from hlo_lens.shapes.shape import ShapeIndex

Link: TypeAlias = "tuple[object, ...]"
"""Number of operands of each node of a computation, the operands, and the result, by position.

Equal for two computations with the same edges, node by node.
"""

_VIEW = -2
"""Node of a row that is a view."""

_LARGE = 1 << 12
"""Keys of more bytes are stored as a digest."""


class GraphOperands:
    """Nodes, operands and views of a graph.

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
        self._flow = value_flow(module)
        self._number(without)
        self._graph.operands = self._operands()
        self._add_views_and_roots(without)
        self._find_links()

    def _number(self, without: Collection[int]) -> None:
        """Number the nodes in text order, computation by computation."""
        graph, node_of = self._graph, self.node_of
        for row in self.view_rows:
            node_of[row] = _VIEW
        for position, rows in enumerate(graph.module.computation_columns.all_rows()):
            first = len(graph.rows)
            if position in without:
                graph.wrapped.extend(rows)
            elif self.view_rows:
                graph.rows += [row for row in rows if node_of[row] != _VIEW]
            else:
                graph.rows += rows
            graph.nodes.append(range(first, len(graph.rows)))
        graph.owner += chain.from_iterable(
            map(repeat, range(len(graph.nodes)), map(len, graph.nodes))
        )
        self.has_other_nodes = graph.rows != list(range(len(node_of) - 1))
        if not self.has_other_nodes:
            node_of[:-1] = graph.rows
            return
        for node, row in enumerate(graph.rows):
            node_of[row] = node

    def _operands(self) -> NodeOperands:
        """Return the nodes that are the operands of each node."""
        graph, edges = self._graph, self._edges
        offsets = edges.operand_offsets
        nodes = edges.operand_rows[:]
        if self.has_other_nodes:
            nodes = array("i", map(self.node_of.__getitem__, nodes))
        special = set(edges.operand_elements)
        if self.view_rows:
            through = compress(range(len(nodes)), map(eq, nodes, repeat(_VIEW)))
            special.update(bisect_right(offsets, edge) - 1 for edge in through)
        for row in sorted(special):
            elements = edges.operand_elements.get(row, repeat(()))
            found = list(map(self.behind, edges.operands_of(row), elements))
            nodes[offsets[row] : offsets[row + 1]] = array("i", [node for node, _ in found])
            if self.node_of[row] >= 0 and any(index for _, index in found):
                graph.indices[self.node_of[row]] = tuple(index for _, index in found)
        counts = list(map(sub, islice(offsets, 1, None), offsets))
        if self.has_other_nodes:
            if graph.rows == sorted(graph.rows):
                is_kept = bytearray(b"\1") * len(nodes)
                for row in compress(range(len(counts)), map(gt, repeat(0), self.node_of)):
                    is_kept[offsets[row] : offsets[row + 1]] = bytes(counts[row])
                nodes = array("i", compress(nodes, is_kept))
            else:  # computations inside others
                edges_of = (range(offsets[row], offsets[row + 1]) for row in graph.rows)
                nodes = array("i", map(nodes.__getitem__, chain.from_iterable(edges_of)))
            counts = list(map(counts.__getitem__, graph.rows))
        return NodeOperands(nodes, counts)

    def _add_views_and_roots(self, without: Collection[int]) -> None:
        """Add all views, and the result of each computation."""
        graph, owners = self._graph, self._edges.owners
        rows = (row for row in self.view_rows if owners[row] not in without)
        graph.views += [View(row, *self.behind(row, ())) for row in rows]
        for position, root in enumerate(self._edges.roots):
            graph.roots.append(self.behind(NOTHING if position in without else root, ()))

    def _find_links(self) -> None:
        """Find the link of each computation; places count from its first node."""
        graph = self._graph
        firsts = [nodes.start for nodes in graph.nodes]
        operands, ends = graph.operands.nodes, graph.operands.offsets
        counts = array("i", map(sub, islice(ends, 1, None), ends))
        edges = [range(ends[nodes.start], ends[nodes.stop]) for nodes in graph.nodes]
        starts = chain.from_iterable(map(repeat, firsts, map(len, edges)))
        places = array("i", map(sub, operands, starts))
        if NOTHING in operands:
            for edge in compress(range(len(operands)), map(eq, operands, repeat(NOTHING))):
                places[edge] = NOTHING
        indices: dict[int, list[tuple[int, tuple[ShapeIndex, ...]]]] = {}
        for node in sorted(graph.indices):
            position = graph.owner[node]
            pair = (node - firsts[position], graph.indices[node])
            indices.setdefault(position, []).append(pair)
        # labels say how many counts there are, and so where the places begin
        keys = map(add, slices(counts, graph.nodes), slices(places, edges))
        for position, key, (root, index) in zip(range(len(firsts)), keys, graph.roots, strict=True):
            root = root - firsts[position] if root >= 0 else NOTHING
            own = tuple(indices[position]) if position in indices else ()
            self.links.append((digest(key), own, root, index))

    def behind(self, row: int, index: ShapeIndex) -> tuple[int, ShapeIndex]:
        """Return the node behind an element of a row, and the tuple index into its result."""
        if self.node_of[row] != _VIEW:
            return self.node_of[row], index
        value = self._flow.unpacked(row)
        return self.node_of[value.row], (*value.element, *index)


def slices(numbers: array[int], places: Iterable[range]) -> Iterator[bytes]:
    """Yield ranges of numbers as bytes, equal for equal numbers."""
    data, size = numbers.tobytes(), numbers.itemsize
    for part in places:
        yield data[part.start * size : part.stop * size]


def digest(data: bytes) -> bytes:
    """Return bytes that are equal for equal data, and short."""
    return data if len(data) < _LARGE else blake2b(data, digest_size=16).digest()
