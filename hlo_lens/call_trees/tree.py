"""Call trees, and their reader: one pass with the patterns of the grammar; Lark reads the labels.

The column of a branch gives the depth of its call, so that indentation may have any width. A line
outside a tree is passed over and counted; inside a tree it is a gap.
"""

from __future__ import annotations

import functools
import re
from array import array
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, cast

from hlo_lens.grammar.lines import terminal
from hlo_lens.grammar.parsers import build_parser
from hlo_lens.text.dump_kinds import TREE_FORMS
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Source, Span, clean, decode
from hlo_lens.text.source_files import INSTALLED, STANDARD, SYNTHETIC, is_library_file
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lark import Lark, Token

NO_PARENT = -1

CALLS = "calls"
"""Measure of trees that texts draw."""

BYTE_MEASURES = ("memory", "wire-bytes")
"""Measures whose amounts are bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFrame:
    """A function in a file."""

    function: str
    file: str | None = None
    line: int | None = None

    @property
    def place(self) -> str | None:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return ", ".join(part for part in (self.function, self.place) if part)


@dataclass(kw_only=True)
class CallTree:
    """A forest of calls in preorder: every node comes before the nodes that it calls.

    Attributes:
        frame_ids: Index in `frames` of each node.
        parents: Node that called each node, `NO_PARENT` for outermost ones; always smaller than the
            node itself.
        own: Amount of each node itself, without its calls: 1 for a call; bytes; instructions.
        lines: 1-based line of the text for each node; empty if no text draws the tree.
        measure: Measure of `own`: ``calls``, ``memory``, ``wire-bytes`` or ``count``.
        unknown: Number of items with an unknown amount, of each node; empty for none.
        residuals: Bracketed label and amount of items without a node.
        residual_unknown: Number of items without a node and with an unknown amount.
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
    is_cut: bool = False
    upper_bound: int | None = None

    def __len__(self) -> int:
        return len(self.frame_ids)

    def frame(self, node: int) -> CallFrame:
        return self.frames[self.frame_ids[node]]

    def line(self, node: int) -> int | None:
        return self.lines[node] if self.lines else None

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
        depths = array("i", bytes(4 * len(self)))
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                depths[node] = depths[parent] + 1
        return depths

    @cached_property
    def totals(self) -> Sequence[int]:
        return with_below(self.own, self.parents)

    @cached_property
    def unknown_totals(self) -> Sequence[int]:
        return with_below(self.unknown, self.parents) if self.unknown else ()

    @property
    def roots(self) -> list[int]:
        return [node for node, parent in enumerate(self.parents) if parent < 0]

    @cached_property
    def shapes(self) -> Sequence[int]:
        """A number for each node; numbers are equal exactly if the subtrees are.

        Two subtrees are the same if they call the same functions from the same places in the same
        order, all the way down, with the same amounts.
        """
        shapes = array("i", bytes(4 * len(self)))
        numbers: dict[tuple[int, ...], int] = {}
        for node in range(len(self) - 1, -1, -1):
            below = map(shapes.__getitem__, self.children(node))
            key = (self.frame_ids[node], self.own[node], *below)
            shapes[node] = numbers.setdefault(key, len(numbers))
        return shapes

    @cached_property
    def places(self) -> Places:
        return Places(self.frames)

    def children(self, node: int) -> Iterator[int]:
        child, end = node + 1, self.ends[node]
        while child < end:
            yield child
            child = self.ends[child]

    @property
    def total(self) -> int:
        return sum(self.own) + sum(amount for _, amount in self.residuals)

    @property
    def unknown_total(self) -> int:
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
    """All call trees of a text."""

    trees: tuple[CallTree, ...] = ()
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)
    passed_over: tuple[tuple[int, int], ...] = field(default=(), repr=False, compare=False)
    path: str = field(default="<text>", compare=False)

    @property
    def passed_lines(self) -> int:
        return sum(lines for _, lines in self.passed_over)


NO_FILE = "[no file]"
TOP = "."
"""Package of files directly in the shared folder."""


class Places:
    """Source files of functions, relative, so that traces of two machines can be compared.

    Paths of installed packages begin after ``site-packages``, those of the standard library with
    ``python/``; all others are relative to the folder they share, usually the checkout.
    """

    def __init__(self, frames: Iterable[CallFrame]) -> None:
        files = {frame.file for frame in frames if frame.file is not None}
        self._paths = {file: file.replace("\\", "/") for file in files}
        root = _shared_folder(path for path in self._paths.values() if not is_library_file(path))
        self._relative = {file: _shortened(path, root) for file, path in self._paths.items()}

    def file(self, frame: CallFrame) -> str | None:
        return None if frame.file is None else self._relative[frame.file]

    def place(self, frame: CallFrame) -> str | None:
        file = self.file(frame)
        return file if file is None or frame.line is None else f"{file}:{frame.line}"

    def text(self, frame: CallFrame) -> str:
        return ", ".join(part for part in (frame.function, self.place(frame)) if part)

    def package(self, frame: CallFrame) -> str:
        file = self.file(frame)
        if file is None:
            return NO_FILE
        return file if SYNTHETIC.match(file) else file.rpartition("/")[0] or TOP

    def top(self, frame: CallFrame) -> str:
        """Return the outermost folder of a function's file, or the file if it is in none."""
        return (self.file(frame) or NO_FILE).partition("/")[0]

    def is_own(self, frame: CallFrame) -> bool:
        return frame.file is not None and not is_library_file(self._paths[frame.file])


