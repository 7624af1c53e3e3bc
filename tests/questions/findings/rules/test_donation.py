"""Tests of rules about donation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.findings.finding import Remedy, SavingBasis, Severity
from tests.questions.findings.programs import findings_of, looped
from tests.questions.sharding.programs import SDY, V2_MODEL

if TYPE_CHECKING:
    from pathlib import Path


# ---- M001: arguments that could be donated -------------------------------------------------------


UNDONATED_STEP = """HloModule jit_step, is_scheduled=true, ALIAS

FileNames
1 "/home/me/train.py"

FunctionNames
1 "<module>"
2 "step"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=40 end_line=40 column=1 end_column=9}}
2 {{file_name_id=1 function_name_id=2 line=11 end_line=11 column=1 end_column=9}}
3 {{file_name_id=1 function_name_id=2 line=12 end_line=12 column=1 end_column=9}}

StackFrames
1 {{file_location_id=1 parent_frame_id=1}}
2 {{file_location_id=2 parent_frame_id=2}}
3 {{file_location_id=3 parent_frame_id=2}}


ENTRY main {{
  w = f32[512,512]{{1,0}} parameter(0), metadata={{op_name="state['w']"}}
  m = f32[512,512]{{1,0}} parameter(1), metadata={{op_name="state['m']"}}
  x = f32[512]{{0}} parameter(2), metadata={{op_name="x"}}
  a = f32[512,512]{{1,0}} negate(w), metadata={{op_name="jit(step)/neg" stack_frame_id=2}}
  b = f32[512,512]{{1,0}} exponential(m), metadata={{op_name="jit(step)/exp" stack_frame_id=3}}
  ROOT t = (f32[512,512]{{1,0}}, f32[512,512]{{1,0}}) tuple(a, b)
}}
""".replace("{{", "{").replace("}}", "}")

ALIASED = "input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"


def test_arrays_in_host_memory_take_no_memory_of_the_device() -> None:
    text = UNDONATED_STEP.replace("ALIAS", "replica_count=1")
    text = text.replace("512]{1,0} parameter(1)", "512]{1,0:S(5)} parameter(1)")
    text = text.replace("b = f32[512,512]{1,0}", "b = f32[512,512]{1,0:S(5)}")
    text = text.replace(
        "ROOT t = (f32[512,512]{1,0}, f32[512,512]{1,0})",
        "ROOT t = (f32[512,512]{1,0}, f32[512,512]{1,0:S(5)})",
    )
    (found,) = findings_of(text, "M001")
    assert found.values == ("state['w']",)
    assert found.message == "argument state (1 of 2 arrays, 1.00MiB) is not donated"


def test_results_that_are_no_updates_make_it_an_info() -> None:
    """A gradient has the shape of the weights, which the caller still needs."""
    product = "dot(m, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    text = UNDONATED_STEP.replace("ALIAS", "replica_count=1").replace("negate(w)", product)
    (found,) = findings_of(text.replace("exponential(m)", product), "M001")
    assert found.severity is Severity.INFO
    assert found.evidence[0].startswith("no result is an update of it")


def test_arrays_of_one_argument_are_one_finding_at_the_line_that_calls_the_function() -> None:
    (found,) = findings_of(UNDONATED_STEP.replace("ALIAS", "replica_count=1"), "M001")
    assert found.message == "argument state (2 of 2 arrays, 2.00MiB) is not donated"
    assert found.fix == 'jax.jit(step, donate_argnames=("state",))'
    assert (found.source_file, found.source_line) == ("/home/me/train.py", 40)
    assert (found.saves.bytes, found.saves.basis) == (2 << 20, SavingBasis.UP_TO)
    assert found.severity is Severity.WARNING
    assert found.values == ("state['w']", "state['m']")
    assert found.changes == (Remedy(kind="donate", target="state"),)


def test_donated_arguments_have_no_finding() -> None:
    assert findings_of(UNDONATED_STEP.replace("ALIAS", ALIASED), "M001") == ()


def test_arguments_without_a_name_are_named_by_position() -> None:
    text = UNDONATED_STEP.replace("ALIAS", "replica_count=1").replace("state[", "args[0][")
    (found,) = findings_of(text, "M001")
    assert found.fix == "jax.jit(step, donate_argnums=(0,))"


UNDONATED_UNNAMED = UNDONATED_STEP.replace("ALIAS", "replica_count=1").replace(
    "m = f32", "param = f32"
)
UNDONATED_UNNAMED = UNDONATED_UNNAMED.replace("(m)", "(param)").replace(
    ", metadata={op_name=\"state['m']\"}", ""
)


def test_the_name_of_an_instruction_is_no_name_of_an_argument() -> None:
    found = {one.values: one.fix for one in findings_of(UNDONATED_UNNAMED, "M001")}
    assert found[("state['w']",)] == 'jax.jit(step, donate_argnames=("state",))'
    assert found[("param",)] == (
        "jax.jit(step, donate_argnums=...) with the argument that is parameter 1 of the program "
        "(param)"
    )


def test_programs_of_other_frameworks_are_not_jitted() -> None:
    found = findings_of(UNDONATED_UNNAMED.replace("jit_step", "SyncTensorsGraph.117"), "M001")
    assert {one.fix for one in found} == {
        "alias parameter 0 of the program (state) with its result when the program is compiled",
        "alias parameter 1 of the program (param) with its result when the program is compiled",
    }


def test_arguments_of_a_part_that_xla_made_a_module_have_no_finding() -> None:
    text = """HloModule NAME, is_scheduled=true

