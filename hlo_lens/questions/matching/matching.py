"""Matching of two programs: pairs of instructions and of computations.

Computations are matched from the entry on, by their callers: equal ones first. Within two
computations the instructions are matched by one key after the other, the strictest first: the
fingerprints of what they compute and of their users, neighbours of matched ones, label and
operation path, the place between matched ones. What is left over is matched across computations:
instructions that moved into a loop or a fusion, or out of one.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from operator import eq, not_
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.hlo.opcodes import opcode_traits, opcodes_where
from hlo_lens.questions.matching.fingerprints import Fingerprints, KnownBodies

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set

    from hlo_lens.questions.matching.graphs import ProgramGraph


Key: TypeAlias = "Callable[[int], Hashable]"
"""Key of a node; None for none."""

NodeKey: TypeAlias = "Callable[[ProgramGraph, int], Hashable]"
"""Function that returns the key of a node; None for none."""

# ---- keys of instructions ----------------------------------------------------------------------

_LOOP = re.compile(r"while/(?:body/|cond/)?|closed_call/|checkpoint/|rematted_computation/")
"""Parts of an operation path that JAX adds for the loop around the operation."""

_WIDE = 16
"""Most operands of a user that are distinguished by place when users are matched."""

_TRIVIAL = opcodes_where(lambda traits: traits.is_trivial)
"""Frequent opcodes: a match of two is no evidence that one moved."""


def _is_telling(graph: ProgramGraph, node: int) -> bool:
    return graph.opcode(node) not in _TRIVIAL and graph.path(node) != ""


def _is_collective(graph: ProgramGraph, node: int) -> bool:
    return opcode_traits(graph.opcode(node)).collective_kind is not None


def _unlooped(graph: ProgramGraph, node: int) -> str:
    return _LOOP.sub("", graph.path(node))


def _label(graph: ProgramGraph, node: int) -> Hashable:
    return graph.label[node]


def _label_and_path(graph: ProgramGraph, node: int) -> Hashable:
    return graph.label[node], graph.path(node)


def _opcode_beside(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and path of a neighbour of matched instructions, which may lack a path."""
    return graph.opcode(node), graph.path(node)


def _opcode_and_path(graph: ProgramGraph, node: int) -> Hashable:
    return (graph.opcode(node), graph.path(node)) if graph.path(node) else None


def _parameter_number(graph: ProgramGraph, node: int) -> Hashable:
    return graph.parts(node).detail if graph.opcode(node) == "parameter" else None


def _telling_label(graph: ProgramGraph, node: int) -> Hashable:
    return None if graph.opcode(node) in _TRIVIAL else graph.label[node]


