"""Reader of drawn call trees: a scanner, whose reference is the grammar.

One regular expression finds the lines of trees. The column of a branch gives the depth of its call,
so that indentation may have any width. A line outside a tree is passed over and counted; inside a
tree it is a gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.buffers.lines import LineScan
from hlo_lens.call_trees.call_tree import CallTree, CallTrees
from hlo_lens.call_trees.comm_debug_table import Table, find_tables
from hlo_lens.call_trees.draft import TreeDraft
from hlo_lens.call_trees.drawn_trees_grammar import label_by_grammar, lines_by_grammar
from hlo_lens.call_trees.stack_texts import stack_trees
from hlo_lens.call_trees.tree_lines import (
    NOT_BLANK,
    TREE_LINE,
    Label,
    TreeLine,
    label_of,
    tree_line,
)
from hlo_lens.grammar.reader_choice import ReaderName, uses_grammar
from hlo_lens.text.dump_kinds import TREE_FORMS
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Source, Span, clean, decode

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Sequence

_MOST_TIMES = 10**9
"""Largest product of nested repeats; larger ones are refused."""

_MOST_STRETCHES = 4096
"""Largest number of stretches of other lines; the last one counts all further lines."""

_LONGEST_ROOT = 400
"""Longest line, in characters, that may name the root of the tree below it."""


def parse_call_trees(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    reader: ReaderName = "scanner",
) -> CallTrees:
    """Return the call trees that a text draws.

    Args:
        text: Any text; lines that belong to no tree are passed over and counted.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        reader: ``grammar`` cuts lines and labels by the grammar alone; drawn trees only, not the
            tables of CommDebugMode.

    Raises:
        DumpSyntaxError: If it has no tree, or, when strict, at the first gap.
    """
    if isinstance(text, bytes):
        text = decode(text)
    source = text if isinstance(text, Source) else clean(text, path)
    if uses_grammar(reader):
        scan = TreeScan(source, label_by_grammar)
        scan.follow(lines_by_grammar(source))
    else:
        scan = TreeScan(source)
        scan.run()
    listed = None if scan.found else stack_trees(source)
    return listed or _found(scan, strict=strict)


def _found(scan: TreeScan, *, strict: bool) -> CallTrees:
    if not scan.found:
        raise DumpSyntaxError(
            f"expected {TREE_FORMS}; found nothing",
            path=scan.source.path,
        )
    if strict and scan.gaps:
        raise scan.gaps[0].as_error()
    trees, others = _calls_and_others(scan.found)
    stretches = [(min(tree.lines), len(set(tree.lines))) for tree in others]
    return CallTrees(
        trees=trees,
        gaps=tuple(scan.gaps),
        passed_over=tuple(sorted([*scan.passed_over, *stretches])),
        path=scan.source.path,
    )


def _calls_and_others(found: Sequence[CallTree]) -> tuple[tuple[CallTree, ...], list[CallTree]]:
    """Return the trees of calls, and the trees of other things, such as folders or packages.

    If any tree has files of functions, a tree without any is of other things.
    """
    placed = [any(frame.file for frame in tree.frames) for tree in found]
    if not any(placed):
        return tuple(found), []
    pairs = list(zip(found, placed, strict=True))
    return tuple(tree for tree, has in pairs if has), [tree for tree, has in pairs if not has]


class TreeScan(LineScan):
    """One pass over a source.

    Attributes:
        found: Trees so far.
        passed_over: First line and number of lines of stretches that belong to no tree.
    """

    def __init__(self, source: Source, read_label: Callable[[str], Label] = label_of) -> None:
        super().__init__(source)
        self.found: list[CallTree] = []
        self.passed_over: list[tuple[int, int]] = []
        self._read_label = read_label
        self._draft = TreeDraft()
        self._tables: list[Table] = []
        self._line = 1
        self._counted = 0

    def run(self) -> None:
        """Read the whole text; tables of CommDebugMode come after the trees."""
        self._tables = list(
            find_tables(self.text, lambda at: self.source.line_column(at)[0], self._gap)
        )
        position = 0
        for match in TREE_LINE.finditer(self.text):
            if match.start() != position or not self._follows(match):
                self._take(tree_line(match, match.start(), match.end(), match[4] or ""), position)
            position = match.end() + 1
        self._end(position)
        self.found.extend(table.tree for table in self._tables)

    def follow(self, lines: Iterable[TreeLine]) -> None:
        """Read the lines of trees and the text between them."""
        position = 0
        for line in lines:
            self._take(line, position)
            position = line.end + 1
        self._end(position)

    def _take(self, line: TreeLine, position: int) -> None:
        """Read a line of a tree, and the text before it from a position on."""
        if line.start > position:
            self._between(position, line)
        self._add(line)

    def _follows(self, match: re.Match[str]) -> bool:
        """Read a line with a known label that continues the tree; return False for other lines.

        Nearly all lines do; the others go to `_take`.
        """
        draft = self._draft
        number = draft.labels.get(match[4])
        if number is None:
            return False
        start, end = match.span(2)
        key = 2 * (end - start)
        if not draft.continues_at(key):
            return False
        self._line += 1
        self._counted = match.start()
        draft.add(key, self._line, number, 1, self.text[end])
        return True

    # ---- lines of trees ------------------------------------------------------------------------

    def _add(self, line: TreeLine) -> None:
        """Add the node of a line, to the tree before it or to a new one."""
        key = 2 * line.column
        if not self._draft.continues_at(key):
            self._begin(line)
        draft = self._draft
        number, times, nanoseconds = draft.label(line.label, self._read_label)
        if times != 1 and draft.times_above(key) * times > _MOST_TIMES:
            message = f"repeats inside repeats are more than {_MOST_TIMES} calls"
            self.add_gap(line.end - len(line.label), line.end, message)
            times = 1
        if not line.label:
            self.add_gap(line.end, line.end + 1, "expected a function after the branch")
        if nanoseconds is not None:
            draft.nanoseconds[len(draft.frame_ids)] = nanoseconds
        draft.add(key, self._line_of(line.start), number, times, line.branch)

    def _begin(self, line: TreeLine) -> None:
        """Begin a new tree with a line, unless one with its root has begun."""
        if self._draft.frame_ids:
            self._close()
        if line.has_bars:
            self._draft.begins_inside = True
            message = "expected the callers of this line: the text begins inside a tree"
            self.add_gap(line.start, line.end, message)

    def _close(self) -> None:
        """End the tree."""
        draft = self._draft
        if draft.frame_ids:
            self.found.append(draft.done())
            for line, amount in draft.excess:
                more = f"{amount / 10**9:.9g} more seconds or percent"
                message = f"the calls below have {more} than this one"
                self.gaps.append(Gap(path=self.source.path, line=line, column=1, message=message))
        self._draft = TreeDraft()

    def _gap(self, span: Span, message: str) -> None:
        self.add_gap(span.start, span.end, message)

    # ---- other lines ---------------------------------------------------------------------------

    def _between(self, start: int, line: TreeLine) -> None:
        """Read the lines before a line of a tree: a root, a title, a gap, or other text."""
        end = line.start
        count = self._count(start, end)
        if not count:
            return
        root = self._root(start, line)
        continues = self._draft.continues_at(2 * line.column)
        if continues and (root is None or not self._draft.may_be_over(2 * line.column)):
            message = "expected a line of the tree, found other text"
            first = NOT_BLANK.search(self.text, start, end)
            at = start if first is None else first.start()
            self.add_gap(at, self.line_end(at), message, count)
            return
        self._close()
        if root is None:
            self._draft.title = self._title(end)
            self._pass_over(start, end)
            return
        self._pass_over(start, root.start)
        number, times, nanoseconds = self._draft.label(root.label, self._read_label)
        key = 2 * root.column - 1
        if nanoseconds is not None:
            self._draft.nanoseconds[0] = nanoseconds
        self._draft.add(key, self._line_of(root.start), number, times, root.branch)

    def _root(self, start: int, line: TreeLine) -> TreeLine | None:
        """Return the line just before a tree, if it names the tree's root."""
        begin = max(start, self.text.rfind("\n", 0, line.start - 1) + 1)
        text = self.text[begin : line.start - 1]
        cut = line.prefix if len(text) <= _LONGEST_ROOT else len(text)
        body = text[cut:].rstrip()
        column = len(body) - len(body.lstrip())
        label = body[column:]
        if not label or column > line.column or line.has_bars or label.endswith(":"):
            return None
        has_place = self._read_label(label).frame.file is not None
        if not has_place and self._read_label(line.label or "?").frame.file is not None:
            return None
        return TreeLine(begin, line.start - 1, column, False, "", label, line.prefix)

    def _title(self, end: int) -> str:
        """Return the last line before a tree."""
        lines = self.text[max(0, end - _LONGEST_ROOT) : end].split("\n")
        return next((text.strip() for text in reversed(lines) if text.strip()), "").rstrip(":")

    def _pass_over(self, start: int, end: int) -> None:
        """Count lines that belong to no tree and no table."""
        for table in self._tables:
            if start <= table.span.start < end:
                self._pass_over_stretch(start, table.span.start)
                start = table.span.end
        self._pass_over_stretch(start, end)

    def _pass_over_stretch(self, start: int, end: int) -> None:
        first = NOT_BLANK.search(self.text, start, end)
        if first is None:
            return
        count = self._count(start, end)
        if len(self.passed_over) >= _MOST_STRETCHES:
            line, lines = self.passed_over[-1]
            self.passed_over[-1] = (line, lines + count)
            return
        self.passed_over.append((self._line_of(first.start()), count))

    def _count(self, start: int, end: int) -> int:
        """Return the number of lines that are not blank."""
        return sum(1 for _ in NOT_BLANK.finditer(self.text, start, end))

    def _end(self, position: int) -> None:
        """Count the lines after the last tree, end the tree, and mark it if it is cut off."""
        text, draft = self.text, self._draft
        self._pass_over(position, len(text))
        if draft.frame_ids and not text[position:].strip() and not text.endswith("\n"):
            last = draft.frames[draft.frame_ids[-1]]
            if last.file is None and any(f.file is not None for f in draft.frames[:-1]):
                start = text.rfind("\n") + 1
                self.add_gap(start, len(text), "the last line is cut off")
                draft.is_cut = True
        self._close()

    def _line_of(self, offset: int) -> int:
        """Return the 1-based line of an offset; offsets must ascend."""
        self._line += self.text.count("\n", self._counted, offset)
        self._counted = offset
        return self._line
