"""C010: collectives of f32 values between conversions."""

from __future__ import annotations

import pytest

from tests.questions.findings.programs import findings_of

TEXT = """HloModule m, is_scheduled=true, num_partitions=4,\
 frontend_attributes={fingerprint_before_lhs="a"}

ENTRY main {
  x = TYPE[1024]{0} parameter(0)
  w = f32[1024]{0} CONVERT(x)
  g = f32[4096]{0} all-gather(w), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0},\
 use_global_device_ids=true, backend_config={"operation_queue_id":"0"}
  ROOT c = USE
}
"""
NARROW = "bf16[4096]{0} convert(g)"


def test_a_gather_between_conversions_is_found() -> None:
    text = TEXT.replace("TYPE", "bf16").replace("CONVERT", "convert").replace("USE", NARROW)
    (found,) = findings_of(text, "C010")
    assert found.message == (
        "all-gather over axis_0 moves f32, converted from 16 bits before and to 16 bits after"
    )
    assert found.saves.sent_bytes == 3 * 1024 * 4 // 2


@pytest.mark.parametrize(
    ("type_", "opcode", "use"),
    [("f32", "negate", NARROW), ("bf16", "convert", "f32[4096]{0} negate(g)")],
)
def test_a_value_that_is_f32_before_or_after_is_not(type_: str, opcode: str, use: str) -> None:
    text = TEXT.replace("TYPE", type_).replace("CONVERT", opcode).replace("USE", use)
    assert findings_of(text, "C010") == ()


def test_a_program_of_cpu_or_of_an_unknown_backend_is_not_judged() -> None:
    text = TEXT.replace("TYPE", "bf16").replace("CONVERT", "convert").replace("USE", NARROW)
    assert findings_of(text.replace("operation_queue_id", "other"), "C010") == ()
