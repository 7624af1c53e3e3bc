"""StableHLO as frameworks print it: signature, shardings, donation, counts of operations."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.hlo.lowered import parse_stablehlo

if TYPE_CHECKING:
    from pathlib import Path

SHARDY = """module @jit_f attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(%arg0: tensor<8x6xf32> {jax.buffer_donor = true, sdy.sharding = \
#sdy.sharding<@mesh, [{"x"}, {}]>} loc("state['w']"), %arg1: tensor<?xi1>, %arg2: \
tensor<4xcomplex<f32>> {tf.aliasing_output = 1 : i32}, %arg3: !stablehlo.token) -> \
(tensor<8x6xf32> {jax.result_info = "result[0]"}, tensor<4xcomplex<f32>>) {
    %0 = stablehlo.custom_call @Sharding(%arg0) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %1:2 = "stablehlo.all_gather"(%0, %0) <{all_gather_dim = 0 : i64}> : (tensor<8x6xf32>)
    %2 = func.call @inner(%1#0) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return %2, %arg2 : tensor<8x6xf32>, tensor<4xcomplex<f32>>
  }
  func.func private @inner(%arg0: tensor<8x6xf32>) -> tensor<8x6xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<8x6xf32>
    return %0 : tensor<8x6xf32>
  }
}
"""


def test_signature_and_operations_are_read() -> None:
    module = parse_stablehlo(SHARDY)
    assert (module.name, module.num_partitions, module.replica_count) == ("jit_f", 4, 1)
    assert str(module.meshes["mesh"]) == "mesh['x'=2,'y'=2]"
    assert module.arguments is not None
    assert module.results is not None
    assert [
        (str(one.shape), one.size_bytes, one.device_bytes, one.is_donated, one.output_number)
        for one in module.arguments
    ] == [
        ("f32[8,6]", 192, 96, True, None),
        ("pred[?]", None, None, False, None),
        ("c64[4]", 32, None, True, 1),
        ("None", None, None, False, None),
    ]
    assert [one.name for one in module.results] == ["result[0]", "result 1"]
    assert module.operations == Counter(
        ["stablehlo.custom_call", "stablehlo.all_gather", "func.call", "stablehlo.tanh"]
    )
    assert module.custom_calls == {"Sharding": 1}
    assert module.gaps == ()


def test_gspmd_shardings_are_read() -> None:
    sharding = 'mhlo.sharding = "{devices=[2,1]<=[2]}"'
    text = SHARDY.replace('sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>', sharding)
    (first, *_) = parse_stablehlo(text).arguments or ()
    assert (first.sharding_text, first.device_bytes) == ("{devices=[2,1]<=[2]}", 96)


def test_signature_that_cannot_be_read_is_a_gap_and_not_empty() -> None:
    module = parse_stablehlo(SHARDY.replace("%arg1: tensor", "%arg1 tensor"))
    assert (module.arguments, module.results) == (None, None)
    assert [(gap.line, "expected ':'" in gap.message) for gap in module.gaps] == [(3, True)]
    assert module.operations.total() == 4


def test_other_mlir_is_refused() -> None:
    with pytest.raises(hlo_lens.DumpSyntaxError, match="so it is not StableHLO"):
        parse_stablehlo("module {\n  tt.func @kernel() {\n  }\n}\n")


@pytest.fixture
def lowered(tmp_path: Path) -> str:
    file = tmp_path / "f.mlir"
    file.write_text(SHARDY)
    return str(file)


def test_report_prints_what_the_text_has(lowered: str) -> None:
    out = CliRunner(env={"COLUMNS": "120"}).invoke(main, ["report", lowered]).stdout
    assert "not compiled yet: no memory, no inserted collectives" in " ".join(out.split())
    assert "96B on each device" in " ".join(out.split())
    data = json.loads(CliRunner().invoke(main, ["report", lowered, "-f", "json"]).stdout)
    (module,) = data["modules"]
    assert module["memory"] is None
    assert module["collectives"] is None
    assert module["lowered"]["arguments"][0]["device_bytes"] == 96
    assert module["lowered"]["operations"]["stablehlo.tanh"] == 1


@pytest.mark.parametrize("command", ["memory", "collectives", "sharding", "loops", "tree"])
def test_other_commands_name_what_to_do(lowered: str, command: str) -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(main, [command, lowered])
    assert "lowered.compile().as_text()" in " ".join(result.output.split())


def test_a_program_of_jax_is_read_as_jax_knows_it() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")

    def step(weights: object, batch: object) -> tuple[object, object]:
        out = jax.numpy.dot(batch, weights)
        return weights, jax.lax.psum(out, ()).sum()

    types = (jax.ShapeDtypeStruct((16, 8), "bfloat16"), jax.ShapeDtypeStruct((4, 16), "bfloat16"))
    text = jax.jit(step, donate_argnums=(0,)).lower(*types).as_text()
    module = parse_stablehlo(text)
    assert module.arguments is not None
    assert [str(one.shape) for one in module.arguments] == ["bf16[16,8]", "bf16[4,16]"]
    assert [one.is_donated for one in module.arguments] == [True, False]
    assert module.operations["stablehlo.dot_general"] == 1
    assert module.gaps == ()
