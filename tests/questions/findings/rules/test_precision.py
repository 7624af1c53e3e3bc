"""Tests of rules about element types."""

from __future__ import annotations

import re

import pytest

from hlo_lens.questions.findings.finding import SavingBasis, Severity
from tests.questions.findings.programs import findings_of, with_lines

# ---- M006: values of 16 bits converted to f32 ----------------------------------------------------


BEFORE = with_lines("""HloModule jit_step

ENTRY main {
  x = bf16[256,256]{1,0} parameter(0)
  w = bf16[256,256]{1,0} parameter(1)
  xf = f32[256,256]{1,0} convert(x), @jvp()/convert_element_type:8
  h = f32[256,256]{1,0} tanh(xf), @jvp()/tanh:9
  wf = f32[256,256]{1,0} convert(w), @jvp()/convert_element_type:10
  d = f32[256,256]{1,0} dot(h, wf), lhs_contracting_dims={1}, rhs_contracting_dims={0}, @dot:11
  ROOT y = bf16[256,256]{1,0} convert(d), @jvp()/convert_element_type:12
}
""")

AFTER = with_lines("""HloModule jit_step, is_scheduled=true

ENTRY main {
  x = bf16[256,256]{1,0} parameter(0)
  w = bf16[256,256]{1,0} parameter(1)
  h = f32[256,256]{1,0} tanh(x), @jvp()/tanh:9
  d = f32[256,256]{1,0} dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, @dot:11
  ROOT y = bf16[256,256]{1,0} convert(d), @jvp()/convert_element_type:12
}
""")

_BLOCK = """HloModule jit_step

block {
  a = bf16[256,256]{1,0} parameter(0)
  k = bf16[256,256]{1,0} parameter(1)
  FORWARD
}

block_2 {
  g = bf16[256,256]{1,0} parameter(0)
  k = bf16[256,256]{1,0} parameter(1)
  gf = f32[256,256]{1,0} convert(g), metadata={op_name="checkpoint/convert_element_type" \
source_file="m.py" source_line=14}
  kf = f32[256,256]{1,0} convert(k), metadata={op_name="checkpoint/dot_general" \
source_file="m.py" source_line=14}
  b = f32[256,256]{1,0} dot(gf, kf), lhs_contracting_dims={1}, rhs_contracting_dims={1}, \
metadata={op_name="checkpoint/dot_general" source_file="m.py" source_line=13}
  ROOT n = bf16[256,256]{1,0} convert(b), metadata={op_name="checkpoint/convert_element_type" \
source_file="m.py" source_line=13}
}

LOOP

ENTRY main {
  x = bf16[256,256]{1,0} parameter(0)
  w = bf16[256,256]{1,0} parameter(1)
  zero = s32[] constant(0)
  t1 = (s32[], bf16[256,256]{1,0}, bf16[256,256]{1,0}) tuple(zero, x, w)
  l1 = (s32[], bf16[256,256]{1,0}, bf16[256,256]{1,0}) while(t1), condition=cond, body=body, \
@jvp()/while:20
  y = bf16[256,256]{1,0} get-tuple-element(l1), index=1, @jvp()/while:20
  t2 = (s32[], bf16[256,256]{1,0}, bf16[256,256]{1,0}) tuple(zero, y, w)
  l2 = (s32[], bf16[256,256]{1,0}, bf16[256,256]{1,0}) while(t2), condition=cond_2, \
body=body_2, @transpose(jvp())/while:20
  ROOT z = bf16[256,256]{1,0} get-tuple-element(l2), index=1, @transpose(jvp())/while:20
}
"""

_LOOP = """body {
  t = (s32[], bf16[256,256]{1,0}, bf16[256,256]{1,0}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  v = bf16[256,256]{1,0} get-tuple-element(t), index=1
  k = bf16[256,256]{1,0} get-tuple-element(t), index=2
  c = bf16[256,256]{1,0} call(v, k), to_apply=block, @jvp()/while/body/closed_call:20
  ROOT n = (s32[], bf16[256,256]{1,0}, bf16[256,256]{1,0}) tuple(next, c, k)
}

cond {
  t = (s32[], bf16[256,256]{1,0}, bf16[256,256]{1,0}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  end = s32[] constant(6)
  ROOT c = pred[] compare(i, end), direction=LT
}
"""

_CLEAN = """d = f32[256,256]{1,0} dot(a, k), lhs_contracting_dims={1}, \
rhs_contracting_dims={0}, metadata={op_name="dot_general" source_file="m.py" source_line=13}
  ROOT n = bf16[256,256]{1,0} convert(d), metadata={op_name="convert_element_type" \
source_file="m.py" source_line=14}"""

_FAULT = """af = f32[256,256]{1,0} convert(a), metadata={op_name="convert_element_type" \
source_file="m.py" source_line=9}
  u = f32[256,256]{1,0} tanh(af), metadata={op_name="tanh" source_file="m.py" source_line=9}
""" + _CLEAN.replace("d = ", "  d = ", 1).replace("dot(a, k)", "dot(u, k)")


def _scanned(forward: str) -> str:
    """Return a scan and its transpose, whose called computations have relative paths."""
    backward = _LOOP.replace("block", "block_2").replace("jvp()", "transpose(jvp())")
    backward = backward.replace("body {", "body_2 {").replace("cond {", "cond_2 {")
    text = _BLOCK.replace("FORWARD", forward).replace("LOOP", f"{_LOOP}\n{backward}")
    return with_lines(text)


