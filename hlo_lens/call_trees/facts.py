"""Groups of calls, outline, folded stacks, and calls that communicate.

A function communicates by its name, one with an ambiguous name also by its file; the handbook has
the table. The caller of such a call is the innermost function above it that neither communicates
nor dispatches, often the operator's method; its model line is the innermost function above it in
the program: files that are not installed, in other folders than those with communication.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.call_trees.tree import BYTE_MEASURES, NO_PARENT, Places, path_text
from hlo_lens.render.result import Column, Records, Row, Unit, columns_of
from hlo_lens.text.errors import UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.call_trees.tree import CallFrame, CallTree


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


@dataclass(frozen=True, kw_only=True)
class CallTreeBy(Records[CallGroup]):
    """Groups of nodes, largest first."""

    KIND: ClassVar[str] = "call-tree-by"
    TOTALS: ClassVar[tuple[str, ...]] = ("own", "nodes")
    groups: tuple[CallGroup, ...]
    by: str
    total: int
    residuals: tuple[tuple[str, int], ...] = ()

    def residual_rows(self) -> tuple[Row, ...]:
        return tuple(
            (amount, amount, _share(amount, self.total), 0, 0, label, None, None, label, 0)
            for label, amount in self.residuals
        )


@dataclass(frozen=True, kw_only=True)
class CallTreeBytesBy(CallTreeBy):
    """The same for amounts that are bytes."""

    COLUMNS: ClassVar[tuple[Column, ...]] = tuple(
        replace(column, unit=Unit.BYTES) if column.name in ("own", "total") else column
        for column in columns_of(CallGroup)
    )


def _share(amount: int, whole: int) -> float | None:
    return amount / whole if whole else None


def call_tree_by(tree: CallTree, by: str = "function", *, sort: str = "own") -> CallTreeBy:
    """Return the nodes of a tree in groups.

    Own amounts of all groups sum to the tree's total. The amount with all below counts a group that
    calls itself once: only its outermost nodes, so that no group has more than the whole tree.
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


OTHERS = -1


