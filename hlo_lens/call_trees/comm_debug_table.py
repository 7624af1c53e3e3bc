"""Reader of the table of PyTorch's CommDebugMode as a call tree: modules, passes, collectives.

A collective is counted in its module and in all modules around it; here it is a call of the
innermost one, so that the sum over the tree is the figure of the outermost. Operators are calls
too, but for those that are the collectives of a printed count. Tables of PyTorch 2.4 have no
passes: a count is of the module above it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from hlo_lens.call_trees.call_tree import NO_PARENT, CallFrame, CallTree
from hlo_lens.text.source import Span

_START = re.compile(r"^[ \t]*Global[ \t]*$", re.MULTILINE)
_LINE = re.compile(
    r"""[ \t]*+(?:
      (?P<GLOBAL>Global[ \t]*+)
    | (?P<PASS>(?:FORWARD\ PASS|BACKWARD\ PASS|ACTIVATION\ CHECKPOINTING)[ \t]*+)
    | (?P<DETAIL>(?:\*module\ type:|\*Parameter\ List|shape:|sharding:|device\ mesh:)[^\n]*+)
    | (?P<COLLECTIVE>\*(?!\*)[^\s:]++:\ \d{1,9}[ \t]*+)
    | (?P<OPERATOR>\*\*\S[^\n]*+)
    | (?P<MODULE>[A-Za-z_][\w.\-]*+[ \t]*+)
    | (?P<PARAMETER>(?<=[ \t])\*(?!\*)[^\n]*+)
    )(?:\n|\Z)""",
    re.VERBOSE,
)
_TABLE = re.compile(
    r"^[ \t]*(?:FORWARD|BACKWARD) PASS[ \t]*$"
    r"|^[ \t]*Global[ \t]*\n[ \t]*\*[^\s*:]+: \d{1,9}[ \t]*$",
    re.MULTILINE,
)
_NAMESPACE = re.compile(r"_?c10d(?:_functional)?\.")

_PASSES = {
    "FORWARD PASS": "forward",
    "BACKWARD PASS": "backward",
    "ACTIVATION CHECKPOINTING": "activation checkpointing",
}


class Row(NamedTuple):
    """A line of a table: kind, offset, indentation and text."""

    kind: str
    start: int
    indent: int
    text: str


class Table(NamedTuple):
    """A table as a tree, and its span of the text."""

    tree: CallTree
    span: Span


def find_tables(
    text: str, line_of: Callable[[int], int], refuse: Callable[[Span, str], None]
) -> Iterator[Table]:
    """Yield the tables of a text.

    Args:
        text: The text.
        line_of: Returns the 1-based line of an offset.
        refuse: Called with the span and message of each gap.
    """
    if "Global" not in text or _TABLE.search(text) is None:
        return
    position = 0
    while (match := _START.search(text, position)) is not None:
        rows = list(table_rows(text, match.start()))
        last = rows[-1]
        position = min(len(text), last.start + last.indent + len(last.text) + 1)
        if any(row.kind in ("PASS", "COLLECTIVE") for row in rows):
            yield Table(_tree(rows, line_of, refuse), Span(match.start(), position))
        position = max(position, match.end() + 1)


def table_rows(text: str, position: int) -> Iterator[Row]:
    """Yield the lines of the table that begins at an offset.

    All lines are indented further than the first; in tables without passes they need not be.
    """
    base, has_passes = -1, False
    while position < len(text) and (match := _LINE.match(text, position)) is not None:
        kind = match.lastgroup or ""
        indent = match.start(kind) - position
        has_passes = has_passes or kind == "PASS"
        is_deeper = kind != "DETAIL" and (has_passes or kind == "OPERATOR")
        if base >= 0 and (kind == "GLOBAL" or indent < base + is_deeper):
            return
        base = indent if base < 0 else base
        kind = "DETAIL" if kind == "PARAMETER" else kind
        yield Row(kind, position, indent, match[match.lastgroup or 0].rstrip())
        position = match.end()


@dataclass(slots=True)
class _Columns:
    """A call tree built row by row."""

    line_of: Callable[[int], int]
    frames: dict[CallFrame, int] = field(default_factory=dict)
    frame_ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def add(self, parent: int, function: str, own: int, start: int) -> int:
        """Add a node; return its number."""
        frame = CallFrame(function=function)
        self.frame_ids.append(self.frames.setdefault(frame, len(self.frames)))
        self.parents.append(parent)
        self.own.append(own)
        self.lines.append(self.line_of(start))
        return len(self.own) - 1


@dataclass(slots=True)
class _Draft:
    """A table as a tree, read row by row.

    Attributes:
        modules: Indentation, node and name of the modules around the present row.
        passed: Node and kind of the present pass; of a module without passes, its node.
        counts: Node and number by module, kind of pass and name of the collective.
        operators: Module, kind of pass, name and node of operators that are collectives.
    """

    columns: _Columns
    modules: list[tuple[int, int, str]] = field(default_factory=list)
    passed: tuple[int, str] = (NO_PARENT, "")
    counts: dict[_Count, tuple[int, int]] = field(default_factory=dict)
    operators: list[tuple[_Count, int]] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Add a row."""
        if row.kind in ("GLOBAL", "MODULE"):
            while len(self.modules) > 1 and self.modules[-1][0] >= row.indent:
                self.modules.pop()
            parent = self.modules[-1][1] if self.modules else NO_PARENT
            node = self.columns.add(parent, row.text, 0, row.start)
            self.modules.append((row.indent, node, row.text))
            self.passed = node, ""
        elif row.kind == "PASS":
            _, module, name = self.modules[-1]
            kind = _PASSES[row.text]
            self.passed = self.columns.add(module, f"{name} ({kind})", 0, row.start), kind
        elif row.kind == "OPERATOR":
            node = self.columns.add(self.passed[0], row.text[2:], 1, row.start)
            if _NAMESPACE.match(row.text, 2):
                self.operators.append((self._key(row.text[2:]), node))
        elif row.kind == "COLLECTIVE":
            name, _, count = row.text[1:].rpartition(": ")
            node = self.columns.add(self.passed[0], name, int(count), row.start)
            self.counts[self._key(name)] = node, int(count)

    def _key(self, name: str) -> _Count:
        bare = _NAMESPACE.sub("", name, count=1).removesuffix(".default")
        return self.modules[-1][1], self.passed[1], bare


