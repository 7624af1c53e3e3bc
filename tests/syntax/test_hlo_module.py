"""What the model says of HLO text, in every dialect and through every kind of log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.model.hlo_instruction import CALLING_ATTRIBUTES, HloInstruction
from hlo_lens.model.hlo_reader import HloOperand, InputOutputAlias
from hlo_lens.model.metadata import FileLocation, SourceLocation, StackFrame
from hlo_lens.syntax.hlo_module import parse_hlo, parse_hlo_modules
from hlo_lens.text.source import clean

if TYPE_CHECKING:
    from hlo_lens.model.hlo import HloModule


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


# ---- the dialects of five years -----------------------------------------------------------------

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


@pytest.mark.parametrize(
    ("text", "name", "computations", "instructions", "root"),
    [
        (E1, "train__3.11", 2, 11, "tuple"),
        (E2, "jit_f", 2, 10, "all-gather-done"),
        (E2_LONG, "jit_g", 1, 3, "all-to-all-done"),
        (E3, "jit_h", 1, 3, "add.1"),
        (E4, "jit_k", 2, 8, "all-to-all.1"),
        (E5, "jit_n", 3, 12, "copy"),
    ],
    ids=["E1", "E2", "E2_LONG", "E3", "E4", "E5"],
)
def test_every_dialect_is_read_whole(
    text: str, name: str, computations: int, instructions: int, root: str
) -> None:
    module = read(text)
    assert (module.name, len(module.computations)) == (name, computations)
    assert module.instruction_count == instructions
    assert module.entry.root is not None
    assert module.entry.root.name == root
    assert not module.is_truncated


def test_2022_dump_scatters_its_parameters() -> None:
    parameters = read(E1).entry.parameters
    assert [(p.parameter_number, p.name) for p in parameters] == [
        (0, "param"),
        (1, "param.1"),
        (2, "param.2"),
    ]


def test_a_computation_and_an_instruction_may_have_one_name() -> None:
    module = read(E1)
    summing = module.computation("sum")
    assert summing is not None
    assert summing.root is not None
    assert summing.root.name == "sum"
    assert [i.name for i in summing.callers] == ["all-reduce"]


def test_name_after_the_closing_brace_is_a_comment() -> None:
    module = read(E2)
    assert [c.name for c in module.computations] == ["fused_computation", "main.5_spmd"]
    assert all(c.attributes_text == "" for c in module.computations)


def test_long_style_keeps_the_signature() -> None:
    assert read(E3).entry.signature_text == "(param: f32[2,8]) -> f32[8,8]"
    assert read(E2).entry.signature_text == ""


def test_operand_shapes_are_kept_beside_the_names() -> None:
    done = read(E2_LONG).entry.root
    assert done is not None
    assert done.operands == (
        HloOperand(name="all-to-all-start", shape_text="((c64[4,8]{1,0}), c64[4,8]{1,0})"),
    )


def test_mesh_groups_hold_their_device_ids() -> None:
    last = read(E4).entry.root
    assert last is not None
    assert last.attributes["replica_groups"] == (
        "mesh['axis_0'=2,'axis_1'=4], device_ids=([2,2,2]T(0,2,1)) {'axis_1':(2)2}"
    )
    assert list(last.attributes) == ["channel_id", "replica_groups", "metadata"]
    assert last.device_list is not None
    assert last.device_list.flattened_replica_groups() == ((0, 2), (1, 3), (4, 6), (5, 7))


def test_compact_operands_name_the_tuple_and_the_index() -> None:
    last = read(E5).entry.root
    assert last is not None
    assert last.operand_names == ("while.1",)
    assert last.operands == (HloOperand(name="while.1", index=(1,)),)


def test_compact_index_may_go_several_levels_down() -> None:
    last = one("r = f32[8] add(%p#0#12, q#3)")
    assert last.operands == (
        HloOperand(name="p", index=(0, 12)),
        HloOperand(name="q", index=(3,)),
    )


def test_compact_operand_may_print_the_shape_of_the_element() -> None:
    last = one("r = f32[8] add(f32[8]{0} %p#1, f32[8]{0} %q#0#1)")
    assert last.operands == (
        HloOperand(name="p", index=(1,), shape_text="f32[8]{0}"),
        HloOperand(name="q", index=(0, 1), shape_text="f32[8]{0}"),
    )


# ---- modules and their header -------------------------------------------------------------------


def test_header_attributes_are_kept_as_written() -> None:
    header = (
        "HloModule m, is_scheduled=true, entry_computation_layout={(f32[8]{0})->f32[8]{0}}, "
        "allow_spmd_sharding_propagation_to_parameters={false,true}, replica_count=2, "
        'num_partitions=8, frontend_attributes={a="b",c={d = "}"}}, of_next_year={[1](2)}'
    )
    module = entry("  ROOT p = f32[8]{0} parameter(0)", header)
    assert dict(module.header) == {
        "is_scheduled": "true",
        "entry_computation_layout": "{(f32[8]{0})->f32[8]{0}}",
        "allow_spmd_sharding_propagation_to_parameters": "{false,true}",
        "replica_count": "2",
        "num_partitions": "8",
        "frontend_attributes": '{a="b",c={d = "}"}}',
        "of_next_year": "{[1](2)}",
    }


def test_header_says_schedule_partitions_and_replicas() -> None:
    module = entry(
        "  ROOT p = f32[] parameter(0)",
        "HloModule m, is_scheduled=true, replica_count=2, num_partitions=8",
    )
    assert (module.is_scheduled, module.num_partitions, module.replica_count) == (True, 8, 2)


def test_what_the_header_leaves_out_is_one_and_unscheduled() -> None:
    module = entry("  ROOT p = f32[] parameter(0)")
    assert (module.is_scheduled, module.num_partitions, module.replica_count) == (False, 1, 1)
    assert module.entry_computation_layout is None
    assert module.input_output_alias == ()
    assert module.buffer_donor == ()
    assert module.frontend_attributes == {}


def test_layout_of_the_entry_is_a_program_shape() -> None:
    header = (
        "HloModule m, entry_computation_layout={(f32[8]{0}, s32[], f32[2,2]{0,1}, s32[], s32[], "
        "/*index=5*/(s32[], pred[4]{0}))->(f32[8]{0}, s32[])}"
    )
    layout = entry("  ROOT p = f32[] parameter(0)", header).entry_computation_layout
    assert layout is not None
    assert [str(shape) for shape in layout.parameters] == [
        "f32[8]{0}",
        "s32[]",
        "f32[2,2]{0,1}",
        "s32[]",
        "s32[]",
        "(s32[], pred[4]{0})",
    ]
    assert str(layout.result) == "(f32[8]{0}, s32[])"


def test_layout_of_an_entry_may_have_no_parameters() -> None:
    header = "HloModule m, entry_computation_layout={()->f32[]}"
    layout = entry("  ROOT p = f32[] constant(1)", header).entry_computation_layout
    assert layout is not None
    assert (layout.parameters, str(layout.result)) == ((), "f32[]")


def test_layout_that_is_not_right_is_a_gap_and_none() -> None:
    module = parse_hlo(
        "HloModule m, num_partitions=2, entry_computation_layout={(f32[8]{1,0})->f32[8]}\n\n"
        "ENTRY e {\n  ROOT p = f32[8] parameter(0)\n}\n"
    )
    assert module.entry_computation_layout is None
    assert module.num_partitions == 2
    assert [(gap.line, gap.column, gap.message) for gap in module.gaps] == [
        (1, 32, "expected another value of entry_computation_layout")
    ]


def test_aliasing_pairs_outputs_with_parameters() -> None:
    header = (
        "HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1,2}: (3, {4}, must-alias), "
        "{}: (5, {}) }"
    )
    assert entry("  ROOT p = f32[] parameter(0)", header).input_output_alias == (
        InputOutputAlias(output_index=(0,), parameter_number=0, parameter_index=()),
        InputOutputAlias(
            output_index=(1, 2), parameter_number=3, parameter_index=(4,), kind="must-alias"
        ),
        InputOutputAlias(output_index=(), parameter_number=5, parameter_index=()),
    )


def test_donors_are_parameters_that_any_output_may_use() -> None:
    header = "HloModule m, buffer_donor={ (0, {}), (3, {1,2}) }"
    module = entry("  ROOT p = f32[] parameter(0)", header)
    assert module.buffer_donor == ((0, ()), (3, (1, 2)))


def test_frontend_attributes_of_the_module_are_unquoted() -> None:
    header = (
        r'HloModule m, frontend_attributes={xla.sdy.meshes={mesh = <["x"=2]>},k="a\"b\303\251"}'
    )
    module = entry("  ROOT p = f32[] parameter(0)", header)
    assert module.frontend_attributes == {
        "xla.sdy.meshes": '{mesh = <["x"=2]>}',
        "k": 'a"b\u00e9',
    }


def test_of_a_repeated_header_attribute_the_first_counts() -> None:
    module = entry(
        "  ROOT p = f32[] parameter(0)", "HloModule m, num_partitions=2, num_partitions=4"
    )
    assert module.num_partitions == 2


def test_header_may_hold_a_whole_module_in_a_string() -> None:
    header = (
        'HloModule m, origin_recovery_table={\n  {"new" {0}} : {"old"},\n  "\n'
        "  HloModule inner\n\n  ENTRY e {\n    ROOT p = f32[] parameter(0), "
        'metadata={op_name=\\"x\\"}\n  }\n  "\n}\n'
    )
    module = entry("  ROOT q = f32[] parameter(0)", header)
    assert module.name == "m"
    assert names(module) == {"main": ["q"]}
    assert module.header["origin_recovery_table"].startswith('{\n  {"new" {0}} : {"old"},')


def test_header_may_go_on_in_the_next_line() -> None:
    header = (
        "HloModule m, is_scheduled=true,\n"
        'debug_attributes={\n  {"a" {}}:({log_mode=default,op_id=7}),\n}'
    )
    module = entry("  ROOT p = f32[] parameter(0)", header)
    assert list(module.header) == ["is_scheduled", "debug_attributes"]


def test_module_without_a_name_has_an_empty_one() -> None:
    module = read("HloModule , is_scheduled=true\n\nENTRY {\n  ROOT a = f32[] constant(1)\n}\n")
    assert (module.name, module.is_scheduled, module.entry.name) == ("", True, "")


def test_name_of_a_module_may_end_in_a_colon() -> None:
    assert entry("  ROOT p = f32[] parameter(0)", "HloModule m:").name == "m"


def test_computations_need_no_header() -> None:
    module = read("ENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n")
    assert (module.name, module.entry.name) == ("", "e")


def test_single_instruction_is_an_entry_of_its_own() -> None:
    module = read("%sum = f32[8]{0} add(f32[8]{0} %p, f32[8]{0} %q)\n")
    assert module.entry.name == ""
    assert [i.name for i in module.entry.instructions] == ["sum"]


def test_header_alone_is_a_module_without_computations() -> None:
    module = read("HloModule empty, replica_count=2\n")
    assert (module.name, module.replica_count, module.computations) == ("empty", 2, [])
    assert module.instruction_count == 0


def test_several_modules_of_one_text_are_read_in_order() -> None:
    modules = parse_hlo_modules(clean(E3 + E2 + E4))
    assert [m.name for m in modules] == ["jit_h", "jit_f", "jit_k"]
    assert [m.instruction_count for m in modules] == [3, 10, 8]
    assert [m.gaps for m in modules] == [(), (), ()]
    assert [m.entry.instructions[0].line for m in modules] == [4, 21, 52]
    assert [bool(m.stack_frames) for m in modules] == [False, False, True]


def test_equal_modules_say_the_same() -> None:
    assert read(E5) == read(E5)
    assert read(E5) == read(E5.replace("\n  %", "\n\t  %"))
    assert read(E5) != read(E5.replace("#1)", "#0)"))
    assert read(E5) != read(E5.replace("condition=%condition", "condition=%body"))
    assert read(E5) != read(E5.replace("num_partitions=8", "num_partitions=4"))
    assert read(E4) != read(E4.replace("line=9", "line=8"))
    assert read(E5) != E5


def test_equal_instructions_say_the_same_in_any_module() -> None:
    a, b = one("r = f32[8]{0} add(p, q)"), one("r = f32[8]{0}   add( %p,%q )")
    assert a == b
    assert hash(a) == hash(b)
    assert a != one("r = f32[8]{0} add(q, p)")
    assert a != one("r = f32[8] add(p, q)")
    assert a != one("r = f32[8]{0} add(p, q), metadata={}")
    assert a != "r"


def test_progress_never_goes_back() -> None:
    seen: list[int] = []
    parse_hlo_modules(clean(E5 + E4), progress=seen.append)
    assert seen == sorted(seen)
    assert 0 < seen[-1] <= len(E5 + E4)


# ---- computations -------------------------------------------------------------------------------


def test_entry_is_the_one_that_says_so_wherever_it_stands() -> None:
    module = read(
        "ENTRY e {\n  ROOT a = f32[] constant(1)\n}\n\nf {\n  ROOT b = f32[] constant(1)\n}\n"
    )
    assert module.entry.name == "e"
    assert [c.is_entry for c in module.computations] == [True, False]


def test_entry_is_the_last_where_none_says_so() -> None:
    module = read(
        "HloModule m\n\ne {\n  ROOT a = f32[] constant(1)\n}\n\nf {\n  b = f32[] constant(1)\n}\n"
    )
    assert module.entry.name == "f"


def test_root_is_the_marked_one_wherever_it_stands() -> None:
    module = entry("  a = f32[] constant(1)\n  ROOT b = f32[] negate(a)\n  c = f32[] abs(a)")
    assert module.entry.root is not None
    assert module.entry.root.name == "b"
    assert [i.is_root for i in module.entry.instructions] == [False, True, False]


def test_root_is_the_last_where_none_is_marked() -> None:
    module = entry("  a = f32[] constant(1)\n  b = f32[] negate(a)")
    assert module.entry.root is not None
    assert module.entry.root.name == "b"
    assert [i.is_root for i in module.entry.instructions] == [False, True]


def test_empty_computation_has_no_root() -> None:
    computation = read("HloModule m\n\nENTRY e {\n}\n").entry
    assert computation.root is None
    assert computation.parameters == ()
    assert list(computation.instructions) == []


def test_parameters_come_by_number_and_unnumbered_ones_last() -> None:
    module = entry(
        "  c = f32[] parameter(10)\n  n = f32[] parameter()\n  b = f32[] parameter(2)\n"
        "  a = f32[] parameter(0)"
    )
    assert [(p.name, p.parameter_number) for p in module.entry.parameters] == [
        ("a", 0),
        ("b", 2),
        ("c", 10),
        ("n", None),
    ]


def test_thread_stands_after_the_closing_brace() -> None:
    module = read(
        "HloModule m\n\n%a (p: f32[]) -> f32[] {\n  ROOT %p = f32[] parameter(0)\n}, "
        'execution_thread="side"\n\nENTRY %e {\n  ROOT %c = f32[] constant(1)\n}\n'
    )
    assert [c.execution_thread for c in module.computations] == ["side", "main"]


def test_computations_are_found_by_name_with_or_without_percent() -> None:
    module = read(E5)
    found = module.computation("body")
    assert found is module.computation("%body") is module.computations[0]
    assert module.computation("nobody") is None


def test_instructions_are_found_by_name_with_or_without_percent() -> None:
    computation = read(E5).entry
    found = computation.instruction("while.1")
    assert found is not None
    assert found == computation.instruction("%while.1")
    assert found.opcode == "while"
    assert computation.instruction("while.2") is None
    assert computation.instruction("state") is None


def test_of_instructions_with_one_name_the_last_is_found() -> None:
    found = entry("  a = f32[] constant(1)\n  a = f32[2] constant({1, 2})").entry.instruction("a")
    assert found is not None
    assert found.shape_text == "f32[2]"


def test_instructions_are_a_sequence() -> None:
    instructions = read(E5).entry.instructions
    assert len(instructions) == 5
    assert instructions[-1].name == "copy"
    assert [i.name for i in instructions[1:3]] == ["zero", "start"]
    assert instructions == list(instructions)
    with pytest.raises(IndexError):
        instructions[5]


CALLS = """HloModule m