@dataclass(slots=True, kw_only=True)
class OutlineLine:
    """A line of an outline: consecutive siblings with equal subtrees, or nodes left out.

    The line is below the first node of the line above, so that each of its nodes counts for all
    nodes of that line.

    Attributes:
        node: First of the identical nodes; `OTHERS` for nodes left out.
        depth: 0 for outermost nodes.
        times: Number of identical nodes for each node of the line above; of `OTHERS`, the number
            of nodes left out.
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


PathNodes = dict[tuple[int, int], int]
"""Nodes of a tree in which equal calls of one caller are one: caller and function to number."""

MOST_FOLDED = 1 << 30
"""Most characters of folded stacks; for a deep tree they grow with the square of its depth."""


def folded_stacks(tree: CallTree, *, depth: int | None = None) -> list[str]:
    """Return the folded stacks of a tree, the input of flame graphs.

    Each has the functions of a stack, outermost first, joined by semicolons, then a blank and the
    stack's own amount. A semicolon in a name becomes a colon and a line end a blank, as in
    stackcollapse-perf.pl of Brendan Gregg's FlameGraph. Equal stacks are one, in the order of
    their first node; bracketed residuals are stacks of their own.

    Raises:
        UsageError: If they have more than `MOST_FOLDED` characters.
    """
    texts = (tree.places.text(frame) or "?" for frame in tree.frames)
    names = [printable(" ".join(text.replace(";", ":").split())) for text in texts]
    nodes: PathNodes = {}
    own: dict[int, int] = {}
    numbers: list[int] = []
    for node, (parent, frame_id) in enumerate(zip(tree.parents, tree.frame_ids, strict=True)):
        number = numbers[parent] if parent >= 0 else NO_PARENT
        if depth is None or parent < 0 or tree.depths[node] < depth:
            number = nodes.setdefault((number, frame_id), len(nodes))
        numbers.append(number)
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


COLLECTIVE, REDISTRIBUTION = "collective", "redistribution"

_OPERATIONS = (
    "all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|ragged_all_to_all|collective_permute"
    "|collective_broadcast|psum|psum_scatter|pmean|pmax|pmin|ppermute|pshuffle|pbroadcast"
    "|batch_isend_irecv"
)
_FORMS = (
    "into_tensor|tensors?|single|coalesced|base|object|list|async|autograd|inplace|out|start|bind"
    "|invariant|reduced|v|vdim|multigpu|in_group|internal|p|impl|sum|max|min|avg|fwd|bwd"
)
_FRAMEWORKS = "mesh|nccl|c10d|dist|functional|xla|mpi|gloo|ring|p2p|comm|torch|lax"

_COLLECTIVE = re.compile(
    rf"(?:{_FRAMEWORKS})?_*(?:{_OPERATIONS})(?:_+(?:{_FORMS}))*_*\Z", re.IGNORECASE
)
_SHORT = re.compile(
    rf"(?:(?P<sure>mesh|nccl|mpi|c10d|dist|p2p)_+)?i?(?:broadcast|scatter|gather|reduce|send|recv"
    rf"|barrier|permute)(?:_+(?:{_FORMS}))*_*\Z",
    re.IGNORECASE,
)
"""Ambiguous names: they count only with the prefix or the file given."""

_DISTRIBUTED = re.compile(
    r"distributed|c10d|nccl|gloo|(?:^|[/_.])(?:collectives?|mpi|mpi4py|comms?)(?:[/_.]|$)"
)
_REDISTRIBUTION = re.compile(
    r"(?:redistribute(?:_\w+)?|reshard(?:_\w+)?|unshard|distribute_(?:tensor|module|parameters?)"
    r"|replicate_tensor|scatter_tensor_by_shard|reduce_scatter_to_shard\w*)\Z",
    re.IGNORECASE,
)
_REDISTRIBUTE_FILE = re.compile(r"(?:^|/)_?redistribute\.py\Z")
_STEPS = ("forward", "backward", "apply")
_NEVER = re.compile(
    r"costs?|rules?|plans?|strateg(?:y|ies)|infos?|specs?|schemas?|hooks?|placements?|sizes?|meta"
)
"""Last words of names that concern communication but do not communicate."""


def communication_kind(frame: CallFrame) -> str | None:
    """Return the kind of communication of a function; None if it does not communicate."""
    parts = frame.function.split(".")
    name = parts[-1] if parts[-1] not in ("default", "out") or len(parts) == 1 else parts[-2]
    name = name.lstrip("_")
    file = (frame.file or "").replace("\\", "/")
    if name and not _NEVER.fullmatch(name.rstrip("_").rpartition("_")[2].lower()):
        short = _SHORT.match(name)
        if _COLLECTIVE.match(name) or (
            short and (short["sure"] or _DISTRIBUTED.search(f"{file}/{frame.function}"))
        ):
            return COLLECTIVE
        is_step = name in _STEPS and (_REDISTRIBUTE_FILE.search(file) or "Redistribute" in parts)
        if is_step or _REDISTRIBUTION.match(name):
            return REDISTRIBUTION
    return None


_DISPATCH = re.compile(r"(?:__torch_(?:dispatch|function)__|_*(?:\w+_)?dispatch)\Z")


class Communication(NamedTuple):
    """Calls of one communicating function by one caller, from one line of the model.

    Caller and model have the last part of their places: ``name, file:line``; the places are
    relative to the program's folder.
    """

    calls: Annotated[int, Unit.COUNT, "number of calls"]
    collectives: Annotated[int, Unit.COUNT, "collectives at or below them"]
    idle: Annotated[int, Unit.COUNT, "calls that lead to no collective"]
    function: Annotated[str, "function that triggers communication"]
    caller: Annotated[str | None, "innermost function above that is no communication"]
    model: Annotated[str | None, "innermost function of the program above it"]
    leads_to: Annotated[str, "collectives with their numbers of calls"]
    path: Annotated[str, "functions from the model line to it"]
    kind: Annotated[str, "collective or redistribution"]
    line: Annotated[int | None, "line of the text that draws the first of them"]
    function_place: Annotated[str | None, "file and line of the function"]
    model_place: Annotated[str | None, "file and line of the model function"]
    caller_place: Annotated[str | None, "file and line of the caller"]


@dataclass(frozen=True, kw_only=True)
class CommunicationPaths(Records[Communication]):
    """Calls that trigger communication: those below no other such call.

    Those with the most collectives come first.
    """

    KIND: ClassVar[str] = "communication-paths"
    TOTALS: ClassVar[tuple[str, ...]] = ("calls", "idle", "collectives")
    found: tuple[Communication, ...]
    collectives: Mapping[str, int]


def communication_paths(tree: CallTree) -> CommunicationPaths:
    """Return the calls of a tree that trigger communication, by caller and model line."""
    places, frames = tree.places, tree.frames
    kinds = [communication_kind(frame) for frame in frames]
    outermost = _outermost(tree, 0, len(tree), lambda frame: kinds[frame] is not None)
    counts: Counter[str] = Counter()
    for node, frame_id in enumerate(tree.frame_ids):
        if kinds[frame_id] == COLLECTIVE:
            counts[frames[frame_id].function] += tree.own[node]
    outside = [
        not kind and not _DISPATCH.match(frame.function)
        for kind, frame in zip(kinds, frames, strict=True)
    ]
    callers = _nearest_above(tree, outside)
    models = _nearest_above(tree, _in_program(tree, kinds, places))

    groups: dict[tuple[int, ...], list[int]] = {}
    for node in outermost:
        near = (tree.frame_ids[at] if at >= 0 else at for at in (callers[node], models[node]))
        groups.setdefault((tree.frame_ids[node], *near), []).append(node)
    found = []
    for (function_id, caller_id, model_id), nodes in groups.items():
        function, first = frames[function_id], nodes[0]
        caller = frames[caller_id] if caller_id >= 0 else None
        model = frames[model_id] if model_id >= 0 else None
        collectives: Counter[str] = Counter()
        idle = 0
        for node in nodes:
            # a collective that another one calls is part of it
            below = _outermost(tree, node, tree.ends[node], lambda f: kinds[f] == COLLECTIVE)
            idle += 0 if below else tree.own[node]
            for at in below:
                collectives[tree.frame(at).function] += tree.own[at]
        leads_to = [f"{name} x{count}" for name, count in _ranked(collectives).items()]
        found.append(
            Communication(
                calls=sum(tree.own[node] for node in nodes),
                idle=idle,
                function=function.function,
                kind=kinds[function_id] or "",
                caller=_short(caller),
                model=_short(model),
                function_place=places.place(function),
                caller_place=None if caller is None else places.place(caller),
                model_place=None if model is None else places.place(model),
                collectives=collectives.total(),
                leads_to=", ".join(leads_to),
                path=path_text(tree, first, models[first]),
                line=tree.line(first),
            )
        )
    found.sort(key=lambda one: (-one.collectives, -one.calls, one.function, one.line or 0))
    return CommunicationPaths(found=tuple(found), collectives=_ranked(counts))


def _outermost(tree: CallTree, node: int, end: int, chosen: Callable[[int], bool]) -> list[int]:
    nodes = []
    frame_ids = tree.frame_ids
    while node < end:
        if chosen(frame_ids[node]):
            nodes.append(node)
            node = tree.ends[node]
        else:
            node += 1
    return nodes


def _in_program(tree: CallTree, kinds: Sequence[str | None], places: Places) -> list[bool]:
    busy = [frame for frame, kind in zip(tree.frames, kinds, strict=True) if kind]
    machinery = {places.top(frame) for frame in busy}
    own = [places.is_own(f) and places.top(f) not in machinery for f in tree.frames]
    if any(own):
        return own
    homes = {places.package(tree.frame(root)) for root in tree.roots}
    files = {frame.file for frame in busy}
    return [
        places.is_own(f) and places.package(f) in homes and f.file not in files for f in tree.frames
    ]


def _nearest_above(tree: CallTree, chosen: Sequence[bool]) -> list[int]:
    nearest = [NO_PARENT] * len(tree)
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            nearest[node] = parent if chosen[tree.frame_ids[parent]] else nearest[parent]
    return nearest


def _ranked(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _short(frame: CallFrame | None) -> str | None:
    if frame is None:
        return None
    place = (frame.place or "").replace("\\", "/").rpartition("/")[2]
    return ", ".join(part for part in (frame.function, place) if part)
