"""Texts from before optimizations, as jax 0.10 writes them."""

from __future__ import annotations

import re

SHARDY = r"""HloModule jit_f, entry_computation_layout={LAYOUT}, OPEN, num_partitions=8, MESH

ENTRY %main.1 {
  %w.1 = f32[8,64]{1,0} parameter(0), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\"model\"}]>"}, metadata={op_name="p[\'w\']"}
  %x.1 = f32[16,8]{1,0} parameter(1), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"data\"}, {}]>"}, metadata={op_name="x"}
  %neg.1 = f32[8,64]{1,0} negate(%w.1), metadata={op_name="neg" source_file="/u/f.py" source_line=5}
  %res.1 = f32[8,64]{1,0} custom-call(%neg.1), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}, {\"model\"}]>]>"}
  %reshape.1 = f32[8,64]{1,0} reshape(%res.1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  %dot.1 = f32[16,64]{1,0} dot(%x.1, %w.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="dot" source_file="/u/f.py" source_line=6}
  %con.1 = f32[16,64]{1,0} custom-call(%dot.1), custom_call_target="Sharding", sharding={devices=[2,4]<=[8]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\"data\"}, {\"model\"}]>]>"}, metadata={op_name="sharding_constraint" source_file="/u/f.py" source_line=7}
  ROOT %tuple.1 = (RESULTS) tuple(%res.1, %con.1), sharding={{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}, {replicated}}
}
"""  # noqa: E501
"""A program over 8 devices for Shardy: the sharding of its second result is left to XLA."""

SHARDY = (
    SHARDY.replace("LAYOUT", "(f32[8,64]{1,0}, f32[16,8]{1,0})->(RESULTS)")
    .replace("RESULTS", "f32[8,64]{1,0}, f32[16,64]{1,0}")
    .replace("OPEN", "allow_spmd_sharding_propagation_to_output={false,true}")
    .replace(
        "MESH", 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=2, "model"=4]>}}'
    )
)

GSPMD = re.sub(r", frontend_attributes=\{xla.sdy.meshes=\{.*?\}\}", "", SHARDY)
GSPMD = re.sub(r', frontend_attributes=\{xla.sdy.sharding=".*?>"\}', "", GSPMD)
GSPMD = re.sub(r"  %res.1.*\n", "", GSPMD).replace("%res.1", "%neg.1")
"""The same program for GSPMD."""

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
