"""M008: large constants."""

from __future__ import annotations

from hlo_lens.questions.findings.finding import Severity
from tests.questions.findings.programs import findings_of, with_lines

TEXT = with_lines("""HloModule m, is_scheduled=true

ENTRY main {
  x = f32[1024,1024]{1,0} parameter(0)
  c = f32[1024,1024]{1,0} constant({...}), @mul:4
  ROOT y = f32[1024,1024]{1,0} multiply(x, c), @mul:4
}
""")


def test_a_constant_that_the_program_has_before_is_an_info() -> None:
    (found,) = findings_of(TEXT, "M008", TEXT)
    assert found.message == "constant f32[1024,1024] of 4.00MiB"
    assert found.fix.startswith("pass the array as an argument")
    assert (found.severity, found.saves.bytes, found.source_line) == (Severity.INFO, None, 4)


def test_a_constant_that_xla_folded_can_be_saved() -> None:
    before = TEXT.replace("constant({...})", "negate(x)")
    (found,) = findings_of(TEXT, "M008", before)
    assert "which XLA computed at compile time" in found.message
    assert (found.severity, found.saves.bytes) == (Severity.WARNING, 4 << 20)


def test_small_constants_have_no_finding() -> None:
    assert findings_of(TEXT.replace("1024,1024", "512,512"), "M008") == ()
