"""``hlo-lens diff`` as users call it."""

from __future__ import annotations

import csv
import json
import re
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = SAMPLES / "pairs"
BASE = str(PAIRS / "tpu" / "base.tar.xz")
UPCAST = str(PAIRS / "tpu" / "f32_upcast.tar.xz")
GATHER = str(PAIRS / "tpu" / "added_all_gather.tar.xz")

METRICS = ("argument_bytes", "output_bytes", "alias_bytes", "temp_bytes", "total_bytes")


def _run(*arguments: str, **env: str) -> tuple[int, str, str]:
    runner = CliRunner(env={"COLUMNS": "120", **env})
    result = runner.invoke(main, arguments, catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def _unpacked(tmp_path: Path, backend: str) -> Path:
    folder = tmp_path / "unpacked"
    with tarfile.open(PAIRS / backend / "base.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.fixture
def saved(tmp_path: Path) -> str:
    file = str(tmp_path / "base.json")
    assert _run("save", BASE, "--no-program", "-o", file) == (0, "", "")
    return file


# ---- diff --------------------------------------------------------------------------------------


def test_json_has_the_names_that_scripts_rely_on() -> None:
    code, out, err = _run("diff", BASE, UPCAST, "-f", "json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert (data["schema_version"], data["kind"]) == (3, "diff")
    (module,) = data["modules"]
    assert (module["name_base"], module["name_head"]) == ("jit_train_step", "jit_train_step")
    assert module["identical"] is False
    for name in METRICS:
        assert set(module["memory"][name]) == {"base", "head", "delta"}
    assert module["collectives"]["all-reduce"] == {"base": 3, "head": 3}
    counts = {"unchanged", "changed", "added", "removed", "moved"}
    assert counts <= set(module["program"])
    assert module["program"]["unchanged"] > 50
    for name in ("memory_rows", "collective_rows"):
        assert module[name]
    assert [row["name"] for row in module["sharding_rows"]] == ["{1}"]  # the loss, now f32


@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
def test_rows_of_json_sum_to_the_difference_of_allocated_bytes(backend: str) -> None:
    for edit in ("doubled_buffer", "four_layers", "f32_upcast", "lost_donation"):
        paths = (str(PAIRS / backend / f"{name}.tar.xz") for name in ("base", edit))
        (module,) = json.loads(_run("diff", *paths, "-f", "json")[1])["modules"]
        memory, rows = module["memory"], module["memory_rows"]
        total = sum(row["delta_bytes"] for row in rows)
        assert total == sum(
            memory[f"spaces[{peak['space']}].total_bytes"]["delta"] for peak in module["peaks"]
        )
        for peak in module["peaks"]:
            mine = [row for row in rows if row["space"] == peak["space"]]
            values = [row["delta_bytes"] for row in mine if row["base_values"] is not None]
            assert sum(values) == peak["delta"]
            assert memory[f"spaces[{peak['space']}].peak_bytes"]["delta"] == peak["delta"]


def test_text_counts_the_rows_that_it_cuts() -> None:
    code, out, _ = _run("diff", BASE, UPCAST, "--only", "memory", "-n", "1")
    assert code == 0
    table = out.split("Differences in HBM")[1].splitlines()
    assert table[2].startswith(" +256.00MiB  grown")
    assert re.match(r" \+256\.05MiB  \[\d others\]", table[3])
    assert table[4].startswith(" +512.05MiB  total")


def test_csv_has_all_tables() -> None:
    out = _run("diff", BASE, UPCAST, "-f", "csv")[1]
    tables = {row[1] for row in csv.reader(out.splitlines()) if row}
    assert {"memory-statement", "memory-diff", "collective-diff", "program-diff"} <= tables


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("memory.temp_bytes>+2%", 1),
        ("memory.temp_bytes>+200%", 0),
        ("memory.temp_bytes>1TiB", 0),
        ("collectives.static.all-gather>+0", 0),
        ("collectives.static.all-reduce!=3", 0),
        ("collectives.wire_bytes_per_device>+50%", 1),
        ("memory.tmp_bytes>+2%", 4),
        ("jit_eval:memory.temp_bytes>+2%", 4),
        ("memory.temp_bytes", 2),
    ],
)
def test_fail_on_sets_the_exit_code(rule: str, code: int) -> None:
    assert _run("diff", BASE, UPCAST, "--fail-on", rule)[0] == code


def test_against_a_snapshot_edits_are_reported_as_unknown(saved: str) -> None:
    code, out, _ = _run("diff", saved, UPCAST)
    assert code == 0
    assert "its edits are not known without the program of both sides" in out
    (module,) = json.loads(_run("diff", saved, UPCAST, "-f", "json")[1])["modules"]
    assert set(module["program"].values()) == {None}
    assert module["program_identical"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((BASE, UPCAST, "--only", "flops"), "cannot compare flops; there is memory, collectives"),
        ((BASE, UPCAST, "--no-ignore", "weather"), "no kind of noise is called 'weather'"),
        ((BASE, UPCAST, "--module", "no"), "no module matches 'no'; there is jit_train_step"),
        ((BASE, UPCAST, "--module", "("), "not a regular expression"),
        (("-", "-"), "only one side can be standard input"),
    ],
)
def test_usage_errors_list_the_valid_values(arguments: tuple[str, ...], message: str) -> None:
    code, _, err = _run("diff", *arguments)
    assert (code, message in err) == (2, True)


