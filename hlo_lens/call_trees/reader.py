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

_MOST_GAPS = 4096
"""Most gaps; the last one counts all further lines."""

_LONGEST_ROOT = 400
"""Longest line, in characters, that may name the root of the tree below it."""

_NOT_BLANK = re.compile(r"\S[^\n]*+")

_FORKS = "├┣╠|"
"""Branches that are never the last of a caller; ASCII ``+`` may be."""

_CORNERS = "└┗╚╰`"
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
    source = text if isinstance(text, Source) else clean(text, path)
    reader = _TreeReader(source)
    reader.read_drawn()
    if not reader.trees:
        reader = _TreeReader(source)
        reader.read_threads()
    if not reader.trees:
        raise DumpSyntaxError(f"expected {TREE_FORMS}; found nothing", path=source.path)
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
        path=source.path,
    )


# ---- grammar ------------------------------------------------------------------------------------


@functools.cache
def parser() -> Lark:
    """Return the parser of the lines and labels of call trees."""
    return build_parser("call_tree", start=["node", "thread", "label"])


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the rules ``node`` and ``thread``: prefix, indentation, branch, label; head, stack."""
    prefix, indent, branch, blanks, label, head, line = (
        terminal(name, "call_tree")
        for name in ("PREFIX", "INDENT", "BRANCH", "_BLANKS", "LABEL", "THREAD_HEAD", "STACK_LINE")
    )
    node = rf"^((?:{prefix})?)((?:{indent})?+)({branch})(?:{blanks})?+({label})?+$"
    return re.compile(node, re.MULTILINE), re.compile(rf"^({head})((?:{line})*)", re.MULTILINE)


@functools.lru_cache(maxsize=4096)
def call_label(text: str) -> CallFrame:
    """Return the function that a label names."""
    if not (text := text.strip()):
        return CallFrame(function="")
    children = cast("list[Token | None]", parser().parse(text, start="label").children)
    token = {one.type: str(one) for one in children if one is not None}
    return CallFrame(
        function=token.get("FUNCTION") or token["NAME"],
        file=token.get("FILE") or token.get("QUOTED_FILE"),
        line=int(token["LINE"]) if "LINE" in token else None,
    )


# ---- trees --------------------------------------------------------------------------------------


class _Open(NamedTuple):
    """A node that may get further nodes below it.

    `key` is twice the column of its branch (one less for a root without one).
    """

    key: int
    node: int
    branch: str


class _TreeReader:
    """One pass over a source.

    Attributes:
        trees: The trees so far, without the one that is being read.
        passed_over: Stretches of lines that belong to no tree.
        open: Open nodes of the tree that is being read, outermost first.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.text = source, source.text
        self.trees: list[CallTree] = []
        self.gaps: list[Gap] = []
        self.passed_over: list[tuple[int, int]] = []
        self.files: dict[str, str] = {}
        self._begin()

    def _begin(self) -> None:
        self.frames: dict[CallFrame, int] = {}
        self.columns = array("i"), array("i"), array("i")  # functions, callers, lines
        self.open: list[_Open] = []
        self.begins_inside = self.is_cut = False
        self.missing = 0

    def read_drawn(self) -> None:
        """Read the drawn trees."""
        position = 0
        for match in _patterns()[0].finditer(self.text):
            key = 2 * (match.start(3) - match.start(2))
            if match.start() > position:
                self._read_between(position, match, key)
            if not self._continues_at(key):
                self._close()
                if match[2].strip():  # bars of callers on its left
                    self.begins_inside = True
                    message = "expected the callers of this line: the text begins inside a tree"
                    self._gap(match.start(), match.end(), message)
            if not match[4]:
                self._gap(match.end(), match.end() + 1, "expected a function after the branch")
            self._add(key, match.start(), match[4] or "", match[3][0])
            position = match.end() + 1
        self._pass_over(position, len(self.text))
        frames = list(self.frames)
        if frames and not self.text[position:].strip() and not self.text.endswith("\n"):
            is_torn = frames[self.columns[0][-1]].file is None
            if is_torn and any(frame.file for frame in frames):
                start = self.text.rfind("\n") + 1
                self._gap(start, len(self.text), "the last line is cut off")
                self.is_cut = True
        self._close()

    def _above(self, key: int) -> _Open | None:
        """Return the innermost open node with at most this key."""
        return next((node for node in reversed(self.open) if node.key <= key), None)

    def _continues_at(self, key: int) -> bool:
        """Return whether a line with this key may belong to the tree.

        The branch of a last sibling excludes another one.
        """
        above = self._above(key)
        if above is None:
            return self.begins_inside
        return above.key < key or above.branch not in _CORNERS

    def _add(self, key: int, start: int, label: str, branch: str) -> None:
        """Add a node at its key, and close the nodes that it cannot be below."""
        frame, stack = call_label(label), self.open
        if frame not in self.frames and frame.file is not None:  # one text for each file
            frame = replace(frame, file=self.files.setdefault(frame.file, frame.file))
        while stack and stack[-1].key >= key:
            closed = stack.pop()
            # a sibling was announced, and this is no sibling
            self.missing += closed.key > key and closed.branch != "" and closed.branch in _FORKS
        frame_ids, parents, lines = self.columns
        parents.append(stack[-1].node if stack else NO_PARENT)
        stack.append(_Open(key, len(frame_ids), branch))
        frame_ids.append(self.frames.setdefault(frame, len(self.frames)))
        lines.append(self.source.line_column(start)[0])

    def _close(self, title: str = "") -> None:
        """End the tree; it is cut off if an open branch announces a sibling."""
        if self.frames:
            frame_ids, parents, lines = self.columns
            is_open = any(node.branch and node.branch in _FORKS for node in self.open)
            tree = CallTree(
                frames=tuple(self.frames),
                frame_ids=frame_ids,
                parents=parents,
                own=array("q", [1]) * len(lines),
                lines=lines,
                title=title,
                missing_calls=self.missing,
                is_cut=self.is_cut or self.begins_inside or is_open,
            )
            self.trees.append(tree)
        self._begin()

    # ---- other lines ---------------------------------------------------------------------------

    def _read_between(self, start: int, node: re.Match[str], key: int) -> None:
        """Read the lines before a line of a tree: a root, a gap, or other text."""
        end = node.start()
        first = _NOT_BLANK.search(self.text, start, end)
        if first is None:
            return
        root = self._root_start(start, node)
        above = self._above(key)
        # no branch announces a sibling here
        may_be_over = above is not None and above.key == key and above.branch not in _FORKS
        if self._continues_at(key) and (root is None or not may_be_over):
            message = "expected a line of the tree, found other text"
            self._gap(*first.span(), message, self._count(start, end))
            return
        self._close()
        self._pass_over(start, end if root is None else root)
        if root is not None:
            body = self.text[root + len(node[1]) : end - 1]
            self._add(2 * (len(body) - len(body.lstrip())) - 1, root, body, "")

    def _root_start(self, start: int, node: re.Match[str]) -> int | None:
        """Return the start of the line just before a tree, if it names the tree's root."""
        begin = max(start, self.text.rfind("\n", 0, node.start() - 1) + 1)
        body = self.text[begin : node.start() - 1]
        body = body[len(node[1]) :].rstrip() if len(body) <= _LONGEST_ROOT else ""
        label = body.lstrip()
        is_right = len(body) - len(label) > len(node[2])
        if not label or is_right or node[2].strip() or label.endswith(":"):
            return None
        is_title = call_label(label).file is None and call_label(node[4] or "").file is not None
        return None if is_title else begin

    def _pass_over(self, start: int, end: int) -> None:
        """Count lines that belong to no tree."""
        first = _NOT_BLANK.search(self.text, start, end)
        if first is not None:
            line = self.source.line_column(first.start())[0]
            self.passed_over.append((line, self._count(start, end)))

    def _gap(self, start: int, end: int, message: str, lines: int = 1) -> None:
        if len(self.gaps) < _MOST_GAPS:
            span = Span(start, max(end, start + 1))
            self.gaps.append(Gap.at(self.source, span, message, lines))
        else:
            self.gaps[-1] = replace(self.gaps[-1], lines=self.gaps[-1].lines + lines)

    def _count(self, start: int, end: int) -> int:
        """Return the number of lines that are not blank."""
        return sum(1 for _ in _NOT_BLANK.finditer(self.text, start, end))

    # ---- stacks of threads ---------------------------------------------------------------------

    def read_threads(self) -> None:
        """Read the stack of each thread, as faulthandler prints it, innermost function first."""
        position = 0
        for match in _patterns()[1].finditer(self.text):
            self._pass_over(position, match.start())
            position, start, rows = match.end(), match.start(2), []
            for row in match[2].splitlines(keepends=True):
                rows.append((start, row))
                start += len(row)
            for key, (start, row) in enumerate(reversed(rows)):
                self._add(key, start, row, "")
            self._close(match[1].strip().rstrip(":"))
        self._pass_over(position, len(self.text))
