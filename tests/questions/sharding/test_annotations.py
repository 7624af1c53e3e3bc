"""Sharding annotations inside a program, and shardings by form."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.shapes.mesh import Mesh
from tests.corpus import SAMPLES
from tests.questions.sharding.programs import brief, results_of


@pytest.mark.parametrize("backend", ["cpu", "tpu", "gpu"])
def test_shard_map_is_found_with_its_axes(backend: str) -> None:
    (dump,) = hlo_lens.load(SAMPLES / backend / "shard_map_collectives").modules
    results = sharding_results(dump)
    assert results is not None
    found = {a.annotation: a for a in results.annotations.annotations}
    assert found["xla.sdy.GlobalToLocalShape"].spec == "P(('data', 'model'),), P(), P()"
    assert found["xla.sdy.LocalToGlobalShape"].spec == "P(('data', 'model'),)"


def test_constraints_have_a_source_line() -> None:
    (dump,) = hlo_lens.load(SAMPLES / "cpu" / "fsdp_transformer").modules
    results = sharding_results(dump)
    assert results is not None
    counts = results.annotations.counts()
    assert counts["Sharding"] == 18
    constraint = next(a for a in results.annotations.annotations if a.annotation == "Sharding")
    assert constraint.source is not None
    assert constraint.source.startswith("programs/fsdp_transformer.py:")


GSPMD = """HloModule jit_f, num_partitions=4

shmap_body.1 {
  ROOT p = f32[2]{0} parameter(0)
}

ENTRY main {
  x = f32[8]{0} parameter(0), sharding={devices=[4]<=[4]}
  s = f32[8]{0} custom-call(x), custom_call_target="Sharding", sharding={devices=[4]<=[4]}
  l = f32[2]{0} custom-call(s), custom_call_target="SPMDFullToShardShape", sharding={manual}
  c = f32[2]{0} call(l), to_apply=shmap_body.1
  ROOT g = f32[8]{0} custom-call(c), custom_call_target="SPMDShardToFullShape", \
sharding={devices=[4]<=[4]}
}
"""


def test_shard_map_of_gspmd() -> None:
    results = results_of(GSPMD, mesh=Mesh.of({"x": 4}))
    assert [(a.annotation, a.spec) for a in results.annotations.annotations] == [
        ("shard_map body", None),
        ("Sharding", "P('x',)"),
        ("SPMDFullToShardShape", None),
        ("SPMDShardToFullShape", "P('x',)"),
    ]
    assert brief(results)[1] == ("g", (8,), (2,), ("x",), "text", 1)
