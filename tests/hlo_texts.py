"""HLO text in the dialects of five years, and modules of texts without gaps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.hlo.module_reader import parse_hlo

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloInstruction, HloModule


def read(text: str) -> HloModule:
    """Return the module of a text, of which nothing may be a gap."""
    module = parse_hlo(text)
    assert module.gaps == ()
    return module


def entry(lines: str, header: str = "HloModule m") -> HloModule:
    """Return a module whose entry computation has these lines."""
    return read(f"{header}\n\nENTRY main {{\n{lines}\n}}\n\n")


def one(text: str) -> HloInstruction:
    """Return the last instruction of these lines, after a parameter ``p`` and one ``q``."""
    lines = f"  p = f32[8]{{0}} parameter(0)\n  q = f32[8]{{0}} parameter(1)\n  {text}"
    return entry(lines).entry.instructions[-1]


def names(module: HloModule) -> dict[str, list[str]]:
    """Return the names of the instructions of each computation."""
    return {c.name: [i.name for i in c.instructions] for c in module.computations}


E1 = """HloModule train__3.11, input_output_alias={ {0}: (0, {}, may-alias), {1}: (2, {}, \
may-alias) }

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

ENTRY train__3.11_spmd {
  param.2 = f32[32,16]{1,0} parameter(2), sharding={devices=[2,1]0,1}
  param = s32[] parameter(0), sharding={replicated}
  param.1 = f32[8,32]{1,0} parameter(1), sharding={devices=[1,2]0,1}
  gemm = f32[8,16]{1,0} custom-call(param.1, param.2), custom_call_target="__gemm", \
metadata={op_type="dot_general" op_name="jit(train)/dot" source_file="/home/me/train.py" \
source_line=12}, backend_config="{\\"alpha\\":1,\\"batch\\":\\"1\\"}"
  all-reduce = f32[8,16]{1,0} all-reduce(gemm), channel_id=1, replica_groups={{0,1}}, \
to_apply=sum, metadata={op_type="psum" op_name="jit(train)/psum" source_file="/home/me/train.py" \
source_line=14}
  one = s32[] constant(1)
  next = s32[] add(param, one)
  ROOT tuple = (s32[], f32[32,16]{1,0}, f32[8,16]{1,0}) tuple(next, param.2, all-reduce)
}

"""

E2 = """HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[8]{0})->f32[32]{0}}, \
allow_spmd_sharding_propagation_to_output={true}, num_partitions=4

fused_computation {
  param_0 = f32[8]{0} parameter(0)
  two = f32[] constant(2)
  twos = f32[8]{0} broadcast(two), dimensions={}
  half = f32[8]{0} divide(param_0, twos)
  wave = f32[8]{0} sine(half)
  ROOT square = f32[8]{0} multiply(wave, wave)
} // fused_computation

ENTRY main.5_spmd {
  param = f32[8]{0} parameter(0), sharding={devices=[4]<=[4]}, metadata={op_name="x"}
  fusion = f32[8]{0} fusion(param), kind=kLoop, calls=fused_computation
  all-gather-start = (f32[8]{0}, f32[32]{0}) all-gather-start(fusion), channel_id=1, \
replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true, \
backend_config={"operation_queue_id":"0","wait_on_operation_queues":[]}
  ROOT all-gather-done = f32[32]{0} all-gather-done(all-gather-start)
}

"""

E2_LONG = """HloModule jit_g, entry_computation_layout={(c64[4,8]{1,0})->c64[4,8]{1,0}}

ENTRY %main.3 (Arg_0.1: c64[4,8]) -> c64[4,8] {
  %Arg_0.1 = c64[4,8]{1,0} parameter(0)
  %all-to-all-start = ((c64[4,8]{1,0}), c64[4,8]{1,0}) all-to-all-start(c64[4,8]{1,0} %Arg_0.1), \
channel_id=1, replica_groups={{0,1}}, dimensions={1}, \
metadata={op_name="jit(g)/all_to_all[axis_name=(\\'y\\',)]" source_file="/home/me/g.py" \
source_line=4}
  ROOT %all-to-all-done = c64[4,8]{1,0} all-to-all-done(((c64[4,8]{1,0}), c64[4,8]{1,0}) \
%all-to-all-start)
}

"""

E3 = """HloModule jit_h, is_scheduled=true, \
entry_computation_layout={(f32[2,8]{1,0})->f32[8,8]{1,0}}, num_partitions=4

ENTRY %main.5_spmd (param: f32[2,8]) -> f32[8,8] {
  %param = f32[2,8]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}, metadata={op_name="x"}
  %all-gather = f32[8,8]{1,0} all-gather(%param), channel_id=1, replica_groups=[1,4]<=[4], \
