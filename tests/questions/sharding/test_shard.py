"""One sharding: slices, drawings compared with those of jax, spellings, ``hlo-lens shard``."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, strategies as st

from hlo_lens import HloSharding, Shape
from hlo_lens.cli import main
from hlo_lens.questions.sharding.shard import (
    device_slices,
    draw_boxes,
    drawings,
    sharding_spellings,
)
from hlo_lens.shapes.mesh import Mesh, TileAssignment
from hlo_lens.shapes.named_sharding import ShardingKind, read_partition_spec
from hlo_lens.text.errors import UsageError
from tests.questions.texts import module_of


@st.composite
def tiled(draw: st.DrawFn) -> HloSharding:
    """Return a tiling of one to three dimensions with subgroups, listed or as an iota."""
    dimensions = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    count = math.prod(dimensions)
    order = tuple(draw(st.permutations(range(len(dimensions)))))
    view = tuple(draw(st.permutations(dimensions)))
    tiles = TileAssignment(dimensions=dimensions, reshape_dims=view, transpose_perm=order)
    if draw(st.booleans()):
        ids = tuple(draw(st.permutations(range(count))))
        tiles = TileAssignment(dimensions=dimensions, device_ids=ids)
    kinds = [ShardingKind.REPLICATED, ShardingKind.MANUAL, ShardingKind.UNREDUCED]
    uses = draw(st.lists(st.sampled_from(kinds), max_size=len(dimensions) - 1))
    return HloSharding.tiled(tiles, tuple(uses))


def slices(text: str, shape: str, devices: int | None = None) -> list[tuple[int | None, str]]:
    """Return the slice of each device."""
    ids = None if devices is None else range(devices)
    found = device_slices(HloSharding.parse(text), Shape.parse(shape), devices=ids)
    return [part[:2] for part in found.slices]


@pytest.mark.parametrize(
    ("size", "count", "lengths"),
    [(10, 4, [3, 3, 3, 1]), (5, 4, [2, 2, 1, 0]), (2, 4, [1, 1, 0, 0]), (0, 2, [0, 0])],
)
def test_last_tiles_are_short_or_empty(size: int, count: int, lengths: list[int]) -> None:
    found = device_slices(
        HloSharding.parse(f"{{devices=[{count}]<=[{count}]}}"), Shape.parse(f"f32[{size}]")
    )
    assert [part.end[0] - part.start[0] for part in found.slices] == lengths
    assert [part.size_bytes for part in found.slices] == [4 * length for length in lengths]
    assert found.is_uneven == (size % count != 0)
    assert found.shard_shape.dimensions == (max(lengths),)


def test_replicated_is_on_the_devices_of_the_mesh() -> None:
    assert slices("{replicated}", "f32[2]") == [(None, "[0:2]")]
    assert slices("{replicated}", "f32[2]", 2) == [(0, "[0:2]"), (1, "[0:2]")]


@pytest.mark.parametrize(
    ("text", "shape"),
    [("{{replicated}}", "f32[2]"), ("{replicated}", "(f32[2])"), ("{devices=[2]<=[2]}", "f32[?]")],
)
def test_tuples_and_unknown_sizes_are_refused(text: str, shape: str) -> None:
    with pytest.raises(UsageError):
        slices(text, shape)


@given(tiled(), st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_each_element_is_on_as_many_devices_as_the_replication_factor(
    sharding: HloSharding, sizes: list[int]
) -> None:
    rank = len(sharding.tile_counts)
    shape = Shape.parse(f"f32[{','.join(map(str, sizes[:rank]))}]")
    found = device_slices(sharding, shape, devices=sharding.devices())
    held = sum(part.size_bytes or 0 for part in found.slices)
    groups = math.prod(
        size
        for kind, size in zip(
            sharding.subgroup_types,
            sharding.tile_assignment.dimensions[rank:],  # type: ignore[union-attr] # it is tiled
            strict=True,
        )
        if kind is not ShardingKind.REPLICATED
    )
    if sharding.kind is ShardingKind.TILED and found.replication_factor is not None:
        assert held == (shape.size_bytes or 0) * found.replication_factor * groups


needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="jax is not installed"
)


def drawn(text: str, shape: str, *, label: str = "GPU", width: int = 80) -> str:
    found = device_slices(HloSharding.parse(text), Shape.parse(shape))
    return "\n".join(draw_boxes(found, label=label, width=width))


def test_three_dimensions_are_drawn_sheet_by_sheet() -> None:
    text = drawn("{devices=[2,1,2]<=[4]}", "f32[8,4,4]")
    assert [line for line in text.splitlines() if line.startswith("[")] == [
        "[0:4, :, :]",
        "[4:8, :, :]",
    ]
    first, second = text.split("\n\n")
    assert "GPU 0 " in first
    assert "GPU 3 " in second


def test_uneven_and_empty_tiles() -> None:
    line = drawn("{devices=[4]<=[4]}", "f32[5]").splitlines()[1]
    assert line == "│ GPU 0 │ GPU 1 │ GPU 2 │GPU 3(empty)│"


def test_many_devices_in_one_box_are_shortened() -> None:
    text = "{devices=[2,64]<=[128] last_tile_dim_replicate}"
    assert "GPU 0-63" in drawn(text, "f32[4]")
    text = "{devices=[2,64]<=[64,2]T(1,0) last_tile_dim_replicate}"
    assert "GPU 1,3,...,127(64)" in drawn(text, "f32[4]")


def test_boxes_that_do_not_fit_are_counted() -> None:
    assert drawn("{devices=[64,1]<=[64]}", "f32[64,4]").endswith("and 48 more rows")
    lines = drawn("{devices=[64]<=[64]}", "f32[64]", width=40).splitlines()
    assert lines[-1].endswith("more columns")
    assert max(map(len, lines)) <= 40


CASES = [
    ({"x": 4, "y": 2}, spec, shape)
    for spec in ["x", "y", "x,y", "None,x", "None,y", "y,x", "(x,y)", "None,(y,x)", ""]
    for shape in [(8,), (16, 16), (24, 16), (16, 64), (128, 8), (64, 8)]
    if len(read_partition_spec(spec)) <= len(shape)
]

_JAX = """
import contextlib, io, json, sys
import numpy as np
import jax
from jax._src.debugging import visualize_sharding
answers = []
for sizes, spec, shape in json.load(sys.stdin):
    devices = np.array(jax.devices()[:8]).reshape(tuple(sizes.values()))
    entries = [tuple(e) if isinstance(e, list) else e for e in spec]
    sharding = jax.sharding.NamedSharding(
        jax.sharding.Mesh(devices, tuple(sizes)), jax.sharding.PartitionSpec(*entries))
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        visualize_sharding(tuple(shape), sharding, use_color=False)
    slices = {
        device.id: [list(part.indices(size)[:2]) for part, size in zip(index, shape)]
        for device, index in sharding.devices_indices_map(tuple(shape)).items()
    }
    answers.append({"slices": slices, "drawing": out.getvalue()})