def _shortened(path: str, root: str) -> str:
    if (installed := INSTALLED.match(path)) is not None:
        return path[installed.end() :]
    if (standard := STANDARD.match(path)) is not None:
        return f"python/{path[standard.end() :].rstrip('>')}"
    return path.removeprefix(root)


def _shared_folder(paths: Iterable[str]) -> str:
    folders = sorted(path.split("/")[:-1] for path in paths)
    pairs = zip(folders[0], folders[-1], strict=False) if folders else ()  # they share least
    return "".join(f"{one}/" for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


_PATH_FUNCTIONS = 12
"""Functions of a path that are printed at most: those at its end."""


def path_text(tree: CallTree, node: int, start: int = NO_PARENT) -> str:
    """Return the functions that lead to a node, joined by `` > ``; of a long path its end."""
    names: list[str] = []
    while node >= 0 and len(names) < _PATH_FUNCTIONS:
        names.append(tree.frame(node).function or "?")
        node = NO_PARENT if node == start else tree.parents[node]
    if node >= 0:
        names.append("...")
    return " > ".join(reversed(names))


_MOST_GAPS = 4096
"""Most gaps; the last one counts all further lines."""

_LONGEST_ROOT = 400
"""Longest line, in characters, that may name the root of the tree below it."""

_NOT_BLANK = re.compile(r"\S[^\n]*+")

_FORKS = "├┣╠|"
"""Branches that are never the last of a caller; ASCII ``+`` may be."""

_CORNERS = "└┗╚╰`"
"""Branches that are the last of a caller."""


def parse_call_trees(text: str | bytes | Source, *, path: str = "<text>") -> CallTrees:
    """Return the call trees that a text draws.

    Raises:
        DumpSyntaxError: If it has no tree.
    """
    if isinstance(text, bytes):
        text = decode(text)
    source = text if isinstance(text, Source) else clean(text, path)
    reader = _TreeReader(source)
    reader.read_drawn()
    if not reader.trees:
        raise DumpSyntaxError(f"expected {TREE_FORMS}; found nothing", path=source.path)
    of_calls = [tree for tree in reader.trees if any(frame.file for frame in tree.frames)]
    return CallTrees(
        trees=tuple(of_calls or reader.trees),  # others next to calls are of folders
        gaps=tuple(reader.gaps),
        passed_over=tuple(reader.passed_over),
        path=source.path,
    )


@functools.cache
def parser() -> Lark:
    """Return the parser of the lines and labels of call trees."""
    return build_parser("call_tree", start=["node", "label"])


@functools.cache
def _node_pattern() -> re.Pattern[str]:
    """Return the rule ``node``: prefix, indentation, branch, label."""
    prefix, indent, branch, blanks, label = (
        terminal(name, "call_tree") for name in ("PREFIX", "INDENT", "BRANCH", "_BLANKS", "LABEL")
    )
    node = rf"^((?:{prefix})?)((?:{indent})?+)({branch})(?:{blanks})?+({label})?+$"
    return re.compile(node, re.MULTILINE)


@functools.lru_cache(maxsize=4096)
def call_label(text: str) -> CallFrame:
    """Return the function that a label names."""
    if not (text := text.strip()):
        return CallFrame(function="")
    children = cast("list[Token | None]", parser().parse(text, start="label").children)
    token = {one.type: str(one) for one in children if one is not None}
    return CallFrame(
        function=token.get("FUNCTION") or token["NAME"],
        file=token.get("FILE"),
        line=bounded_int(token["LINE"]) if "LINE" in token else None,
    )


class _Open(NamedTuple):
    """A node that may get further nodes below it.

    `key` is twice the column of its branch (one less for a root without one).
    """

    key: int
    node: int
    branch: str


class _TreeReader:
    """One pass over a source."""

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
        self.begins_inside = False

    def read_drawn(self) -> None:
        position = 0
        for match in _node_pattern().finditer(self.text):
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
        self._close()

    def _above(self, key: int) -> _Open | None:
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
        frame, stack = call_label(label), self.open
        if frame not in self.frames and frame.file is not None:  # one text for each file
            frame = replace(frame, file=self.files.setdefault(frame.file, frame.file))
        while stack and stack[-1].key >= key:
            stack.pop()
        frame_ids, parents, lines = self.columns
        parents.append(stack[-1].node if stack else NO_PARENT)
        stack.append(_Open(key, len(frame_ids), branch))
        frame_ids.append(self.frames.setdefault(frame, len(self.frames)))
        lines.append(self.source.line_column(start)[0])

    def _close(self) -> None:
        if self.frames:
            frame_ids, parents, lines = self.columns
            is_open = any(node.branch and node.branch in _FORKS for node in self.open)
            tree = CallTree(
                frames=tuple(self.frames),
                frame_ids=frame_ids,
                parents=parents,
                own=array("q", [1]) * len(lines),
                lines=lines,
                is_cut=self.begins_inside or is_open,
            )
            self.trees.append(tree)
        self._begin()

    def _read_between(self, start: int, node: re.Match[str], key: int) -> None:
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
        return sum(1 for _ in _NOT_BLANK.finditer(self.text, start, end))
