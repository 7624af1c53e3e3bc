"""Lines of drawn call trees, cut into branch and label by regular expressions.

The expressions are equal to `call_tree.lark`. A text that does not match is rejected in one pass:
repetitions are possessive, or end where the next one begins.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hlo_lens.call_trees.call_tree import CallFrame

BAR = "│┃║┆┊╎¦|"
"""Characters that continue a branch on the lines below it."""

FORK = "├┝┞┟┠┡┢┣╞╟╠+"
"""Characters that begin a branch with later siblings."""

FORKS = FORK.replace("+", "|")
"""Branches that are never the last: ASCII ``+`` may be."""

CORNER = "└┕┖┗╘╙╚╰`\\"
"""Characters that begin the last branch of a node."""

_BLANK = r"[ \t\xa0]"
_BOX_BRANCH = "[├┝┞┟┠┡┢┣╞╟╠└┕┖┗╘╙╚╰][─━═╌┄┈╴-]++[┬┳╦┐╮>▶]?+"
_ASCII_BRANCH = r"[|+`\\](?:-{1,4}+|_{1,3}+)(?=[ \t\xa0]|[\w<(\[*{])"
BRANCH = rf"(?:{_BOX_BRANCH}|{_ASCII_BRANCH})"
_MARKS = f"{BAR}{FORK}{CORNER}".replace("\\", "\\\\")
PREFIX = rf"[^\s{_MARKS}][^\n{_MARKS}]{{0,119}}?(?<=[\]:>\-]) ?+"
"""Prefix of a line in a log; it ends with a mark."""

_INDENT = rf"(?:[{BAR[:-1]} \t\xa0]|\|(?![-_]))*+"
_LABEL = r"[^\s\u2500-\u257f|+`\\-][^\n]*+"

TREE_LINE = re.compile(
    rf"^((?:{PREFIX})?)({_INDENT})({BRANCH}){_BLANK}*+({_LABEL})?+$", re.MULTILINE
)
"""A line of a tree. Groups: prefix, indentation with bars, branch, label (None if missing)."""

NOT_BLANK = re.compile(r"[^\s][^\n]*+")
"""Text of a line that is not blank."""

# ---- labels ------------------------------------------------------------------------------------

_WORD_FILE = r"(?:[A-Za-z]:(?=[\\/]))?+[^\s:,()\[\]]++"
_PATH_FILE = r"(?=[^\s:]*[./\\<])" + _WORD_FILE
_ANY_FILE = r"(?:[A-Za-z]:(?=[\\/]))?+(?!\s)[^:,\n]*[^:,\s]"
_INNER_FILE = r"(?:[A-Za-z]:(?=[\\/]))?+(?!\s)[^:,\n()\[\]]*[^:,\s()\[\]]"
_LINE = r":(\d{1,9})"
_TIMES = (
    r"(?:\s+(?:[x\u00d7] ?(\d{1,9})|\([x\u00d7] ?(\d{1,9})\)|\((\d{1,9}) calls?\)"
    r"|\[[x\u00d7] ?(\d{1,9})\]))?\s*$"
)
SECONDS = re.compile(r"(\d{1,9})\.(\d{1,9})\d*(?:([num]?)s|(%))?\s+(?=\S)")
"""Seconds, or percent of all, before a function."""

_PARTS = {"": 1, "m": 10**3, "u": 10**6, "n": 10**9}
"""Number of each unit in a second."""

LABELS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (order, re.compile(pattern + _TIMES))
    for order, pattern in (
        ("function first", rf"(.*\S)\s*,\s+({_ANY_FILE}){_LINE}"),
        ("function first", rf"(.*\S)\s*[(\[]({_INNER_FILE}){_LINE}[)\]]"),
        ("function first", rf"(.*\S)\s+(?:at|@|in|from)\s+({_WORD_FILE}){_LINE}"),
        ("place first", r'File "([^"\n]+)", line (\d{1,9}), in (\S.*?)'),
        ("place first", rf"({_PATH_FILE})\((\d{{1,9}})\): (\S.*?)"),
        ("place first", rf"({_PATH_FILE}){_LINE}\s*\((\S.*)\)"),
        ("place first", rf"({_PATH_FILE}){_LINE}(?::|\s)\s*(\S.*?)"),
        ("function first", rf"(.*\S)\s+({_PATH_FILE}){_LINE}"),
        ("place only", rf"({_PATH_FILE}){_LINE}"),
        ("no line", r"(.*\S)\s{2,}(<[^<>\s]+>)"),
    )
)
"""Forms of a label with a place, in the order in which they are tried.

Groups: function, file and line in the named order, then the number of repeats, in one of
four groups.
"""

NAME_ONLY = re.compile(
    r"(.*?\S)(?:\s{2,}[x\u00d7] ?(\d{1,9})|\s+\([x\u00d7] ?(\d{1,9})\)|\s+\((\d{1,9}) calls?\)"
    r"|\s+\[[x\u00d7] ?(\d{1,9})\])?\s*$"
)
"""A label without a place; the number of repeats is separated by blanks."""


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


class Label(NamedTuple):
    """Label of a line: a function, its number of repeats, and the nanoseconds before it.

    A percentage before it is 10**9 times as many.
    """

    frame: CallFrame
    times: int = 1
    nanoseconds: int | None = None
    is_percent: bool = False


def tree_line(match: re.Match[str], start: int, end: int, label: str) -> TreeLine:
    """Return the line of a match of `TREE_LINE`."""
    indent = match[2]
    has_bars = not indent.isspace() and bool(indent)
    return TreeLine(start, end, len(indent), has_bars, match[3][0], label, len(match[1]))


def label_of(text: str) -> Label:
    """Return function, place, repeats and seconds of a label, in any of its written forms."""
    text = text.strip()
    seconds = SECONDS.match(text)
    if seconds is None:
        return _call_of(text)
    return with_amount(_call_of(text[seconds.end() :]), seconds)


def with_amount(label: Label, match: re.Match[str]) -> Label:
    """Return a label with the amount of a match of `SECONDS`."""
    whole, digits, unit, percent = match.groups()
    nanoseconds = int(f"{whole}{digits:0<9}") // _PARTS[unit or ""]
    return label._replace(nanoseconds=nanoseconds, is_percent=percent is not None)


def _call_of(text: str) -> Label:
    for order, pattern in LABELS:
        match = pattern.match(text)
        if match is not None:
            return _placed(order, match.groups())
    match = NAME_ONLY.match(text)
    if match is None:
        return Label(CallFrame(function=text))
    return Label(CallFrame(function=match[1]), next((int(g) for g in match.groups()[1:] if g), 1))


def _placed(order: str, groups: tuple[str, ...]) -> Label:
    """Return the label of a match of one of `LABELS`."""
    times = next((int(g) for g in groups[-4:] if g), 1)
    if order == "no line":
        return Label(CallFrame(function=groups[0], file=groups[1]), times)
    if order == "function first":
        function, file, line = groups[:3]
    elif order == "place first":
        file, line, function = groups[:3]
    else:
        function, (file, line) = "", groups[:2]
    return Label(CallFrame(function=function, file=file, line=int(line)), times)
