"""Program graph of a module, made from its columns and links."""

from __future__ import annotations

from array import array
from itertools import repeat
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import NOTHING, OPERANDS, OPERANDS_END, STRIDE
from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.diff.matching.attribute_columns import AttributeColumns
from hlo_lens.questions.diff.matching.axis_names import axis_numbers
from hlo_lens.questions.diff.matching.fingerprints import KnownBodies, fingerprints
from hlo_lens.questions.diff.matching.graph import ProgramGraph
from hlo_lens.questions.diff.matching.graph_operands import GraphOperands, digest, slices
from hlo_lens.questions.diff.matching.labels import AttributeText, LabelParts, Labels

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.calls import Call
    from hlo_lens.hlo.module import HloModule

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


# ---- inline bodies -----------------------------------------------------------------------------


def share_bodies(graph: ProgramGraph) -> None:
    """Let instructions call the separate computations instead of their inline copies.

    XLA's canonical and fingerprint styles print computations inside the calling instruction and
    once more as computations (hlo_computation.cc, Print, in nested computations). Each copy is
    replaced by another of the computations equal to it, as long as there are any; a body that is
    only printed inline stays.
    """
    computations = graph.module.computations
    if not any(computation.is_inline for computation in computations):
        return
    content = fingerprints(graph, {}, KnownBodies()).content
    own: dict[int, list[int]] = {}
    for position in range(len(computations) - 1, -1, -1):
        if not computations[position].is_inline and position != graph.entry:
            own.setdefault(content[position], []).append(position)
    seen = {graph.entry}
    waiting = [graph.entry]
    while waiting:
        for node in graph.nodes[waiting.pop()]:
            called = graph.callees.get(node)
            if called is None:
                continue
            shared = tuple((role, _own(own, content[c], c)) for role, c in called)
            graph.callees[node] = shared
            for _, computation in shared:
                if computation not in seen:
                    seen.add(computation)
                    waiting.append(computation)


def _own(own: dict[int, list[int]], content: int, computation: int) -> int:
    """Return the next computation of some content, then always the last one."""
    left = own.get(content)
    if not left:
        return computation
    return left.pop() if len(left) > 1 else left[0]
