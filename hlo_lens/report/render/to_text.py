"""Report to text for a terminal.

Lines fit the terminal's width: numbers keep theirs, text is shortened; where that is not enough,
headings are broken at underscores, and last columns are left out, which a note counts. Rich is
imported for colours only.
"""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, TextIO

from hlo_lens.analysis.result import Unit
from hlo_lens.report.render.table import (
    CutTable,
    RenderOptions,
    Report,
    Section,
    Table,
    cell_width,
    cut_table,
    shorten,
)
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Line = tuple[str, str]
    """Style and text."""

DEFAULT_ROWS = 10
PIPE_WIDTH = 120
"""Columns where the output is not a terminal and COLUMNS is not set."""

_NARROWEST = 40
_GAP = "  "
_SHORTEST = 16
_BOLD, _DIM, _PLAIN = "bold", "dim", ""


def render_text(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write facts and tables; tables are cut at `DEFAULT_ROWS` or the option."""
    width = options.width or shutil.get_terminal_size((PIPE_WIDTH, 24)).columns
    width = max(_NARROWEST, width)
    rows = DEFAULT_ROWS if options.rows is None else options.rows
    lines = _lines(report, rows, width)
    if _is_colored(out, options.color):
        lines = _colored(lines)
    out.writelines(f"{text}\n" for _, text in lines)


def _lines(report: Report, rows: int, width: int) -> Iterator[Line]:
    for position, section in enumerate(report.sections):
        if position:
            yield _PLAIN, ""
        yield from _section(section, rows, width)


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


def _section(section: Section, rows: int, width: int) -> Iterator[Line]:
    yield _BOLD, section.title
    label_width = max((len(label) for label, _ in section.facts), default=0)
    for label, text in section.facts:
        yield from _wrapped(f"{label:<{label_width}}  ", text, width)
    if section.drawing:
        yield _PLAIN, ""
        yield from ((_PLAIN, line) for line in section.drawing)
    for table in section.tables:
        if not table.is_data_only and (table.row_count or table.residual_rows or table.notes):
            yield _PLAIN, ""
            yield from _table(table, rows, width)
    for note in section.notes:
        yield from _wrapped("", note, width)


def _wrapped(head: str, text: str, width: int) -> Iterator[Line]:
    """Yield a text after its head, with a hanging indent."""
    lines = _wrap(text, max(_SHORTEST, width - len(head))) or [""]
    for position, line in enumerate(lines):
        lead = head if position == 0 else " " * len(head)
        yield _PLAIN, f"{lead}{line}".rstrip()


_wrap = partial(textwrap.wrap, break_on_hyphens=False, break_long_words=False)
"""Lines of a text, broken at spaces alone: paths, commands and names remain whole."""


def _table(table: Table, rows: int, width: int) -> Iterator[Line]:
    for line in _wrap(table.title, width):
        yield _BOLD, line
    cut = cut_table(table, rows)
    headings, widths = _fitted(cut, width)
    is_text = [column.unit is Unit.NONE for column in cut.columns]

    def joined(cells: Sequence[str]) -> str:
        parts = []
        for cell, space, left in zip(cells, widths, is_text, strict=False):
            text = shorten(cell, space)
            blank = " " * (space - cell_width(text))
            parts.append(text + blank if left else blank + text)
        return _GAP.join(parts).rstrip()

    if cut.rows or cut.tail:
        heads = zip_longest(*headings[: len(widths)], fillvalue="")
        yield from ((_DIM, joined(names)) for names in heads)
    for row in cut.rows:
        yield _PLAIN, joined(row)
    for row in cut.tail:
        yield _DIM, joined(row)
    hidden = [column.name for column in cut.columns[len(widths) :]]
    notes = [*table.notes]
    if hidden:
        notes.append(f"{plural(len(hidden), 'column')} left out for width: {', '.join(hidden)}")
    for note in notes:
        yield from _wrapped("", note, width)


def _fitted(cut: CutTable, width: int) -> tuple[list[list[str]], list[int]]:
    """Return lines of each heading, and width of each column that fits, from the first on.

    Headings take several lines only where that makes room for more columns.
    """
    whole = [[column.name] for column in cut.columns]
    widths = _fit(cut, whole, width)
    if len(widths) == len(whole):
        return whole, widths
    cells = [*cut.rows, *cut.tail]
    folded = [
        _folded(column.name, max((cell_width(row[k]) for row in cells), default=0))
        for k, column in enumerate(cut.columns)
    ]
    more = _fit(cut, folded, width)
    return (folded, more) if len(more) > len(widths) else (whole, widths)


def _folded(name: str, width: int) -> list[str]:
    """Return a name broken after underscores into lines of a width; single words may be wider."""
    lines: list[str] = []
    for part in _WORD.findall(name):
        if lines and len(lines[-1]) + len(part) <= width:
            lines[-1] += part
        else:
            lines.append(part)
    return lines


_WORD = re.compile(r"[^_]*_|[^_]+")


def _fit(cut: CutTable, headings: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the width of each column that fits, from the first on; at least one column."""
    rows = [*cut.rows, *cut.tail]
    headed = [max(map(len, lines)) for lines in headings]
    widest = [
        max(heading, *(cell_width(row[k]) for row in rows)) if rows else heading
        for k, heading in enumerate(headed)
    ]
    least = [
        widest[k] if column.unit is not Unit.NONE else min(widest[k], max(_SHORTEST, headed[k]))
        for k, column in enumerate(cut.columns)
    ]
    count = len(least)
    while count > 1 and sum(least[:count]) + len(_GAP) * (count - 1) > width:
        count -= 1
    return _share(widest[:count], least[:count], width - len(_GAP) * (count - 1))


def _share(widest: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return widths between least and widest that fill the room; the widest shrink first."""
    if sum(widest) <= room:
        return list(widest)
    low, high = 0, max(widest)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(_clamp(w, s, middle) for w, s in zip(widest, least, strict=True)) <= room:
            low = middle
        else:
            high = middle - 1
    widths = [_clamp(w, s, low) for w, s in zip(widest, least, strict=True)]
    spare = room - sum(widths)
    for k, wide in enumerate(widest):
        if spare > 0 and widths[k] < wide:
            widths[k] += 1
            spare -= 1
    return widths


def _clamp(widest: int, least: int, width: int) -> int:
    return max(least, min(widest, width))
