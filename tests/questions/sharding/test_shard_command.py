"""``hlo-lens shard``."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hlo_lens.cli import main


def run(*arguments: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    return runner.invoke(main, ["shard", *arguments], catch_exceptions=False)


def data_of(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "-f", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_sharding_is_drawn_listed_and_spelt() -> None:
    out = run("{devices=[4,1]<=[4]}", "--shape", "20,16", "--platform", "GPU").stdout
    assert "│      GPU 3       │" in out
    assert "[15:20, 0:16]" in out
    assert "{devices=[4,1]0,1,2,3}" in out
    assert "{mesh['axis_0'=4], [{'axis_0'}, {}]}" in out


def test_mesh_and_spec_give_the_same() -> None:
    by_text = data_of("{devices=[4,1]<=[4]}", "--shape", "20,16", "--mesh", "x=4,y=1")
    by_spec = data_of("--mesh", "x=4,y=1", "--spec", "x,None", "--shape", "20,16")
    assert by_text == by_spec
    assert by_text["spellings"] == {
        "v1": "{devices=[4,1]0,1,2,3}",
        "v2": "{devices=[4,1]<=[4]}",
        "v3": "{mesh['x'=4,'y'=1], [{'x'}, {}]}",
        "spec": ["x", None],
    }


def test_axes_can_be_joined() -> None:
    found = data_of("--mesh", "x=4,y=2", "--spec", "('x','y'),None", "--shape", "32,16")
    assert found["device_shape"] == "f32[4,16]"
    assert [d["start"][0] for d in found["devices"]] == [0, 4, 8, 12, 16, 20, 24, 28]


@pytest.mark.parametrize(
    ("options", "shape", "size"),
    [
        (["--shape", "8,4"], "f32[8,4]", 128),
        (["--shape", "8,4", "--dtype", "bf16"], "bf16[8,4]", 64),
        (["--shape", "(8, 4)", "--dtype", "bfloat16"], "bf16[8,4]", 64),
        (["--shape", "bf16[8,4]"], "bf16[8,4]", 64),
        (["--shape", "8,4", "--dtype", "float8_e4m3fn"], "f8e4m3fn[8,4]", 32),
        (["--shape", "8,4", "--dtype", "bool"], "pred[8,4]", 32),
        (["--shape", "8,4", "--dtype", "uint16"], "u16[8,4]", 64),
    ],
)
def test_shapes_and_types(options: list[str], shape: str, size: int) -> None:
    found = data_of("{replicated}", *options)
    assert (found["shape"], found["size_bytes"]) == (shape, size)


def test_uneven_tiles_are_reported() -> None:
    result = run("{devices=[4]<=[4]}", "--shape", "5")
    assert "not divided evenly" in result.stdout
    assert "1 device owns nothing" in result.stdout


def test_markdown_keeps_the_drawing() -> None:
    out = run("devices=[2]<=[2]", "--shape", "4", "-f", "md").stdout
    assert "```text\n┌" in out


def test_csv_has_slices_and_spellings() -> None:
    out = run("{devices=[2]<=[2]}", "--shape", "4", "-f", "csv").stdout
    assert "device-slices,1,[2:4],[1],8,0,[2],[4]" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{devices=[4,1]<=[4", "--shape", "4,4"], "not a sharding"),
        (["{devices=[4,1]<=[4]}", "--shape", "4"], "for 2 dimensions"),
        (["{devices=[4]<=[4]}", "--shape", "x"], "not a shape"),
        (["{devices=[4]<=[4]}", "--shape", "4", "--dtype", "?"], "not a shape"),
        (["{devices=[4]<=[4]}", "--shape", "f32[4]", "--dtype", "f32"], "once"),
        (["--shape", "4"], "either SHARDING or --spec"),
        (["{replicated}", "--spec", "x", "--mesh", "x=4", "--shape", "4"], "either SHARDING"),
        (["--spec", "x", "--shape", "4"], "--spec needs --mesh"),
        (["--spec", "z", "--mesh", "x=4", "--shape", "4"], "no axis 'z'"),
        (["--spec", "x,x", "--mesh", "x=4", "--shape", "4,4"], "overlap"),
        (["--spec", "x,None", "--mesh", "x=4", "--shape", "4"], "2 entries"),
        (["--spec", "x;y", "--mesh", "x=4", "--shape", "4"], "not a partition spec"),
        (["--spec", "x y", "--mesh", "x=4", "--shape", "4"], "not a partition spec"),
        (["--spec", "x", "--mesh", "x:4", "--shape", "4"], "not a mesh"),
        (["--spec", "x", "--mesh", "x=0", "--shape", "4"], "not a mesh"),
        (["{{replicated}}", "--shape", "4"], "tuple"),
        (["--spec", "x", "--mesh", "x=99999999", "--shape", "4"], "more than 1048576 devices"),
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


def test_tuple_of_axes_is_a_whole_spec() -> None:
    by_tuple = data_of("('x', 'y')", "--mesh", "x=4,y=2", "--shape", "32,16")
    by_spec = data_of("--spec", "P('x', 'y')", "--mesh", "x=4,y=2", "--shape", "32,16")
    assert by_tuple == by_spec
    printed = data_of("--spec", "(('x', 'y'), None)", "--mesh", "x=4,y=2", "--shape", "32,16")
    assert printed["device_shape"] == "f32[4,16]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NamedSharding(mesh, P('x'))", "is source code: names of variables have no value here"),
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
