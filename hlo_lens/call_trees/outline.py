"""Outline of a call tree: its largest nodes, as a tree.

Consecutive identical subtrees are shown once, with their number. From the root on, the node with
the largest amount, all below it included, is shown next, until there are enough; nodes left out are
counted below their parent.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.call_trees.call_tree import CallTree

OTHERS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineLine:
    """A line of the outline.

    Attributes:
        node: First of the identical nodes of the line; `OTHERS` for nodes left out.
        depth: 0 for outermost nodes.
        is_last: Whether it is the last below its parent.
        times: Number of identical nodes for each node of the line above; of `OTHERS`, the number
            of nodes left out.
        own: Their own amounts; 0 for `OTHERS`.
        total: Their amounts with all below.
        unknown: Number of items, all below included, with an unknown amount.
    """

    node: int
    depth: int
    is_last: bool
    times: int
    own: int
    total: int
    unknown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTreeOutline:
    """Lines of the outline, in the order of the tree.

    Attributes:
        tree: The tree.
        lines: The lines.
    """

    tree: CallTree
    lines: tuple[OutlineLine, ...]


@dataclass(slots=True)
class _Run:
    """Consecutive identical subtrees below one node.

    Amounts are of all nodes of the run: it is below the first node of the run above, so that each
    of its nodes counts `factor` times.
    """

    node: int
    times: int
    total: int
    own: int
    unknown: int
    factor: int = 1
    shown: list[_Run] = field(default_factory=list)
    hidden: list[_Run] = field(default_factory=list)


def call_tree_outline(
    tree: CallTree, shapes: Sequence[int], *, lines: int = 0, depth: int | None = None
) -> CallTreeOutline:
    """Return the outline of a tree.

    Args:
        tree: The tree.
        shapes: Result of `repeats.subtree_shapes`.
        lines: Number of nodes to show at most; 0 for all.
        depth: Number of levels to show at most; None for all.
    """
    roots = _runs(tree, shapes, tree.roots, 1)
    top = _Run(-1, 1, 0, 0, 0)
    heap = [(-run.total, run.node, 0, run, top) for run in roots]
    heapq.heapify(heap)
    room = lines or len(tree)
    while heap and room:
        _, _, level, run, parent = heapq.heappop(heap)
        room -= 1
        parent.shown.append(run)
        below = _runs(tree, shapes, tree.children(run.node), run.factor * run.times)
        if depth is not None and level + 1 >= depth:
            run.hidden = below
            continue
        for child in below:
            heapq.heappush(heap, (-child.total, child.node, level + 1, child, run))
    for _, _, _, run, parent in heap:
        parent.hidden.append(run)
    return CallTreeOutline(tree=tree, lines=tuple(_lines(top)))


def _runs(tree: CallTree, shapes: Sequence[int], nodes: Iterable[int], factor: int) -> list[_Run]:
    """Return siblings, consecutive ones with equal subtrees joined."""
    runs: list[_Run] = []
    unknown = tree.unknown_totals
    for node in nodes:
        total, own = factor * tree.totals[node], factor * tree.own[node]
        missing = factor * unknown[node] if unknown else 0
        if runs and shapes[runs[-1].node] == shapes[node]:
            last = runs[-1]
            last.times += 1
            last.total += total
            last.own += own
            last.unknown += missing
        else:
            runs.append(_Run(node, 1, total, own, missing, factor))
    return runs


def _lines(top: _Run) -> Iterator[OutlineLine]:
    """Yield the lines below a run, in the order of the tree."""
    stack = _below(top, 0)
    while stack:
        item, depth, is_last = stack.pop()
        if isinstance(item, OutlineLine):
            yield item
            continue
        yield OutlineLine(
            node=item.node,
            depth=depth,
            is_last=is_last,
            times=item.times,
            own=item.own,
            total=item.total,
            unknown=item.unknown,
        )
        stack.extend(_below(item, depth + 1))


def _below(run: _Run, depth: int) -> list[tuple[_Run | OutlineLine, int, bool]]:
    """Return the items below a run, last first: shown runs, and one line for those left out.

    If nothing below is shown, the line with the rest is omitted too.
    """
    found: list[tuple[_Run | OutlineLine, int, bool]] = []
    if len(run.hidden) == 1 and run.shown:
        run.shown.extend(run.hidden)
    elif run.hidden and run.shown:
        others = OutlineLine(
            node=OTHERS,
            depth=depth,
            is_last=True,
            times=sum(hidden.times for hidden in run.hidden),
            own=0,
            total=sum(hidden.total for hidden in run.hidden),
            unknown=sum(hidden.unknown for hidden in run.hidden),
        )
        found.append((others, depth, True))
    shown = sorted(run.shown, key=lambda child: child.node, reverse=True)
    found.extend((child, depth, not found and not k) for k, child in enumerate(shown))
    return found
