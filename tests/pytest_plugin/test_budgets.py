"""Budgets of tests and snapshots of a session: failures, messages, unknown facts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.pytest_plugin.test_plugin import PLUGIN, needs_jax

if TYPE_CHECKING:
    from pathlib import Path

HLO = """HloModule jit_train_step, is_scheduled=true
ENTRY %main (x: f32[1024,1024]) -> f32[1024,1024] {
  %x = f32[1024,1024]{1,0} parameter(0), metadata={op_name="x"}
  ROOT %dot = f32[1024,1024]{1,0} dot(%x, %x), lhs_contracting_dims={1},
    rhs_contracting_dims={0}, metadata={source_file="programs/step.py" source_line=3}
}
"""
CONFTEST = """
import hlo_lens, pytest

@pytest.fixture
def dump(hlo, request):
    return hlo.add(hlo_lens.load(request.path.parent / "m.txt").modules[0])
"""
KEPT = '[[budget]]\nmodule = "train_step"\nmetric = "memory.total_bytes"\nmax = "400MiB"\n'
BROKEN = KEPT.replace("400MiB", "1MiB")


def write(pytester: pytest.Pytester, test: str, budget: str = KEPT) -> None:
    pytester.makeconftest(CONFTEST)
    (pytester.path / "m.txt").write_text(HLO)
    pytester.makepyfile(f"import pytest\n{test}")
    (pytester.path / "hlo-lens.toml").write_text(budget)


MARKED = """
@pytest.mark.hlo_budget("hlo-lens.toml")
def test_it(dump): pass
"""
NOTHING = MARKED.replace("dump", "")


def test_a_budget_that_is_kept_passes(pytester: pytest.Pytester) -> None:
    write(pytester, MARKED)
    pytester.runpytest(*PLUGIN, "--strict-markers").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("test", "budget", "lines"),
    [
        (MARKED, BROKEN, ["*memory.total_bytes*", "*programs/step.py:3*", "*programs are kept*"]),
        (MARKED, KEPT.replace("total_bytes", "no_such_thing"), ["*no_such_thing*"]),
        (NOTHING, KEPT, ["*not known: whether hlo-lens.toml is kept: *compiled nothing*"]),
        (MARKED.replace("hlo-lens.toml", "a.toml"), KEPT, ["*a.toml: no such file*"]),
        (NOTHING.replace("hlo-lens.toml", "a.toml"), KEPT, ["*a.toml: no such file*"]),
    ],
    ids=["broken", "not known", "nothing compiled", "no budget", "neither"],
)
def test_a_budget_that_is_not_kept_fails_with_its_reason(
    pytester: pytest.Pytester, test: str, budget: str, lines: list[str]
) -> None:
    write(pytester, test, budget)
    result = pytester.runpytest(*PLUGIN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(lines)


def test_the_error_of_a_test_goes_before_its_budget(pytester: pytest.Pytester) -> None:
    write(pytester, MARKED.replace("pass", "assert 1 == 2"), BROKEN)
    result = pytester.runpytest(*PLUGIN)
    result.stdout.fnmatch_lines(["E*assert 1 == 2"])
    result.stdout.no_fnmatch_line("*memory.total_bytes*")


@needs_jax
def test_a_budget_holds_for_all_that_jax_compiles(pytester: pytest.Pytester) -> None:
    write(
        pytester,
        """
        import jax, jax.numpy as jnp

        @pytest.mark.hlo_budget("hlo-lens.toml")
        def test_it():
            def train_step(x):
                return x @ x
            jax.jit(train_step)(jnp.ones((512, 512)))
        """.replace("\n        ", "\n"),
        KEPT.replace("400MiB", "1KiB"),
    )
    result = pytester.runpytest(*PLUGIN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["Contributors to memory.total_bytes of jit_train_step"])


# ---- sessions ----------------------------------------------------------------------------------

TWO = """
def test_one(dump): pass
def test_two(dump): pass
"""


def test_a_session_saves_what_it_compiled_by_test(pytester: pytest.Pytester) -> None:
    write(pytester, TWO)
    result = pytester.runpytest(*PLUGIN, "--hlo-lens-save", "base.json")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*hlo-lens*", "2 programs saved to base.json"])
    names = [m["name"] for m in json.loads((pytester.path / "base.json").read_text())["modules"]]
    file = "test_a_session_saves_what_it_compiled_by_test.py"
    assert names == [f"{file}::test_{n} :: jit_train_step" for n in ("one", "two")]


def compared(pytester: pytest.Pytester, *more: str) -> pytest.RunResult:
    return pytester.runpytest(*PLUGIN, "--hlo-lens-compare", "base.json", *more)


@pytest.fixture
def saved(pytester: pytest.Pytester) -> pytest.Pytester:
    write(pytester, TWO)
    pytester.runpytest(*PLUGIN, "--hlo-lens-save", "base.json")
    return pytester


def shrink_baseline(folder: Path) -> None:
    """Make the baseline smaller than the compiled program."""
    file = folder / "base.json"
    data = json.loads(file.read_text())
    data["modules"][0]["report"]["memory"]["total_bytes"] //= 2
    file.write_text(json.dumps(data))


def test_a_session_with_more_memory_fails(saved: pytest.Pytester) -> None:
    shrink_baseline(saved.path)
    result = compared(saved)
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "hlo-lens check: failed",
            "fail *~ 4.00MiB  ~ 8.00MiB *",
            "Contributors to memory.total_bytes of *::test_one ::",
        ]
    )


def test_rules_and_the_tests_that_ran_decide(saved: pytest.Pytester) -> None:
    result = compared(saved)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["hlo-lens check: passed"])
    shrink_baseline(saved.path)
    assert compared(saved, "-k", "two").ret == 0
    assert compared(saved, "--hlo-lens-compare-fail", "memory.total_bytes>+200%").ret == 0
    assert compared(saved, "--hlo-lens-compare-fail", "memory.total_bytes>+2%").ret == 1
    result = compared(saved, "--hlo-lens-compare-fail", "nonsense")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["error: *nonsense*"])
