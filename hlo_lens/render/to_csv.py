"""Report to CSV: one block for each table, with its own header line and an empty line between.

Each line begins with the module (the section, unless the table has a column of this name) and the
name of the table. Rows are complete, numbers are in base units, empty means not known, lists are
JSON.
"""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, TextIO

from hlo_lens.text.errors import printable

if TYPE_CHECKING:
    from hlo_lens.render.result import Cell
    from hlo_lens.render.table import RenderOptions, Report


_FORMULA = ("=", "+", "-", "@")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?%?")


def render_csv(report: Report, out: TextIO, options: RenderOptions) -> None:
    """Write the tables of a report with all rows and residual rows, without totals."""
    writer = csv.writer(out, lineterminator="\n")
    is_first = True
    for section in report.sections:
        for table in section.tables:
            if table.is_text_only:
                continue
            if not is_first:
                out.write("\n")
            is_first = False
            names = [column.name for column in table.columns]
            own = table.module_column
            module = names.index(own) if own in names else None
            places = [
                k for k, name in enumerate(names) if name not in table.text_only and k != module
            ]
            writer.writerow(("module", "table", *(names[k] for k in places)))
            for row in table.all_rows():
                first = _text(section.title if module is None else row[module])
                writer.writerow((first, table.name, *(_text(row[k]) for k in places)))


def _text(cell: Cell) -> str | int | float:
    if cell is None:
        return ""
    if isinstance(cell, (bool, tuple)):
        return json.dumps(cell)
    return _inert(printable(cell)) if isinstance(cell, str) else cell


def _inert(text: str) -> str:
    """Return a text that spreadsheets do not take for a formula: an apostrophe comes first.

    Source: OWASP, "CSV Injection".
    """
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text
