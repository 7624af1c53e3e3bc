"""Parameters and outputs over devices, replicated bytes, donation, annotations."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.analysis.sharding.results import ShardingResults, sharding_results
from hlo_lens.model.dump import ModuleDump, given
from hlo_lens.model.shapes.mesh import Mesh
from hlo_lens.text.dump_kinds import DumpKind
from tests.corpus import SAMPLES

SDY = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=2, "model"=4]>}}'
ON_MODEL = 'frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\\"model\\"}]>"}'
V2_MODEL = "sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"

BEFORE = f"""HloModule jit_f, num_partitions=8, {SDY}

ENTRY main {{
  w = f32[8,64]{{1,0}} parameter(0), {V2_MODEL}, {ON_MODEL}, metadata={{op_name="w"}}
  x = f32[6,64]{{1,0}} parameter(1), sharding={{replicated}}, metadata={{op_name="x"}}
  y = f32[8,64]{{1,0}} negate(w)
  ROOT t = (f32[8,64]{{1,0}}, f32[6,64]{{1,0}}) tuple(y, x), \
sharding={{{{replicated}}, {{replicated}}}}
}}
"""

AFTER = """HloModule jit_f, is_scheduled=true, num_partitions=8

ENTRY main_spmd {
  w = f32[8,16]{1,0} parameter(0), metadata={op_name="w"}
  x = f32[6,64]{1,0} parameter(1), metadata={op_name="x"}
  y = f32[8,16]{1,0} negate(w)
  ROOT t = (f32[8,16]{1,0}, f32[6,64]{1,0}) tuple(y, x)
}
"""


def results_of(after: str, before: str | None = None, mesh: Mesh | None = None) -> ShardingResults:
    dump = ModuleDump(
        name="m",
        kind=DumpKind.HLO,
        module_text=given(hlo_lens.parse_hlo(after)),
        before_text=None if before is None else given(hlo_lens.parse_hlo(before)),
    )
    results = sharding_results(dump, mesh)
    assert results is not None
    return results


def brief(results: ShardingResults) -> list[tuple[object, ...]]:
    """Return name, global and device sizes, spec, source and copies of each value."""
    return [
        (
            value.value.name,
            value.global_shape.dimensions if value.global_shape else None,
            value.device_shape.dimensions if value.device_shape else None,
            value.spec,
            value.source,
            value.replication_factor,
        )
        for value in results.table.values
    ]


def test_shardings_and_global_shapes_come_from_before_optimizations() -> None:
    assert brief(results_of(AFTER, BEFORE))[:2] == [
        ("w", (8, 64), (8, 16), (None, "model"), "before_optimizations", 2),
        ("x", (6, 64), (6, 64), (), "before_optimizations", 8),
    ]


def test_sharding_that_does_not_fit_the_shapes_is_not_what_xla_did() -> None:
    # replicated was asked for; the shapes say divided by 4, which model alone can do
    assert brief(results_of(AFTER, BEFORE))[2] == (
        "y", (8, 64), (8, 16), (None, "model"), "shapes", 2
    )  # fmt: skip


def test_text_from_before_is_computed_forward() -> None:
    assert brief(results_of(BEFORE))[0] == ("w", (8, 64), (8, 16), (None, "model"), "text", 2)


def test_without_shardings_nothing_is_known_but_the_device() -> None:
    results = results_of(AFTER)
    assert brief(results)[0] == ("w", None, (8, 16), None, None, None)


def test_global_shape_without_a_text_of_it_is_an_upper_bound() -> None:
    after = AFTER.replace("parameter(0),", f"parameter(0), {V2_MODEL},")
    (value, *_) = results_of(after, mesh=Mesh.of({"data": 2, "model": 4})).table.values
    assert value.global_shape is not None
    assert (value.global_shape.dimensions, value.is_upper_bound) == ((8, 64), True)
    assert value.spec == (None, "model")


def test_uneven_tiles_are_rounded_up() -> None:
    text = BEFORE.replace("f32[8,64]", "f32[8,63]")
    (value, *_) = results_of(text).table.values
    assert value.device_shape is not None
    assert value.device_shape.dimensions == (8, 16)
    assert (value.global_bytes, value.device_bytes) == (8 * 63 * 4, 8 * 16 * 4)


def test_given_mesh_names_the_axes() -> None:
    results = results_of(AFTER, BEFORE, Mesh.of({"a": 2, "b": 4}))
    assert brief(results)[0][3] == (None, "b")


def test_aliased_output_lies_as_its_parameter() -> None:
    header = "num_partitions=8, input_output_alias={ {0}: (0, {}, may-alias) }"
    after = AFTER.replace("num_partitions=8", header).replace(
        "parameter(0),", f"parameter(0), {V2_MODEL},"
    )
    results = results_of(after, mesh=Mesh.of({"data": 2, "model": 4}))
    assert brief(results)[2] == ("y", (8, 64), (8, 16), (None, "model"), "alias", 2)


def test_one_device_holds_everything() -> None:
    text = AFTER.replace(", num_partitions=8", "").replace("main_spmd", "main")
    results = results_of(text)
    assert brief(results)[0] == ("w", (8, 16), (8, 16), None, None, 1)
    assert results.replicated.replicated == ()


# ---- replicated bytes --------------------------------------------------------------------------


def test_only_axes_that_divide_a_dimension_save() -> None:
    found = results_of(AFTER, BEFORE).replicated
    savings = [(s.value.value.name, s.axis, s.dimensions, s.saved_bytes) for s in found.savings]
    assert ("x", "model", (1,), 6 * 64 * 4 * 3 // 4) in savings  # 6 rows are not 4 equal parts
    assert ("x", "data", (0, 1), 6 * 64 * 4 // 2) in savings
    assert [s for s in savings if s[0] == "w"] == [("w", "data", (0, 1), 8 * 16 * 4 // 2)]


def test_longest_dimension_is_named_first() -> None:
    found = results_of(AFTER, BEFORE).replicated
    assert {s.dimension for s in found.savings if s.value.value.name == "x"} == {1}


def test_savings_by_axis() -> None:
    found = results_of(AFTER, BEFORE).replicated
    model, data = found.by_axis.axes
    assert data[0] == "data"
    assert model == ("model", 2, 2 * 1536, 2 * 1152)  # x in and out


# ---- donation ----------------------------------------------------------------------------------

DONATION = """HloModule jit_f, is_scheduled=true, HEADER

