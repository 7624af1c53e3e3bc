"""Unmatched nodes of two computations, while their instructions are matched."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.questions.diff.matching.graphs import ProgramGraph
    from hlo_lens.questions.diff.matching.matching import NodeKey


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
