"""Markdown of tables, and text escaped for Markdown and GitHub."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.analysis.result import Unit
from hlo_lens.report.render.shorten import shorten
from hlo_lens.report.render.table import cut_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.report.render.table import Table

DEFAULT_ROWS = 20
_WIDEST = 120

_SPECIAL = re.compile(r"[\\`*|<~$]|(?<!\w)_|_(?!\w)|(?<=\])\(|&(?=#?\w+;)")
"""Characters with a meaning in Markdown; an underscore inside a word has none."""

_REFERENCE = re.compile(r"(?<!\w)([@#])(?=\w)")
"""Marks by which GitHub links people and issues, whether escaped or not."""
_NOTHING = "&#8203;"


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
    """Return text without meaning to Markdown and GitHub."""
    return unlinked(_SPECIAL.sub(r"\\\g<0>", text))


def unlinked(text: str) -> str:
    """Return text in which GitHub links no people and no issues."""
    return _REFERENCE.sub(rf"\1{_NOTHING}", text)
