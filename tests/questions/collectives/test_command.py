"""``hlo-lens collectives`` and ``hlo-lens loops``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import SAMPLES
from tests.questions.texts import LOOP

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

DUMP = str(SAMPLES / "tpu" / "tp_mlp")


def _run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "110", "NO_COLOR": "1"}).invoke(main, list(arguments))


@pytest.mark.parametrize("by", ["kind", "axis", "source", "loop", "op"])
def test_every_view_has_rows(by: str) -> None:
    assert "all-reduce" in _run("collectives", DUMP, "--by", by, "-f", "csv").stdout


def test_json_has_rows_groups_mesh_and_loops() -> None:
    data = json.loads(_run("collectives", DUMP, "-f", "json", "--by", "axis").stdout)
    assert (data["schema_version"], data["kind"]) == (3, "collectives")
    (module,) = data["modules"]
    found = module["collectives"]
    assert (found["static"]["all-reduce"], found["dynamic"]["all-reduce"]) == (4, 13)
    assert found["mesh"] == {"axes": {"data": 2, "model": 4}, "source": "before_optimizations"}
    assert [loop["trip_count"] for loop in found["loops"]] == [4, 4]
    assert {group["group"] for group in module["groups"]} == {"data", "model"}
    row = next(row for row in found["rows"] if row["axes"] == ["model"])
    assert (row["group_size"], row["dynamic_count"], row["is_async"]) == (4, 4, False)
    assert row["wire_bytes_per_device"] == row["payload_bytes"] * 3 // 2


def test_static_bytes_are_those_of_the_text() -> None:
    def wire(*options: str) -> int:
        data = json.loads(_run("collectives", DUMP, "-f", "json", *options).stdout)
        name = "wire_bytes_per_device" if "--static" in options else "wire_bytes_per_run"
        return sum(group[name] for group in data["modules"][0]["groups"])

    assert wire("--dynamic") > wire("--static") > 0
    assert wire() == wire("--dynamic")


def test_mesh_that_the_user_names() -> None:
    result = _run("collectives", DUMP, "--mesh", "a=2,b=2,c=2", "-f", "json")
    rows = json.loads(result.stdout)["modules"][0]["collectives"]["rows"]
    assert {tuple(row["axes"]) for row in rows} == {("a",), ("b", "c")}
    assert _run("collectives", DUMP, "--mesh", "a").exit_code == 2


def test_why_of_a_kind_explains_the_largest_and_lists_the_others() -> None:
    result = _run("collectives", str(SAMPLES / "cpu/fsdp_transformer"), "--why", "all-gather")
    assert "\ncollective  all-gather.31: all-gather over fsdp\n" in result.stdout
    assert "\nothers      7 other all-gathers: all-gather.39 1.75MiB, " in result.stdout


def test_why_leaves_out_modules_without_the_collective() -> None:
    result = _run("collectives", str(SAMPLES / "tpu"), "--why", "all-reduce.11", "-f", "json")
    modules = json.loads(result.stdout)["modules"]
    assert modules
    assert all(one["why"] for one in modules)


def test_why_of_an_unknown_name_is_an_error() -> None:
    result = _run("collectives", DUMP, "--why", "all-reduce.999")
    assert result.exit_code != 0
    assert "no collective is named" in result.stderr


def test_loops_are_named_without_the_arguments_that_old_jax_prints(tmp_path: Path) -> None:
    path = 'op_name="jit(f)/while[cond_nconsts=0 body_jaxpr={ lambda ; a:i32[]. let }]"'
    file = tmp_path / "loop.txt"
    file.write_text(LOOP.replace("body=body", f"body=body, metadata={{{path}}}"))
    result = _run("loops", str(file))
    assert "loop  x?  jit(f)/while\n" in result.stdout
    assert "cond_nconsts" not in result.stdout


@pytest.mark.parametrize("command", ["collectives", "loops"])
def test_module_without_collectives(command: str, tmp_path: Path) -> None:
    file = tmp_path / "m.txt"
    file.write_text("HloModule m\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n")
    result = _run(command, str(file))
    assert result.exit_code == 0
    assert "none" in result.stdout


@pytest.mark.parametrize(("first", "is_named"), [(2, True), (1, False)])
def test_numbering_that_mesh_axes_of_several_slices_depend_on_is_named(
    first: int, is_named: bool, tmp_path: Path
) -> None:
    dump = tmp_path / "module_0001.jit_m.after_optimizations.txt"
    mesh = f'xla.sdy.meshes={{mesh = #sdy.mesh<["dcn"={first}, "x"=4]>}}'
    dump.write_text(
        f"HloModule m, num_partitions=4, frontend_attributes={{{mesh}}}\n\n"
        "ENTRY main {\n  x = f32[8]{0} parameter(0)\n"
        "  ROOT g = f32[32]{0} all-gather(x), channel_id=1, replica_groups={{0,1,2,3}}, "
        "dimensions={0}, use_global_device_ids=true\n}\n"
    )
    result = _run("collectives", str(dump))
    assert result.exit_code == 0
    note = "mesh axes as if each slice had consecutive devices of the mesh: there is no device"
    assert (note in result.stdout) is is_named
