"""Results and reports as HTML for a notebook, without scripts and styles of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TextIO

from hlo_lens.render.result import Result, Unit
from hlo_lens.render.table import RenderOptions, Report, Section, Table, cut_table, shorten
from hlo_lens.text.errors import printable

DEFAULT_ROWS = 10
_ROWS_OF_RESULT = 20
_WIDEST = 80


def render_html(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write sections, facts and tables cut at `DEFAULT_ROWS` or the option."""
    for section in report.pages:
        rows = DEFAULT_ROWS if options.rows is None else options.rows
        out.write("\n".join(_section(section, rows)) + "\n")


def _section(section: Section, rows: int) -> Iterator[str]:
    if section.title:
        yield f"<h3>{_escaped(section.title)}</h3>"
    if section.facts:
        facts = ((f"<th>{_escaped(label)}</th>", _cell(text)) for label, text in section.facts)
        yield f"<table>{_rows(facts)}</table>"
    if section.drawing:
        yield f"<pre>{chr(10).join(map(_escaped, section.drawing))}</pre>"
    for table in section.shown_tables:
        if table.row_count or table.residual_rows:
            yield _table(table, rows)
    if section.notes:
        yield f"<ul>{''.join(f'<li>{_escaped(note)}</li>' for note in section.notes)}</ul>"
    for part in section.parts:
        yield from _section(part, rows)


def result_html(result: Result) -> str:
    """Return a result as a table, with the first line of what it is."""
    lead = (type(result).__doc__ or "").strip().partition("\n")[0]
    return _table(Table.of(result, title=f"{result.KIND}: {lead}"), _ROWS_OF_RESULT)


def _table(table: Table, rows: int) -> str:
    cut = cut_table(table, rows)
    heads = (
        f'<th title="{_escaped(column.meaning)}">{_escaped(column.name)}</th>'
        for column in cut.columns
    )
    body, foot = (
        _rows(map(_cell, row, (column.unit for column in cut.columns)) for row in part)
        for part in (cut.rows, cut.tail)
    )
    return (
        f"<h4>{_escaped(table.title)}</h4>"
        f"<table><thead><tr>{''.join(heads)}</tr></thead>"
        f"<tbody>{body}</tbody><tfoot>{foot}</tfoot></table>"
        + "".join(f"<p>{_escaped(note)}</p>" for note in table.notes)
    )


def _rows(rows: Iterable[Iterable[str]]) -> str:
    return "".join(f"<tr>{''.join(row)}</tr>" for row in rows)


def _cell(text: str, unit: Unit = Unit.NONE) -> str:
    """Return a cell, shortened; its title has the whole text."""
    side = "left" if unit is Unit.NONE else "right"
    short = shorten(text, _WIDEST)
    title = "" if short == text else f' title="{_escaped(text)}"'
    return f'<td style="text-align: {side}"{title}>{_escaped(short)}</td>'


def _escaped(text: str) -> str:
    return escape(printable(text), quote=True)