ENTRY main {{
  a = {} parameter(0), metadata={{op_name="a"}}
  b = f32[4]{{0}} parameter(1), metadata={{op_name="b"}}
  r = f32[8,16]{{1,0}} iota(), iota_dimension=0
  ROOT t = (f32[8,16]{{1,0}}, f32[4]{{0}}) tuple(r, b)
}}
"""


SAME = "not donated; same shape, type and sharding"


def donated(shape: str, header: str, before: str | None = None) -> list[tuple[str, str, str]]:
    results = results_of(DONATION.format(shape).replace("HEADER", header), before)
    rows = results.donations.donations
    return [(str(d.value.value.name), d.status.value, d.reason) for d in rows]


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("f32[8,17]{1,0}", "no output has its shape"),
        ("bf16[8,16]{1,0}", "element type differs: bf16, in output {0} f32"),
        ("f32[8,16]{0,1}", "layout differs: {0,1}, in output {0} {1,0}"),
        ("f32[8,16]{1,0:S(5)}", "memory space differs: S(5), in output {0} S(0)"),
        ("f32[8,16]{1,0}", "output {0} fits, but XLA did not use it"),
    ],
)
def test_why_a_donated_argument_is_not_aliased(shape: str, reason: str) -> None:
    assert ("a", "donated, not used", reason) in donated(shape, "buffer_donor={ (0, {}) }")


def test_taken_output() -> None:
    header = "buffer_donor={ (0, {}) }, input_output_alias={ {1}: (1, {}, may-alias) }"
    found = donated("f32[4]{0}", header)
    assert found[0][2] == "all outputs of its shape are taken: {1} by parameter 1"


def test_sharding_that_differs() -> None:
    before = BEFORE.replace("num_partitions=8,", "num_partitions=8, buffer_donor={ (1, {}) },")
    after = AFTER.replace("num_partitions=8", "num_partitions=8, buffer_donor={ (1, {}) }")
    after = after.replace("f32[6,64]{1,0}) tuple", "f32[3,64]{1,0}) tuple")
    (found, *_) = results_of(after, before).donations.donations
    assert found.reason == "sharding differs: P(), in output {1} P('data',)"


def test_same_shape_and_type_could_be_donated() -> None:
    assert donated("f32[8,16]{1,0}", "replica_count=1") == [
        ("a", "could be donated", SAME),
        ("b", "could be donated", SAME),
    ]


def test_each_output_is_offered_once() -> None:
    header = "input_output_alias={ {0}: (0, {}, may-alias) }"
    assert donated("f32[8,16]{1,0}", header)[-1] == ("a", "aliased", "")


def test_alias_that_was_asked_for_and_is_gone() -> None:
    header = "input_output_alias={ {0}: (0, {}, may-alias) }"
    before = DONATION.format("f32[8,16]{1,0}").replace("HEADER", header)
    found = donated("f32[8,16]{1,0}", "replica_count=1", before)
    assert found[0][:2] == ("a", "alias lost")


# ---- annotations -------------------------------------------------------------------------------


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


# ---- where the text from before optimizations is found -----------------------------------------


@pytest.mark.parametrize("backend", ["cpu", "tpu", "gpu"])
def test_before_optimizations_is_found_from_folder_and_file(backend: str) -> None:
    folder = SAMPLES / backend / "wasteful"
    (file,) = folder.glob("*after_optimizations.txt")
    (early,) = folder.glob("*before_optimizations.txt")
    for path in (folder, file):
        (dump,) = hlo_lens.load(path).modules
        assert dump.before is not None
        assert dump.before.path == str(early)
    assert hlo_lens.load(early).modules[0].before is None