def test_a_missing_head_is_reported_before_the_base_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hlo_lens.questions.diff.sides.load_side", pytest.fail)
    code, _, err = _run("diff", BASE, "/nowhere/at/all")
    assert code == 3
    assert "/nowhere/at/all: no such file or folder" in err


def test_folders_of_other_module_numbers_are_paired(tmp_path: Path) -> None:
    for folder, number, extra in (("a", "0001", "jit_x"), ("b", "0017", "jit_y")):
        target = tmp_path / folder
        target.mkdir()
        for file in _unpacked(tmp_path, "cpu").iterdir():
            shutil.copy(file, target / file.name.replace("0000", number))
        text = f"HloModule {extra}\n\nENTRY main {{\n  ROOT p = f32[2] parameter(0)\n}}\n"
        (target / f"module_0002.{extra}.cpu_after_optimizations.txt").write_text(text)
    code, out, _ = _run("diff", str(tmp_path / "a"), str(tmp_path / "b"), "-f", "json")
    assert code == 0
    data = json.loads(out)
    assert [m["name_base"] for m in data["modules"]] == ["jit_train_step"]
    assert data["modules"][0]["identical"] is True
    assert [m["name"] for m in data["modules_removed"]] == ["jit_x"]
    assert [m["name"] for m in data["modules_added"]] == ["jit_y"]
    assert _run("diff", str(tmp_path / "a"), str(tmp_path / "b"), "--exit-code")[0] == 1


