"""Tests of rules about what fills the memory at the peak."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.load.fact import plant
from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rules.memory import dominant_value, fragmented_heap
from hlo_lens.questions.memory.results import memory_results
from tests.corpus import SAMPLES
from tests.questions.findings.programs import analysis_of_text, findings_of, with_lines

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump


# ---- M011: one value above half of the memory ----------------------------------------------------


DOMINANT_TEXT = with_lines("""HloModule m, is_scheduled=true

ENTRY main {
  x = f32[64,64]{1,0} parameter(0)
  a = f32[64,64,4096]{2,1,0} broadcast(x), dimensions={0,1}, @mul:4
  b = f32[64,64,4096]{2,1,0} cosine(a), @cos:5
  ROOT y = f32[64,64]{1,0} slice(b), @slice:6
}
""").replace("slice(b)", "bitcast(b)")


def test_a_value_above_half_of_the_memory_is_found_at_its_line() -> None:
    text = DOMINANT_TEXT.replace("bitcast(b)", 'custom-call(b), custom_call_target="last"')
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


# ---- M007: saved activations of a loop -----------------------------------------------------------


STEP = with_lines(
    """HloModule jit_step, is_scheduled=true

b {
  t = (s32[], f32[64]{0}, f32[8,64]{1,0}, f32[8,64]{1,0}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[64]{0} get-tuple-element(t), index=1
  a = f32[8,64]{1,0} get-tuple-element(t), index=2
  b = f32[8,64]{1,0} get-tuple-element(t), index=3
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  s = f32[64]{0} sine(x), @jvp()/while/body/sin:11
  c = f32[64]{0} cosine(x), @jvp()/while/body/cos:12
  sr = f32[1,64]{1,0} reshape(s), @jvp()/while/body/sin:11
  cr = f32[1,64]{1,0} reshape(c), @jvp()/while/body/cos:12
  a2 = f32[8,64]{1,0} dynamic-update-slice(a, sr, i, zero), @jvp()/while/body/dus:20
  b2 = f32[8,64]{1,0} dynamic-update-slice(b, cr, i, zero), @jvp()/while/body/dus:20
  y = f32[64]{0} add(s, c), @jvp()/while/body/add:13
  ROOT n = (s32[], f32[64]{0}, f32[8,64]{1,0}, f32[8,64]{1,0}) tuple(next, y, a2, b2)
}

c {
  t = (s32[], f32[64]{0}, f32[8,64]{1,0}, f32[8,64]{1,0}) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  end = s32[] constant(8)
  ROOT go = pred[] compare(i, end), direction=LT
}

add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY main {
  x = f32[64]{0} parameter(0), metadata={op_name="x"}
  zero = s32[] constant(0)
  f = f32[] constant(0)
  a = f32[8,64]{1,0} broadcast(f), dimensions={}
  b = f32[8,64]{1,0} broadcast(f), dimensions={}
  start = (s32[], f32[64]{0}, f32[8,64]{1,0}, f32[8,64]{1,0}) tuple(zero, x, a, b)
  loop = (s32[], f32[64], f32[8,64], f32[8,64]) while(start), condition=c, body=b, @jvp()/while:20
  o = f32[64]{0} get-tuple-element(loop), index=1
  sa = f32[8,64]{1,0} get-tuple-element(loop), index=2
  sb = f32[8,64]{1,0} get-tuple-element(loop), index=3
  m = f32[8,64]{1,0} multiply(sa, sb), @transpose(jvp())/while/body/mul:11
  g = f32[64]{0} reduce(m, f), dimensions={0}, to_apply=add, @transpose(jvp())/while/body/add:11
  ROOT r = (f32[64]{0}, f32[64]{0}) tuple(o, g)
}
"""
)


def test_stacks_of_the_forward_pass_are_one_finding_at_the_line_of_the_loop() -> None:
    (found,) = findings_of(STEP, "M007")
    assert (found.source_file, found.source_line) == ("m.py", 20)
    assert found.saves.bytes == 8 * 64 * 4  # the inputs of iterations stay
    assert found.values == ("loop{2}", "loop{3}")
    assert found.evidence[0] == "m.py:11: 2.0KiB in 1 stack, loop{2} is f32[8,64]"
    assert (
        "2 stacks are saved for the backward pass of a loop of 8 iterations: 4.0KiB"
        in found.message
    )


def test_the_stack_of_the_inputs_of_iterations_alone_has_no_finding() -> None:
    saved = STEP.replace("multiply(sa, sb)", "multiply(sa, sa)")
    assert findings_of(saved, "M007") == ()


def test_stacks_that_the_program_returns_have_no_finding() -> None:
    assert findings_of(STEP.replace("transpose(jvp())", "jvp()"), "M007") == ()


# ---- M009: host memory that is asked for and not used --------------------------------------------


BEFORE = with_lines("""HloModule m

ENTRY main {
  x = f32[1024]{0} parameter(0)
  a = f32[1024]{0} negate(x), @neg:4
  PLACED
  ROOT y = f32[1024]{0} cosine(h), @cos:6
}
""")
PLACED = with_lines("""h = f32[1024]{0} custom-call(a),
  custom_call_target="annotate_device_placement",
  frontend_attributes={_xla_buffer_placement="pinned_host"}, @device_put:5""")
AFTER = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[1024]{0:T(1024)} parameter(0)
  ROOT y = f32[1024]{0:T(1024)} cosine(x), backend_config={"device_type":"DEVICE_TYPE_HOST"}
}
"""
"""A text of a GPU by its backend_config."""


def test_a_placement_that_is_lost_is_found_at_its_line() -> None:
    (found,) = findings_of(AFTER, "M009", BEFORE.replace("PLACED", PLACED))
    assert found.message == (
        "1 value placed in host memory before optimizations, none in the compiled program"
    )
    assert (found.values, found.source_line) == (("h",), 5)


def test_host_memory_that_is_used_has_no_finding() -> None:
    text = AFTER.replace("x = f32[1024]{0:T(1024)}", "x = f32[1024]{0:T(1024)S(5)}")
    assert findings_of(text, "M009", BEFORE.replace("PLACED", PLACED)) == ()


# ---- M008: large constants -----------------------------------------------------------------------


CONSTANT_TEXT = with_lines("""HloModule m, is_scheduled=true

ENTRY main {
  x = f32[1024,1024]{1,0} parameter(0)
  c = f32[1024,1024]{1,0} constant({...}), @mul:4
  ROOT y = f32[1024,1024]{1,0} multiply(x, c), @mul:4
}
""")


def test_a_constant_that_the_program_has_before_is_an_info() -> None:
    (found,) = findings_of(CONSTANT_TEXT, "M008", CONSTANT_TEXT)
    assert found.message == "constant f32[1024,1024] of 4.00MiB"
    assert found.fix.startswith("pass the array as an argument")
    assert (found.severity, found.saves.bytes, found.source_line) == (Severity.INFO, None, 4)


def test_a_constant_that_xla_folded_can_be_saved() -> None:
    before = CONSTANT_TEXT.replace("constant({...})", "negate(x)")
    (found,) = findings_of(CONSTANT_TEXT, "M008", before)
    assert "which XLA computed at compile time" in found.message
    assert (found.severity, found.saves.bytes) == (Severity.WARNING, 4 << 20)


# ---- M012: memory between the values of the heap -------------------------------------------------


HEAP_TEXT = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[1048576]{0} parameter(0)
  a = f32[1048576]{0} negate(x)
  ROOT y = f32[1048576]{0} cosine(a)
}
"""


def _known(lost: int, limit: int | None = None) -> ModuleDump:
    """Return a program whose heap has some free bytes at the peak."""
    known = analysis_of_text(HEAP_TEXT)
    memory = memory_results(known)
    assert memory is not None
    spaces = tuple(replace(one, fragmentation_bytes=lost) for one in memory.statement.spaces)
    statement = replace(memory.statement, spaces=spaces, is_exact=True, limit_bytes=limit)
    plant(known, memory_results, replace(memory, statement=statement))
    return known


def test_a_program_that_fits_with_room_has_no_finding() -> None:
    assert not [*fragmented_heap(_known(64 << 20, limit=16 << 30))]
    assert [*fragmented_heap(_known(64 << 20, limit=9 << 20))]


@pytest.mark.parametrize(("lost", "severity"), [(2 << 20, Severity.INFO), (64 << 20, None)])
def test_free_bytes_at_the_peak_are_found(lost: int, severity: Severity | None) -> None:
    (found,) = fragmented_heap(_known(lost))
    assert (found.saves.bytes, found.severity) == (lost, severity)


def test_less_than_a_quarter_of_the_memory_is_an_info() -> None:
    known = _known(64 << 20)
    memory = memory_results(known)
    assert memory is not None
    statement = replace(memory.statement, total_bytes=512 << 20)
    plant(known, memory_results, replace(memory, statement=statement))
    assert [one.severity for one in fragmented_heap(known)] == [Severity.INFO]
