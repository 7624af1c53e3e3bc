"""The group of commands: help, errors, exit codes, and imports."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import commands, exit_codes, main
from hlo_lens.text.errors import (
    BrokenInstallError,
    DumpSyntaxError,
    HloLensError,
    MissingDumpError,
    UnreadableError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAVY = ("pandas", "networkx", "lark", "jax", "rich")


def _run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(main, arguments)
    return result.exit_code, result.stdout, result.stderr


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_every_command(option: str) -> None:
    code, out, err = _run(option)
    assert (code, err) == (0, "")
    assert all(f"  {name}  " in out for name in commands())
    assert "Example: hlo-lens report " in out


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help_with_an_example(name: str) -> None:
    code, out, err = _run(name, "-h")
    assert (code, err) == (0, "")
    assert f"Example:\n    hlo-lens {name} " in out


def test_version_is_that_of_the_package() -> None:
    assert _run("--version") == (0, f"hlo-lens, version {hlo_lens.__version__}\n", "")


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("report", "--help")])
def test_help_imports_nothing_heavy(arguments: Sequence[str]) -> None:
    code = (
        "import sys\nfrom hlo_lens.cli import main\n"
        "try:\n    main(sys.argv[1:])\n"
        f"finally:\n    print(sorted(set({HEAVY}) & set(sys.modules)), file=sys.stderr)\n"
    )
    assert _python(code, *arguments).stderr == "[]\n"


def test_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "hlo_lens", "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"hlo-lens, version {hlo_lens.__version__}\n")


def test_process_ends_without_freeing_but_not_without_functions_of_its_end() -> None:
    code = (
        "import atexit, sys\nimport hlo_lens.__main__ as process\n"
        "class Large:\n    def __del__(self): print('freed')\n"
        "large = Large()\n"
        "def main(prog_name):\n"
        "    atexit.register(print, 'folder removed')\n"
        "    sys.stdout.write('report, ')\n    sys.exit(CODE)\n"
        "process.main = main\nprocess.run()\n"
    )
    run = _python(code.replace("CODE", "4"))
    assert (run.returncode, run.stdout, run.stderr) == (4, "report, folder removed\n", "")
    run = _python(code.replace("CODE", "'why'"))
    assert (run.returncode, run.stdout) == (1, "report, folder removed\nfreed\n")


@pytest.mark.parametrize("arguments", [("nonsense",), ("report",), ("report", "x", "--what")])
def test_usage_errors_are_2(arguments: Sequence[str]) -> None:
    code, out, err = _run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("Usage: ")


def _fails_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> tuple[int, str, str]:
    def load(path: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(import_module("hlo_lens.load.programs"), "load", load)
    return _run("report", "x.txt")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (HloLensError("no"), 4, "hlo-lens: error: no\n"),
        (DumpSyntaxError("no", path="f", line=2, column=3), 4, "f:2:3: error: no\n"),
        (UnreadableError("no"), 3, "hlo-lens: error: no\n"),
        (MissingDumpError("no"), 3, "hlo-lens: error: no\n"),
        (UsageError("no"), 2, "hlo-lens: error: no\n"),
        (BrokenInstallError("no"), 70, "hlo-lens: error: no\n"),
        (KeyboardInterrupt(), 130, "hlo-lens: interrupted\n"),
        (click.ClickException("no"), 1, "Error: no\n"),
    ],
)
def test_errors_have_their_codes(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, text: str
) -> None:
    assert _fails_with(monkeypatch, error) == (code, "", text)


def test_a_bug_shows_its_traceback_and_is_70(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = _fails_with(monkeypatch, ZeroDivisionError("a bug"))
    assert (code, out) == (exit_codes.INTERNAL, "")
    assert err.startswith("Traceback (most recent call last):")
    assert "ZeroDivisionError: a bug\nhlo-lens: error: this is a bug" in err


def test_codes_are_those_of_the_contract() -> None:
    codes = (
        exit_codes.DONE,
        exit_codes.RULE_FAILED,
        exit_codes.USAGE,
        exit_codes.UNREADABLE,
        exit_codes.UNPARSABLE,
        exit_codes.INTERNAL,
    )
    assert codes == (0, 1, 2, 3, 4, 70)
