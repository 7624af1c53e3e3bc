"""One instruction with what is next to it."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.text.errors import UnknownNameError

TEXT = """HloModule m

ENTRY main {
  p = (f32[8], f32[4]) parameter(0)
  ROOT s = f32[8] add(p#0, p#0)
}
"""


def test_uses_of_elements_are_listed_each() -> None:
    found = hlo_lens.instruction(TEXT, "s")
    operands = [(one.role, one.place, one.name) for one in found.adjacent]
    assert operands == [("operand", "0{0}", "p"), ("operand", "1{0}", "p")]
    used = hlo_lens.instruction(TEXT, "p")
    assert [(one.role, one.place, one.name) for one in used.adjacent] == [
        ("user", "0", "s"),
        ("user", "1", "s"),
    ]


def test_text_is_as_written() -> None:
    assert hlo_lens.instruction(TEXT, "%s").text == "s = f32[8] add(p#0, p#0)"


def test_unknown_name_is_an_error() -> None:
    with pytest.raises(UnknownNameError, match="no instruction or computation is named 'x'"):
        hlo_lens.instruction(TEXT, "x")
