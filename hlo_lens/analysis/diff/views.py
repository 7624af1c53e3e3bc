"""Which get-tuple-element line of one text is which of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


def _shape_differs(base: ProgramGraph, head: ProgramGraph, x: int, y: int) -> bool:
    parts = base.labels.parts
    return parts[base.label[x]].shape != parts[head.label[y]].shape
