"""Report to HTML, for a notebook: one fragment without scripts and styles of its own."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TextIO

from hlo_lens.render.result import Unit
from hlo_lens.render.table import RenderOptions, Report, Section, Table, cut_table, shorten
from hlo_lens.text.errors import printable

DEFAULT_ROWS = 10
_WIDEST = 80


def render_html(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write sections, facts and tables cut at `DEFAULT_ROWS` or the option."""
    for section in report.pages:
        out.write("\n".join(_section(section, options.rows)) + "\n")


def _section(section: Section, rows: int | None) -> Iterator[str]:
    count = DEFAULT_ROWS if rows is None else rows
    if section.title:
        yield f"<h3>{_escaped(section.title)}</h3>"
    if section.facts:
        yield "<table>"
        yield from (
            f"<tr><th>{_escaped(label)}</th>{_cell(text, is_number=False)}</tr>"
            for label, text in section.facts
        )
        yield "</table>"
    if section.drawing:
        yield f"<pre>{chr(10).join(map(_escaped, section.drawing))}</pre>"
    for table in section.shown_tables:
        if table.row_count or table.residual_rows:
            yield from _table(table, count)
    if section.notes:
        yield "<ul>"
        yield from (f"<li>{_escaped(note)}</li>" for note in section.notes)
        yield "</ul>"
    for part in section.parts:
        yield from _section(part, rows)


def _table(table: Table, rows: int) -> Iterator[str]:
    cut = cut_table(table, rows)
    numbers = [column.unit is not Unit.NONE for column in cut.columns]
    yield f"<h4>{_escaped(table.title)}</h4>"
    yield "<table>"
    heads = (
        f'<th title="{_escaped(column.meaning)}">{_escaped(column.name)}</th>'
        for column in cut.columns
    )
    yield f"<thead><tr>{''.join(heads)}</tr></thead>"
    for name, rows_inside in (("tbody", cut.rows), ("tfoot", cut.tail)):
        yield f"<{name}>"
        for row in rows_inside:
            cells = (_cell(text, is_number=n) for text, n in zip(row, numbers, strict=True))
            yield f"<tr>{''.join(cells)}</tr>"
        yield f"</{name}>"
    yield "</table>"
    yield from (f"<p>{_escaped(note)}</p>" for note in table.notes)


def _cell(text: str, *, is_number: bool) -> str:
    """Return a cell, shortened; its title has the whole text."""
    side = "right" if is_number else "left"
    short = shorten(text, _WIDEST)
    title = "" if short == text else f' title="{_escaped(text)}"'
    return f'<td style="text-align: {side}"{title}>{_escaped(short)}</td>'


def _escaped(text: str) -> str:
    """Return text without meaning to HTML, also inside quotes."""
    return escape(printable(text), quote=True)
