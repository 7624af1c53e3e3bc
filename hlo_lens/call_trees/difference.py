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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from hlo_lens.call_trees.call_tree import (
    NO_PARENT,
    SECONDS,
    CallFrame,
    CallTree,
    in_unit,
    with_below,
)
from hlo_lens.call_trees.grouping import BYTE_MEASURES
from hlo_lens.call_trees.source_files import Places, path_text
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.text.errors import UsageError

Status = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallChange:
    """One difference; fields are the columns of `CallTreeDiff`.

    ``added`` and ``removed`` stand for a whole subtree, ``changed`` for one path. The place is that
    in the head tree, of a removed path that in the base tree.
    """

    status: Status
    base: float
    head: float
    function: str
    place: str | None
    path: str
    base_line: int | None
    head_line: int | None

    @property
    def delta(self) -> float:
        """Head minus base."""
        return _difference(self.base, self.head)


def _change_columns(unit: Unit) -> tuple[Column, ...]:
    return (
        Column("status", Unit.NONE, "added, removed, changed"),
        Column("base", unit, "amount in the base tree"),
        Column("head", unit, "amount in the head tree"),
        Column("delta", unit, "head minus base"),
        Column("function", Unit.NONE, "function"),
        Column("place", Unit.NONE, "file and line of the function"),
        Column("path", Unit.NONE, "functions from the outermost one to it"),
        Column("base_line", Unit.NONE, "line of the base text"),
        Column("head_line", Unit.NONE, "line of the head text"),
    )


