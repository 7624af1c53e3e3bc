"""Estimates of texts that do not show the order in which XLA assigns values of one size."""

from __future__ import annotations

import re

from hlo_lens.questions.memory.estimate import MemoryEstimate, memory_estimate
from tests.questions.texts import table_of

TEXT = """HloModule jit_f, is_scheduled=true

start_a {
  qa = f32[512]{0} parameter(0)
  ROOT sa = f32[512]{0} sign(qa)
}

start_b {
  qb = f32[512]{0} parameter(0)
  ROOT sb = f32[512]{0} floor(qb)
}

grow_a {
  pa = f32[512]{0} parameter(0)
  ROOT ra = f32[512]{0} exponential(pa)
}

grow_b {
  pb = f32[512]{0} parameter(0)
  ROOT rb = f32[512]{0} negate(pb)
}

body {
  s = (s32[], f32[512]{0}, f32[512]{0}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[512]{0} get-tuple-element(s), index=1
  b = f32[512]{0} get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  na = f32[512]{0} call(a), to_apply=grow_a
  nb = f32[512]{0} call(b), to_apply=grow_b
  ROOT out = (s32[], f32[512]{0}, f32[512]{0}) tuple(next, na, nb)
}

cond {
  c = (s32[], f32[512]{0}, f32[512]{0}) parameter(0)
  k = s32[] get-tuple-element(c), index=0
  five = s32[] constant(5)
  ROOT less = pred[] compare(k, five), direction=LT
}

ENTRY main {
  x = f32[512]{0} parameter(0)
  zero = s32[] constant(0)
  ca = f32[512]{0} call(x), to_apply=start_a
  cb = f32[512]{0} call(x), to_apply=start_b
  init = (s32[], f32[512]{0}, f32[512]{0}) tuple(zero, ca, cb)
  loop = (s32[], f32[512]{0}, f32[512]{0}) while(init), condition=cond, body=body
  ga = f32[512]{0} get-tuple-element(loop), index=1
  gb = f32[512]{0} get-tuple-element(loop), index=2
  ya = f32[512]{0} sine(ga)
  yb = f32[512]{0} cosine(gb)
  ROOT t = (f32[512]{0}, f32[512]{0}) tuple(ya, yb)
}
"""
FROM_ENTRY = re.sub(r"call\(x\), to_apply=start_\w", "copy(x)", TEXT)


def _estimate(text: str) -> MemoryEstimate:
    found = memory_estimate(table_of(text), backend="cpu")
    assert found is not None
    return found


def test_values_of_several_called_computations_have_no_known_order() -> None:
    found = _estimate(TEXT)
    assert found.layout.unordered_bytes == 2 * 2048
    assert not found.range.is_exact
    assert "values of one size in several computations, of unknown order" in found.range.reasons
    assert found.range.temp_bytes is not None
    assert found.range.temp_bytes[1] >= found.temp_bytes + 2 * 2048


def test_values_that_begin_in_the_entry_have_its_order() -> None:
    found = _estimate(FROM_ENTRY)
    assert found.layout.unordered_bytes == 0
    assert "unknown order" not in str(found.range.reasons)
