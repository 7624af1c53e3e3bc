"""Cells of pairs by column name."""

from __future__ import annotations

from hlo_lens.questions.diff.shardings import EntryRow
from hlo_lens.render.result import Column, Unit
from tests.snapshots import entry

COLUMNS = [
    Column(name, Unit.NONE, "")
    for name in ("change", "kind", "base_number", "head_number", "delta_bytes", "source")
]


def test_columns_are_fields_of_the_pair_of_a_side_or_of_the_newer_item() -> None:
    pair = EntryRow(base=entry(number=1), head=entry(number=2, kind="output"), change="reshaped")
    assert pair.row(COLUMNS) == ("reshaped", "output", 1, 2, 0, None)


def test_an_absent_side_has_empty_cells() -> None:
    pair = EntryRow(base=None, head=entry(number=2), change="added")
    assert pair.row(COLUMNS) == ("added", "parameter", None, 2, 256, None)
