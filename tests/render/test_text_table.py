"""Tables in a width: columns left out, cells cut and wrapped, commands whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from hlo_lens.render.result import Cell, Column, Unit
from hlo_lens.render.table import Role, cell_width, cut_table, table_of
from hlo_lens.render.to_text import (
    TableLines,
    column_lines,
    joined,
    least_width,
    separated,
    table_lines,
    wrapped,
)

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


SCOPE = "jit(f)/embed/convert_element_type[new_dtype=bfloat16 weak_type=False]"


@pytest.mark.parametrize(
    ("role", "width", "cells", "shown"),
    [
        # names keep the ends that tell them apart, or are whole
        (Role.NAME, 14, ["loop_convert_fusion.12", "a.3{0}"], [["...t_fusion.12"], ["a.3{0}"]]),
        (Role.NAME, 8, ["add.clone.1", "mul.clone.1"], [["add.", "clone.1"], ["mul.", "clone.1"]]),
        (Role.NAME, 12, ["state['opt'][0].mu"], [["state['opt']", "[0].mu"]]),
        (Role.NAME, 14, ["/home/me/a.py:7 ~", "[rest]"], [[".../a.py:7 ~"], ["[rest]"]]),
        # places lose folders first
        (Role.PLACE, 16, ["/home/me/a/model.py:3", "b.py:4"], [[".../a/model.py:3"], ["b.py:4"]]),
        (Role.PLACE, 12, ["/home/me/a/model.py:3", "b.py:4"], [["model.py:3"], ["b.py:4"]]),
        # scopes lose arguments of the operation before scopes
        (Role.SCOPE, 30, [SCOPE], [[".../embed/convert_element_type"]]),
        (Role.SCOPE, 80, [SCOPE], [[SCOPE]]),
        (Role.SHAPE, 12, ["f32[128,64]{1,0:T(8,128)S(1)}"], [["f32[128,64]"]]),
        (Role.REASON, 12, ["no output has its shape"], [["no output", "has its", "shape"]]),
        (Role.TEXT, 8, ["one two three four five"], [["one two", "th..."]]),
        (Role.BAR, 4, ["####", "########", ""], [["##"], ["####"], [""]]),
    ],
)
def test_cells_are_cut_as_their_role_asks(
    role: Role, width: int, cells: list[str], shown: list[list[str]]
) -> None:
    assert column_lines(cells, role, width) == shown


def test_least_width_of_a_place_is_that_of_the_file() -> None:
    assert least_width(["/home/me/project/train.py:41"], Role.PLACE) == len("train.py:41")


@given(st.text(), st.integers(4, 40))
def test_wrapped_text_fits_and_is_whole(text: str, width: int) -> None:
    lines = [*wrapped(text, width)]
    assert all(cell_width(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(
    st.lists(st.text("ab.[]{}'/", max_size=40), unique=True),
    st.integers(8, 30),
    st.sampled_from([Role.NAME, Role.PLACE]),
)
def test_different_names_and_places_never_look_alike(
    cells: list[str], width: int, role: Role
) -> None:
    lines = column_lines(cells, role, width)
    assert len({tuple(some) for some in lines}) == len(cells)
    assert all(len(line) <= width for some in lines for line in some)


SENTENCES = (
    ("it is inferred for some of these (hlo-lens help blame)", "hlo-lens help blame"),
    ("texts may differ; hlo-lens diff compares programs, and may find no change", "hlo-lens diff"),
    (
        "of each of them: hlo-lens memory PATH --module NAME, or -n 0 for all",
        "hlo-lens memory PATH --module NAME",
    ),
    (
        "save less (an estimate: hlo-lens what-if DIR --donate PLACE)",
        "hlo-lens what-if DIR --donate PLACE",
    ),
    ("as with hlo-lens lint dump --select M003 and the same", "hlo-lens lint dump --select M003"),
    (
        """then hlo-lens what-if 'my dump' --shard "w=P(None, 'm')"; once more""",
        """hlo-lens what-if 'my dump' --shard "w=P(None, 'm')\"""",
    ),
    ("the page of hlo-lens report. The rest is elsewhere", "hlo-lens report"),
)


@pytest.mark.parametrize(("text", "command"), SENTENCES)
def test_words_after_a_command_are_no_part_of_it(text: str, command: str) -> None:
    parts = joined(text).split(" ")
    assert separated(" ".join(parts)) == text
    (found,) = [separated(part) for part in parts if "hlo-lens" in part]
    assert found.strip("(),;.") == command


def test_a_cell_breaks_only_commands_that_are_wider_than_it() -> None:
    text = "the program ended early; hlo-lens report LOG prints the reason"
    assert "hlo-lens report LOG" in [*wrapped(text, 20)]
    assert max(len(line) for line in wrapped(text, 14)) <= 14
