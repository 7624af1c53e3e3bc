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
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, compress, islice, repeat
from operator import sub
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from hlo_lens.hlo.columns import END, OPERANDS_END, STRIDE
from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from hlo_lens.hlo.columns import InstructionColumns
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.questions.diff.matching.labels import Labels
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
