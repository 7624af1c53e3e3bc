"""Subtrees that occur more than once in a call tree.

Two subtrees are the same if they call the same functions from the same places in the same order,
all the way down, with the same repeats (or, where nodes count bytes, the same bytes).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hlo_lens.call_trees.call_tree import NO_PARENT, CallTree
from hlo_lens.call_trees.source_files import Places
from hlo_lens.render.result import Column, Result, Unit

_SMALLEST = 3
"""Nodes of the smallest subtree that is reported."""

_NOT_SEEN = -2


def subtree_shapes(tree: CallTree) -> Sequence[int]:
    """Return a number for each node; numbers are equal exactly if the subtrees are."""
    shapes = array("i", bytes(4 * len(tree)))
    known: dict[tuple[int, ...], int] = {}
    frame_ids, own = tree.frame_ids, tree.own
    is_calls = tree.measure == "calls"
    for node in range(len(tree) - 1, -1, -1):
        amount = tree.repeats(node) if is_calls else own[node]
        below = map(shapes.__getitem__, tree.children(node))
        shapes[node] = known.setdefault((frame_ids[node], amount, *below), len(known))
    return shapes


@dataclass(frozen=True, kw_only=True)
class CallTreeRepeats(Result):
    """Subtrees that occur more than once, those with the most nodes in all first.

    A subtree that only occurs inside those of another row is left out. There are no
    totals, as rows may overlap.

    Attributes:
        found: Occurrences, nodes of each, function, file, line, and first line of the text.
    """

    KIND: ClassVar[str] = "call-tree-repeats"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("times", Unit.COUNT, "number of occurrences in the drawing"),
        Column("nodes", Unit.COUNT, "nodes of each"),
        Column("share", Unit.RATIO, "share of the tree's nodes in all occurrences, 0 to 1"),
        Column("function", Unit.NONE, "function at its top"),
        Column("place", Unit.NONE, "file and line of that function"),
        Column("line", Unit.NONE, "line of the text that draws the first of them"),
    )
    RECORDS: ClassVar[str] = "found"
    found: tuple[tuple[int, int, float, str, str | None, int | None], ...]


def call_tree_repeats(tree: CallTree, shapes: Sequence[int]) -> CallTreeRepeats:
    """Return the repeated subtrees of a tree.

    Args:
        tree: The tree.
        shapes: Result of `subtree_shapes`.
    """
    count = 1 + max(shapes, default=-1)
    times, first = [0] * count, [0] * count
    above = [_NOT_SEEN] * count
    for node in range(len(tree) - 1, -1, -1):
        shape, parent = shapes[node], tree.parents[node]
        times[shape] += 1
        first[shape] = node
        holder = shapes[parent] if parent >= 0 else NO_PARENT
        if above[shape] == _NOT_SEEN:
            above[shape] = holder
        elif above[shape] != holder:
            above[shape] = NO_PARENT
    places = Places(tree.frames)
    rows = []
    for shape, node in enumerate(first):
        nodes, holder = tree.ends[node] - node, above[shape]
        inside = holder >= 0 and times[holder] == times[shape]
        if times[shape] > 1 and nodes >= _SMALLEST and not inside:
            frame = tree.frame(node)
            share = times[shape] * nodes / len(tree)
            line = tree.lines[node] if tree.lines else None
            rows.append((times[shape], nodes, share, frame.function, places.place(frame), line))
    rows.sort(key=lambda row: (-row[0] * row[1], row[3], row[5] or 0))
    return CallTreeRepeats(found=tuple(rows))
