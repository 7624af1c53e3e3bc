"""A module as numbers: nodes, edges and labels, for matching two of them.

A node is an instruction. Left out are what some texts print and others do not, although the program
is the same: a get-tuple-element that is no root is a *view*, an edge to its operand with an index
(HloPrintOptions, compact get-tuple-element); a computation that an async-start merely wraps is part
of it, where the other text prints it so (async sugar; hlo_instruction.cc, PrintExtraAttributes).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.analysis.diff.labels import LabelParts
from hlo_lens.model.hlo import (
    CALLING_ATTRIBUTES,
    END,
    NAME,
    NAME_END,
    OPCODE,
    OPCODE_END,
    OPERANDS,
    OPERANDS_END,
    SHAPE,
    SHAPE_END,
    STRIDE,
    HloInstruction,
)
from hlo_lens.model.hlo_query import KNOWN_OPCODES, split_phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.diff.labels import AttributeText, Labels
    from hlo_lens.model.hlo import HloComputation, HloModule, HloOperand
    from hlo_lens.model.shape import ShapeIndex

_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*+)"')
_GTE = "get-tuple-element"
_MOST_HOPS = 1000


class View(NamedTuple):
    """A get-tuple-element that is not a node.

    Attributes:
        row: Its row in the module's columns.
        node: The node whose result it takes an element of; -1 if the text has none.
        element: Which element.
    """

    row: int
    node: int
    element: ShapeIndex


@dataclass(slots=True, eq=False, kw_only=True)
class ProgramGraph:
    """A module as numbers. Nodes are numbered in text order, computation by computation.

    Attributes:
        module: The module.
        labels: What the labels mean.
        rows: Row of each node.
        owner: Position of the computation of each node.
        label: Label of each node.
        operands: Nodes that are its operands; -1 for one that the text does not define.
        indices: For nodes that take elements of tuples: the index of each operand.
        callees: Positions of the computations that a node calls, with the role of each.
        controls: Nodes that must run before it.
        channels: Channel ids as written.
        nodes: Nodes of each computation.
        roots: Root of each computation; -1 for none.
        views: All views.
        wrapped: Rows of computations that an async-start merely wraps.
        entry: Position of the entry computation; -1 for a module without computations.
        hints: Numbers of operation paths, the same in both modules; 0 for none.
    """

    module: HloModule
    labels: Labels
    rows: list[int] = field(default_factory=list)
    owner: list[int] = field(default_factory=list)
    label: list[int] = field(default_factory=list)
    operands: list[tuple[int, ...]] = field(default_factory=list)
    indices: dict[int, tuple[ShapeIndex, ...]] = field(default_factory=dict)
    callees: dict[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    controls: dict[int, tuple[int, ...]] = field(default_factory=dict)
    channels: dict[int, str] = field(default_factory=dict)
    nodes: list[range] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    wrapped: list[int] = field(default_factory=list)
    entry: int = -1
    hints: dict[str, int] = field(default_factory=dict)
    _known_hints: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def opcode(self, node: int) -> str:
        """Return the opcode of a node, with async sugar where the graph is made so."""
        return self.labels.parts[self.label[node]].opcode

    def instruction(self, node: int) -> HloInstruction:
        """Return the instruction of a node."""
        return HloInstruction(self.module.computations[self.owner[node]], self.rows[node])

    def op_name(self, node: int) -> str:
        """Return the operation path of a node; empty where the text has none."""
        match = _OP_NAME.search(self.module.columns.attributes_text(self.rows[node]))
        return match[1] if match else ""

    def hint(self, node: int) -> int:
        """Return the number of a node's operation path; 0 for none."""
        known = self._known_hints.get(node)
        if known is None:
            name = self.op_name(node)
            known = self.hints.setdefault(name, len(self.hints) + 1) if name else 0
            self._known_hints[node] = known
        return known

    def users(self) -> list[list[int]]:
        """Return for each node the nodes that take it as an operand, each once, in order."""
        found: list[list[int]] = [[] for _ in self.rows]
        for node, operands in enumerate(self.operands):
            for operand in operands if len(operands) < 2 else dict.fromkeys(operands):
                if operand >= 0:
                    found[operand].append(node)
        return found

    def order(self, computation: int) -> Sequence[int]:
        """Return the nodes of a computation, operands before users; cycles are cut anywhere."""
        nodes = self.nodes[computation]
        operands = self.operands
        if all(not operands[n] or max(operands[n]) < n for n in nodes):
            return nodes
        return _post_order(nodes, lambda n: [o for o in operands[n] if o >= 0])

    def callees_first(self) -> list[int]:
        """Return the computations, each after those that it calls; cycles are cut anywhere."""
        calls: list[list[int]] = [[] for _ in self.nodes]
        for node, called in self.callees.items():
            calls[self.owner[node]] += [computation for _, computation in called]
        return _post_order(range(len(self.nodes)), calls.__getitem__)

    def reachable(self) -> set[int]:
        """Return the computations that the entry runs, itself among them."""
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


