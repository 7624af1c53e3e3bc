"""Matching of two programs: the partner of each node and computation."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Matching:
    """Partners of nodes and computations; -1 for none.

    Attributes:
        head_of: For each node of the base, its partner.
        base_of: For each node of the head, its partner.
        head_computation: For each computation of the base, its partner.
        base_computation: For each computation of the head, its partner.
        base_up: Fingerprint up of each node of the base; one more for unknown operands.
        head_up: The same of the head.
        base_down: Fingerprint down of each node of the base.
        head_down: The same of the head.
        base_content: Fingerprint of each computation of the base.
        head_content: The same of the head.
        moved: Nodes of the base whose partner is not in the partner of their computation.
        whole: Computations of the base that equal their partner, node by node, callees included.
    """

    head_of: list[int]
    base_of: list[int]
    head_computation: list[int]
    base_computation: list[int]
    base_up: list[int]
    head_up: list[int]
    base_down: list[int]
    head_down: list[int]
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
            base_down=self.head_down,
            head_down=self.base_down,
            base_content=self.head_content,
            head_content=self.base_content,
            moved={self.head_of[node] for node in self.moved},
            whole={self.head_computation[computation] for computation in self.whole},
        )