ENTRY main {
  x = f32[1048576]{0} parameter(0)
  ROOT y = f32[1048576]{0} negate(x)
}
"""
    assert len(findings_of(text.replace("NAME", "jit_f"), "M001")) == 1
    assert findings_of(text.replace("NAME", "extracted"), "M001") == ()
    assert findings_of(text.replace("NAME", "called_computation.1_spmd"), "M001") == ()


# ---- M002: arguments that are donated in vain ----------------------------------------------------


UNUSED_STEP = """HloModule jit_step, is_scheduled=true, HEADER

ENTRY main {
  old = bf16[512,512]{1,0} parameter(0), metadata={op_name="cache"}
  new = TYPE[SIZE,512]{1,0} iota(), iota_dimension=0
  ROOT t = (TYPE[SIZE,512]{1,0}) tuple(new)
}
"""


def _text(kind: str, size: int, header: str = "buffer_donor={ (0, {}) }") -> str:
    return UNUSED_STEP.replace("HEADER", header).replace("TYPE", kind).replace("SIZE", str(size))


@pytest.mark.parametrize(
    ("kind", "size", "reason", "fix", "saved"),
    [
        ("f32", 512, "element type differs: bf16, in output {0} f32", "cast the new", 512 << 10),
        ("bf16", 256, "no output has its shape", "return the new value of cache", None),
    ],
)
def test_the_reason_is_in_the_message(
    kind: str, size: int, reason: str, fix: str, saved: int | None
) -> None:
    (found,) = findings_of(_text(kind, size), "M002")
    assert found.message == (
        f"argument cache (512.0KiB) is donated, but its memory is not reused: {reason}"
    )
    assert found.fix.startswith(fix)
    assert found.saves.bytes == saved


def test_a_donation_that_is_used_has_no_finding() -> None:
    assert findings_of(_text("bf16", 512, "input_output_alias={ {0}: (0, {}) }"), "M002") == ()


def test_an_alias_that_xla_dropped() -> None:
    before = _text("bf16", 512, "input_output_alias={ {0}: (0, {}) }")
    (found,) = findings_of(_text("bf16", 512, "replica_count=1"), "M002", before)
    assert found.message.endswith("requested for {0}, not in XLA's text")


@pytest.mark.parametrize(
    ("stage", "count"), [("after_spmd_partitioner", 0), ("sm_9.0a_gpu_after_optimizations", 1)]
)
def test_a_stage_before_the_last_does_not_show_whether_donations_are_used(
    stage: str, count: int, tmp_path: Path
) -> None:
    text = _text("bf16", 512).replace(" is_scheduled=true,", "")
    (tmp_path / f"module_0001.jit_step.{stage}.txt").write_text(text)
    assert len(hlo_lens.lint(tmp_path, select=["M002"]).findings) == count


_BEFORE = f"""HloModule jit_step, num_partitions=8, {SDY}, DONOR

