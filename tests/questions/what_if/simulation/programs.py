"""Small scheduled programs, as XLA's CPU compiler prints them."""

from __future__ import annotations

from hlo_lens.questions.what_if.simulation.simulator import Simulator
from tests.questions.findings.programs import analysis_of_text

STEP = """HloModule jit_step, is_scheduled=true, entry_computation_layout={(f32[1024]{0}, f32[1024]{0})->(f32[1024]{0}, f32[1024]{0})}ALIAS

%fused_add (p.1: f32[1024], p.2: f32[1024]) -> f32[1024] {
  %p.1 = f32[1024]{0} parameter(0)
  %p.2 = f32[1024]{0} parameter(1)
  ROOT %add.9 = f32[1024]{0} add(%p.1, %p.2)
}

%fused_exp (p.3: f32[1024]) -> f32[1024] {
  %p.3 = f32[1024]{0} parameter(0)
  ROOT %exp.9 = f32[1024]{0} exponential(%p.3)
}

ENTRY %main (w: f32[1024], x: f32[1024]) -> (f32[1024], f32[1024]) {
  %w = f32[1024]{0} parameter(0), metadata={op_name="w"}
  %x = f32[1024]{0} parameter(1), metadata={op_name="x"}
  %exp_fusion = f32[1024]{0} fusion(%x), kind=kLoop, calls=%fused_exp, metadata={op_name="exp" source_file="/u/model.py" source_line=7}
  %add_fusion = f32[1024]{0} fusion(%w, %exp_fusion), kind=kLoop, calls=%fused_add, metadata={op_name="add" source_file="/u/model.py" source_line=8}
  %neg_fusion = f32[1024]{0} fusion(%exp_fusion, READ), kind=kLoop, calls=%fused_add, metadata={op_name="transpose(jvp())/mul" source_file="/u/model.py" source_line=9}
  ROOT %tuple.1 = (f32[1024]{0}, f32[1024]{0}) tuple(%add_fusion, %neg_fusion)
}
"""  # noqa: E501
"""Two results; the second reads the value READ."""


SAVED = """HloModule jit_saved, is_scheduled=true, entry_computation_layout={(f32[1024]{0})->f32[8]{0}}

ENTRY %main (x: f32[1024]) -> f32[8] {
  %x = f32[1024]{0} parameter(0), metadata={op_name="x"}
  %saved = f32[1024]{0} exponential(%x), metadata={op_name="exp" source_file="/u/model.py" source_line=7}
  %wide = f32[2048]{0} concatenate(%saved, %x), dimensions={0}, metadata={op_name="cat" source_file="/u/model.py" source_line=8}
  %wider = f32[4096]{0} concatenate(%wide, %wide), dimensions={0}, metadata={op_name="cat" source_file="/u/model.py" source_line=9}
  %narrow = f32[1024]{0} slice(%wider), slice={[0:1024]}, metadata={op_name="slice" source_file="/u/model.py" source_line=9}
  %product = f32[1024]{0} multiply(%narrow, %saved), metadata={op_name="transpose(jvp())/mul" source_file="/u/model.py" source_line=7}
  ROOT %out = f32[8]{0} slice(%product), slice={[0:8]}
}
"""  # noqa: E501
"""A value that is kept over the peak and read in the backward pass."""


def simulator(text: str) -> Simulator:
    """Return the simulator of a text."""
    return Simulator(analysis_of_text(text))


def step(*, read: str = "%exp_fusion", alias: str = "") -> Simulator:
    """Return the simulator of `STEP` with the operand and the aliases."""
    header = f", input_output_alias={{ {alias} }}" if alias else ""
    return simulator(STEP.replace("READ", read).replace("ALIAS", header))
