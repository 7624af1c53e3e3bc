"""Groups of calls, equal subtrees, outline, folded stacks, and differences of two trees."""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

from hlo_lens.call_trees.tree import BYTE_MEASURES, NO_PARENT, Places, path_text, with_below
from hlo_lens.render.result import Column, Records, Row, Unit, columns_of
from hlo_lens.text.errors import UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.call_trees.tree import CallTree

# ---- groups -------------------------------------------------------------------------------------


class CallGroup(NamedTuple):
    """Nodes of one function, file or package.

    A group of files has no function and line, one of packages no file either.
    """

    own: Annotated[int, Unit.COUNT, "own amounts of the nodes"]
    total: Annotated[int, Unit.COUNT, "amounts with all below them, recursion once"]
    share: Annotated[float | None, Unit.RATIO, "share of the whole tree at or below them, 0 to 1"]
    nodes: Annotated[int, Unit.COUNT, "number of nodes"]
    callers: Annotated[int, Unit.COUNT, "functions of other groups that call them"]
    function: Annotated[str | None, "function"]
    file: Annotated[str | None, "its file, relative to the program's folder"]
    line: Annotated[int | None, "its line"]
    package: Annotated[str, "folder of the file"]
    unknown: Annotated[int, Unit.COUNT, "items with an unknown amount"] = 0


def _in_bytes(record: type, *names: str) -> tuple[Column, ...]:
    """Return the columns of a record, some of which count bytes."""
    columns = columns_of(record)
    return tuple(replace(c, unit=Unit.BYTES) if c.name in names else c for c in columns)


