"""Matching and changes of the get-tuple-elements (views) of two programs.

Their index is part of the operands of their users. Their shape follows from the tuple's, and counts
only if that is the same; shardings and attributes of the framework are their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import SHAPE, SHAPE_END
from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.questions.diff.matching.attribute_text import quick_split
from hlo_lens.questions.diff.matching.edits import Change
from hlo_lens.questions.diff.matching.label_changes import SHAPE_WORDS, label_changes
from hlo_lens.questions.diff.matching.labels import LabelParts

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence, Set as AbstractSet

    from hlo_lens.questions.diff.matching.graph import ProgramGraph, View
    from hlo_lens.questions.diff.matching.match_computations import Matching

_CONTROLS = "control-predecessors="


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMatching:
    """Partners among views.

    Attributes:
        pairs: Rows of partners.
        base: Views of the base without a partner.
        head: Views of the head without a partner.
    """

    pairs: tuple[tuple[int, int], ...]
    base: tuple[View, ...]
    head: tuple[View, ...]


def match_views(base: ProgramGraph, head: ProgramGraph, found: Matching) -> ViewMatching:
    """Return the partners among the views of two programs.

    Partners take the same element of partners, or of undefined operands. If a tuple has changed, an
    element of the same shape comes first, then the next of that shape, then the rest in order.
    """
    pairs: list[tuple[int, int]] = []
    left: tuple[list[View], list[View]] = (list(base.views), list(head.views))
    changed = {
        node
        for node in {view.node for view in base.views}
        if node >= 0 and found.head_of[node] >= 0
        if _shape_differs(base, head, node, found.head_of[node])
    }
    keys = _Keys((base, head), found, changed)
    for key in (keys.same, keys.same_shape, keys.next_shape, keys.next):
        if not all(left):
            break
        waiting: dict[Hashable, list[View]] = {}
        for view in reversed(left[1]):
            waiting.setdefault(key(1, view), []).append(view)
        waiting.pop(None, None)
        taken: set[int] = set()
        alone: list[View] = []
        for view in left[0]:
            others = waiting.get(key(0, view))
            if others:
                other = others.pop()
                pairs.append((view.row, other.row))
                taken.add(other.row)
            else:
                alone.append(view)
        left = (alone, [view for view in left[1] if view.row not in taken])
    return ViewMatching(pairs=tuple(pairs), base=tuple(left[0]), head=tuple(left[1]))


class _Keys:
    """Keys used to match views, the strictest first; None for no key."""

    def __init__(
        self,
        graphs: tuple[ProgramGraph, ProgramGraph],
        found: Matching,
        changed: AbstractSet[int],
    ) -> None:
        self._graphs = graphs
        self._found = found
        self._changed = changed

    def same(self, side: int, view: View) -> Hashable:
        """Return node and element for a tuple that has not changed."""
        node = self._node(side, view)
        return None if node is None or node in self._changed else (node, view.element)

    def same_shape(self, side: int, view: View) -> Hashable:
        """Return element and shape."""
        node = self._node(side, view)
        return None if node is None else (node, view.element, self._shape(side, view))

    def next_shape(self, side: int, view: View) -> Hashable:
        """Return the shape."""
        node = self._node(side, view)
        return None if node not in self._changed else (node, self._shape(side, view))

    def next(self, side: int, view: View) -> Hashable:
        """Return the tuple alone."""
        node = self._node(side, view)
        return node if node in self._changed else None

    def _node(self, side: int, view: View) -> int | None:
        """Return the base's node; -1 if undefined, None without partner."""
        if view.node < 0:
            return -1
        partner = (self._found.head_of, self._found.base_of)[side][view.node]
        if partner < 0:
            return None
        return partner if side else view.node

    def _shape(self, side: int, view: View) -> int:
        graph = self._graphs[side]
        text = graph.module.columns.text(view.row, SHAPE, SHAPE_END)
        return graph.labels.shape(text, graph.module.reader)


