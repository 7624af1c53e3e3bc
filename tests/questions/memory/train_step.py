"""A small training step with a weight, optimizer state, an input, a cache and a saved value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.load.programs import modules_of

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump

ALIAS = "input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }, "

TRAIN_STEP = f"""HloModule jit_step, is_scheduled=true, {ALIAS}num_partitions=1
"""
TRAIN_STEP += """
ENTRY main {
  w = f32[512,512]{1,0} parameter(0), metadata={op_name="params['w']"}
  m = f32[512,512]{1,0} parameter(1), metadata={op_name="a1"}
  x = f32[512,512]{1,0} parameter(2), metadata={op_name="a2"}
  ids = s32[512]{0} parameter(3), metadata={op_name="a3"}
  wt = f32[512,512]{0,1} copy(w)
  h = f32[512,512]{1,0} dot(x, wt), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="jit(step)/jvp()/dot_general"}
  y = f32[512,512]{1,0} tanh(h), metadata={op_name="jit(step)/jvp()/tanh"}
  dy = f32[512,512]{1,0} multiply(y, h), metadata={op_name="jit(step)/transpose(jvp())/mul"}
  dw = f32[512,512]{1,0} dot(dy, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}, \
metadata={op_name="jit(step)/transpose(jvp())/dot_general"}
  new_m = f32[512,512]{1,0} add(m, dw), metadata={op_name="jit(step)/add"}
  new_w = f32[512,512]{1,0} subtract(w, new_m), metadata={op_name="jit(step)/sub"}
  ROOT out = (f32[512,512]{1,0}, f32[512,512]{1,0}) tuple(new_w, new_m)
}
"""


def analysis_of_text(text: str) -> ModuleDump:
    """Return the analysis of the only module of a text."""
    (dump,) = modules_of(text)
    return dump