@dataclass(frozen=True, kw_only=True)
class CallTreeBy(Records[CallGroup]):
    """Groups of nodes, largest first.

    Attributes:
        groups: The groups.
        by: ``function``, ``file`` or ``package``.
        total: Sum of the tree.
        residuals: Bracketed label and amount of items without a node.
    """

    KIND: ClassVar[str] = "call-tree-by"
    TOTALS: ClassVar[tuple[str, ...]] = ("own", "nodes")
    groups: tuple[CallGroup, ...]
    by: str
    total: int
    residuals: tuple[tuple[str, int], ...] = ()

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the amounts without a node."""
        return tuple(
            (amount, amount, _share(amount, self.total), 0, 0, label, None, None, label, 0)
            for label, amount in self.residuals
        )


@dataclass(frozen=True, kw_only=True)
class CallTreeBytesBy(CallTreeBy):
    """The same for amounts that are bytes."""

    COLUMNS: ClassVar[tuple[Column, ...]] = _in_bytes(CallGroup, "own", "total")


def _share(amount: int, whole: int) -> float | None:
    return amount / whole if whole else None


def call_tree_by(tree: CallTree, by: str = "function", *, sort: str = "own") -> CallTreeBy:
    """Return the nodes of a tree in groups.

    Own amounts of all groups sum to the tree's total. The amount with all below counts a group that
    calls itself once: only its outermost nodes, so that no group has more than the whole tree.

    Args:
        tree: The tree.
        by: ``function``, ``file`` or ``package``.
        sort: ``own`` or ``total``: sort key, largest first.
    """
    places, whole = tree.places, tree.total
    numbers: dict[tuple[str | None, str | None, int | None, str], int] = {}
    group_of = []  # of each function
    for frame in tree.frames:
        function = frame.function if by == "function" else None
        file = places.file(frame) if by != "package" else None
        line = frame.line if by == "function" else None
        key = (function, file, line, places.package(frame))
        group_of.append(numbers.setdefault(key, len(numbers)))

    own, total, nodes, unknown, covered = ([0] * len(numbers) for _ in range(5))
    callers: list[set[int]] = [set() for _ in numbers]
    ends, totals, frame_ids = tree.ends, tree.totals, tree.frame_ids
    for node, frame_id in enumerate(frame_ids):
        group = group_of[frame_id]
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

    groups = [
        CallGroup(
            own[k], total[k], _share(total[k], whole), nodes[k], len(callers[k]), *key, unknown[k]
        )
        for key, k in numbers.items()
    ]
    groups.sort(key=lambda g: (g.package, g.file or "", g.line or 0, g.function or ""))
    groups.sort(key=lambda g: (-g.own, -g.total) if sort == "own" else (-g.total, -g.own))
    make = CallTreeBytesBy if tree.measure in BYTE_MEASURES else CallTreeBy
    return make(by=by, groups=tuple(groups), total=whole, residuals=tree.residuals)


# ---- equal subtrees -----------------------------------------------------------------------------

_SMALLEST = 3
"""Nodes of the smallest repeated subtree that is reported."""

_NOT_SEEN = -2


class RepeatedSubtree(NamedTuple):
    """A subtree that occurs more than once."""

    times: Annotated[int, Unit.COUNT, "number of occurrences in the drawing"]
    nodes: Annotated[int, Unit.COUNT, "nodes of each"]
    share: Annotated[float, Unit.RATIO, "share of the tree's nodes in all occurrences, 0 to 1"]
    function: Annotated[str, "function at its top"]
    place: Annotated[str | None, "file and line of that function"]
    line: Annotated[int | None, "line of the text that draws the first of them"]


@dataclass(frozen=True, kw_only=True)
class CallTreeRepeats(Records[RepeatedSubtree]):
    """Subtrees that occur more than once, those with the most nodes in all first.

    A subtree that only occurs inside those of another row is left out. There are no
    totals, as rows may overlap.
    """

    KIND: ClassVar[str] = "call-tree-repeats"
    found: tuple[RepeatedSubtree, ...]


def call_tree_repeats(tree: CallTree) -> CallTreeRepeats:
    """Return the repeated subtrees of a tree."""
    shapes = tree.shapes
    count = 1 + max(shapes, default=-1)
    times, first = [0] * count, [0] * count
    holders = [_NOT_SEEN] * count  # the shape around all occurrences, or NO_PARENT
    for node in range(len(tree) - 1, -1, -1):
        shape, parent = shapes[node], tree.parents[node]
        times[shape] += 1
        first[shape] = node
        holder = shapes[parent] if parent >= 0 else NO_PARENT
        holders[shape] = holder if holders[shape] in (_NOT_SEEN, holder) else NO_PARENT
    rows = []
    for shape, node in enumerate(first):
        nodes, holder = tree.ends[node] - node, holders[shape]
        is_inside = holder >= 0 and times[holder] == times[shape]
        if times[shape] > 1 and nodes >= _SMALLEST and not is_inside:
            frame = tree.frame(node)
            share = times[shape] * nodes / len(tree)
            place, line = tree.places.place(frame), tree.line(node)
            rows.append(RepeatedSubtree(times[shape], nodes, share, frame.function, place, line))
    rows.sort(key=lambda row: (-row.times * row.nodes, row.function, row.line or 0))
    return CallTreeRepeats(found=tuple(rows))


# ---- outline ------------------------------------------------------------------------------------

OTHERS = -1


@dataclass(slots=True, kw_only=True)
class OutlineLine:
    """A line of an outline: consecutive siblings with equal subtrees, or nodes left out.

    The line is below the first node of the line above, so that each of its nodes counts for all
    nodes of that line.

    Attributes:
        node: First of the identical nodes; `OTHERS` for nodes left out.
        depth: 0 for outermost nodes.
        is_last: Whether it is the last below its parent.
        times: Number of identical nodes for each node of the line above; of `OTHERS`, the number
            of nodes left out.
        own: Their own amounts; 0 for `OTHERS`.
        total: Their amounts with all below.
        unknown: Number of items, all below included, with an unknown amount.
        shown: Lines below it that are shown.
        hidden: Lines below it that are left out.
    """

    node: int
    depth: int
    is_last: bool = False
    times: int = 1
    own: int = 0
    total: int = 0
    unknown: int = 0
    factor: int = 1
    shown: list[OutlineLine] = field(default_factory=list, repr=False)
    hidden: list[OutlineLine] = field(default_factory=list, repr=False)


def call_tree_outline(
    tree: CallTree, *, lines: int = 0, depth: int | None = None
) -> Iterator[OutlineLine]:
    """Yield the outline of a tree, its largest nodes, in the order of the tree.

    From the root on, the node with the largest amount, all below it included, is shown next, until
    there are enough; nodes left out are counted below their parent.

    Args:
        tree: The tree.
        lines: Number of nodes to show at most; 0 for all.
        depth: Number of levels to show at most; None for all.
    """
    top = OutlineLine(node=NO_PARENT, depth=-1)
    waiting = [(-run.total, run.node, run, top) for run in _runs(tree, tree.roots, top)]
    heapq.heapify(waiting)
    room = lines or len(tree)
    while waiting and room:
        _, _, run, parent = heapq.heappop(waiting)
        room -= 1
        parent.shown.append(run)
        below = _runs(tree, tree.children(run.node), run)
        if depth is not None and run.depth + 1 >= depth:
            run.hidden = below
            continue
        for child in below:
            heapq.heappush(waiting, (-child.total, child.node, child, run))
    for _, _, run, parent in waiting:
        parent.hidden.append(run)

    stack = _below(top)
    while stack:
        line = stack.pop()
        yield line
        stack += _below(line)


def _runs(tree: CallTree, nodes: Iterable[int], above: OutlineLine) -> list[OutlineLine]:
    """Return siblings, consecutive ones with equal subtrees as one."""
    shapes, runs = tree.shapes, list[OutlineLine]()
    factor = above.factor * above.times
    for node in nodes:
        if runs and shapes[runs[-1].node] == shapes[node]:
            runs[-1].times += 1
        else:
            runs.append(OutlineLine(node=node, depth=above.depth + 1, factor=factor))
        runs[-1].own += factor * tree.own[node]
        runs[-1].total += factor * tree.totals[node]
        runs[-1].unknown += factor * tree.unknown_totals[node] if tree.unknown else 0
    return runs


def _below(line: OutlineLine) -> list[OutlineLine]:
    """Return the lines below a line, last first: those shown, and one for those left out.

    If nothing below is shown, the line with the rest is omitted too; a single one left out is
    shown.
    """
    shown, hidden = line.shown, line.hidden
    if len(hidden) == 1 and shown:
        shown, hidden = [*shown, *hidden], []
    lines = sorted(shown, key=lambda run: run.node, reverse=True)
    if hidden and shown:
        others = OutlineLine(
            node=OTHERS,
            depth=line.depth + 1,
            times=sum(run.times for run in hidden),
            total=sum(run.total for run in hidden),
            unknown=sum(run.unknown for run in hidden),
        )
        lines.insert(0, others)
    for number, run in enumerate(lines):
        run.is_last = not number
    return lines


# ---- nodes by path ------------------------------------------------------------------------------

PathNodes = dict[tuple[int, int], int]
"""Nodes of a tree in which equal calls of one caller are one: caller and function to number."""


def merge_paths(
    nodes: PathNodes, tree: CallTree, frames: Sequence[int], depth: int | None = None
) -> list[int]:
    """Add the nodes of a tree to nodes by path; return the number of each.

    Args:
        nodes: The nodes by path so far.
        tree: The tree.
        frames: Number of each of its functions.
        depth: Deepest level with nodes of its own; deeper ones are their caller there.
    """
    numbers: list[int] = []
    for node, parent in enumerate(tree.parents):
        above = numbers[parent] if parent >= 0 else NO_PARENT
        if depth is not None and parent >= 0 and tree.depths[node] >= depth:
            numbers.append(above)
        else:
            numbers.append(nodes.setdefault((above, frames[tree.frame_ids[node]]), len(nodes)))
    return numbers


MOST_FOLDED = 1 << 30
"""Most characters of folded stacks; for a deep tree they grow with the square of its depth."""


def folded_stacks(tree: CallTree, *, depth: int | None = None) -> list[str]:
    """Return the folded stacks of a tree, the input of flame graphs.

    Each has the functions of a stack, outermost first, joined by semicolons, then a blank and the
    stack's own amount. A semicolon in a name becomes a colon and a line end a blank, as in
    stackcollapse-perf.pl of Brendan Gregg's FlameGraph. Equal stacks are one, in the order of
    their first node; bracketed residuals are stacks of their own.

    Args:
        tree: The tree.
        depth: Deepest level with names of its own; deeper nodes count for their caller there.

    Raises:
        UsageError: If they have more than `MOST_FOLDED` characters.
    """
    texts = (tree.places.text(frame) or "?" for frame in tree.frames)
    names = [printable(" ".join(text.replace(";", ":").split())) for text in texts]
    nodes: PathNodes = {}
    own: dict[int, int] = {}
    for node, number in enumerate(merge_paths(nodes, tree, range(len(names)), depth)):
        own[number] = own.get(number, 0) + tree.own[node]

    lengths: list[int] = []
    for parent, frame in nodes:
        lengths.append(len(names[frame]) + 1 + (lengths[parent] if parent >= 0 else 0))
    size = sum(length for number, length in enumerate(lengths) if own[number])
    if size > MOST_FOLDED:
        raise UsageError(f"the folded stacks take {size / 1e9:.1f} GB; cut them with --depth")
    callers = list(nodes)
    folded = []
    for number in range(len(nodes)):
        if own[number]:
            stack = []
            at = number
            while at >= 0:
                at, frame = callers[at]
                stack.append(names[frame])
            folded.append(f"{';'.join(reversed(stack))} {own[number]}")
    return folded + [f"{label} {amount}" for label, amount in tree.residuals if amount]


# ---- differences --------------------------------------------------------------------------------


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
        residuals: Sums of the amounts without a node in the base tree and in the head tree.
    """

    KIND: ClassVar[str] = "call-tree-diff"
    TOTALS: ClassVar[tuple[str, ...]] = ("delta",)
    changes: tuple[CallChange, ...]
    residuals: tuple[int, int] = (0, 0)

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the difference of the amounts without a node."""
        base, head = self.residuals
        if base == head:
            return ()
        return (("changed", base, head, head - base, "[without a stack]", None, None, None, None),)


@dataclass(frozen=True, kw_only=True)
class CallTreeBytesDiff(CallTreeDiff):
    """The same for amounts that are bytes."""

    COLUMNS: ClassVar[tuple[Column, ...]] = _in_bytes(CallChange, "base", "head", "delta")


def call_tree_diff(base: CallTree, head: CallTree) -> CallTreeDiff:
    """Return the differences of two trees.

    Both are first merged by path: equal calls of one caller are one, in any order. A function is
    the same in both if name, file and line are equal; where the lines of a name in a file differ,
    the k-th of one is the k-th of the other if both have as many, so that a function may move
    within its file. Files are compared as written if the trees share one, else relative to the
    folder of each, so that traces of two checkouts can be compared.

    A path of one tree only is one row for its whole subtree; a path of both is a row with the
    change of its own amount. The deltas of all rows sum to the difference of the totals, and the
    diff of b and a is that of a and b with base and head exchanged.

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
    base_rest, head_rest = (sum(amount for _, amount in tree.residuals) for tree in (base, head))
    return make(changes=tuple(changes), residuals=(base_rest, head_rest))


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
        nodes_of = first[0].get(number), first[1].get(number)
        sides = [side for side in (0, 1) if nodes_of[side] is not None]
        status: Literal["added", "removed", "changed"] = "changed"
        amounts_of = own
        if len(sides) == 1:
            if parent >= 0 and not (parent in first[0] and parent in first[1]):
                continue  # in the subtree of another row
            status, amounts_of = ("added" if sides[0] else "removed"), totals
        base, head = amounts_of[0][number], amounts_of[1][number]
        if status == "changed" and base == head:
            continue
        side = sides[-1]
        tree, node = trees[side], first[side][number]
        base_line, head_line = (
            None if at is None else one.line(at) for one, at in zip(trees, nodes_of, strict=True)
        )
        frame = tree.frame(node)
        yield CallChange(
            *(status, base, head, head - base, frame.function, frame.place),
            *(path_text(tree, node), base_line, head_line),
        )


def _common_frames(base: CallTree, head: CallTree) -> tuple[list[int], list[int]]:
    """Return a number for each function of both trees, equal for the same function."""
    trees = (base, head)
    places = [Places([*base.frames, *head.frames])] * 2
    if not {f.file for f in base.frames} & {f.file for f in head.frames} - {None}:
        places = [base.places, head.places]
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
