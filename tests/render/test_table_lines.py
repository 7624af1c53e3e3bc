"""Tables in a width: columns left out, widths, headings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hlo_lens.render.result import Cell, Column, Unit
from hlo_lens.render.table import cut_table, table_of
from hlo_lens.render.text_table import TableLines, table_lines

COLUMNS = (
    Column("size_bytes", Unit.BYTES, "bytes"),
    Column("value", Unit.NONE, "value"),
    Column("opcode", Unit.NONE, "opcode"),
    Column("shape", Unit.NONE, "shape"),
    Column("source", Unit.NONE, "source line"),
    Column("op_name", Unit.NONE, "operation"),
    Column("start", Unit.NONE, "first instant"),
)
ROWS: tuple[tuple[Cell, ...], ...] = tuple(
    (
        1 << k,
        f"broadcast_multiply_fusion.{k}{{}}",
        "fusion",
        "f32[128,64]{1,0:T(8,128)}",
        f"/home/me/a/long/path/to/the/project/model.py:{k}",
        f"jit(train_step)/transpose(jvp(Model))/layer_{k}/dot_general",
        k,
    )
    for k in range(1, 6)
)


def _lines(width: int) -> TableLines:
    return table_lines(cut_table(table_of("t", "T", COLUMNS, ROWS), 3), width)


def test_columns_that_decide_least_are_left_out_first() -> None:
    orders = [_lines(width).left_out for width in range(130, 74, -1)]
    assert [*dict.fromkeys(orders)] == [
        (),
        ("start",),
        ("opcode", "start"),
        ("opcode", "shape", "start"),
    ]


@pytest.mark.parametrize("width", [80, 90, 100, 120, 200])
def test_names_are_whole_and_places_keep_the_file(width: int) -> None:
    rows = _lines(width).rows
    for k, line in enumerate(rows, 1):
        assert f"  broadcast_multiply_fusion.{k}{{}}  " in line
        assert f"model.py:{k}  " in line
        assert len(line) <= width


def test_label_of_the_rest_is_in_the_column_of_names() -> None:
    assert [line.split() for line in _lines(80).tail] == [["[2", "others]"]]


def test_continuation_lines_have_the_other_columns_empty() -> None:
    columns = (COLUMNS[0], Column("reason", Unit.NONE, "reason"))
    rows = ((5, "no output has its shape and type"),)
    lines = table_lines(cut_table(table_of("t", "T", columns, rows), 0), 32)
    assert lines.rows == [
        "        5B  no output has its",
        "            shape and type",
    ]


def test_columns_of_words_that_decide_are_wrapped_whole() -> None:
    columns = (COLUMNS[0], Column("what", Unit.NONE, "what changed"))
    words = "element type bf16 -> f32 (8); 3 convert removed; 12 more added"
    table = table_of("t", "T", columns, ((1, words),))
    cut = "\n".join(table_lines(cut_table(table, 1), 30).rows)
    assert cut.endswith("...")
    whole = table_lines(cut_table(replace(table, wrapped=("what",)), 1), 30).rows
    assert " ".join(line.strip() for line in whole).split("  ", 1)[1].split() == words.split()


def test_a_table_without_rows_has_headings_alone() -> None:
    columns = (Column("value", Unit.NONE, "value"), Column("reason", Unit.NONE, "reason"))
    lines = table_lines(cut_table(table_of("t", "T", columns, ()), 3), 80)
    assert lines == TableLines(headings=["value  reason"], rows=[], tail=[], left_out=())
