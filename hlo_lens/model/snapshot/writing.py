"""Rows of a snapshot as tables of its file: columns, and one line for each row.

Parameters and outputs are the many: a train step may have thousands, of few shapes and shardings.
What they have of these is a row of ``layouts``, and each of them has the place of its row there.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hlo_lens.model.snapshot.facts import EntryFact

Table = dict[str, object]
"""``columns``, a list of names, and ``rows``, a list of lists with one cell for each."""

KINDS = {"parameters": "parameter", "outputs": "output"}
"""Tables of entries, and the kind of those in them."""

LAYOUT = "layout"
LAYOUT_COLUMNS = (
    "global_shape",
    "device_shape",
    "device_bytes",
    "padded_device_bytes",
    "spec",
    "sharding",
    "replication_factor",
)
"""What many entries have in common."""

ENTRY_COLUMNS = ("number", "index", "name", LAYOUT, "donation", "aliased_with")
"""What each has of its own; columns that say nothing are left out."""


def table_of(kind: type, rows: Sequence[object] | None, *, is_sorted: bool = False) -> Table | None:
    """Return columns and rows; equal rows that follow one another once, with their number."""
    if rows is None:
        return None
    names = [field.name for field in fields(kind)]
    cells = [[_plain(getattr(row, name)) for name in names] for row in rows]
    if is_sorted:
        cells.sort(key=repr)
    counted: list[list[object]] = []
    for row in cells:
        if counted and counted[-1][1:] == row and is_sorted:
            counted[-1][0] = int(str(counted[-1][0])) + 1
        else:
            counted.append([1, *row])
    return {"columns": ["n", *names], "rows": counted}


def entry_tables(entries: Sequence[EntryFact] | None) -> dict[str, object]:
    """Return the tables of parameters and outputs, and of what many of them have in common.

    Shardings that list many devices are long: layouts have their places in a list of texts.
    """
    if entries is None:
        return dict.fromkeys(("shardings", "layouts", *KINDS))
    texts = sorted({entry.sharding for entry in entries if entry.sharding is not None})
    place_of = {text: place for place, text in enumerate(texts)}

    def layout(entry: EntryFact) -> tuple[object, ...]:
        sharding = None if entry.sharding is None else place_of[entry.sharding]
        return tuple(
            sharding if name == "sharding" else getattr(entry, name) for name in LAYOUT_COLUMNS
        )

    layouts = [layout(entry) for entry in entries]
    distinct = sorted(set(layouts), key=repr)
    number_of = {cells: place for place, cells in enumerate(distinct)}
    tables: dict[str, object] = {
        "shardings": texts,
        "layouts": {"columns": list(LAYOUT_COLUMNS), "rows": [list(cells) for cells in distinct]},
    }
    for table, kind in KINDS.items():
        rows = (
            [number_of[cells] if name == LAYOUT else getattr(entry, name) for name in ENTRY_COLUMNS]
            for entry, cells in zip(entries, layouts, strict=True)
            if entry.kind == kind
        )
        tables[table] = _without_empty(rows)
    return tables


def _without_empty(rows: Iterable[Sequence[object]]) -> Table:
    """Return a table of entries without the columns in which nothing stands."""
    listed = list(rows)
    kept = [
        place
        for place, name in enumerate(ENTRY_COLUMNS)
        if name == LAYOUT or any(row[place] not in (None, "") for row in listed)
    ]
    return {
        "columns": [ENTRY_COLUMNS[place] for place in kept],
        "rows": [[row[place] for place in kept] for row in listed],
    }


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
