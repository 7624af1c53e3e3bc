"""Drawings of shardings, by hand and compared with those of jax."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from hlo_lens import HloSharding, Shape
from hlo_lens.questions.sharding.shard import device_slices, draw_boxes
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.shapes.named_sharding import read_partition_spec

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="jax is not installed"
)


def drawn(text: str, shape: str, *, label: str = "GPU", width: int = 80) -> str:
    found = device_slices(HloSharding.parse(text), Shape.parse(shape))
    return "\n".join(draw_boxes(found, label=label, width=width))


def test_four_rows_as_jax_draws_them() -> None:
    assert drawn("{devices=[4,1]<=[4]}", "f32[20,16]") == (
        "┌──────────────────┐\n"
        "│      GPU 0       │\n"
        "├──────────────────┤\n"
        "│      GPU 1       │\n"
        "├──────────────────┤\n"
        "│      GPU 2       │\n"
        "├──────────────────┤\n"
        "│      GPU 3       │\n"
        "└──────────────────┘"
    )


def test_four_columns_as_jax_draws_them() -> None:
    lines = drawn("{devices=[1,4]<=[4]}", "f32[16,16]").splitlines()
    assert lines[0] == "┌───────┬───────┬───────┬───────┐"
    assert lines[5] == "│ GPU 0 │ GPU 1 │ GPU 2 │ GPU 3 │"
    assert len(lines) == 11


def test_one_dimension_is_one_row() -> None:
    assert drawn("{devices=[2]<=[2]}", "f32[64]") == (
        "┌───────┬───────┐\n│ GPU 0 │ GPU 1 │\n└───────┴───────┘"
    )


def test_three_dimensions_are_drawn_sheet_by_sheet() -> None:
    text = drawn("{devices=[2,1,2]<=[4]}", "f32[8,4,4]")
    assert [line for line in text.splitlines() if line.startswith("[")] == [
        "[0:4, :, :]",
        "[4:8, :, :]",
    ]
    first, second = text.split("\n\n")
    assert "GPU 0 " in first
    assert "GPU 3 " in second


def test_scalar_is_one_box() -> None:
    assert drawn("{maximal device=3}", "f32[]") == "┌───────┐\n│ GPU 3 │\n└───────┘"


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
