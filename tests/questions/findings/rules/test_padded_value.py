"""M004: padding of values at the peak."""

from __future__ import annotations

from hlo_lens.questions.findings.finding import Severity
from tests.questions.findings.programs import findings_of, with_lines

TEXT = with_lines("""HloModule m, is_scheduled=true

ENTRY main {
  x = f32[4096,16]{1,0:T(8,128)} parameter(0)
  a = f32[4096,16]{1,0:T(8,128)} negate(x), @neg:7
  ROOT b = f32[4096,16]{1,0:T(8,128)} cosine(a), @cos:8
}
""")


def test_the_dimension_that_does_not_fill_its_tile_is_named() -> None:
    (found,) = findings_of(TEXT, "M004")
    assert "dimension 1 has 16 elements in a tile of 128" in found.message
    assert found.fix == "make dimension 1 a multiple of 128, or merge it with another one"
    assert found.saves.bytes == 3 * 4096 * (128 - 16) * 4
    assert found.severity is Severity.WARNING
    assert found.source_line == 7


def test_values_that_fill_their_tiles_have_no_finding() -> None:
    assert findings_of(TEXT.replace("4096,16", "512,128"), "M004") == ()


def test_layouts_without_tiles_have_no_padding() -> None:
    assert findings_of(TEXT.replace(":T(8,128)", ""), "M004") == ()
