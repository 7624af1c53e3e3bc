"""The graph of a module, made from the columns that the scanner filled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.diff.labels import LabelParts
from hlo_lens.analysis.diff.program_graph import ProgramGraph, View
from hlo_lens.model.hlo_columns import (
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
)
from hlo_lens.model.hlo_instruction import CALLING_ATTRIBUTES, HloInstruction
from hlo_lens.model.hlo_query import KNOWN_OPCODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.analysis.diff.labels import AttributeText, Labels
    from hlo_lens.model.hlo import HloModule
    from hlo_lens.model.hlo_columns import Overlay
    from hlo_lens.model.hlo_computation import HloComputation
    from hlo_lens.model.hlo_reader import HloOperand
    from hlo_lens.model.shape import ShapeIndex

_GTE = "get-tuple-element"
_ROLES = dict.fromkeys(("to_apply", "calls", "called_computations"), "region")
"""Attributes that name what an instruction applies; styles of printing take one for another."""


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
                opcode = instruction.opcode
                if not _starts(opcode):
                    continue
                for name in instruction.called_computations:
                    position = self._positions.get(name, -1)
                    root = self._module.computations[position].root if position >= 0 else None
                    if root is not None and _is_wrapped(root, opcode):
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
            graph.roots.append((-1, ()))
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
        graph.roots.append(places[computation.root_row] if computation.rows else (-1, ()))
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
            called = _inline_calls(overlay) or attributes.callees
        else:
            attributes, config = self._labels.attribute_text(
                columns.attributes_text(row), self._reader
            )
            called = attributes.callees
        if self._wrapped:
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
                (_ROLES.get(role, role), self._positions[name])
                for role, name in called
                if name in self._positions
            )
        if attributes.controls and self._labels.with_controls:
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
        for part in called if _starts(opcode) else ():
            found = self._wrapped.get(self._positions.get(part[1], -1))
            if found is None:
                continue
            self._inner[node] = found[0]
            if opcode != "async-start":
                return opcode, attributes, tuple(other for other in called if other != part)
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
            is_view = spans[base + OPCODE_END] - spans[base + OPCODE] == len(
                _GTE
            ) and text.startswith(_GTE, spans[base + OPCODE])
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


def _inline_calls(overlay: Overlay) -> tuple[tuple[str, str], ...]:
    """Return what is called whose bodies the text prints in place, with the role of each."""
    roles = [name for name, _ in overlay.attributes or () if name in CALLING_ATTRIBUTES]
    if len(roles) != len(overlay.called):  # a list of branches
        roles = (roles or ["calls"])[:1] * len(overlay.called)
    return tuple(zip(roles, overlay.called, strict=True))


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


def _starts(opcode: str) -> bool:
    """Return whether an opcode is an async-start, or sugar for one."""
    return opcode == "async-start" or (opcode.endswith("-start") and opcode not in KNOWN_OPCODES)


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
