"""HLO texts for tests of passes, and what makes a table of one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.load.module import ModuleDump, already_read
from hlo_lens.load.programs import modules_of
from hlo_lens.program.summary import instruction_table

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.query import InstructionTable


def module_of(text: str, before: HloModule | None = None) -> ModuleDump:
    """Return the module of a text, with that from before optimizations; no gaps in the text."""
    (module,) = modules_of(hlo_lens.parse_hlo(text))
    assert module.gaps == ()
    return module if before is None else replace(module, before_text=already_read(before))


def table_of(text: str) -> InstructionTable:
    """Return the table of a module's text; none of it may be a gap."""
    return instruction_table(module_of(text))


def entry_of(lines: str, header: str = "") -> InstructionTable:
    """Return the table of a module whose entry has these lines."""
    return instruction_table(entry_module(lines, header))


def entry_module(lines: str, header: str = "") -> ModuleDump:
    """Return a module whose entry has these lines."""
    return module_of(f"HloModule m{header}\n\nENTRY main {{\n{lines}\n}}\n")


LOOP = """HloModule jit_step, is_scheduled=true, num_partitions=4, \
input_output_alias={ {1}: (0, {}, must-alias) }, buffer_donor={ (1, {}) }, \
entry_computation_layout={(f32[8,16]{1,0}, f32[16]{0}, s32[])->(s32[], f32[8,16]{1,0})}

fused_computation {
  p0 = f32[8,16]{1,0} parameter(0)
  ROOT neg = f32[8,16]{1,0} negate(p0)
}

body {
  state = (s32[], f32[8,16]{1,0}) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[8,16]{1,0} get-tuple-element(state), index=1
  y = f32[8,16]{1,0} fusion(x), kind=kLoop, calls=fused_computation, \
metadata={op_name="jit(step)/while/neg" source_file="/home/me/step.py" source_line=7}
  one = s32[] constant(1)
  next = s32[] add(i, one), metadata={op_name="jit(step)/add" source_file="/home/me/step.py"}
  ROOT out = (s32[], f32[8,16]{1,0}) tuple(next, y)
}

cond {
  state.1 = (s32[], f32[8,16]{1,0}) parameter(0)
  i.1 = s32[] get-tuple-element(state.1), index=0
  four = s32[] constant(4)
  ROOT less = pred[] compare(i.1, four), direction=LT
}

ENTRY main_spmd {
  w = f32[8,16]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, \
metadata={op_name="params[\\'w\\']"}
  b = f32[16]{0} parameter(1), sharding={replicated}
  n = s32[] parameter(2), sharding={replicated}
  init = (s32[], f32[8,16]{1,0}) tuple(n, w)
  ROOT loop = (s32[], f32[8,16]{1,0}) while(init), condition=cond, body=body
}
"""
"""A loop over a fusion, one donated and one donatable parameter, and one unused."""