def test_a_gap_is_reported(tmp_path: Path) -> None:
    (file,) = _unpacked(tmp_path, "tpu").glob("*after_optimizations.txt")
    text = file.read_text()
    cut = tmp_path / "cut.txt"
    cut.write_text(text[: len(text) * 3 // 4])
    out = _run("diff", str(file), str(cut))[1]
    assert "of the head could not be read" in out


# ---- for GitHub --------------------------------------------------------------------------------


def test_the_summary_of_a_step_is_appended(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    file.write_text("before\n")
    env = {"GITHUB_STEP_SUMMARY": str(file)}
    _run("diff", BASE, UPCAST, "--github-step-summary", **env)
    text = file.read_text()
    assert text.startswith("before\n## hlo-lens diff: changed: ")
    assert text.count("<details>") == text.count("</details>") > 2
    code, _, err = _run("diff", BASE, UPCAST, "--github-step-summary", GITHUB_STEP_SUMMARY="")
    assert (code, "GITHUB_STEP_SUMMARY is not set" in err) == (0, True)


def test_causes_that_cost_are_annotated_on_the_users_lines() -> None:
    code, out, _ = _run("diff", BASE, GATHER, "--github-annotations")
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("::")]
    assert line.startswith("::warning ")
    assert "programs/pairs.py" in line
    assert "line=67" in line or "(at programs/pairs.py:67)" in line
    back = _run("diff", GATHER, BASE, "--github-annotations")[1]
    assert "::warning" not in back  # improvements


def test_annotations_are_kept_out_of_json() -> None:
    _, out, err = _run("diff", BASE, GATHER, "--github-annotations", "-f", "json")
    assert json.loads(out)["kind"] == "diff"
    assert "::warning" in err


# ---- what is not known -------------------------------------------------------------------------

BARE = """HloModule jit_f

ENTRY main {
  p = f32[8]{0} parameter(0)
  ROOT n = f32[8]{0} negate(p)
}
"""


def test_memory_without_buffers_and_schedule_is_unknown(tmp_path: Path) -> None:
    text = tmp_path / "f.txt"
    text.write_text(BARE)
    out = _run("diff", str(text), str(text))[1]
    assert "memory    not known: no side has a buffer assignment" in out
    (buffers,) = _unpacked(tmp_path, "tpu").rglob("*-buffer-assignment.txt")
    alone = tmp_path / "buffers.txt"
    alone.write_bytes(buffers.read_bytes())
    out = _run("diff", str(alone), BASE)[1]
    for subject in ("sent", "sharding", "program"):
        assert f"{subject:<9} not known: one side has no HLO text" in out
    assert "partitions" not in out


def test_unknown_memory_is_not_reported_as_unchanged(tmp_path: Path) -> None:
    base = _unpacked(tmp_path, "tpu")
    head = tmp_path / "head"
    shutil.copytree(base, head)
    (buffers,) = head.glob("*-buffer-assignment.txt")
    buffers.unlink()
    code, out, err = _run("diff", str(base), str(head), "--exit-code")
    assert code == 4
    assert out.startswith("hlo-lens diff: no change in what is known\n")
    assert "jit_train_step: whether it changed is not known: memory" in err
    (module,) = json.loads(_run("diff", str(base), str(head), "-f", "json")[1])["modules"]
    assert (module["identical"], module["unknown"]) == (True, ["memory"])
    assert _run("diff", str(base), str(head), "--exit-code", "--only", "program")[0] == 0
    (text,) = head.glob("*after_optimizations.txt")
    text.write_text(text.read_text() + "\n%what = is this\n")
    code, _, err = _run("diff", str(base), str(head), "--exit-code", "--only", "collectives")
    assert (code, "not known: gaps" in err) == (4, True)


def test_noise_kinds_of_a_snapshot_are_unknown(tmp_path: Path, saved: str) -> None:
    arguments = (saved, BASE, "--only", "program", "--exit-code")
    assert _run("diff", *arguments)[0] == 0
    code, out, err = _run("diff", *arguments, "--no-ignore", "names")
    assert (code, out.splitlines()[0]) == (4, "hlo-lens diff: no change in what is known")
    assert "program   not known: a snapshot without program does not keep noise" in out
    assert "whether it changed is not known: program" in err


def test_metadata_alone_changes_no_memory(tmp_path: Path) -> None:
    text, other = tmp_path / "a.txt", tmp_path / "b.txt"
    scheduled = BARE.replace("jit_f", "jit_f, is_scheduled=true")
    text.write_text(scheduled.replace("(p)", '(p), metadata={op_name="jit(f)/neg"}'))
    other.write_text(scheduled.replace("(p)", '(p), metadata={op_name="jit(g)/neg"}'))
    code, out, _ = _run("diff", str(text), str(other), "--exit-code")
    assert code == 0
    assert "memory    no change" in out


def test_memory_of_a_large_text_is_estimated_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hlo_lens.questions.memory.results.MOST_ESTIMATED", 3)
    text, base = tmp_path / "f.txt", str(tmp_path / "base.json")
    text.write_text(BARE.replace("jit_f", "jit_f, is_scheduled=true"))
    name, rule = str(text), "memory.temp_bytes>+0%"
    assert "memory    no change" in _run("diff", name, name)[1]
    for room in ("memory.results", "diff.memory"):
        monkeypatch.setattr(f"hlo_lens.questions.{room}.MOST_ESTIMATED", 1)
    said = "".join(_run("diff", name, name)[1].split())  # the line is cut at any hyphen
    assert "notestimated:2instructions,morethan1;" in said
    assert f"hlo-lensmemory{name}--modulejit_f" in said
    assert "memory  no change" in _run("diff", name, name, "--only", "memory")[1]
    assert _run("diff", name, name, "--fail-on", rule)[0] == 0
    _run("save", name, "-o", base)
    assert _run("check", name, "--baseline", base)[0] == 0
    assert "memory    no change" in _run("diff", base, name)[1]
