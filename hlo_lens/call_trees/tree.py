"""CallTree: calls with their callers and amounts, and the source files of their functions."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from hlo_lens.text.source_files import INSTALLED, STANDARD, SYNTHETIC, is_library_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.text.errors import Gap

NO_PARENT = -1

CALLS = "calls"
"""Measure of trees that texts draw."""

BYTE_MEASURES = ("memory", "wire-bytes")
"""Measures whose amounts are bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFrame:
    """A function in a file.

    Attributes:
        function: Name as printed; empty if only the file is known.
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
        own: Amount of each node itself, without its calls: 1 for a call; bytes; instructions.
        lines: 1-based line of the text for each node; empty if no text draws the tree.
        measure: Measure of `own`: ``calls``, ``memory``, ``wire-bytes`` or ``count``.
        unknown: Number of items with an unknown amount, of each node; empty for none.
        residuals: Bracketed label and amount of items without a node.
        residual_unknown: Number of items without a node and with an unknown amount.
        title: Name of the thread that a text gives.
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

    def line(self, node: int) -> int | None:
        """Return the line of the text that draws a node; None if no text does."""
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
        """The source files of its functions."""
        return Places(self.frames)

    def children(self, node: int) -> Iterator[int]:
        """Yield the nodes that a node calls, in order."""
        child, end = node + 1, self.ends[node]
        while child < end:
            yield child
            child = self.ends[child]

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


NO_FILE = "[no file]"
TOP = "."
"""Package of files directly in the shared folder."""


class Places:
    """Source files of functions, relative, so that traces of two machines can be compared.

    Paths of installed packages begin after ``site-packages``, those of the standard library with
    ``python/``; all others are relative to the folder they share, usually the checkout.

    Args:
        frames: All functions that share a root.
    """

    def __init__(self, frames: Iterable[CallFrame]) -> None:
        files = {frame.file for frame in frames if frame.file is not None}
        self._paths = {file: file.replace("\\", "/") for file in files}
        root = _shared_folder(path for path in self._paths.values() if not is_library_file(path))
        self._relative = {file: _shortened(path, root) for file, path in self._paths.items()}

    def file(self, frame: CallFrame) -> str | None:
        """Return the relative file of a function; None if unknown."""
        return None if frame.file is None else self._relative[frame.file]

    def place(self, frame: CallFrame) -> str | None:
        """Return the relative ``file:line`` of a function; None if unknown."""
        file = self.file(frame)
        return file if file is None or frame.line is None else f"{file}:{frame.line}"

    def text(self, frame: CallFrame) -> str:
        """Return ``function, file:line``, relative."""
        return ", ".join(part for part in (frame.function, self.place(frame)) if part)

    def package(self, frame: CallFrame) -> str:
        """Return the folder of a function's file, relative."""
        file = self.file(frame)
        if file is None:
            return NO_FILE
        return file if SYNTHETIC.match(file) else file.rpartition("/")[0] or TOP

    def top(self, frame: CallFrame) -> str:
        """Return the outermost folder of a function's file, or the file if it is in none."""
        return (self.file(frame) or NO_FILE).partition("/")[0]

    def is_own(self, frame: CallFrame) -> bool:
        """Whether a function is in a file that was neither installed nor came with Python."""
        return frame.file is not None and not is_library_file(self._paths[frame.file])


def _shortened(path: str, root: str) -> str:
    if (installed := INSTALLED.match(path)) is not None:
        return path[installed.end() :]
    if (standard := STANDARD.match(path)) is not None:
        return f"python/{path[standard.end() :].rstrip('>')}"
    return path.removeprefix(root)


def _shared_folder(paths: Iterable[str]) -> str:
    """Return the folder that all paths share, with its last slash; empty for none."""
    folders = sorted(path.split("/")[:-1] for path in paths)
    pairs = zip(folders[0], folders[-1], strict=False) if folders else ()  # they share least
    return "".join(f"{one}/" for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


_PATH_FUNCTIONS = 12
"""Functions of a path that are printed at most: those at its end."""


def path_text(tree: CallTree, node: int, start: int = NO_PARENT) -> str:
    """Return the functions that lead to a node, joined by `` > ``; of a long path its end.

    Args:
        tree: The tree.
        node: The last function of the path.
        start: First function of the path; `NO_PARENT` for the outermost.
    """
    names: list[str] = []
    while node >= 0 and len(names) < _PATH_FUNCTIONS:
        names.append(tree.frame(node).function or "?")
        node = NO_PARENT if node == start else tree.parents[node]
    if node >= 0:
        names.append("...")
    return " > ".join(reversed(names))
