"""Programs of the jax that is installed: text, names, shardings, memory."""

from __future__ import annotations

import importlib
import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import hlo_lens
from hlo_lens.hlo.module import Framework
from hlo_lens.program.signature import entry_signature
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.report.page import report_modules
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.render.table import RenderOptions
from hlo_lens.render.to_json import render_json
from hlo_lens.testing import assert_collectives
from hlo_lens.text.errors import MissingDumpError, UsageError
from tests.load.jax import programs
from tests.load.jax.programs import abstract  # which skips where there is no jax

import jax  # isort: skip
import jax.numpy as jnp  # isort: skip
from jax.sharding import PartitionSpec as P  # isort: skip

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump

KERNEL = "params['layer_0']['kernel']"
BIAS = "params['layer_0']['bias']"


@pytest.fixture(scope="module")
def mesh() -> Any:
    return programs.mesh()


@pytest.fixture(scope="module")
def lowered(mesh: Any) -> Any:
    return programs.lowered(mesh)


@pytest.fixture(scope="module")
def compiled(lowered: Any) -> Any:
    return lowered.compile()


@pytest.fixture(scope="module")
def dump(compiled: Any) -> ModuleDump:
    return hlo_lens.from_compiled(compiled)


def framework_of(dump: ModuleDump) -> Framework:
    assert dump.framework is not None
    return dump.framework


def shardings_of(dump: ModuleDump) -> dict[str, tuple[str | None, str | None]]:
    """Return spec and source of each value by name."""
    found = sharding_results(dump)
    assert found is not None
    return {str(v.value.name): (v.spec_text, v.source) for v in found.table.values}


def test_the_text_is_that_of_the_compile(compiled: Any, dump: ModuleDump) -> None:
    assert dump.hlo == hlo_lens.parse_hlo(compiled.as_text())
    assert (dump.name, dump.stage, dump.hlo.is_scheduled) == (
        "jit_train_step",
        "cpu_after_optimizations",
        True,
    )


def test_parameters_have_the_paths_of_the_arguments(dump: ModuleDump) -> None:
    assert dump.hlo is not None
    signature = entry_signature(dump)
    assert [value.name for value in signature.parameters] == [BIAS, KERNEL, "x", "scale"]


def test_arguments_that_the_program_does_not_use_have_no_parameter(dump: ModuleDump) -> None:
    framework = framework_of(dump)
    assert [(v.name, v.number) for v in framework.arguments] == [
        (BIAS, 0),
        (KERNEL, 1),
        ("params['spare']", None),
        ("x", 2),
        ("scale", 3),
    ]
    assert [value.name for value in framework.unused] == ["params['spare']"]


def test_donated_arguments_are_known(dump: ModuleDump) -> None:
    donated = [value.name for value in framework_of(dump).arguments if value.is_donated]
    assert donated == [BIAS, KERNEL, "params['spare']"]


def test_results_have_their_paths_and_places(dump: ModuleDump) -> None:
    outputs = framework_of(dump).outputs
    assert [(v.name, v.index) for v in outputs] == [
        ("result[0]['bias']", (0,)),
        ("result[0]['kernel']", (1,)),
        ("result[1]", (2,)),
    ]


def test_mesh_axes_are_those_of_the_arguments(dump: ModuleDump) -> None:
    assert [
        dict(zip(m.axis_names, m.axis_sizes, strict=True)) for m in framework_of(dump).meshes
    ] == [{"data": 4, "model": 2}]
    assert dump.hlo is not None
    found = collectives(dump)
    assert found.collectives
    assert {axis for one in found.collectives for axis in one.axes or ("?",)} <= {"data", "model"}
    assert any(one.axes == ("data",) for one in found.collectives)


def test_specs_and_global_shapes_are_those_of_the_arguments(dump: ModuleDump) -> None:
    specs = shardings_of(dump)
    assert specs[KERNEL] == ("P(None, 'model')", "arguments")
    assert specs["x"] == ("P('data',)", "arguments")
    found = sharding_results(dump)
    assert found is not None
    kernel = next(v for v in found.table.parameters if v.value.name == KERNEL)
    assert kernel.global_shape is not None
    assert (kernel.global_shape.dimensions, kernel.is_upper_bound) == ((64, 128), False)
    assert kernel.device_shape is not None
    assert kernel.device_shape.dimensions == (64, 64)


def test_results_of_one_device_shape_lie_as_the_framework_tells_of_each(mesh: Any) -> None:
    args = (abstract(mesh, (8, 8), "data"), abstract(mesh, (2, 8)))
    compiled = jax.jit(lambda a, b: (a + 1, b + 1)).lower(*args).compile()
    found = sharding_results(hlo_lens.from_compiled(compiled))
    assert found is not None
    assert [
        (v.global_shape and v.global_shape.dimensions, v.spec_text) for v in found.table.outputs
    ] == [
        ((8, 8), "P('data',)"),
        ((2, 8), "P()"),
    ]


