"""Matching of the instructions and computations of two programs.

Computations are matched by role, the entry first: callees of a matched instruction are matched with
those of its partner. If the edges of two matched computations are the same, node by node,
instructions with equal labels at one place are partners. The rest is matched in these steps, each
among the unmatched:

1. equal fingerprints up (what an instruction computes, from the parameters on) and down (its users,
   to the results): equal subgraphs, in text order if there are several;
2. a fingerprint up or down that is unique on both sides, then the neighbourhood of matched nodes:
   operands at one place and users of one kind;
3. remaining equal fingerprints up, in order;
4. equal label and operation path, then equal opcode and operation path, each first among neighbours
   of matched nodes, then if unique, then in order;
5. another opcode at one place: same operands, same users, or unique by path.

The rest is matched across computations: moved instructions. Fingerprints are hashes; all partners
are compared afterwards, so that a collision cannot hide a difference. Everything except sorting is
linear in nodes and edges; the order of the arguments does not matter.

The steps follow xla/hlo/tools/hlo_diff (GumTree), with hashing where that searches for candidates.
"""

from __future__ import annotations

from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.diff.matching.fingerprints import KnownBodies, fingerprints
from hlo_lens.questions.diff.matching.match_computations import Matching, NodeMatcher
from hlo_lens.questions.diff.matching.match_keys import (
    FUSED,
    MOVED,
    by_key,
    entry_parameters,
    moved_places,
    operands_of,
    parameter_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from hlo_lens.questions.diff.matching.fingerprints import Fingerprints
    from hlo_lens.questions.diff.matching.graph import ProgramGraph
    from hlo_lens.questions.diff.matching.match_keys import Key


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
