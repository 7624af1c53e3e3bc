"""Fingerprints of instructions by their operands (up) and by their users (down).

They are hashes: instructions with equal ones are compared afterwards, so that a collision hides no
change. Computations with equal text and equal callees share theirs, found once.
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
from hlo_lens.questions.diff.matching.fingerprints import Fingerprints, KnownBodies, fingerprints
from hlo_lens.questions.diff.matching.graphs import operands_of, parameter_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set

    from hlo_lens.questions.diff.matching.graphs import ProgramGraph


Key: TypeAlias = "Callable[[int], Hashable]"
"""Key of a node; None for none."""

Keys: TypeAlias = "tuple[Sequence[int], Sequence[int]]"
"""A number for each node of base and head."""

NodeKey: TypeAlias = "Callable[[ProgramGraph, int], Hashable]"
"""Function that returns the key of a node; None for none."""

_NUMBER = re.compile(r"\d+")
_LOOP = re.compile(r"while/(?:body/|cond/)?|closed_call/|checkpoint/|rematted_computation/")
"""Parts of an operation path that JAX adds for the loop around the operation."""

_WIDE = 16
"""Most operands of a user that are distinguished by place when users are matched."""

TRIVIAL = opcodes_where(lambda traits: traits.is_trivial)
"""Frequent opcodes: a match of two is no evidence that one moved."""


def by_key(
    mine: Sequence[int], yours: Sequence[int], my_key: Key, your_key: Key, mode: str
) -> list[tuple[int, int]]:
    """Return pairs of equal keys, in order.

    Args:
        mine: One side.
        yours: The other.
        my_key: Key of an item; None for none.
        your_key: The same for the other side.
        mode: ``unique`` for keys that appear once on both sides, ``equal`` for keys that appear
            equally often, ``any`` for as many pairs as possible.
    """
    return by_keys(mine, yours, (list(map(my_key, mine)), list(map(your_key, yours))), mode)


def by_keys(
    mine: Sequence[int],
    yours: Sequence[int],
    keys: tuple[Sequence[Hashable], Sequence[Hashable]],
    mode: str,
) -> list[tuple[int, int]]:
    """Return the pairs as `by_key` does, from the keys of all items."""
    my_keys, your_keys = keys
    common = set(my_keys).intersection(your_keys)
    common.discard(None)
    if not common:
        return []
    groups: dict[Hashable, list[int]] = {}
    for item, key in zip(yours, your_keys, strict=True):
        if key in common:
            groups.setdefault(key, []).append(item)
    found: dict[Hashable, list[int]] = {}
    for item, key in zip(mine, my_keys, strict=True):
        if key in common:
            found.setdefault(key, []).append(item)
    pairs: list[tuple[int, int]] = []
    for key, items in found.items():
        others = groups[key]
        if mode == "unique" and not len(items) == len(others) == 1:
            continue
        if mode == "equal" and len(items) != len(others):
            continue
        pairs.extend(zip(items, others, strict=False))
    return pairs


def singles(mine: Sequence[int], yours: Sequence[int], keys: Keys) -> list[tuple[int, int]]:
    """Return pairs of keys that appear once on both sides, in order."""
    my_keys, your_keys = (
        list(map(numbers.__getitem__, items))
        for numbers, items in zip(keys, (mine, yours), strict=True)
    )
    last = dict(zip(your_keys, yours, strict=True))
    if len(last) < len(yours):
        first = dict(zip(reversed(your_keys), reversed(yours), strict=True))
        last = {key: item for key, item in last.items() if first[key] == item}
    found = zip(mine, map(last.get, my_keys), strict=True)
    pairs = [(item, other) for item, other in found if other is not None]
    if len({other for _, other in pairs}) == len(pairs):
        return pairs
    times = Counter(other for _, other in pairs)
    return [pair for pair in pairs if times[pair[1]] == 1]


def same_label(graph: ProgramGraph, node: int) -> Hashable:
    """Return a key of neighbours: the label."""
    return graph.label[node]


def same_opcode(graph: ProgramGraph, node: int) -> Hashable:
    """Return a key of neighbours: opcode and operation path."""
    return graph.opcode(node), graph.hint(node)


def user_key(graph: ProgramGraph, user: int, node: int, accepts: NodeKey) -> Hashable:
    """Return a key of a user of a node: its own key, and the operand number of the node."""
    key = accepts(graph, user)
    operands = graph.operands[user]
    if key is None or len(operands) > _WIDE:
        return key
    place = operands.index(node)
    return key, place, graph.indices[user][place] if user in graph.indices else ()


def label_and_path(graph: ProgramGraph, node: int) -> Hashable:
    """Return label and operation path."""
    return graph.label[node], graph.hint(node)


def opcode_and_path(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and operation path; None without path."""
    return (graph.opcode(node), graph.hint(node)) if graph.hint(node) else None