def test_devices_of_a_mesh_are_places_in_the_assignment() -> None:
    turned = programs.mesh(reverse=True)
    dump = hlo_lens.from_compiled(programs.lowered(turned).compile())
    assert shardings_of(dump)[KERNEL] == ("P(None, 'model')", "arguments")
    assert dump.hlo is not None
    assert any(one.axes == ("data",) for one in collectives(dump).collectives)


def test_the_memory_statement_is_that_of_memory_analysis(compiled: Any, dump: ModuleDump) -> None:
    stats = compiled.memory_analysis()
    results = memory_results(dump)
    assert results is not None
    statement = results.statement
    assert statement.mismatches == ()
    assert (
        statement.argument_bytes,
        statement.output_bytes,
        statement.alias_bytes,
        statement.temp_bytes,
    ) == (
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
        stats.alias_size_in_bytes,
        stats.temp_size_in_bytes,
    )


def test_a_mismatch_with_memory_analysis_says_both_numbers(compiled: Any) -> None:
    dump = hlo_lens.from_compiled(compiled)
    told = framework_of(dump).memory
    wrong = {**told, "temp_size_in_bytes": told["temp_size_in_bytes"] + 8}
    other = replace(dump, framework=Framework(name="jax", backend="cpu", memory=wrong))
    results = memory_results(other)
    assert results is not None
    ours = told["temp_size_in_bytes"]
    (mismatch,) = results.statement.mismatches
    assert (mismatch.name, mismatch.ours, mismatch.theirs) == ("temp_size_in_bytes", ours, ours + 8)
    notes = [
        note for section in report_modules([other], is_full=True).pages for note in section.notes
    ]
    assert any(f"{ours:,}" in note and f"{ours + 8:,}" in note for note in notes)


def test_the_total_has_the_generated_code_where_its_size_is_known(compiled: Any) -> None:
    dump = hlo_lens.from_compiled(compiled)
    told = framework_of(dump).memory
    sizes = []
    for code in (0, 1000):
        memory = {**told, "generated_code_size_in_bytes": code}
        other = replace(dump, framework=Framework(name="jax", backend="cpu", memory=memory))
        results = memory_results(other)
        assert results is not None
        assert results.statement.generated_code_bytes == code
        assert results.statement.spaces[0].total_bytes == results.statement.total_bytes - code
        sizes.append(results.statement.total_bytes)
    assert sizes[1] - sizes[0] == 1000


def test_the_text_from_before_optimizations_comes_with_the_lowered_program(
    compiled: Any, lowered: Any
) -> None:
    dump = hlo_lens.from_compiled(compiled, lowered=lowered)
    assert dump.before is not None
    assert not dump.before.is_scheduled
    assert dump.before.name == dump.name


