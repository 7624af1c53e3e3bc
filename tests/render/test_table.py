"""Cutting tables, and values as text."""

from __future__ import annotations

import pytest

from hlo_lens.render.table import cut_table
from tests.render.tables import table

ROWS = tuple((1 << k, f"v{k}", 1) for k in range(5))


def test_cut_rows_are_one_row_that_still_counts() -> None:
    cut = cut_table(table(ROWS, residual_rows=((100, "[unattributed]", 7),)), 2)
    assert cut.rows == [("1B", "v0", "1"), ("2B", "v1", "1")]
    assert cut.tail == [
        ("28B", "[3 others]", "3"),
        ("100B", "[unattributed]", "7"),
        ("131B", "total", "12"),
    ]


@pytest.mark.parametrize("rows", [0, 4, 5, 9])
def test_a_rest_of_one_row_is_shown(rows: int) -> None:
    cut = cut_table(table(ROWS), rows)
    assert [row[1] for row in cut.rows] == ["v0", "v1", "v2", "v3", "v4"]
    assert cut.tail == [("31B", "total", "5")]
