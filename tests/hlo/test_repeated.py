"""Repeated names of instructions and numbers of parameters."""

from __future__ import annotations

import pytest

from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.text.errors import DumpSyntaxError

NAMES = """HloModule m

ENTRY e {
  p = f32[8] parameter(0)
  q = f32[8] negate(p)
  q = f32[8] abs(p)
  ROOT r = f32[8] add(p, q)
}
"""
NUMBERS = NAMES.replace("  q = f32[8] abs(p)", "  s = f32[8] parameter(0)")


def test_a_repeated_name_is_a_gap_at_its_second_place() -> None:
    (gap,) = parse_hlo(NAMES).gaps
    assert (gap.line, gap.column) == (6, 3)
    assert gap.message == "expected another name: q is defined already"


def test_a_repeated_parameter_number_is_a_gap() -> None:
    (gap,) = parse_hlo(NUMBERS).gaps
    assert (gap.line, gap.column) == (6, 24)
    assert gap.message == "expected another parameter: the computation has a parameter 0 already"


def test_computations_may_repeat_names_of_each_other() -> None:
    body = "{\n  p = f32[] parameter(0)\n}\n"
    assert parse_hlo(f"HloModule m\n\nf {body}\nENTRY e {body}").gaps == ()


@pytest.mark.parametrize("text", [NAMES, NUMBERS])
def test_the_grammar_refuses_repetitions(text: str) -> None:
    with pytest.raises(DumpSyntaxError, match="already"):
        parse_hlo(text, reader="grammar")