ENTRY main {{
  k = f32[256,64]{{1,0}} parameter(0), ENTERS, metadata={{op_name="cache['k']"}}
  v = f32[256,64]{{1,0}} parameter(1), ENTERS, metadata={{op_name="cache['v']"}}
  x = f32[1,64]{{1,0}} parameter(2), sharding={{replicated}}, metadata={{op_name="x"}}
  z = s32[] constant(0)
  k2 = f32[256,64]{{1,0}} dynamic-update-slice(k, x, z, z)
  v2 = f32[256,64]{{1,0}} dynamic-update-slice(v, x, z, z)
  ROOT t = (f32[256,64]{{1,0}}, f32[256,64]{{1,0}}) tuple(k2, v2), sharding={{LEAVES, LEAVES}}
}}
"""
_AFTER = """HloModule jit_step, is_scheduled=true, num_partitions=8, DONOR

ENTRY main_spmd {
  k = f32[256,IN]{1,0} parameter(0), metadata={op_name="cache['k']"}
  v = f32[256,IN]{1,0} parameter(1), metadata={op_name="cache['v']"}
  x = f32[1,64]{1,0} parameter(2), metadata={op_name="x"}
  k2 = f32[256,OUT]{1,0} custom-call(k, x), custom_call_target="f"
  v2 = f32[256,OUT]{1,0} custom-call(v, x), custom_call_target="f"
  ROOT t = (f32[256,OUT]{1,0}, f32[256,OUT]{1,0}) tuple(k2, v2)
}
"""
_WHOLE = "sharding={replicated}"


def _step(enters: str, leaves: str, *, is_donated: bool) -> tuple[str, str]:
    """Return a step that overwrites a part of a cache, after and before optimizations."""
    donor = "buffer_donor={ (0, {}), (1, {}) }" if is_donated else "replica_count=1"
    before = _BEFORE.replace("ENTERS", enters).replace("LEAVES", leaves.removeprefix("sharding="))
    sizes = ("64" if enters == _WHOLE else "16"), ("64" if leaves == _WHOLE else "16")
    after = _AFTER.replace("IN]", f"{sizes[0]}]").replace("OUT", sizes[1])
    return after.replace("DONOR", donor), before.replace("DONOR", donor)


@pytest.mark.parametrize("is_donated", [True, False])
def test_an_argument_gets_the_sharding_of_the_result_that_replaces_it(is_donated: bool) -> None:
    after, before = _step(_WHOLE, V2_MODEL, is_donated=is_donated)
    (found,) = findings_of(after, "M002", before)
    lost = "its donation is lost" if is_donated else "its memory cannot be reused"
    assert found.message == (
        f"cache (2 arrays) enters P() and leaves P(None, 'model'): {lost} (128.0KiB)"
    )
    assert found.fix.startswith("in_shardings of cache (2 arrays): P() -> P(None, 'model')")
    assert found.severity is Severity.WARNING
    changes = [f"{one.kind} {one.target}" for one in found.changes]
    assert changes[-1] == "shard cache['**']=P(None, 'model')"
    assert changes[:-1] == ([] if is_donated else ["donate cache['**']"])  # JAX dropped it
    values = {value for one in findings_of(after, "M003", before) for value in one.values}
    assert not {"cache['k']", "result{0}"} & values


def test_a_result_that_is_whole_gets_the_sharding_of_the_argument() -> None:
    after, before = _step(V2_MODEL, _WHOLE, is_donated=True)
    (found,) = findings_of(after, "M002", before)
    assert found.fix.startswith("out_shardings of result{0}, result{1}: P() -> P(None, 'model')")
    targets = [one.target for one in found.changes]
    assert targets == ["result{0}=P(None, 'model')", "result{1}=P(None, 'model')"]


def test_the_memory_of_an_argument_may_be_that_of_another_result() -> None:
    """JAX pairs donated arguments and results by shape and sharding, in their order."""
    after, before = _step(_WHOLE, V2_MODEL, is_donated=False)
    alias = "input_output_alias={ {1}: (0, {}, may-alias) }"
    texts = [one.replace("replica_count=1", alias) for one in (after, before)]
    (found,) = findings_of(texts[0], "M002", texts[1])
    assert found.message.startswith("cache['k'] enters P() and leaves P(None, 'model')")
    assert [one.target for one in found.changes] == ["cache['k']=P(None, 'model')"]


# ---- M005: donated and carried values that are copied --------------------------------------------


COPIES_STEP = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY main {
  x = f32[1024,1024]{1,0} parameter(0), metadata={op_name="state"}
  c = f32[1024,1024]{1,0} copy(x)
  a = f32[1024,1024]{1,0} negate(c)
  d = f32[1024,1024]{1,0} subtract(a, x)
  ROOT t = (f32[1024,1024]{1,0}, f32[1024,1024]{1,0}) tuple(a, d)
}
"""
BODY = """w = f32[SIZE]{0} copy(v)
  s = f32[8]{0} slice(k), slice={[0:8]}
  d = f32[SIZE]{0} dynamic-update-slice(w, s, i)
  r = f32[SIZE]{0} add(d, v)"""


