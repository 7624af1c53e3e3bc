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
from itertools import chain, repeat
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
    """Return the lines of a section, with fewer rows of tables where it has too many lines.

    Where two rows are too many, the last facts are left out, then all rows but one, and then the
    notes but the last, which has a command.
    """
    if rows is not None or section.most_lines is None:
        return _section(section, rows, width)
    shorter = [section, *_with_fewer_facts(section)]
    tries = chain(
        ((section, fewer) for fewer in _FEWER),
        ((one, fewer) for one in shorter[1:] for fewer in _FEWER[-2:]),
        ((shorter[-1], 1),),
    )
    for fewer_facts, fewer in tries:
        lines = [*_section(fewer_facts, rows, width, repeat(fewer))]
        if len(lines) <= section.most_lines:
            return _filled(fewer_facts, fewer, width)
    shortest = replace(shorter[-1], notes=section.notes[-1:])
    return [*_section(shortest, rows, width, repeat(1))]


def _filled(section: Section, fewer: int, width: int) -> list[Line]:
    """Return the lines of a section with some rows of each table, and more where there is room.

    The first tables get them.
    """
    counts = [fewer] * len(section.shown_tables(None))
    lines = [*_section(section, None, width, counts)]
    for place in range(len(counts)):
        for more in range(fewer + 1, DEFAULT_ROWS + 1):
            tried = [*counts[:place], more, *counts[place + 1 :]]
            longer = [*_section(section, None, width, tried)]
            if len(longer) > (section.most_lines or 0):
                break
            counts, lines = tried, longer
    return lines


def _with_fewer_facts(section: Section) -> Iterator[Section]:
    """Yield the section with fewer and fewer facts."""
    least = len(section.facts) if section.least_facts is None else section.least_facts
    starts = (k for k, (label, _) in enumerate(section.facts) if label.strip() == label)
    for start in reversed([k for k in starts if k >= least]):  # others continue the fact above
        yield replace(section, facts=section.facts[:start])


_FEWER = (DEFAULT_ROWS, 8, 6, 5, 4, 3, 2)
"""Rows of tables that are tried until a section has few enough lines."""


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


def _section(
    section: Section, rows: int | None, width: int, counts: Iterable[int] = repeat(DEFAULT_ROWS)
) -> Iterator[Line]:
    """Yield the lines of a section; without a number of rows, each table has its count of them."""
    yield _BOLD, section.title
    label_width = max((len(label) for label, _ in section.facts), default=0)
    for label, text in section.facts:
        yield from _wrapped(f"{label:<{label_width}}  ", text, width)
    if section.drawing:
        yield _PLAIN, ""
        for line in section.drawing:
            cut = [shorten(line, width, width - len(DOTS))] if section.is_listing else None
            yield from ((_PLAIN, part) for part in cut or _drawn(line, width))
    for table, count in zip(section.shown_tables(rows), counts, strict=False):
        if table.row_count or table.residual_rows or table.notes:
            yield _PLAIN, ""
            yield from _table(table, count if rows is None else rows, width)
    for note in section.notes:
        yield from _wrapped("", note, width)


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
    yield from ((_BOLD, line) for line in _titled(table, width))
    cut = cut_table(table, rows)
    lines = table_lines(cut, width)
    if cut.rows or cut.tail:
        yield from ((_DIM, line) for line in lines.headings)
    yield from ((_PLAIN, line) for line in lines.rows)
    yield from ((_DIM, line) for line in lines.tail)
    notes = [*table.notes]
    if lines.left_out:
        count = plural(len(lines.left_out), "column")
        notes.append(f"{count} left out for width: {', '.join(lines.left_out)}")
    for note in notes:
        yield from _wrapped("", note, width)


def _titled(table: Table, width: int) -> list[str]:
    """Return the title, and the command that shows more at the right, or on a line of its own."""
    lines = _wrap(table.title, width)
    if not table.command:
        return lines
    room = width - len(lines[-1]) - len(table.command)
    if room < len(_GAP):
        return [*lines, table.command]
    return [*lines[:-1], f"{lines[-1]}{' ' * room}{table.command}"]


_GAP = "  "
