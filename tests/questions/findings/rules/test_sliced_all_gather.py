"""C005: values that are gathered and cut again."""

from __future__ import annotations

import pytest

from tests.questions.findings.programs import findings_of

TEXT = """HloModule m, is_scheduled=true, num_partitions=4

ENTRY main {
  x = f32[256,4]{1,0} parameter(0)
  id = u32[] partition-id()
  i = s32[] convert(id)
  zero = s32[] constant(0)
  g = f32[512,4]{1,0} all-gather(x), channel_id=1, replica_groups={{0,1},{2,3}},\
 dimensions={0}, use_global_device_ids=true
  c = f32[512,4]{1,0} copy(g)
  h = f32[1024,4]{1,0} all-gather(c), channel_id=2, replica_groups={{0,2},{1,3}},\
 dimensions={0}, use_global_device_ids=true
  ROOT d = f32[1024,1]{1,0} USE
}
"""
SLICE = "dynamic-slice(h, zero, i), dynamic_slice_sizes={1024,1}"


@pytest.mark.parametrize("view", ["copy", "opt-barrier", "reshape"])
def test_a_chain_of_gathers_that_is_cut_again_is_one_finding(view: str) -> None:
    (found,) = findings_of(TEXT.replace("USE", SLICE).replace("copy(", f"{view}("), "C005")
    assert found.message == (
        "2 all-gathers: up to 16.0KiB whole on every device (involuntary full rematerialization), "
        "then cut into each device's part"
    )
    assert found.values == ("g", "h")
    assert found.saves.sent_bytes == 4096 + 8192


def test_a_gathered_value_that_is_used_whole_is_not() -> None:
    text = TEXT.replace("f32[1024,1]{1,0} USE", "f32[1024,4]{1,0} negate(h)")
    assert findings_of(text, "C005") == ()
