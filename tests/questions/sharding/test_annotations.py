"""Sharding annotations inside a program, and shardings by form."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.questions.sharding.annotations import sharding_forms
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.shapes.mesh import Mesh
from tests.corpus import SAMPLES
from tests.questions.sharding.programs import brief, results_of
from tests.questions.texts import LOOP, entry_module, module_of


@pytest.mark.parametrize("backend", ["cpu", "tpu", "gpu"])
def test_shard_map_is_found_with_its_axes(backend: str) -> None:
    (dump,) = hlo_lens.load(SAMPLES / backend / "shard_map_collectives").modules
    results = sharding_results(dump)
    assert results is not None
    found = {a.annotation: a for a in results.annotations.annotations}
    assert found["shard_map body"].manual_axes == "data, model"
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


def test_forms_are_counted_with_an_example() -> None:
    result = sharding_forms(module_of(LOOP))
    assert result.forms == (
        ("replicated", 2, 1, "{replicated}", "b"),
        ("v2-iota", 1, 1, "{devices=[4,1]<=[4]}", "w"),
    )
    assert result.unsharded == 15


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("{replicated}", "replicated"),
        ("{manual}", "manual"),
        ("{maximal device=1}", "maximal"),
        ("{devices=[2,2]0,1,2,3}", "v1-list"),
        ("{devices=[2,1,2]<=[4] last_tile_dims={replicated}}", "v2-iota"),
        ("{mesh['a'=2,'b'=2], [{'a'}, {'b'}]}", "v3-named"),
        ('{devices=[2,2]<=[4] metadata={op_name="f{x}"}}', "v2-iota"),
    ],
)
def test_each_spelling_has_its_form(text: str, form: str) -> None:
    line = f'  ROOT x = f32[4,4]{{1,0}} parameter(0), sharding={text}, metadata={{op_name="x"}}'
    assert [(row[0], row[3]) for row in sharding_forms(entry_module(line)).forms] == [(form, text)]


def test_tuple_sharding_is_one_form() -> None:
    module = entry_module(
        "  x = f32[4] parameter(0)\n"
        "  ROOT t = (f32[4], f32[4]) tuple(x, x), sharding={{replicated}, {devices=[2]<=[2]}}"
    )
    assert [row[:2] for row in sharding_forms(module).forms] == [("tuple", 1)]


def test_sharding_inside_a_string_is_none() -> None:
    module = entry_module(
        '  ROOT x = f32[4] parameter(0), metadata={op_name="f, sharding={replicated}"}'
    )
    assert sharding_forms(module).forms == ()


def test_sharding_after_a_string_is_found() -> None:
    module = entry_module(
        "  x = f32[4] parameter(0)\n"
        '  ROOT y = f32[4] custom-call(x), custom_call_target="Sharding", sharding={replicated}'
    )
    assert [row[:2] for row in sharding_forms(module).forms] == [("replicated", 1)]
