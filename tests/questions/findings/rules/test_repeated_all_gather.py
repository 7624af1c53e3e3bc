"""C007: values that are gathered more than once."""

from __future__ import annotations

from tests.questions.findings.programs import findings_of, looped

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
    assert found.message == (
        "w is gathered 2 times over axis_0, first by g; gathered once, it takes 256.0KiB meanwhile"
    )
    assert "(x, its PartitionSpec without axis_0)" in found.fix  # other axes stay
    assert found.values == ("h",)
    assert found.saves.sent_bytes == 3 * 256 * 64 * 4


def test_gathers_of_two_values_are_not() -> None:
    assert findings_of(TEXT.replace("OPERAND", "y").replace("PATH", "jit(f)/b"), "C007") == ()


def test_a_second_gather_for_the_gradients_is_not() -> None:
    text = TEXT.replace("OPERAND", "c").replace("PATH", "jit(f)/transpose(jvp(a))/b")
    assert findings_of(text, "C007") == ()


GATHERS = """
  g = f32[1024]{0} all-gather(ONE), channel_id=1, replica_groups={{0,1,2,3}},\
 dimensions={0}, use_global_device_ids=true, metadata={op_name="jit(f)/a"}
  h = f32[1024]{0} all-gather(OTHER), channel_id=2, replica_groups={{0,1,2,3}},\
 dimensions={0}, use_global_device_ids=true, metadata={op_name="jit(f)/b"}
  sum = f32[1024]{0} add(g, h)
  r = f32[256]{0} slice(sum), slice={[0:256]}
"""


def test_gathers_of_two_values_that_a_loop_carries_are_not() -> None:
    text = looped(GATHERS.replace("ONE", "v").replace("OTHER", "k"), size=256, trips=4)
    assert findings_of(text, "C007") == ()


def test_two_gathers_of_a_value_that_a_loop_carries_are_found() -> None:
    text = looped(GATHERS.replace("ONE", "k").replace("OTHER", "k"), size=256, trips=4)
    (found,) = findings_of(text, "C007")
    assert found.message.startswith("t#2 is gathered 2 times over axis_0, first by g;")
