"""C014: sharding constraints that gather computed values."""

from __future__ import annotations

from hlo_lens.questions.findings.finding import Remedy, SavingBasis
from tests.questions.findings.programs import findings_of

BEFORE = """HloModule m, num_partitions=4, frontend_attributes={\
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
AFTER = """HloModule m, is_scheduled=true, num_partitions=4

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


def _before(operand: str, sharding: str) -> str:
    return BEFORE.replace("OPERAND", operand).replace("SHARDING", sharding)


def test_a_constraint_that_leaves_out_an_axis_is_found_at_the_line_that_asks_for_it() -> None:
    (found,) = findings_of(AFTER, "C014", _before("h", WHOLE))
    assert found.message == (
        "the sharding constraint leaves out model, which divides the value: it is gathered by "
        "1 all-gather"
    )
    assert found.source == "/home/me/net.py:39"
    assert (found.saves.sent_bytes, found.saves.basis) == (32 * 256 * 4, SavingBasis.UP_TO)
    assert found.changes == (Remedy(kind="constraint", target="drop net.py:39"),)


def test_a_constraint_that_keeps_all_axes_is_not() -> None:
    assert findings_of(AFTER, "C014", _before("h", "{devices=[2,2]<=[4]}")) == ()


def test_a_constraint_of_an_input_is_not() -> None:
    assert findings_of(AFTER, "C014", _before("x", WHOLE)) == ()


def _weights(divided: str, whole: str) -> tuple[str, str]:
    """Return a program that gathers weights, after and before optimizations; data divides y."""
    sharding = {"y": "{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "w": divided}
    before = _before("x", whole).replace('op_name="x"', "op_name=\"params['w']\"")
    after = AFTER.replace("parameter(0)", "parameter(0), metadata={op_name=\"params['w']\"}")
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
    assert findings_of(AFTER, "C014", is_decided=False) == ()


def test_constraints_without_stack_frames_are_read() -> None:
    before = _before("h", WHOLE)
    for number in range(1, 5):
        before = before.replace(f" stack_frame_id={number}}}", "}")
    findings_of(AFTER, "C014", before)
