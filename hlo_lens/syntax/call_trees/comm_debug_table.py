"""Reader of the table of PyTorch's CommDebugMode as a call tree: modules, passes, collectives.

A collective is counted in its module and in all modules around it; here it is a call of the
innermost one, so that the sum over the tree is the figure of the outermost. Operators are calls
too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hlo_lens.model.call_tree import NO_PARENT, CallFrame, CallTree
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
_TABLE = re.compile(r"^[ \t]*(?:FORWARD|BACKWARD) PASS[ \t]*$", re.MULTILINE)

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
    if " PASS" not in text or _TABLE.search(text) is None:
        return
    position = 0
    while (match := _START.search(text, position)) is not None:
        rows = list(table_rows(text, match.start()))
        last = rows[-1]
        position = min(len(text), last.start + last.indent + len(last.text) + 1)
        if any(row.kind == "PASS" for row in rows):
            yield Table(_tree(rows, line_of, refuse), Span(match.start(), position))
        position = max(position, match.end() + 1)


def table_rows(text: str, position: int) -> Iterator[Row]:
    """Yield the lines of the table that begins at an offset."""
    base = -1
    while position < len(text) and (match := _LINE.match(text, position)) is not None:
        kind = match.lastgroup or ""
        indent = match.start(kind) - position
        if base >= 0 and (kind == "GLOBAL" or indent < base + (kind != "DETAIL")):
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


def _tree(
    rows: Sequence[Row], line_of: Callable[[int], int], refuse: Callable[[Span, str], None]
) -> CallTree:
    columns = _Columns(line_of)
    modules: list[tuple[int, int, str]] = []  # indentation, node, name
    passed: tuple[int, str] | None = None
    counts: dict[tuple[int, str, str], tuple[int, int]] = {}
    for row in rows:
        if row.kind in ("GLOBAL", "MODULE"):
            while modules and modules[-1][0] >= row.indent:
                modules.pop()
            parent = modules[-1][1] if modules else NO_PARENT
            modules.append((row.indent, columns.add(parent, row.text, 0, row.start), row.text))
            passed = None
        elif row.kind == "PASS":
            _, module, name = modules[-1]
            kind = _PASSES[row.text]
            passed = columns.add(module, f"{name} ({kind})", 0, row.start), kind
        elif row.kind == "DETAIL":
            continue
        elif passed is None:
            span = Span(row.start, row.start + row.indent + len(row.text))
            refuse(span, "expected a pass or a module before its calls")
        elif row.kind == "OPERATOR":
            columns.add(passed[0], row.text[2:], 1, row.start)
        else:
            name, _, count = row.text[1:].rpartition(": ")
            node = columns.add(passed[0], name, int(count), row.start)
            counts[modules[-1][1], passed[1], name] = node, int(count)
    _subtract(columns, counts)
    return CallTree(
        frames=tuple(columns.frames),
        frame_ids=columns.frame_ids,
        parents=columns.parents,
        own=columns.own,
        lines=columns.lines,
        title="CommDebugMode",
    )


def _subtract(columns: _Columns, counts: dict[tuple[int, str, str], tuple[int, int]]) -> None:
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