@dataclass(frozen=True, kw_only=True)
class CallTreeDiff(Result):
    """All differences, the largest first.

    Attributes:
        changes: The differences.
        base_total: Sum of the base tree.
        head_total: Sum of the head tree.
        base_residuals: Sum of the amounts without a node in the base tree.
        head_residuals: The same of the head tree.
    """

    KIND: ClassVar[str] = "call-tree-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = _change_columns(Unit.COUNT)
    RECORDS: ClassVar[str] = "changes"
    changes: tuple[CallChange, ...]
    base_total: float
    head_total: float
    base_residuals: int = 0
    head_residuals: int = 0

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the difference of the amounts without a node."""
        base, head = self.base_residuals, self.head_residuals
        if base == head:
            return ()
        return (("changed", base, head, head - base, "[without a stack]", None, None, None, None),)

    def totals(self) -> Mapping[str, float]:
        """Return the difference of the totals."""
        return {"delta": _difference(self.base_total, self.head_total)}


@dataclass(frozen=True, kw_only=True)
class CallTreeBytesDiff(CallTreeDiff):
    """The same for amounts that are bytes."""

    COLUMNS: ClassVar[tuple[Column, ...]] = _change_columns(Unit.BYTES)


@dataclass(frozen=True, kw_only=True)
class CallTreeSecondsDiff(CallTreeDiff):
    """The same for amounts that are seconds."""

    COLUMNS: ClassVar[tuple[Column, ...]] = _change_columns(Unit.SECONDS)


_DECIMALS = 9


def _difference(base: float, head: float) -> float:
    """Return head minus base; seconds without the noise of binary fractions."""
    return round(head - base, _DECIMALS)


def call_tree_diff(base: CallTree, head: CallTree) -> CallTreeDiff:
    """Return the differences of two trees.

    Raises:
        UsageError: If their measures differ.
    """
    if base.measure != head.measure:
        raise UsageError(f"trees of {base.measure} and of {head.measure} cannot be compared")
    merged = _Merged()
    base_frames, head_frames = _common_frames(base, head)
    merged.add(0, base, base_frames)
    merged.add(1, head, head_frames)
    make = CallTreeBytesDiff if base.measure in BYTE_MEASURES else CallTreeDiff
    make = CallTreeSecondsDiff if base.measure == SECONDS else make
    changes = sorted(
        merged.changes((base, head)),
        key=lambda c: (-abs(c.delta), c.path, c.place or "", c.status),
    )
    return make(
        changes=tuple(changes),
        base_total=in_unit(base.total, base.measure),
        head_total=in_unit(head.total, base.measure),
        base_residuals=sum(amount for _, amount in base.residuals),
        head_residuals=sum(amount for _, amount in head.residuals),
    )


def _common_frames(base: CallTree, head: CallTree) -> tuple[list[int], list[int]]:
    """Return a number for each function of both trees, equal for the same function."""
    share = {f.file for f in base.frames} & {f.file for f in head.frames} - {None}
    if share:
        joint = Places([*base.frames, *head.frames])
        places = (joint, joint)
    else:
        places = (Places(base.frames), Places(head.frames))
    lines: dict[tuple[str, str | None], tuple[set[int], set[int]]] = {}
    for side, tree in enumerate((base, head)):
        for frame in tree.frames:
            key = (frame.function, places[side].file(frame))
            lines.setdefault(key, (set(), set()))[side].add(frame.line or 0)
    moved = {key: _moved(*both) for key, both in lines.items()}
    numbers: dict[tuple[str, str | None, int], int] = {}

    def number(side: int, frame: CallFrame) -> int:
        name = (frame.function, places[side].file(frame))
        line = frame.line or 0
        if side == 1:
            line = moved[name].get(line, line)
        return numbers.setdefault((*name, line), len(numbers))

    return [number(0, f) for f in base.frames], [number(1, f) for f in head.frames]


def _moved(base: set[int], head: set[int]) -> dict[int, int]:
    """Return the base line of each head line of a name, where both are the same function."""
    same = {line: line for line in base & head}
    left, right = sorted(base - head), sorted(head - base)
    if len(left) == len(right):
        same.update(zip(right, left, strict=True))
    return same


@dataclass(slots=True)
class _Merged:
    """Both trees by path, in preorder of their first nodes."""

    known: dict[tuple[int, int], int] = field(default_factory=dict)
    parents: list[int] = field(default_factory=list)
    own: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    first: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))

    def add(self, side: int, tree: CallTree, frames: Sequence[int]) -> None:
        """Add the nodes of one tree."""
        place = [NO_PARENT] * len(tree)
        for node, frame in enumerate(tree.frame_ids):
            above = tree.parents[node]
            parent = place[above] if above >= 0 else NO_PARENT
            at = self.known.setdefault((parent, frames[frame]), len(self.parents))
            if at == len(self.parents):
                self.parents.append(parent)
                for column in (*self.own, *self.first):
                    column.append(0)
                for column in self.first:
                    column[at] = NO_PARENT
            place[node] = at
            self.own[side][at] += tree.own[node]
            if self.first[side][at] < 0:
                self.first[side][at] = node

    def changes(self, trees: tuple[CallTree, CallTree]) -> Iterator[CallChange]:
        """Yield the differences."""
        totals = tuple(with_below(own, self.parents) for own in self.own)
        for at, parent in enumerate(self.parents):
            nodes = (self.first[0][at], self.first[1][at])
            if nodes[0] >= 0 and nodes[1] >= 0:
                base, head = self.own[0][at], self.own[1][at]
                if base != head:
                    yield _change("changed", trees, nodes, base, head)
                continue
            above = parent < 0 or (self.first[0][parent] >= 0 and self.first[1][parent] >= 0)
            if above:
                status: Status = "removed" if nodes[1] < 0 else "added"
                yield _change(status, trees, nodes, totals[0][at], totals[1][at])


def _change(
    status: Status, trees: tuple[CallTree, CallTree], nodes: tuple[int, int], base: int, head: int
) -> CallChange:
    side = 0 if status == "removed" else 1
    tree, node = trees[side], nodes[side]
    frame = tree.frame(node)
    lines = [t.lines[n] if n >= 0 and t.lines else None for t, n in zip(trees, nodes, strict=True)]
    return CallChange(
        status=status,
        base=in_unit(base, tree.measure),
        head=in_unit(head, tree.measure),
        function=frame.function,
        place=frame.place,
        path=path_text(tree, node),
        base_line=lines[0],
        head_line=lines[1],
    )
