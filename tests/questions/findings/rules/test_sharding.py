"""Tests of rules about shardings that the program states."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hlo_lens
from hlo_lens import lint
from hlo_lens.questions.findings.finding import Remedy, SavingBasis, Severity
from hlo_lens.questions.findings.findings import all_findings, judged
from hlo_lens.questions.findings.rules.sharding import cut_dimension, moved_axis, replicated_value
from hlo_lens.text.errors import MissingDumpError
from tests.corpus import ROOT, SAMPLES
from tests.questions.findings.programs import analysis_of_text, findings_of
from tests.questions.sharding.programs import AFTER, BEFORE, SDY

# ---- M003: values that a free mesh axis could divide ---------------------------------------------


DEVICES = "num_partitions=8"


def _larger(text: str) -> str:
    """Return a text of arrays with 64 rows, so that savings are worth mentioning."""
    return text.replace("f32[8,", "f32[64,").replace("f32[6,", "f32[48,")


def test_a_value_is_divided_over_the_axis_that_saves_most() -> None:
    found = findings_of(_larger(AFTER), "M003", _larger(BEFORE))
    by_value = {one.values: one for one in found}
    one = by_value[("x",)]
    assert one.message == "x (12.0KiB of inputs) is replicated over data,model (8 copies)"
    assert one.fix == "PartitionSpec P(None, 'model') divides dimension 1 over model"
    assert one.changes == (Remedy(kind="shard", target="x=P(None, 'model')"),)
    assert one.saves.bytes is None  # model divides w: a tensor-parallel product may need x whole
    assert by_value[("w",)].fix == "PartitionSpec P('data', 'model') divides dimension 0 over data"


def test_values_in_host_memory_take_no_memory_of_the_device() -> None:
    text = _larger(AFTER)
    values = {one.values for one in findings_of(text, "M003", _larger(BEFORE))}
    row = next(line for line in text.splitlines() if 'op_name="x"' in line and "} param" in line)
    on_host = row.replace("} parameter", ":S(5)} parameter")
    assert on_host != row
    left = {one.values for one in findings_of(text.replace(row, on_host), "M003", _larger(BEFORE))}
    assert ("x",) in values
    assert ("x",) not in left
    assert ("w",) in left


STEP = """HloModule jit_step, is_scheduled=true, num_partitions=8, \
input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias), {2}: (2, {}, may-alias) }

