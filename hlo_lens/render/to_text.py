"""Report to text for a terminal.

Lines fit the terminal's width; a note counts the columns of a table that do not. Rich is imported
for colours only.
"""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TextIO

from hlo_lens.render.table import (
    DOTS,
    RenderOptions,
    Report,
    Section,
    Table,
    cell_width,
    cut_table,
    shorten,
)
from hlo_lens.render.text_table import joined, separated, table_lines, with_short_paths
from hlo_lens.text.errors import printable, printable_lines
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Line = tuple[str, str]
    """Style and text."""

DEFAULT_ROWS = 10
PIPE_WIDTH = 120
"""Columns where the output is not a terminal and COLUMNS is not set."""

_NARROWEST = 40
_SHORTEST = 16
_BOLD, _DIM, _PLAIN = "bold", "dim", ""


def render_text(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write facts and tables; tables are cut at `DEFAULT_ROWS` or the option."""
    width = options.width or shutil.get_terminal_size((PIPE_WIDTH, 24)).columns
    width = max(_NARROWEST, width)
    lines = _safe(_lines(report, options.rows, width))
    if _is_colored(out, options.color):
        lines = _colored(lines)
    out.writelines(f"{text}\n" for _, text in lines)


def _safe(lines: Iterator[Line]) -> Iterator[Line]:
    return ((style, printable_lines(printable(text))) for style, text in lines)


def _lines(report: Report, rows: int | None, width: int) -> Iterator[Line]:
    for position, section in enumerate(report.pages):
        if position:
            yield _PLAIN, ""
        yield from _fitted(section, rows, width)


def _fitted(section: Section, rows: int | None, width: int) -> Iterable[Line]:
    """Return the lines of a section; of a first page with fewer rows until they are few enough.

    Then the last facts of its parts are left out, too, as far as that is needed.
    """
    if section.most_lines is None:
        return _section(section, rows, width)
    lines: list[Line] = []
    for fewer, left_out in _FEWER:
        shorter = replace(section, parts=tuple(_without(p, left_out) for p in section.parts))
        lines = [*_section(shorter, fewer, width)]
        if len(lines) <= section.most_lines:
            break
    return lines


def _without(section: Section, count: int) -> Section:
    """Return a section without some of its last facts; a fact that continues another goes too."""
    if section.least_facts is None or not count:
        return section
    starts = [k for k, (label, _) in enumerate(section.facts) if label.strip() == label]
    ends = [k for k in starts[-count:] if k >= section.least_facts]
    return replace(section, facts=section.facts[: ends[0] if ends else None])


_FEWER = ((6, 0), (5, 0), (4, 0), (3, 0), (3, 1), (2, 1), (2, 2), (1, 2))
"""Rows of tables, and facts to leave out, that are tried until a page is short enough."""


def _is_colored(out: TextIO, color: str) -> bool:
    """Return whether to colour: as requested, else on a terminal unless NO_COLOR is set."""
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return out.isatty()


def _colored(lines: Iterator[Line]) -> Iterator[Line]:
    """Yield lines with escape sequences for their style."""
    from rich.style import Style

    styles = {name: Style.parse(name) for name in (_BOLD, _DIM)}
    for name, text in lines:
        yield name, styles[name].render(text) if name and text else text


def _section(section: Section, rows: int | None, width: int) -> Iterator[Line]:
    if section.title:
        yield from ((_BOLD, line) for line in _titled(section.title, section.command, width))
    label_width = max((len(label) for label, _ in section.facts), default=0)
    for label, text in section.facts:
        indent = " " * (len(text) - len(text.lstrip()))
        head = f"{label:<{label_width}}  " if label_width else ""
        yield from _wrapped(f"{head}{indent}", text.lstrip(), width)
    if section.drawing:
        yield _PLAIN, ""
        for line in section.drawing:
            cut = [shorten(line, width, width - len(DOTS))] if section.is_listing else None
            yield from ((_PLAIN, part) for part in cut or _drawn(line, width))
    for table in section.shown_tables if rows is not None or not section.is_short else ():
        if table.row_count or table.residual_rows or table.notes:
            if table.has_headings:
                yield _PLAIN, ""
            yield from _table(table, DEFAULT_ROWS if rows is None else rows, width)
    for note in section.notes:
        yield from _wrapped("", note, width)
    for part in section.parts:
        yield _PLAIN, ""
        yield from _section(part, rows, width)


def _wrapped(head: str, text: str, width: int) -> Iterator[Line]:
    """Yield a text after its head, with a hanging indent; a command at its end is never broken.

    A command that does not fit begins a line, and is whole on it, so that it can be copied.
    """
    space = max(_SHORTEST, width - len(head))
    match = _COMMAND.search(text) if len(text) > space else None
    if match is None:
        lines = _wrap(text, space) or [""]
    else:
        lines = [*_wrap(text[: match.start()], space), match[0]]
    for position, line in enumerate(lines):
        lead = head if position == 0 else " " * len(head)
        yield _PLAIN, f"{lead}{line}".rstrip()


_COMMAND = re.compile(r"(?:\A|(?<=: ))hlo-lens .*\Z", re.DOTALL)
"""Command that is a whole text, or its end after a colon."""

_wrap_words = partial(textwrap.wrap, break_on_hyphens=False, break_long_words=False)


def _wrap(text: str, width: int) -> list[str]:
    """Return the lines of a text, broken at spaces alone: paths, commands and names are whole."""
    return [separated(line) for line in _wrap_words(joined(text), width)]


def _drawn(line: str, width: int) -> Iterator[str]:
    """Yield a line of a tree; the text at its end goes on below itself if it is too long."""
    line = with_short_paths(line, width)
    if cell_width(line) <= width:
        yield line
        return
    branch = line.rfind(_BRANCH)
    start = branch + len(_BRANCH) if branch >= 0 else len(line) - len(line.lstrip(_BARS))
    below = _NO_BAR.sub(" ", line[:start].replace("├", "│")) + _GAP
    head, gap, tail = line[start:].rpartition(_GAP)
    room = max(_SHORTEST, width - len(below))
    heads = [head] if start + cell_width(head) <= width else _wrap(head, room)
    lead, *rest = [*heads, tail] if gap else _wrap(tail, room)
    yield f"{line[:start]}{lead}"
    yield from (f"{below}{part}" for part in rest)


_BRANCH = "─ "
_BARS = " │"
_NO_BAR = re.compile("[^│]")


def _table(table: Table, rows: int, width: int) -> Iterator[Line]:
    if table.title:
        yield from ((_BOLD, line) for line in _titled(table.title, table.command, width))
    cut = cut_table(table, rows)
    lines = table_lines(cut, width)
    if table.has_headings and (cut.rows or cut.tail):
        yield from ((_DIM, line) for line in lines.headings)
    yield from ((_PLAIN, line) for line in lines.rows)
    yield from ((_DIM, line) for line in lines.tail)
    notes = [*table.notes]
    if lines.left_out:
        count = plural(len(lines.left_out), "column")
        notes.append(f"{count} left out for width: {', '.join(lines.left_out)}")
    for note in notes:
        yield from _wrapped("", note, width)


def _titled(title: str, command: str, width: int) -> list[str]:
    """Return a title, and the command that shows more at the right, or on a line of its own."""
    lines = _wrap(title, width)
    if not command:
        return lines
    room = width - len(lines[-1]) - len(command)
    if room < len(_GAP):
        return [*lines, command]
    return [*lines[:-1], f"{lines[-1]}{' ' * room}{command}"]


_GAP = "  "
