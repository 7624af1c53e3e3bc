"""Report to Markdown, for a pull request or an issue."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TextIO

from hlo_lens.analysis.result import Unit
from hlo_lens.report.render.shorten import shorten
from hlo_lens.report.render.table import cut_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.report.render.table import RenderOptions, Report, Section, Table

DEFAULT_ROWS = 20
_WIDEST = 120

_SPECIAL = re.compile(r"[\\`*|<~$]|(?<!\w)_|_(?!\w)|(?<=\])\(|&(?=#?\w+;)")
"""What Markdown would take for its own; an underscore inside a word is none."""

_REFERENCE = re.compile(r"(?<!\w)([@#])(?=\w)")
"""What GitHub takes for a person to be notified, or for one of its issues, escaped or not."""
_NOTHING = "&#8203;"


def render_markdown(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write headings, facts as a list, and tables of at most `DEFAULT_ROWS` rows or as asked."""
    if report.most_characters is not None:
        from hlo_lens.report.render.to_comment import comment_text

        out.write(comment_text(report, options.rows, report.most_characters))
        return
    rows = DEFAULT_ROWS if options.rows is None else options.rows
    blocks = [block for section in report.sections for block in _section(section, rows)]
    out.write("\n\n".join(blocks) + "\n")


def _section(section: Section, rows: int) -> Iterator[str]:
    yield f"## {escape(section.title)}"
    if section.facts:
        yield "\n".join(f"- **{escape(label)}**: {escape(text)}" for label, text in section.facts)
    if section.drawing:
        yield "\n".join(("```text", *section.drawing, "```"))
    for table in section.tables:
        if not table.is_data_only:
            yield from _table(table, rows)
    if section.notes:
        yield "\n".join(f"- {escape(note)}" for note in section.notes)


def _table(table: Table, rows: int) -> Iterator[str]:
    yield f"### {escape(table.title)}"
    lines = list(table_lines(table, rows))
    notes = len(table.notes)
    yield "\n".join(lines[: len(lines) - notes - (notes > 0)])
    if notes:
        yield "\n".join(lines[-notes:])


def table_lines(table: Table, rows: int) -> Iterator[str]:
    """Yield the lines of a table: heading, rows, an empty line and its notes if it has any."""
    cut = cut_table(table, rows)
    rules = ["---" if column.unit is Unit.NONE else "---:" for column in cut.columns]
    yield _line([column.name for column in cut.columns])
    yield _line(rules)
    for row in (*cut.rows, *cut.tail):
        yield _line([escape(shorten(cell, _WIDEST)) for cell in row])
    if table.notes:
        yield ""
        yield from (f"{escape(note)}  " for note in table.notes)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape(text: str) -> str:
    """Return text in which Markdown and GitHub see nothing of their own."""
    return unlinked(_SPECIAL.sub(r"\\\g<0>", text))


def unlinked(text: str) -> str:
    """Return text in which GitHub sees no people and no issues."""
    return _REFERENCE.sub(rf"\1{_NOTHING}", text)
