"""Tests of rules about collectives that send more than the program needs."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.questions.findings.finding import SavingBasis, Severity
from hlo_lens.questions.findings.rules.repeated_collectives import gathered_experts
from tests.corpus import SAMPLES
from tests.questions.findings.programs import findings_of, looped

# ---- C007: values that are gathered more than once -----------------------------------------------


REPEATED_TEXT = """HloModule m, is_scheduled=true, num_partitions=4

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
    (found,) = findings_of(
        REPEATED_TEXT.replace("OPERAND", "c").replace("PATH", "jit(f)/b"), "C007"
    )
    assert found.message == (
        "one value is gathered 2 times over axis_0, first by g; "
        "gathered once, it takes 256.0KiB meanwhile"
    )
    assert "(x, its PartitionSpec without axis_0)" in found.fix  # other axes stay
    assert found.values == ("h",)
    assert found.saves.sent_bytes == 3 * 256 * 64 * 4


def test_gathers_of_two_values_are_not() -> None:
    assert (
        findings_of(REPEATED_TEXT.replace("OPERAND", "y").replace("PATH", "jit(f)/b"), "C007") == ()
    )


def test_a_second_gather_for_the_gradients_is_not() -> None:
    text = REPEATED_TEXT.replace("OPERAND", "c").replace("PATH", "jit(f)/transpose(jvp(a))/b")
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
    assert found.message.startswith("one value is gathered 2 times over axis_0, first by g;")


# ---- C005: values that are gathered and cut again ------------------------------------------------


SLICED_TEXT = """HloModule m, is_scheduled=true, num_partitions=4

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
    (found,) = findings_of(SLICED_TEXT.replace("USE", SLICE).replace("copy(", f"{view}("), "C005")
    assert found.message == (
        "2 all-gathers: up to 16.0KiB whole on every device (involuntary full rematerialization), "
        "then cut into each device's part"
    )
    assert found.values == ("g", "h")
    assert found.saves.sent_bytes == 4096 + 8192


def test_a_gathered_value_that_is_used_whole_is_not() -> None:
    text = SLICED_TEXT.replace("f32[1024,1]{1,0} USE", "f32[1024,4]{1,0} negate(h)")
    assert findings_of(text, "C005") == ()


# ---- C018: weights of experts that are gathered --------------------------------------------------


@pytest.mark.parametrize("backend", ["cpu", "tpu", "gpu"])
def test_tokens_are_to_be_divided_by_experts(backend: str) -> None:
    (module,) = hlo_lens.load(SAMPLES / "plants" / backend / "experts.tar.xz").modules
    (found,) = gathered_experts(module)
    assert found.message.startswith("params['down'], params['up']: the weights of all experts are")
    (change,) = found.changes
    spec = "P('model', 'data', None, None)"
    assert change.target == f"add wastes.py:{found.source_line}={spec}"


# ---- C004: all-reduces of which each device uses its own part ------------------------------------


REDUCED_TEXT = """HloModule m, is_scheduled=true, num_partitions=4,\
 frontend_attributes={fingerprint_before_lhs="a"}

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

cut {
  p = f32[4096]{0} parameter(0)
  n = s32[] parameter(1)
  ROOT d = f32[1024]{0} dynamic-slice(p, n), dynamic_slice_sizes={1024}
}

