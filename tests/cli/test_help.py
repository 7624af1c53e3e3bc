"""The handbook on the command line."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from hlo_lens.cli import commands, main
from tests.docs.documents import TOPICS


def _run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(main, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_list_has_a_line_for_each_topic() -> None:
    code, out, err = _run("help")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    for topic in TOPICS:
        _, _, title = topic.read_text("utf-8").partition("\n")[0].partition(": ")
        (line,) = [x for x in lines if x.split()[:1] == [topic.stem]]
        assert line.split(maxsplit=1)[1] == title
    assert max(map(len, lines)) <= 80


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
