"""``hlo-lens report`` as people and scripts use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from hlo_lens.cli import exit_codes, main
from tests.questions.texts import LOOP

if TYPE_CHECKING:
    from pathlib import Path

BROKEN = LOOP.replace("one = s32[] constant(1)", "one = s32[ constant(1)")


def _run(*arguments: str, stdin: str | bytes | None = None) -> tuple[int, str, str]:
    runner = CliRunner(env={"COLUMNS": "80", "NO_COLOR": None})
    result = runner.invoke(main, ["report", *arguments], input=stdin)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def dump(tmp_path: Path) -> str:
    path = tmp_path / "module_0001.jit_step.cpu_after_optimizations.txt"
    path.write_text(LOOP)
    return str(path)


@pytest.fixture
def broken(tmp_path: Path) -> str:
    path = tmp_path / "broken.txt"
    path.write_text(BROKEN)
    return str(path)


def test_text_begins_with_the_module_and_is_plain(dump: str) -> None:
    code, out, err = _run(dump)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:2] == ["jit_step", "4 devices, CPU; figures are those of one device"]
    assert "\x1b" not in out
    assert max(len(line) for line in lines if dump not in line) <= 80  # commands are whole


def test_module_pattern_selects_modules(dump: str) -> None:
    assert _run(dump, "--module", "st.p$")[0] == 0
    code, out, err = _run(dump, "--module", "other")
    assert (code, out) == (2, "")
    assert err == "hlo-lens: error: no module matches 'other'; there is jit_step\n"


def test_gaps_are_shown_on_stderr_and_counted_in_the_report(broken: str) -> None:
    code, out, err = _run(broken)
    assert code == 0
    assert "94.44% understood, 1 gap of 1 line" in out
    first = err.splitlines()[0]
    assert first.startswith(f"{broken}:13:")
    assert ": error: " in first


def test_strict_refuses_gaps(dump: str, broken: str) -> None:
    assert _run(dump, "--strict")[0] == 0
    code, out, err = _run(broken, "--strict")
    assert code == exit_codes.UNPARSABLE
    assert out.startswith("jit_step\n")
    assert err.endswith("hlo-lens: error: 1 gap in the input (--strict)\n")


def test_coverage_below_the_minimum_is_refused(broken: str) -> None:
    assert _run(broken, "--min-coverage", "94")[0] == 0
    code, _, err = _run(broken, "--min-coverage", "95")
    assert code == exit_codes.UNPARSABLE
    assert err.endswith(
        "hlo-lens: error: jit_step: 94.44% understood, less than 95.0% (--min-coverage)\n"
    )


@pytest.mark.parametrize(
    ("data", "code"), [(b"", 4), (b"\x7fELF\0\1\2\0\0\0\0\0\0", 4), (b"just some words\n", 4)]
)
def test_input_that_is_no_dump_is_refused(tmp_path: Path, data: bytes, code: int) -> None:
    path = tmp_path / "input"
    path.write_bytes(data)
    found, out, err = _run(str(path))
    assert (found, out) == (code, "")
    assert err.startswith(f"{path}:1:1: error: ")
