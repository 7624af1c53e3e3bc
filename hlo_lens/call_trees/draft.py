"""Builder of call trees, node by node."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace

from hlo_lens.call_trees.call_tree import CALLS, NO_PARENT, PERCENT, CallFrame, CallTree
from hlo_lens.call_trees.seconds import seconds_tree
from hlo_lens.call_trees.tree_lines import CORNER, FORKS, Label


class TreeDraft:
    """A call tree built node by node.

    The open nodes, which may get further nodes below them, are four lists, outermost first: `keys`
    (twice the column of the branch; one less for a root without one), `nodes`, `times` (product of
    the repeats down to it) and `branches` (first character).
    """

    def __init__(self) -> None:
        self.frames: list[CallFrame] = []
        self.labels: dict[str | None, int] = {}
        self.frame_ids = array("i")
        self.parents = array("i")
        self.own = array("q")
        self.lines = array("i")
        self.keys: list[int] = []
        self.nodes: list[int] = []
        self.times: list[int] = []
        self.branches: list[str] = []
        self.title = ""
        self.is_cut = False
        self.begins_inside = False
        self.missing = 0
        self.measure = CALLS
        self.is_percent = False
        self.nanoseconds: dict[int, int] = {}
        """Seconds printed in the labels of nodes, times 10**9."""
        self.excess: list[tuple[int, int]] = []
        """Line and nanoseconds of calls whose callees have more than they have."""
        self._numbers: dict[CallFrame, int] = {}
        self._repeated: dict[str, tuple[int, int, int | None]] = {}
        self._files: dict[str, str] = {}

    def label(self, text: str, read: Callable[[str], Label]) -> tuple[int, int, int | None]:
        """Return the number of the function that a label names, its repeats and nanoseconds."""
        known = self.labels.get(text)
        if known is not None:
            return known, 1, None
        repeated = self._repeated.get(text)
        if repeated is not None:
            return repeated
        frame, times, nanoseconds, is_percent = read(text)
        self.is_percent |= is_percent
        number = self._numbers.get(frame)
        if number is None:
            if frame.file is not None:  # one text object for each file
                frame = replace(frame, file=self._files.setdefault(frame.file, frame.file))
            number = self._numbers[frame] = len(self.frames)
            self.frames.append(frame)
        if times == 1 and nanoseconds is None:
            self.labels[text] = number
        else:
            self._repeated[text] = (number, times, nanoseconds)
        return number, times, nanoseconds

    def continues_at(self, key: int) -> bool:
        """Return whether a line with this key may belong to the tree, by its branches.

        The branch of a last sibling excludes another one; ASCII ``+`` does not show it.
        """
        if not self.frame_ids:
            return False
        at = self._at(key)
        if not at:
            return self.begins_inside
        return self.keys[at - 1] < key or self.branches[at - 1] not in CORNER

    def may_be_over(self, key: int) -> bool:
        """Return whether no branch announces a sibling at this key."""
        at = self._at(key)
        is_sibling = at > 0 and self.keys[at - 1] == key
        return is_sibling and self.branches[at - 1] not in FORKS

    def _at(self, key: int) -> int:
        """Return the number of open nodes with at most this key."""
        at = len(self.keys)
        while at and self.keys[at - 1] > key:
            at -= 1
        return at

    def add(self, key: int, line: int, number: int, times: int, branch: str) -> None:
        """Add a node at its key, and close the nodes that it cannot be below."""
        keys = self.keys
        at = self._at(key)
        if at < len(keys):
            self.missing += sum(branch in FORKS for branch in self.branches[at:] if branch)
        if at and keys[at - 1] == key:
            at -= 1
        if at < len(keys):
            for column in (keys, self.nodes, self.times, self.branches):
                del column[at:]
        self.parents.append(self.nodes[-1] if at else NO_PARENT)
        product = times * self.times[-1] if at else times
        keys.append(key)
        self.nodes.append(len(self.frame_ids))
        self.times.append(product)
        self.branches.append(branch)
        self.frame_ids.append(number)
        self.own.append(product)
        self.lines.append(line)

    def add_below(self, parent: int, line: int, number: int, own: int) -> int:
        """Add a node of a tree that is not drawn below its caller; return the node."""
        self.parents.append(parent)
        self.frame_ids.append(number)
        self.own.append(own)
        self.lines.append(line)
        return len(self.parents) - 1

    def times_above(self, key: int) -> int:
        """Return the product of the repeats above a node with this key."""
        at = self._at(key - 1)
        return self.times[at - 1] if at else 1

    def done(self) -> CallTree:
        """Return the tree; it is cut off if an open branch announces a sibling."""
        is_unfinished = any(branch in FORKS for branch in self.branches if branch)
        tree = CallTree(
            frames=tuple(self.frames),
            frame_ids=self.frame_ids,
            parents=self.parents,
            own=self.own,
            lines=self.lines,
            measure=self.measure,
            title=self.title,
            missing_calls=self.missing,
            is_cut=self.is_cut or self.begins_inside or is_unfinished,
        )
        weighted = seconds_tree(tree, self.nanoseconds) if self.nanoseconds else None
        if weighted is None:
            return tree
        tree, self.excess = weighted
        return replace(tree, measure=PERCENT) if self.is_percent else tree
