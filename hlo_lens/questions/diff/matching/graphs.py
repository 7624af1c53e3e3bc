"""Program graph: a module as nodes, edges and labels, all numbers, for matching two of them.

A node is an instruction. Instructions that only some texts print for the same program are no nodes:
a get-tuple-element is a *view*, an edge to its operand with an index (HloPrintOptions, compact
get-tuple-element); a computation that an async-start wraps is part of it if the other text prints
it so (async sugar; hlo_instruction.cc, PrintExtraAttributes).
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import (
    Sequence,
)
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate, chain, compress, islice, repeat
from operator import add, eq, gt, sub
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, overload

from hlo_lens.hlo.columns import END, NOTHING, OPERANDS, OPERANDS_END, STRIDE
from hlo_lens.hlo.module import HloInstruction
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.value_flow import value_flow
from hlo_lens.questions.diff.matching.meanings import (
    AttributeColumns,
    AttributeText,
    LabelParts,
    Labels,
    axis_numbers,
)

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Container,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
    )

    from hlo_lens.hlo.columns import InstructionColumns
    from hlo_lens.hlo.links import Call
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.shape import ShapeIndex


_COLUMNS = ("rows", "owner", "label", "edges", "bodies")
"""Fields with a number of each node or computation."""

_SIDE_EFFECT = "custom_call_has_side_effect"
_KEY = 'op_name="'
_OP_NAME = re.compile(r'op_name="([^"\\]*+(?:\\.[^"\\]*+)*+)"')


class View(NamedTuple):
    """A get-tuple-element that is not a node.

    Attributes:
        row: Its row in the module's columns.
        node: Node whose result it takes an element of; -1 if undefined.
        element: Tuple index of the element.
    """

    row: int
    node: int
    element: ShapeIndex


class NodeOperands(Sequence["tuple[int, ...]"]):
    """Operands of each node; -1 for an undefined one. Tuples of them are made when asked for.

    Args:
        nodes: The operands of all nodes.
        counts: How many of these each node has.

    Attributes:
        nodes: The same.
        offsets: Offset of the first operand of each node, and the end of the last.
    """

    __slots__ = ("nodes", "offsets")

    def __init__(self, nodes: array[int], counts: Iterable[int]) -> None:
        self.nodes = nodes
        self.offsets = array("I", accumulate(counts, initial=0))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        offsets = self.offsets
        if not isinstance(index, slice):
            return tuple(self.nodes[offsets[index] : offsets[index + 1]])
        first = offsets[index.start]
        ends = list(map(sub, offsets[index.start : index.stop + 1], repeat(first)))
        nodes = tuple(self.nodes[first : first + ends[-1]])
        return list(map(nodes.__getitem__, map(slice, ends, islice(ends, 1, None))))

    def users(self, wanted: Container[int], within: range) -> list[int]:
        """Return which nodes of a range have an operand among some, ascending."""
        offsets = self.offsets
        edges = range(offsets[within.start], offsets[within.stop])
        taken = map(wanted.__contains__, self.nodes[edges.start : edges.stop])
        found = (bisect_right(offsets, edge) - 1 for edge in compress(edges, taken))
        return list(dict.fromkeys(found))


@dataclass(slots=True, eq=False, kw_only=True)
class ProgramGraph:
    """A module as numbers. Nodes are in text order, computation by computation.

    Attributes:
        module: The module.
        labels: Meanings of the labels.
        rows: Row of each node.
        owner: Position of the computation of each node.
        label: Label of each node.
        operands: Operands of each node; -1 for an undefined one.
        indices: Tuple index of each operand, for nodes with any.
        callees: Role and position of the computations that a node calls.
        controls: Control predecessors of a node.
        channels: Channel ids as written.
        parameters: Nodes that are parameters, ascending.
        nodes: Nodes of each computation.
        edges: Number of each computation's operands and result by position, the same in both
            modules.
        bodies: Number of each computation's own text without names: labels, operands and result
            in order, the same in both modules. Callees do not count.
        roots: Result of each computation: a node, -1 for none, and the tuple index.
        views: All views.
        wrapped: Rows of computations that an async-start wraps.
        entry: Position of the entry computation; -1 for a module without computations.
        hints: Numbers of operation paths, the same in both modules; 0 for none.
    """

    module: HloModule
    labels: Labels
    rows: list[int] = field(default_factory=list)
    owner: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    operands: NodeOperands = field(default_factory=lambda: NodeOperands(array("i"), ()))
    indices: dict[int, tuple[ShapeIndex, ...]] = field(default_factory=dict)
    callees: dict[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    controls: dict[int, tuple[int, ...]] = field(default_factory=dict)
    channels: dict[int, str] = field(default_factory=dict)
    parameters: list[int] = field(default_factory=list)
    nodes: list[range] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    bodies: list[int] = field(default_factory=list)
    roots: list[tuple[int, ShapeIndex]] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    wrapped: list[int] = field(default_factory=list)
    entry: int = -1
    hints: dict[str, int] = field(default_factory=dict)
    _known_hints: dict[int, int] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _orders: dict[int, Sequence[int]] = field(default_factory=dict)
    _calls: dict[int, list[int]] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getstate__(self) -> dict[str, object]:
        """Return the pickled state, with numbers in arrays, which take a tenth of the time."""
        state: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        columns = {name: array("i", state[name]) for name in _COLUMNS}
        return {**state, **columns, "nodes": array("i", [nodes.stop for nodes in self.nodes])}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, list(value) if name in _COLUMNS else value)
        self.nodes = list(map(range, chain((0,), state["nodes"]), state["nodes"]))

    def opcode(self, node: int) -> str:
        """Return the opcode of a node, with async sugar if the graph has it."""
        return self.labels.parts[self.label[node]].opcode

    def instruction(self, node: int) -> HloInstruction:
        """Return the instruction of a node."""
        return HloInstruction(self.module.computations[self.owner[node]], self.rows[node])

    def op_name(self, node: int) -> str:
        """Return the operation path of a node; empty if not printed."""
        hint = self.hint(node)
        return self._names[hint] if hint else ""

    def hint(self, node: int) -> int:
        """Return the number of a node's operation path; 0 for none."""
        known = self._known_hints.get(node)
        if known is None:
            path = operation_path(self.module.columns, self.rows[node])
            known = self.hints.setdefault(path, len(self.hints) + 1) if path else 0
            self._known_hints[node] = known
            if path:
                self._names[known] = path
        return known

    def calls_of(self, computation: int) -> Sequence[int]:
        """Return the nodes of a computation that call others, in order."""
        if self._calls is None:
            self._calls = {}
            for node in sorted(self.callees):
                self._calls.setdefault(self.owner[node], []).append(node)
        return self._calls.get(computation, ())

    def parameters_of(self, computation: int) -> Sequence[int]:
        """Return the nodes of a computation that are its parameters, in order."""
        nodes = self.nodes[computation] if computation >= 0 else range(0)
        start = bisect_left(self.parameters, nodes.start)
        return self.parameters[start : bisect_left(self.parameters, nodes.stop)]

    def order(self, computation: int) -> Sequence[int]:
        """Return the nodes of a computation, operands before users; cycles are cut at any edge."""
        known = self._orders.get(computation)
        if known is None:
            known = nodes = self.nodes[computation]
            operands = self.operands[nodes.start : nodes.stop]
            if not _are_before(operands, nodes):
                taken = dict(zip(nodes, operands, strict=True))
                known = _post_order(nodes, lambda n: [o for o in taken.get(n, ()) if o >= 0])
            self._orders[computation] = known
        return known

    def callees_first(self) -> list[int]:
        """Return the computations, each after its callees; cycles are cut at any edge."""
        calls: list[list[int]] = [[] for _ in self.nodes]
        for node, called in self.callees.items():
            calls[self.owner[node]] += [computation for _, computation in called]
        return _post_order(range(len(self.nodes)), calls.__getitem__)

    def reachable(self) -> set[int]:
        """Return the computations that the entry reaches, itself included."""
        calls: dict[int, list[int]] = {}
        for node, called in self.callees.items():
            calls.setdefault(self.owner[node], []).extend(c for _, c in called)
        found = {self.entry}
        waiting = [self.entry]
        while waiting:
            for computation in calls.get(waiting.pop(), ()):
                if computation not in found:
                    found.add(computation)
                    waiting.append(computation)
        return found