def _opcode_and_sizes(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and sizes, or number of elements, of an instruction without path."""
    opcode, shape = graph.opcode(node), graph.labels.shapes[graph.parts(node).shape]
    if opcode in _TRIVIAL or graph.path(node):
        return None
    if isinstance(shape, str):
        return opcode, shape
    return opcode, len(shape.tuple_shapes) if shape.is_tuple else shape.dimensions


def _collective_type(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and element type of a collective, and whether it is a tuple."""
    shape = graph.labels.shapes[graph.parts(node).shape]
    if isinstance(shape, str) or not _is_collective(graph, node):
        return None
    return graph.opcode(node), shape.element_type, shape.is_tuple


def _collective_kind(graph: ProgramGraph, node: int) -> Hashable:
    if _collective_type(graph, node) is None:
        return None
    return opcode_traits(graph.opcode(node)).collective_kind


def _moved_label(graph: ProgramGraph, node: int) -> Hashable:
    return (graph.label[node], _unlooped(graph, node)) if _is_telling(graph, node) else None


def _moved_opcode(graph: ProgramGraph, node: int) -> Hashable:
    opcode = graph.opcode(node)
    if opcode == "fusion" or not _is_telling(graph, node):
        return None
    return opcode, _unlooped(graph, node)


def _collective_label(graph: ProgramGraph, node: int) -> Hashable:
    return graph.label[node] if _is_collective(graph, node) else None


_LAST = (_parameter_number, _telling_label, _opcode_and_sizes, _collective_type, _collective_kind)
"""Keys of instructions in two computations that may have replaced each other."""

_MOVED = ((_moved_label, "any"), (_collective_label, "any"))
"""Keys of moved instructions and the modes of matching, the strictest first."""

_FUSED = ((_moved_label, "any"), (_moved_opcode, "unique"))
"""The same between a fusion and other computations."""


def pairs_by_key(
    mine: Sequence[int],
    yours: Sequence[int],
    keys: tuple[Sequence[Hashable], Sequence[Hashable]],
    mode: str,
) -> list[tuple[int, int]]:
    """Return pairs of items with equal keys, in order; the key None has no partner.

    The mode is ``unique`` for keys that appear once on both sides, ``equal`` for keys that appear
    equally often, ``any`` for as many pairs as possible.
    """
    common = set(keys[0]).intersection(keys[1])
    common.discard(None)
    if not common:
        return []
    if mode == "unique":
        for listed in keys:
            if len(common) < len(listed):
                common -= {key for key, times in Counter(listed).items() if times > 1}
        others = dict(zip(keys[1], yours, strict=True))
        pairs = zip(mine, keys[0], strict=True)
        return [(item, others[key]) for item, key in pairs if key in common]
    groups: tuple[dict[Hashable, list[int]], dict[Hashable, list[int]]] = {}, {}
    for group, side, listed in zip(groups, (mine, yours), keys, strict=True):
        for item, key in zip(side, listed, strict=True):
            if key in common:
                group.setdefault(key, []).append(item)
    return [
        pair
        for key, found in groups[0].items()
        if mode == "any" or len(found) == len(groups[1][key])
        for pair in zip(found, groups[1][key], strict=False)
    ]


def match_by(
    mine: Sequence[int], yours: Sequence[int], keys: tuple[Key, Key], mode: str
) -> list[tuple[int, int]]:
    """Return the pairs as `pairs_by_key` does, from functions that return the keys."""
    listed = list(map(keys[0], mine)), list(map(keys[1], yours))
    return pairs_by_key(mine, yours, listed, mode)


# ---- two programs ------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Side:
    """One of two programs that are matched; a partner of -1 is none."""

    graph: ProgramGraph
    prints: Fingerprints
    partner: list[int]  # of each node
    computation: list[int]  # partner of each computation


@dataclass(slots=True, eq=False)
class Matching:
    """Pairs of nodes and computations of two programs."""

    base: Side
    head: Side
    moved: set[int] = field(default_factory=set)
    """Nodes of the base whose partner is not in the partner of their computation."""
    whole: set[int] = field(default_factory=set)
    """Computations of the base that equal their partner, node by node, callees included."""

    @property
    def sides(self) -> tuple[Side, Side]:
        """Base and head."""
        return self.base, self.head

    def is_in_place(self, nodes: range, others: range) -> bool:
        """Return whether nodes of the base are matched with those at their place in the head."""
        return self.base.partner[nodes.start : nodes.stop] == list(others)

    def mirrored(self) -> Matching:
        return Matching(
            base=self.head,
            head=self.base,
            moved={self.base.partner[node] for node in self.moved},
            whole={self.base.computation[computation] for computation in self.whole},
        )


def matching(base: ProgramGraph, head: ProgramGraph) -> Matching:
    """Return the matching of two programs whose graphs share labels.

    ``matching(b, a)`` has the same pairs: matched is from the same side in either order.
    """
    first, second = ((len(graph), graph.module.columns.source.text) for graph in (base, head))
    if first > second:
        return _Matcher(head, base).result.mirrored()
    return _Matcher(base, head).result


def _entry_parameters(base: ProgramGraph, head: ProgramGraph) -> list[tuple[int, int]]:
    """Return the pairs of parameters of the entry.

    Matched by name, if names are unique; then by number and shape, by shape in order, by number.
    """
    graphs = base, head
    nodes = [graph.parameters_of(graph.entry) for graph in graphs]
    pairs: list[tuple[int, int]] = []
    names = [Counter(map(graph.path, listed)) for graph, listed in zip(graphs, nodes, strict=True)]

    def key(stage: int, side: int, node: int) -> Hashable:
        path, parts = graphs[side].path(node), graphs[side].parts(node)
        if stage == 0:
            return path if path and names[side][path] == 1 else None
        return ((parts.detail, parts.shape), parts.shape, parts.detail)[stage - 1]

    for stage in range(4):
        keys = partial(key, stage, 0), partial(key, stage, 1)
        pairs += match_by(nodes[0], nodes[1], keys, "any")
        found = {a for a, _ in pairs}, {b for _, b in pairs}
        nodes = [[n for n in nodes[side] if n not in found[side]] for side in (0, 1)]
    return pairs


class _Left:
    """Unmatched nodes of two computations, and users of their nodes."""

    def __init__(self, sides: tuple[Side, Side], computations: tuple[int, int]) -> None:
        self._sides = sides
        self._within = [s.graph.nodes[c] for s, c in zip(sides, computations, strict=True)]
        self._users: list[Mapping[int, Sequence[int]] | None] = [None, None]
        self.roots = [s.graph.roots[c][0] for s, c in zip(sides, computations, strict=True)]
        self.spread: dict[NodeKey, int] = {}  # number of matched nodes when a key was last applied
        self.nodes: list[Sequence[int]] = [*self._within]
        self.update()

    def __bool__(self) -> bool:
        return bool(self.nodes[0] and self.nodes[1])

    def update(self) -> None:
        for side, nodes in enumerate(self.nodes):
            partner = self._sides[side].partner
            self.nodes[side] = [node for node in nodes if partner[node] < 0]

    def users(self, side: int) -> Mapping[int, Sequence[int]]:
        """Return the users of nodes, each once, in order; of matched nodes the unmatched users."""
        known = self._users[side]
        if known is None:
            operands, left = self._sides[side].graph.operands, frozenset(self.nodes[side])
            found: dict[int, list[int]] = {}
            for user in sorted(left.union(operands.users(left, self._within[side]))):
                for operand in dict.fromkeys(operands[user]):
                    if operand >= 0 and (user in left or operand in left):
                        found.setdefault(operand, []).append(user)
            known = self._users[side] = found
        return known


class _Matcher:
    """Matcher of two programs. The sides are *mine* (the base) and *yours* (the head)."""

    def __init__(self, base: ProgramGraph, head: ProgramGraph) -> None:
        parameters = _entry_parameters(base, head)
        known: KnownBodies = {}
        sides = []
        for place, graph in enumerate((base, head)):
            tokens = {pair[place]: token for token, pair in enumerate(parameters)}
            prints = Fingerprints(graph, tokens, known)
            sides.append(Side(graph, prints, [-1] * len(graph), [-1] * len(graph.nodes)))
        self.result = Matching(base=sides[0], head=sides[1])
        self._base, self._head = self.result.sides
        self._matched = 0
        self._equal: deque[tuple[int, int, tuple[int, int]]] = deque()
        self._unequal: deque[tuple[int, int, tuple[int, int]]] = deque()
        for pair in parameters:
            self._match(*pair)
        if base.entry >= 0 and head.entry >= 0:
            self._pair(base.entry, head.entry)
        else:  # the other entry is matched like other computations
            self._complete()
        self._run()
        self._pair_the_rest()
        self._run()
        self._match_across()

    def _complete(self) -> None:
        self._base.prints.complete()
        self._head.prints.complete()

    def _match(self, mine: int, yours: int) -> None:
        """Make two nodes partners."""
        self._base.partner[mine], self._head.partner[yours] = yours, mine
        self._matched += 1

    def _keys(self, key: NodeKey) -> tuple[Key, Key]:
        return partial(key, self._base.graph), partial(key, self._head.graph)

    # ---- computations --------------------------------------------------------------------------

    def _pair(self, mine: int, yours: int, callers: tuple[int, int] = (-1, -1)) -> None:
        is_equal = self._base.prints.content[mine] == self._head.prints.content[yours]
        (self._equal if is_equal else self._unequal).append((mine, yours, callers))

    def _run(self) -> None:
        """Match the waiting computations, equal ones first, and those that they call."""
        base, head = self.result.sides
        while self._equal or self._unequal:
            is_equal = bool(self._equal)
            mine, yours, callers = (self._equal or self._unequal).popleft()
            if base.computation[mine] >= 0 or head.computation[yours] >= 0:
                continue
            base.computation[mine], head.computation[yours] = yours, mine
            if not is_equal:  # else only the callers differ
                self._seed(mine, yours, *callers)
            self._match_within(mine, yours)
            for node in base.graph.calls_of(mine):
                if base.partner[node] >= 0:
                    self._pair_callees(node, base.partner[node])

    def _pair_callees(self, node: int, partner: int) -> None:
        called = self._base.graph.callees.get(node, ())
        other = self._head.graph.callees.get(partner, ())
        by_role: dict[str, list[int]] = {}
        for role, computation in other:
            by_role.setdefault(role, []).append(computation)
        for place, (role, mine) in enumerate(called):
            same = by_role.get(role)
            if same:
                self._pair(mine, same.pop(0), (node, partner))
            elif len(called) == len(other):
                self._pair(mine, other[place][1], (node, partner))

    def _seed(self, mine: int, yours: int, caller: int, partner: int) -> None:
        """Match parameters by the operands of the callers, if these are in another order."""
        base, head = self._base, self._head
        if caller < 0 or not opcode_traits(base.graph.opcode(caller)).is_positional:
            return
        given = [
            (base.partner[operand] if operand >= 0 else -1, index)
            for operand, index in base.graph.operands_of(caller)
        ]
        taken = list(head.graph.operands_of(partner))
        if given == taken:
            return
        times = Counter(given)
        places = {operand: place for place, operand in enumerate(taken)}
        nodes = base.graph.parameter_numbers(mine), head.graph.parameter_numbers(yours)
        for place, operand in enumerate(given):
            x, y = nodes[0].get(place, -1), nodes[1].get(places.get(operand, -1), -1)
            if x >= 0 and y >= 0 and times[operand] == 1 and head.partner[y] < 0:
                self._match(x, y)

    def _pair_the_rest(self) -> None:
        """Match computations that no matched instruction calls, by the keys of `_computation_keys`.

        Computations of instructions without a partner were added or removed with these and are
        left out, except those that the entry does not run, which may call each other in a cycle.
        """
        sides = self.result.sides
        reached = [side.graph.reachable() for side in sides]
        for keys in zip(*map(_computation_keys, sides), strict=True):
            while True:
                left = []
                for side, run in zip(sides, reached, strict=True):
                    graph = side.graph
                    found = [c for c, p in enumerate(side.computation) if p < 0 and graph.nodes[c]]
                    gone = {
                        computation
                        for node in (graph.callers if found else ())
                        if side.partner[node] < 0 and graph.owner[node] in run
                        for _, computation in graph.callees[node]
                    }
                    left.append([computation for computation in found if computation not in gone])
                pairs = match_by(left[0], left[1], keys, "any")
                if not pairs:
                    break
                for pair in pairs:
                    self._pair(*pair)
                self._run()

    # ---- within two computations ---------------------------------------------------------------

    def _match_within(self, mine: int, yours: int) -> None:
        """Match the instructions of two computations."""
        base, head = self._base, self._head
        a, b = base.graph.nodes[mine], head.graph.nodes[yours]
        is_alike = base.graph.edges[mine] == head.graph.edges[yours] and self._is_free(a, b)
        if is_alike and base.prints.whole[mine] == head.prints.whole[yours]:
            base.partner[a.start : a.stop], head.partner[b.start : b.stop] = b, a
            self.result.whole.add(mine)
            return
        is_in_place = is_alike and self._match_in_place(a, b)
        if not is_in_place:
            self._complete()
        left = _Left(self.result.sides, (mine, yours))
        if not is_in_place:
            self._match_by_prints(left)
        self._spread(left, _label)
        for key, accepts in ((_label_and_path, _label), (_opcode_and_path, _opcode_beside)):
            keys = self._keys(key)
            beside = partial(self._beside, 0, keys[0]), partial(self._beside, 1, keys[1])
            for found, mode in ((keys, "unique"), (beside, "any"), (keys, "equal")):
                self._match_left(left, found, mode)
                self._spread(left, accepts)
        for key in _LAST:
            self._match_left(left, self._keys(key), "unique")
        between = partial(self._between, left, 0), partial(self._between, left, 1)
        self._match_left(left, between, "unique")

    def _is_free(self, a: range, b: range) -> bool:
        """Return whether no node of two computations is matched, except with that in its place."""
        for side, nodes, others in ((self._base, a, b), (self._head, b, a)):
            known = side.partner[nodes.start : nodes.stop]
            free = known.count(-1)
            if free < len(known) and free + sum(map(eq, known, others)) < len(known):
                return False
        return True

    def _match_in_place(self, a: range, b: range) -> bool:
        """Match nodes with equal labels of two computations with the same edges, node by node.

        Return whether that was done; not if fewer than half of the labels are equal.
        """
        base, head = self._base, self._head
        labels = base.graph.label[a.start : a.stop], head.graph.label[b.start : b.stop]
        same = list(map(eq, *labels))
        if 2 * sum(same) < len(same):
            return False
        for partner, nodes, others in ((base.partner, a, b), (head.partner, b, a)):
            found, known = list(others), partner[nodes.start : nodes.stop]
            for place in compress(range(len(same)), map(not_, same)):
                found[place] = known[place]
            partner[nodes.start : nodes.stop] = found
        return True

    def _match_by_prints(self, left: _Left) -> None:
        """Match nodes that compute the same, or whose users are the same."""
        prints = self._base.prints, self._head.prints
        up = prints[0].up.__getitem__, prints[1].up.__getitem__
        down = prints[0].down.__getitem__, prints[1].down.__getitem__

        def both(place: int, node: int) -> Hashable:
            return up[place](node), down[place](node)

        self._match_left(left, up, "unique")
        self._match_left(left, (partial(both, 0), partial(both, 1)), "any")
        self._match_left(left, up, "unique")
        self._match_left(left, down, "unique")
        self._spread(left, _label)
        self._match_left(left, up, "any")
        self._match_left(left, down, "equal")

    def _match_left(self, left: _Left, keys: tuple[Key, Key], mode: str) -> None:
        """Match unmatched nodes with equal keys."""
        pairs = match_by(left.nodes[0], left.nodes[1], keys, mode) if left else ()
        for mine, yours in pairs:
            self._match(mine, yours)
        if pairs:
            left.update()

    def _number(self, place: int, node: int) -> int:
        """Return the number of the pair that a node of a side is in: that of the base; or -1."""
        partner = self.result.sides[place].partner[node] if node >= 0 else -1
        return partner if place or partner < 0 else node

    def _beside(self, place: int, key: Key, node: int) -> Hashable:
        """Return a key with the partners of the operands; None if no operand has one."""
        own, operands = key(node), self.result.sides[place].graph.operands[node]
        numbers = [self._number(place, operand) for operand in operands]
        return None if own is None or max(numbers, default=-1) < 0 else (own, *numbers)

    def _between(self, left: _Left, place: int, node: int) -> Hashable:
        """Return the position of a node that replaced another: its matched operands and users.

        The result of a computation has the end as its user.
        """
        graph = self.result.sides[place].graph
        numbers = [self._number(place, operand) for operand in graph.operands[node]]
        if not numbers or min(numbers) < 0 or graph.opcode(node) in _TRIVIAL:
            return None
        users = [self._number(place, user) for user in left.users(place).get(node, ())]
        used = [user for user in users if user >= 0]
        return (*numbers, min(used, default=-1)) if used or node == left.roots[place] else None

    def _spread(self, left: _Left, accepts: NodeKey) -> None:
        """Match neighbours of matched nodes: operands at one place, users of one kind."""
        if not left or left.spread.get(accepts) == self._matched:
            return
        base, head = self._base, self._head
        near = (
            other
            for node in left.nodes[0]
            for other in (*base.graph.operands[node], *left.users(0).get(node, ()))
            if other >= 0 and base.partner[other] >= 0
        )
        waiting = [(node, base.partner[node]) for node in dict.fromkeys(near)]
        while waiting:
            mine, yours = waiting.pop()
            a, b = base.graph.operands[mine], head.graph.operands[yours]
            operands = [*zip(a, b, strict=False)]
            if len(a) != len(b):
                operands += zip(reversed(a), reversed(b), strict=False)
            for x, y in operands:
                if x >= 0 and y >= 0 and base.partner[x] < 0 and head.partner[y] < 0:
                    key = accepts(base.graph, x)
                    if key is not None and key == accepts(head.graph, y):
                        self._match(x, y)
                        waiting.append((x, y))
            my_users = [u for u in left.users(0).get(mine, ()) if base.partner[u] < 0]
            if not my_users:
                continue
            your_users = [u for u in left.users(1).get(yours, ()) if head.partner[u] < 0]
            keys = (
                [_user_key(base.graph, user, mine, accepts) for user in my_users],
                [_user_key(head.graph, user, yours, accepts) for user in your_users],
            )
            for pair in pairs_by_key(my_users, your_users, keys, "unique"):
                self._match(*pair)
                waiting.append(pair)
        left.update()
        left.spread[accepts] = self._matched

    # ---- across computations -------------------------------------------------------------------

    def _match_across(self) -> None:
        """Match the rest across computations that are not partners: moved instructions.

        First instructions outside embedded computations, with their callees; then those in fusions
        and reducers; then those that moved into a fusion, or out of one.
        """
        base, head = sides = self.result.sides
        if any(-1 not in side.partner for side in sides):
            return
        left = [[n for n, partner in enumerate(side.partner) if partner < 0] for side in sides]
        places = _moved_places(base.graph), _moved_places(head.graph)
        for here, there in ((0, 0), (1, 1), (2, 3), (3, 2)):
            inside = places[0][here], places[1][there]
            for key, mode in _MOVED if here == there else _FUSED:
                mine, yours = (
                    [n for n in nodes if side.partner[n] < 0 and side.graph.owner[n] in among]
                    for nodes, side, among in zip(left, sides, inside, strict=True)
                )
                for x, y in match_by(mine, yours, self._keys(key), mode) if mine and yours else ():
                    if base.computation[base.graph.owner[x]] != head.graph.owner[y]:
                        self._match(x, y)
                        self.result.moved.add(x)
                        self._pair_callees(x, y)
            self._run()


def _user_key(graph: ProgramGraph, user: int, node: int, accepts: NodeKey) -> Hashable:
    """Return a key of a user of a node: its own key, and the operand number of the node."""
    key = accepts(graph, user)
    operands = graph.operands[user]
    if key is None or len(operands) > _WIDE:
        return key
    place = operands.index(node)
    return key, place, graph.indices[user][place] if user in graph.indices else ()


def _computation_keys(side: Side) -> Iterator[Key]:
    """Yield the keys of computations without matched callers, the strictest first.

    Equal computations are matched by name first: in text order, one edited copy among many would
    shift the partners of all later ones.
    """
    graph, content, names = side.graph, side.prints.content, side.graph.module.computation_names

    def signature(computation: int) -> Hashable:
        """Return the parameters and the opcode of the result."""
        root, index = graph.roots[computation]
        labels = [graph.label[node] for node in graph.parameters_of(computation)]
        return (*labels, graph.opcode(root) if root >= 0 else "", index)

    yield lambda c: (content[c], names[c])
    yield content.__getitem__
    yield names.__getitem__
    yield signature


def _moved_places(graph: ProgramGraph) -> tuple[Set[int], Set[int], Set[int], Set[int]]:
    """Return the computations that are not embedded, those that are, and those that the entry runs.

    The last set contains only fusions, not reducers. A node that was fused, or is no longer fused,
    moves between the last two sets.
    """
    inner: set[int] = set()
    fused: set[int] = set()
    for node, called in graph.callees.items():
        computations = [computation for _, computation in called]
        if not opcode_traits(graph.opcode(node)).is_control_flow:
            inner.update(computations)
        if graph.opcode(node) == "fusion":
            fused.update(computations)
    outer, reached = set(range(len(graph.nodes))) - inner, graph.reachable()
    return outer, inner, outer & reached, fused & reached
