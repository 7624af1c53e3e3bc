"""``hlo-lens memory``: texts found next to a file, and errors."""

from __future__ import annotations

import csv
import io
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from hlo_lens.cli import main
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

STEM = "module_0000.jit_train_step.cpu_after_optimizations"
FOLDER = SAMPLES / "cpu" / "tp_mlp"


def run(*arguments: str | Path) -> Result:
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
    return runner.invoke(main, ["memory", *map(str, arguments)], catch_exceptions=False)


def memory_of(*arguments: str | Path) -> dict[str, Any]:
    result = run(*arguments, "-f", "json")
    assert result.exit_code == 0, result.stderr
    module = json.loads(result.stdout)["modules"][0]
    return dict(module)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for file in FOLDER.glob(f"{STEM}*"):
        shutil.copy(file, tmp_path)
    return tmp_path


@pytest.mark.parametrize("part", ["", "-buffer-assignment", "-live-range", "-memory-usage-report"])
def test_any_text_of_a_module_finds_the_others(part: str) -> None:
    module = memory_of(FOLDER / f"{STEM}{part}.txt")
    assert module["memory"]["source"] == "buffer-assignment"
    assert module["memory"]["missing"] == []
    assert len(module["files"]) == 5
    assert module["memory"] == memory_of(FOLDER / f"{STEM}.txt")["memory"]


def test_missing_texts_are_listed_with_their_flags(copied: Path) -> None:
    (copied / f"{STEM}-live-range.txt").unlink()
    result = run(copied / f"{STEM}.txt")
    assert "missing: live ranges" in result.stdout
    assert "--xla_dump_buffer_assignment_analysis" in result.stdout
    assert memory_of(copied / f"{STEM}.txt")["memory"]["missing"] == ["live ranges"]


def test_without_live_ranges_the_peak_follows_from_the_schedule(copied: Path) -> None:
    whole = memory_of(copied / f"{STEM}.txt")["memory"]["peak"]
    (copied / f"{STEM}-live-range.txt").unlink()
    assert memory_of(copied / f"{STEM}.txt")["memory"]["peak"] == whole
    assert "live ranges follow from the schedule" in run(copied / f"{STEM}.txt").stdout


def test_without_live_ranges_and_schedule_the_peak_is_unknown(copied: Path) -> None:
    (copied / f"{STEM}-live-range.txt").unlink()
    text = (copied / f"{STEM}.txt").read_text()
    (copied / f"{STEM}.txt").write_text(text.replace(", is_scheduled=true", ""))
    memory = memory_of(copied / f"{STEM}.txt")["memory"]
    assert memory["peak"] is None
    assert memory["spaces"][0]["peak_bytes"] is None


def test_without_hlo_text_sums_are_the_same(copied: Path) -> None:
    whole = memory_of(copied / f"{STEM}.txt")["memory"]
    (copied / f"{STEM}.txt").unlink()
    (copied / f"{STEM}.hlo.pb.gz").unlink()
    alone = memory_of(copied / f"{STEM}-buffer-assignment.txt")["memory"]
    assert alone["temp_bytes"] == whole["temp_bytes"]
    assert alone["peak"]["bytes"] == whole["peak"]["bytes"]
    assert "HLO text" in alone["missing"]


def test_a_wrong_total_is_an_error_that_names_both_numbers(copied: Path) -> None:
    report = copied / f"{STEM}-memory-usage-report.txt"
    text = report.read_text()
    total = text.split("Total bytes: ")[1].split(" ")[0]
    report.write_text(text.replace(f"Total bytes: {total}", "Total bytes: 12345"))
    result = run(copied / f"{STEM}.txt")
    assert result.exit_code == 4
    assert "12345" in result.stderr
    assert total in result.stderr


def test_texts_of_two_compiles_are_refused(copied: Path) -> None:
    other = SAMPLES / "cpu" / "shard_map_collectives"
    (hlo,) = other.glob("*cpu_after_optimizations.txt")
    shutil.copy(hlo, copied / f"{STEM}.txt")
    result = run(copied / f"{STEM}.txt")
    assert result.exit_code == 4
    assert "not of one compile" in result.stderr


def test_at_takes_an_instruction_and_an_instant() -> None:
    file = FOLDER / f"{STEM}.txt"
    peak = memory_of(file)["memory"]["peak"]
    by_name = memory_of(file, "--at", f"%{peak['instruction']}", "--by", "category")
    by_number = memory_of(file, "--at", str(peak["position"]), "--by", "category")
    assert by_name["groups"] == by_number["groups"]
    assert sum(group["size_bytes"] for group in by_name["groups"]) == peak["bytes"]


def test_the_timeline_is_complete_in_json_and_csv() -> None:
    file = FOLDER / f"{STEM}.txt"
    module = memory_of(file, "--timeline")
    held, used = module["timeline"]["held_bytes"], module["timeline"]["occupied_bytes"]
    peak = module["memory"]["peak"]
    assert held[peak["position"]] == max(held) == peak["bytes"]
    assert all(one <= other for one, other in zip(used, held, strict=True))
    roles = module["timeline"]["roles"].values()
    assert [sum(one) for one in zip(*roles, strict=True)] == held
    rows = list(csv.reader(io.StringIO(run(file, "--timeline", "-f", "csv").stdout)))
    positions = [row for row in rows if str(peak["bytes"]) in row and peak["instruction"] in row]
    assert positions


def test_a_plot_needs_a_known_ending(tmp_path: Path) -> None:
    result = run(FOLDER / f"{STEM}.txt", "--plot", tmp_path / "x.doc")
    assert result.exit_code == 2
    assert ".svg" in result.stderr


def test_a_plot_as_svg_has_roles_and_the_peak(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="drawing needs the extra plot")
    target = tmp_path / "memory.svg"
    assert run(FOLDER / f"{STEM}.txt", "--plot", target).exit_code == 0
    text = target.read_text()
    assert "peak 312.07MiB" in text
    assert "saved activations 144.00MiB" in text
    assert " x4</text>" in text


def test_a_plot_without_matplotlib_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hlo_lens.questions.memory.timeline.find_spec", lambda _: None)
    result = run(FOLDER / f"{STEM}.txt", "--plot", tmp_path / "memory.svg")
    assert result.exit_code == 2
    assert "pip install 'hlo-lens[plot]'" in result.stderr
    assert not (tmp_path / "memory.svg").exists()


@pytest.mark.parametrize("width", [76, 78, 80])
def test_definitions_of_figures_are_wrapped_whole(width: int) -> None:
    runner = CliRunner(env={"COLUMNS": str(width), "NO_COLOR": "1"})
    path = str(SAMPLES / "tpu" / "fsdp_transformer")
    out = runner.invoke(main, ["memory", path], catch_exceptions=False).stdout
    (table,) = (part for part in out.split("\n\n") if part.startswith("Memory of one device"))
    lines = table.splitlines()[1:]
    start = lines[0].index("definition")
    words = " ".join(line[start:].strip() for line in lines)
    assert "local to called computations, not in totals all allocations but thread-local" in words