json.dump(answers, sys.stdout)
"""


@pytest.fixture(scope="module")
def answers() -> list[Any]:
    """Return the drawings and answers of jax for all cases, from a process with eight devices."""
    flags = "--xla_force_host_platform_device_count=8"
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "COLUMNS": "80"}
    asked = [(sizes, read_partition_spec(spec), shape) for sizes, spec, shape in CASES]
    ran = subprocess.run(
        [sys.executable, "-c", _JAX],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    if ran.returncode:
        pytest.skip(f"jax's visualize_sharding has moved: {ran.stderr.splitlines()[-1]}")
    found: list[Any] = json.loads(ran.stdout)
    return found


@needs_jax
@pytest.mark.parametrize("place", range(len(CASES)))
def test_boxes_and_slices_are_those_of_jax(place: int, answers: list[Any]) -> None:
    sizes, spec, shape = CASES[place]
    sharding = HloSharding.from_partition_spec(
        Mesh.of(sizes), read_partition_spec(spec), rank=len(shape)
    )
    value = Shape.parse(f"f32[{','.join(map(str, shape))}]")
    found = device_slices(sharding, value, devices=range(8))
    truth = answers[place]
    ours = {
        str(part.device): [list(pair) for pair in zip(part.start, part.end, strict=True)]
        for part in found.slices
    }
    assert ours == truth["slices"]
    boxes = [line.rstrip() for line in draw_boxes(found, label="CPU", width=1000)]
    if len(boxes[0]) > 80:  # jax breaks labels to fit; here boxes are narrowed
        assert max(map(len, draw_boxes(found, label="CPU", width=80))) <= 80
        return
    assert boxes == [line.rstrip() for line in truth["drawing"].strip().splitlines()]


@given(tiled())
def test_all_spellings_mean_the_same(sharding: HloSharding) -> None:
    found = sharding_spellings(sharding)
    for form, text in found.spellings:
        assert form == "spec" or text is None or HloSharding.parse(text).equivalent(sharding)


def test_spellings_over_a_given_mesh() -> None:
    found = sharding_spellings(
        HloSharding.parse("{devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}"),
        Mesh.of({"x": 4, "y": 2}),
        rank=2,
    )
    assert list(found.rows()) == [
        ("v1", "{devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}"),
        ("v2", "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}"),
        ("v3", "{mesh['x'=4,'y'=2], [{'y'}, {}]}"),
        ("spec", "P('y', None)"),
    ]


def test_devices_in_no_iota_order_have_no_v2() -> None:
    found = sharding_spellings(HloSharding.parse("{devices=[2,2]3,1,2,0}"))
    assert dict(found.spellings)["v2"] is None


TEXT = """HloModule m, num_partitions=4

