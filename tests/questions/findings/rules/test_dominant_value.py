"""M011: one value above half of the memory."""

from __future__ import annotations

import hlo_lens
from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rules.dominant_value import dominant_value
from tests.corpus import SAMPLES
from tests.questions.findings.programs import findings_of, with_lines

TEXT = with_lines("""HloModule m, is_scheduled=true

ENTRY main {
  x = f32[64,64]{1,0} parameter(0)
  a = f32[64,64,4096]{2,1,0} broadcast(x), dimensions={0,1}, @mul:4
  b = f32[64,64,4096]{2,1,0} cosine(a), @cos:5
  ROOT y = f32[64,64]{1,0} slice(b), @slice:6
}
""").replace("slice(b)", "bitcast(b)")


def test_a_value_above_half_of_the_memory_is_found_at_its_line() -> None:
    text = TEXT.replace("bitcast(b)", 'custom-call(b), custom_call_target="last"')
    (found,) = findings_of(text, "M011")
    assert found.saves.bytes == 64 << 20
    assert (found.severity, found.source_line) == (Severity.INFO, 4)


def test_a_large_argument_has_no_finding() -> None:
    text = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[1024,1024]{1,0} parameter(0)
  ROOT y = f32[1024]{0} custom-call(x), custom_call_target="first"
}
"""
    assert findings_of(text, "M011") == ()


def test_a_program_that_does_not_fit_names_more_contents_as_warnings() -> None:
    (module,) = hlo_lens.load(SAMPLES / "plants" / "gpu" / "scores_clean.tar.xz").modules
    (small,) = dominant_value(module)
    (large,) = dominant_value(module.stating(limit_bytes=64 << 20))
    assert (small.severity, large.severity) == (Severity.INFO, None)
    assert "8 x 4 x 256 x 8,192 elements" in large.evidence[0]
