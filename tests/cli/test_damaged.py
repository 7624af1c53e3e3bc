"""Damaged, mixed and cut dumps: losses are reported, and what needs the lost part is not known."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from hlo_lens.cli import main
from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.load.programs import modules_of
from hlo_lens.program.summary import CUT
from hlo_lens.questions.report.module_page import module_object
from tests.corpus import SAMPLES
from tests.timing import PATIENCE_SECONDS

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule


STEM = "module_0000.jit_train_step.cpu_after_optimizations"
FOLDER = SAMPLES / "cpu" / "tp_mlp"


def run(*arguments: str | Path) -> Result:
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
    return runner.invoke(main, list(map(str, arguments)), catch_exceptions=False)


def first_module(result: Result) -> dict[str, Any]:
    return dict(json.loads(result.stdout)["modules"][0])


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for file in FOLDER.glob(f"{STEM}*"):
        shutil.copy(file, tmp_path)
    return tmp_path


@pytest.mark.parametrize("beside", ["live ranges", "HLO alone"])
def test_an_assignment_cut_between_lines_is_truncated(
    copied: Path, beside: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = tmp_path_factory.mktemp("whole") / "dump"
    shutil.copytree(copied, whole)
    for folder in (copied, whole):
        for other in folder.glob("*-memory-usage-report.txt"):
            other.unlink()
        if beside == "HLO alone":
            (folder / f"{STEM}-live-range.txt").unlink()
    file = copied / f"{STEM}-buffer-assignment.txt"
    lines = file.read_text().splitlines(keepends=True)
    place = max(k for k, line in enumerate(lines) if "preallocated-temp" in line)
    for kept in (place, place + 5 if beside == "HLO alone" else len(lines) - 3):
        file.write_text("".join(lines[:kept]))
        said = run("memory", copied)
        assert said.exit_code == 0
        assert "memory  of a text that is not complete: " in said.stdout
        assert "without memory" in said.stdout
        assert "sums are of the part that is there" in said.stdout
        assert first_module(run("report", copied, "-f", "json"))["memory"]["is_complete"] is False
        judged = run("check", copied, "--baseline", whole)
        assert judged.exit_code == 4
        assert "the buffer texts are not complete" in judged.stderr
        assert "the buffer texts of the head are not complete" in run("diff", whole, copied).stdout
    assert first_module(run("report", whole, "-f", "json"))["memory"]["is_complete"] is True


def test_a_lost_body_is_reported_as_lacking(
    copied: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = tmp_path_factory.mktemp("whole")
    file = copied / f"{STEM}.txt"
    shutil.copy(file, whole)
    for other in copied.glob("*-*"):
        other.unlink()
    text = file.read_text()
    (name,) = re.findall(r"body=%([\w.-]+)", text)[:1]
    start = text.index(f"\n%{name} (")
    file.write_text(text[:start] + text[text.index("\n}\n", start) + 2 :])
    said = run("report", copied)
    assert said.exit_code == 0
    assert f"no gaps, lacks 1 part that it uses: {name}" in said.stdout
    coverage = first_module(run("report", copied, "-f", "json"))["coverage"]
    assert (coverage["undefined"], coverage["undefined_names"]) == (1, [name])
    judged = run("check", copied, "--baseline", whole, "--fail-on", "collectives.static.*>+0")
    assert judged.exit_code == 4
    assert f"the HLO text lacks parts that it uses (1), such as {name}" in judged.stderr
    assert "the head lacks 1 part that its text uses" in run("diff", whole, copied).stdout


def test_live_ranges_of_another_compile_are_refused(copied: Path) -> None:
    (other,) = (SAMPLES / "cpu" / "wasteful").glob("*-live-range.txt")
    shutil.copy(other, copied / f"{STEM}-live-range.txt")
    result = run("memory", copied)
    assert result.exit_code == 4
    assert "not of the same compile" in result.stderr


def test_a_cut_live_range_gives_a_lower_bound(copied: Path) -> None:
    file = copied / f"{STEM}-live-range.txt"
    text = file.read_text()
    file.write_text(text[: text.index("BufferLiveRange") + 2000])
    result = run("memory", copied)
    assert "at least" in result.stdout
    memory = first_module(run("memory", copied, "-f", "json"))["memory"]
    assert memory["is_complete"] is False
    assert memory["spaces"][0]["fragmentation_bytes"] is None


CYCLE = "ENTRY e {\n  p = f32[] parameter(0)\n  ROOT c = f32[] call(p), to_apply=e\n}\n"


def doubling(levels: int) -> str:
    text = "c0 {\n  ROOT p = f32[] parameter(0)\n}\n"
    for level in range(1, levels):
        text += (
            f"c{level} {{\n  p = f32[] parameter(0)\n"
            f"  a = f32[] call(p), to_apply=c{level - 1}\n"
            f"  ROOT b = f32[] call(a), to_apply=c{level - 1}\n}}\n"
        )
    last = f"  ROOT r = f32[] call(p), to_apply=c{levels - 1}\n"
    return f"{text}ENTRY e {{\n  p = f32[] parameter(0)\n{last}}}\n"


@pytest.mark.parametrize("text", [CYCLE, doubling(40), doubling(2000)], ids=["cycle", "40", "2000"])
@pytest.mark.parametrize("command", ["report", "memory", "show"])
def test_strange_call_graphs_end(tmp_path: Path, command: str, text: str) -> None:
    file = tmp_path / "calls.txt"
    file.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "hlo_lens", command, str(file)],
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]


ZERO = Path("/dev/zero")


@pytest.mark.skipif(not ZERO.exists(), reason="no /dev/zero on this system")
@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "/dev/zero"],
        ["diff", "/dev/zero", "/dev/zero"],
        ["check", str(FOLDER), "--budget", "/dev/zero"],
        ["check", str(FOLDER), "--baseline", "/dev/zero"],
        ["report", str(FOLDER), "--log", "/dev/zero"],
    ],
)
def test_input_without_end_is_refused(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code in (3, 4)
    assert "this is binary data" in result.stderr or "more than 256 MiB" in result.stderr


WHOLE = SAMPLES / "cpu" / "tp_mlp" / f"{STEM}.txt"
TEXTS = [
    WHOLE,
    *SAMPLES.glob("tpu/tp_mlp/*.after_optimizations.txt"),
    *SAMPLES.glob("gpu/tp_mlp/*gpu_after_optimizations.txt"),
    *SAMPLES.glob("cpu/shard_map_collectives/*.before_optimizations.txt"),
]
OF_ONE_RUN = ("flops", "flops_at_least", "flops_is_at_most", "memory", "output_rows")


def object_of(module: HloModule) -> dict[str, Any]:
    return dict(module_object(modules_of(module)[0]))


def cuts(text: str) -> list[int]:
    """Return offsets before the end: each 50th line, and some inside lines."""
    lines = text.splitlines(keepends=True)
    at_lines = [len("".join(lines[:count])) for count in range(1, len(lines), 50)]
    chosen = random.Random(len(text)).sample(range(20, len(text.rstrip())), 8)
    return [*at_lines, *chosen]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: "/".join(path.parts[-3:]))
def test_figures_of_one_run_need_the_whole_entry(path: Path) -> None:
    text = path.read_text()
    for cut in cuts(text):
        module = parse_hlo(text[:cut])
        assert module.is_truncated, cut
        assert module.gaps, cut
        found = object_of(module)
        assert not any(found[name] is not None for name in OF_ONE_RUN), cut
        assert set(found["collectives"]["dynamic"].values()) == {None}
        assert found["collectives"]["wire_bytes_per_device"] is None
        assert found["sharding"]["rows"] is None


@pytest.mark.parametrize("share", [0.5, 0.97])
@pytest.mark.parametrize("is_head", [True, False])
def test_a_whole_and_a_cut_text_are_undecided(tmp_path: Path, share: float, is_head: bool) -> None:
    lines = WHOLE.read_text().splitlines(keepends=True)
    file = tmp_path / "cut.txt"
    file.write_text("".join(lines[: int(len(lines) * share)]))
    base, head = (WHOLE, file) if is_head else (file, WHOLE)
    compared = run("diff", base, head, "--exit-code")
    assert compared.exit_code == 4
    assert compared.stdout.startswith("hlo-lens diff: undecided: a text ends too early\n")
    assert run("diff", base, head).exit_code == 4
    saved = run("save", file)
    assert (saved.exit_code, json.loads(saved.stdout)["kind"]) == (4, "snapshot")
    for rule in ("collectives.static.*>+0", "collectives.dynamic.all-reduce>+0", "parameters>+0"):
        assert run("check", head, "--baseline", base, "--fail-on", rule).exit_code == 4


@pytest.mark.parametrize("command", ["report", "ls", "memory", "collectives", "lint", "save"])
def test_an_archive_that_is_cut_is_named_and_ends_with_4(command: str, tmp_path: Path) -> None:
    file = tmp_path / "cut.tar.xz"
    file.write_bytes((SAMPLES / "plants" / "gpu" / "embedding.tar.xz").read_bytes()[:12_000])
    out = ["-o", str(tmp_path / "base.json")] if command == "save" else []
    cut = run(command, file, *out)
    assert cut.exit_code == 4
    assert "ends too early" in cut.stderr
    assert command == "save" or len(cut.stdout.splitlines()) > 2


@pytest.mark.parametrize("command", ["report", "memory", "collectives", "lint"])
def test_a_cut_text_is_named_first_and_ends_with_4_after_the_results(
    command: str, copied: Path
) -> None:
    file = copied / f"{STEM}.txt"
    whole = run(command, copied)
    assert whole.exit_code == 0
    file.write_text(file.read_text()[:-300])
    cut = run(command, copied)
    lines = cut.stdout.splitlines()
    label = "" if command == "report" else "cut"
    assert lines[1].split() == f"{label} {CUT}".split()
    assert len(lines) > 5
    assert cut.exit_code == 4
    assert "the text ends too early" in cut.stderr
    assert len(first_module(run(command, copied, "-f", "json"))) > 3
