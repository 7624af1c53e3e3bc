"""Which instruction of one program is which of another: who is who, nothing more.

Computations are matched by role, the entry first: what a matched instruction calls is matched with
what its partner calls. In two matched computations the instructions are matched in this order, each
step only among what is left:

1. equal fingerprints up (what an instruction computes, from the parameters on) and down (what
   becomes of it, to the results): equal subgraphs, in text order where there are several;
2. a fingerprint up or down that is the only one of its kind on both sides, then their
   neighbourhood: operands at one place and users of one kind of what is matched;
3. what is left of equal fingerprints up, in order;
4. one label and operation path, then one opcode and operation path, each first among neighbours of
   what is matched, then where they are alone, then in order;
5. another opcode at one place: same operands, same users, or the only ones of their path.

What is left at the end is matched across computations: moved. Fingerprints are hashes; all that is
matched is compared afterwards, so that a collision cannot hide a difference. Everything is linear
in nodes and edges, sorting aside; the order of the arguments does not matter.

The steps follow xla/hlo/tools/hlo_diff (GumTree), with hashing where that searches for candidates.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.analysis.diff.fingerprints import KnownBodies, fingerprints
from hlo_lens.analysis.diff.keys import (
    POSITIONAL,
    TRIVIAL,
    Accepts,
    Key,
    Keys,
    bare,
    by_key,
    by_keys,
    collective_alone,
    collective_and_path,
    computation_names,
    entry_parameters,
    general_path,
    label_and_path,
    moved_keys,
    moved_places,
    number,
    opcode_and_path,
    operands_of,
    parameter_numbers,
    path_alone,
    same_label,
    same_opcode,
    singles,
    use,
)
from hlo_lens.analysis.diff.left import Left

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from hlo_lens.analysis.diff.program_graph import ProgramGraph


@dataclass(slots=True, eq=False)
class Matching:
    """Who is who. Nodes and computations without a partner have -1.

    Attributes:
        head_of: For each node of the base, its partner.
        base_of: For each node of the head, its partner.
        head_computation: For each computation of the base, its partner.
        base_computation: For each computation of the head, its partner.
        base_up: Fingerprints of what each node of the base computes; one more for unknown operands.
        head_up: The same of the head.
        base_content: Fingerprints of whole computations of the base.
        head_content: The same of the head.
        moved: Nodes of the base whose partner is in a computation that is not its own's partner.
        whole: Computations of the base whose partner says and calls the same, node by node.
    """

    head_of: list[int]
    base_of: list[int]
    head_computation: list[int]
    base_computation: list[int]
    base_up: list[int]
    head_up: list[int]
    base_content: list[int]
    head_content: list[int]
    moved: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)

    def mirrored(self) -> Matching:
        """Return the same with base and head exchanged."""
        return Matching(
            head_of=self.base_of,
            base_of=self.head_of,
            head_computation=self.base_computation,
            base_computation=self.head_computation,
            base_up=self.head_up,
            head_up=self.base_up,
            base_content=self.head_content,
            head_content=self.base_content,
            moved={self.head_of[node] for node in self.moved},
            whole={self.head_computation[computation] for computation in self.whole},
        )


def matching(base: ProgramGraph, head: ProgramGraph) -> Matching:
    """Return who is who in two programs, whose graphs share labels and hints."""
    return _Matcher(base, head).result


# ---- matching ----------------------------------------------------------------------------------


class _Matcher:
    """Finds who is who. The two sides are called *mine* (the base) and *yours*."""

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
            base_up=self._mine.up,
            head_up=self._yours.up,
            base_content=self._mine.content,
            head_content=self._yours.content,
        )
        self._fresh: list[tuple[int, int]] = []
        self._matched = 0
        self._equal: deque[tuple[int, int, tuple[int, int]]] = deque()
        self._unequal: deque[tuple[int, int, tuple[int, int]]] = deque()
        mine, yours = tokens
        partner = {token: node for node, token in yours.items()}
        for node, token in mine.items():
            self._match(node, partner[token])
        if base.entry >= 0 and head.entry >= 0:
            self._pair(base.entry, head.entry)
        self._run()
        self._pair_the_rest()
        self._run()
        self._across()

    # ---- computations --------------------------------------------------------------------------

    def _pair(self, mine: int, yours: int, callers: tuple[int, int] = (-1, -1)) -> None:
        is_equal = self._mine.content[mine] == self._yours.content[yours]
        (self._equal if is_equal else self._unequal).append((mine, yours, callers))

    def _run(self) -> None:
        """Match the computations that wait, equal ones first, and what they lead to."""
        result = self.result
        while self._equal or self._unequal:
            mine, yours, callers = (self._equal or self._unequal).popleft()
            if result.head_computation[mine] >= 0 or result.base_computation[yours] >= 0:
                continue
            result.head_computation[mine] = yours
            result.base_computation[yours] = mine
            self._seed(mine, yours, callers)
            self._within(mine, yours)
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
        """Match parameters by what the callers give them, where that is not in the same order.

        Not where the computations are equal: then it is the callers that differ.
        """
        a, b = callers
        if self._mine.content[mine] == self._yours.content[yours]:
            return
        if a < 0 or self.base.opcode(a) not in POSITIONAL:
            return
        given = [
            (self.result.head_of[x] if x >= 0 else -1, index)
            for x, index in operands_of(self.base, a)
        ]
        taken = list(operands_of(self.head, b))
        if given == taken:
            return
        places = {operand: place for place, operand in enumerate(taken)}
        numbers = parameter_numbers(self.base, mine), parameter_numbers(self.head, yours)
        for place, operand in enumerate(given):
            x, y = numbers[0].get(place, -1), numbers[1].get(places.get(operand, -1), -1)
            if x >= 0 and y >= 0 and given.count(operand) == 1 and self.result.base_of[y] < 0:
                self._match(x, y)

    def _pair_the_rest(self) -> None:
        """Match computations that no matched instruction led to: by content, then by name.

        Not those of instructions without a partner, which came or went with them.
        """
        names = computation_names(self.base), computation_names(self.head)
        for mine, yours in ((self._mine.content, self._yours.content), names):
            while True:
                my_left, your_left = self._left_computations(0), self._left_computations(1)
                pairs = by_key(my_left, your_left, mine.__getitem__, yours.__getitem__, "any")
                if not pairs:
                    break
                for a, b in pairs:
                    self._pair(a, b)
                self._run()

    def _left_computations(self, side: int) -> list[int]:
        graph = (self.base, self.head)[side]
        partners = (self.result.head_of, self.result.base_of)[side]
        computations = (self.result.head_computation, self.result.base_computation)[side]
        gone = {
            computation
            for node, called in graph.callees.items()
            if partners[node] < 0
            for _, computation in called
        }
        return [
            computation
            for computation, partner in enumerate(computations)
            if partner < 0 and graph.nodes[computation] and computation not in gone
        ]

    # ---- within two computations ---------------------------------------------------------------

    def _match(self, mine: int, yours: int) -> None:
        self.result.head_of[mine] = yours
        self.result.base_of[yours] = mine
        self._fresh.append((mine, yours))
        self._matched += 1

    def _within(self, mine: int, yours: int) -> None:
        """Match the instructions of two computations."""
        if self._match_whole(mine, yours):
            return
        self._trim(self.base.nodes[mine], self.head.nodes[yours])
        left = Left(
            (self.base, self.head), (mine, yours), (self.result.head_of, self.result.base_of)
        )
        up, down = (self._mine.up, self._yours.up), (self._mine.down, self._yours.down)
        self._match_once(left, up)
        if self._match_equal(left, up, down):
            self._match_once(left, up)
        self._match_once(left, down)
        if not left:
            self._fresh.clear()
            return
        self._spread(left, same_label)
        self._match_left(left, up[0].__getitem__, up[1].__getitem__, "any")
        self._match_left(left, down[0].__getitem__, down[1].__getitem__, "equal")
        self._spread(left, same_label)
        self._by_path(left)
        self._replaced(left)
        self._fresh.clear()

    def _by_path(self, left: Left) -> None:
        """Match what is left by label and operation path, then by opcode and path."""
        for key, accepts in ((label_and_path, same_label), (opcode_and_path, same_opcode)):
            for mode in ("unique", "any", "equal"):
                if not left:
                    return
                mine, yours = key(self.base), key(self.head)
                if mode == "any":
                    mine, yours = self._beside(0, mine), self._beside(1, yours)
                self._match_left(left, mine, yours, mode)
                self._spread(left, accepts)
        self._match_left(left, number(self.base), number(self.head), "unique")
        self._match_left(left, bare(self.base, "label"), bare(self.head, "label"), "unique")
        self._match_left(left, bare(self.base, "opcode"), bare(self.head, "opcode"), "unique")

    def _match_whole(self, mine: int, yours: int) -> bool:
        """Match two computations that say and call the same, unless some of them is matched."""
        if self._mine.whole[mine] != self._yours.whole[yours]:
            return False
        result, a, b = self.result, self.base.nodes[mine], self.head.nodes[yours]
        for partners, nodes, others in ((result.head_of, a, b), (result.base_of, b, a)):
            known = partners[nodes.start : nodes.stop]
            if known.count(-1) < len(known) and any(
                partner not in (-1, other) for partner, other in zip(known, others, strict=True)
            ):
                return False
        result.head_of[a.start : a.stop] = b
        result.base_of[b.start : b.stop] = a
        result.whole.add(mine)
        return True

    def _match_once(self, left: Left, keys: Keys) -> None:
        """Match what has equal numbers that no other has."""
        if left:
            self._match_all(left, singles(left.nodes(0), left.nodes(1), keys))

    def _match_equal(self, left: Left, up: Keys, down: Keys) -> bool:
        """Match what is equal up and down, in order; return whether anything is."""
        if not left:
            return False
        keys = [
            list(zip(map(u.__getitem__, nodes), map(d.__getitem__, nodes), strict=True))
            for u, d, nodes in zip(up, down, (left.nodes(0), left.nodes(1)), strict=True)
        ]
        pairs = by_keys(left.nodes(0), left.nodes(1), (keys[0], keys[1]), "any")
        self._match_all(left, pairs)
        return bool(pairs)

    def _match_left(self, left: Left, mine: Key, yours: Key, mode: str) -> None:
        """Match what has equal keys; None is no key."""
        if left:
            self._match_all(left, by_key(left.nodes(0), left.nodes(1), mine, yours, mode))

    def _match_all(self, left: Left, pairs: Sequence[tuple[int, int]]) -> None:
        head_of, base_of = self.result.head_of, self.result.base_of
        for a, b in pairs:
            head_of[a] = b
            base_of[b] = a
        if pairs:
            self._matched += len(pairs)
            left.update()

    def _trim(self, mine: range, yours: range) -> None:
        """Match what is equal from the start on, and from the end on."""
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

    def _spread(self, left: Left, accepts: Accepts) -> None:
        """Match neighbours of what is matched: operands at one place, users of one kind."""
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

    def _spread_to_operands(self, mine: int, yours: int, accepts: Accepts) -> None:
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
                    self._match(x, y)

    def _spread_to_users(self, left: Left, mine: int, yours: int, accepts: Accepts) -> None:
        head_of, base_of = self.result.head_of, self.result.base_of
        my_users = [u for u in left.users(0).get(mine, ()) if head_of[u] < 0]
        if not my_users:
            return
        your_users = [u for u in left.users(1).get(yours, ()) if base_of[u] < 0]

        def mine_key(user: int) -> Hashable:
            return use(self.base, user, mine, accepts)

        def yours_key(user: int) -> Hashable:
            return use(self.head, user, yours, accepts)

        for x, y in by_key(my_users, your_users, mine_key, yours_key, "unique"):
            self._match(x, y)

    def _beside(self, side: int, key: Key) -> Key:
        """Return a key that also tells the partners of the operands; None where none has one."""
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

    def _replaced(self, left: Left) -> None:
        """Match what took the place of something else: same operands or users, or same path."""
        if not left:
            return
        self._match_left(
            left, collective_and_path(self.base), collective_and_path(self.head), "unique"
        )
        for by in ("opcode", "kind"):
            self._match_left(
                left, collective_alone(self.base, by), collective_alone(self.head, by), "unique"
            )
        self._match_left(left, self._place_key(left, 0), self._place_key(left, 1), "unique")
        self._match_left(left, path_alone(self.base), path_alone(self.head), "unique")
        self._match_left(left, general_path(self.base), general_path(self.head), "unique")

    def _place_key(self, left: Left, side: int) -> Key:
        """Return a key of what a node stands between: its matched operands and users.

        The result of a computation, which nothing uses there, stands at its end.
        """
        graph = (self.base, self.head)[side]
        users = left.users(side)
        roots = {root for root, _ in graph.roots}
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
            if not uses and node not in roots:
                return None
            return *map(named, taken), min(uses, default=-1)

        return key

    # ---- across computations -------------------------------------------------------------------

    def _across(self) -> None:
        """Match what is left in computations that are not partners: it moved.

        First what runs by itself, with what it calls; then what lies in fusions and reducers; then
        what went into a fusion, or out of one.
        """
        sides = (self.base, self.result.head_of), (self.head, self.result.base_of)
        left = [[n for n, partner in enumerate(partners) if partner < 0] for _, partners in sides]
        if not all(left):
            return
        places = moved_places(self.base), moved_places(self.head)
        for here, there in ((0, 0), (1, 1), (2, 3), (3, 2)):
            inside = places[0][here], places[1][there]
            for key, mode in moved_keys(is_between=here != there):
                mine, yours = (
                    [n for n in nodes if partners[n] < 0 and graph.owner[n] in among]
                    for nodes, (graph, partners), among in zip(left, sides, inside, strict=True)
                )
                if mine and yours:
                    self._moved(by_key(mine, yours, key(self.base), key(self.head), mode))
            self._run()

    def _moved(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Match what moved, unless it did not, and have what it calls matched."""
        for mine, yours in pairs:
            partner = self.result.head_computation[self.base.owner[mine]]
            if partner == self.head.owner[yours]:
                continue
            self.result.head_of[mine], self.result.base_of[yours] = yours, mine
            self.result.moved.add(mine)
            if mine in self.base.callees:
                self._pair_callees(mine, yours)
