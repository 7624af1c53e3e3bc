"""``hlo-lens sharding``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from hlo_lens.cli import main
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"})
    return runner.invoke(main, ["sharding", *arguments], catch_exceptions=False)


def module_of(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "-f", "json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)["modules"]
    assert isinstance(found, dict)
    return found


WASTEFUL = str(SAMPLES / "tpu" / "wasteful")


def test_one_sharding_is_drawn_where_a_shape_is_given() -> None:
    drawn = run("P('x', None)", "--mesh", "x=4,y=2", "--shape", "bf16[20,16]").stdout
    assert drawn.startswith("bf16[20,16] as {devices=[4,1,2]<=[8] last_tile_dim_replicate}\n")
    older = ["shard", "P('x', None)", "--mesh", "x=4,y=2", "--shape", "bf16[20,16]"]
    assert CliRunner(env={"COLUMNS": "160"}).invoke(main, older).stdout == drawn


def test_planted_waste_is_found() -> None:
    found = module_of(WASTEFUL)
    assert found["meshes"] == [{"axes": {"data": 2, "model": 4}, "device_ids": None}]
    first = {row["name"]: row for row in reversed(found["replicated"])}["embedding"]
    assert (first["axis"], first["dimension"], first["saved_bytes"]) == ("model", 0, 12 << 20)
    status = {row["name"]: (row["status"], row["output"]) for row in found["donation"]}
    assert status == {
        "params['w_down']": ("could be donated", "{1}"),
        "params['w_up']": ("could be donated", "{2}"),
        "scratch": ("donated, not used", None),
    }


def test_values_have_specs_as_text_and_as_lists() -> None:
    values = module_of(WASTEFUL)["values"]
    scratch = next(v for v in values if v["name"] == "scratch")
    assert (scratch["spec"], scratch["partition_spec"]) == ("P('data',)", ["data"])
    assert scratch["kind"] == "parameter"
    assert scratch["sharding_source"] == "before_optimizations"


def test_old_jax_needs_a_mesh_for_names() -> None:
    old = str(SAMPLES / "cpu_jax_0_4_30" / "tp_mlp")
    assert "name them with --mesh data=2,model=4" in run(old).stdout
    values = module_of(old, "--mesh", "data=2,model=4")["values"]
    assert values[2]["spec"] == "P(None, None, 'model')"


def test_hint_names_the_text_from_before_only_where_it_was_not_read(tmp_path: Path) -> None:
    after = tmp_path / "module_0000.jit_f.cpu_after_optimizations.txt"
    head = "HloModule jit_f, is_scheduled=true, num_partitions=8\n"
    after.write_text(
        head + "ENTRY main_spmd {\n  p = f32[8] parameter(0)\n  ROOT r = f32[8] negate(p)\n}\n"
    )
    runner = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"})

    def out() -> str:
        return runner.invoke(main, ["sharding", str(tmp_path)], catch_exceptions=False).stdout

    assert "the sharding of 2 values (64B) is not known: the *.before_optimizations.txt" in out()
    before = tmp_path / "module_0000.jit_f.before_optimizations.txt"
    before.write_text(after.read_text().replace("_spmd", "").replace("is_scheduled=true, ", ""))
    assert "not known: no text has one that fits; the program leaves it to XLA" in out()
    assert "replicated  not known for 2 values (64B)" in out()


@pytest.mark.parametrize("command", ["sharding", "collectives", "loops"])
@pytest.mark.parametrize(
    ("mesh", "message"),
    [
        ("data=2,model=2", "mesh data=2,model=2 of 4 devices does not fit"),
        ("a=3,b=3", "has 8 devices; its mesh is data=2,model=4"),
        ("data=4,model=2", "has data=2,model=4"),
        ("model=4,data=2", "has data=2,model=4"),
        ("data=2,modle=4", "has data=2,model=4"),
    ],
)
def test_mesh_that_does_not_fit_is_refused(command: str, mesh: str, message: str) -> None:
    runner = CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"})
    result = runner.invoke(main, [command, str(SAMPLES / "tpu" / "tp_mlp"), "--mesh", mesh])
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("mesh", ["data=2,model=4", "data=2,one=1,model=4", "a=2,b=2,c=2", "x=8"])
def test_mesh_that_fits_is_taken(mesh: str) -> None:
    assert run(str(SAMPLES / "tpu" / "tp_mlp"), "--mesh", mesh).exit_code == 0


def test_mesh_names_the_axes_of_the_modules_that_it_fits(tmp_path: Path) -> None:
    small = "HloModule jit_g\nENTRY e {\n  p = f32[8] parameter(0), sharding=%s\n}\n"
    for number, devices in enumerate((2, 4)):
        text = small.replace("g\n", f"g, num_partitions={devices}\n", 1)
        text = text.replace("%s", f"{{devices=[{devices}]<=[{devices}]}}")
        (tmp_path / f"module_000{number}.jit_g.before_optimizations.txt").write_text(text)
    modules = json.loads(run(str(tmp_path), "--mesh", "x=4", "-f", "json").stdout)["modules"]
    assert [module["values"][0]["spec"] for module in modules] == [None, "P('x',)"]


def test_total_of_unknown_sizes_is_empty(tmp_path: Path) -> None:
    text = "HloModule f, is_scheduled=true, num_partitions=8\nENTRY main_spmd {\n"
    text += "  p = f32[8] parameter(0)\n  q = f32[8] parameter(1)\n"
    text += "  ROOT r = f32[8] add(p, q)\n}\n"
    (tmp_path / "f.txt").write_text(text)
    out = run(str(tmp_path / "f.txt")).stdout
    assert "parameters  2 of unknown size in all, 64B on each device" in out
    (total,) = (line for line in out.splitlines() if " total" in line)
    assert total.split() == ["64B", "total"]
