"""L001: operands of products that are laid out again."""

from __future__ import annotations

import pytest

from tests.questions.findings.programs import findings_of

TEXT = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[1024,1024]{1,0} parameter(0)
  w = f32[1024,1024]{1,0} parameter(1)
  a = f32[1024,1024]{1,0} negate(x), backend_config={"operation_queue_id":"0"}
  t = f32[1024,1024]{1,0} transpose(a), dimensions={1,0}
  ROOT y = f32[1024,1024]{1,0} dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_a_transpose_of_an_operand_is_found() -> None:
    (found,) = findings_of(TEXT, "L001")
    assert found.message == "transpose t of 4.00MiB only lays out an operand of y"
    assert found.values == ("t",)


def test_a_copy_into_another_layout_is_found() -> None:
    copy = "t = f32[1024,1024]{0,1} copy(a)"
    text = TEXT.replace("t = f32[1024,1024]{1,0} transpose(a), dimensions={1,0}", copy)
    (found,) = findings_of(text, "L001")
    assert found.evidence == ("f32[1024,1024]{1,0} becomes f32[1024,1024]{0,1}",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dot(t, w)", "dot(a, w)"),
        ("1024,1024", "128,128"),
        ('"operation_queue_id":"0"', '"outer_dimension_partitions":["2"]'),
        ("transpose(a), dimensions={1,0}", "cosine(a)"),
    ],
)
def test_other_operands_have_no_finding(old: str, new: str) -> None:
    assert findings_of(TEXT.replace(old, new), "L001") == ()
