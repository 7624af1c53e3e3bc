"""Calls of a trace that redistribute arrays or run collectives, with their callers.

A call counts by its function (`communication_kind`).

The caller of such a call is the innermost function above it that neither communicates nor
dispatches, often the operator's method; its operators are those whose sharding rule (a function in
a folder ``ops`` or ``_ops``) was called last before it, in the same dispatch; its model line is the
innermost function above it in the program: files that are not installed, in other folders than
those with communication.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.call_trees.call_tree import NO_PARENT, CallFrame, CallTree
from hlo_lens.call_trees.communication_kind import COLLECTIVE, FOUND, REDISTRIBUTION, kind_or_found
from hlo_lens.call_trees.source_files import Places, path_text
from hlo_lens.render.result import Column, Result, Unit

if TYPE_CHECKING:
    from hlo_lens.text.name_pattern import NamePattern

_DISPATCH = re.compile(r"(?:__torch_(?:dispatch|function)__|_*(?:\w+_)?dispatch)\Z")
_RULES = re.compile(r"(?:^|/)_?ops/")


@dataclass(frozen=True, kw_only=True)
class CommunicationFunctions(Result):
    """Functions that communicate, collectives first, the most frequent first.

    Attributes:
        found: The rows.
    """

    KIND: ClassVar[str] = "communication-functions"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("calls", Unit.COUNT, "calls, repeats counted"),
        Column("outermost", Unit.COUNT, "calls below no other such function"),
        Column("kind", Unit.NONE, "collective, redistribution, or matched by --find"),
        Column("function", Unit.NONE, "function"),
        Column("place", Unit.NONE, "file and line, relative to the program's folder"),
    )
    RECORDS: ClassVar[str] = "found"
    found: tuple[tuple[int, int, str, str, str | None], ...]

    def totals(self) -> Mapping[str, int]:
        """Return the number of outermost calls, which include those inside them."""
        return {"outermost": sum(row[1] for row in self.found)}

    def counts(self, kind: str) -> dict[str, int]:
        """Return the calls of each function of a kind, the most frequent first."""
        found: Counter[str] = Counter()
        for calls, _, of_kind, name, _ in self.found:
            if of_kind == kind:
                found[name] += calls
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """Calls of one communicating function by one caller, from one line of the model.

    Fields are the columns of `CommunicationPaths`. Caller and model have the last part of their
    places: ``name, file:line``; the places are relative to the program's folder.
    """

    calls: int
    idle: int
    function: str
    kind: str
    operator: str | None
    caller: str | None
    model: str | None
    function_place: str | None
    caller_place: str | None
    model_place: str | None
    collectives: int
    leads_to: str
    path: str
    line: int | None


@dataclass(frozen=True, kw_only=True)
class CommunicationPaths(Result):
    """Calls that trigger communication: those below no other such call.

    Those with the most collectives come first.

    Attributes:
        found: The calls in groups.
        functions: All functions that communicate, nested ones too.
    """

    KIND: ClassVar[str] = "communication-paths"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("calls", Unit.COUNT, "number of calls"),
        Column("collectives", Unit.COUNT, "collectives at or below them"),
        Column("idle", Unit.COUNT, "calls that lead to no collective"),
        Column("function", Unit.NONE, "function that triggers communication"),
        Column("caller", Unit.NONE, "innermost function above that is no communication"),
        Column("model", Unit.NONE, "innermost function of the program above it"),
        Column("operator", Unit.NONE, "sharding rules called before it"),
        Column("leads_to", Unit.NONE, "collectives with their numbers of calls"),
        Column("path", Unit.NONE, "functions from the model line to it"),
        Column("kind", Unit.NONE, "collective, redistribution, or matched by --find"),
        Column("line", Unit.NONE, "line of the text that draws the first of them"),
        Column("function_place", Unit.NONE, "file and line of the function"),
        Column("model_place", Unit.NONE, "file and line of the model function"),
        Column("caller_place", Unit.NONE, "file and line of the caller"),
    )
    RECORDS: ClassVar[str] = "found"
    found: tuple[Communication, ...]
    functions: CommunicationFunctions

    def totals(self) -> Mapping[str, int]:
        """Return the number of calls and of collectives."""
        return {
            "calls": sum(one.calls for one in self.found),
            "idle": sum(one.idle for one in self.found),
            "collectives": sum(one.collectives for one in self.found),
        }


def communication_paths(
    tree: CallTree, *, find: NamePattern | None = None, program: NamePattern | None = None
) -> CommunicationPaths:
    """Return the calls of a tree that trigger communication, by caller and model line.

    Args:
        tree: The tree.
        find: Functions that count too: searched in ``function, file:line``.
        program: Files of the program; None to recognize them by their folders.
    """
    places = Places(tree.frames)
    kinds = [kind_or_found(frame, find) for frame in tree.frames]
    outermost = _outermost_nodes(tree, kinds)
    functions = _functions(tree, kinds, outermost, places)
    if not outermost:
        return CommunicationPaths(found=(), functions=functions)
    above = _Above(tree, kinds, _program_frames(tree, kinds, places, program), places, outermost)
    groups: dict[tuple[int, ...], list[int]] = {}
    for node in outermost:
        groups.setdefault((tree.frame_ids[node], *above.key(node)), []).append(node)
    found = [_communication(tree, kinds, places, above, nodes) for nodes in groups.values()]
    found.sort(key=lambda one: (-one.collectives, -one.calls, one.function, one.line or 0))
    return CommunicationPaths(found=tuple(found), functions=functions)


def _communication(
    tree: CallTree,
    kinds: Sequence[str | None],
    places: Places,
    above: _Above,
    nodes: Sequence[int],
) -> Communication:
    """Return the calls of one function by one caller from one model line."""
    first = nodes[0]
    frame = tree.frame(first)
    caller, model = (None if f < 0 else tree.frames[f] for f in above.key(first))
    below = [_collectives_below(tree, node, kinds) for node in nodes]
    every: Counter[str] = Counter()
    for one in below:
        every.update(one)
    rules = {tree.frame(o).function for node in nodes if (o := above.operator(node)) >= 0}
    names = sorted(every.items(), key=lambda item: (-item[1], item[0]))
    return Communication(
        calls=sum(tree.own[node] for node in nodes),
        idle=sum(tree.own[n] for n, one in zip(nodes, below, strict=True) if not one),
        function=frame.function,
        kind=kinds[tree.frame_ids[first]] or FOUND,
        operator=", ".join(sorted(rules)) or None,
        caller=_short(caller),
        model=_short(model),
        function_place=places.place(frame),
        caller_place=None if caller is None else places.place(caller),
        model_place=None if model is None else places.place(model),
        collectives=every.total(),
        leads_to=", ".join(f"{name} x{count}" for name, count in names),
        path=path_text(tree, first, above.model[first]),
        line=tree.lines[first] if tree.lines else None,
    )


def _short(frame: CallFrame | None) -> str | None:
    """Return a function with the last part of its path."""
    if frame is None:
        return None
    place = (frame.place or "").replace("\\", "/").rpartition("/")[2]
    return ", ".join(part for part in (frame.function, place) if part)


def _outermost_nodes(tree: CallTree, kinds: Sequence[str | None]) -> list[int]:
    """Return the nodes that communicate and are below no other that does, in order.

    A node with no amount of its own repeats one counted elsewhere.
    """
    found, end = [], 0
    for node, frame in enumerate(tree.frame_ids):
        if node >= end and kinds[frame] and tree.own[node]:
            found.append(node)
            end = tree.ends[node]
    return found


def _functions(
    tree: CallTree, kinds: Sequence[str | None], outermost: Sequence[int], places: Places
) -> CommunicationFunctions:
    """Return all functions that communicate."""
    calls, outer = [0] * len(tree.frames), [0] * len(tree.frames)
    for node, frame in enumerate(tree.frame_ids):
        if kinds[frame]:
            calls[frame] += tree.own[node]
    for node in outermost:
        outer[tree.frame_ids[node]] += tree.own[node]
    rows = [
        (calls[number], outer[number], kind, frame.function, places.place(frame))
        for number, (frame, kind) in enumerate(zip(tree.frames, kinds, strict=True))
        if kind
    ]
    order = (COLLECTIVE, REDISTRIBUTION, FOUND)
    rows.sort(key=lambda row: (order.index(row[2]), -row[0], row[3], row[4] or ""))
    return CommunicationFunctions(found=tuple(rows))


def _collectives_below(
    tree: CallTree, start: int, kinds: Sequence[str | None]
) -> Mapping[str, int]:
    """Return name and calls of the collectives at or below a node.

    A collective that another one calls is part of it.
    """
    found: Counter[str] = Counter()
    node, end = start, tree.ends[start]
    while node < end:
        if kinds[tree.frame_ids[node]] == COLLECTIVE:
            found[tree.frame(node).function] += tree.own[node]
            node = tree.ends[node]
        else:
            node += 1
    return found


def _program_frames(
    tree: CallTree,
    kinds: Sequence[str | None],
    places: Places,
    program: NamePattern | None,
) -> list[bool]:
    """Return for each function whether it belongs to the program."""
    if program is not None:
        return [program.found_in(frame.file or "") for frame in tree.frames]
    machinery = {places.top(f) for f, kind in zip(tree.frames, kinds, strict=True) if kind}
    own = [places.is_own(f) and places.top(f) not in machinery for f in tree.frames]
    if any(own):
        return own
    homes = {places.package(tree.frame(root)) for root in tree.roots}
    busy = {frame.file for frame, kind in zip(tree.frames, kinds, strict=True) if kind}
    return [
        places.is_own(f) and places.package(f) in homes and f.file not in busy for f in tree.frames
    ]


class _Above:
    """For each node, its nearest functions above, found in one pass from the root."""

    def __init__(
        self,
        tree: CallTree,
        kinds: Sequence[str | None],
        program: Sequence[bool],
        places: Places,
        outermost: Sequence[int],
    ) -> None:
        self._tree = tree
        frames = tree.frames
        dispatches = [bool(_DISPATCH.match(frame.function)) for frame in frames]
        outside = [not k and not d for k, d in zip(kinds, dispatches, strict=True)]
        rules = [bool(_RULES.search(places.file(frame) or "")) for frame in frames]
        self.caller = self._nearest(outside)
        self.model = self._nearest(program)
        self._dispatch = self._nearest(dispatches)
        self._operator = self._operators(rules, outermost)

    def _nearest(self, chosen: Sequence[bool]) -> list[int]:
        """Return for each node the innermost chosen one above it."""
        frame_ids, parents = self._tree.frame_ids, self._tree.parents
        found = [NO_PARENT] * len(parents)
        for node, parent in enumerate(parents):
            if parent >= 0:
                found[node] = parent if chosen[frame_ids[parent]] else found[parent]
        return found

    def _operators(self, rules: Sequence[bool], outermost: Sequence[int]) -> list[int]:
        """Return for each node the operator whose rule was called last before it.

        A rule calls other rules: the operator's own is the first below a function that is no rule.
        After a redistribution the next rule may come from a cache, so none is known then.
        """
        frame_ids, parents, ends = self._tree.frame_ids, self._tree.parents, self._tree.ends
        asked = [NO_PARENT] * len(parents)
        first: dict[int, int] = {}
        used_up = {ends[node] for node in outermost}
        last = NO_PARENT
        for node, frame in enumerate(frame_ids):
            parent = parents[node]
            if node in used_up:
                last = NO_PARENT
                first.clear()
            if rules[frame]:
                inside = parent >= 0 and rules[frame_ids[parent]]
                last = asked[node] = asked[parent] if inside else first.setdefault(parent, node)
            else:
                asked[node] = last
        return asked

    def key(self, node: int) -> tuple[int, int]:
        """Return the functions of caller and model line of a node; `NO_PARENT` for none."""
        frame_ids, caller, model = self._tree.frame_ids, self.caller[node], self.model[node]
        return (
            frame_ids[caller] if caller >= 0 else NO_PARENT,
            frame_ids[model] if model >= 0 else NO_PARENT,
        )

    def operator(self, node: int) -> int:
        """Return the node of the rule called for a node; `NO_PARENT` for none."""
        dispatch, operator = self._dispatch[node], self._operator[node]
        return operator if operator > dispatch >= 0 else NO_PARENT