def operation_path(columns: InstructionColumns, row: int) -> str:
    """Return the operation path of a row as written; empty if not printed."""
    text, base = columns.source.text, row * STRIDE
    start, end = columns.spans[base + OPERANDS_END] + 1, columns.spans[base + END]
    start = text.find(_KEY, start, end)
    if start < 0:
        return ""
    close = text.find('"', start + len(_KEY), end)
    path = text[start + len(_KEY) : close]
    if close >= 0 and "\\" not in path:
        return path
    match = _OP_NAME.search(text, start, end)
    return match[1] if match else ""


def _are_before(operands: Sequence[tuple[int, ...]], nodes: range) -> bool:
    """Return whether the operands of each node come before it."""
    for node, taken in zip(nodes, operands, strict=True):
        for operand in taken:
            if operand >= node:
                return False
    return True


def _post_order(starts: Sequence[int], edges: Callable[[int], Sequence[int]]) -> list[int]:
    """Return the numbers reached from some starts, each after the targets of its edges."""
    done: list[int] = []
    opened: set[int] = set()
    for start in starts:
        if start in opened:
            continue
        opened.add(start)
        stack = [(start, iter(edges(start)))]
        while stack:
            step = next((to for to in stack[-1][1] if to not in opened), None)
            if step is None:
                done.append(stack.pop()[0])
            else:
                opened.add(step)
                stack.append((step, iter(edges(step))))
    return done


