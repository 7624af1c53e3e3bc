"""All results known of one call tree: each pass runs once, when its result is first used."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.call_trees.call_tree import CALLS
from hlo_lens.call_trees.communication_amounts import CommunicationAmounts, communication_amounts
from hlo_lens.call_trees.communication_paths import CommunicationPaths, communication_paths
from hlo_lens.call_trees.grouping import CallTreeBy, call_tree_by
from hlo_lens.call_trees.outline import CallTreeOutline, call_tree_outline
from hlo_lens.call_trees.repeats import CallTreeRepeats, call_tree_repeats, subtree_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.call_trees.call_tree import CallTree
    from hlo_lens.text.name_pattern import NamePattern


class CallTreeAnalysis:
    """A call tree with its name, and the results of the passes on it, each computed once.

    Args:
        tree: The tree.
        name: Title.
        notes: Sentences on where the tree comes from.
        find: Functions that count as communication too: found in ``function, file:line``.
        program: Files of the program; None to recognize them by their folders.
    """

    def __init__(
        self,
        tree: CallTree,
        name: str,
        notes: Sequence[str] = (),
        *,
        find: NamePattern | None = None,
        program: NamePattern | None = None,
    ) -> None:
        self.tree = tree
        self.name = name
        self.notes = tuple(notes)
        self._find = find
        self._program = program
        self._groups: dict[tuple[str, str], CallTreeBy] = {}

    @property
    def is_trace(self) -> bool:
        """Whether nodes count calls, which profiles and the stacks of a module have not."""
        return self.tree.measure == CALLS

    @cached_property
    def shapes(self) -> Sequence[int]:
        """A number for each node, the same for equal subtrees."""
        return subtree_shapes(self.tree)

    @cached_property
    def paths(self) -> CommunicationPaths:
        """Calls that trigger communication, by caller and model line."""
        return communication_paths(self.tree, find=self._find, program=self._program)

    @cached_property
    def communication(self) -> CommunicationAmounts:
        """Amounts of the functions that communicate, with all below them."""
        return communication_amounts(self.tree, find=self._find)

    @cached_property
    def repeats(self) -> CallTreeRepeats:
        """Equal subtrees."""
        return call_tree_repeats(self.tree, self.shapes)

    def outline(self, *, lines: int = 0, depth: int | None = None) -> CallTreeOutline:
        """Return the outline of the tree: at most so many lines (0 for all) and levels."""
        return call_tree_outline(self.tree, self.shapes, lines=lines, depth=depth)

    def by(self, by: str, sort: str) -> CallTreeBy:
        """Group by ``function``, ``file`` or ``package``, sorted by ``own`` or ``total``."""
        if (by, sort) not in self._groups:
            self._groups[by, sort] = call_tree_by(self.tree, by, sort=sort)
        return self._groups[by, sort]