def test_values_in_f32_because_of_a_conversion_are_found_at_its_line() -> None:
    (found,) = findings_of(AFTER, "M006", BEFORE)
    assert (found.source_file, found.source_line) == ("m.py", 8)
    assert found.values == ("d{}", "h{}")
    assert (found.saves.bytes, found.saves.basis) == (2 * 256 * 256 * 4, SavingBasis.UP_TO)
    assert found.severity is Severity.WARNING
    assert "reach 1 product: 512.0KiB of f32" in found.message


def test_conversion_back_before_the_product_has_no_finding() -> None:
    before = BEFORE.replace("dot(h, wf)", "dot(x, w)")
    assert findings_of(AFTER, "M006", before) == ()


def test_a_rule_without_the_text_before_is_undecided_where_16_bits_are_used() -> None:
    assert findings_of(AFTER, "M006", is_decided=False) == ()
    assert findings_of(AFTER.replace("bf16[", "f32["), "M006") == ()


def test_a_small_product_in_f32_is_no_warning() -> None:
    lines = """
  v = bf16[256,16384]{1,0} parameter(2)
  z = bf16[256,16384]{1,0} dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, @dot:13
  d ="""
    (found,) = findings_of(AFTER, "M006", BEFORE.replace("\n  d =", with_lines(lines)))
    assert found.severity is Severity.INFO


def test_the_backward_pass_of_a_scan_has_no_finding() -> None:
    assert findings_of(AFTER, "M006", _scanned(_CLEAN)) == ()


STACKED = AFTER.replace("jit(step)/jvp()/tanh", "jit(step)/while/body/add").replace("=9", "=13")


def test_what_products_in_f32_make_is_at_the_peak_too() -> None:
    (found,) = findings_of(STACKED, "M006", _scanned(_FAULT))
    assert (found.source_line, found.values) == (9, ("h{}",))
    assert found.severity is Severity.WARNING


def test_products_in_f32_without_values_at_the_peak_are_found() -> None:
    elsewhere = re.sub(r"source_line=\d+", "source_line=30", AFTER)
    (found,) = findings_of(elsewhere, "M006", BEFORE)
    assert (found.source_line, found.saves.bytes, found.severity) == (8, None, Severity.WARNING)
    assert found.message.endswith("reach 1 product with 100% of the FLOP of the forward pass")


def test_products_of_an_unknown_pass_are_no_warning() -> None:
    names = r'op_name="jit\(step\)/(transpose\()?jvp\(\)+/while[^"]*"'
    before = re.sub(names, "", _scanned(_FAULT))
    last = 'op_name="checkpoint/convert_element_type" source_file="m.py" source_line=13'
    before = before.replace(last, last.replace("checkpoint", "transpose(jvp())"))
    found = findings_of(STACKED, "M006", before)
    assert [(one.source_line, one.severity) for one in found] == [
        (9, Severity.INFO),
        (14, Severity.INFO),
    ]
    assert "products that may be of the forward pass" in found[-1].message


# ---- C010: collectives of f32 values between conversions -----------------------------------------


WIDE_TEXT = """HloModule m, is_scheduled=true, num_partitions=4,\
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
    text = WIDE_TEXT.replace("TYPE", "bf16").replace("CONVERT", "convert").replace("USE", NARROW)
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
    text = WIDE_TEXT.replace("TYPE", type_).replace("CONVERT", opcode).replace("USE", use)
    assert findings_of(text, "C010") == ()


def test_a_program_of_cpu_or_of_an_unknown_backend_is_not_judged() -> None:
    text = WIDE_TEXT.replace("TYPE", "bf16").replace("CONVERT", "convert").replace("USE", NARROW)
    assert findings_of(text.replace("operation_queue_id", "other"), "C010") == ()


# ---- C009: sums of 16 bits whose result is converted at once -------------------------------------


LOW_TEXT = """HloModule m, is_scheduled=true, num_partitions=4

add {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] add(a, b)
}

ENTRY main {
  x = bf16[4096]{0} parameter(0)
  r = bf16[4096]{0} all-reduce(x), channel_id=1, replica_groups={{0,1,2,3}},\
 use_global_device_ids=true, to_apply=add
  ROOT c = USE
}
"""


def test_a_sum_that_is_converted_to_f32_is_found() -> None:
    (found,) = findings_of(LOW_TEXT.replace("USE", "f32[4096]{0} convert(r)"), "C009")
    assert found.message == (
        "all-reduce over axis_0 adds bf16 values, converted to f32 at once: sums in f32 are more "
        "precise and send 12.0KiB more"
    )


def test_a_sum_that_stays_bf16_is_not() -> None:
    assert findings_of(LOW_TEXT.replace("USE", "bf16[4096]{0} negate(r)"), "C009") == ()


COMBINED = """HloModule m, is_scheduled=true, num_partitions=4

add {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = bf16[] add(a, b)
}

ENTRY main {
  x = bf16[4096]{0} parameter(0)
  y = bf16[64]{0} parameter(1)
  r = (bf16[4096]{0}, bf16[64]{0}) all-reduce(x, y), channel_id=1, replica_groups={{0,1,2,3}},\
 use_global_device_ids=true, to_apply=add
  p = bf16[4096]{0} get-tuple-element(r), index=0
  q = bf16[64]{0} get-tuple-element(r), index=1
  c = f32[4096]{0} convert(p)
  d = USE
  ROOT t = (f32[4096]{0}, f32[64]{0}) tuple(c, d)
}
"""


def test_all_sums_that_xla_combined_must_be_converted() -> None:
    assert len(findings_of(COMBINED.replace("USE", "f32[64]{0} convert(q)"), "C009")) == 1
    kept = COMBINED.replace("USE", "bf16[64]{0} negate(q)").replace("0}, f32[64]", "0}, bf16[64]")
    assert findings_of(kept, "C009") == ()
