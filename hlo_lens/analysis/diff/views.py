"""Which get-tuple-element line of one text is which of another, and what they say of themselves.

Their index is part of what their users take. Their shape follows from the tuple's, and counts only
where that is the same; shardings and attributes of the framework are their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.diff.label_changes import SHAPE_WORDS, label_changes
from hlo_lens.analysis.diff.labels import METADATA_KEY, LabelParts
from hlo_lens.model.hlo_columns import SHAPE, SHAPE_END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.analysis.diff.edits import Change
    from hlo_lens.analysis.diff.matching import Matching
    from hlo_lens.analysis.diff.program_graph import ProgramGraph, View


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
    """Return who is who among the views of two programs.

    Partners take the same element of partners, or of what a damaged text does not define; where a
    tuple has changed, also another one, in order.
    """
    pairs: list[tuple[int, int]] = []
    head_of = found.head_of
    mine_left, yours_left = list(base.views), list(head.views)
    for with_element in (True, False):
        waiting: dict[object, list[View]] = {}
        for view in reversed(yours_left):
            if view.node < 0 or found.base_of[view.node] >= 0:
                key = (view.node, view.element) if with_element else view.node
                waiting.setdefault(key, []).append(view)
        taken: set[int] = set()
        left: list[View] = []
        for view in mine_left:
            partner = head_of[view.node] if view.node >= 0 else -1
            others: list[View] | None = None
            if with_element and (partner >= 0 or view.node < 0):
                others = waiting.get((partner, view.element))
            elif partner >= 0 and _shape_differs(base, head, view.node, partner):
                others = waiting.get(partner)
            if others:
                other = others.pop()
                pairs.append((view.row, other.row))
                taken.add(other.row)
            else:
                left.append(view)
        mine_left = left
        yours_left = [view for view in yours_left if view.row not in taken]
    return ViewMatching(pairs=tuple(pairs), base=tuple(mine_left), head=tuple(yours_left))


def view_changes(
    base: ProgramGraph, head: ProgramGraph, pairs: Sequence[tuple[int, int]]
) -> dict[int, tuple[Change, ...]]:
    """Return what differs between views that are partners, by row of the base."""
    found: dict[int, tuple[Change, ...]] = {}
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
        if changes:
            found[mine] = changes
    return found


def _said(graph: ProgramGraph, row: int) -> tuple[str, str]:
    """Return shape and attributes of a row as written, without metadata."""
    columns = graph.module.columns
    head, _, _ = columns.attributes_text(row).partition(METADATA_KEY)
    return columns.text(row, SHAPE, SHAPE_END), head


def _label(graph: ProgramGraph, row: int) -> int:
    """Return a label of what a view says, its shape among it."""
    labels, reader = graph.labels, graph.module.reader
    columns = graph.module.columns
    attributes, config = labels.attribute_text(columns.attributes_text(row), reader)
    shape = labels.shape(columns.text(row, SHAPE, SHAPE_END), reader)
    return labels.label(LabelParts("get-tuple-element", shape, attributes.key, config, None))


def _shape_differs(base: ProgramGraph, head: ProgramGraph, x: int, y: int) -> bool:
    parts = base.labels.parts
    return parts[base.label[x]].shape != parts[head.label[y]].shape
