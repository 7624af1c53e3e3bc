"""M007: saved activations of a loop."""

from __future__ import annotations

from tests.questions.findings.programs import findings_of, with_lines

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
