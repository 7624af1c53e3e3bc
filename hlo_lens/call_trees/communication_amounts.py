"""Seconds or samples of a profile in functions that communicate."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.call_trees.communication_kind import kind_or_found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.call_trees.call_tree import CallTree
    from hlo_lens.text.name_pattern import NamePattern


@dataclass(frozen=True, kw_only=True)
class CommunicationAmounts:
    """Amounts of the calls that communicate, those below no other such call.

    Attributes:
        of_function: Amount of each function with all below it, the largest first.
    """

    of_function: Mapping[str, int]

    @property
    def total(self) -> int:
        """Sum over the functions."""
        return sum(self.of_function.values())


def communication_amounts(
    tree: CallTree, *, find: NamePattern | None = None
) -> CommunicationAmounts:
    """Return the amounts of a tree in functions that communicate.

    Args:
        tree: The tree.
        find: Functions that count too: searched in ``function, file:line``.
    """
    communicates = [kind_or_found(frame, find) is not None for frame in tree.frames]
    found: Counter[str] = Counter()
    end = 0
    for node, frame in enumerate(tree.frame_ids):
        if node >= end and communicates[frame]:
            found[tree.frames[frame].function] += tree.totals[node]
            end = tree.ends[node]
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return CommunicationAmounts(of_function=dict(ranked))