def view_changes(
    base: ProgramGraph, head: ProgramGraph, pairs: Sequence[tuple[int, int]], matched: Matching
) -> dict[int, tuple[Change, ...]]:
    """Return the changes between matched views, by row of the base."""
    found: dict[int, tuple[Change, ...]] = {}
    controls = _Controls((base, head), pairs, matched)
    seen: dict[tuple[str, str, str, str], tuple[Change, ...]] = {}
    tuples = (
        {view.row: view.node for view in base.views},
        {view.row: view.node for view in head.views},
    )
    for mine, yours in pairs:
        key = (*_said(base, mine), *_said(head, yours))
        if key[:2] == key[2:]:
            continue
        changes = seen.get(key)
        if changes is None:
            labels = _label(base, mine), _label(head, yours)
            changes = seen[key] = tuple(
                change for change in label_changes(base.labels, *labels) if change.what != "index"
            )
        x, y = tuples[0][mine], tuples[1][yours]
        if x < 0 or y < 0 or _shape_differs(base, head, x, y):
            changes = tuple(change for change in changes if change.what not in SHAPE_WORDS)
        if x >= 0 and y >= 0 and (_CONTROLS in key[1] or _CONTROLS in key[3]):
            changes = (*changes, *controls.changes((mine, yours), (x, y)))
        if changes:
            found[mine] = changes
    return found


class _Controls:
    """Comparison of the control predecessors of views."""

    def __init__(
        self,
        graphs: tuple[ProgramGraph, ProgramGraph],
        pairs: Sequence[tuple[int, int]],
        matched: Matching,
    ) -> None:
        self._graphs = graphs
        self._pairs = pairs
        self._matched = matched

    def changes(self, rows: tuple[int, int], nodes: tuple[int, int]) -> Iterator[Change]:
        """Yield the change of the control predecessors of a view, given as rows and tuple nodes."""
        if not self._graphs[0].labels.with_controls:
            return
        before, after = (
            self._rows(graph, row, node)
            for graph, row, node in zip(self._graphs, rows, nodes, strict=True)
        )
        if {self._partner.get(row) for row in before} != {*after}:
            names = [", ".join(sorted(found.values())) or None for found in (before, after)]
            yield Change(what="control-predecessors", base=names[0], head=names[1])

    @cached_property
    def _partner(self) -> Mapping[int, int]:
        mine, yours = (graph.rows for graph in self._graphs)
        nodes = enumerate(self._matched.head_of)
        return {**{mine[x]: yours[y] for x, y in nodes if y >= 0}, **dict(self._pairs)}

    @staticmethod
    def _rows(graph: ProgramGraph, row: int, node: int) -> dict[int, str]:
        """Return the rows of the control predecessors of a row, with their names."""
        computation = graph.module.computations[graph.owner[node]]
        names = HloInstruction(computation, row).control_predecessors
        found = ((computation.instruction(name), name) for name in names)
        return {one.row: name for one, name in found if one is not None}


def _said(graph: ProgramGraph, row: int) -> tuple[str, str]:
    """Return shape and attributes of a row as written, without trailing metadata."""
    columns = graph.module.columns
    attributes = columns.attributes_text(row)
    head, metadata, config = quick_split(attributes)
    if head is not None and metadata and config is None:
        attributes = head
    return columns.text(row, SHAPE, SHAPE_END), attributes


def _label(graph: ProgramGraph, row: int) -> int:
    """Return the label of a view, with its shape."""
    labels, reader = graph.labels, graph.module.reader
    columns = graph.module.columns
    attributes, config = labels.attribute_text(columns.attributes_text(row), reader)
    shape = labels.shape(columns.text(row, SHAPE, SHAPE_END), reader)
    return labels.label(LabelParts("get-tuple-element", shape, attributes.key, config, None))


def _shape_differs(base: ProgramGraph, head: ProgramGraph, x: int, y: int) -> bool:
    parts = base.labels.parts
    return parts[base.label[x]].shape != parts[head.label[y]].shape