f {
  ROOT z = f32[] parameter(0)
}

g {
  ROOT z = f32[] parameter(0)
}

ENTRY main {
  p = f32[8]{0} parameter(0)
  ROOT r = f32[8]{0} made-up(p), CALL
}
"""


CALLING = [
    ("to_apply=f", ("f",)),
    ("calls=%f", ("f",)),
    ("condition=%f, body=%g", ("f", "g")),
    ("true_computation=g, false_computation=f", ("g", "f")),
    ("branch_computations={%g, %f}", ("g", "f")),
    ("branch_computations={f}", ("f",)),
    ("branch_computations={%f, %g, %f}", ("f", "g", "f")),
    ("called_computations={%f, %g}", ("f", "g")),
    ("called_computations={}", ()),
    ("select=%f, scatter=%g", ("f", "g")),
    ("dimensions={0}, to_apply=%f, kind=kLoop, calls=%g", ("f", "g")),
]


@pytest.mark.parametrize(("attribute", "called"), CALLING)
def test_called_computations_come_from_every_calling_attribute(
    attribute: str, called: tuple[str, ...]
) -> None:
    module = read(CALLS.replace("CALL", attribute))
    root = module.entry.root
    assert root is not None
    assert root.called_computations == called
    assert {name for name in "fg" if module.callers.get(name)} == set(called)


def test_every_calling_attribute_is_tested() -> None:
    cases = " ".join(attribute for attribute, _ in CALLING)
    assert all(f"{name}=" in cases for name in CALLING_ATTRIBUTES)


def test_other_attributes_call_nothing() -> None:
    assert one('r = f32[8] custom-call(p), custom_call_target="calls=%f"').called_computations == ()
    assert one("r = f32[8] add(p, q), to_apply_later=f").called_computations == ()


def test_callers_stand_in_text_order_and_once_a_call() -> None:
    module = read(
        "HloModule m\n\nf {\n  ROOT z = f32[] parameter(0)\n}\n\nENTRY e {\n"
        "  p = f32[] parameter(0)\n  b = f32[] call(p), to_apply=f\n"
        "  ROOT a = f32[] call(b), to_apply=f\n}\n"
    )
    called = module.computation("f")
    assert called is not None
    assert [i.name for i in called.callers] == ["b", "a"]
    assert module.entry.callers == ()


def test_conditional_that_names_a_computation_twice_is_one_caller_of_it() -> None:
    module = read(CALLS.replace("CALL", "branch_computations={f, f}"))
    called = module.computation("f")
    assert called is not None
    assert [i.name for i in called.callers] == ["r"]


def test_entry_of_a_truncated_text_is_the_largest_that_nothing_calls() -> None:
    module = parse_hlo(
        "HloModule m\n\nsmall {\n  ROOT a = f32[] parameter(0)\n}\n\n"
        "big {\n  a = f32[] parameter(0)\n  b = f32[] negate(a)\n"
        "  c = f32[] call(b), to_apply=helper\n}\n\n"
        "helper {\n  a = f32[] parameter(0)\n  b = f32[] negate(a)\n"
        "  c = f32[] negate(b)\n  d = f32[] abs(c)\n}\n\n"
        "cut {\n  a = f32[] parameter(0)\n"
    )
    assert module.is_truncated
    assert module.entry.name == "big"
    assert [c.is_complete for c in module.computations] == [True, True, True, False]
    assert [gap.message for gap in module.gaps] == ["expected '}', found the end: cut is cut off"]


def test_truncated_text_keeps_what_was_complete() -> None:
    whole = read(E5)
    cut = parse_hlo(E5[: E5.index("%while.1 =") + 60])
    assert cut.is_truncated
    assert [c.name for c in cut.computations] == ["body", "condition", "main"]
    assert cut.computations[:2] == whole.computations[:2]
    assert [i.name for i in cut.entry.instructions] == ["x", "zero", "start"]


def test_missing_last_line_end_is_no_truncation() -> None:
    module = read("ENTRY e {\n  ROOT p = f32[] parameter(0)\n}")
    assert not module.is_truncated


# ---- instructions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "x",
        "%x",
        "_x",
        "add",
        "%constant.94.clone.1..sunk",
        "%true_computation",
        "true",
        "%ROOT",
        "ROOTS",
        "%0",
        "%3.x",
        "entry",
        "f32_",
        "parameter",
        "a-b-",
    ],
)
def test_names_are_read_without_percent(name: str) -> None:
    module = entry(f"  {name} = f32[] parameter(0)\n  ROOT last = f32[] negate({name})")
    first, last = module.entry.instructions
    assert first.name == name.removeprefix("%")
    assert last.operand_names == (first.name,)


@pytest.mark.parametrize("opcode", ["add", "all-reduce-start", "opcode-of-next-year", "rng_x2"])
def test_opcode_is_kept_as_written(opcode: str) -> None:
    assert one(f"r = f32[8] {opcode}(p, q)").opcode == opcode


@pytest.mark.parametrize(
    "opcode",
    ["reduce-scatter-start", "negate-update", "custom-call-done", "async-start", "all-gather-done"],
)
def test_async_sugar_is_kept_as_written(opcode: str) -> None:
    module = entry(f"  p = f32[] parameter(0)\n  ROOT r = f32[] {opcode}(p)")
    assert module.opcode_counts() == {"parameter": 1, opcode: 1}


def test_opcodes_are_counted_as_written() -> None:
    assert read(E5).opcode_counts() == {
        "parameter": 3,
        "constant": 3,
        "add": 1,
        "tuple": 2,
        "compare": 1,
        "while": 1,
        "copy": 1,
    }


def test_shape_is_read_with_its_layout() -> None:
    shape = one("r = bf16[8,128]{1,0:T(8,128)(2,1)S(1)} add(p, q)").shape
    assert shape is not None
    assert (shape.element_type, shape.dimensions, shape.size_bytes) == ("bf16", (8, 128), 2048)
    assert shape.memory_space == 1


def test_tuple_shape_may_hold_comments() -> None:
    root = one("r = (f32[8]{0}, /*index=1*/(), s4[3]{0:E(4)}) custom-call(p)")
    assert root.shape_text == "(f32[8]{0}, /*index=1*/(), s4[3]{0:E(4)})"
    assert root.shape is not None
    assert [str(s) for s in root.shape.tuple_shapes] == ["f32[8]{0}", "()", "s4[3]{0:E(4)}"]
    assert root.shape.size_bytes == 34


def test_shape_that_is_left_out_is_none() -> None:
    root = one("ROOT r = add(p, q)")
    assert root.shape is None
    assert root.shape_text == ""
    assert (root.opcode, root.operand_names) == ("add", ("p", "q"))


def test_send_has_the_shape_of_what_is_sent() -> None:
    module = entry(
        "  p = f32[4] parameter(0)\n  t = token[] after-all()\n"
        "  s = (f32[9], u32[2], token[]) send(p, t), channel_id=1\n"
        "  r = (f32[4], u32[2], token[]) recv(t), channel_id=2\n"
        "  ROOT d = token[] send-done(s), channel_id=1"
    )
    shapes = {i.name: str(i.shape) for i in module.instructions}
    assert shapes["s"] == "(f32[4], u32[], token[])"
    assert shapes["r"] == "(f32[4], u32[], token[])"
    assert shapes["d"] == "token[]"


def test_send_of_another_form_keeps_the_printed_shape() -> None:
    assert str(one("r = (f32[9], u32[2]) send(p)").shape) == "(f32[9], u32[2])"
    assert str(one("r = (f32[9], u32[2], token[]) send()").shape) == "(f32[9], u32[], token[])"


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("()", ()),
        ("( )", ()),
        ("(p)", ("p",)),
        ("(%p, %q)", ("p", "q")),
        ("(p,q)", ("p", "q")),
        ("(p,, q)", ("p", "q")),
        ("(, p, q,)", ("p", "q")),
        ("(p, q, p, q, p, /*index=5*/q)", ("p", "q", "p", "q", "p", "q")),
        ("(/*first*/p, // second\n    q)", ("p", "q")),
        ("(f32[8]{0} p, (f32[], (s32[2]{0})) q)", ("p", "q")),
        ("(f32[8] %p, q)", ("p", "q")),
        ("(\n    p,\n    q\n  )", ("p", "q")),
    ],
)
def test_operands_are_read_in_every_form(text: str, operands: tuple[str, ...]) -> None:
    assert one(f"r = f32[8] custom-call{text}").operand_names == operands


def test_nested_instructions_get_names_and_rows() -> None:
    module = entry(
        "  p = f32[8] parameter(0)\n  ROOT r = f32[8] add(negate(p), f32[8] exponential(abs(p)))"
    )
    assert module.instruction_count == 5
    root = module.entry.root
    assert root is not None
    negate, exponential = (module.entry.instruction(name) for name in root.operand_names)
    assert negate is not None
    assert exponential is not None
    assert (negate.opcode, negate.shape, negate.operand_names) == ("negate", None, ("p",))
    assert (exponential.opcode, str(exponential.shape)) == ("exponential", "f32[8]")
    (inner,) = (module.entry.instruction(name) for name in exponential.operand_names)
    assert inner is not None
    assert inner.opcode == "abs"


def test_nested_parameters_are_parameters() -> None:
    module = entry("  ROOT r = add(f32[10] parameter(1), f32[10] parameter(0))")
    assert [p.parameter_number for p in module.entry.parameters] == [0, 1]


def test_inline_bodies_become_computations_before_their_caller() -> None:
    module = entry(
        "  p = s32[] parameter(0)\n  ROOT w = s32[] while(s32[] p), condition=\n  {\n"
        "    t = s32[] parameter(0)\n    ten = s32[] constant(10)\n"
        "    ROOT k = pred[] compare(t, ten), direction=LT\n  }, body=\n  {\n"
        "    ROOT t = s32[] parameter(0)\n  }"
    )
    assert [(c.name, c.is_inline, len(c.instructions)) for c in module.computations] == [
        ("_", True, 3),
        ("_.1", True, 1),
        ("main", False, 2),
    ]
    assert module.entry.name == "main"
    root = module.entry.root
    assert root is not None
    assert root.called_computations == ("_", "_.1")
    assert [i.name for i in module.computations[0].callers] == ["w"]


def test_branches_may_be_names_and_bodies() -> None:
    module = read(
        "HloModule m\n\nt {\n  ROOT a = f32[] parameter(0)\n}\n\nENTRY e {\n"
        "  i = s32[] parameter(0)\n  x = f32[] parameter(1)\n"
        "  ROOT r = f32[] conditional(i, x, x), "
        "branch_computations={t, { ROOT b = f32[] parameter(0) }}\n}\n"
    )
    root = module.entry.root
    assert root is not None
    assert root.called_computations == ("t", "_")
    assert names(module) == {"t": ["a"], "_": ["b"], "e": ["i", "x", "r"]}


def test_inline_names_do_not_hide_outer_ones() -> None:
    module = entry(
        "  p = f32[8] parameter(0)\n"
        "  ROOT r = f32[8] call(p), to_apply={ p = f32[8] parameter(0) ROOT r = f32[8] negate(p) }"
    )
    assert names(module) == {"_": ["p", "r"], "main": ["p", "r"]}
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "call"]


@pytest.mark.parametrize(
    ("shape", "literal"),
    [
        ("f32[]", "1e-05"),
        ("f32[]", "-nan"),
        ("f32[]", "nan(0x7fc001)"),
        ("f32[]", "-inf"),
        ("pred[]", "true"),
        ("c64[]", "(1, -2)"),
        ("s32[3]", "{1, 2, 3}"),
        ("s32[0]", "{}"),
        ("s32[2,0]", "{ {}, {} }"),
        ("f32[2,2]", "{ { 1, 2 }, { 3, inf } }"),
        ("pred[2]", "{1, 0}"),
        ("f32[99]", "{...}"),
        ("f32[2,2]", "0"),
        ("c64[1]", "{(1, 2)}"),
        ("(s32[], f32[2])", "( 1, {2, 3} )"),
        ("s32[2]", "{1,\n    2}"),
        ("s32[2]", "{/*i0=0*/1, /*i0=1*/2}"),
        ("s32[<=4]", "(2) {1, 2}"),
    ],
)
def test_literal_is_kept_as_written(shape: str, literal: str) -> None:
    constant = one(f"r = {shape} constant({literal})")
    assert (constant.opcode, constant.operand_text) == ("constant", literal)
    assert constant.operands == ()
    assert constant.operand_names == ()


def test_number_of_a_parameter_is_no_operand() -> None:
    parameter = one("r = f32[] parameter(7)")
    assert (parameter.parameter_number, parameter.operands) == (7, ())
    assert one("r = f32[8] add(p, q)").parameter_number is None


# ---- attributes ---------------------------------------------------------------------------------

KEPT = [
    ("dimensions", "{0,1}"),
    ("slice", "{[0:3:1], [1:4:2]}"),
    ("window", "{size=3x3 stride=2x2 pad=1_1x1_1 rhs_reversal=0x1}"),
    ("dim_labels", "b01f_01io->b01f"),
    ("padding", "3_1x-1_0_2"),
    ("slice_sizes", "{{128,32}, {1}}"),
    ("source_target_pairs", "{{0,1},{1,0}}"),
    ("literal", "s32[2]{0} {1, 2}"),
    ("outfeed_shape", "(u32[3]{0}, pred[])"),
    ("operand_layout_constraints", "{f32[2]{0}, f32[]}"),
    ("output_to_operand_aliasing", "{{0}: (1, {}), {1}: (0, {0})}"),
    ("domain", '{kind="sharding", entry={maximal device=0}, exit={maximal device=1}}'),
    ("sharding", "{devices=[2,1]0,1}"),
    ("sharding", "{{replicated}, {devices=[2]<=[2]}}"),
    ("sharding", "{mesh['x'=4,'y'=2], [{'x'}, {'y', ?}], replicated={}}"),
    ("frontend_attributes", '{a="b",c={d = 1 : i32}}'),
    ("statistics", "{visualizing_index=1,stat-1=33,stat-2=44}"),
    ("result_accuracy", "{tolerance={atol=0.1,rtol=0,ulps=3}}"),
    ("origin", '{({"a"}, ({"b" {0}}, {}))}'),
    ("metadata", '{op_name="}{)(,ROOT x = f32[] add(a"}'),
    ("metadata", "{op_name='a' source_line=3}"),
    ("backend_config", '{"a":{"b":[1,"}"]}}'),
    ("backend_config", "{uplo = 76 : ui8}"),
    ("backend_config", "{it's a+b*c<d>e!@#$^&|;:.}"),
    ("backend_config", r'"{\"alpha\":1}"'),
    ("algorithm", "dot_bf16_bf16_f32_x6"),
    ("epsilon", "0.001"),
    ("channel_id", "_"),
    ("control-predecessors", "{%p, %q}"),
    ("parameter_replication", "{true,false}"),
    ("of_next_year", '{a=[1,2] "x"}'),
    ("of_next_year", "Some.Word-1"),
    ("of_next_year", "[1, 2](3, {4})"),
    ("of_next_year", "'single, quoted'"),
]


@pytest.mark.parametrize(("name", "value"), KEPT)
def test_attribute_is_kept_as_written(name: str, value: str) -> None:
    instruction = one(f"r = f32[8] add(p, q), first=1, {name}={value}, last=2")
    assert instruction.attribute_list == (("first", "1"), (name, value), ("last", "2"))
    assert instruction.attribute(name) == value
    assert instruction.attribute("missing") is None


def test_of_a_repeated_attribute_the_first_counts() -> None:
    instruction = one(
        'r = ((f32[8]), f32[8], u32[]) custom-call-start(p), custom_call_target="x", '
        'frontend_attributes={a="1"}, calls=f, frontend_attributes={a="2"}'
    )
    assert instruction.attributes["frontend_attributes"] == '{a="1"}'
    assert instruction.frontend_attributes == {"a": "1"}
    assert [name for name, _ in instruction.attribute_list].count("frontend_attributes") == 2


def test_attribute_name_inside_a_string_is_no_attribute() -> None:
    instruction = one('r = f32[8] add(p, q), metadata={op_name="x, sharding={replicated}"}')
    assert instruction.attribute("sharding") is None
    assert instruction.sharding is None


def test_frontend_attributes_are_unquoted() -> None:
    instruction = one(
        r'r = f32[8] add(p, q), frontend_attributes={plain="v",inner="<[\"x\"]>",raw={n = 1 : i32}}'
    )
    assert instruction.frontend_attributes == {
        "plain": "v",
        "inner": '<["x"]>',
        "raw": "{n = 1 : i32}",
    }


def test_quotes_that_old_dumps_did_not_escape_stay_in_the_value() -> None:
    instruction = one(
        'r = f32[8] add(p, q), frontend_attributes={a="#m<["x"=2]>",b="2"}, channel_id=3'
    )
    assert instruction.frontend_attributes == {"a": '#m<["x"=2]>', "b": "2"}
    assert instruction.channel_id == 3


def test_control_predecessors_are_names() -> None:
    assert one("r = f32[8] add(p, q), control-predecessors={%p, q}").control_predecessors == (
        "p",
        "q",
    )
    assert one("r = f32[8] add(p, q)").control_predecessors == ()


def test_control_predecessors_may_be_compact() -> None:
    instruction = one("r = f32[8] add(p, q), control-predecessors={%p#0, %q#1#2}")
    assert instruction.control_predecessors == ("p", "q")


def test_channel_that_is_hidden_is_none() -> None:
    assert one("r = f32[8] all-reduce(p), channel_id=7").channel_id == 7
    assert one("r = f32[8] all-reduce(p), channel_id=_").channel_id is None
    assert one("r = f32[8] all-reduce(p)").channel_id is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("{replicated}", 8),
        ("{devices=[2]0,1}", 4),
        ("{devices=[4]<=[4]}", 2),
        ("{mesh['x'=8], [{'x'}]}", 1),
    ],
)
def test_sharding_is_read_in_each_form(text: str, size: int) -> None:
    instruction = one(f"r = f32[8] add(p, q), sharding={text}")
    assert instruction.sharding is not None
    assert instruction.shape is not None
    assert instruction.sharding.shard_shape(instruction.shape).dimensions == (size,)


def test_sharding_that_is_not_printed_is_none() -> None:
    assert one("r = f32[8] add(p, q)").sharding is None


# ---- metadata -----------------------------------------------------------------------------------


def test_metadata_of_every_year_is_read() -> None:
    metadata = one(
        'r = f32[8] add(p, q), metadata={op_type="add" op_name="jit(f)/add" '
        'source_file="/a/b.py" source_line=7 source_end_line=8 source_column=3 '
        'source_end_column=9 profile_type={1,2} deduplicated_name="d" preserve_layout=true '
        'scheduling_name="s" stack_frame_id=2}'
    ).metadata
    assert metadata is not None
    assert (metadata.op_type, metadata.op_name) == ("add", "jit(f)/add")
    assert (metadata.source_file, metadata.source_line) == ("/a/b.py", 7)
    assert (metadata.source_end_line, metadata.source_column, metadata.source_end_column) == (
        8,
        3,
        9,
    )
    assert (metadata.stack_frame_id, metadata.deduplicated_name) == (2, "d")
    assert metadata.scheduling_name == "s"
    assert metadata.other == {"profile_type": "{1,2}", "preserve_layout": "true"}


def test_metadata_that_is_not_printed_is_none() -> None:
    assert one("r = f32[8] add(p, q)").metadata is None
    metadata = one("r = f32[8] add(p, q), metadata={}").metadata
    assert metadata is not None
    assert (metadata.op_name, metadata.source_line, metadata.stack_frame_id) == (None, None, None)


@pytest.mark.parametrize(
    "fields",
    ['op_name="a", op_type="b"', 'op_name="a"op_type="b"', "op_name='a' op_type='b'"],
)
def test_fields_of_metadata_need_no_one_separator(fields: str) -> None:
    metadata = one(f"r = f32[8] add(p, q), metadata={{{fields}}}").metadata
    assert metadata is not None
    assert (metadata.op_name, metadata.op_type) == ("a", "b")


def test_escaped_bytes_of_a_name_are_joined_as_utf_8() -> None:
    metadata = one(
        r'r = f32[8] add(p, q), metadata={op_name="w[\'b\']/\303\251\t\\\"/\360\237\230\200"}'
    ).metadata
    assert metadata is not None
    assert metadata.op_name == "w['b']/\u00e9\t\\\"/\U0001f600"


def test_source_may_stand_in_the_metadata() -> None:
    root = read(E3).entry.root
    assert root is not None
    assert root.source_location == SourceLocation(file="/home/me/h.py", line=7, column=4)
    assert str(root.source_location) == "/home/me/h.py:7"


def test_source_may_stand_in_the_stack_frames() -> None:
    root = read(E4).entry.root
    assert root is not None
    assert root.source_location == SourceLocation(
        file="/home/me/k.py", line=9, function="layer.<locals>.step", column=11
    )


def test_parent_of_a_frame_is_printed_plus_one() -> None:
    frames = read(E4).stack_frames
    assert frames.frames == (
        StackFrame(file_location_id=1, parent_frame_id=0),
        StackFrame(file_location_id=2, parent_frame_id=1),
    )
    assert [place.line for place in frames.stack(2)] == [9, 30]
    assert [place.line for place in frames.stack(1)] == [30]


def test_tables_are_read_whole() -> None:
    frames = read(E4).stack_frames
    assert frames.file_names == ("/home/me/k.py",)
    assert frames.function_names == ("main", "layer.<locals>.step")
    assert frames.file_locations[1] == FileLocation(
        file_name_id=1, function_name_id=2, line=9, end_line=11, column=11, end_column=40
    )


def test_frame_that_the_tables_do_not_have_is_no_place() -> None:
    frames = read(E4).stack_frames
    assert frames.location(0) is None
    assert frames.location(3) is None
    assert frames.stack(3) == ()
    root = read(E4.replace("stack_frame_id=2", "stack_frame_id=9")).entry.root
    assert root is not None
    assert root.source_location is None


def test_frames_that_go_in_a_circle_are_walked_once() -> None:
    frames = read(E4.replace("parent_frame_id=1}", "parent_frame_id=3}")).stack_frames
    assert [place.line for place in frames.stack(2)] == [9, 30]


def test_tables_may_have_commas_between_fields() -> None:
    text = E4.replace("file_location_id=2 parent", "file_location_id=2, parent")
    assert read(text).stack_frames == read(E4).stack_frames


# ---- places -------------------------------------------------------------------------------------


def test_instruction_knows_its_line_and_span() -> None:
    root = read(E3).entry.root
    assert root is not None
    assert root.line == 6
    assert E3[root.span.start : root.span.end].startswith("add.1 = f32[8,8]{1,0} add(")
    assert E3[root.span.start : root.span.end].endswith("source_end_column=9}")


BAD = """HloModule m

