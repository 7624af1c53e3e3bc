"""Matched computations line by line."""

from __future__ import annotations

from hlo_lens.questions.matching.program_diff import program_diff, side_by_side
from tests.questions.texts import table_of

BASE = """HloModule m

ENTRY main {
  p = f32[64] parameter(0)
  a = f32[64] add(p, p)
  b = f32[64] negate(a)
  c = f32[64] exponential(b)
  d = f32[64] tanh(c)
  ROOT e = f32[64] multiply(d, d)
}
"""
HEAD = BASE.replace("ROOT e = f32[64] multiply(d, d)", "ROOT e = f32[64] divide(d, d)")
LONGER = BASE.replace(
    "ROOT e = f32[64] multiply(d, d)", "x = f32[64] cosine(a)\n  ROOT e = f32[64] multiply(d, x)"
)


def _lines(base: str, head: str) -> list[tuple[str, str | None, str | None]]:
    mine, yours = table_of(base).module, table_of(head).module
    pairs = side_by_side(program_diff(mine, yours), mine, yours)
    return [
        (
            line.kind,
            str(line.base)
            if line.kind == "left out"
            else None
            if line.base is None
            else mine.instruction(line.base).name,
            None if line.head is None else yours.instruction(line.head).name,
        )
        for pair in pairs
        for line in pair.lines
    ]


def test_equal_programs_have_no_lines() -> None:
    assert _lines(BASE, BASE) == []


def test_edited_lines_are_listed_with_those_around_them() -> None:
    assert _lines(BASE, HEAD) == [
        ("left out", "3", None),
        ("same", "c", "c"),
        ("same", "d", "d"),
        ("changed", "e", "e"),
    ]


def test_added_lines_have_no_base() -> None:
    assert ("added", None, "x") in _lines(BASE, LONGER)
    assert ("removed", "x", None) in _lines(LONGER, BASE)
