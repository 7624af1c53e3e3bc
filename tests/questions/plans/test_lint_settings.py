"""Settings of ``lint``: options, hlo-lens.toml, comments, baselines, levels."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import ROOT

if TYPE_CHECKING:
    from pathlib import Path

WASTEFUL = str(ROOT / "sample_dumps" / "cpu" / "wasteful")


def _run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "100"}).invoke(main, arguments)
    return result.exit_code, result.stdout, result.stderr


def _findings(*options: str) -> list[dict[str, Any]]:
    code, out, err = _run("lint", WASTEFUL, "-f", "json", *options)
    assert (code, err) == (0, "")
    found: list[dict[str, Any]] = json.loads(out)["modules"][0]["findings"]
    return found


def _codes(*options: str) -> set[str]:
    return {one["code"] for one in _findings(*options)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_codes_and_their_beginnings_are_selected_and_ignored() -> None:
    assert _codes("--select", "M001,M002") == {"M001", "M002"}
    assert _codes("--select", "M", "--ignore", "M003") >= {"M001", "M002"}
    assert "M003" not in _codes("--ignore", "M003")
    assert _codes("--ignore", "M", "--select", "M001") == {"M001"}


def test_findings_that_are_left_out_are_counted() -> None:
    out = _run("lint", WASTEFUL, "--select", "M001,M002", "--min-saving", "1%")[1]
    assert "1 finding left out: they save less than 1%" in out
    assert " left out: by code" in out


def test_least_savings() -> None:
    assert all((one["share"] or 1) >= 0.1 for one in _findings("--min-saving", "10%"))
    sizes = [one["saves"] for one in _findings("--select", "M001,M003", "--min-saving", "1MiB")]
    assert sizes
    assert all(one["bytes"] >= 1 << 20 for one in sizes)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--select", "M0001"), "no rule has the code 'M0001'; did you mean M001"),
        (("--min-saving", "lots"), "lots"),
        (("--config", "nowhere.toml"), "nowhere.toml"),
        (("--baseline", "nowhere.json"), "nowhere.json"),
    ],
)
def test_wrong_options(option: tuple[str, str], message: str) -> None:
    code, _, err = _run("lint", WASTEFUL, *option)
    assert code in (2, 3)
    assert message in err


def test_exit_code_by_severity() -> None:
    assert _run("lint", WASTEFUL)[0] == 0
    assert _run("lint", WASTEFUL, "--fail-on", "warning")[0] == 1
    assert _run("lint", WASTEFUL, "--select", "M001,M002", "--fail-on", "error")[0] == 0
    assert _run("lint", WASTEFUL, "--select", "M002", "--fail-on", "warning")[0] == 0
    assert _run("lint", WASTEFUL, "--select", "M002", "--fail-on", "info")[0] == 1


def test_annotations_are_at_the_lines_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    out = _run("lint", WASTEFUL, "--select", "M001", "--github-annotations")[1]
    (line,) = [line for line in out.splitlines() if line.startswith("::")]
    assert line.startswith(
        "::warning file=sample_dumps/programs/wasteful.py,line=100,title=M001 undonated-argument::"
        "argument params (2 of 3 arrays, 4.00MiB) is not donated (saves up to "
        "4.00MiB (7%25)); "
    )


def test_the_nearest_file_with_settings_counts(folder: Path) -> None:
    (folder / "hlo-lens.toml").write_text('[lint]\nselect = ["M001"]\nmin-saving = "1%"\n')
    (folder / "below").mkdir()
    assert _codes() == {"M001"}
    shutil.copy(ROOT / "sample_dumps" / "hlo-lens.toml", folder / "below" / "hlo-lens.toml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder / "below")  # its file has no [lint]
        assert _codes() == {"M001"}
    assert _codes("--select", "M002") == set()  # less than 1%
    other = folder / "other.toml"
    other.write_text('[lint]\nselect = ["M002"]\n')
    assert _codes("--config", str(other)) == {"M002"}


def test_findings_of_a_module_are_suppressed(folder: Path) -> None:
    (folder / "hlo-lens.toml").write_text('[lint.per-module-ignores]\n"wasteful" = ["M"]\n')
    found = [one for one in _findings() if one["code"].startswith("M")]
    assert found
    assert all(one["suppressed"] for one in found)
    assert found[0]["suppressed_by"].endswith("hlo-lens.toml: per_module_ignores")
    assert _run("lint", WASTEFUL, "--select", "M", "--fail-on", "info")[0] == 0


def test_settings_have_a_level_and_a_baseline(folder: Path) -> None:
    text = '[lint]\nfail_on = "warning"\n'
    (folder / "hlo-lens.toml").write_text(text)
    assert _run("lint", WASTEFUL)[0] == 1
    assert _run("lint", WASTEFUL, "-f", "json", "-o", "known.json")[0] == 1
    (folder / "hlo-lens.toml").write_text(f'{text}baseline = "known.json"\n')
    assert _run("lint", WASTEFUL)[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[lint]\nselekt = []\n", "unknown key 'selekt' in [lint]; did you mean select?"),
        ('[lint]\nselect = "M"\n', "select is a list of codes"),
        ('[lint]\nignore = ["M0001"]\n', "no rule has the code 'M0001'"),
        ('[lint]\nfail_on = "fatal"\n', "no severity is called 'fatal'"),
        ("lint = 3\n", "lint is a table"),
        ("[lint", "not TOML"),
    ],
)
def test_wrong_settings(text: str, message: str, folder: Path) -> None:
    (folder / "hlo-lens.toml").write_text(text)
    code, _, err = _run("lint", WASTEFUL)
    assert code == 2
    assert message in err
    assert _run("report", WASTEFUL)[0] == 0


@pytest.mark.parametrize(
    ("comment", "is_suppressed"),
    [
        ("# hlo-lens: ignore[M001]", True),
        ("# type: ignore # hlo-lens: ignore[M003, M001]", True),
        ("# hlo-lens: ignore[M]", True),
        ("# hlo-lens: ignore", True),
        ("# hlo-lens: ignore[M003]", False),
        ("# nothing", False),
    ],
)
def test_a_comment_at_the_line_suppresses(comment: str, is_suppressed: bool, folder: Path) -> None:
    lines = ["pass"] * 200
    lines[99] = f"h = embedding[tokens]  {comment}"
    (folder / "programs").mkdir()
    (folder / "programs" / "wasteful.py").write_text("\n".join(lines))
    (found,) = _findings("--select", "M001")
    assert found["suppressed"] is is_suppressed
    if is_suppressed:
        assert found["suppressed_by"] == "comment at programs/wasteful.py:100"
        assert "1 suppressed" in _run("lint", WASTEFUL, "--select", "M001")[1]
        assert "M001" not in _run("report", WASTEFUL)[1]
    rule = _run("check", WASTEFUL, "--fail-on", "findings.M001>0")[0]
    assert rule == (0 if is_suppressed else 1)


@pytest.mark.parametrize("baseline", ["known.json", "base.json", WASTEFUL])
def test_known_findings_do_not_count(baseline: str, folder: Path) -> None:
    assert _run("lint", WASTEFUL, "-f", "json", "-o", "known.json")[0] == 0
    assert _run("save", WASTEFUL, "-o", "base.json")[0] == 0
    found = _findings("--baseline", baseline)
    assert all(one["suppressed_by"] == f"baseline {baseline}" for one in found)
    assert _run("lint", WASTEFUL, "--baseline", baseline, "--fail-on", "info")[0] == 0


def test_new_findings_count(folder: Path) -> None:
    assert _run("lint", WASTEFUL, "--ignore", "M001", "-f", "json", "-o", "known.json")[0] == 0
    found = _findings("--baseline", "known.json")
    assert [one["code"] for one in found if not one["suppressed"]] == ["M001"]


def test_a_damaged_baseline_is_refused(folder: Path) -> None:
    (folder / "known.json").write_text(
        '{"kind": "lint", "schema_version": 3, "modules": [{"name": "m", "findings": 7}]}'
    )
    code, _, err = _run("lint", WASTEFUL, "--baseline", "known.json")
    assert code == 4
    assert "modules[0].findings is 7" in err
    assert _run("lint", WASTEFUL, "--baseline", f"{WASTEFUL}/expect.json")[0] == 4


def test_comments_annotations_and_sarif_have_the_same_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".git").mkdir()
    (folder / "tools" / "inner").mkdir(parents=True)
    lines = [""] * 200
    (folder / "tools" / "programs").mkdir()
    (folder / "tools" / "programs" / "wasteful.py").write_text("\n".join(lines))
    monkeypatch.chdir(folder / "tools" / "inner")
    out = _run("lint", WASTEFUL, "--select", "M001", "--github-annotations")[1]
    assert "comments not read" not in out
    assert "::warning file=tools/programs/wasteful.py,line=100," in out
    sarif = _run("lint", WASTEFUL, "--select", "M001", "-f", "sarif")[1]
    assert '"uri": "tools/programs/wasteful.py"' in sarif
    lines[99] = "h = f(x)  # hlo-lens: ignore[M001]"
    (folder / "tools" / "programs" / "wasteful.py").write_text("\n".join(lines))
    assert "1 suppressed" in _run("lint", WASTEFUL, "--select", "M001")[1]


def test_a_text_that_is_not_whole_has_no_findings_in_what_was_read(tmp_path: Path) -> None:
    cut = tmp_path / "cut.txt"
    cut.write_text("HloModule m\nENTRY main {\n  x = f32[8]{0} parameter(0)\n  y = f32[8]{0} neg")
    for command in ("lint", "report"):
        out = _run(command, str(cut), *(("--select", "M001") if command == "lint" else ()))[1]
        assert " in the parts that were read" in out


def test_a_gate_on_a_text_that_is_not_whole_is_undecided(tmp_path: Path) -> None:
    text = next((ROOT / "sample_dumps" / "cpu" / "wasteful").glob("*cpu_after_optimizations.txt"))
    lines = text.read_text("utf-8").splitlines(keepends=True)
    cut = tmp_path / "cut.txt"
    cut.write_text("".join(lines[: len(lines) // 2]), encoding="utf-8")
    code, out, err = _run("lint", str(cut), "--fail-on", "error")
    assert code == 4
    assert "findings may be missing: " in out
    assert "--fail-level cannot be decided" in err
    assert _run("lint", str(cut))[0] == 4
    assert _run("check", str(cut), "--fail-on", "findings.error>0")[0] == 4


def test_a_gate_is_decided_by_the_rules_that_are_wanted(tmp_path: Path) -> None:
    text = tmp_path / "m.txt"
    text.write_text(
        "HloModule m\n\nENTRY e {\n  ROOT p = f32[4]{0} parameter(0)\n}\n", encoding="utf-8"
    )
    code, out, err = _run("lint", str(text), "--fail-on", "info")
    assert code == 4
    assert "M004" in err
    assert "rules not decided" in out
    assert _run("lint", str(text), "--select", "C", "--fail-on", "info")[0] == 0
    assert _run("check", str(text), "--fail-on", "findings.M>0")[0] == 4
    assert _run("check", str(text), "--fail-on", "findings.C>0")[0] == 0
