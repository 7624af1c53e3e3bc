"""Matching of two programs, and of the instructions of two computations (steps of `matching`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from operator import eq, not_
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.matching.match_keys import (
    TRIVIAL,
    Key,
    Keys,
    NodeKey,
    by_key,
    by_keys,
    collective_kind,
    collective_path,
    collective_type,
    general_path,
    label_alone,
    label_and_path,
    opcode_and_path,
    opcode_and_sizes,
    parameter_key,
    path_alone,
    same_label,
    same_opcode,
    singles,
    user_key,
)
from hlo_lens.questions.diff.matching.unmatched import Unmatched

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from hlo_lens.questions.diff.matching.fingerprints import Fingerprints
    from hlo_lens.questions.diff.matching.graph import ProgramGraph


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
