"""Which get-tuple-element line of one text is which of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    Partners take the same element of partners; where a tuple has changed, also another one, in
    order.
    """
    pairs: list[tuple[int, int]] = []
    head_of = found.head_of
    mine_left, yours_left = list(base.views), list(head.views)
    for with_index in (True, False):
        waiting: dict[object, list[View]] = {}
        for view in reversed(yours_left):
            if view.node >= 0 and found.base_of[view.node] >= 0:
                key = (view.node, view.element) if with_index else view.node
                waiting.setdefault(key, []).append(view)
        taken: set[int] = set()
        left: list[View] = []
        for view in mine_left:
            partner = head_of[view.node] if view.node >= 0 else -1
            is_same = with_index or _shape_differs(base, head, view.node, partner)
            others = waiting.get((partner, view.element) if with_index else partner)
            if partner >= 0 and others and is_same:
                other = others.pop()
                pairs.append((view.row, other.row))
                taken.add(other.row)
            else:
                left.append(view)
        mine_left = left
        yours_left = [view for view in yours_left if view.row not in taken]
    return ViewMatching(pairs=tuple(pairs), base=tuple(mine_left), head=tuple(yours_left))


def _shape_differs(base: ProgramGraph, head: ProgramGraph, x: int, y: int) -> bool:
    parts = base.labels.parts
    return y >= 0 and parts[base.label[x]].shape != parts[head.label[y]].shape


def rows_of(views: Sequence[View]) -> list[int]:
    """Return the rows of some views."""
    return [view.row for view in views]
