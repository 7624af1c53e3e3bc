"""Placement of parameters and outputs."""

from __future__ import annotations

from hlo_lens.shapes.mesh import Mesh
from tests.questions.sharding.programs import AFTER, BEFORE, V2_MODEL, brief, results_of


def test_shardings_and_global_shapes_come_from_before_optimizations() -> None:
    assert brief(results_of(AFTER, BEFORE))[:2] == [
        ("w", (8, 64), (8, 16), (None, "model"), "before_optimizations", 2),
        ("x", (6, 64), (6, 64), (), "before_optimizations", 8),
    ]


def test_sharding_that_does_not_fit_the_shapes_is_ignored() -> None:
    # replicated was requested; the shapes are divided by 4, which only model can do
    assert brief(results_of(AFTER, BEFORE))[2] == (
        "y", (8, 64), (8, 16), (None, "model"), "shapes", 2
    )  # fmt: skip


def test_text_from_before_is_computed_forward() -> None:
    assert brief(results_of(BEFORE))[0] == ("w", (8, 64), (8, 16), (None, "model"), "text", 2)


def test_without_shardings_only_device_shapes_are_known() -> None:
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


def test_aliased_output_has_the_placement_of_its_parameter() -> None:
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
