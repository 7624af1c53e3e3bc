"""Roles of values in memory."""

from __future__ import annotations

import pytest

from hlo_lens.load.programs import modules_of
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.roles import ROLES, memory_roles
from tests.corpus import SAMPLES
from tests.questions.memory.train_step import ALIAS, TRAIN_STEP, analysis_of_text


def _roles(text: str) -> dict[str, str]:
    found = memory_roles(analysis_of_text(text))
    assert found is not None
    return {v.name: r.role for v, r in zip(found.layout.values, found.values, strict=True)}


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
    assert roles["wt{}"] == "copies of weights"
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
    roles, memory = memory_roles(dump), memory_results(dump)
    assert roles is not None
    assert memory is not None
    assert memory.peak is not None
    for value in memory.peak.live:
        name = memory.peak.origin_of(value).argument or ""
        if value.category != "argument":
            continue
        found = roles.of_live(value)
        if "params[" in name:
            assert found == "weights"
        elif ".m[" in name or ".v[" in name:
            assert found == "optimizer state"
        elif name in ("x", "y", "tokens"):
            assert found == "inputs"


def test_every_role_has_evidence() -> None:
    found = memory_roles(analysis_of_text(TRAIN_STEP))
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


def test_a_kernel_leaves_the_role_open_unless_the_name_shows_it() -> None:
    text = """HloModule jit_step, is_scheduled=true, \
input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }

ENTRY main {
  a = f32[64,64]{1,0} parameter(0), metadata={op_name="ws[0]"}
  b = f32[64,64]{1,0} parameter(1), metadata={op_name="opt.mu"}
  k = f32[64,64]{1,0} custom-call(a, b), custom_call_target="tpu_custom_call"
  c = f32[64,64]{1,0} add(a, k)
  d = f32[64,64]{1,0} multiply(b, k)
  ROOT t = (f32[64,64]{1,0}, f32[64,64]{1,0}) tuple(c, d)
}
"""
    roles = _roles(text)
    assert (roles["a{}"], roles["b{}"]) == ("other", "optimizer state")
    elementwise = text.replace(
        'custom-call(a, b), custom_call_target="tpu_custom_call"', "add(a, b)"
    )
    assert _roles(elementwise)["a{}"] == "optimizer state"


def test_a_gather_that_a_sparse_core_runs_makes_weights() -> None:
    text = """HloModule jit_step, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

inner {
  p = f32[64,8]{1,0} parameter(0)
  i = s32[4]{0} parameter(1)
  ROOT g = f32[4,8]{1,0} gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, \
start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
}

outer {
  q = f32[64,8]{1,0} parameter(0)
  j = s32[4]{0} parameter(1)
  ROOT k = f32[4,8]{1,0} custom-call(q, j), custom_call_target="TODO", called_computations={inner}
}

ENTRY main {
  tab = f32[64,8]{1,0} parameter(0)
  ids = s32[4]{0} parameter(1)
  s = ((), (), (s32[8]{0})) async-start(), async_execution_thread="sparsecore", calls=outer
  u = ((f32[64,8]{1,0}, s32[4]{0}), f32[4,8]{1,0}, (s32[8]{0})) async-update(s, tab, ids)
  d = f32[4,8]{1,0} async-done(u)
  n = f32[8]{0} custom-call(d), custom_call_target="sum"
  b = f32[64,8]{1,0} broadcast(n), dimensions={1}
  ROOT t = f32[64,8]{1,0} subtract(tab, b)
}
"""
    assert _roles(text)["tab{}"] == "weights"
    opaque = text.replace(", called_computations={inner}", "")
    assert _roles(opaque)["tab{}"] == "optimizer state"


def test_weights_of_a_decoding_step_are_no_inputs() -> None:
    text = """HloModule decode, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

ENTRY main {
  c = f32[64,64]{1,0} parameter(0)
  e = f32[64,64]{1,0} parameter(1)
  h = f32[64]{0} parameter(2)
  i = s32[] constant(0)
  t = f32[64]{0} tanh(h)
  d = f32[64]{0} dot(t, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  r = f32[1,64]{1,0} bitcast(d)
  ROOT u = f32[64,64]{1,0} dynamic-update-slice(c, r, i, i)
}
"""
    roles = _roles(text)
    assert (roles["c{}"], roles["e{}"]) == ("caches", "weights")


FROZEN = """HloModule step, is_scheduled=true, input_output_alias={ {}: (0, {}, may-alias) }

ENTRY main {
  a = f32[64,64]{1,0} parameter(0), metadata={op_name="lora['a']"}
  f = f32[64,64]{1,0} parameter(1), metadata={op_name="base[0]['f']"}
  g = f32[64,64]{1,0} parameter(2), metadata={op_name="base[1]['g']"}
  z = f32[64,64]{1,0} parameter(3), metadata={op_name="z"}
  h = f32[64,64]{1,0} dot(z, f), DIMS, metadata={op_name="jit(step)/jvp()/dot_general"}
  t = f32[64,64]{1,0} tanh(h)
  l = f32[64,64]{1,0} dot(t, a), DIMS, metadata={op_name="jit(step)/jvp()/dot_general"}
  y = f32[64,64]{1,0} dot(l, g), DIMS, metadata={op_name="jit(step)/jvp()/dot_general"}
  d = f32[64,64]{1,0} dot(y, g), DIMS, metadata={op_name="jit(step)/transpose(jvp())/dot_general"}
  e = f32[64,64]{1,0} dot(z, d), DIMS, metadata={op_name="jit(step)/transpose(jvp())/dot_general"}
  ROOT n = f32[64,64]{1,0} add(a, e)
}
""".replace("DIMS", "lhs_contracting_dims={1}, rhs_contracting_dims={0}")


def test_frozen_weights_of_a_training_step_are_no_inputs() -> None:
    roles = _roles(FROZEN)
    found = [roles[f"{name}{{}}"] for name in ("a", "f", "g", "z")]
    assert found == ["weights", "weights", "weights", "inputs"]


def test_an_accumulator_of_a_weight_is_optimizer_state() -> None:
    roles = _roles(TRAIN_STEP.replace('op_name="a1"', "op_name=\"state.acc['w']\""))
    assert roles["m{}"] == "optimizer state"


def test_quantized_weights_are_no_inputs() -> None:
    text = """HloModule serve, is_scheduled=true

ENTRY main {
  x = f32[8,64]{1,0} parameter(0)
  q = s8[64,64]{1,0} parameter(1)
  i = s32[8]{0} parameter(2)
  t = s8[8,64]{1,0} convert(x)
  n = s8[8,64]{1,0} negate(t)
  d = s32[8,64]{1,0} dot(n, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = s32[8,64]{1,0} broadcast(i), dimensions={0}
  ROOT s = s32[8,64]{1,0} add(d, b)
}
"""
    roles = _roles(text)
    assert (roles["q{}"], roles["i{}"]) == ("weights", "inputs")
