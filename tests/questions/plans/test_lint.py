"""``hlo-lens lint`` and ``hlo-lens explain``."""

from __future__ import annotations

import csv
import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens import lint
from hlo_lens.cli import main
from hlo_lens.questions.findings.finding import Finding, Remedy, Severity
from hlo_lens.questions.findings.findings import Findings
from hlo_lens.questions.findings.page import FindingsView, lint_report
from hlo_lens.questions.findings.rule import all_rules
from tests.corpus import ROOT

if TYPE_CHECKING:
    from hlo_lens.questions.findings.rule import Rule

WASTEFUL = str(ROOT / "sample_dumps" / "cpu" / "wasteful")


def _run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "100"}).invoke(main, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_text_has_saving_line_fix_and_command() -> None:
    code, out, err = _run("lint", WASTEFUL)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "M001 warning saves up to 4.00MiB (7%); programs/wasteful.py:100: argument" in text
    assert 'fix jax.jit(wasteful_step, donate_argnames=("params",))' in text
    assert f"try hlo-lens what-if {WASTEFUL} --donate params" in text
    lines = out.splitlines()
    assert max(len(line) for line in lines if "hlo-lens what-if" not in line) <= 100


def test_the_limit_of_a_report_is_that_of_its_lint() -> None:
    sample = str(ROOT / "sample_dumps" / "gpu" / "tp_mlp")
    first = _run("report", sample, "--limit", "256MiB")[1]
    assert f"hlo-lens lint {sample} --limit 256MiB" in first
    assert "M007 warning" in first
    assert "M007 warning" in _run("lint", sample, "--limit", "256MiB")[1]
    assert "M007 warning" not in _run("lint", sample)[1]


def test_csv_has_a_row_for_each_finding_of_json() -> None:
    rows = list(csv.DictReader(_run("lint", WASTEFUL, "-f", "csv")[1].splitlines()))
    (module,) = json.loads(_run("lint", WASTEFUL, "-f", "json")[1])["modules"]
    assert [row["code"] for row in rows] == [one["code"] for one in module["findings"]]
    assert [row["message"] for row in rows] == [one["message"] for one in module["findings"]]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_explain_prints_the_whole_description(rule: Rule) -> None:
    code, out, _ = _run("explain", rule.code)
    assert code == 0
    text = " ".join(out.split())
    assert rule.text.title in text
    assert all(" ".join(part.split()) in text for part in rule.text.parts.values())


LOG = str(ROOT / "sample_dumps" / "logs" / "tpu_oom_libtpu_0_0_17.txt")


def test_findings_of_a_text_without_a_program_are_not_known() -> None:
    code, out, _ = _run("lint", LOG)
    assert code == 0
    assert "findings  not known: no HLO text" in out
    (module,) = json.loads(_run("lint", LOG, "-f", "json")[1])["modules"]
    assert module["findings"] is None
    code, _, err = _run("lint", LOG, "--fail-on", "warning")
    assert code == 4
    assert "--fail-level cannot be decided" in err


def test_modules_without_findings_are_counted(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "sample_dumps" / "cpu" / "tp_mlp", tmp_path / "tp_mlp")
    text = "HloModule small, is_scheduled=true\n\nENTRY e {\n  ROOT x = f32[8]{0} parameter(0)\n}\n"
    (tmp_path / "small.txt").write_text(text)
    code, out, _ = _run("lint", str(tmp_path), "--module", ".")
    assert code == 0
    assert "\nhlo-lens lint\ncopy      tp_mlp/compiled.txt: the program of " in out
    assert "\nfindings  none in 1 other module" in out
    assert "findings  none\n" not in out


def test_text_alone_leaves_rules_undecided(tmp_path: Path) -> None:
    (text,) = Path(WASTEFUL).glob("*cpu_after_optimizations.txt")
    alone = tmp_path / "alone.txt"
    alone.write_bytes(text.read_bytes())
    code, out, err = _run("lint", str(alone), "--select", "M003", "--fail-on", "warning")
    assert code == 4
    assert "replicated over an unknown mesh" in out
    assert "cannot be decided" in err


def test_commands_select_one_of_several_texts_of_one_name(tmp_path: Path) -> None:
    """In folders, and in an archive, whose folders no path names."""
    for name in ("a", "b/c"):
        (text,) = Path(WASTEFUL).glob("*cpu_after_optimizations.txt")
        (tmp_path / "dump" / name).mkdir(parents=True)
        (tmp_path / "dump" / name / "as_text.txt").write_bytes(text.read_bytes())
    with tarfile.open(tmp_path / "dump.tar", "w") as archive:
        archive.add(tmp_path / "dump", arcname="")
    for path in (tmp_path / "dump", tmp_path / "dump.tar"):
        out = " ".join(_run("lint", str(path))[1].split())
        for address in ("a/as_text.txt", "b/c/as_text.txt"):
            assert f"{address} findings" in out
            assert "what-if has no program to compile" in out
            data = json.loads(_run("lint", str(path), "--module", address, "-f", "json")[1])
            assert [one["address"] for one in data["modules"]] == [address]
        both = json.loads(_run("lint", str(path), "--module", "as_text", "-f", "json")[1])
        assert len(both["modules"]) == 2


def test_a_text_with_the_program_of_a_dump_beside_it_is_counted_once() -> None:
    path = str(ROOT / "sample_dumps" / "cpu" / "tp_mlp")
    code, out, _ = _run("lint", path)
    assert code == 0
    assert "\nhlo-lens lint\ncopy  compiled.txt: the program of module_0000.jit_train_step\n" in out
    data = json.loads(_run("lint", path, "-f", "json")[1])
    copies = {one["name"]: (one["copy_of"], len(one["findings"])) for one in data["modules"]}
    name = "module_0000.jit_train_step"
    assert copies == {"compiled.txt": (name, 0), name: (None, 4)}
    alone = json.loads(_run("lint", path, "--module", "compiled.txt", "-f", "json")[1])
    assert [one["copy_of"] for one in alone["modules"]] == [None]
    assert len(alone["modules"][0]["findings"]) == 1


def test_a_text_of_another_program_is_no_copy(tmp_path: Path) -> None:
    (text,) = Path(WASTEFUL).glob("*cpu_after_optimizations.txt")
    (tmp_path / text.name).write_bytes(text.read_bytes())
    other = text.read_text().replace("constant(0)", "constant(1)", 1)
    assert other != text.read_text()
    (tmp_path / "as_text.txt").write_text(other)
    assert [one.copy_of for one in lint(tmp_path).modules] == ["", ""]
    (tmp_path / "as_text.txt").write_text(text.read_text())
    assert [one.copy_of for one in lint(tmp_path).modules] == ["module_0000.jit_wasteful_step", ""]


def _tries(*arguments: str) -> list[str]:
    """Return the commands below findings."""
    out = CliRunner(env={"COLUMNS": "2000"}).invoke(main, ["lint", *arguments]).stdout
    return [line.split(maxsplit=1)[1] for line in out.splitlines() if line.startswith("  try ")]


def test_a_command_makes_all_changes() -> None:
    remedies = tuple(Remedy(kind="shard", target=f"p{k}=P('x')") for k in range(6))
    one = Finding(message="m", fix="f", code="M003", severity=Severity.INFO, changes=remedies)
    view = FindingsView(name="n", path="dump", findings=Findings(findings=(one,)))
    facts = dict(lint_report([view]).sections[0].facts)
    shards = " ".join(f"--shard \"p{k}=P('x')\"" for k in range(6))
    assert facts["  try"] == f"hlo-lens what-if dump {shards}"
    assert "" not in facts


def test_commands_can_be_run_as_they_are_printed(tmp_path: Path) -> None:
    """With a target to fill in where the dump names no device; none where it has no program."""
    assert f"hlo-lens what-if {WASTEFUL} --donate params" in _tries(WASTEFUL)
    assert f"hlo-lens what-if {WASTEFUL} --donate params" in _tries(WASTEFUL, "--stage", "before")
    gpu = str(ROOT / "sample_dumps" / "gpu" / "wasteful")
    assert f"hlo-lens what-if {gpu} --donate params" in _tries(gpu)
    command = f"hlo-lens what-if {gpu} --target h200 --donate params"
    assert command in _tries(gpu, "--target", "h200")
    (compiled,) = Path(WASTEFUL).glob("*cpu_after_optimizations.txt")
    (before,) = Path(WASTEFUL).glob("*before_optimizations.txt")
    for name, text in (("as_text.txt", compiled), (before.name, before), ("before.txt", before)):
        (tmp_path / name).write_bytes(text.read_bytes())
    alone = [str(tmp_path / name) for name in ("as_text.txt", before.name, "before.txt")]
    assert _tries(alone[0]) == []
    assert f"hlo-lens what-if {alone[1]} --target NAME --donate params" in _tries(alone[1])
    assert "--target, such as v5e:2x4: the dump names no device" in _run("lint", alone[1])[1]
    assert _tries(alone[2]) == []
    assert "what-if has no program to compile" in _run("lint", alone[2])[1]


def test_rules_that_need_the_compiled_text_say_so_of_an_earlier_one() -> None:
    out = " ".join(_run("lint", WASTEFUL, "--stage", "before")[1].split())
    assert "C014: this is the text from before optimizations; the compiled one has" in out
