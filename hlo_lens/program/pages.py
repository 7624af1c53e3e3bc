"""What pages of programs share: head of their JSON, note without HLO text, marks of origins."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from hlo_lens.program.origins import INFERRED, marked
from hlo_lens.program.summary import no_hlo_text
from hlo_lens.render.table import Section
from hlo_lens.render.to_json import ModulePage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.render.result import Row
    from hlo_lens.render.table import Table


def module_head(dump: ModuleDump) -> dict[str, object]:
    """Return the keys that every JSON object of a module begins with."""
    return {"name": dump.name, "stage": dump.stage, "files": list(dump.files)}


def page_without_hlo(dump: ModuleDump, **parts: object) -> ModulePage:
    """Return the page of a module without HLO text: a note, and a JSON object of these parts."""
    return ModulePage(
        sections=(Section(title=dump.name, notes=(no_hlo_text(dump),)),),
        make_object=lambda: {**module_head(dump), **parts},
    )


_ROWS = 1000
"""Rows that are searched for a mark."""

LEGEND = (
    f"{INFERRED} inferred: not of the instruction's own metadata, but of what it runs, is computed "
    "from or is used by (hlo-lens help source)"
)


def with_marks(table: Table) -> Table:
    """Return a table whose inferred source lines are marked, with the legend if there are any.

    People see the name of the argument that a value is computed from in place of the operation
    path.
    """
    places = {column.name: place for place, column in enumerate(table.columns)}
    source, basis = places["source"], places["origin_basis"]
    op_name, argument = places["op_name"], places.get("argument")

    def shown(rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            cells = list(row)
            cells[source] = marked(_text(row[source]), _text(row[basis]))
            if argument is not None:
                cells[op_name] = row[argument] or row[op_name]
            yield tuple(cells)

    read = table.read_shown or table.read_rows
    return _with_legend(replace(table, read_shown=lambda: shown(read())), source)


def with_marked_groups(table: Table) -> Table:
    """Return a table of groups; labels of which some bytes are inferred are marked."""
    places = {column.name: place for place, column in enumerate(table.columns)}
    group, inferred = places["group"], places["inferred_bytes"]

    def shown(rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            cells = list(row)
            if row[inferred]:
                cells[group] = f"{row[group]} {INFERRED}"
            yield tuple(cells)

    return _with_legend(replace(table, read_shown=lambda: shown(table.read_rows())), group)


def _text(cell: object) -> str | None:
    return cell if isinstance(cell, str) else None


def _with_legend(table: Table, place: int) -> Table:
    rows = islice(table.read_shown(), _ROWS) if table.read_shown is not None else ()
    if any(str(row[place] or "").endswith(f" {INFERRED}") for row in rows):
        return replace(table, notes=(*table.notes, LEGEND))
    return table