ENTRY main {
  a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
  b = f32[8,6] parameter(1), sharding={devices=[2,2]<=[4]}
  c = f32[8,6] parameter(2), sharding={replicated}
  ROOT t = (f32[8,6]) tuple(a)
}
"""


def test_values_divided_alike_share_a_drawing() -> None:
    found = drawings(module_of(TEXT))
    assert found.numbers == (0, 0, 1, -1)
    first, second = ("\n".join(lines) for lines in found.drawings)
    assert [f"device {k}" in first for k in range(5)] == [True] * 4 + [False]
    assert "every device" in second or "device 0-3" in second or "device 0,1,2,3" in second


def run(*arguments: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    return runner.invoke(main, ["shard", *arguments], catch_exceptions=False)


def data_of(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "-f", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_mesh_and_spec_give_the_same() -> None:
    by_text = data_of("{devices=[4,1]<=[4]}", "--shape", "20,16", "--mesh", "x=4,y=1")
    by_spec = data_of("P('x', None)", "--mesh", "x=4,y=1", "--shape", "20,16")
    by_option = data_of("--spec", "x,None", "--mesh", "x=4,y=1", "--shape", "20,16")
    assert by_text == by_spec == by_option
    assert by_text["spellings"] == {
        "v1": "{devices=[4,1]0,1,2,3}",
        "v2": "{devices=[4,1]<=[4]}",
        "v3": "{mesh['x'=4,'y'=1], [{'x'}, {}]}",
        "spec": ["x", None],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{devices=[4,1]<=[4", "--shape", "4,4"], "not a sharding"),
        (["{devices=[4,1]<=[4]}", "--shape", "4"], "for 2 dimensions"),
        (["{devices=[4]<=[4]}", "--shape", "x"], "not a shape"),
        (["--shape", "4"], "either SHARDING or --spec"),
        (["--spec", "x y", "--mesh", "x=4", "--shape", "4"], "not a sharding"),
        (["P('x', 'x')", "--mesh", "x=4", "--shape", "4,4"], "overlap"),
        (["P('x')", "--mesh", "x:4", "--shape", "4"], "not a mesh"),
        (["{{replicated}}", "--shape", "4"], "tuple"),
        (["P('x')", "--mesh", "x=99999999", "--shape", "4"], "more than 1048576 devices"),
    ],
)
def test_wrong_use_is_an_error_of_one_line(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


SPELLINGS = [
    "{devices=[4,1,2]<=[8] last_tile_dim_replicate}",
    "devices=[4,1,2]<=[8] last_tile_dim_replicate",
    'sharding="{devices=[4,1,2]<=[8] last_tile_dim_replicate}"',
    "{mesh['x'=4,'y'=2], [{'x'}, {}]}",
    "NamedSharding(mesh=Mesh('x': 4, 'y': 2), spec=P('x', None))",
    "NamedSharding(mesh=Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto)), "
    "spec=PartitionSpec('x',), memory_kind=device)",
    '#sdy.sharding<mesh<["x"=4,"y"=2]>, [{"x"}, {}]>',
    'sdy.sharding = #sdy.sharding<mesh<["x"=4,"y"=2]>, [{"x"}, {}]>',
]
OVER_A_MESH = [
    "P('x', None)",
    "PartitionSpec('x')",
    "('x', None)",
    "('x',)",
    "(('x',), None)",
    '#sdy.sharding<@mesh, [{"x"}, {}]>',
    '<@mesh, [{"x"}, {?}]>',
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_sharding_is_taken_in_the_spellings_of_reports(text: str) -> None:
    found = data_of(text, "--shape", "32,16")
    assert found["spellings"]["v2"] == "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"


@pytest.mark.parametrize("text", OVER_A_MESH)
def test_spelling_of_axes_alone_takes_the_given_mesh(text: str) -> None:
    found = data_of(text, "--shape", "32,16", "--mesh", "x=4,y=2")
    assert found["spellings"]["v2"] == "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"
    assert found["spellings"]["spec"] == ["x", None]
    result = run(text, "--shape", "32,16")
    assert result.exit_code == 2
    assert "--mesh x=4,y=2" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NamedSharding(mesh, P('x'))", "not a sharding"),
        ("P('q')", "no axis 'q' in mesh['x'=4,'y'=2]"),
        ("P('x', None, None)", "has 3 entries, the shape 2 dimensions"),
        ("P(UNCONSTRAINED)", "leaves a dimension to XLA"),
        ("Mesh('x': 4)", "not a sharding"),
        ("NamedSharding(mesh=Mesh('x': 8), spec=P('x'))", "has a mesh of its own"),
        ("#sdy.sharding<@mesh, [{", "not a sharding"),
        ("nonsense", "not a sharding"),
        ("NamedSharding(", "not a sharding"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    result = run(text, "--shape", "32,16", "--mesh", "x=4,y=2")
    assert result.exit_code == 2
    assert message in result.stderr