def _post_order(starts: Sequence[int], edges: Callable[[int], Sequence[int]]) -> list[int]:
    """Return what is reached from some starts, each after what its edges lead to."""
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


# ---- how a text is printed ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What a text prints of a program.

    Attributes:
        has_sugar: Whether an async operation is printed as ``X-start``.
        has_wrapped: Whether one is printed as an async-start that calls a computation.
        has_layouts: Whether any shape has a layout.
        has_shapes: Whether any instruction has a shape.
        has_dots: Whether a long literal is printed as dots.
    """

    has_sugar: bool
    has_wrapped: bool
    has_layouts: bool
    has_shapes: bool
    has_dots: bool


def style_of(module: HloModule) -> Style:
    """Return what the text of a module prints."""
    text, spans = module.columns.source.text, module.columns.spans
    opcodes = set(
        map(text.__getitem__, map(slice, spans[OPCODE::STRIDE], spans[OPCODE_END::STRIDE]))
    )
    shapes = set(map(text.__getitem__, map(slice, spans[SHAPE::STRIDE], spans[SHAPE_END::STRIDE])))
    start, end = (spans[0], spans[-1]) if spans else (0, 0)
    return Style(
        has_sugar=any(o not in KNOWN_OPCODES and split_phase(o)[1] for o in opcodes),
        has_wrapped="async-start" in opcodes,
        has_layouts=any("]{" in shape for shape in shapes),
        has_shapes=any(shapes),
        has_dots=text.find("constant({...})", start, end) >= 0,
    )


# ---- making one --------------------------------------------------------------------------------


def program_graph(
    module: HloModule, labels: Labels, hints: dict[str, int], *, with_sugar: bool = False
) -> ProgramGraph:
    """Return the graph of a module.

    Args:
        module: The module.
        labels: Labels of both modules.
        hints: Operation paths of both modules.
        with_sugar: Whether what an async-start merely wraps is made part of it.
    """
    return _Builder(module, labels, hints, with_sugar=with_sugar).graph


class _Builder:
    """Makes one graph."""

    def __init__(
        self, module: HloModule, labels: Labels, hints: dict[str, int], *, with_sugar: bool
    ) -> None:
        self.graph = ProgramGraph(module=module, labels=labels, hints=hints)
        self._module = module
        self._labels = labels
        self._reader = module.reader
        self._positions = {c.name: k for k, c in enumerate(module.computations)}
        self._wrapped: dict[int, tuple[str, AttributeText]] = {}
        self._inner: dict[int, str] = {}
        self._plain: dict[tuple[str, str, str, str], int] = {}
        if with_sugar:
            self._wrapped = dict(self._find_wrapped())
        for position, computation in enumerate(module.computations):
            self._add(position, computation)
        if module.computations:
            entry = module.entry
            self.graph.entry = next(k for k, c in enumerate(module.computations) if c is entry)

    def _find_wrapped(self) -> Iterator[tuple[int, tuple[str, AttributeText]]]:
        """Yield the computations of one operation on their parameters that an async-start calls."""
        for computation in self._module.computations:
            for instruction in computation.instructions:
                if instruction.opcode != "async-start":
                    continue
                for name in instruction.called_computations:
                    position = self._positions.get(name, -1)
                    root = self._module.computations[position].root if position >= 0 else None
                    if root is not None and _is_wrapped(root):
                        attributes, _ = self._labels.attribute_list(
                            root.attribute_list, self._reader
                        )
                        yield position, (root.opcode, attributes)

    def _add(self, position: int, computation: HloComputation) -> None:
        graph = self.graph
        first = len(graph.rows)
        if position in self._wrapped:
            graph.wrapped.extend(computation.rows)
            graph.nodes.append(range(first, first))
            graph.roots.append(-1)
            return
        places, views = self._places(computation)
        columns = self._module.columns
        text, spans = columns.source.text, columns.spans
        rows, operands, labels = graph.rows, graph.operands, graph.label
        plain = self._plain
        is_special = bool(columns.overlays or self._wrapped)
        for row in computation.rows:
            if row in views:
                continue
            base = row * STRIDE
            inside = text[spans[base + OPERANDS] : spans[base + OPERANDS_END]]
            opcode = text[spans[base + OPCODE] : spans[base + OPCODE_END]]
            node = len(rows)
            rows.append(row)
            if opcode in ("constant", "parameter"):
                operands.append(())
            else:
                operands.append(self._operands(computation, row, inside, places))
                inside = ""
            attributes = text[spans[base + OPERANDS_END] + 1 : spans[base + END]]
            shape = text[spans[base + SHAPE] : spans[base + SHAPE_END]]
            head = None if is_special else _plain_head(attributes)
            key = (opcode, shape, inside, head or "")
            label = plain.get(key, -1) if head is not None else -1
            if label < 0:
                label = self._label(node, computation, opcode, inside, places)
                if head is not None and self._is_plain(node):
                    plain[key] = label
            labels.append(label)
        graph.nodes.append(range(first, len(rows)))
        graph.owner.extend([position] * (len(rows) - first))
        graph.roots.append(places[computation.root_row][0] if computation.rows else -1)
        for view in views:
            graph.views.append(View(view, *places[view]))

    def _is_plain(self, node: int) -> bool:
        """Return whether a node's attributes name nothing."""
        graph = self.graph
        return not (node in graph.callees or node in graph.controls or node in graph.channels)

    def _label(
        self,
        node: int,
        computation: HloComputation,
        opcode: str,
        inside: str,
        places: Mapping[str | int, tuple[int, ShapeIndex]],
    ) -> int:
        """Return the label of a node, and note what its attributes name."""
        graph, columns, row = self.graph, self._module.columns, self.graph.rows[node]
        text, spans, base = columns.source.text, columns.spans, row * STRIDE
        overlay = columns.overlays.get(row)
        if overlay is not None and overlay.attributes is not None:
            pairs = overlay.attributes
            if overlay.called:
                pairs = tuple((k, v) for k, v in pairs if k not in CALLING_ATTRIBUTES)
            attributes, config = self._labels.attribute_list(pairs, self._reader)
            called = tuple(("calls", name) for name in overlay.called) or attributes.callees
        else:
            attributes, config = self._labels.attribute_text(
                columns.attributes_text(row), self._reader
            )
            called = attributes.callees
        if self._wrapped and "async" in opcode:
            opcode, attributes, called = self._sugared(node, opcode, attributes, called)
        detail: object = None
        if opcode == "constant":
            detail = self._labels.literal(inside)
        elif opcode == "parameter":
            detail = HloInstruction(computation, row).parameter_number
        shape = self._labels.shape(
            text[spans[base + SHAPE] : spans[base + SHAPE_END]], self._reader
        )
        if called:
            graph.callees[node] = tuple(
                (role, self._positions[name]) for role, name in called if name in self._positions
            )
        if attributes.controls:
            found = [places[name][0] for name in attributes.controls if name in places]
            graph.controls[node] = tuple(dict.fromkeys(n for n in found if n >= 0))
        if attributes.channel is not None:
            graph.channels[node] = attributes.channel
        return self._labels.label(LabelParts(opcode, shape, attributes.key, config, detail))

    def _sugared(
        self,
        node: int,
        opcode: str,
        attributes: AttributeText,
        called: tuple[tuple[str, str], ...],
    ) -> tuple[str, AttributeText, tuple[tuple[str, str], ...]]:
        """Return opcode, attributes and calls of an async operation as sugar prints them."""
        for _, name in called:
            found = self._wrapped.get(self._positions.get(name, -1))
            if found is not None and opcode == "async-start":
                self._inner[node] = found[0]
                merged = self._labels.merged(attributes, found[1])
                return f"{found[0]}-start", merged, merged.callees
        operands = self.graph.operands[node]
        if opcode in ("async-update", "async-done") and operands and operands[0] in self._inner:
            inner = self._inner[node] = self._inner[operands[0]]
            return f"{inner}{opcode.removeprefix('async')}", attributes, called
        return opcode, attributes, called

    def _places(
        self, computation: HloComputation
    ) -> tuple[dict[str | int, tuple[int, ShapeIndex]], dict[int, None]]:
        """Return node and index of each name and row, and the rows that are views."""
        columns = self._module.columns
        text, spans = columns.source.text, columns.spans
        node = len(self.graph.rows)
        places: dict[str | int, tuple[int, ShapeIndex]] = {}
        views: dict[int, None] = {}
        pending: list[tuple[str, int]] = []
        overlays = columns.overlays
        for row in computation.rows:
            base = row * STRIDE
            name = (
                columns.name(row)
                if row in overlays
                else text[spans[base + NAME] : spans[base + NAME_END]]
            )
            is_view = (
                text.startswith(_GTE, spans[base + OPCODE])
                and row != computation.root_row
                and spans[base + OPCODE_END] - spans[base + OPCODE] == len(_GTE)
            )
            if is_view:
                views[row] = None
                pending.append((name, row))
                places[name] = (-2, ())
            else:
                places[name] = places[row] = (node, ())
                node += 1
        self._resolve(computation, places, pending)
        return places, views

    def _resolve(
        self,
        computation: HloComputation,
        places: dict[str | int, tuple[int, ShapeIndex]],
        pending: Sequence[tuple[str, int]],
    ) -> None:
        """Find the node and index behind each view; in text order one look each is enough."""
        waiting = list(pending)
        while waiting:
            later: list[tuple[str, int]] = []
            for name, row in waiting:
                view = HloInstruction(computation, row)
                operand = view.operands[0] if view.operands else None
                source = (-1, ()) if operand is None else places.get(operand.name, (-1, ()))
                if operand is not None and source[0] == -2:
                    later.append((name, row))
                    continue
                number = view.attribute("index")
                own = (int(number),) if number is not None and number.isdecimal() else ()
                index = (*source[1], *(operand.index if operand is not None else ()), *own)
                places[row] = (source[0], index)
                places[name] = (source[0], index)
            if len(later) == len(waiting):  # they take elements of each other
                for name, row in later:
                    places[row] = places[name] = (-1, ())
                return
            waiting = later

    def _operands(
        self,
        computation: HloComputation,
        row: int,
        inside: str,
        places: Mapping[str | int, tuple[int, ShapeIndex]],
    ) -> tuple[int, ...]:
        """Return the nodes that are operands; indices are noted where there are any."""
        if not inside:
            return ()
        try:
            found = [places[part] for part in inside.replace("%", "").split(", ")]
        except KeyError:
            found = [
                self._place(operand, places)
                for operand in HloInstruction(computation, row).operands
            ]
        for _, index in found:
            if index:
                self.graph.indices[len(self.graph.rows) - 1] = tuple(i for _, i in found)
                break
        return tuple([node for node, _ in found])

    def _place(
        self, operand: HloOperand, places: Mapping[str | int, tuple[int, ShapeIndex]]
    ) -> tuple[int, ShapeIndex]:
        node, index = places.get(operand.name, (-1, ()))
        return node, (*index, *operand.index)


def _plain_head(attributes: str) -> str | None:
    """Return an attribute list without its metadata; None unless that is surely all that is left.

    Strings elsewhere, a backend config and whatever follows the metadata need a closer look.
    """
    end = attributes.find(", metadata={")
    if end < 0:
        return None if '"' in attributes or "backend_config=" in attributes else attributes
    head = attributes[:end]
    if '"' in head or attributes[-1] != "}" or attributes.count("}", end) != 1:
        return None
    return head


def _is_wrapped(root: HloInstruction) -> bool:
    """Return whether a computation is one operation on its parameters, in their order.

    Source: HloComputation::CanExpandIntoSingleInstruction.
    """
    numbers = {}
    for instruction in root.computation.instructions:
        if instruction.opcode == "parameter":
            numbers[instruction.name] = instruction.parameter_number
        elif not instruction.is_root:
            return False
    found = [numbers.get(name) for name in root.operand_names]
    return found == list(range(len(numbers)))
