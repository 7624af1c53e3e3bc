"""Lines of drawn call trees, cut into branch and label by regular expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.model.call_tree import CallFrame
from hlo_lens.syntax.call_trees import patterns
from hlo_lens.syntax.call_trees.draft import Label

if TYPE_CHECKING:
    import re


class TreeLine(NamedTuple):
    """One line of a tree, cut into its parts.

    Attributes:
        start: Offset of its first character.
        end: Offset after its last character, without the line end.
        column: Characters between the prefix of a log and the branch.
        has_bars: Whether a branch of another node passes on its left.
        branch: First character of the branch; empty for a root that has none.
        label: Function as written; empty if it is missing.
        prefix: Length of the prefix of a log.
    """

    start: int
    end: int
    column: int
    has_bars: bool
    branch: str
    label: str
    prefix: int


def tree_line(match: re.Match[str], start: int, end: int, label: str) -> TreeLine:
    """Return the line of a match of `patterns.TREE_LINE`."""
    indent = match[2]
    has_bars = not indent.isspace() and bool(indent)
    return TreeLine(start, end, len(indent), has_bars, match[3][0], label, len(match[1]))


def label_of(text: str) -> Label:
    """Return function, place and repeats of a label, in any of its written forms."""
    text = text.strip()
    seconds = patterns.SECONDS.match(text)
    if seconds is not None:
        text = text[seconds.end() :]
    for order, pattern in patterns.LABELS:
        match = pattern.match(text)
        if match is not None:
            groups = match.groups()
            times = next((int(g) for g in groups[-4:] if g), 1)
            if order == "function first":
                function, file, line = groups[:3]
            elif order == "place first":
                file, line, function = groups[:3]
            else:
                function, (file, line) = "", groups[:2]
            return Label(CallFrame(function=function, file=file, line=int(line)), times)
    match = patterns.NAME_ONLY.match(text)
    if match is None:
        return Label(CallFrame(function=text))
    return Label(CallFrame(function=match[1]), next((int(g) for g in match.groups()[1:] if g), 1))
