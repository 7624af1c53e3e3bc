"""Print styles: what a text leaves out, told from its own lines."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.questions.diff.matching.graph_pair import style_of

TEXT = """HloModule m

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  %c = f32[4]{0} constant(LITERAL)
  ROOT %r = f32[4]{0} add(%x, %c), metadata={op_name="constant({...})"}
}
"""


@pytest.mark.parametrize(
    ("text", "has_dots", "has_scalar_dots"),
    [
        (TEXT.replace("LITERAL", "{1, 2, 3, 4}"), False, False),
        (TEXT.replace("LITERAL", "{...}"), True, False),
        (TEXT.replace("%c = f32[4]{0} constant(LITERAL)", "%c = s8[] constant({...})"), True, True),
        (TEXT.replace("%c = f32[4]{0} constant(LITERAL)", "%c = s8[]{:T(128)} constant({...})"),
         True, True),
    ],
)  # fmt: skip
def test_literals_as_dots(text: str, has_dots: bool, has_scalar_dots: bool) -> None:
    found = style_of(hlo_lens.parse_hlo(text))
    assert (found.has_dots, found.has_scalar_dots) == (has_dots, has_scalar_dots)
