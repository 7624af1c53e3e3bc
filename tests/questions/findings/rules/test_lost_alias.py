"""M005: donated and carried values that are copied."""

from __future__ import annotations

import pytest

from hlo_lens.questions.findings.finding import Severity
from tests.questions.findings.programs import findings_of, looped, with_lines

STEP = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY main {
  x = f32[1024,1024]{1,0} parameter(0), metadata={op_name="state"}
  c = f32[1024,1024]{1,0} copy(x)
  a = f32[1024,1024]{1,0} negate(c)
  d = f32[1024,1024]{1,0} subtract(a, x)
  ROOT t = (f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) tuple(a, d)
}
"""
BODY = """w = f32[SIZE]{0} copy(v)
  s = f32[8]{0} slice(k), slice={[0:8]}
  d = f32[SIZE]{0} dynamic-update-slice(w, s, i)
  r = f32[SIZE]{0} add(d, v)"""


def test_a_copy_of_a_donated_argument_is_found() -> None:
    (found,) = findings_of(STEP, "M005")
    assert found.message == "donated argument state is copied whole (4.00MiB)"
    assert found.values == ("c",)
    assert found.evidence == ()


def test_a_copy_that_only_the_order_asks_for_has_no_finding() -> None:
    assert findings_of(STEP.replace("subtract(a, x)", "negate(x)"), "M005") == ()


NEEDED = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY main {
  x = f32[1024,1024]{1,0} parameter(0), metadata={op_name="state"}
  c = f32[1024,1024]{1,0} copy(x)
  n = f32[1024,1024]{1,0} dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[1024,1024]{1,0} subtract(n, c)
  v = f32[8,1024]{1,0} slice(s), slice={[0:8], [0:1024]}
  ROOT t = (f32[1024,1024]{1,0}, f32[8,1024]{1,0}) tuple(n, v)
}
"""


def test_a_copy_at_the_peak_that_the_program_needs_is_a_warning() -> None:
    (found,) = findings_of(NEEDED, "M005")
    assert (found.severity, found.saves.bytes) == (Severity.WARNING, 4 << 20)
    assert findings_of(NEEDED.replace("subtract(n, c)", "negate(c)"), "M005") == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", input_output_alias={ {0}: (0, {}, may-alias) }", ""),
        ("c = f32[1024,1024]{1,0} copy", "c = f32[1024,1024]{0,1} copy"),
        ("1024,1024", "128,128"),
    ],
)
def test_other_copies_have_no_finding(old: str, new: str) -> None:
    assert findings_of(STEP.replace(old, new), "M005") == ()


def test_a_carried_value_that_each_iteration_copies_is_found() -> None:
    (found,) = findings_of(looped(BODY, size=1 << 20, trips=4), "M005")
    assert found.message == "element 1 that loop carries is copied whole (4.00MiB)"
    assert found.severity in (Severity.INFO, Severity.WARNING)


def test_a_loop_without_copies_has_no_finding() -> None:
    body = BODY.replace("copy", "negate")
    assert findings_of(looped(body, size=1 << 20, trips=4), "M005") == ()


def test_a_copy_of_which_nothing_is_overwritten_has_no_finding() -> None:
    body = BODY.replace("dynamic-update-slice(w, s, i)", "negate(w)")
    assert findings_of(looped(body, size=1 << 20, trips=4), "M005") == ()


TWO = with_lines("""HloModule m, is_scheduled=true, \
input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }

ENTRY main {
  x = f32[1024,1024]{1,0} parameter(0), metadata={op_name="x"}
  y = f32[1024,1024]{1,0} parameter(1), metadata={op_name="y"}
  c = f32[1024,1024]{1,0} copy(x), @copy:3
  d = f32[1024,1024]{1,0} copy(y), @copy:3
  a = f32[1024,1024]{1,0} negate(c)
  b = f32[1024,1024]{1,0} negate(d)
  e = f32[1024,1024]{1,0} subtract(a, x)
  f = f32[1024,1024]{1,0} subtract(b, y)
  g = f32[1024,1024]{1,0} add(e, f)
  ROOT t = (f32[1024,1024]{1,0}, f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) tuple(a, b, g)
}
""")


def test_copies_of_one_line_are_one_finding() -> None:
    (found,) = findings_of(TWO, "M005")
    assert found.message == ("donated argument x and 1 other value are copied whole (8.00MiB)")
    assert (found.values, found.source_line) == (("c", "d"), 3)