def test_a_lowered_program_is_read_without_compiling(
    lowered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(type(lowered), "compile", refuse)
    dump = hlo_lens.from_lowered(lowered)
    assert dump.stage == "before_optimizations"
    assert [v.name for v in framework_of(dump).arguments if v.number is not None] == [
        BIAS,
        KERNEL,
        "x",
        "scale",
    ]
    assert shardings_of(dump)[KERNEL][0] == "P(None, 'model')"
    assert memory_results(dump) is None


def test_a_program_of_one_device_has_no_mesh() -> None:
    dump = hlo_lens.from_compiled(
        jax.jit(lambda a, b: a @ b).lower(jnp.ones((4, 8)), jnp.ones((8, 4))).compile()
    )
    framework = framework_of(dump)
    assert framework.meshes == ()
    assert [(v.name, v.number, str(v.shape)) for v in framework.arguments] == [
        ("a", 0, "f32[4,8]"),
        ("b", 1, "f32[8,4]"),
    ]
    assert framework.notes == ()


def test_a_single_result_is_the_whole_result() -> None:
    dump = hlo_lens.from_compiled(jax.jit(lambda a: a * 2).lower(jnp.ones(8)).compile())
    assert [(v.name, v.index) for v in framework_of(dump).outputs] == [("result", ())]


def test_types_and_names_of_all_kinds_of_arguments() -> None:
    def mixed(one: Any, *rest: Any, **named: Any) -> Any:
        total = one.sum().astype(jnp.float32) + named["flag"].astype(jnp.float32).sum()
        return total + sum(value.astype(jnp.float32).sum() for value in rest[0])

    dump = hlo_lens.from_compiled(
        jax.jit(mixed)
        .lower(
            jnp.ones((3,), jnp.bfloat16),
            [jnp.ones((2,), jnp.int8), jnp.ones((2, 2), jnp.uint32)],
            flag=jnp.ones((5,), bool),
        )
        .compile()
    )
    arguments = framework_of(dump).arguments
    assert [str(value.shape) for value in arguments] == ["bf16[3]", "s8[2]", "u32[2,2]", "pred[5]"]
    assert [value.number for value in arguments] == [0, 1, 2, 3]
    assert (arguments[0].name, arguments[3].name) == ("one", "flag")


def test_none_is_no_argument() -> None:
    dump = hlo_lens.from_compiled(jax.jit(lambda x, y: x * 2).lower(jnp.ones(3), None).compile())
    assert [(v.name, v.number) for v in framework_of(dump).arguments] == [("x", 0)]


def test_tokens_stand_before_arguments_and_results() -> None:
    def printing(x: Any) -> Any:
        jax.debug.print("{}", x.sum(), ordered=True)
        return x * 2

    dump = hlo_lens.from_compiled(jax.jit(printing).lower(jnp.ones(3)).compile())
    framework = framework_of(dump)
    assert [(v.name, v.number) for v in framework.arguments] == [("x", 1)]
    assert [(v.name, v.index) for v in framework.outputs] == [("result", (1,))]
    assert framework.notes == ()


def test_memory_is_that_of_the_executables_own_buffer_assignment(compiled: Any) -> None:
    pytest.importorskip("google.protobuf", reason="protobuf is not installed")
    results = hlo_lens.memory(hlo_lens.from_compiled(compiled))
    assert results.statement.source == "buffer-assignment"
    assert results.statement.unknown_values == 0
    assert results.peak is not None
    assert results.layout.unplaced == 0


def test_a_report_is_made_as_from_a_dump(dump: ModuleDump) -> None:
    out = io.StringIO()
    render_json(report_modules([dump]), out, RenderOptions())
    module = json.loads(out.getvalue())["modules"][0]
    assert module["backend"] == "cpu"
    assert module["parameters"] == 4
    assert module["memory"]["memory_analysis"]["argument_size_in_bytes"]
    assert module["memory"]["mismatches"] == []


def test_unused_arguments_are_in_the_report(dump: ModuleDump) -> None:
    notes = [n for s in report_modules([dump], is_full=True).pages for n in s.notes]
    assert any("params['spare']" in note for note in notes)


def test_questions_take_a_compiled_program(compiled: Any, dump: ModuleDump) -> None:
    memory = hlo_lens.memory(compiled)
    assert memory.statement == hlo_lens.memory(dump).statement
    found = hlo_lens.collectives(compiled).collectives
    assert {one.kind for one in found} == {"all-reduce"}
    assert found == hlo_lens.collectives(dump).collectives
    assert hlo_lens.shardings(compiled).parameters[0].value.name
    assert hlo_lens.report_on(compiled).data["modules"]
    assert_collectives(compiled, {"all-reduce": len(found)})


def test_questions_refuse_a_program_that_is_not_compiled(lowered: Any) -> None:
    with pytest.raises(UsageError, match=r"add \.compile\(\)"):
        hlo_lens.memory(lowered)
    with pytest.raises(UsageError, match="compile it"):
        hlo_lens.memory(jax.jit(lambda x: x))


def test_what_is_no_program_is_refused(lowered: Any) -> None:
    with pytest.raises(UsageError, match=r"add \.compile\(\)"):
        hlo_lens.from_compiled(lowered)
    with pytest.raises(UsageError, match="expected a compiled program"):
        hlo_lens.from_compiled(jax.jit(jnp.sin))
    with pytest.raises(UsageError, match="expected a lowered program"):
        hlo_lens.from_lowered(jnp.ones(2))


def test_an_executable_without_text_says_what_to_do() -> None:
    class Silent:
        def as_text(self) -> str:
            raise RuntimeError("UNIMPLEMENTED: no text\nmore")

        def memory_analysis(self) -> None:
            return None

    with pytest.raises(MissingDumpError, match=r"no text\); compile with XLA_FLAGS"):
        hlo_lens.from_compiled(Silent())


def test_a_program_inside_shard_map_names_its_axes(mesh: Any) -> None:
    if hasattr(jax, "shard_map"):
        shard_map: Any = jax.shard_map
    else:
        shard_map = importlib.import_module("jax.experimental.shard_map").shard_map
    mapped = shard_map(
        lambda a: jax.lax.psum(a, "model"),
        mesh=mesh,
        in_specs=P("data", "model"),
        out_specs=P("data"),
    )
    dump = hlo_lens.from_compiled(
        jax.jit(mapped).lower(abstract(mesh, (8, 8), "data", "model")).compile()
    )
    assert dump.hlo is not None
    assert [one.axes for one in collectives(dump).collectives] == [("model",)]


def test_none_is_no_argument_and_no_result() -> None:
    def f(state: Any, spare: Any, x: Any) -> Any:
        return {"new": state["w"] + x, "none": None}, None, x.sum()

    array = jax.ShapeDtypeStruct((3,), jnp.float32)
    lowered = jax.jit(f).lower({"w": array, "b": None, "a": array}, None, array)
    for dump in (hlo_lens.from_compiled(lowered.compile()), hlo_lens.from_lowered(lowered)):
        found = framework_of(dump)
        assert [(value.name, value.number) for value in found.arguments] == [
            ("state['a']", None),
            ("state['w']", 0),
            ("x", 1),
        ]
        assert [value.index for value in found.outputs] == [(0,), (1,)]
        assert found.notes == ()


def test_a_program_without_results_has_none() -> None:
    lowered = jax.jit(lambda x: None).lower(jax.ShapeDtypeStruct((3,), jnp.float32))
    found = framework_of(hlo_lens.from_compiled(lowered.compile()))
    assert (found.outputs, found.notes) == ((), ())
