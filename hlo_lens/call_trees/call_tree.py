"""CallTree: calls with their callers, numbers and amounts.

A tree is flat columns in preorder, one entry per node, so that its depth has no limit and a million
nodes take little memory. Trees come from printed traces and profiles of Python programs, and from
the call stacks in the tables of an HLO module.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.text.errors import Gap

NO_PARENT = -1

CALLS, SECONDS, PERCENT, SAMPLES = "calls", "seconds", "percent", "samples"
PROFILES = (SECONDS, PERCENT, SAMPLES)
"""Measures of trees that texts hold; those of profiles."""

_NANOSECONDS = 10**9


def in_unit(amount: int, measure: str) -> float:
    """Return an amount of a tree in the unit of its measure: nanoseconds as seconds."""
    return amount / _NANOSECONDS if measure in (SECONDS, PERCENT) else amount


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFrame:
    """A function in a place.

    Attributes:
        function: Name as printed; empty if only the place is known.
        file: File; None if unknown.
        line: 1-based line in it, of the function's beginning or of its call of the next one.
    """

    function: str
    file: str | None = None
    line: int | None = None

    @property
    def place(self) -> str | None:
        """``file:line``, or None."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return ", ".join(part for part in (self.function, self.place) if part)


@dataclass(kw_only=True)
class CallTree:
    """A forest of calls in preorder: every node comes before the nodes that it calls.

    Attributes:
        frames: The distinct functions.
        frame_ids: Index in `frames` of each node.
        parents: Node that called each node, `NO_PARENT` for outermost ones; always smaller than the
            node itself.
        own: Amount of each node itself, without its calls: 1 for a call drawn once, more for a
            repeated one; or bytes, nanoseconds, samples, instructions.
        lines: 1-based line of the text for each node; empty if no text draws the tree.
        measure: Measure of `own`: ``calls``, ``seconds`` and ``percent`` (counted in parts of
            10**-9), ``samples``, ``memory``, ``wire-bytes`` or ``count``.
        unknown: Number of items with an unknown amount, of each node; empty for none.
        residuals: Bracketed label and amount of items without a node.
        residual_unknown: Number of items without a node and with an unknown amount.
        title: Title of the tree in the text.
        missing_calls: Number of branches that announce a further call that does not follow.
        is_cut: Whether its text is known to begin late or to end early.
        upper_bound: Upper bound of the sum of all amounts, at most that sum, where amounts are
            upper bounds; else None.
    """

    frames: Sequence[CallFrame]
    frame_ids: Sequence[int]
    parents: Sequence[int]
    own: Sequence[int]
    lines: Sequence[int] = ()
    measure: str = CALLS
    unknown: Sequence[int] = ()
    residuals: tuple[tuple[str, int], ...] = ()
    residual_unknown: int = 0
    title: str = ""
    missing_calls: int = 0
    is_cut: bool = False
    upper_bound: int | None = None

    def __len__(self) -> int:
        return len(self.frame_ids)

    def frame(self, node: int) -> CallFrame:
        """Return the function of a node."""
        return self.frames[self.frame_ids[node]]

    @cached_property
    def ends(self) -> Sequence[int]:
        """End of the subtree of each node: the first later node that is not below it."""
        ends = array("i", range(1, len(self) + 1))
        for node in range(len(self) - 1, -1, -1):
            parent = self.parents[node]
            if parent >= 0 and ends[parent] < ends[node]:
                ends[parent] = ends[node]
        return ends

    @cached_property
    def depths(self) -> Sequence[int]:
        """Calls above each node: 0 for outermost ones."""
        depths = array("i", bytes(4 * len(self)))
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                depths[node] = depths[parent] + 1
        return depths

    @cached_property
    def totals(self) -> Sequence[int]:
        """Amount of each node with all below it."""
        return with_below(self.own, self.parents)

    @cached_property
    def unknown_totals(self) -> Sequence[int]:
        """Number of items of unknown amount at and below each node; empty for none."""
        return with_below(self.unknown, self.parents) if self.unknown else ()

    @property
    def roots(self) -> list[int]:
        """The outermost nodes."""
        return [node for node, parent in enumerate(self.parents) if parent < 0]

    def children(self, node: int) -> Iterator[int]:
        """Yield the nodes that a node calls, in order."""
        child, end = node + 1, self.ends[node]
        while child < end:
            yield child
            child = self.ends[child]

    def stack(self, node: int) -> list[int]:
        """Return a node and its callers, outermost first."""
        found = []
        while node >= 0:
            found.append(node)
            node = self.parents[node]
        return found[::-1]

    def repeats(self, node: int) -> int:
        """Return the number of calls per call of the caller, 1 for once.

        A caller without an amount of its own, such as a module around calls, counts as one call.
        """
        parent = self.parents[node]
        above = self.own[parent] if parent >= 0 else 1
        return self.own[node] // max(1, above)

    @property
    def total(self) -> int:
        """Sum over all nodes and residuals."""
        return sum(self.own) + sum(amount for _, amount in self.residuals)

    @property
    def unknown_total(self) -> int:
        """Number of items with an unknown amount."""
        return sum(self.unknown) + self.residual_unknown


def with_below(own: Sequence[int], parents: Sequence[int]) -> list[int]:
    """Return own amounts plus those of all below; callers come before their callees."""
    totals = list(own)
    for node in range(len(totals) - 1, -1, -1):
        if parents[node] >= 0:
            totals[parents[node]] += totals[node]
    return totals


@dataclass(kw_only=True)
class CallTrees:
    """All call trees of a text.

    Attributes:
        trees: In text order.
        gaps: Lines inside the trees that could not be read.
        passed_over: First line and number of lines of each stretch that belongs to no tree.
        path: Name of the file that they were read from.
    """

    trees: tuple[CallTree, ...] = ()
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)
    passed_over: tuple[tuple[int, int], ...] = field(default=(), repr=False, compare=False)
    path: str = field(default="<text>", compare=False)

    @property
    def passed_lines(self) -> int:
        """Number of lines, blank ones left out, that belong to no tree."""
        return sum(lines for _, lines in self.passed_over)
