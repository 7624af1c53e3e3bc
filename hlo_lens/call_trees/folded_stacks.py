"""A call tree as folded stacks, the input of flame graphs.

Each line has the functions of a stack, outermost first, joined by semicolons, then a blank and the
stack's own amount. A semicolon in a name becomes a colon and a line end a blank, as in
stackcollapse-perf.pl of Brendan Gregg's FlameGraph. Equal stacks are one line, in the order of
their first node. Bracketed residuals are stacks of their own.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlo_lens.call_trees.call_tree import NO_PARENT, CallTree
from hlo_lens.call_trees.source_files import Places
from hlo_lens.text.errors import UsageError
from hlo_lens.text.printable import printable

MOST_CHARACTERS = 1 << 30
"""Limit of the text, which for a deep tree grows with the square of its depth."""


def folded_stacks(tree: CallTree, *, depth: int | None = None) -> Iterator[str]:
    """Return the lines of a tree's folded stacks, without line ends.

    Args:
        tree: The tree.
        depth: Deepest level with names of its own; deeper nodes count for their caller there.

    Raises:
        UsageError: If the text would be longer than `MOST_CHARACTERS`.
    """
    names = _names(tree)
    parents, frames, own = _merged(tree, depth)
    lengths = [0] * len(parents)
    size = 0
    for node, parent in enumerate(parents):
        lengths[node] = len(names[frames[node]]) + 1
        lengths[node] += lengths[parent] if parent >= 0 else 0
        size += lengths[node] if own[node] else 0
    if size > MOST_CHARACTERS:
        raise UsageError(f"the folded stacks take {size / 1e9:.1f} GB; cut them with --depth")
    return _lines(tree, names, parents, frames, own)


def _names(tree: CallTree) -> list[str]:
    """Return the names of the functions as written in a stack."""
    places = Places(tree.frames)
    texts = (places.text(frame) or "?" for frame in tree.frames)
    return [printable(" ".join(text.replace(";", ":").split())) for text in texts]


def _merged(tree: CallTree, depth: int | None) -> tuple[list[int], list[int], list[int]]:
    """Return the tree with equal calls of one caller as one: parents, functions, own amounts."""
    known: dict[tuple[int, int], int] = {}
    parents: list[int] = []
    frames: list[int] = []
    own: list[int] = []
    place = [NO_PARENT] * len(tree)
    for node, frame in enumerate(tree.frame_ids):
        above = tree.parents[node]
        parent = place[above] if above >= 0 else NO_PARENT
        if depth is not None and tree.depths[node] >= depth and above >= 0:
            place[node] = parent
        else:
            at = known.setdefault((parent, frame), len(parents))
            if at == len(parents):
                parents.append(parent)
                frames.append(frame)
                own.append(0)
            place[node] = at
        own[place[node]] += tree.own[node]
    return parents, frames, own


def _lines(
    tree: CallTree, names: list[str], parents: list[int], frames: list[int], own: list[int]
) -> Iterator[str]:
    for node, amount in enumerate(own):
        if amount:
            stack = []
            at = node
            while at >= 0:
                stack.append(names[frames[at]])
                at = parents[at]
            yield f"{';'.join(reversed(stack))} {amount}"
    for label, amount in tree.residuals:
        if amount:
            yield f"{label} {amount}"