_Count: TypeAlias = tuple[int, str, str]
"""Module, kind of pass, and name of a collective without namespace."""


def _tree(
    rows: Sequence[Row], line_of: Callable[[int], int], refuse: Callable[[Span, str], None]
) -> CallTree:
    columns = _Columns(line_of)
    draft = _Draft(columns)
    has_passes = any(row.kind == "PASS" for row in rows)
    for row in rows:
        needs_pass = row.kind == "OPERATOR" or (row.kind == "COLLECTIVE" and has_passes)
        if needs_pass and not draft.passed[1]:
            span = Span(row.start, row.start + row.indent + len(row.text))
            refuse(span, "expected a pass or a module before its calls")
        else:
            draft.add(row)
    _drop_operators(draft)
    _subtract(columns, draft.counts)
    return CallTree(
        frames=tuple(columns.frames),
        frame_ids=columns.frame_ids,
        parents=columns.parents,
        own=columns.own,
        lines=columns.lines,
        title="CommDebugMode",
    )


def _drop_operators(draft: _Draft) -> None:
    """Set the calls of operators to 0 that a count of their module, or one around it, has."""
    left = {key: count for key, (_, count) in draft.counts.items()}
    for (module, kind, name), node in draft.operators:
        while module >= 0 and not left.get((module, kind, name)):
            module = draft.columns.parents[module]
        if module >= 0:
            left[module, kind, name] -= 1
            draft.columns.own[node] = 0


def _subtract(columns: _Columns, counts: dict[_Count, tuple[int, int]]) -> None:
    """Subtract the collectives of each module from those of the next outer module that has any.

    An outer module with fewer, which PyTorch does not print, keeps none.
    """
    for (module, kind, name), (_, count) in counts.items():
        around = columns.parents[module]
        while around >= 0 and (around, kind, name) not in counts:
            around = columns.parents[around]
        if around >= 0:
            node = counts[around, kind, name][0]
            columns.own[node] = max(0, columns.own[node] - count)
