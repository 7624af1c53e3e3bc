"""Commands on logs, traces and StableHLO: each answers, or names the command that does."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import SAMPLES

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


def test_passes_of_a_log_names_the_command_that_answers() -> None:
    code, _, err = run("passes", "-", "--track", "temp", stdin=SHARDINGS)
    assert code == 3
    assert "this text has shardings (hlo-lens sharding)" in err


def test_sharding_of_stablehlo_shows_its_arguments() -> None:
    text = """\
module @jit_f attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) \
-> (tensor<8xf32>) {
    return %arg0 : tensor<8xf32>
  }
}
"""
    code, out, _ = run("sharding", "-", stdin=text)
    assert code == 0
    assert "devices=[2]<=[2]" in out
