"""``hlo-lens what-if --simulate``: answers without jax, and what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner, Result

from hlo_lens.cli import main
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

STEP = str(SAMPLES / "cpu/fsdp_transformer")
TEXT = str(SAMPLES / "cpu/tp_mlp/compiled.txt")


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(main, arguments)


def test_simulated_answer_has_the_keys_of_a_recompiled_one() -> None:
    result = run("what-if", STEP, "--simulate", "--undonate", "**", "-f", "json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["engine"] == "simulate"
    (row,) = found["modules"]
    assert (row["basis"], row["reproduced"]) == ("exact", True)
    assert row["low"] == row["high"] == row["predicted"]
    assert row["predicted"]["alias_bytes"] == 0
    assert [one["target"] for one in row["changes"] if not one["applies"]] == ["tokens"]
    assert row["dump"] is None


def test_changes_that_need_a_compile_are_refused_with_their_command() -> None:
    result = run("what-if", STEP, "--simulate", "--target", "h100_sxm", "--mesh", "fsdp=4")
    assert "only compiling again answers it: hlo-lens" in " ".join(result.stdout.split())
    found = run("what-if", STEP, "--simulate", "--flag", "xla_x=1", "-f", "json")
    (change,) = json.loads(found.stdout)["modules"][0]["changes"]
    assert not change["applies"]
    assert change["why_not"].endswith("--flag xla_x=1")


def test_bounds_are_printed_with_the_prediction() -> None:
    result = run("what-if", STEP, "--simulate", "--dtype", "state.m=bf16")
    assert "simulated   estimate: what XLA compiles is between least and most" in result.stdout
    assert "assignment  ours has all 7 figures of the dump" in result.stdout
    assert "least" in result.stdout


def test_change_of_several_shows_what_each_does_alone() -> None:
    result = run(
        *("what-if", STEP, "--simulate", "--undonate", "state.m", "--dtype", "state.v=bf16"),
        *("-f", "json"),
    )
    requests = json.loads(result.stdout)["modules"][0]["requests"]
    assert all(one["alone"]["total_bytes"] for one in requests)


def test_saved_activations_are_only_simulated() -> None:
    result = run("what-if", STEP, "--remat", "model.py:3")
    assert result.exit_code == 2
    assert "--remat is only simulated: add --simulate" in result.stderr


def test_simulation_keeps_no_dump(tmp_path: Path) -> None:
    result = run("what-if", STEP, "--simulate", "-o", str(tmp_path))
    assert result.exit_code == 2
    assert "there is no new dump for -o" in result.stderr


def test_text_without_program_names_the_simulation() -> None:
    result = run("what-if", TEXT, "--donate", "params")
    assert f"without it: hlo-lens what-if {TEXT} --simulate --donate params" in " ".join(
        result.stdout.split()
    )


def test_interpreter_without_jax_names_the_simulation(tmp_path: Path) -> None:
    result = run("what-if", STEP, "--donate", "x", "--python", str(tmp_path / "none"))
    assert result.exit_code != 0
    assert "without jax: hlo-lens what-if" in result.stderr
    assert "--simulate --donate x" in result.stderr


def test_exit_code_is_4_where_nothing_can_be_tried() -> None:
    assert run("what-if", STEP, "--simulate", "--flag", "xla_x=1").exit_code == 4
    result = run("what-if", STEP, "--simulate", "--flag", "xla_x=1", "--undonate", "**")
    assert result.exit_code == 0, result.stdout