ENTRY main {
  x = f32[4096]{0} parameter(0)
  place = s32[] parameter(1)
  id = u32[] partition-id()
  i = s32[] convert(id)
  size = s32[] constant(1024)
  at = s32[] multiply(i, size)
  r = f32[4096]{0} all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}},\
 use_global_device_ids=true, to_apply=add
  ROOT f = f32[1024]{0} fusion(r, OFFSET), kind=kLoop, calls=cut
}
"""


def test_a_reduction_that_is_cut_to_the_own_part_is_found() -> None:
    (found,) = findings_of(REDUCED_TEXT.replace("OFFSET", "at"), "C004")
    assert (
        found.message == "all-reduce over axis_0: each device uses only its own part of the result"
    )
    assert found.saves.sent_bytes == 2 * 3 * 4096 * 4 // 4 // 2
    assert found.severity is not Severity.INFO


@pytest.mark.parametrize("offset", ["place"])
def test_a_slice_at_the_same_offset_on_all_devices_is_not(offset: str) -> None:
    assert findings_of(REDUCED_TEXT.replace("OFFSET", offset), "C004") == ()


def test_a_result_that_is_used_whole_too_is_not() -> None:
    text = (
        REDUCED_TEXT.replace("OFFSET", "at")
        .replace("ROOT f", "f")
        .replace("calls=cut\n", "calls=cut\n  ROOT t = (f32[1024]{0}, f32[4096]{0}) tuple(f, r)\n")
    )
    assert findings_of(text, "C004") == ()


CONVERTED = """cut {
  p = f32[4096]{0} parameter(0)
  n = s32[] parameter(1)
  h = bf16[4096]{0} convert(p)
  USED
  ROOT d = bf16[1024]{0} dynamic-slice(h, n), dynamic_slice_sizes={1024}
}"""


@pytest.mark.parametrize(("used", "count"), [("", 1), ("w = bf16[4096]{0} negate(h)", 0)])
def test_a_part_of_a_converted_result_is_a_part_of_the_result(used: str, count: int) -> None:
    start, end = REDUCED_TEXT.index("cut {"), REDUCED_TEXT.index("ENTRY")
    text = f"{REDUCED_TEXT[:start]}{CONVERTED.replace('USED', used)}\n\n{REDUCED_TEXT[end:]}"
    text = text.replace("ROOT f = f32[1024]", "ROOT f = bf16[1024]").replace("OFFSET", "at")
    assert len(findings_of(text, "C004")) == count


ASKED = """HloModule m, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[SIZE]{0} parameter(0)
  ROOT r = f32[1024]{0} reduce-scatter(x), channel_id=1, replica_groups={{0,1,2,3}},\
 use_global_device_ids=true, dimensions={0}, to_apply=add
}
"""


@pytest.mark.parametrize(("size", "count"), [(4096, 0), (8192, 1)])
def test_a_reduce_scatter_that_xla_performs_so_is_not(size: int, count: int) -> None:
    before = ASKED.replace("SIZE", str(size))
    assert len(findings_of(REDUCED_TEXT.replace("OFFSET", "at"), "C004", before)) == count


# ---- C003: collectives in loops that compute the same in each trip -------------------------------


BODY = """
  g = f32[SIZE]{0} negate(OPERAND)
  r = f32[SIZE]{0} all-reduce(g), channel_id=1, replica_groups={{0,1},{2,3}},\
 use_global_device_ids=true, to_apply=add
"""


def test_a_collective_of_a_value_that_the_loop_carries_unchanged_is_found() -> None:
    (found,) = findings_of(looped(BODY.replace("OPERAND", "k"), size=1 << 16, trips=4), "C003")
    assert (
        found.message
        == "all-reduce over axis_1 in the loop loop: the same operands in each of 4 trips"
    )
    assert found.saves.sent_bytes == 3 * 4 * (1 << 16)
    assert found.saves.basis is SavingBasis.UP_TO


def test_a_collective_of_a_value_that_each_trip_changes_is_not() -> None:
    assert findings_of(looped(BODY.replace("OPERAND", "v"), size=1 << 16, trips=4), "C003") == ()


def test_a_single_trip_is_not() -> None:
    assert findings_of(looped(BODY.replace("OPERAND", "k"), size=1 << 16, trips=1), "C003") == ()


def test_constants_that_the_partitioner_sends_are_not() -> None:
    zeros = """
  zero = f32[] constant(0)
  zeros = f32[SIZE]{0} broadcast(zero), dimensions={}
"""
    body = zeros + BODY.replace("OPERAND", "zeros")
    assert findings_of(looped(body, size=1 << 16, trips=4), "C003") == ()


# ---- C015: all-reduces that a loop only adds up; planted ones are in `test_planted_wastes` -------


def test_what_other_compilers_move_out_of_the_loop_is_an_info_on_cpu() -> None:
    (found,) = hlo_lens.lint(SAMPLES / "plants" / "cpu" / "logits_clean.tar.xz", select=["C015"])
    assert "all-reduce over data,model in each of 16 trips" in found.message
    assert found.severity is Severity.INFO
    assert "what-if --target" in found.evidence[-1]


def test_sums_that_the_loop_reads_are_none() -> None:
    """The activations of a layer are added to those of the one before, which it reads."""
    for backend in ("cpu", "tpu", "gpu"):
        found = hlo_lens.lint(SAMPLES / backend / "tp_mlp", select=["C015"])
        assert list(found) == []
