"""Input of commands: stages, unknown names with the nearest ones, texts without HLO."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import SAMPLES
from tests.load.test_load import STAGES, hlo, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("command", ["report", "collectives", "loops", "sharding", "memory"])
def test_every_command_reads_the_chosen_stage(tmp_path: Path, command: str) -> None:
    write(tmp_path, STAGES)
    result = CliRunner().invoke(main, [command, str(tmp_path), "--stage", "before", "-f", "json"])
    assert result.exit_code == 0, result.output
    assert '"stage": "before_optimizations"' in result.stdout


def test_stage_that_no_module_has_is_a_usage_error(tmp_path: Path) -> None:
    write(tmp_path, STAGES)
    result = CliRunner().invoke(main, ["report", str(tmp_path), "--stage", "x7"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no stage 'x7'; there is before_optimizations, 0003.pass" in result.stderr


def test_modules_without_the_stage_are_counted(tmp_path: Path) -> None:
    write(tmp_path, {**STAGES, "module_0001.jit_g.before_optimizations.txt": hlo("jit_g")})
    result = CliRunner().invoke(main, ["report", str(tmp_path), "--stage", "after"])
    assert result.exit_code == 0
    assert "left out 1 without this stage: module_0001.jit_g: no stage" in result.stderr


DUMP = str(SAMPLES / "tpu" / "tp_mlp")


def error_of(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(main, arguments)
    assert result.exit_code == 2, result.output
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reprot", DUMP], "No such command 'reprot'; did you mean report?"),
        (["frobnicate"], "commands: report, memory, "),
        ([DUMP], "did you mean hlo-lens report "),
        (["memory", DUMP, "--tmeline"], "Did you mean '--timeline'?"),
        (["memory", DUMP, "--at", "copystart.12"], "did you mean copy-start.12 or "),
        (["collectives", DUMP, "--why", "al-reduce.11"], "did you mean all-reduce.11 or "),
        (["report", DUMP, "--stage", "before_optimisations"], "did you mean before_optimizations"),
        (["shard", "P('dta')", "--mesh", "data=2", "--shape", "4"], "did you mean data?"),
        (["help", "memroy"], "did you mean memory?"),
    ],
)
def test_nearest_names_are_in_the_message(arguments: list[str], message: str) -> None:
    assert message in error_of(*arguments)


SHARDINGS = "a: NamedSharding(mesh=Mesh('x': 2), spec=P('x',))\n"
OOM = (SAMPLES / "logs" / "tpu_oom_libtpu_0_0_17.txt").read_text("utf-8")
TRACE = "main, a.py:1\n├── f, a.py:2\n└── g, a.py:3\n"
COMMANDS = ("collectives", "loops", "memory", "sharding", "show", "tree")


def run(*arguments: str, stdin: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(main, arguments, input=stdin)
    return result.exit_code, result.stdout, result.stderr


def test_sharding_shows_the_shardings_of_a_log() -> None:
    code, out, _ = run("sharding", "-", stdin=SHARDINGS)
    assert code == 0
    assert "P('x',) over x=2" in out
    (module,) = json.loads(run("sharding", "-", "-f", "json", stdin=SHARDINGS)[1])["modules"]
    assert module["values"] is None
    assert module["log"]["shardings"]["values"]


def test_memory_shows_the_memory_of_a_log_alone() -> None:
    code, out, _ = run("memory", "-", stdin=OOM + SHARDINGS)
    assert code == 0
    assert "out of hbm at compile time" in out
    assert "shardings\n" not in out
    (module,) = json.loads(run("memory", "-", "-f", "json", stdin=OOM)[1])["modules"]
    assert module["memory"] is None
    assert module["log"]["compile_out_of_memory"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (SHARDINGS, "this text has shardings (hlo-lens sharding)"),
        (OOM, "this text has messages about memory (hlo-lens memory)"),
        (TRACE, "this text has a call tree (hlo-lens tree)"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_command_without_an_answer_names_the_one_that_has(
    command: str, text: str, named: str
) -> None:
    _, out, err = run(command, "-", stdin=text)
    answers = f"hlo-lens {command})" in named
    assert (named in out + err) != answers
    assert "XLA writes it" not in out + err
