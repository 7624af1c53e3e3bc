"""Calls of a trace that redistribute arrays or run collectives, with their callers.

A function counts by its name, an ambiguous name also by its file; the handbook has the table.

The caller of such a call is the innermost function above it that neither communicates nor
dispatches, often the operator's method; its operators are those whose sharding rule (a function in
a folder ``ops`` or ``_ops``) was called last before it, in the same dispatch; its model line is the
innermost function above it in the program: files that are not installed, in other folders than
those with communication.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.call_trees.tree import NO_PARENT, Places, path_text
from hlo_lens.render.result import Records, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hlo_lens.call_trees.tree import CallFrame, CallTree
    from hlo_lens.text.patterns import NamePattern

# ---- kinds --------------------------------------------------------------------------------------

COLLECTIVE, REDISTRIBUTION, FOUND = "collective", "redistribution", "asked for"

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
    r"costs?|rules?|plans?|strateg(?:y|ies)|infos?|specs?|schemas?|hooks?|placements?|sizes?|meta",
)
"""Last words of names that concern communication but do not communicate."""


def communication_kind(frame: CallFrame, find: NamePattern | None = None) -> str | None:
    """Return the kind of communication of a function; None if it does not communicate.

    Args:
        frame: The function.
        find: Functions that count too, as `FOUND`: searched in ``function, file:line``.
    """
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
    return FOUND if find is not None and find.found_in(str(frame)) else None


# ---- calls --------------------------------------------------------------------------------------

_DISPATCH = re.compile(r"(?:__torch_(?:dispatch|function)__|_*(?:\w+_)?dispatch)\Z")
_RULES = re.compile(r"(?:^|/)_?ops/")


class CommunicationFunction(NamedTuple):
    """A function that communicates."""

    calls: Annotated[int, Unit.COUNT, "calls, repeats counted"]
    outermost: Annotated[int, Unit.COUNT, "calls below no other such function"]
    kind: Annotated[str, "collective, redistribution, or matched by --find"]
    function: Annotated[str, "function"]
    place: Annotated[str | None, "file and line, relative to the program's folder"]


@dataclass(frozen=True, kw_only=True)
class CommunicationFunctions(Records[CommunicationFunction]):
    """Functions that communicate, collectives first, the most frequent first."""

    KIND: ClassVar[str] = "communication-functions"
    TOTALS: ClassVar[tuple[str, ...]] = ("outermost",)  # they include the calls inside them
    found: tuple[CommunicationFunction, ...]

    def counts(self, kind: str) -> dict[str, int]:
        """Return the calls of each function of a kind, the most frequent first."""
        counts: Counter[str] = Counter()
        for row in self.found:
            if row.kind == kind:
                counts[row.function] += row.calls
        return _ranked(counts)


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
    operator: Annotated[str | None, "sharding rules called before it"]
    leads_to: Annotated[str, "collectives with their numbers of calls"]
    path: Annotated[str, "functions from the model line to it"]
    kind: Annotated[str, "collective, redistribution, or matched by --find"]
    line: Annotated[int | None, "line of the text that draws the first of them"]
    function_place: Annotated[str | None, "file and line of the function"]
    model_place: Annotated[str | None, "file and line of the model function"]
    caller_place: Annotated[str | None, "file and line of the caller"]


@dataclass(frozen=True, kw_only=True)
class CommunicationPaths(Records[Communication]):
    """Calls that trigger communication: those below no other such call.

    Those with the most collectives come first.

    Attributes:
        found: The calls in groups.
        functions: All functions that communicate, nested ones too.
    """

    KIND: ClassVar[str] = "communication-paths"
    TOTALS: ClassVar[tuple[str, ...]] = ("calls", "idle", "collectives")
    found: tuple[Communication, ...]
    functions: CommunicationFunctions


def communication_paths(
    tree: CallTree, *, find: NamePattern | None = None, program: NamePattern | None = None
) -> CommunicationPaths:
    """Return the calls of a tree that trigger communication, by caller and model line.

    Args:
        tree: The tree.
        find: Functions that count too: searched in ``function, file:line``.
        program: Files of the program; None to recognize them by their folders.
    """
    places, frames = tree.places, tree.frames
    kinds = [communication_kind(frame, find) for frame in frames]
    outermost = _outermost(tree, 0, len(tree), lambda frame: kinds[frame] is not None)
    functions = _functions(tree, kinds, outermost, places)
    dispatches = [bool(_DISPATCH.match(frame.function)) for frame in frames]
    outside = [not k and not d for k, d in zip(kinds, dispatches, strict=True)]
    callers = _nearest_above(tree, outside)
    models = _nearest_above(tree, _in_program(tree, kinds, places, program))
    dispatch_of = _nearest_above(tree, dispatches)
    rule_of = _rules_before(tree, places, outermost)

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
        rules = {
            tree.frame(rule_of[node]).function
            for node in nodes
            if rule_of[node] > dispatch_of[node] >= 0
        }
        leads_to = [f"{name} x{count}" for name, count in _ranked(collectives).items()]
        found.append(
            Communication(
                calls=sum(tree.own[node] for node in nodes),
                idle=idle,
                function=function.function,
                kind=kinds[function_id] or FOUND,
                operator=", ".join(sorted(rules)) or None,
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
    return CommunicationPaths(found=tuple(found), functions=functions)


def _functions(
    tree: CallTree, kinds: Sequence[str | None], outermost: Iterable[int], places: Places
) -> CommunicationFunctions:
    calls: Counter[int] = Counter()
    outer: Counter[int] = Counter()
    for node, frame_id in enumerate(tree.frame_ids):
        if kinds[frame_id]:
            calls[frame_id] += tree.own[node]
    for node in outermost:
        outer[tree.frame_ids[node]] += tree.own[node]
    rows = [
        CommunicationFunction(
            calls[number], outer[number], kind, frame.function, places.place(frame)
        )
        for number, (frame, kind) in enumerate(zip(tree.frames, kinds, strict=True))
        if kind
    ]
    order = (COLLECTIVE, REDISTRIBUTION, FOUND)
    rows.sort(key=lambda row: (order.index(row.kind), -row.calls, row.function, row.place or ""))
    return CommunicationFunctions(found=tuple(rows))


def _outermost(tree: CallTree, node: int, end: int, chosen: Callable[[int], bool]) -> list[int]:
    """Return the nodes of chosen functions from a node to an end that are below no other such."""
    nodes = []
    frame_ids = tree.frame_ids
    while node < end:
        if chosen(frame_ids[node]):
            nodes.append(node)
            node = tree.ends[node]
        else:
            node += 1
    return nodes


def _in_program(
    tree: CallTree, kinds: Sequence[str | None], places: Places, program: NamePattern | None
) -> list[bool]:
    """Return for each function whether it belongs to the program."""
    if program is not None:
        return [program.found_in(frame.file or "") for frame in tree.frames]
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
    """Return for each node the innermost node of a chosen function above it."""
    nearest = [NO_PARENT] * len(tree)
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            nearest[node] = parent if chosen[tree.frame_ids[parent]] else nearest[parent]
    return nearest


def _rules_before(tree: CallTree, places: Places, outermost: Iterable[int]) -> list[int]:
    """Return for each node the operator's rule that was called last before it.

    A rule calls other rules: the operator's own is the first below a function that is no rule.
    After a redistribution the next rule may come from a cache, so none is known then.
    """
    is_rule = [bool(_RULES.search(places.file(frame) or "")) for frame in tree.frames]
    frame_ids, parents = tree.frame_ids, tree.parents
    rules = [NO_PARENT] * len(tree)
    first: dict[int, int] = {}  # rule called first by each node
    used_up = {tree.ends[node] for node in outermost}
    last = NO_PARENT
    for node, frame_id in enumerate(frame_ids):
        parent = parents[node]
        if node in used_up:
            last = NO_PARENT
            first.clear()
        if is_rule[frame_id]:
            is_inside = parent >= 0 and is_rule[frame_ids[parent]]
            last = rules[parent] if is_inside else first.setdefault(parent, node)
        rules[node] = last
    return rules


def _ranked(counts: Counter[str]) -> dict[str, int]:
    """Return the counts, largest first, then by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _short(frame: CallFrame | None) -> str | None:
    """Return a function with the last part of its path."""
    if frame is None:
        return None
    place = (frame.place or "").replace("\\", "/").rpartition("/")[2]
    return ", ".join(part for part in (frame.function, place) if part)
