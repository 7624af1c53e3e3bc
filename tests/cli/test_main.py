"""The group of commands: help, errors, exit codes, imports, handbook, completion."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import GROUPS, commands, exit_codes, main
from hlo_lens.text.errors import (
    BrokenInstallError,
    DumpSyntaxError,
    HloLensError,
    MissingDumpError,
    UnreadableError,
    UsageError,
)
from tests.corpus import SAMPLES
from tests.docs.documents import TOPICS

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
    listed = [name for names in GROUPS.values() for name in names]
    places = [out.index(f"\n  {name}  ") for name in listed]
    assert places == sorted(places)
    assert set(commands()) - set(listed) == {"explain", "loops", "shard"}
    assert "\n  loops  " not in out
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


def test_help_alone_begins_with_the_questions_and_has_contributors_last() -> None:
    code, out, err = _run("help")
    assert (code, err) == (0, "")
    assert out.splitlines()[2] == "| question | command | topic |"
    headings = re.findall(r"^## (.+)$", out, re.MULTILINE)
    assert headings[:3] == [
        "Dumps, and what the figures mean",
        "Scripts, tests and Python",
        "Contributors",
    ]


@pytest.mark.parametrize(("old", "new"), [("blame", "source"), ("loops", "collectives")])
def test_older_names_of_topics_print_the_topic_that_has_them_now(old: str, new: str) -> None:
    assert _run("help", old) == _run("help", new)


@pytest.mark.parametrize(
    "name", ["bisect", "columns", "doctor", "estimates", "exit-codes", "grammar", "notebooks"]
)
def test_a_section_named_in_lower_case_is_a_topic(name: str) -> None:
    code, out, _ = _run("help", name)
    assert (code, out.startswith(f"## {name}\n\n")) == (0, True)
    assert re.findall("^## ([^#].*)", out, re.MULTILINE) == [name]


def test_help_of_a_code_is_its_rule() -> None:
    assert _run("help", "m001") == _run("explain", "M001")
    code, _, err = _run("help", "M999")
    assert (code, "no rule 'M999'" in err) == (2, True)


def test_rare_options_are_last() -> None:
    text = _run("memory", "--help")[1]
    assert text.index("--by") < text.index("\nMore options:") < text.index("--min-coverage")


def test_topic_is_printed_unchanged_into_a_pipe() -> None:
    (memory,) = [topic for topic in TOPICS if topic.stem == "memory"]
    assert _run("help", "memory") == (0, memory.read_text("utf-8"), "")


@pytest.mark.parametrize("topic", [topic.stem for topic in TOPICS])
def test_topic_is_rendered_whole_in_a_terminal_of_80_columns(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hlo_lens.cli.command._is_terminal", lambda out: True)
    code, out, _ = _run("help", topic)
    assert code == 0
    assert "```" not in out
    assert ".md)" not in out
    assert "\N{HORIZONTAL ELLIPSIS}" not in out, "a cell of a table is cut"
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("memroy", "did you mean memory?"),
        ("fragmentation", "topics with this word: glossary, "),
        ("xyzzy", "hlo-lens help lists the topics"),
    ],
)
def test_unknown_topic_is_2_and_names_the_nearest(name: str, hint: str) -> None:
    code, out, err = _run("help", name)
    assert (code, out) == (2, "")
    assert err.startswith(f"hlo-lens: error: no topic '{name}' in the handbook; {hint}")


@pytest.mark.parametrize("command", commands())
def test_help_of_a_command_ends_with_its_topic(command: str) -> None:
    assert _run(command, "--help")[1].endswith(f"\n  Topic: hlo-lens help {command}\n")


DUMP = str(SAMPLES / "tpu" / "tp_mlp")


def test_commands_complete() -> None:
    shell = BashComplete(main, {}, "hlo-lens", "_HLO_LENS_COMPLETE")
    assert [item.value for item in shell.get_completions([], "col")] == ["collectives"]
