"""Temporaries that dividing a result may add."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.program.origins import Origins
from hlo_lens.questions.sharding.savings import result_growth
from tests.questions.findings.programs import with_lines

TEXT = """HloModule jit_f, is_scheduled=true, num_partitions=8

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

doubled {
  p = f32[64,64]{1,0} parameter(0)
  ROOT d = f32[64,64]{1,0} add(p, p), metadata={op_name="jit(f)/add"}
}

ENTRY main {
  x = f32[64,64]{1,0} parameter(0), metadata={op_name="x"}
  w = f32[64,64]{1,0} parameter(1), metadata={op_name="w"}
  y = f32[64,64]{1,0} exponential(x), metadata={op_name="jit(f)/exp"}
  h = f32[64,64]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, @dot_general:3
  MADE
  z = f32[64,64]{1,0} add(y, y), metadata={op_name="jit(f)/add"}
  u = f32[64,64]{1,0} negate(OTHER)
  c = f32[64,64]{1,0} copy(v)
  ROOT t = (f32[64,64]{1,0}, f32[64,64]{1,0}, f32[64,64]{1,0}) tuple(c, x, z)
}
"""
FUSED = 'v = f32[64,64]{1,0} fusion(y), kind=kLoop, calls=doubled, metadata={op_name="jit(f)/add"}'
REDUCED = "v = f32[64,64]{1,0} all-reduce(h), replica_groups={}, to_apply=sum"


def _growth(made: str, place: int = 0, *, other: str = "y") -> int:
    text = with_lines(TEXT).replace("MADE", made).replace("OTHER", other)
    module = hlo_lens.parse_hlo(text)
    assert module.gaps == ()
    return result_growth(module, Origins(module), (place,))


@pytest.mark.parametrize(
    ("made", "values"),
    [
        (FUSED, 0),
        ('v = f32[64,64]{1,0} tanh(y), metadata={op_name="jit(f)/tanh"}', 0),
        ('v = f32[64,64]{1,0} tanh(y), metadata={op_name="jit(f)/shard_map/tanh"}', 1),
        (FUSED.replace("(y)", "(h)"), 3),  # the product and both its operands
        (REDUCED, 1),
        (f"{REDUCED.replace('v =', 'r =')}\n  {FUSED.replace('(y)', '(r)')}", 1),
        ('v = f32[64,64]{1,0} custom-call(h), custom_call_target="f"', 1),
        ("v = f32[64,64]{1,0} reshape(h)", 1),
    ],
)
def test_what_is_not_elementwise_may_be_a_temporary(made: str, values: int) -> None:
    assert _growth(made) == values * 64 * 64 * 4


def test_an_argument_can_be_cut_whatever_the_program_does() -> None:
    assert _growth(REDUCED, 1) == 0


def test_a_result_that_is_also_used_otherwise_remains_whole() -> None:
    assert _growth(FUSED, 2) == 0
    assert _growth(FUSED, 2, other="z") == 64 * 64 * 4
    assert _growth(FUSED, 0, other="v") == 0  # the result is a copy