ENTRY e {
  p = f32[8]{0} parameter(0)
  q = f32[8]{0} add(p, p]
  ROOT r = f32[8]{0} negate(p)
}
"""
"""One bad place: line 5, column 25."""


def places(text: str) -> list[tuple[int, int]]:
    module = parse_hlo(text)
    assert [i.name for i in module.instructions] == ["p", "r"]
    return [(gap.line, gap.column) for gap in module.gaps]


def test_place_is_that_of_the_plain_text() -> None:
    assert places(BAD) == [(5, 25)]


@pytest.mark.parametrize("end", ["\r\n", "\r"], ids=["CRLF", "CR"])
def test_line_ends_of_other_systems_change_no_place(end: str) -> None:
    assert places(BAD.replace("\n", end)) == [(5, 25)]
    assert read(E4.replace("\n", end)) == read(E4)


def test_byte_order_mark_counts_in_no_line_but_the_first() -> None:
    assert places("\ufeff" + BAD) == [(5, 25)]
    assert read("\ufeff" + E3).name == "jit_h"


def test_colours_are_cut_and_count_as_columns_of_the_file() -> None:
    line = "  q = f32[8]{0} add(p, p]"
    coloured = "  \x1b[1;32mq\x1b[0m = f32[8]{0} add(p, p]"
    moved = len(coloured) - len(line)
    assert places(BAD.replace(line, coloured)) == [(5, 25 + moved)]
    assert places(BAD.replace("HloModule", "\x1b[31mHloModule\x1b[0m")) == [(5, 25)]


PREFIXES = {
    "glog": "I1120 11:50:17.144151     619 hlo_pass.cc:579] ",
    "absl before InitializeLog": "W0000 00:00:1795175081.402356   26392 cpu_compiler.cc:9] ",
    "tensorflow": "2024-05-20 12:34:56.789012: I external/xla/xla/service/dump.cc:123] ",
    "mpirun": "[1,3]<stdout>:",
    "kubernetes": "2024-05-20T12:34:56.789012345Z ",
    "cri": "2024-05-20T12:34:56.789012345+00:00 stdout F ",
    "rank and glog": "[7]: I1120 11:50:17.144151     619 hlo_pass.cc:579] ",
    "srun and glog": "3: I1120 11:50:17.144151     619 hlo_pass.cc:579] ",
}


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_log_prefixes_are_cut_and_count_as_columns_of_the_file(prefix: str) -> None:
    def logged(text: str) -> str:
        return "".join(f"{prefix}{line}\n" for line in text.splitlines())

    assert places(logged(BAD)) == [(5, 25 + len(prefix))]
    assert read(logged(E4)) == read(E4)


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_log_prefixes_that_begin_late_are_cut(prefix: str) -> None:
    quiet = "plain line of a program\n" * 4000
    text = quiet + "".join(f"{prefix}{line}\n" for line in E3.splitlines())
    module = parse_hlo(text)
    assert (module.name, module.instruction_count) == ("jit_h", 3)
    assert [(gap.line, gap.lines) for gap in module.gaps] == [(1, 4000)]
    assert module.entry.instructions[0].line == 4004


def test_log_lines_around_a_module_are_gaps() -> None:
    module = parse_hlo("compiling jit_h now\nthis takes a while\n" + E3 + "done in 3 s\n")
    assert (module.name, module.instruction_count) == ("jit_h", 3)
    assert [(gap.line, gap.lines) for gap in module.gaps] == [(1, 2), (11, 1)]


def test_log_lines_inside_a_computation_are_gaps() -> None:
    text = E3.replace("\n  %all-gather", "\nstep 100: loss 3.5\n  %all-gather")
    module = parse_hlo(text)
    assert module.instruction_count == 3
    assert [(gap.line, gap.message) for gap in module.gaps] == [
        (5, "expected an instruction or '}'")
    ]


def test_header_may_stand_behind_other_words_of_a_log() -> None:
    module = parse_hlo("module after pipeline: " + E3)
    assert (module.name, module.instruction_count) == ("jit_h", 3)
    assert [(gap.line, gap.column) for gap in module.gaps] == [(1, 1)]


def test_whole_module_may_stand_on_one_line() -> None:
    module = read(E5.replace("\n", " "))
    assert module == read(E5)
    assert {i.line for i in module.instructions} == {1}


def test_any_token_may_stand_on_a_line_of_its_own() -> None:
    module = read(
        "HloModule m\nENTRY\ne\n{\nROOT\nc\n=\nf32[\n2\n]{\n0\n}\nconstant\n(\n{\n1\n,\n2\n}\n)\n,"
        '\nmetadata=\n{\nop_name=\n"x"\n}\n}\n'
    )
    root = module.entry.root
    assert root is not None
    assert (root.name, str(root.shape), root.line) == ("c", "f32[2]{0}", 6)
    assert root.metadata is not None
    assert root.metadata.op_name == "x"


def test_tokens_need_no_space_where_they_can_not_run_together() -> None:
    module = read("HloModule m ENTRY%e{ROOT%c=f32[]constant(1)}")
    assert names(module) == {"e": ["c"]}


def test_comments_may_stand_between_any_tokens() -> None:
    module = read(
        "/* a */ HloModule m // b\n// c\nENTRY /* d */ e { // e\n  ROOT /* f */ c = /* g */ f32[] "
        "/* h */ add(/* i */ p /* j */, q) /* k */ , /* l */ channel_id=1 // m\n} // n\n"
    )
    root = module.entry.root
    assert root is not None
    assert (root.name, root.operand_names, root.channel_id) == ("c", ("p", "q"), 1)


@pytest.mark.parametrize(
    ("shape", "literal"),
    [
        ("s32[]", "/*x*/ 5 /*y*/"),
        ("s32[2]", "{1, // one\n    2}"),
        ("(s32[], s32[1])", "(1, /*index=1*/{2})"),
    ],
)
def test_comments_may_stand_in_a_literal(shape: str, literal: str) -> None:
    assert one(f"r = {shape} constant({literal})").operand_text.strip() == literal


@pytest.mark.parametrize("number", ["7", " 7 ", "/*index=7*/ 7", "7 // the last\n"])
def test_comments_may_stand_beside_the_number_of_a_parameter(number: str) -> None:
    assert one(f"r = f32[] parameter({number})").parameter_number == 7


def test_comments_may_be_long_and_hold_instructions() -> None:
    comment = "/*\n" + "  c = f32[] constant(1)\n} * {\n" * 1000 + "*/"
    module = read(
        f"{comment}HloModule m\n{comment}\nENTRY e {{\n{comment}  p = f32[] parameter(0)\n"
        f"{comment}}}\n{comment}"
    )
    assert names(module) == {"e": ["p"]}
    assert module.entry.instructions[0].line == 3 * 2001 + 4


def test_keywords_may_stand_on_lines_of_their_own() -> None:
    module = read(
        "HloModule m\n\nENTRY\n%e (p: f32[]) -> f32[] {\n  %p = f32[] parameter(0)\n"
        "  ROOT\n  %r = f32[] negate(%p)\n}\n"
    )
    assert module.entry.is_entry
    assert names(module) == {"e": ["p", "r"]}
    assert [i.is_root for i in module.entry.instructions] == [False, True]


def test_bytes_are_read_like_text() -> None:
    assert parse_hlo(E4.encode()) == read(E4)
    assert parse_hlo(E4.encode("utf-16")) == read(E4)