def label_alone(graph: ProgramGraph, node: int) -> Hashable:
    """Return the label of a node that is not trivial."""
    return None if graph.opcode(node) in TRIVIAL else graph.label[node]


def opcode_and_sizes(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and sizes of a node that is not trivial and has no operation path."""
    opcode = graph.opcode(node)
    return None if opcode in TRIVIAL or graph.hint(node) else (opcode, _sizes(graph, node))


def _sizes(graph: ProgramGraph, node: int) -> Hashable:
    """Return the dimensions of a result, or the number of elements of a tuple."""
    shape = graph.labels.shapes[graph.labels.parts[graph.label[node]].shape]
    if isinstance(shape, str):
        return shape
    return len(shape.tuple_shapes) if shape.is_tuple else shape.dimensions


def _has_path(graph: ProgramGraph, node: int) -> bool:
    """Return whether a node has an operation path and is not trivial."""
    return graph.opcode(node) not in TRIVIAL and graph.hint(node) > 0


def general_path(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode, and operation path without numbers, of a node that is not trivial."""
    if not _has_path(graph, node):
        return None
    return graph.opcode(node), _NUMBER.sub("*", graph.op_name(node))


def parameter_key(graph: ProgramGraph, node: int) -> Hashable:
    """Return the number of a parameter."""
    parts = graph.labels.parts[graph.label[node]]
    return parts.detail if parts.opcode == "parameter" else None


def path_alone(graph: ProgramGraph, node: int) -> Hashable:
    """Return the operation path of a node that is not trivial, and whether it is a fusion.

    A fusion has the path of its result, which is inside: it never matches another opcode.
    """
    return (graph.opcode(node) == "fusion", graph.hint(node)) if _has_path(graph, node) else None


def _is_collective(graph: ProgramGraph, node: int) -> bool:
    return opcode_traits(graph.opcode(node)).collective_kind is not None


def collective_path(graph: ProgramGraph, node: int) -> Hashable:
    """Return the operation path of a collective of any kind."""
    return (graph.hint(node) or None) if _is_collective(graph, node) else None


def collective_type(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and element type of a collective, and whether it is a tuple."""
    parts = graph.labels.parts[graph.label[node]]
    shape = graph.labels.shapes[parts.shape]
    if not _is_collective(graph, node) or isinstance(shape, str):
        return None
    return parts.opcode, shape.element_type, shape.is_tuple


def collective_kind(graph: ProgramGraph, node: int) -> Hashable:
    """Return the kind of a collective whose shape is known."""
    if collective_type(graph, node) is None:
        return None
    return opcode_traits(graph.opcode(node)).collective_kind


def _moved_label(graph: ProgramGraph, node: int) -> Hashable:
    """Return label and operation path without loops."""
    if not _has_path(graph, node):
        return None
    return graph.label[node], _without_loops(graph.op_name(node))


def _moved_opcode(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and operation path without loops."""
    opcode = graph.opcode(node)
    if opcode == "fusion" or not _has_path(graph, node):
        return None
    return opcode, _without_loops(graph.op_name(node))


def _moved_collective(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and operation path of a collective without loops."""
    path = _without_loops(graph.op_name(node)) if _is_collective(graph, node) else ""
    return (graph.opcode(node), path) if path else None


def _collective_label(graph: ProgramGraph, node: int) -> Hashable:
    return graph.label[node] if _is_collective(graph, node) else None


def _collective_groups(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode, element type and device groups of a collective."""
    if not _is_collective(graph, node):
        return None
    parts = graph.labels.parts[graph.label[node]]
    shape = graph.labels.shapes[parts.shape]
    groups = graph.labels.attributes[parts.attributes].get("replica_groups")
    element = "" if isinstance(shape, str) else shape.element_type
    return parts.opcode, element, groups and groups[0]


MOVED = (
    (_moved_label, "any"),
    (_moved_collective, "any"),
    (_collective_label, "any"),
    (_collective_groups, "equal"),
)
"""Keys of moved instructions and the modes of matching, the strictest first."""

FUSED = ((_moved_label, "any"), (_moved_opcode, "unique"))
"""The same between a fusion and other computations."""


def _without_loops(path: str) -> str:
    return _LOOP.sub("", path)


def moved_places(graph: ProgramGraph) -> tuple[Set[int], Set[int], Set[int], Set[int]]:
    """Return the nodes outside and inside embedded computations, then those that the entry runs.

    The last set contains only nodes of fusions, not of reducers. A node that was fused, or is no
    longer fused, moves between the last two sets.
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


def entry_parameters(
    base: ProgramGraph, head: ProgramGraph
) -> tuple[dict[int, int], dict[int, int]]:
    """Return tokens for the parameters of the entry: partners have the same token.

    Matched by name, if names are unique; then, if the numbers of parameters differ, by shape and
    users; then by number and shape, by shape in order, and by number.
    """
    mine, yours = base.parameters_of(base.entry), head.parameters_of(head.entry)
    pairs: list[tuple[int, int]] = []
    stages = [(_parameter_name(base, mine), _parameter_name(head, yours))]
    if mine and yours and len(mine) != len(yours):
        stages.append((_used_by(base, mine), _used_by(head, yours)))
    for my_key, your_key in (
        *stages,
        (_parameter_number(base, shaped=True), _parameter_number(head, shaped=True)),
        (_shape_of(base), _shape_of(head)),
        (_parameter_number(base, shaped=False), _parameter_number(head, shaped=False)),
    ):
        found = {a for a, _ in pairs}, {b for _, b in pairs}
        my_left = [node for node in mine if node not in found[0]]
        your_left = [node for node in yours if node not in found[1]]
        pairs += by_key(my_left, your_left, my_key, your_key, "any")
    return (
        {node: token for token, (node, _) in enumerate(pairs)},
        {node: token for token, (_, node) in enumerate(pairs)},
    )


def _parameter_name(graph: ProgramGraph, nodes: Sequence[int]) -> Key:
    names = Counter(graph.hint(node) for node in nodes)

    def key(node: int) -> Hashable:
        name = graph.hint(node)
        return name if name and names[name] == 1 else None

    return key


def _used_by(graph: ProgramGraph, nodes: Sequence[int]) -> Key:
    """Return a key of parameters of the entry: shape, users, and other operands of these."""
    wanted = frozenset(nodes)
    labels = graph.label
    uses: dict[int, list[int]] = {node: [] for node in nodes}
    for user in graph.operands.users(wanted, graph.nodes[graph.entry]):
        taken = graph.operands[user]
        others = tuple([0 if o in wanted or o < 0 else labels[o] for o in taken])
        others = others if len(others) <= _WIDE else ()
        for place, operand in enumerate(taken):
            if operand in wanted:
                uses[operand].append(hash((labels[user], others, place if others else 0)))
    shape = _shape_of(graph)
    return lambda node: (shape(node), *sorted(uses[node])) if uses[node] else None


def _shape_of(graph: ProgramGraph) -> Key:
    return lambda node: graph.labels.parts[graph.label[node]].shape


def _parameter_number(graph: ProgramGraph, *, shaped: bool) -> Key:
    def key(node: int) -> Hashable:
        parts = graph.labels.parts[graph.label[node]]
        return (parts.detail, parts.shape) if shaped else parts.detail

    return key


@dataclass(slots=True, eq=False)
class Matching:
    """Partners of nodes and computations; -1 for none.

    Attributes:
        head_of: For each node of the base, its partner.
        base_of: For each node of the head, its partner.
        head_computation: For each computation of the base, its partner.
        base_computation: For each computation of the head, its partner.
        base_prints: Fingerprints of the base.
        head_prints: The same of the head.
        moved: Nodes of the base whose partner is not in the partner of their computation.
        whole: Computations of the base that equal their partner, node by node, callees included.
    """

    head_of: list[int]
    base_of: list[int]
    head_computation: list[int]
    base_computation: list[int]
    base_prints: Fingerprints
    head_prints: Fingerprints
    moved: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)

    def is_in_place(self, nodes: range, others: range) -> bool:
        """Return whether each node of a computation is matched with that at its place in another.

        Args:
            nodes: Nodes of a computation of the base.
            others: Nodes of a computation of the head.
        """
        return self.head_of[nodes.start : nodes.stop] == list(others)

    def mirrored(self) -> Matching:
        """Return the same with base and head exchanged."""
        names = ("of", "computation", "prints")
        return Matching(
            **{f"base_{name}": getattr(self, f"head_{name}") for name in names},
            **{f"head_{name}": getattr(self, f"base_{name}") for name in names},
            moved={self.head_of[node] for node in self.moved},
            whole={self.head_computation[computation] for computation in self.whole},
        )


class Unmatched:
    """Unmatched nodes of two computations.

    Args:
        graphs: Base and head.
        computations: A computation of each.
        partners: For each node of each graph its partner; -1 for none.

    Attributes:
        computations: The same.
        spread: Key function to the number of matched nodes when it was last applied.
    """

    def __init__(
        self,
        graphs: tuple[ProgramGraph, ProgramGraph],
        computations: tuple[int, int],
        partners: tuple[list[int], list[int]],
    ) -> None:
        self.spread: dict[NodeKey, int] = {}
        self._graphs = graphs
        self.computations = computations
        self._partners = partners
        self._nodes: list[Sequence[int]] = [
            graph.nodes[computation]
            for graph, computation in zip(graphs, computations, strict=True)
        ]
        self._users: list[Mapping[int, Sequence[int]] | None] = [None, None]
        self.update()

    def __bool__(self) -> bool:
        return bool(self._nodes[0] and self._nodes[1])

    def nodes(self, side: int) -> Sequence[int]:
        """Return the nodes of base (0) or head (1) unmatched at the last `update`, in order."""
        return self._nodes[side]

    def update(self) -> None:
        """Drop nodes that have been matched since."""
        for side, partners in enumerate(self._partners):
            self._nodes[side] = [node for node in self._nodes[side] if partners[node] < 0]

    def users(self, side: int) -> Mapping[int, Sequence[int]]:
        """Return the users of nodes, each once, in order; of matched nodes the unmatched users."""
        known = self._users[side]
        if known is None:
            graph = self._graphs[side]
            nodes = graph.nodes[self.computations[side]]
            known = self._users[side] = _users(graph, nodes, frozenset(self.nodes(side)))
        return known


def _users(graph: ProgramGraph, nodes: range, left: frozenset[int]) -> Mapping[int, Sequence[int]]:
    """Return all users of unmatched nodes, and the unmatched users of others."""
    found: dict[int, list[int]] = {}
    for user in sorted(left.union(graph.operands.users(left, nodes))):
        is_left, taken = user in left, graph.operands[user]
        for operand in taken if len(taken) < 2 else dict.fromkeys(taken):
            if operand >= 0 and (is_left or operand in left):
                found.setdefault(operand, []).append(user)
    return found


class NodeMatcher:
    """Matcher of nodes of computations; partners are added to `result`.

    The sides are *mine* (the base) and *yours* (the head).
    """

    def __init__(
        self,
        graphs: tuple[ProgramGraph, ProgramGraph],
        prints: tuple[Fingerprints, Fingerprints],
        result: Matching,
    ) -> None:
        self.base, self.head = graphs
        self.result = result
        self._mine, self._yours = prints
        self._fresh: list[tuple[int, int]] = []
        self._matched = 0

    def match(self, mine: int, yours: int) -> None:
        """Make two nodes partners."""
        self.result.head_of[mine] = yours
        self.result.base_of[yours] = mine
        self._fresh.append((mine, yours))
        self._matched += 1

    def within(self, mine: int, yours: int) -> None:
        """Match the instructions of two computations."""
        if self._match_whole(mine, yours):
            return
        is_in_place = self._match_in_place(mine, yours)
        if not is_in_place:
            self._mine.complete()
            self._yours.complete()
            self._trim(self.base.nodes[mine], self.head.nodes[yours])
        left = Unmatched(
            (self.base, self.head), (mine, yours), (self.result.head_of, self.result.base_of)
        )
        if not is_in_place:
            self._by_fingerprints(left)
        if left:
            self._spread(left, same_label)
            self._by_path(left)
            self._replaced(left)
        self._fresh.clear()

    def _by_fingerprints(self, left: Unmatched) -> None:
        """Match nodes that compute the same, or whose users are the same."""
        up, down = (self._mine.up, self._yours.up), (self._mine.down, self._yours.down)
        self._match_once(left, up)
        if self._match_equal(left, up, down):
            self._match_once(left, up)
        self._match_once(left, down)
        if left:
            self._spread(left, same_label)
            self._match_left(left, up[0].__getitem__, up[1].__getitem__, "any")
            self._match_left(left, down[0].__getitem__, down[1].__getitem__, "equal")

    def _by_path(self, left: Unmatched) -> None:
        """Match the rest by label and operation path, then by opcode and path."""
        for key, accepts in ((label_and_path, same_label), (opcode_and_path, same_opcode)):
            for mode in ("unique", "any", "equal"):
                if not left:
                    return
                mine: Key = partial(key, self.base)
                yours: Key = partial(key, self.head)
                if mode == "any":
                    mine, yours = self._beside(0, mine), self._beside(1, yours)
                self._match_left(left, mine, yours, mode)
                self._spread(left, accepts)
        self._match_unique(left, parameter_key, label_alone, opcode_and_sizes)

    def _match_whole(self, mine: int, yours: int) -> bool:
        """Match two equal computations node by node, unless some node is matched."""
        if self._mine.whole[mine] != self._yours.whole[yours] or not self._is_free(mine, yours):
            return False
        result, a, b = self.result, self.base.nodes[mine], self.head.nodes[yours]
        result.head_of[a.start : a.stop] = b
        result.base_of[b.start : b.stop] = a
        result.whole.add(mine)
        return True

    def _match_in_place(self, mine: int, yours: int) -> bool:
        """Match nodes with equal labels of two computations with the same edges, node by node.

        Return whether that was done; not if fewer than half of the labels are equal.
        """
        if self.base.edges[mine] != self.head.edges[yours] or not self._is_free(mine, yours):
            return False
        result, a, b = self.result, self.base.nodes[mine], self.head.nodes[yours]
        labels = self.base.label[a.start : a.stop], self.head.label[b.start : b.stop]
        same = list(map(eq, *labels))
        if 2 * sum(same) < len(same):
            return False
        for partners, nodes, others in ((result.head_of, a, b), (result.base_of, b, a)):
            part = slice(nodes.start, nodes.stop)
            found, known = list(others), partners[part]
            for place in compress(range(len(same)), map(not_, same)):
                found[place] = known[place]
            partners[part] = found
        return True

    def _is_free(self, mine: int, yours: int) -> bool:
        """Return whether no node of two computations is matched, except with that in its place."""
        result, a, b = self.result, self.base.nodes[mine], self.head.nodes[yours]
        for partners, nodes, others in ((result.head_of, a, b), (result.base_of, b, a)):
            known = partners[nodes.start : nodes.stop]
            free = known.count(-1)
            if free < len(known) and free + sum(map(eq, known, others)) < len(known):
                return False
        return True

    def _match_once(self, left: Unmatched, keys: Keys) -> None:
        """Match nodes with equal numbers that are unique on both sides."""
        if left:
            self._match_all(left, singles(left.nodes(0), left.nodes(1), keys))

    def _match_equal(self, left: Unmatched, up: Keys, down: Keys) -> bool:
        """Match nodes with equal fingerprints up and down; return whether there are any."""
        common = set(map(up[0].__getitem__, left.nodes(0)))
        common.intersection_update(map(up[1].__getitem__, left.nodes(1)))
        if not common:
            return False
        mine, yours = ([n for n in left.nodes(k) if up[k][n] in common] for k in (0, 1))
        keys = [
            list(zip(map(u.__getitem__, nodes), map(d.__getitem__, nodes), strict=True))
            for u, d, nodes in zip(up, down, (mine, yours), strict=True)
        ]
        pairs = by_keys(mine, yours, (keys[0], keys[1]), "any")
        self._match_all(left, pairs)
        return bool(pairs)

    def _match_left(self, left: Unmatched, mine: Key, yours: Key, mode: str) -> None:
        """Match nodes with equal keys; None is no key."""
        if left:
            self._match_all(left, by_key(left.nodes(0), left.nodes(1), mine, yours, mode))

    def _match_unique(self, left: Unmatched, *keys: NodeKey) -> None:
        """Match nodes with equal keys that are unique on both sides, one key after the other."""
        for key in keys:
            self._match_left(left, partial(key, self.base), partial(key, self.head), "unique")

    def _match_all(self, left: Unmatched, pairs: Sequence[tuple[int, int]]) -> None:
        head_of, base_of = self.result.head_of, self.result.base_of
        for a, b in pairs:
            head_of[a] = b
            base_of[b] = a
        if pairs:
            self._matched += len(pairs)
            left.update()

    def _trim(self, mine: range, yours: range) -> None:
        """Match equal nodes from the start, and from the end."""
        a, b = mine.start, yours.start
        self._same_run(a, b, 1, min(len(mine), len(yours)))
        self._same_run(mine.stop - 1, yours.stop - 1, -1, min(len(mine), len(yours)))

    def _same_run(self, a: int, b: int, step: int, most: int) -> None:
        head_of, base_of = self.result.head_of, self.result.base_of
        mine, yours = self._mine, self._yours
        for _ in range(most):
            if mine.up[a] != yours.up[b] or mine.down[a] != yours.down[b]:
                return
            if head_of[a] < 0 and base_of[b] < 0:
                head_of[a], base_of[b] = b, a
            elif head_of[a] != b:
                return
            a, b = a + step, b + step

    # ---- neighbourhood -------------------------------------------------------------------------

    def _spread(self, left: Unmatched, accepts: NodeKey) -> None:
        """Match neighbours of matched nodes: operands at one place, users of one kind."""
        if not left or left.spread.get(accepts) == self._matched:
            self._fresh.clear()
            return
        users = left.users(0)
        head_of = self.result.head_of
        near: dict[int, None] = {}
        for node in left.nodes(0):
            for other in (*self.base.operands[node], *users.get(node, ())):
                if other >= 0 and head_of[other] >= 0:
                    near[other] = None
        self._fresh = [(node, head_of[node]) for node in near]
        while self._fresh:
            mine, yours = self._fresh.pop()
            self._spread_to_operands(mine, yours, accepts)
            self._spread_to_users(left, mine, yours, accepts)
        left.update()
        left.spread[accepts] = self._matched

    def _spread_to_operands(self, mine: int, yours: int, accepts: NodeKey) -> None:
        a, b = self.base.operands[mine], self.head.operands[yours]
        if len(a) == len(b):
            pairs: Iterable[tuple[int, int]] = zip(a, b, strict=True)
        else:
            pairs = [*zip(a, b, strict=False), *zip(reversed(a), reversed(b), strict=False)]
        head_of, base_of = self.result.head_of, self.result.base_of
        for x, y in pairs:
            if x >= 0 and y >= 0 and head_of[x] < 0 and base_of[y] < 0:
                key = accepts(self.base, x)
                if key is not None and key == accepts(self.head, y):
                    self.match(x, y)

    def _spread_to_users(self, left: Unmatched, mine: int, yours: int, accepts: NodeKey) -> None:
        head_of, base_of = self.result.head_of, self.result.base_of
        my_users = [u for u in left.users(0).get(mine, ()) if head_of[u] < 0]
        if not my_users:
            return
        your_users = [u for u in left.users(1).get(yours, ()) if base_of[u] < 0]
        keys = (
            [user_key(self.base, user, mine, accepts) for user in my_users],
            [user_key(self.head, user, yours, accepts) for user in your_users],
        )
        for x, y in by_keys(my_users, your_users, keys, "unique"):
            self.match(x, y)

    def _beside(self, side: int, key: Key) -> Key:
        """Return a key with the partners of the operands; None if no operand has one."""
        graph = (self.base, self.head)[side]
        head_of, base_of = self.result.head_of, self.result.base_of

        def both(node: int) -> Hashable:
            inner = key(node)
            taken = graph.operands[node]
            if side == 0:
                partners = [head_of[x] if x >= 0 else -1 for x in taken]
            else:
                partners = [x if x >= 0 and base_of[x] >= 0 else -1 for x in taken]
            return None if inner is None or max(partners, default=-1) < 0 else (inner, *partners)

        return both

    # ---- another opcode in one place -----------------------------------------------------------

    def _replaced(self, left: Unmatched) -> None:
        """Match nodes that replaced another: same operands or users, or same path."""
        if not left:
            return
        self._match_unique(left, collective_path, collective_type, collective_kind)
        self._match_left(left, self._place_key(left, 0), self._place_key(left, 1), "unique")
        self._match_unique(left, path_alone, general_path)

    def _place_key(self, left: Unmatched, side: int) -> Key:
        """Return a key of the position of a node: its matched operands and users.

        The result of a computation has the end as its user.
        """
        graph = (self.base, self.head)[side]
        users = left.users(side)
        root, _ = graph.roots[left.computations[side]]
        partner = self.result.base_of

        def named(other: int) -> int:
            return other if side == 0 else partner[other]

        def is_matched(other: int) -> bool:
            found = self.result.head_of if side == 0 else partner
            return other >= 0 and found[other] >= 0

        def key(node: int) -> Hashable:
            taken = graph.operands[node]
            if not taken or graph.opcode(node) in TRIVIAL or not all(map(is_matched, taken)):
                return None
            uses = [named(user) for user in users.get(node, ()) if is_matched(user)]
            if not uses and node != root:
                return None
            return *map(named, taken), min(uses, default=-1)

        return key


def matching(base: ProgramGraph, head: ProgramGraph) -> Matching:
    """Return the matching of two programs whose graphs share labels and hints."""
    return _Matcher(base, head).result


class _Matcher:
    """Matcher of two programs. The sides are *mine* (the base) and *yours* (the head)."""

    def __init__(self, base: ProgramGraph, head: ProgramGraph) -> None:
        self.base = base
        self.head = head
        tokens = entry_parameters(base, head)
        known = KnownBodies()
        self._mine = fingerprints(base, tokens[0], known)
        self._yours = fingerprints(head, tokens[1], known)
        self.result = Matching(
            head_of=[-1] * len(base),
            base_of=[-1] * len(head),
            head_computation=[-1] * len(base.nodes),
            base_computation=[-1] * len(head.nodes),
            base_prints=self._mine,
            head_prints=self._yours,
        )
        self._nodes = NodeMatcher((base, head), (self._mine, self._yours), self.result)
        self._equal: deque[tuple[int, int, tuple[int, int]]] = deque()
        self._unequal: deque[tuple[int, int, tuple[int, int]]] = deque()
        self._reached = base.reachable(), head.reachable()
        mine, yours = tokens
        partner = {token: node for node, token in yours.items()}
        for node, token in mine.items():
            self._nodes.match(node, partner[token])
        if base.entry >= 0 and head.entry >= 0:
            self._pair(base.entry, head.entry)
        else:  # the other entry is matched like other computations
            self._mine.complete()
            self._yours.complete()
        self._run()
        self._pair_the_rest()
        self._run()
        self._across()

    # ---- computations --------------------------------------------------------------------------

    def _pair(self, mine: int, yours: int, callers: tuple[int, int] = (-1, -1)) -> None:
        is_equal = self._mine.content[mine] == self._yours.content[yours]
        (self._equal if is_equal else self._unequal).append((mine, yours, callers))

    def _run(self) -> None:
        """Match the waiting computations, equal ones first, and those that they call."""
        result = self.result
        while self._equal or self._unequal:
            mine, yours, callers = (self._equal or self._unequal).popleft()
            if result.head_computation[mine] >= 0 or result.base_computation[yours] >= 0:
                continue
            result.head_computation[mine] = yours
            result.base_computation[yours] = mine
            self._seed(mine, yours, callers)
            self._nodes.within(mine, yours)
            for node in self.base.calls_of(mine):
                if result.head_of[node] >= 0:
                    self._pair_callees(node, result.head_of[node])

    def _pair_callees(self, node: int, partner: int) -> None:
        called, other = self.base.callees[node], self.head.callees.get(partner, ())
        by_role: dict[str, list[int]] = {}
        for role, computation in other:
            by_role.setdefault(role, []).append(computation)
        for place, (role, mine) in enumerate(called):
            same = by_role.get(role)
            if same:
                self._pair(mine, same.pop(0), (node, partner))
            elif len(called) == len(other):
                self._pair(mine, other[place][1], (node, partner))

    def _seed(self, mine: int, yours: int, callers: tuple[int, int]) -> None:
        """Match parameters by the operands of the callers, if these are in another order.

        Not if the computations are equal: then only the callers differ.
        """
        a, b = callers
        if self._mine.content[mine] == self._yours.content[yours]:
            return
        if a < 0 or not opcode_traits(self.base.opcode(a)).is_positional:
            return
        given = [
            (self.result.head_of[x] if x >= 0 else -1, index)
            for x, index in operands_of(self.base, a)
        ]
        taken = list(operands_of(self.head, b))
        if given == taken:
            return
        times = Counter(given)
        places = {operand: place for place, operand in enumerate(taken)}
        numbers = parameter_numbers(self.base, mine), parameter_numbers(self.head, yours)
        for place, operand in enumerate(given):
            x, y = numbers[0].get(place, -1), numbers[1].get(places.get(operand, -1), -1)
            if x >= 0 and y >= 0 and times[operand] == 1 and self.result.base_of[y] < 0:
                self._nodes.match(x, y)

    def _pair_the_rest(self) -> None:
        """Match computations that no matched instruction calls, by the keys of `_computation_keys`.

        Computations of instructions without a partner were added or removed with these and are
        left out, except those that the entry does not run, which may call each other in a cycle.
        """
        sides = (self.base, self._mine), (self.head, self._yours)
        keys = zip(*(_computation_keys(graph, found) for graph, found in sides), strict=True)
        for mine, yours in keys:
            while True:
                my_left, your_left = self._left_computations(0), self._left_computations(1)
                pairs = by_key(my_left, your_left, mine, yours, "any")
                if not pairs:
                    break
                for a, b in pairs:
                    self._pair(a, b)
                self._run()

    def _left_computations(self, side: int) -> list[int]:
        graph = (self.base, self.head)[side]
        partners = (self.result.head_of, self.result.base_of)[side]
        computations = (self.result.head_computation, self.result.base_computation)[side]
        left = [c for c, partner in enumerate(computations) if partner < 0 and graph.nodes[c]]
        if not left:
            return []
        run = self._reached[side]
        gone = {
            computation
            for node, called in graph.callees.items()
            if partners[node] < 0 and graph.owner[node] in run
            for _, computation in called
        }
        return [computation for computation in left if computation not in gone]

    # ---- across computations -------------------------------------------------------------------

    def _across(self) -> None:
        """Match the rest across computations that are not partners: moved instructions.

        First instructions outside embedded computations, with their callees; then those in fusions
        and reducers; then those that moved into a fusion, or out of one.
        """
        sides = (self.base, self.result.head_of), (self.head, self.result.base_of)
        if any(-1 not in partners for _, partners in sides):
            return
        left = [[n for n, partner in enumerate(partners) if partner < 0] for _, partners in sides]
        places = moved_places(self.base), moved_places(self.head)
        for here, there in ((0, 0), (1, 1), (2, 3), (3, 2)):
            inside = places[0][here], places[1][there]
            for key, mode in MOVED if here == there else FUSED:
                mine, yours = (
                    [n for n in nodes if partners[n] < 0 and graph.owner[n] in among]
                    for nodes, (graph, partners), among in zip(left, sides, inside, strict=True)
                )
                if mine and yours:
                    my_key, your_key = partial(key, self.base), partial(key, self.head)
                    self._moved(by_key(mine, yours, my_key, your_key, mode))
            self._run()

    def _moved(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Match moved instructions whose computations are not partners, and their callees."""
        for mine, yours in pairs:
            partner = self.result.head_computation[self.base.owner[mine]]
            if partner == self.head.owner[yours]:
                continue
            self.result.head_of[mine], self.result.base_of[yours] = yours, mine
            self.result.moved.add(mine)
            if mine in self.base.callees:
                self._pair_callees(mine, yours)


def _computation_keys(graph: ProgramGraph, found: Fingerprints) -> Iterator[Key]:
    """Yield the keys of computations without matched callers, the strictest first.

    Equal computations are matched by name first: in text order, one edited copy among many would
    shift the partners of all later ones.
    """
    names = graph.module.computation_names
    yield lambda c: (found.content[c], names[c])
    yield found.content.__getitem__
    yield names.__getitem__
    yield lambda c: (_signature(graph, c), len(graph.nodes[c]))
    yield lambda c: _signature(graph, c)


def _signature(graph: ProgramGraph, computation: int) -> Hashable:
    """Return the parameters and the opcode of the result of a computation."""
    root, index = graph.roots[computation]
    opcode = graph.opcode(root) if root >= 0 else ""
    return (*[graph.label[node] for node in graph.parameters_of(computation)], opcode, index)
