"""Seconds in the labels of a drawn tree, as pyinstrument prints them.

A label has the seconds of a call with all below it. The own seconds of a call are these less those
of the calls below; a node ``[self]`` is the same amount drawn as a call. All are nanoseconds here.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.call_trees.call_tree import NO_PARENT, SECONDS, CallTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SELF = "[self]"


def seconds_tree(
    tree: CallTree, printed: Mapping[int, int]
) -> tuple[CallTree, list[tuple[int, int]]] | None:
    """Return a tree with seconds as amounts; None where calls other than hidden ones have none.

    Also line and nanoseconds of the calls whose callees have more than they have themselves, by
    more than rounding.

    Args:
        tree: The tree, as drawn.
        printed: Nanoseconds of nodes, with all below them.
    """
    if not all(node in printed or _is_hidden(tree, node) for node in range(len(tree))):
        return None
    totals = _totals(tree, printed)
    own = list(totals)
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            own[parent] -= totals[node]
    unit = _unit(printed.values())
    children = [0] * len(tree)
    for parent in tree.parents:
        if parent >= 0:
            children[parent] += 1
    wrong = [
        (tree.lines[node], -amount)
        for node, amount in enumerate(own)
        if 2 * -amount > unit * (children[node] + 1)
    ]
    return _without_self(tree, [max(0, amount) for amount in own]), wrong


def _is_hidden(tree: CallTree, node: int) -> bool:
    """Whether a node stands for frames that were hidden: ``[4 frames hidden]  threading``."""
    return tree.frame(node).function.startswith("[")


def _totals(tree: CallTree, printed: Mapping[int, int]) -> list[int]:
    """Return the nanoseconds of all nodes: as printed, else those of the nodes below."""
    below = [0] * len(tree)
    totals = [0] * len(tree)
    for node in range(len(tree) - 1, -1, -1):
        totals[node] = printed.get(node, below[node])
        if tree.parents[node] >= 0:
            below[tree.parents[node]] += totals[node]
    return totals


def _unit(amounts: Iterable[int]) -> int:
    """Return the largest power of ten of which all amounts are multiples: the last digit."""
    unit = 10**9
    for amount in amounts:
        while amount % unit:
            unit //= 10
    return unit


def _without_self(tree: CallTree, own: list[int]) -> CallTree:
    """Return a tree with the amounts of ``[self]`` added to the caller, without these nodes."""
    kept: list[int] = []
    place: list[int] = []
    for node, parent in enumerate(tree.parents):
        is_self = parent >= 0 and tree.frame(node).function.startswith(_SELF)
        if is_self:
            own[parent] += own[node]
        place.append(place[parent] if is_self else len(kept))
        if not is_self:
            kept.append(node)
    used = sorted({tree.frame_ids[node] for node in kept})
    numbers = {frame: number for number, frame in enumerate(used)}
    parents = [tree.parents[node] for node in kept]
    return replace(
        tree,
        frames=tuple(tree.frames[frame] for frame in used),
        frame_ids=array("i", [numbers[tree.frame_ids[node]] for node in kept]),
        parents=array("i", [place[p] if p >= 0 else NO_PARENT for p in parents]),
        own=array("q", [own[node] for node in kept]),
        lines=array("i", [tree.lines[node] for node in kept]),
        measure=SECONDS,
    )
