"""A report for tests of renderers."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from hlo_lens.render.result import Column, Unit
from hlo_lens.render.table import RENDERERS, RenderOptions, Report, Section, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.render.result import Row

COLUMNS = (
    Column("size_bytes", Unit.BYTES, "bytes"),
    Column("name", Unit.NONE, "name"),
    Column("count", Unit.COUNT, "count"),
)


def table(rows: Sequence[Row], *, residual_rows: tuple[Row, ...] = (), total: bool = True) -> Table:
    """Return a table of sizes, with the totals of its rows."""
    everything = (*rows, *residual_rows)
    sums = {
        name: sum(cell for row in everything if isinstance(cell := row[place], int))
        for place, name in ((0, "size_bytes"), (2, "count"))
    }
    return Table(
        name="sizes",
        title="Sizes",
        columns=COLUMNS,
        read_rows=lambda: rows,
        row_count=len(rows),
        residual_rows=residual_rows,
        totals=sums if total else {},
    )


def rendered(
    format_name: str, *tables: Table, rows: int | None = None, width: int = 80, color: str = "never"
) -> str:
    """Return the text of a renderer for a report of one section."""
    section = Section(title="jit_f", facts=(("program", "3 instructions"),), tables=tables)
    report = Report(kind="report", sections=(section,), data={"kind": "report", "modules": []})
    out = io.StringIO()
    RENDERERS[format_name](report, out, RenderOptions(rows=rows, width=width, color=color))
    return out.getvalue()