def operands_of(graph: ProgramGraph, node: int) -> Iterator[tuple[int, ShapeIndex]]:
    """Yield the operands of a node, each with its tuple index."""
    operands = graph.operands[node]
    return zip(operands, graph.indices.get(node) or ((),) * len(operands), strict=True)


def parameter_numbers(graph: ProgramGraph, computation: int) -> dict[int, int]:
    """Return the parameters of a computation by their number."""
    parts, labels = graph.labels.parts, graph.label
    found: dict[int, int] = {}
    for node in graph.parameters_of(computation):
        number = parts[labels[node]].detail
        if isinstance(number, int):
            found[number] = node
    return found


def impure_nodes(graph: ProgramGraph) -> set[int]:
    """Return the nodes whose result may differ from that of an equal node.

    They are impure themselves (random numbers, input, side effects), call impure computations, or
    compute from such nodes.
    """
    labels = {label for label in range(len(graph.labels.parts)) if _is_impure(graph.labels, label)}
    if labels.isdisjoint(graph.label):
        return set()
    found: set[int] = set()
    computations: set[int] = set()
    for computation in graph.callees_first():
        for node in graph.order(computation):
            if (
                graph.label[node] in labels
                or not found.isdisjoint(graph.operands[node])
                or any(called in computations for _, called in graph.callees.get(node, ()))
            ):
                found.add(node)
                computations.add(computation)
    return found


def _is_impure(labels: Labels, label: int) -> bool:
    parts = labels.parts[label]
    if opcode_traits(parts.opcode).is_impure:
        return True
    attributes = labels.attributes[parts.attributes]
    return _SIDE_EFFECT in attributes and attributes[_SIDE_EFFECT][1] == "true"


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


_ROLES = dict.fromkeys(("to_apply", "calls", "called_computations"), "region")
"""Attributes that name an applied computation; print styles exchange them."""

_THREAD = "execution_thread"
_ASYNC_THREAD = "async_execution_thread"
_MAIN_THREAD = '"main"'


