"""Nodes of a call tree grouped by function, file or package.

Own amounts of all groups sum to the tree's total. The amount with all below counts a group that
calls itself once: only its outermost nodes, so that no group has more than the whole tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.call_trees.call_tree import SECONDS, in_unit
from hlo_lens.call_trees.source_files import Places
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.call_trees.call_tree import CallTree

CHOICES = ("function", "file", "package")
SORTS = ("own", "total")

BYTE_MEASURES = ("memory", "wire-bytes")
"""Measures whose amounts are bytes."""


@dataclass(frozen=True, slots=True)
class CallGroup:
    """Nodes of one function, file or package; fields are the columns of `CallTreeBy`.

    A group of files has no function and line, one of packages no file either.
    """

    own: float
    total: float
    share: float | None
    nodes: int
    callers: int
    function: str | None
    file: str | None
    line: int | None
    package: str
    unknown: int = 0


def _columns(unit: Unit) -> tuple[Column, ...]:
    return (
        Column("own", unit, "own amounts of the nodes"),
        Column("total", unit, "amounts with all below them, recursion once"),
        Column("share", Unit.RATIO, "share of the whole tree at or below them, 0 to 1"),
        Column("nodes", Unit.COUNT, "number of nodes"),
        Column("callers", Unit.COUNT, "functions of other groups that call them"),
        Column("function", Unit.NONE, "function"),
        Column("file", Unit.NONE, "its file, relative to the program's folder"),
        Column("line", Unit.NONE, "its line"),
        Column("package", Unit.NONE, "folder of the file"),
        Column("unknown", Unit.COUNT, "items with an unknown amount"),
    )


@dataclass(frozen=True, kw_only=True)
class CallTreeBy(Result):
    """Groups of nodes, largest first.

    Attributes:
        by: ``function``, ``file`` or ``package``.
        groups: The groups.
        total: Sum of the tree.
        residuals: Bracketed label and amount of items without a node.
    """

    KIND: ClassVar[str] = "call-tree-by"
    COLUMNS: ClassVar[tuple[Column, ...]] = _columns(Unit.COUNT)
    RECORDS: ClassVar[str] = "groups"
    by: str
    groups: tuple[CallGroup, ...]
    total: float
    residuals: tuple[tuple[str, int], ...] = ()

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the amounts without a node."""
        return tuple(
            (amount, amount, _share(amount, self.total), 0, 0, label, None, None, label, 0)
            for label, amount in self.residuals
        )

    def totals(self) -> Mapping[str, float]:
        """Return the sum of the tree, and the number of nodes."""
        return {"own": self.total, "nodes": sum(group.nodes for group in self.groups)}


@dataclass(frozen=True, kw_only=True)
class CallTreeBytesBy(CallTreeBy):
    """The same for amounts that are bytes."""

    COLUMNS: ClassVar[tuple[Column, ...]] = _columns(Unit.BYTES)


@dataclass(frozen=True, kw_only=True)
class CallTreeSecondsBy(CallTreeBy):
    """The same for amounts that are seconds."""

    COLUMNS: ClassVar[tuple[Column, ...]] = _columns(Unit.SECONDS)


def _share(amount: float, whole: float) -> float | None:
    return amount / whole if whole else None


def call_tree_by(tree: CallTree, by: str = "function", *, sort: str = "own") -> CallTreeBy:
    """Return the nodes of a tree in groups.

    Args:
        tree: The tree.
        by: One of `CHOICES`.
        sort: ``own`` or ``total``: sort key, largest first.
    """
    places, whole = Places(tree.frames), tree.total
    keys, group_of = _group_of_frames(tree, places, by)
    sums = _sums(tree, group_of, len(keys))
    groups = [
        CallGroup(
            in_unit(own, tree.measure),
            in_unit(total, tree.measure),
            _share(total, whole),
            nodes,
            callers,
            function,
            file,
            line,
            package,
            unknown,
        )
        for (function, file, line, package), own, total, nodes, callers, unknown in zip(
            keys, *sums, strict=True
        )
    ]
    names = ("own", "total") if sort == "own" else ("total", "own")
    groups.sort(key=lambda g: (g.package, g.file or "", g.line or 0, g.function or ""))
    groups.sort(key=lambda g: [-getattr(g, name) for name in names])
    make = CallTreeBytesBy if tree.measure in BYTE_MEASURES else CallTreeBy
    make = CallTreeSecondsBy if tree.measure == SECONDS else make
    return make(
        by=by,
        groups=tuple(groups),
        total=in_unit(whole, tree.measure),
        residuals=tree.residuals,
    )


Key = tuple[str | None, str | None, int | None, str]


def _group_of_frames(tree: CallTree, places: Places, by: str) -> tuple[list[Key], list[int]]:
    """Return the groups, and for each function the number of its group."""
    numbers: dict[Key, int] = {}
    group_of = []
    for frame in tree.frames:
        package, file = places.package(frame), places.file(frame)
        key: Key = (None, None, None, package)
        if by == "file":
            key = (None, file, None, package)
        elif by == "function":
            key = (frame.function, file, frame.line, package)
        group_of.append(numbers.setdefault(key, len(numbers)))
    return list(numbers), group_of


def _sums(
    tree: CallTree, group_of: Sequence[int], groups: int
) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """Return own amount, amount with all below, nodes, callers and unknowns of each group."""
    own, total, nodes = [0] * groups, [0] * groups, [0] * groups
    unknown, covered = [0] * groups, [0] * groups
    callers: list[set[int]] = [set() for _ in range(groups)]
    ends, totals, frame_ids = tree.ends, tree.totals, tree.frame_ids
    for node, frame in enumerate(frame_ids):
        group = group_of[frame]
        own[group] += tree.own[node]
        nodes[group] += 1
        if tree.unknown:
            unknown[group] += tree.unknown[node]
        if node >= covered[group]:
            covered[group] = ends[node]
            total[group] += totals[node]
        parent = tree.parents[node]
        if parent >= 0 and group_of[frame_ids[parent]] != group:
            callers[group].add(frame_ids[parent])
    return own, total, nodes, [len(found) for found in callers], unknown