dimensions={0}, use_global_device_ids=true
  ROOT %add.1 = f32[8,8]{1,0} add(%all-gather, %all-gather), metadata={op_name="jit(h)/add" \
source_file="/home/me/h.py" source_line=7 source_end_line=7 source_column=4 source_end_column=9}
}

"""

E4 = """HloModule jit_k, entry_computation_layout={(f32[8,4]{1,0})->(f32[8,2]{1,0}, \
f32[8,2]{1,0})}, num_partitions=8

FileNames
1 "/home/me/k.py"

FunctionNames
1 "main"
2 "layer.<locals>.step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=4 end_column=20}
2 {file_name_id=1 function_name_id=2 line=9 end_line=11 column=11 end_column=40}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


%region_0.1 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add.2 = f32[] add(%a, %b), metadata={op_name="psum" stack_frame_id=1}
}

ENTRY %main.9_spmd (param.1: f32[8,4]) -> (f32[8,2], f32[8,2]) {
  %param.1 = f32[8,4]{1,0} parameter(0), sharding={devices=[1,2,4]<=[4,2]T(1,0) \
last_tile_dim_replicate}, metadata={op_name="x"}
  %psum.3 = f32[8,4]{1,0} all-reduce(%param.1), channel_id=1, \
replica_groups={{0,1},{2,3},{4,5},{6,7}}, use_global_device_ids=true, to_apply=%region_0.1, \
metadata={op_name="jit(k)/psum" stack_frame_id=2}
  %slice.1 = f32[8,2]{1,0} slice(%psum.3), slice={[0:8], [0:2]}
  %slice.2 = f32[8,2]{1,0} slice(%psum.3), slice={[0:8], [2:4]}
  ROOT %all-to-all.1 = (f32[8,2]{1,0}, f32[8,2]{1,0}) all-to-all(%slice.1, %slice.2), \
channel_id=2, replica_groups=mesh['axis_0'=2,'axis_1'=4], device_ids=([2,2,2]T(0,2,1)) \
{'axis_1':(2)2}, metadata={op_name="jit(k)/all_to_all" stack_frame_id=2}
}

"""

E5 = """HloModule jit_n, is_scheduled=true, \
entry_computation_layout={(bf16[8,128]{1,0:T(8,128)(2,1)})->bf16[8,128]{1,0:T(8,128)(2,1)}}, \
num_partitions=8

%body (state: (s32[], bf16[8,128])) -> (s32[], bf16[8,128]) {
  %state = (s32[]{:T(128)}, bf16[8,128]{1,0:T(8,128)(2,1)S(1)}) parameter(0)
  %one = s32[]{:T(128)} constant(1)
  %next = s32[]{:T(128)} add(%state#0, %one)
  ROOT %tuple.2 = (s32[]{:T(128)}, bf16[8,128]{1,0:T(8,128)(2,1)S(1)}) tuple(%next, %state#1)
}

%condition (state.1: (s32[], bf16[8,128])) -> pred[] {
  %state.1 = (s32[]{:T(128)}, bf16[8,128]{1,0:T(8,128)(2,1)S(1)}) parameter(0)
  %four = s32[]{:T(128)} constant(4)
  ROOT %less = pred[]{:T(512)} compare(%state.1#0, %four), direction=LT
}

ENTRY %main (x: bf16[8,128]) -> bf16[8,128] {
  %x = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(0), sharding={mesh['a'=4,'b'=2], [{'a'}, {}]}
  %zero = s32[]{:T(128)} constant(0)
  %start = (s32[]{:T(128)}, bf16[8,128]{1,0:T(8,128)(2,1)S(1)}) tuple(%zero, %x)
  %while.1 = (s32[]{:T(128)}, bf16[8,128]{1,0:T(8,128)(2,1)S(1)}) while(%start), \
condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"4"}}
  ROOT %copy = bf16[8,128]{1,0:T(8,128)(2,1)} copy(%while.1#1)
}

"""


_ELEMENT = re.compile(
    r"^ +(?!ROOT )%?([\w.\-]+) = .* "
    r"get-tuple-element\((?:[^()]* )?%?([\w.\-#]+)\), index=(\d+).*\n",
    re.MULTILINE,
)


def without_elements(text: str) -> str:
    """Return a text as printed since July 2026: ``%w#1`` in place of get-tuple-elements."""
    return "".join(map(_without_elements, re.split(r"(?m)(?<=^}\n)", text)))


def _without_elements(computation: str) -> str:
    made = {name: (operand, number) for name, operand, number in _ELEMENT.findall(computation)}

    def printed(name: str) -> str:
        operand, number = made.get(name, ("", ""))
        return f"{printed(operand)}#{number}" if operand else name

    lines = _ELEMENT.sub("", computation).splitlines(keepends=True)
    return "".join(
        re.sub(r"(?<![\w.\-/\"=])[\w.\-]+", lambda match: printed(match[0]), line)
        if " = " in line
        else line
        for line in lines
    )
