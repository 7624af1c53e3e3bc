"""Roles of values in memory."""

from __future__ import annotations

import pytest

from hlo_lens.analysis.memory.role_names import ROLES
from hlo_lens.analysis.module_analysis import ModuleAnalysis
from hlo_lens.api.modules import modules_of
from tests.analysis.memory.train_step import ALIAS, TRAIN_STEP, analysis_of_text
from tests.corpus import SAMPLES


def _roles(text: str) -> dict[str, str]:
    found = analysis_of_text(text).memory_roles
    assert found is not None
    return {str(row[0]): str(row[1]) for row in found.rows()}


def test_arguments_have_their_roles_without_aliases_too() -> None:
    roles = _roles(TRAIN_STEP.replace(ALIAS, ""))
    found = [roles[f"{name}{{}}"] for name in ("w", "m", "x", "ids")]
    assert found == ["weights", "optimizer state", "inputs", "inputs"]


def test_roles_follow_from_the_flow_of_data() -> None:
    roles = _roles(TRAIN_STEP)
    assert roles["w{}"] == "weights"
    assert roles["m{}"] == "optimizer state"
    assert roles["x{}"] == "inputs"
    assert roles["ids{}"] == "inputs"
    assert roles["wt{}"] == "gathered weights"
    assert roles["h{}"] == "saved activations"
    assert roles["dw{}"] == "gradients"


def test_without_operation_paths_nothing_is_saved() -> None:
    roles = _roles(TRAIN_STEP.replace("transpose(", "backward("))
    assert roles["h{}"] == "temporaries"


def test_names_do_not_overrule_the_flow_of_data() -> None:
    roles = _roles(TRAIN_STEP.replace("params['w']", "opt_state.mu"))
    assert roles["w{}"] == "weights"


def test_without_replaced_arguments_weights_are_joined_with_computed_values() -> None:
    text = """HloModule infer, is_scheduled=true

ENTRY main {
  x = f32[64,64]{1,0} parameter(0)
  a = f32[64,64]{1,0} parameter(1)
  b = f32[64,64]{1,0} parameter(2)
  h = f32[64,64]{1,0} dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[64,64]{1,0} tanh(h)
  ROOT y = f32[64,64]{1,0} dot(t, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    assert _roles(text)["b{}"] == "weights"


def test_an_argument_with_a_part_overwritten_is_a_cache() -> None:
    text = """HloModule decode, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

ENTRY main {
  k = f32[64,64]{1,0} parameter(0)
  new = f32[1,64]{1,0} parameter(1)
  i = s32[] parameter(2)
  ROOT out = f32[64,64]{1,0} dynamic-update-slice(k, new, i, i)
}
"""
    assert _roles(text)["k{}"] == "caches"


@pytest.mark.parametrize("sample", ["cpu/tp_mlp", "gpu/fsdp_transformer", "tpu/fsdp_transformer"])
def test_roles_of_samples_follow_the_names_of_their_arguments(sample: str) -> None:
    (dump,) = (d for d in modules_of(str(SAMPLES / sample)) if "train_step" in d.name)
    analysis = ModuleAnalysis(dump)
    roles, memory = analysis.memory_roles, analysis.memory
    assert roles is not None
    assert memory is not None
    assert memory.peak is not None
    for value in memory.peak.live:
        name = memory.peak.origin_of(value).argument or ""
        if value.category != "argument":
            continue
        found = roles.of_value(value.value, value.allocation).role
        if "params[" in name:
            assert found == "weights"
        elif ".m[" in name or ".v[" in name:
            assert found == "optimizer state"
        elif name in ("x", "y", "tokens"):
            assert found == "inputs"


def test_every_role_has_evidence() -> None:
    found = analysis_of_text(TRAIN_STEP).memory_roles
    assert found is not None
    assert {role.role for role in found.values} <= set(ROLES)
    assert all(role.basis for role in found.values)


def test_parts_that_a_tpu_joins_on_chip_are_a_copy() -> None:
    text = """HloModule infer, is_scheduled=true

ENTRY main {
  x = f32[64,64]{1,0} parameter(0)
  z = f32[64,64]{1,0} parameter(1)
  a = f32[32,64]{1,0} slice(z), slice={[0:32], [0:64]}
  b = f32[32,64]{1,0} slice(z), slice={[32:64], [0:64]}
  c = f32[64,64]{1,0} custom-call(a, b), custom_call_target="ConcatBitcast"
  t = f32[64,64]{1,0} tanh(x)
  ROOT y = f32[64,64]{1,0} dot(t, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    assert _roles(text)["z{}"] == "weights"
    assert _roles(text.replace("ConcatBitcast", "Other"))["z{}"] == "other"
