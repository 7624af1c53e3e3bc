"""M001: arguments that could be donated."""

from __future__ import annotations

import pytest

from hlo_lens.questions.findings.finding import Remedy, SavingBasis, Severity
from tests.questions.findings.programs import findings_of

STEP = """HloModule jit_step, is_scheduled=true, ALIAS

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
    text = STEP.replace("ALIAS", "replica_count=1")
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
    text = STEP.replace("ALIAS", "replica_count=1").replace("negate(w)", product)
    (found,) = findings_of(text.replace("exponential(m)", product), "M001")
    assert found.severity is Severity.INFO
    assert found.evidence[0].startswith("no result is an update of it")


def test_arrays_of_one_argument_are_one_finding_at_the_line_that_calls_the_function() -> None:
    (found,) = findings_of(STEP.replace("ALIAS", "replica_count=1"), "M001")
    assert found.message == "argument state (2 of 2 arrays, 2.00MiB) is not donated"
    assert found.fix == 'jax.jit(step, donate_argnames=("state",))'
    assert (found.source_file, found.source_line) == ("/home/me/train.py", 40)
    assert (found.saves.bytes, found.saves.basis) == (2 << 20, SavingBasis.UP_TO)
    assert found.severity is Severity.WARNING
    assert found.values == ("state['w']", "state['m']")
    assert found.changes == (Remedy(kind="donate", target="state"),)


def test_donated_arguments_have_no_finding() -> None:
    assert findings_of(STEP.replace("ALIAS", ALIASED), "M001") == ()


def test_arguments_without_a_name_are_named_by_position() -> None:
    text = STEP.replace("ALIAS", "replica_count=1").replace("state[", "args[0][")
    (found,) = findings_of(text, "M001")
    assert found.fix == "jax.jit(step, donate_argnums=(0,))"


UNNAMED = STEP.replace("ALIAS", "replica_count=1").replace("m = f32", "param = f32")
UNNAMED = UNNAMED.replace("(m)", "(param)").replace(", metadata={op_name=\"state['m']\"}", "")


def test_the_name_of_an_instruction_is_no_name_of_an_argument() -> None:
    found = {one.values: one.fix for one in findings_of(UNNAMED, "M001")}
    assert found[("state['w']",)] == 'jax.jit(step, donate_argnames=("state",))'
    assert found[("param",)] == (
        "jax.jit(step, donate_argnums=...) with the argument that is parameter 1 of the program "
        "(param)"
    )


def test_a_name_that_two_parameters_share_is_none() -> None:
    text = STEP.replace("ALIAS", "replica_count=1")
    for name in ("state['w']", "state['m']"):
        text = text.replace(f'"{name}"', '"XLA_Args"')
    assert {one.values for one in findings_of(text, "M001")} == {("w",), ("m",)}


@pytest.mark.parametrize("name", ["jit", "jit_"])
def test_a_module_without_the_name_of_its_function_has_dots_for_it(name: str) -> None:
    text = STEP.replace("ALIAS", "replica_count=1").replace("jit_step", name)
    (found,) = findings_of(text, "M001")
    assert found.fix == 'jax.jit(..., donate_argnames=("state",))'


def test_pmap_takes_positions() -> None:
    (found,) = findings_of(
        STEP.replace("ALIAS", "replica_count=8").replace("jit_step", "pmap_step"), "M001"
    )
    assert found.fix == "jax.pmap(step, donate_argnums=...) with the position of state"


def test_programs_of_other_frameworks_are_not_jitted() -> None:
    found = findings_of(UNNAMED.replace("jit_step", "SyncTensorsGraph.117"), "M001")
    assert {one.fix for one in found} == {
        "alias parameter 0 of the program (state) with its result when the program is compiled",
        "alias parameter 1 of the program (param) with its result when the program is compiled",
    }


def test_a_text_without_stacks_has_no_line() -> None:
    head, _, rest = STEP.replace("ALIAS", "replica_count=1").partition("FileNames")
    entry = rest[rest.index("ENTRY") :].replace(" stack_frame_id=2", "")
    (found,) = findings_of(head + entry.replace(" stack_frame_id=3", ""), "M001")
    assert found.source is None


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
