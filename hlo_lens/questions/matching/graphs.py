"""Program graph: a module as nodes, edges and labels, all numbers, for matching two of them.

A node is an instruction. A get-tuple-element, which only some texts print (HloPrintOptions, compact
get-tuple-element), is no node but a *view*, an edge to its operand with an index.

The graphs of two modules are made together, or each alone by the process that reads its module. If
one text leaves out what the other prints, both graphs are made again.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import blake2b
from itertools import accumulate, chain, compress, islice, repeat
from operator import add, eq, ge, gt, sub
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import END, NOTHING, OPERANDS, OPERANDS_END, STRIDE
from hlo_lens.hlo.module import HloInstruction
from hlo_lens.program.value_flow import post_order, value_flow
from hlo_lens.questions.matching.labels import (
    LabelParts,
    Labels,
    attribute_columns,
    axis_numbers,
    counted_between,
)

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Iterator, Sequence

    from hlo_lens.hlo.columns import InstructionColumns
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.shape import ShapeIndex

_KEY = 'op_name="'
_OP_NAME = re.compile(r'op_name="([^"\\]*+(?:\\.[^"\\]*+)*+)"')


class View(NamedTuple):
    """A get-tuple-element, which is not a node."""

    row: int
    node: int  # of whose result it takes an element; -1 if undefined
    element: ShapeIndex


class NodeOperands:
    """Operands of each node; -1 for an undefined one. Tuples of them are made when asked for."""

    __slots__ = ("nodes", "offsets")

    def __init__(self, nodes: array[int], counts: Iterable[int]) -> None:
        """Take the operands of all nodes, and how many of these each node has."""
        self.nodes = nodes
        self.offsets = array("I", accumulate(counts, initial=0))

    def __getitem__(self, node: int) -> tuple[int, ...]:
        return tuple(self.nodes[self.offsets[node] : self.offsets[node + 1]])

    def of(self, nodes: range) -> list[tuple[int, ...]]:
        """Return the operands of some nodes, faster than one by one."""
        first = self.offsets[nodes.start]
        ends = list(map(sub, self.offsets[nodes.start : nodes.stop + 1], repeat(first)))
        operands = tuple(self.nodes[first : first + ends[-1]])
        return list(map(operands.__getitem__, map(slice, ends, islice(ends, 1, None))))

    def users(self, wanted: Container[int], within: range) -> list[int]:
        """Return which nodes of a range have an operand among some, ascending."""
        offsets = self.offsets
        edges = range(offsets[within.start], offsets[within.stop])
        taken = map(wanted.__contains__, self.nodes[edges.start : edges.stop])
        found = (bisect_right(offsets, edge) - 1 for edge in compress(edges, taken))
        return list(dict.fromkeys(found))


def _numbers() -> array[int]:
    return array("i")


@dataclass(slots=True, eq=False)
class ProgramGraph:
    """A module as numbers. Nodes are in text order, computation by computation.

    Lists are by node, or by computation (`nodes`, `edges`, `bodies`, `roots`). Two computations
    with one number of `edges` have the same operands and result by position, with one of `bodies`
    the same labels too; both are the same in two modules with common labels. Callees do not count.
    """

    module: HloModule
    labels: Labels
    rows: array[int] = field(default_factory=_numbers)
    owner: array[int] = field(default_factory=_numbers)
    label: array[int] = field(default_factory=_numbers)
    operands: NodeOperands = field(default_factory=lambda: NodeOperands(array("i"), ()))
    indices: dict[int, tuple[ShapeIndex, ...]] = field(default_factory=dict)
    """Tuple index of each operand, for nodes with any."""
    callees: dict[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """Roles and positions of the computations that a node calls."""
    callers: list[int] = field(default_factory=list)
    controls: dict[int, tuple[int, ...]] = field(default_factory=dict)
    parameters: list[int] = field(default_factory=list)
    nodes: list[range] = field(default_factory=list)
    edges: array[int] = field(default_factory=_numbers)
    bodies: array[int] = field(default_factory=_numbers)
    roots: list[tuple[int, ShapeIndex]] = field(default_factory=list)  # node -1 for none
    views: list[View] = field(default_factory=list)
    entry: int = -1
    _paths: dict[int, str] = field(default_factory=dict)
    _orders: dict[int, Sequence[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def parts(self, node: int) -> LabelParts:
        return self.labels.parts[self.label[node]]

    def opcode(self, node: int) -> str:
        return self.labels.parts[self.label[node]].opcode

    def instruction(self, node: int) -> HloInstruction:
        return HloInstruction(self.module.computations[self.owner[node]], self.rows[node])

    def path(self, node: int) -> str:
        """Return the operation path of a node; empty if not printed."""
        if node not in self._paths:
            self._paths[node] = operation_path(self.module.columns, self.rows[node])
        return self._paths[node]

    def operands_of(self, node: int) -> Iterator[tuple[int, ShapeIndex]]:
        """Yield the operands of a node, each with its tuple index."""
        operands = self.operands[node]
        return zip(operands, self.indices.get(node) or ((),) * len(operands), strict=True)

    def calls_of(self, computation: int) -> Sequence[int]:
        """Return the nodes of a computation that call others, in order."""
        return _within(self.callers, self.nodes[computation])

    def parameters_of(self, computation: int) -> Sequence[int]:
        """Return the nodes of a computation that are its parameters, in order."""
        return _within(self.parameters, self.nodes[computation]) if computation >= 0 else ()

    def parameter_numbers(self, computation: int) -> dict[int, int]:
        """Return the parameters of a computation by their number."""
        found = ((self.parts(node).detail, node) for node in self.parameters_of(computation))
        return {number: node for number, node in found if isinstance(number, int)}

    def order(self, computation: int) -> Sequence[int]:
        """Return the nodes of a computation, operands before users; cycles are cut at any edge."""
        if computation not in self._orders:
            self._orders[computation] = nodes = self.nodes[computation]
            operands = self.operands.of(nodes)
            if any(map(ge, map(partial(max, default=-1), operands), nodes)):
                taken = dict(zip(nodes, operands, strict=True))
                self._orders[computation] = post_order(
                    nodes, lambda n: [o for o in taken.get(n, ()) if o >= 0]
                )
        return self._orders[computation]

    def callees_first(self, starts: Sequence[int] | None = None) -> list[int]:
        """Return the computations reached from some, or all, each after its callees."""
        calls: list[list[int]] = [[] for _ in self.nodes]
        for node in self.callers:
            calls[self.owner[node]] += [computation for _, computation in self.callees[node]]
        return post_order(range(len(calls)) if starts is None else starts, calls.__getitem__)

    def reachable(self) -> set[int]:
        """Return the computations that the entry reaches, itself included."""
        return set(self.callees_first([self.entry] if self.entry >= 0 else []))


def _within(listed: list[int], nodes: range) -> list[int]:
    return listed[bisect_left(listed, nodes.start) : bisect_left(listed, nodes.stop)]


def operation_path(columns: InstructionColumns, row: int) -> str:
    """Return the operation path of a row as written; empty if not printed."""
    text, base = columns.source.text, row * STRIDE
    start, end = columns.spans[base + OPERANDS_END] + 1, columns.spans[base + END]
    start = text.find(_KEY, start, end)
    match = _OP_NAME.search(text, start, end) if start >= 0 else None
    return match[1] if match else ""


# ---- one graph ---------------------------------------------------------------------------------

_VIEW = -2
"""Node of a row that is a view."""

_LARGE = 1 << 12
"""Keys of more bytes are stored as a digest."""

_ROLES = dict.fromkeys(("to_apply", "calls", "called_computations"), "region")
"""Attributes that name an applied computation; print styles exchange them."""


def program_graph(module: HloModule, labels: Labels) -> ProgramGraph:
    """Return the graph of a module."""
    return _Builder(module, labels).graph


class _Builder:
    """Builder of one graph."""

    def __init__(self, module: HloModule, labels: Labels) -> None:
        self.graph = ProgramGraph(module, labels)
        self._module = module
        self._labels = labels
        self._reader = module.reader
        labels.axes[id(module.reader)] = axis_numbers(module)
        self._flow = value_flow(module)
        self._view_rows = module.opcodes.places_of({"get-tuple-element"})
        self._node_of = [NOTHING] * (len(module.columns) + 1)  # one more: the node of `NOTHING`
        self._number_nodes()
        self._find_operands()
        self._find_views_and_roots()
        self._number_edges()
        self._label_nodes()
        self._find_callees()
        self._find_controls()
        self._label_computations()
        number_bodies(self.graph)
        if module.has_entry:
            self.graph.entry = module.entry.place

    # ---- edges ---------------------------------------------------------------------------------

    def _number_nodes(self) -> None:
        """Number the nodes in text order, computation by computation."""
        graph, node_of = self.graph, self._node_of
        nodes: list[int] = []
        for row in self._view_rows:
            node_of[row] = _VIEW
        for rows in self._module.computation_columns.all_rows():
            first = len(nodes)
            if self._view_rows:
                nodes += [row for row in rows if node_of[row] != _VIEW]
            else:
                nodes += rows
            graph.nodes.append(range(first, len(nodes)))
        for node, row in enumerate(nodes):
            node_of[row] = node
        graph.rows = array("i", nodes)
        owners = map(repeat, range(len(graph.nodes)), map(len, graph.nodes))
        graph.owner = array("i", chain.from_iterable(owners))

    def _find_operands(self) -> None:
        """Find the nodes that are the operands of each node."""
        graph, links, node_of = self.graph, self._module.links, self._node_of
        offsets = links.operand_offsets
        is_whole = graph.rows == array("i", range(len(node_of) - 1))
        nodes = links.operand_rows[:]
        if not is_whole:
            nodes = array("i", list(map(node_of.__getitem__, nodes)))
        special = set(links.operand_elements)
        if self._view_rows:
            through = compress(range(len(nodes)), map(eq, nodes, repeat(_VIEW)))
            special.update(bisect_right(offsets, edge) - 1 for edge in through)
        for row in special:
            if node_of[row] < 0:
                continue
            elements = links.operand_elements.get(row, repeat(()))
            found = list(map(self._behind, links.operands_of(row), elements))
            nodes[offsets[row] : offsets[row + 1]] = array("i", [node for node, _ in found])
            if any(index for _, index in found):
                graph.indices[node_of[row]] = tuple(index for _, index in found)
        counts = list(map(sub, islice(offsets, 1, None), offsets))
        if is_whole:
            graph.operands = NodeOperands(nodes, counts)
            return
        if list(graph.rows) == sorted(graph.rows):
            is_kept = bytearray(b"\1") * len(nodes)
            for row in compress(range(len(counts)), map(gt, repeat(0), node_of)):
                is_kept[offsets[row] : offsets[row + 1]] = bytes(counts[row])
            operands = array("i", list(compress(nodes, is_kept)))
        else:  # computations inside others
            edges = (range(offsets[row], offsets[row + 1]) for row in graph.rows)
            operands = array("i", map(nodes.__getitem__, chain.from_iterable(edges)))
        graph.operands = NodeOperands(operands, map(counts.__getitem__, graph.rows))

    def _behind(self, row: int, index: ShapeIndex) -> tuple[int, ShapeIndex]:
        """Return the node behind an element of a row, and the tuple index into its result."""
        if self._node_of[row] != _VIEW:
            return self._node_of[row], index
        value = self._flow.unpacked(row)
        return self._node_of[value.row], (*value.element, *index)

    def _find_views_and_roots(self) -> None:
        """Add all views, and the result of each computation."""
        links = self._module.links
        self.graph.views = [View(row, *self._behind(row, ())) for row in self._view_rows]
        self.graph.roots = [self._behind(root, ()) for root in links.roots]

    def _number_edges(self) -> None:
        """Number the edges of each computation: operands and result, from its first node on."""
        graph, numbers = self.graph, self._labels.edges
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
        # the number of nodes, which labels show, is that of the counts: places begin after these
        keys = map(add, _slices(counts, graph.nodes), _slices(places, edges))
        for position, (key, (root, index)) in enumerate(zip(keys, graph.roots, strict=True)):
            root = root - firsts[position] if root >= 0 else NOTHING
            edge_key = _short(key), tuple(indices.get(position, ())), root, index
            graph.edges.append(numbers.setdefault(edge_key, len(numbers)))

    def _find_callees(self) -> None:
        """Find the computations that each node calls."""
        calls, found = self._module.links.calls, dict[int, list[tuple[str, int]]]()
        for row, place, role in zip(calls.rows, calls.places, calls.roles, strict=True):
            node = self._node_of[row]
            if node >= 0 and place != NOTHING:
                found.setdefault(node, []).append((_ROLES.get(role, role), place))
        self.graph.callees = {node: tuple(called) for node, called in found.items()}
        self.graph.callers = sorted(self.graph.callees)

    def _find_controls(self) -> None:
        """Find the control predecessors of each node; for a view the node behind it."""
        for row, before in self._module.links.control_predecessors.items():
            node = self._node_of[row]
            if node >= 0:
                nodes = dict.fromkeys(self._behind(other, ())[0] for other in before)
                self.graph.controls[node] = tuple(other for other in nodes if other >= 0)

    # ---- labels --------------------------------------------------------------------------------

    def _label_nodes(self) -> None:
        graph, module, labels, node_of = self.graph, self._module, self._labels, self._node_of
        opcodes, texts = module.opcodes, module.shape_texts
        keys, configs = attribute_columns(labels, module, frozenset(self._view_rows))
        shapes = [labels.shape(text, self._reader) for text in texts.different]
        details = self._details()
        columns = opcodes.numbers, texts.numbers, keys, configs, details
        number = cache(
            lambda opcode, shape, *others: labels.label(
                LabelParts(opcodes.different[opcode], shapes[shape], *others)
            )
        )
        found = list(map(number, *columns))
        graph.label = array("i", list(map(found.__getitem__, graph.rows)))
        special = {row for row, key in enumerate(keys) if key < 0}.union(module.columns.overlays)
        for row in sorted(row for row in special if node_of[row] >= 0):  # read alone
            instruction = graph.instruction(node_of[row])
            shape = labels.shape(instruction.shape_text, self._reader)
            lists = labels.attribute_list(instruction.attribute_list, self._reader)
            parts = LabelParts(instruction.opcode, shape, *lists, self._detail(instruction))
            graph.label[node_of[row]] = labels.label(parts)

    def _details(self) -> Sequence[Hashable]:
        """Return the number or literal of each parameter or constant; keep the parameters."""
        opcodes, columns, node_of = self._module.opcodes, self._module.columns, self._node_of
        found: list[Hashable] = [None] * len(columns)
        known: dict[tuple[str, str], Hashable] = {}
        for row in opcodes.places_of({"parameter", "constant"}):
            key = opcodes[row], columns.text(row, OPERANDS, OPERANDS_END)
            if key not in known:
                known[key] = self._detail(HloInstruction(self._module.entry, row))
            found[row] = known[key]
        nodes = map(node_of.__getitem__, opcodes.places_of({"parameter"}))
        self.graph.parameters = sorted(node for node in nodes if node >= 0)
        return found

    def _detail(self, instruction: HloInstruction) -> Hashable:
        if instruction.opcode == "constant":
            return self._labels.literal(instruction.operand_text)
        return instruction.parameter_number if instruction.opcode == "parameter" else None

    def _label_computations(self) -> None:
        """Add the attributes of a computation to the label of its result.

        Not its thread: the async operation that calls it prints that too.
        """
        graph, reader = self.graph, self._reader
        for position, computation in enumerate(self._module.computations):
            root, text = graph.roots[position][0], computation.attributes_text
            pairs = reader.attributes(text) if text and root >= 0 else ()
            more = [pair for pair in pairs if pair[0] != "execution_thread"]
            if more:
                graph.label[root] = self._labels.with_more(graph.label[root], more, reader)


def number_bodies(graph: ProgramGraph) -> None:
    """Number the computations of a graph, equal ones alike; callees do not count."""
    bodies = graph.labels.bodies
    keys = zip(map(_short, _slices(graph.label, graph.nodes)), graph.edges, strict=True)
    graph.bodies = array("i", [bodies.setdefault(key, len(bodies)) for key in keys])


def _slices(numbers: array[int], places: Iterable[range]) -> Iterator[bytes]:
    """Yield ranges of numbers as bytes, equal for equal numbers."""
    data, size = numbers.tobytes(), numbers.itemsize
    for part in places:
        yield data[part.start * size : part.stop * size]


def _short(data: bytes) -> bytes:
    """Return bytes that are equal for equal data, and short."""
    return data if len(data) < _LARGE else blake2b(data, digest_size=16).digest()


# ---- two graphs --------------------------------------------------------------------------------


def graph_pair(base: HloModule, head: HloModule) -> tuple[ProgramGraph, ProgramGraph]:
    """Return both graphs, without layouts and literals that only one text prints."""
    common = Labels(counted_between(base, head))
    return program_graph(base, common), program_graph(head, common)
