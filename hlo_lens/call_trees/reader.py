"""Reader of call trees: one pass with the grammar's patterns of lines; Lark reads the labels.

The column of a branch gives the depth of its call, so that indentation may have any width. A line
outside a tree is passed over and counted; inside a tree it is a gap.
"""

from __future__ import annotations

import functools
import re
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from hlo_lens.call_trees.tree import NO_PARENT, CallFrame, CallTree, CallTrees
from hlo_lens.grammar.lines import terminal
from hlo_lens.grammar.parsers import build_parser
from hlo_lens.text.dump_kinds import TREE_FORMS
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Source, Span, clean, decode

if TYPE_CHECKING:
    from lark import Lark, Token

_MOST_TIMES = 10**9
"""Largest product of nested repeats; larger ones are refused."""

_MOST_NOTED = 4096
"""Most gaps, and most stretches of other lines; the last one counts all further lines."""

_LONGEST_ROOT = 400
"""Longest line, in characters, that may name the root of the tree below it."""

_NOT_BLANK = re.compile(r"\S[^\n]*+")

_FORKS = "├┝┞┟┠┡┢┣╞╟╠|"
"""Branches that are never the last of a caller; ASCII ``+`` may be."""

_CORNERS = "└┕┖┗╘╙╚╰`\\"
"""Branches that are the last of a caller."""


