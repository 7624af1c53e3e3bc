"""The findings of every command are the same ones, in the same order, on the same basis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import hlo_lens
from hlo_lens.program.pages import one_module
from hlo_lens.questions.diff.sides import load_side
from hlo_lens.questions.plans.lint import findings_at_least
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

SHAPES = (8, 16, 32)


def _write_compiles(folder: Path) -> None:
    """Write three compiles of one function, each of another shape."""
    for number, size in enumerate(SHAPES):
        shape = f"f32[{size},8]{{1,0}}"
        lines = [f"  v{n} = {shape} negate(v{n - 1})" for n in range(1, 120)]
        text = (
            f"HloModule jit_step, is_scheduled=true\n\nENTRY main {{\n  v0 = {shape} parameter(0)\n"
            + "\n".join(lines)
            + f"\n  ROOT y = {shape} cosine(v119)\n}}\n"
        )
        name = f"module_{number:04}.jit_step.cpu_after_optimizations.txt"
        (folder / name).write_text(text, encoding="utf-8")


def _of_lint(path: Path) -> list[Any]:
    return [one["findings"] for one in _modules(hlo_lens.lint(path, module=".").to_dict())]


def _modules(data: Any) -> list[Any]:
    return list(data["modules"])


def _of_report(path: Path) -> list[Any]:
    return [one["findings"] for one in _modules(hlo_lens.report_on(path).to_dict())]


def _of_side(path: Path) -> list[Any]:
    """Return codes, severities, bases and shares of `diff`, `check` and `save`."""
    return [
        None
        if one.snapshot.facts.findings is None
        else [(f.code, f.severity, f.saves.basis, f.share) for f in one.snapshot.facts.findings]
        for one in load_side(path).modules
    ]


@pytest.mark.parametrize("sample", ["cpu/wasteful", "gpu/wasteful", "tpu/tp_mlp", "cpu/tp_mlp"])
def test_commands_have_the_same_findings_of_a_sample(sample: str) -> None:
    path = SAMPLES / sample
    found = _of_lint(path)
    assert any(found)
    assert _of_report(path) == found
    rows = [
        [(f["code"], f["severity"], f["saves"]["basis"], f["share"]) for f in one] for one in found
    ]
    assert _of_side(path) == rows


def test_commands_have_the_same_findings_about_several_modules(tmp_path: Path) -> None:
    _write_compiles(tmp_path)
    found = _of_lint(tmp_path)
    codes = [[one["code"] for one in ones] for ones in found]
    assert ["X001" in ones for ones in codes] == [False, False, True]
    assert _of_report(tmp_path) == found
    assert [[one[0] for one in ones] for ones in _of_side(tmp_path)] == codes


def test_tests_judge_what_lint_prints() -> None:
    path = SAMPLES / "cpu" / "wasteful"
    mine = [(one.code, one.saves) for one in findings_at_least(one_module(path), "info")]
    assert mine == [(one.code, one.saves) for one in hlo_lens.lint(path).findings]


def test_the_first_screen_shows_the_first_warnings_of_lint() -> None:
    path = SAMPLES / "cpu" / "wasteful"
    first = str(hlo_lens.report_on(path))
    warnings = [one for one in hlo_lens.lint(path).findings if one.severity == "warning"]
    assert first.index(f"{warnings[0].code} warning") > 0
    assert "saves about 15.00MiB (26%)" in first


def test_rules_that_need_memory_are_undecided_without_it() -> None:
    text = "HloModule m\n\nENTRY e {\n  ROOT p = f32[4]{0} parameter(0)\n}\n"
    module = _modules(hlo_lens.lint(text).to_dict())[0]
    reasons = {one["code"]: one["reason"] for one in module["undecided"]}
    assert {"M004", "M011"} <= reasons.keys()
    assert "M001" not in reasons
    assert "no is_scheduled=true" in reasons["M004"]
