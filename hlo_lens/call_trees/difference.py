"""Differences of two call trees: added calls, removed calls, changed amounts.

Both trees are first merged by path: equal calls of one caller are one, in any order. A function is
the same in both if name, file and line are equal; where the lines of a name in a file differ, the
k-th of one is the k-th of the other if both have as many, so that a function may move within its
file. Files are compared as written if the trees share one, else relative to the folder of each, so
that traces of two checkouts can be compared.

A path of one tree only is one row for its whole subtree; a path of both is a row with the change of
its own amount. The deltas of all rows sum to the difference of the totals, and the diff of b and a
is that of a and b with base and head exchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

from hlo_lens.call_trees.facts import PathNodes, columns_in_bytes, merge_paths
from hlo_lens.call_trees.tree import BYTE_MEASURES, CallTree, Places, path_text, with_below
from hlo_lens.render.result import Column, Records, Row, Unit
from hlo_lens.text.errors import UsageError


class CallChange(NamedTuple):
    """One difference.

    ``added`` and ``removed`` stand for a whole subtree, ``changed`` for one path. The place is that
    in the head tree, of a removed path that in the base tree.
    """

    status: Annotated[Literal["added", "removed", "changed"], "added, removed, changed"]
    base: Annotated[int, Unit.COUNT, "amount in the base tree"]
    head: Annotated[int, Unit.COUNT, "amount in the head tree"]
    delta: Annotated[int, Unit.COUNT, "head minus base"]
    function: Annotated[str, "function"]
    place: Annotated[str | None, "file and line of the function"]
    path: Annotated[str, "functions from the outermost one to it"]
    base_line: Annotated[int | None, "line of the base text"]
    head_line: Annotated[int | None, "line of the head text"]


@dataclass(frozen=True, kw_only=True)
class CallTreeDiff(Records[CallChange]):
    """All differences, the largest first.

    Attributes:
        changes: The differences.
        base_total: Sum of the base tree.
        head_total: Sum of the head tree.
        base_residuals: Sum of the amounts without a node in the base tree.
        head_residuals: The same of the head tree.
    """

    KIND: ClassVar[str] = "call-tree-diff"
    TOTALS: ClassVar[tuple[str, ...]] = ("delta",)
    changes: tuple[CallChange, ...]
    base_total: int
    head_total: int
    base_residuals: int = 0
    head_residuals: int = 0

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the difference of the amounts without a node."""
        base, head = self.base_residuals, self.head_residuals
        if base == head:
            return ()
        return (("changed", base, head, head - base, "[without a stack]", None, None, None, None),)


@dataclass(frozen=True, kw_only=True)
class CallTreeBytesDiff(CallTreeDiff):
    """The same for amounts that are bytes."""

    COLUMNS: ClassVar[tuple[Column, ...]] = columns_in_bytes(CallChange, "base", "head", "delta")


def call_tree_diff(base: CallTree, head: CallTree) -> CallTreeDiff:
    """Return the differences of two trees.

    Raises:
        UsageError: If their measures differ.
    """
    if base.measure != head.measure:
        raise UsageError(f"trees of {base.measure} and of {head.measure} cannot be compared")
    changes = sorted(
        _changes((base, head)),
        key=lambda change: (-abs(change.delta), change.path, change.place or "", change.status),
    )
    make = CallTreeBytesDiff if base.measure in BYTE_MEASURES else CallTreeDiff
    return make(
        changes=tuple(changes),
        base_total=base.total,
        head_total=head.total,
        base_residuals=sum(amount for _, amount in base.residuals),
        head_residuals=sum(amount for _, amount in head.residuals),
    )


def _changes(trees: tuple[CallTree, CallTree]) -> Iterator[CallChange]:
    nodes: PathNodes = {}
    numbers = [
        merge_paths(nodes, tree, frames)
        for tree, frames in zip(trees, _common_frames(*trees), strict=True)
    ]
    own, totals, first = [], [], []
    parents = [parent for parent, _ in nodes]
    for tree, of_nodes in zip(trees, numbers, strict=True):
        amounts, firsts = [0] * len(nodes), dict[int, int]()
        for node, number in enumerate(of_nodes):
            amounts[number] += tree.own[node]
            firsts.setdefault(number, node)
        own.append(amounts)
        totals.append(with_below(amounts, parents))
        first.append(firsts)

    for number, parent in enumerate(parents):
        is_in = number in first[0], number in first[1]
        if all(is_in):
            status: Literal["added", "removed", "changed"] = "changed"
            base, head = own[0][number], own[1][number]
            if base == head:
                continue
        elif parent < 0 or (parent in first[0] and parent in first[1]):
            status = "removed" if is_in[0] else "added"
            base, head = totals[0][number], totals[1][number]
        else:
            continue  # in the subtree of another row
        side = 1 if is_in[1] else 0
        tree, node = trees[side], first[side][number]
        lines = [
            one.line(at) if (at := nodes_of.get(number)) is not None else None
            for one, nodes_of in zip(trees, first, strict=True)
        ]
        yield CallChange(
            status=status,
            base=base,
            head=head,
            delta=head - base,
            function=tree.frame(node).function,
            place=tree.frame(node).place,
            path=path_text(tree, node),
            base_line=lines[0],
            head_line=lines[1],
        )


def _common_frames(base: CallTree, head: CallTree) -> tuple[list[int], list[int]]:
    """Return a number for each function of both trees, equal for the same function."""
    trees = (base, head)
    places = [Places([*base.frames, *head.frames])] * 2
    if not {f.file for f in base.frames} & {f.file for f in head.frames} - {None}:
        places = [Places(base.frames), Places(head.frames)]
    lines: dict[tuple[str, str | None], tuple[set[int], set[int]]] = defaultdict(
        lambda: (set(), set())
    )
    for side, tree in enumerate(trees):
        for frame in tree.frames:
            lines[frame.function, places[side].file(frame)][side].add(frame.line or 0)
    moved = {}  # base line of each head line of a name, where both are the same function
    for name, (before, after) in lines.items():
        old, new = sorted(before - after), sorted(after - before)
        if len(old) == len(new):
            moved.update({(name, line): at for line, at in zip(new, old, strict=True)})

    numbers: dict[tuple[tuple[str, str | None], int], int] = {}
    frame_numbers: tuple[list[int], list[int]] = ([], [])
    for side, tree in enumerate(trees):
        for frame in tree.frames:
            name, line = (frame.function, places[side].file(frame)), frame.line or 0
            key = name, moved.get((name, line), line) if side else line
            frame_numbers[side].append(numbers.setdefault(key, len(numbers)))
    return frame_numbers
