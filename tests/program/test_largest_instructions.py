"""Ranking of instructions by the bytes they produce."""

from __future__ import annotations

from hlo_lens.program.largest_instructions import largest_instructions
from tests.questions.texts import LOOP, entry_module, module_of


def test_tuples_and_loops_are_left_out() -> None:
    result = largest_instructions(module_of(LOOP))
    assert [row[:2] for row in result.rows()] == [
        (512, "w"),
        (512, "y"),
        (64, "b"),
        (4, "four"),
        (4, "n"),
        (4, "next"),
        (4, "one"),
        (1, "less"),
    ]
    assert (result.left_out_views, result.left_out_embedded) == (8, 2)


def test_row_names_shape_source_and_scope() -> None:
    rows = {row[1]: row for row in largest_instructions(module_of(LOOP)).rows()}
    place = "/home/me/step.py:7"
    assert rows["y"] == (
        512,
        "y",
        "fusion",
        "f32[8,16]",
        place,
        "jit(step)/while/neg",
        "body",
        "own",
    )
    assert rows["four"][:4] == (4, "four", "constant", "s32[]")
    assert rows["four"][4:] == (None, None, "cond", None)


def test_unknown_sizes_come_last_and_are_counted() -> None:
    module = entry_module(
        """
  a = f32[?]{0} parameter(0)
  b = f32[2]{0} parameter(1)
  ROOT c = f32[0]{0} parameter(2)"""
    )
    result = largest_instructions(module)
    assert [row[:2] for row in result.rows()] == [(8, "b"), (0, "c"), (None, "a")]
    assert (result.unknown_sizes, result.total_bytes) == (1, 8)
