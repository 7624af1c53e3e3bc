"""Exit codes and JSON of ``hlo-lens check`` against budgets and saved baselines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = SAMPLES / "pairs"
BASE, UPCAST, GATHER = (
    str(PAIRS / "tpu" / f"{name}.tar.xz") for name in ("base", "f32_upcast", "added_all_gather")
)


def _run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "120"}).invoke(main, arguments, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def saved(tmp_path: Path) -> str:
    file = str(tmp_path / "base.json")
    assert _run("save", BASE, "-o", file) == (0, "", "")
    return file


BUDGET = """
[defaults]
threshold = "2%"
min_change = "8MiB"

[[budget]]
module = "train"
metric = "memory.spaces[HBM].total_bytes"
max = "14.5GiB"

[[budget]]
metric = "collectives.all-gather.count"
absent = true
"""


def _budget(tmp_path: Path, text: str = BUDGET) -> str:
    file = tmp_path / "hlo-lens.toml"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(("head", "code"), [(BASE, 0), (UPCAST, 1), (GATHER, 1)])
def test_check_keeps_a_budget(tmp_path: Path, saved: str, head: str, code: int) -> None:
    budget = _budget(tmp_path)
    found, out, _ = _run("check", head, "--baseline", saved, "--budget", budget, "-f", "json")
    assert found == code
    data = json.loads(out)
    assert (data["kind"], data["passed"]) == ("check", code == 0)
    assert [rule["module"] for rule in data["rules"]] == ["jit_train_step"] * 2


def test_a_baseline_without_rules_allows_little_growth(saved: str) -> None:
    assert _run("check", BASE, "--baseline", saved)[0] == 0
    assert _run("check", UPCAST, "--baseline", saved)[0] == 1


def test_another_backend_is_4_unless_forced(saved: str) -> None:
    gpu = str(PAIRS / "gpu" / "base.tar.xz")
    code, _, err = _run("check", gpu, "--baseline", saved)
    assert code == 4
    assert "backend tpu -> gpu" in err
    assert _run("check", gpu, "--baseline", saved, "--force")[0] in (0, 1)


def test_a_gap_in_counted_figures_is_4(tmp_path: Path) -> None:
    body = "p = f32[2] parameter(0)\n  ???\n  ROOT n = f32[2] negate(p)"
    text = f"HloModule m\n\nENTRY e {{\n  {body}\n}}\n"
    file = tmp_path / "m.txt"
    file.write_text(text)
    code, _, err = _run("check", str(file), "--fail-on", "collectives.static.all-gather>0")
    assert code == 4
    assert "could not be read" in err


def test_input_errors_have_their_code_and_place(tmp_path: Path) -> None:
    code, _, err = _run("check", BASE)
    assert code == 2
    assert "nothing to judge by: give --budget FILE, --baseline PATH or --fail-on RULE" in err
    file = _budget(tmp_path, '[[budget]]\nmetric = "memory.temp_bytes"\nmaxx = 1\n')
    code, _, err = _run("check", BASE, "--budget", file)
    assert (code, f"{file}:3: unknown key 'maxx'" in err) == (2, True)
    assert _run("check", BASE, "--budget", "/nowhere.toml")[0] == 3


BARE = """HloModule jit_f

ENTRY main {
  p = f32[8]{0} parameter(0)
  ROOT n = f32[8]{0} negate(p)
}
"""


def test_a_changed_program_with_unknown_memory_does_not_pass(tmp_path: Path) -> None:
    base, head = tmp_path / "base.txt", tmp_path / "head.txt"
    base.write_text(BARE)
    head.write_text(BARE.replace("negate", "abs"))
    assert _run("check", str(base), "--baseline", str(base))[0] == 0
    code, _, err = _run("check", str(head), "--baseline", str(base))
    assert code == 4
    assert "not known on either side, and the program changed" in err
    rule = "collectives.static.*>+0"
    assert _run("check", str(head), "--baseline", str(base), "--fail-on", rule)[0] == 0