def parse_call_trees(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> CallTrees:
    """Return the call trees that a text draws, or the stacks of threads that Python printed.

    Args:
        text: Any text; lines that belong to no tree are passed over and counted.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.

    Raises:
        DumpSyntaxError: If it has no tree, or, when strict, at the first gap.
    """
    if isinstance(text, bytes):
        text = decode(text)
    reader = _TreeReader(text if isinstance(text, Source) else clean(text, path))
    reader.read_drawn()
    if not reader.trees:
        reader.read_threads()
    if not reader.trees:
        raise DumpSyntaxError(f"expected {TREE_FORMS}; found nothing", path=reader.source.path)
    if strict and reader.gaps:
        raise reader.gaps[0].as_error()
    trees = [tree for tree in reader.trees if any(frame.file for frame in tree.frames)]
    # next to calls, trees without any file are of folders or packages
    others = [tree for tree in reader.trees if trees and not any(f.file for f in tree.frames)]
    stretches = [(min(tree.lines), len(set(tree.lines))) for tree in others]
    return CallTrees(
        trees=tuple(trees or reader.trees),
        gaps=tuple(reader.gaps),
        passed_over=tuple(sorted([*reader.passed_over, *stretches])),
        path=reader.source.path,
    )


# ---- grammar ------------------------------------------------------------------------------------


@functools.cache
def parser() -> Lark:
    """Return the parser of the lines and labels of call trees."""
    return build_parser("call_tree", start=["node", "thread", "label"])


@functools.cache
def _node_pattern() -> re.Pattern[str]:
    """Return the rule ``node`` as a pattern: prefix, indentation, branch, label."""
    prefix, indent, branch, blanks, label = map(
        _terminal, ("PREFIX", "INDENT", "BRANCH", "_BLANKS", "LABEL")
    )
    pattern = rf"^((?:{prefix})?)((?:{indent})?+)({branch})(?:{blanks})?+({label})?+$"
    return re.compile(pattern, re.MULTILINE)


@functools.cache
def _thread_pattern() -> re.Pattern[str]:
    """Return the rule ``thread`` as a pattern: head, all lines of the stack."""
    pattern = rf"^({_terminal('THREAD_HEAD')})((?:{_terminal('STACK_LINE')})*)"
    return re.compile(pattern, re.MULTILINE)


def _terminal(name: str) -> str:
    return terminal(name, "call_tree")


@functools.lru_cache(maxsize=4096)
def call_label(text: str) -> tuple[CallFrame, int]:
    """Return the function that a label names, and its number of repeats."""
    text = text.strip()
    if not text:
        return CallFrame(function=""), 1
    children = cast("list[Token | None]", parser().parse(text, start="label").children)
    token = {one.type: str(one) for one in children if one is not None}
    line = token.get("LINE")
    frame = CallFrame(
        function=token.get("FUNCTION") or token["NAME"],
        file=token.get("FILE") or token.get("QUOTED_FILE"),
        line=None if line is None else int(line),
    )
    return frame, int(token["TIMES"].strip()[1:]) if "TIMES" in token else 1


# ---- trees --------------------------------------------------------------------------------------


class _Open(NamedTuple):
    """A node that may get further nodes below it.

    `key` is twice the column of its branch (one less for a root without one), `times` the product
    of the repeats down to it.
    """

    key: int
    node: int
    times: int
    branch: str


class _Draft:
    """A tree to which nodes are added line by line; `open` are its open nodes, outermost first."""

    def __init__(self) -> None:
        self.frames: dict[CallFrame, int] = {}
        self.labels: dict[str | None, int] = {}
        self.columns = array("i"), array("i"), array("q"), array("i")
        self.open: list[_Open] = []
        self.title = ""
        self.begins_inside = False
        self.is_cut = False
        self.missing = 0

    def above(self, key: int) -> _Open | None:
        """Return the innermost open node with at most this key."""
        for node in reversed(self.open):
            if node.key <= key:
                return node
        return None

    def continues_at(self, key: int) -> bool:
        """Return whether a line with this key may belong to the tree.

        The branch of a last sibling excludes another one.
        """
        above = self.above(key)
        if above is None:
            return self.begins_inside
        return above.key < key or above.branch not in _CORNERS

    def add(self, key: int, line: int, frame: int, times: int, branch: str) -> None:
        """Add a node at its key, and close the nodes that it cannot be below."""
        stack = self.open
        while stack and stack[-1].key >= key:
            closed = stack.pop()
            # a sibling was announced, and this is no sibling
            self.missing += closed.key > key and closed.branch != "" and closed.branch in _FORKS
        above = stack[-1] if stack else _OUTSIDE
        frame_ids, parents, own, lines = self.columns
        stack.append(_Open(key, len(own), times * above.times, branch))
        frame_ids.append(frame)
        parents.append(above.node)
        own.append(times * above.times)
        lines.append(line)

    def done(self) -> CallTree:
        """Return the tree; it is cut off if an open branch announces a sibling."""
        frame_ids, parents, own, lines = self.columns
        is_unfinished = any(node.branch and node.branch in _FORKS for node in self.open)
        return CallTree(
            frames=tuple(self.frames),
            frame_ids=frame_ids,
            parents=parents,
            own=own,
            lines=lines,
            title=self.title,
            missing_calls=self.missing,
            is_cut=self.is_cut or self.begins_inside or is_unfinished,
        )


_OUTSIDE = _Open(-2, NO_PARENT, 1, "")


class _TreeReader:
    """One pass over a source; `passed_over` has the stretches of lines that belong to no tree."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.trees: list[CallTree] = []
        self.gaps: list[Gap] = []
        self.passed_over: list[tuple[int, int]] = []
        self._draft = _Draft()
        self._files: dict[str, str] = {}
        self._line, self._counted = 1, 0

    def read_drawn(self) -> None:
        """Read the drawn trees."""
        text = self.text
        position = 0
        for match in _node_pattern().finditer(text):
            start, begin, branch = match.start(), match.start(2), match.start(3)
            key = 2 * (branch - begin)
            draft = self._draft
            frame = draft.labels.get(match[4])
            if start == position and frame is not None and draft.continues_at(key):
                # nearly all lines: the next one of a tree, with a label that has been read
                self._line += 1
                self._counted = start
                draft.add(key, self._line, frame, 1, text[branch])
            else:
                if start > position:
                    self._read_between(position, match)
                self._add(match, key)
            position = match.end() + 1
        self._end(position)

    def _add(self, match: re.Match[str], key: int) -> None:
        """Add the node of a line, to the tree before it or to a new one."""
        if not self._draft.continues_at(key):
            self._close()
            if not (match[2].isspace() or not match[2]):  # bars of callers on its left
                self._draft.begins_inside = True
                message = "expected the callers of this line: the text begins inside a tree"
                self._gap(match.start(), match.end(), message)
        label = match[4] or ""
        frame, times = self._read_label(label)
        above = self._draft.above(key - 1)
        if times != 1 and times * (above.times if above else 1) > _MOST_TIMES:
            message = f"repeats inside repeats are more than {_MOST_TIMES} calls"
            self._gap(match.start(4), match.end(), message)
            times = 1
        if not label:
            self._gap(match.end(), match.end() + 1, "expected a function after the branch")
        self._draft.add(key, self._line_of(match.start()), frame, times, match[3][0])

    def _read_label(self, text: str) -> tuple[int, int]:
        """Return the number of a label's function in the tree, and its repeats."""
        frame, times = call_label(text)
        draft = self._draft
        if frame not in draft.frames and frame.file is not None:  # one text object for each file
            frame = replace(frame, file=self._files.setdefault(frame.file, frame.file))
        number = draft.frames.setdefault(frame, len(draft.frames))
        if times == 1:
            draft.labels[text] = number
        return number, times

    def _close(self) -> None:
        """End the tree."""
        if self._draft.frames:
            self.trees.append(self._draft.done())
            self._draft = _Draft()

    # ---- other lines ---------------------------------------------------------------------------

    def _read_between(self, start: int, node: re.Match[str]) -> None:
        """Read the lines before a line of a tree: a root, a title, a gap, or other text."""
        end, key = node.start(), 2 * (node.start(3) - node.start(2))
        first = _NOT_BLANK.search(self.text, start, end)
        if first is None:
            return
        root = self._root_start(start, node)
        above = self._draft.above(key)
        # no branch announces a sibling here
        may_be_over = above is not None and above.key == key and above.branch not in _FORKS
        if self._draft.continues_at(key) and (root is None or not may_be_over):
            message = "expected a line of the tree, found other text"
            self._gap(first.start(), first.end(), message, self._count(start, end))
            return
        self._close()
        if root is None:
            before = self.text[max(0, end - _LONGEST_ROOT) : end].strip()
            self._draft.title = before.rpartition("\n")[2].strip().rstrip(":")
            self._pass_over(start, end)
            return
        self._pass_over(start, root)
        body = self.text[root + len(node[1]) : end - 1]
        label = body.strip()
        frame, times = self._read_label(label)
        column = len(body) - len(body.lstrip())
        self._draft.add(2 * column - 1, self._line_of(root), frame, times, "")

    def _root_start(self, start: int, node: re.Match[str]) -> int | None:
        """Return the start of the line just before a tree, if it names the tree's root."""
        begin = max(start, self.text.rfind("\n", 0, node.start() - 1) + 1)
        body = self.text[begin : node.start() - 1]
        body = body[len(node[1]) :].rstrip() if len(body) <= _LONGEST_ROOT else ""
        label = body.lstrip()
        is_right = len(body) - len(label) > len(node[2])
        if not label or is_right or node[2].strip() or label.endswith(":"):
            return None
        has_file = call_label(label)[0].file is not None
        is_title = not has_file and call_label(node[4] or "")[0].file is not None
        return None if is_title else begin

    def _pass_over(self, start: int, end: int) -> None:
        """Count lines that belong to no tree."""
        first = _NOT_BLANK.search(self.text, start, end)
        if first is None:
            return
        count = self._count(start, end)
        if len(self.passed_over) < _MOST_NOTED:
            self.passed_over.append((self._line_of(first.start()), count))
        else:
            line, lines = self.passed_over[-1]
            self.passed_over[-1] = (line, lines + count)

    def _end(self, position: int) -> None:
        """Count the lines after the last tree, end the tree, and mark it if it is cut off."""
        text, draft = self.text, self._draft
        self._pass_over(position, len(text))
        if draft.frames and not text[position:].strip() and not text.endswith("\n"):
            frames = list(draft.frames)
            if frames[draft.columns[0][-1]].file is None and any(frame.file for frame in frames):
                self._gap(text.rfind("\n") + 1, len(text), "the last line is cut off")
                draft.is_cut = True
        self._close()

    def _gap(self, start: int, end: int, message: str, lines: int = 1) -> None:
        if len(self.gaps) < _MOST_NOTED:
            span = Span(start, max(end, start + 1))
            self.gaps.append(Gap.at(self.source, span, message, lines))
        else:
            self.gaps[-1] = replace(self.gaps[-1], lines=self.gaps[-1].lines + lines)

    def _count(self, start: int, end: int) -> int:
        """Return the number of lines that are not blank."""
        return sum(1 for _ in _NOT_BLANK.finditer(self.text, start, end))

    def _line_of(self, offset: int) -> int:
        """Return the 1-based line of an offset; offsets must ascend."""
        self._line += self.text.count("\n", self._counted, offset)
        self._counted = offset
        return self._line

    # ---- stacks of threads ---------------------------------------------------------------------

    def read_threads(self) -> None:
        """Read the stack of each thread, as faulthandler prints it, innermost function first."""
        self.passed_over, position = [], 0
        self._line, self._counted = 1, 0
        for match in _thread_pattern().finditer(self.text):
            self._pass_over(position, match.start())
            position = match.end()
            head = self._line_of(match.start())
            rows = match[2].splitlines()
            for number in range(len(rows), 0, -1):
                frame, _ = self._read_label(rows[number - 1])
                self._draft.add(-number, head + number, frame, 1, "")
            self._draft.title = match[1].strip().rstrip(":")
            self._close()
        self._pass_over(position, len(self.text))
