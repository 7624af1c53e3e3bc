"""Producers and consumers of values, through tuples, fusions, calls and loops."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.program.neighbours import Neighbourhood

TEXT = """HloModule m

passed {
  p = f32[8] parameter(0)
  ROOT c = bf16[8] convert(p)
}

product {
  p = f32[8] parameter(0)
  q = f32[8] parameter(1)
  ROOT d = f32[] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}

body {
  s = (f32[8], s32[]) parameter(0)
  w = f32[8] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  g = f32[8] all-gather(w), dimensions={0}
  k = f32[] fusion(g, w), kind=kOutput, calls=product
  ROOT t = (f32[8], s32[]) tuple(w, i)
}

cond {
  s = (f32[8], s32[]) parameter(0)
  ROOT b = pred[] constant(true)
}

ENTRY main {
  x = f32[8] parameter(0)
  e = f32[8] exponential(x)
  f = bf16[8] fusion(e), kind=kLoop, calls=passed
  n = s32[] constant(0)
  a = f32[8] all-reduce(e), to_apply=passed
  init = (f32[8], s32[]) tuple(a, n)
  l = (f32[8], s32[]) while(init), condition=cond, body=body
  ROOT r = f32[8] get-tuple-element(l), index=0
}
"""


@pytest.fixture(name="module", scope="module")
def _module() -> hlo_lens.HloModule:
    return hlo_lens.parse_hlo(TEXT)


def test_producer_is_found_through_a_loop_that_carries_it(module: hlo_lens.HloModule) -> None:
    body = module.computation("body")
    assert body is not None
    gather = body.instruction("g")
    assert gather is not None
    (found,) = Neighbourhood(module).producers(gather)
    assert (found.instruction.name, found.loops) == ("a", ("l",))


def test_consumers_are_products_in_fusions_and_results(module: hlo_lens.HloModule) -> None:
    body = module.computation("body")
    assert body is not None
    gather = body.instruction("g")
    assert gather is not None
    found = Neighbourhood(module).consumers(gather)
    assert [(near.instruction.name, near.position) for near in found] == [("d", 0)]


def test_fusions_that_only_convert_are_skipped(module: hlo_lens.HloModule) -> None:
    fusion = module.entry.instruction("f")
    assert fusion is not None
    (found,) = Neighbourhood(module).producers(fusion)
    assert found.instruction.name == "e"


def test_value_that_a_loop_returns_has_its_consumers_inside(module: hlo_lens.HloModule) -> None:
    reduced = module.entry.instruction("a")
    assert reduced is not None
    found = Neighbourhood(module).consumers(reduced)
    names = [(near.instruction.name, near.position) for near in found]
    assert names == [("g", 0), ("d", 1), ("r", None)]
    assert found[0].loops == ("l",)
