"""Edits of a text, and other spellings of it."""

from __future__ import annotations

import pytest

from tests.questions.matching.programs import changes_between

TEXT = """HloModule m

%f (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %s = f32[8]{0} negate(%p)
}

ENTRY %main (a: f32[8]) -> (f32[8], f32[8]) {
  %a = f32[8]{0} parameter(0), sharding={devices=[2]<=[2]}
  %w = (f32[8]{0}, f32[8]{0}) custom-call(%a), custom_call_target="two"
  %v = f32[8]{0} get-tuple-element(%w), index=1
  %y = f32[8]{0} fusion(%v), kind=kLoop, calls=%f, backend_config={"a":1}
  ROOT %t = (f32[8]{0}, f32[8]{0}) tuple(%y, %v)
}
"""


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("", ""),
        ("negate", "cosine"),
        ("f32[8]", "f32[16]"),
        ("index=1", "index=0"),
        ("[2]<=[2]", "[2]0,1"),
        ("[2]<=[2]", "[2]1,0"),
        ('"a":1', '"a": 1'),
        ('"a":1', '"b":1'),
        ("{0}", ""),
        ("fusion(%v)", "fusion(%a)"),
    ],
)
def test_edited_text(part: str, other: str) -> None:
    head = TEXT.replace(part, other)
    assert bool(changes_between(TEXT, head)) == (
        other in ("cosine", "f32[16]", "index=0", "[2]1,0", '"b":1', "fusion(%a)")
    )
