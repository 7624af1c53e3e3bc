"""C007: values that are gathered more than once."""

from __future__ import annotations

from tests.analysis.findings.programs import findings_of

TEXT = """HloModule m, is_scheduled=true, num_partitions=4

ENTRY main {
  x = f32[256,64]{1,0} parameter(0), metadata={op_name="w"}
  y = f32[256,64]{1,0} parameter(1)
  c = f32[256,64]{1,0} copy(x)
  g = f32[1024,64]{1,0} all-gather(x), channel_id=1, replica_groups={{0,1,2,3}},\
 dimensions={0}, use_global_device_ids=true, metadata={op_name="jit(f)/a"}
  h = f32[1024,64]{1,0} all-gather(OPERAND), channel_id=2, replica_groups={{0,1,2,3}},\
 dimensions={0}, use_global_device_ids=true, metadata={op_name="PATH"}
  ROOT t = (f32[1024,64]{1,0}, f32[1024,64]{1,0}) tuple(g, h)
}
"""


def test_two_gathers_of_one_value_are_found_through_a_copy() -> None:
    (found,) = findings_of(TEXT.replace("OPERAND", "c").replace("PATH", "jit(f)/b"), "C007")
    assert found.message == "w is gathered 2 times over axis_0, first by g"
    assert found.values == ("h",)
    assert found.saves.wire_bytes == 3 * 256 * 64 * 4


def test_gathers_of_two_values_are_not() -> None:
    assert findings_of(TEXT.replace("OPERAND", "y").replace("PATH", "jit(f)/b"), "C007") == ()


def test_a_second_gather_for_the_gradients_is_not() -> None:
    text = TEXT.replace("OPERAND", "c").replace("PATH", "jit(f)/transpose(jvp(a))/b")
    assert findings_of(text, "C007") == ()
