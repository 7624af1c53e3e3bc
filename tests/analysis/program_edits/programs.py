"""Texts from before optimizations, as jax 0.10 writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens import parse_hlo

if TYPE_CHECKING:
    from hlo_lens.analysis.program_edits.edit import ProgramEdit
    from hlo_lens.model.hlo.module import HloModule

MESH = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=2, "model"=4]>}}'
"""Header attribute of a program over 8 devices."""

ONE_DEVICE = r"""HloModule jit_step, entry_computation_layout={LAYOUT}

ENTRY %main.1 {
  %a.1 = f32[8,16]{1,0} parameter(0), metadata={op_name="state[\'w\'][0].mu"}
  %b.1 = f32[8,16]{1,0} parameter(1), metadata={op_name="state[\'w\'][0].nu"}
  %c.1 = f32[16,8]{1,0} parameter(2), metadata={op_name="c"}
  %d.1 = f32[4]{0} parameter(3), metadata={op_name="d"}
  %add.1 = f32[8,16]{1,0} add(%a.1, %b.1), metadata={source_file="/u/step.py" source_line=7}
  %flat.1 = f32[128]{0} reshape(%c.1)
  %zero.1 = f32[] constant(0)
  ROOT %tuple.1 = (RESULTS) tuple(%add.1, %b.1, %flat.1, %zero.1)
}
"""
ONE_DEVICE = ONE_DEVICE.replace(
    "LAYOUT", "(f32[8,16]{1,0}, f32[8,16]{1,0}, f32[16,8]{1,0}, f32[4]{0})->(RESULTS)"
)
ONE_DEVICE = ONE_DEVICE.replace("RESULTS", "f32[8,16]{1,0}, f32[8,16]{1,0}, f32[128]{0}, f32[]")


def edited(text: str, edit: ProgramEdit) -> HloModule:
    """Return the edited program, which is read without gaps."""
    module = parse_hlo(edit.text_of(parse_hlo(text)))
    assert not module.gaps
    return module