ENTRY main {
  w = f32[256,256]{1,0} parameter(0), metadata={op_name="params.w"}
  m = f32[256,256]{1,0} parameter(1), metadata={op_name="opt.m"}
  n = f32[256,256]{1,0} parameter(2), metadata={op_name="opt.n"}
  x = f32[8,256]{1,0} parameter(3), metadata={op_name="x"}
  h = f32[8,256]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[256,256]{1,0} dot(x, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  m2 = f32[256,256]{1,0} add(m, g)
  n2 = f32[256,256]{1,0} multiply(n, g)
  u = f32[256,256]{1,0} add(m2, n2)
  w2 = f32[256,256]{1,0} subtract(w, u)
  ROOT t = (f32[256,256]{1,0}, f32[256,256]{1,0}, f32[256,256]{1,0}) tuple(w2, m2, n2)
}
"""


REPLICATED = "{replicated}"
ON_LAST = "sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"


def _replicated_before() -> str:
    """Return the step before partitioning: all is replicated."""
    text = STEP.replace("is_scheduled=true, ", "").replace("num_partitions=8", f"{DEVICES}, {SDY}")
    for number in range(4):
        given = f"parameter({number})"
        text = text.replace(given, f"{given}, sharding={REPLICATED}")
    results = ", ".join([REPLICATED] * 3)
    return text.replace("tuple(w2, m2, n2)", f"tuple(w2, m2, n2), sharding={{{results}}}")


def test_weights_and_optimizer_state_are_one_warning() -> None:
    known = analysis_of_text(STEP, _replicated_before())
    found = next(one for one in judged(replicated_value(known), known) if "opt.m" in one.values)
    assert found.severity is Severity.WARNING
    assert found.message == (
        "opt.m and 2 others (768.0KiB of optimizer state and weights) are replicated over "
        "data,model (8 copies)"
    )
    assert found.saves.bytes == 3 * 256 * 256 * 4 * 3 // 4
    assert [one.target for one in found.changes] == ["opt['**']=P('model')", "params.w=P('model')"]


def test_replicated_weights_stand_under_the_work_that_is_repeated_over_their_axis() -> None:
    (root, *_) = all_findings(analysis_of_text(STEP, _replicated_before())).findings
    assert root.message.startswith("no input is divided over model")
    assert root.evidence[0].startswith("M003 follows: opt.m and 2 others")


def test_data_parallelism_is_one_info_without_a_fix() -> None:
    """The axis divides the batch and no weight."""
    batch = "parameter(3), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"
    after = STEP.replace("f32[8,256]", "f32[2,256]")
    before = _replicated_before().replace("parameter(3), sharding={replicated}", batch)
    (found,) = findings_of(after, "M003", before)
    assert found.severity is Severity.INFO
    assert found.message == (
        "3 arrays of optimizer state and weights (768.0KiB) are whole along model, as data "
        "parallelism has it"
    )
    assert found.is_by_design
    assert [one.target for one in found.changes] == ["opt['**']=P('model')", "params.w=P('model')"]


def test_weights_are_a_warning_if_the_axis_divides_others() -> None:
    other = 'parameter(4), SHARDING metadata={op_name="params.v"}\n  h ='
    after = STEP.replace("  h =", f"  v = f32[256,64]{{1,0}} {other.replace('SHARDING ', '')}")
    whole = f"  v = f32[256,256]{{1,0}} {other.replace('SHARDING', f'{ON_LAST},')}"
    before = _replicated_before().replace("  h =", whole)
    (root, *_) = all_findings(analysis_of_text(after, before)).findings
    assert (root.code, root.values[-1]) == ("W001", "params.w")
    assert root.message.endswith("(8 copies): 4 devices compute 1.57 MFLOP of 2.10 MFLOP alike")
    assert [one.target for one in root.changes] == ["opt['**']=P('model')", "params.w=P('model')"]


def test_the_line_of_a_result_is_that_of_what_it_copies() -> None:
    """Else that of the call, which chooses the shardings of results."""
    for backend, line in (("cpu", "programs/wasteful.py:114"), ("tpu", "programs/wasteful.py:100")):
        found = lint(ROOT / "sample_dumps" / backend / "wasteful", select=["M003"])
        (one,) = (one for one in found if one.values == ("result{3}",))
        assert one.source == line


# ---- C014: sharding constraints that gather computed values --------------------------------------


GATHERING_BEFORE = """HloModule m, num_partitions=4, frontend_attributes={\
xla.sdy.meshes="{mesh = #sdy.mesh<[\\"data\\"=2, \\"model\\"=2]>}"}

FileNames
1 "/home/me/net.py"

FunctionNames
1 "<module>"
2 "cs"

FileLocations
1 {file_name_id=1 function_name_id=1 line=39 end_line=39 column=1 end_column=9}
2 {file_name_id=1 function_name_id=1 line=45 end_line=45 column=1 end_column=9}
3 {file_name_id=1 function_name_id=2 line=17 end_line=17 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}
3 {file_location_id=3 parent_frame_id=2}
4 {file_location_id=3 parent_frame_id=3}


ENTRY main {
  x = f32[64,512] parameter(0), sharding={devices=[2,2]<=[4]}, metadata={op_name="x"}
  y = f32[64,512] parameter(1), sharding={devices=[2,2]<=[4]}, metadata={op_name="y"}
  h = f32[64,512] multiply(x, y), metadata={op_name="jit(f)/mul" stack_frame_id=1}
  c = f32[64,512] custom-call(OPERAND), custom_call_target="Sharding", sharding=SHARDING, \
metadata={op_name="jit(f)/sharding_constraint" stack_frame_id=3}
  n = f32[64,512] negate(c), metadata={op_name="jit(f)/neg"}
  ROOT d = f32[64,512] custom-call(n), custom_call_target="Sharding", sharding=SHARDING, \
metadata={op_name="jit(f)/sharding_constraint" stack_frame_id=4}
}
"""
GATHERING_AFTER = """HloModule m, is_scheduled=true, num_partitions=4

ENTRY main {
  x = f32[32,256]{1,0} parameter(0), sharding={devices=[2,2]<=[4]}
  y = f32[32,256]{1,0} parameter(1), sharding={devices=[2,2]<=[4]}
  h = f32[32,256]{1,0} multiply(x, y)
  g = f32[32,512]{1,0} all-gather(h), channel_id=1, replica_groups={{0,1},{2,3}}, \
dimensions={1}, use_global_device_ids=true, metadata={op_name="jit(f)/mul"}
  ROOT n = f32[32,512]{1,0} negate(g)
}
"""
WHOLE = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"


def _gathering_before(operand: str, sharding: str) -> str:
    return GATHERING_BEFORE.replace("OPERAND", operand).replace("SHARDING", sharding)


def test_a_constraint_that_leaves_out_an_axis_is_found_at_the_line_that_asks_for_it() -> None:
    (found,) = findings_of(GATHERING_AFTER, "C014", _gathering_before("h", WHOLE))
    assert found.message == (
        "the sharding constraint leaves out model, which divides the value: it is gathered by "
        "1 all-gather"
    )
    assert found.source == "/home/me/net.py:39"
    assert (found.saves.sent_bytes, found.saves.basis) == (32 * 256 * 4, SavingBasis.UP_TO)
    assert found.changes == (Remedy(kind="constraint", target="drop net.py:39"),)


def test_a_constraint_that_keeps_all_axes_is_not() -> None:
    assert (
        findings_of(GATHERING_AFTER, "C014", _gathering_before("h", "{devices=[2,2]<=[4]}")) == ()
    )


def test_a_constraint_of_an_input_is_not() -> None:
    assert findings_of(GATHERING_AFTER, "C014", _gathering_before("x", WHOLE)) == ()


def _weights(divided: str, whole: str) -> tuple[str, str]:
    """Return a program that gathers weights, after and before optimizations; data divides y."""
    sharding = {"y": "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "w": divided}
    before = _gathering_before("x", whole).replace('op_name="x"', "op_name=\"params['w']\"")
    after = GATHERING_AFTER.replace(
        "parameter(0)", "parameter(0), metadata={op_name=\"params['w']\"}"
    )
    after = after.replace("}, sharding={devices=[2,2]<=[4]}", "}")
    for number, name in enumerate("wy"):
        old = f"parameter({number}), sharding={{devices=[2,2]<=[4]}}"
        before = before.replace(old, f"parameter({number}), sharding={sharding[name]}")
    after = after.replace("y = f32[32,256]", "y = f32[32,512]").replace("jit(f)/mul", _PATH)
    return after, before


_PATH = "jit(f)/sharding_constraint"


def test_weights_are_gathered_by_mistake_over_an_axis_of_no_input() -> None:
    after, before = _weights("{devices=[2,2]<=[4]}", WHOLE)
    (found,) = findings_of(after, "C014", before)
    assert found.message == (
        "the sharding constraint leaves out model, which divides params['w']: it is gathered by "
        "1 all-gather"
    )
    assert found.fix == (
        "keep model: P('data', 'model') in with_sharding_constraint, or delete the constraint"
    )


def test_weights_are_gathered_on_purpose_over_the_axis_of_the_batch() -> None:
    after, before = _weights(
        "{devices=[2,2]<=[4]}", "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
    )
    assert findings_of(after.replace("{{0,1},{2,3}}", "{{0,2},{1,3}}"), "C014", before) == ()


def test_the_rule_is_undecided_without_the_text_before_optimizations() -> None:
    assert findings_of(GATHERING_AFTER, "C014", is_decided=False) == ()


def test_constraints_without_stack_frames_are_read() -> None:
    before = _gathering_before("h", WHOLE)
    for number in range(1, 5):
        before = before.replace(f" stack_frame_id={number}}}", "}")
    findings_of(GATHERING_AFTER, "C014", before)


# ---- C017: constraints that move an axis for nothing, as in `test_planted_wastes` ----------------


def _moved_module(name: str) -> hlo_lens.ModuleDump:
    (module,) = hlo_lens.load(SAMPLES / "plants" / "tpu" / f"{name}.tar.xz").modules
    return module


def test_the_constraint_that_moves_an_axis_away_is_to_be_dropped() -> None:
    (found,) = moved_axis(_moved_module("resharded"))
    assert found.message.startswith("the sharding constraint moves model from dimension 1 to 2, ")
    assert [one.target for one in found.changes] == [f"drop wastes.py:{found.source_line}"]


def test_an_axis_that_leaves_the_batch_is_found_without_a_way_back() -> None:
    (found,) = moved_axis(_moved_module("turned"))
    assert "moves data from dimension 0 to 1, away from the batch" in found.message


# ---- C016: arrays that are cut along a divided dimension, as in `test_planted_wastes` ------------


def _cut_module(name: str) -> hlo_lens.ModuleDump:
    (module,) = hlo_lens.load(SAMPLES / "plants" / "gpu" / f"{name}.tar.xz").modules
    return module


def test_all_that_a_split_sends_is_one_finding() -> None:
    (found,) = cut_dimension(_cut_module("fused"))
    assert found.message == (
        "split along a dimension that model divides: its pieces are sent by 12 collectives"
    )
    assert found.saves.sent_bytes == 10 << 20


def test_a_rolled_array_is_none_and_without_the_program_it_is_undecided() -> None:
    assert list(cut_dimension(_cut_module("rolled_clean"))) == []
    with pytest.raises(MissingDumpError, match="before optimizations"):
        list(cut_dimension(replace(_cut_module("fused"), before_text=None)))
