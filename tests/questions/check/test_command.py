"""What ``check`` prints: commands that run as printed, figures that decide."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

BASE = str(SAMPLES / "pairs" / "tpu" / "base.tar.xz")
UPCAST = str(SAMPLES / "pairs" / "tpu" / "f32_upcast.tar.xz")


def _run(*arguments: str, columns: int = 80) -> tuple[int, str]:
    runner = CliRunner(env={"COLUMNS": str(columns)})
    result = runner.invoke(main, arguments, catch_exceptions=False)
    return result.exit_code, result.stdout


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return a folder with one program twice, and another one."""
    for name, dump in (("a", "wasteful"), ("b", "wasteful"), ("c", "tp_mlp")):
        shutil.copytree(SAMPLES / "cpu" / dump, tmp_path / "dumps" / name)
    return str(tmp_path / "dumps")


def test_commands_of_findings_select_the_module_that_failed(folder: str) -> None:
    code, out = _run("check", folder, "--fail-on", "findings.M001>0")
    assert code == 1
    commands = re.findall(r"hlo-lens (lint .*)", out)
    addresses = []
    for command in commands:
        found, text = _run(*shlex.split(command), "-f", "json")
        assert found == 0
        addresses += [one["address"] for one in json.loads(text)["modules"]]
    assert addresses == [
        "a/module_0000.jit_wasteful_step",
        "b/module_0000.jit_wasteful_step",
    ]


def test_the_diff_command_selects_the_only_module_that_failed(folder: str) -> None:
    rule = ("--fail-on", "memory.total_bytes>256MiB")
    code, out = _run("check", folder, "--baseline", folder, *rule)
    assert code == 1
    (command,) = re.findall(r"hlo-lens (diff .*)", out)
    data = json.loads(_run(*shlex.split(command), "-f", "json")[1])
    assert [one["name_head"] for one in data["modules"]] == ["jit_train_step"]


@pytest.mark.parametrize("columns", [72, 80, 100])
def test_a_rule_that_informs_has_the_figures_of_both_sides(tmp_path: Path, columns: int) -> None:
    rule = "collectives.wire_bytes_per_device"
    budget = tmp_path / "budget.toml"
    budget.write_text(
        f'[[budget]]\nmetric = "{rule}"\nthreshold = "5%"\ninformational = true\n'
        '[[budget]]\nmetric = "memory.total_bytes"\nmax = "14.5GiB"\nthreshold = "0.5%"\n'
    )
    out = _run("check", UPCAST, "--baseline", BASE, "--budget", str(budget), columns=columns)[1]
    table = out.partition("\nRules\n")[2].partition("\n\n")[0]
    for text in ("base", "head", "change", "fails_if", "384.00MiB", "768.00MiB", "+100%"):
        assert text in table.split()
    assert max(map(len, table.splitlines())) <= columns


@pytest.mark.parametrize("is_snapshot", [False, True])
def test_a_failed_rule_names_the_cause_with_its_line_and_the_command(
    tmp_path: Path, is_snapshot: bool
) -> None:
    step, edit = (str(SAMPLES / "pairs" / "tpu" / f"{n}.tar.xz") for n in ("step", "no_constraint"))
    if is_snapshot:
        dump, step = step, str(tmp_path / "base.json")
        assert _run("save", dump, "-o", step)[0] == 0
    arguments = (
        "check",
        edit,
        "--baseline",
        step,
        "--fail-on",
        "collectives.wire_bytes_per_device>+1%",
    )
    code, out = _run(*arguments, "--github-annotations", columns=200)
    assert code == 1
    what = "sharding constraint P('data',) -> P()"
    assert f"cause     programs/steps.py:56  {what}" in out
    (note,) = [line for line in out.splitlines() if line.startswith("::error")]
    assert f"cause: {what}; hlo-lens diff {step} {edit}" in note
    (verdict,) = json.loads(_run(*arguments, "-f", "json")[1])["rules"]
    assert [one["what"] for one in verdict["causes"]] == [what]


def test_a_baseline_without_program_is_named_as_the_basis_of_causes(tmp_path: Path) -> None:
    step, edit = (str(SAMPLES / "pairs" / "tpu" / f"{n}.tar.xz") for n in ("step", "undonated"))
    saved = str(tmp_path / "base.json")
    assert _run("save", step, "--no-program", "-o", saved)[0] == 0
    code, out = _run("check", edit, "--baseline", saved, columns=200)
    assert code == 1
    assert re.search(r"cause     programs/steps.py:\d+  donation lost for 6 arguments of 640", out)
    assert "basis     causes of arguments and donations only: no program of the base" in out


def test_an_undecided_rule_says_what_is_missing_and_what_writes_it(tmp_path: Path) -> None:
    text = tmp_path / "f.txt"
    text.write_text("HloModule m\n\nENTRY %e {\n  ROOT %p = f32[8]{0} parameter(0)\n}\n")
    code, out = _run("check", str(text), "--fail-on", "memory.total_bytes>1MiB", columns=200)
    assert code == 4
    assert "no buffer assignment and no scheduled HLO text; XLA writes it with XLA_FLAGS=" in out
