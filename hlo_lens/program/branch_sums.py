"""Sums over parts of a program of which some are in branches of conditionals.

A conditional runs one of its branches each time, so of its branches the one with the largest sum
counts. The least sum takes the smallest instead, 0 if a branch has no part. Branches of the same
conditional inside a loop are added up before the largest is taken: no run exceeds the number of
trips times the largest branch.

The branches around a part are texts, outermost first: ``main/conditional.3:0/2`` is the first of
the two branches of ``conditional.3`` in the computation ``main``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Branches = tuple[str, ...]


class SumPart(NamedTuple):
    """One part of a sum.

    Attributes:
        branches: Branches around it, outermost first.
        amount: Its amount if all these branches are taken.
        is_exact: Whether the amount is no upper bound then.
    """

    branches: Branches
    amount: int
    is_exact: bool = True


class SumBounds(NamedTuple):
    """Least and largest sum; equal if the sum is known exactly."""

    least: int
    most: int

    @property
    def is_at_most(self) -> bool:
        """Whether the largest sum is an upper bound only."""
        return self.least != self.most


def branch_text(conditional: str, number: int, count: int) -> str:
    """Return the text of a branch.

    Args:
        conditional: Computation and name of the conditional.
        number: Number of the branch, from 0.
        count: Number of its branches.
    """
    return f"{conditional}:{number}/{count}"


def numbered_branch(branch: str, numbers: dict[str, str]) -> str:
    """Return the text of a branch with a number instead of the name of its conditional.

    Args:
        branch: The text.
        numbers: Number of each conditional seen so far; gets that of a new one.
    """
    conditional, _, rest = branch.rpartition(":")
    return f"{numbers.setdefault(conditional, str(len(numbers)))}:{rest}"


def bounded_sum(parts: Iterable[SumPart]) -> SumBounds:
    """Return the least and the largest sum of some parts."""
    least = most = 0
    inside: dict[str, list[SumPart]] = {}
    for branches, amount, is_exact in parts:
        if branches:
            inside.setdefault(branches[0], []).append(SumPart(branches[1:], amount, is_exact))
        else:
            most += amount
            least += amount if is_exact else 0
    conditionals: dict[tuple[str, int], list[SumBounds]] = {}
    for branch, members in inside.items():
        key = (branch.rpartition(":")[0], int(branch.rpartition("/")[2]))
        conditionals.setdefault(key, []).append(bounded_sum(members))
    for (_, count), sums in conditionals.items():
        most += max(one.most for one in sums)
        least += min(one.least for one in sums) if len(sums) >= count else 0
    return SumBounds(least, most)


def shared_branches(paths: Sequence[Branches]) -> Branches:
    """Return the branches that all of some paths begin with."""
    first = min(paths, key=len, default=())
    length = len(first)
    while length and any(path[:length] != first[:length] for path in paths):
        length -= 1
    return first[:length]