def program_graph(
    module: HloModule, labels: Labels, hints: dict[str, int], *, with_sugar: bool = False
) -> ProgramGraph:
    """Return the graph of a module.

    Args:
        module: The module.
        labels: Labels of both modules.
        hints: Operation paths of both modules.
        with_sugar: Whether a computation that an async-start wraps is part of it.
    """
    return _Builder(module, labels, hints, with_sugar=with_sugar).graph


class _LabelTable(dict[tuple[int, int, int, int, "Hashable"], int]):
    """Label of each distinct combination of opcode, shape, attributes, config and detail."""

    def __init__(self, labels: Labels, opcodes: Sequence[str], shapes: Sequence[int]) -> None:
        super().__init__()
        self._labels = labels
        self._opcodes = opcodes
        self._shapes = shapes

    def __missing__(self, key: tuple[int, int, int, int, Hashable]) -> int:
        opcode, shape, attributes, config, detail = key
        parts = LabelParts(self._opcodes[opcode], self._shapes[shape], attributes, config, detail)
        number = self[key] = self._labels.label(parts)
        return number


class _Builder:
    """Builder of one graph."""

    def __init__(
        self, module: HloModule, labels: Labels, hints: dict[str, int], *, with_sugar: bool
    ) -> None:
        self.graph = ProgramGraph(module=module, labels=labels, hints=hints)
        self._module = module
        self._labels = labels
        self._reader = module.reader
        labels.axes[id(module.reader)] = axis_numbers(module)
        self._wrapped: dict[int, tuple[HloInstruction, AttributeText]] = {}
        self._inner: dict[int, str] = {}
        if with_sugar:
            self._wrapped = dict(self._find_wrapped())
        self._operands = GraphOperands(self.graph, self._wrapped.keys())
        views = self._operands.view_rows
        self._describe(AttributeColumns(labels, module, views))
        self._find_callees()
        if labels.with_controls:
            self._find_controls()
        self._describe_computations()
        edges = labels.edges
        self.graph.edges = [edges.setdefault(link, len(edges)) for link in self._operands.links]
        number_bodies(self.graph)
        if module.has_entry:
            self.graph.entry = module.entry.place

    # ---- labels --------------------------------------------------------------------------------

    def _describe(self, attributes: AttributeColumns) -> None:
        """Set the label of each node, and keep its channel."""
        graph, module = self.graph, self._module
        size = len(module.columns)
        is_whole = not self._operands.has_other_nodes
        node_of = self._operands.node_of
        details = self._details()
        configs: Sequence[int] | Iterator[int] = repeat(-1)
        if attributes.configs:
            configs = [-1] * size
            for row, config in attributes.configs.items():
                configs[row] = config
        opcodes, texts = module.opcodes, module.shape_texts
        shapes = [self._labels.shape(text, self._reader) for text in texts.different]
        known = _LabelTable(self._labels, opcodes.different, shapes)
        parts = zip(opcodes.numbers, texts.numbers, attributes.keys, configs, details, strict=False)
        found = list(map(known.__getitem__, parts))
        graph.label = found if is_whole else list(map(found.__getitem__, graph.rows))
        special = self._special(attributes.irregular)
        for row in sorted({*special, *attributes.channels}):
            node = node_of[row]
            if node >= 0 and row in special:
                graph.label[node] = self._label(node)
            elif node >= 0:
                graph.channels[node] = attributes.channels[row]

    def _details(self) -> list[Hashable]:
        """Return the number or literal of each parameter or constant; keep the parameters."""
        module = self._module
        text, spans = module.columns.source.text, module.columns.spans
        found: list[Hashable] = [None] * len(module.columns)
        numbers: dict[str, int | None] = {}
        literals: dict[str, Hashable] = {}
        parameters = []
        for row in module.opcodes.places_of({"parameter", "constant"}):
            base = row * STRIDE
            inside = text[spans[base + OPERANDS] : spans[base + OPERANDS_END]]
            if module.opcodes[row] == "constant":
                if inside not in literals:
                    literals[inside] = self._labels.literal(inside)
                found[row] = literals[inside]
                continue
            parameters.append(self._operands.node_of[row])
            if inside not in numbers:
                numbers[inside] = HloInstruction(module.entry, row).parameter_number
            found[row] = numbers[inside]
        self.graph.parameters = sorted(node for node in parameters if node >= 0)
        return found

    def _special(self, irregular: Sequence[int]) -> set[int]:
        """Return rows that must be read one by one."""
        special = {*irregular, *self._module.columns.overlays}
        if self._wrapped:
            opcodes = self._module.opcodes
            ends = {"async-update", "async-done"}
            special.update(opcodes.places_of(ends.union(filter(_starts, opcodes.different))))
        return special

    def _label(self, node: int) -> int:
        """Return the label of a node that is read alone, and keep its channel."""
        graph, columns, row = self.graph, self._module.columns, self.graph.rows[node]
        instruction = graph.instruction(node)
        opcode = instruction.opcode
        overlay = columns.overlays.get(row)
        if overlay is not None and overlay.attributes is not None:
            attributes, config = self._labels.attribute_list(overlay.attributes, self._reader)
        else:
            text = columns.attributes_text(row)
            attributes, config = self._labels.attribute_text(text, self._reader)
        if self._wrapped:
            opcode, attributes = self._sugared(node, opcode, attributes)
        detail: object = None
        if opcode == "constant":
            detail = self._labels.literal(instruction.operand_text)
        elif opcode == "parameter":
            detail = instruction.parameter_number
        shape = self._labels.shape(instruction.shape_text, self._reader)
        if attributes.channel is not None:
            graph.channels[node] = attributes.channel
        return self._labels.label(LabelParts(opcode, shape, attributes.key, config, detail))

    # ---- edges ---------------------------------------------------------------------------------

    def _find_callees(self) -> None:
        """Find the computations that each node calls."""
        if not self._wrapped:
            self._take_calls()
            return
        for row in dict.fromkeys(self._module.links.calls.rows):
            node = self._operands.node_of[row]
            found = self._calls_of(row) if node >= 0 else ()
            if found:
                callees = tuple((_ROLES.get(call.role, call.role), call.place) for call in found)
                self.graph.callees[node] = callees

    def _take_calls(self) -> None:
        """Find the same where no computation is part of an async-start."""
        calls, node_of = self._module.links.calls, self._operands.node_of
        found: dict[int, list[tuple[str, int]]] = {}
        for row, place, role in zip(calls.rows, calls.places, calls.roles, strict=True):
            node = node_of[row]
            if node >= 0 and place != NOTHING:
                found.setdefault(node, []).append((_ROLES.get(role, role), place))
        self.graph.callees.update((node, tuple(called)) for node, called in found.items())

    def _calls_of(self, row: int) -> list[Call]:
        """Return the calls of a row; in sugar those of the wrapped operation."""
        calls, opcode = self._module.links.calls, self._module.opcodes[row]
        found = [call for call in calls.of_row(row) if call.place != NOTHING]
        wrapped = [c.place for c in found if c.place in self._wrapped and _starts(opcode)]
        if not wrapped:
            return found
        if opcode != "async-start":
            return [call for call in found if call.place != wrapped[0]]
        root, _ = self._wrapped[wrapped[0]]
        return [call for call in calls.of_row(root.row) if call.place != NOTHING]

    def _find_controls(self) -> None:
        """Find the control predecessors of each node; for a view the node behind it."""
        operands = self._operands
        for row, before in self._module.links.control_predecessors.items():
            node = operands.node_of[row]
            if node >= 0:
                nodes = [operands.behind(other, ())[0] for other in before]
                found = dict.fromkeys(other for other in nodes if other >= 0)
                self.graph.controls[node] = tuple(found)

    def _describe_computations(self) -> None:
        """Add the attributes of a computation to the label of its result.

        Without its thread, if the caller runs in the same one or has named it.
        """
        graph, reader = self.graph, self._reader
        pairs = {
            position: reader.attributes(computation.attributes_text)
            for position, computation in enumerate(self._module.computations)
            if computation.attributes_text
        }
        callers: dict[int, int] = {}
        for node, called in graph.callees.items() if pairs else ():
            for _, computation in called:
                callers.setdefault(computation, node)
        for position, own in pairs.items():
            thread = self._thread_of(callers.get(position), pairs)
            new = [pair for pair in own if pair != (_THREAD, thread)]
            root = graph.roots[position][0]
            if new and root >= 0:
                graph.label[root] = self._labels.with_more(graph.label[root], new, reader)

    def _thread_of(
        self, caller: int | None, pairs: Mapping[int, tuple[tuple[str, str], ...]]
    ) -> str:
        """Return the thread in which a caller runs its computations, as written."""
        if caller is None:
            return _MAIN_THREAD
        attributes = self._labels.parts[self.graph.label[caller]].attributes
        says = self._labels.attributes[attributes].get(_ASYNC_THREAD)
        if says is not None:
            return says[1]
        return dict(pairs.get(self.graph.owner[caller], ())).get(_THREAD, _MAIN_THREAD)

    # ---- async sugar ---------------------------------------------------------------------------

    def _sugared(
        self, node: int, opcode: str, attributes: AttributeText
    ) -> tuple[str, AttributeText]:
        """Return opcode and attributes of an async operation as in sugar."""
        calls = self._module.links.calls.of_row(self.graph.rows[node]) if _starts(opcode) else ()
        for call in calls:
            if call.place in self._wrapped:
                root, inner = self._wrapped[call.place]
                self._inner[node] = root.opcode
                if opcode != "async-start":
                    return opcode, attributes
                return f"{root.opcode}-start", self._labels.merged(attributes, inner)
        operands = self.graph.operands[node]
        if opcode in ("async-update", "async-done") and operands and operands[0] in self._inner:
            name = self._inner[node] = self._inner[operands[0]]
            return f"{name}{opcode.removeprefix('async')}", attributes
        return opcode, attributes

    def _find_wrapped(self) -> Iterator[tuple[int, tuple[HloInstruction, AttributeText]]]:
        """Yield the computations of a single operation that an async-start wraps."""
        module = self._module
        calls = module.links.calls
        for row, position in zip(calls.rows, calls.places, strict=True):
            opcode = module.opcodes[row]
            if position == NOTHING or not _starts(opcode):
                continue
            root = module.computations[position].root
            if root is not None and _is_wrapped(root, opcode):
                attributes, _ = self._labels.attribute_list(root.attribute_list, self._reader)
                yield position, (root, attributes)


def number_bodies(graph: ProgramGraph) -> None:
    """Number the computations of a graph, equal ones alike; callees do not count."""
    bodies = graph.labels.bodies
    labels = slices(array("i", graph.label), graph.nodes)
    keys = zip(map(digest, labels), graph.edges, strict=True)
    graph.bodies = [bodies.setdefault(key, len(bodies)) for key in keys]


def _starts(opcode: str) -> bool:
    """Return whether an opcode is an async-start, or sugar for one."""
    traits = opcode_traits(opcode)
    return traits.phase == "start" and (traits.base == "async" or traits.is_sugar)


def _is_wrapped(root: HloInstruction, opcode: str) -> bool:
    """Return whether a computation is one operation on its parameters, in their order.

    Source: HloComputation::CanExpandIntoSingleInstruction.
    """
    if opcode not in ("async-start", f"{root.opcode}-start"):
        return False
    numbers = {}
    for instruction in root.computation.instructions:
        if instruction.opcode == "parameter":
            numbers[instruction.name] = instruction.parameter_number
        elif not instruction.is_root:
            return False
    found = [numbers.get(name) for name in root.operand_names]
    return found == list(range(len(numbers)))