def test_a_copy_of_a_donated_argument_is_found() -> None:
    (found,) = findings_of(COPIES_STEP, "M005")
    assert found.message == "donated argument state is copied whole (4.00MiB)"
    assert found.values == ("c",)
    assert found.evidence == ()


def test_a_copy_that_only_the_order_asks_for_has_no_finding() -> None:
    assert findings_of(COPIES_STEP.replace("subtract(a, x)", "negate(x)"), "M005") == ()


NEEDED = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }

ENTRY main {
  x = f32[1024,1024]{1,0} parameter(0), metadata={op_name="state"}
  c = f32[1024,1024]{1,0} copy(x)
  n = f32[1024,1024]{1,0} dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[1024,1024]{1,0} subtract(n, c)
  v = f32[8,1024]{1,0} slice(s), slice={[0:8], [0:1024]}
  ROOT t = (f32[1024,1024]{1,0}, f32[8,1024]{1,0}) tuple(n, v)
}
"""


def test_a_copy_at_the_peak_that_the_program_needs_is_a_warning() -> None:
    (found,) = findings_of(NEEDED, "M005")
    assert (found.severity, found.saves.bytes) == (Severity.WARNING, 4 << 20)
    assert findings_of(NEEDED.replace("subtract(n, c)", "negate(c)"), "M005") == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", input_output_alias={ {0}: (0, {}, may-alias) }", ""),
        ("c = f32[1024,1024]{1,0} copy", "c = f32[1024,1024]{0,1} copy"),
        ("1024,1024", "128,128"),
    ],
)
def test_other_copies_have_no_finding(old: str, new: str) -> None:
    assert findings_of(COPIES_STEP.replace(old, new), "M005") == ()


def test_a_carried_value_that_each_iteration_copies_is_found() -> None:
    (found,) = findings_of(looped(BODY, size=1 << 20, trips=4), "M005")
    assert found.message == "element 1 that loop carries is copied whole (4.00MiB)"
    assert found.severity in (Severity.INFO, Severity.WARNING)


def test_a_loop_without_copies_has_no_finding() -> None:
    body = BODY.replace("copy", "negate")
    assert findings_of(looped(body, size=1 << 20, trips=4), "M005") == ()
