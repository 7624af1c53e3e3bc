"""Report to Markdown, for a pull request or an issue.

A report with a limit on its length has its tables folded, for a comment on a pull request. Parts
that do not fit are left out whole, and counted: first rows of tables, then tables, then sections
from the end on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape as html_escape
from typing import TextIO

from hlo_lens.render.result import Unit
from hlo_lens.render.table import RenderOptions, Report, Section, Table, cut_table, shorten
from hlo_lens.text.errors import printable
from hlo_lens.text.units import plural

DEFAULT_ROWS = 20
_WIDEST = 120

_SPECIAL = re.compile(r"[\\`*|<~$]|(?<!\w)_|_(?!\w)|(?<=\])\(|&(?=#?\w+;)")
"""Characters with a meaning in Markdown; an underscore inside a word has none."""

_REFERENCE = re.compile(r"(?<!\w)([@#])(?=\w)")
"""Marks by which GitHub links people and issues, whether escaped or not."""
_NOTHING = "&#8203;"

_FEWER = (10, 5, 3, 1)
_LONGEST_FACT = 2_000
_LONGEST_TITLE = 300


def render_markdown(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write headings, facts as a list, and tables cut at `DEFAULT_ROWS` or the option."""
    rows = DEFAULT_ROWS if options.rows is None else options.rows
    if report.most_characters is not None:
        out.write(comment_text(report, rows, report.most_characters))
        return
    blocks = [block for section in report.pages for block in _section(section, options.rows)]
    out.write("\n\n".join(blocks) + "\n")


def _section(section: Section, rows: int | None, level: str = "##") -> Iterator[str]:
    count = DEFAULT_ROWS if rows is None else rows
    if section.title:
        yield f"{level} {_escaped(section.title)}"
    if section.facts:
        yield "\n".join(_fact(label, text) for label, text in section.facts)
    if section.drawing:
        drawing = [printable(line).replace("```", r"\x60``") for line in section.drawing]
        yield "\n".join(("```text", *drawing, "```"))
    for table in section.shown_tables:
        yield from _whole_table(table, count)
    if section.notes:
        yield "\n".join(f"- {_escaped(note)}" for note in section.notes)
    if section.command:
        yield f"`{printable(section.command)}`"
    for part in section.parts:
        yield from _section(part, rows, "###")


def _fact(label: str, text: str, most: int | None = None) -> str:
    """Return a fact as an item of a list; one whose label is indented continues the item above."""
    indent = "  " * label.startswith(" ")
    name = f"**{_escaped(label.strip())}**: " if label.strip() else ""
    text = text.strip()
    return f"{indent}- {name}{_escaped(text) if most is None else _short(text, most)}"


def _whole_table(table: Table, rows: int) -> Iterator[str]:
    if table.title:
        yield f"### {_escaped(table.title.strip())}"
    yield "\n".join(_table_lines(table, rows))
    if table.notes:
        yield "\n".join(_note_lines(table))
    if table.command:
        yield f"`{printable(table.command)}`"


def _table_lines(table: Table, rows: int) -> Iterator[str]:
    cut = cut_table(table, rows)
    yield _line([column.name for column in cut.columns])
    yield _line(["---" if column.unit is Unit.NONE else "---:" for column in cut.columns])
    for row in (*cut.rows, *cut.tail):
        yield _line([_escaped(shorten(cell, _WIDEST)) for cell in row])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _note_lines(table: Table) -> Iterator[str]:
    return (f"{_escaped(note)}  " for note in table.notes)


def _escaped(text: str) -> str:
    """Return text without meaning to Markdown and GitHub."""
    return _unlinked(_SPECIAL.sub(r"\\\g<0>", printable(text)))


def _unlinked(text: str) -> str:
    """Return text in which GitHub links no people and no issues."""
    return _REFERENCE.sub(rf"\1{_NOTHING}", text)


# ---- comments -----------------------------------------------------------------------------------


def comment_text(report: Report, rows: int, most_characters: int) -> str:
    """Return a report as Markdown of at most so many characters.

    Args:
        report: The report.
        rows: Rows of each table; 0 for all.
        most_characters: Limit on the length, at least some hundred.
    """
    for number in (rows, *(n for n in _FEWER if not rows or n < rows)):
        text = _joined([_comment_section(section, number) for section in report.sections])
        if len(text) <= most_characters:
            return text
    return _fitted(report.sections, most_characters)


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(parts) + "\n"


def _fitted(sections: Sequence[Section], most: int) -> str:
    """Return as many sections as fit, with one row of each table, then without tables."""
    parts: list[str] = []
    left = most - len(_left_out(len(sections))) - 4
    for place, section in enumerate(sections):
        kept = _as_far_as_it_fits(section, left - 2, first=not place)
        if kept is None:
            parts.append(_left_out(len(sections) - place))
            break
        parts.append(kept)
        left -= len(kept) + 2
    return _joined(parts)


def _as_far_as_it_fits(section: Section, most: int, *, first: bool) -> str | None:
    """Return a section with one row of each table; its first tables if not all of them fit.

    The first section, an overview, has more rows. None if not even the facts fit.
    """
    whole = _comment_section(section, _FEWER[0] if first else 1)
    if len(whole) <= most:
        return whole
    bare = _comment_section(section, 0, kept=0)
    if len(bare) > most:
        return None
    left, count = most - len(bare) - 2, 0
    for table in _tables(section):
        left -= len(_folded(table, _FEWER[0])) + 2
        if left < 0:
            break
        count += 1
    return _comment_section(section, _FEWER[0], kept=count)


def _left_out(count: int) -> str:
    return f"*{plural(count, 'more section')} left out for length; -f json has all*"


def _comment_section(section: Section, rows: int, *, kept: int | None = None) -> str:
    """Return a section with its first tables, and the number of the others.

    Args:
        section: The section.
        rows: Rows of each table.
        kept: Number of tables to show; None for all.
    """
    blocks = [f"## {_short(section.title, _LONGEST_TITLE)}"]
    if section.facts:
        facts = [_fact(label, text, _LONGEST_FACT) for label, text in section.facts]
        blocks.append("\n".join(facts))
    tables = _tables(section)
    shown = tables[:kept]
    blocks += [_folded(table, rows) for table in shown]
    if len(shown) < len(tables):
        blocks.append(f"*{plural(len(tables) - len(shown), 'table')} left out for length*")
    if section.notes:
        blocks.append("\n".join(f"- {_short(note, _LONGEST_FACT)}" for note in section.notes))
    return "\n\n".join(blocks)


def _tables(section: Section) -> list[Table]:
    return [table for table in section.tables if not table.is_data_only]


def _short(text: str, most: int) -> str:
    """Return an escaped text, cut off if it is very long."""
    kept = text if len(text) <= most else f"{text[: most - 3]}..."
    return _escaped(" ".join(kept.split()))


def _folded(table: Table, rows: int) -> str:
    count = f" ({plural(table.row_count, 'row')})" if table.row_count else ""
    title = _unlinked(html_escape(printable(table.title), quote=False))
    lines = [f"<details><summary>{title}{count}</summary>", "", *_table_lines(table, rows), ""]
    if table.notes:
        lines += [*_note_lines(table), ""]
    return "\n".join((*lines, "</details>"))
