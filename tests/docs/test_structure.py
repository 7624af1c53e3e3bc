"""Structure of README and handbook: length, links, topics, command lines."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click
import pytest

from hlo_lens.cli import GROUPS, exit_codes, main
from hlo_lens.questions.memory.results import MOST_ESTIMATED
from tests.corpus import ROOT
from tests.docs.documents import DOCUMENTS, MANUAL, README, TOPICS, blocks, prose

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FILE = re.compile(r"`([\w./-]+/[\w-]+\.(?:py|lark|toml))`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_INLINE = re.compile(r"`(hlo-lens [^`]+)`")
_LINE = re.compile(r"^ *(?:.* \| )?(hlo-lens [^\n]+)", re.MULTILINE)
_WITH_COMMANDS = {
    "console": re.compile(r"\A\$ (?:.* \| )?(hlo-lens [^\n]+)"),
    "": _LINE,
    "sh": _LINE,
    "yaml": _LINE,
}
_END_OF_COMMAND = re.compile(r" [|>#] .*| +#.*| 2>&1.*|; .*| && .*")


def test_readme_has_at_most_300_lines() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 300


@pytest.mark.parametrize("topic", TOPICS, ids=lambda d: d.stem)
def test_topic_begins_with_its_name_and_a_title(topic: Path) -> None:
    first = topic.read_text("utf-8").partition("\n")[0]
    assert re.fullmatch(rf"# {topic.stem}: [A-Z`].*[^.]", first), first
    assert len(first) <= 80


LISTED = [name for names in GROUPS.values() for name in names]


@pytest.mark.parametrize("command", LISTED)
def test_every_command_is_in_readme_and_has_a_topic(command: str) -> None:
    assert f"hlo-lens {command}" in README.read_text("utf-8")
    assert command in {topic.stem for topic in TOPICS}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.stem)
def test_links_resolve(document: Path) -> None:
    for target in _LINK.findall(prose(document)):
        if not target.startswith("https://"):
            path, _, anchor = target.partition("#")
            file = document.parent / path if path else document
            assert file.exists(), target
            assert not anchor or anchor in _anchors(file), target


def _anchors(file: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a file."""
    titles = _HEADING.findall(prose(file))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.stem)
def test_files_exist(document: Path) -> None:
    for name in _FILE.findall(prose(document)):
        is_pattern = "ROOM" in name or name.rpartition("/")[2].startswith(("x.", "to_x."))
        assert is_pattern or (ROOT / name).exists() or (ROOT / "hlo_lens" / name).exists(), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.stem)
def test_command_lines_parse(document: Path) -> None:
    for line, command in _command_lines(document):
        arguments = shlex.split(command)[1:]
        try:
            _parse(arguments)
        except click.exceptions.Exit:
            pass  # --help, --version
        except click.ClickException as error:
            pytest.fail(f"{document.name}:{line}: {command}: {error.message}")


def _parse(arguments: list[str]) -> None:
    """Parse the arguments of a command; a command's name alone must exist."""
    context = main.make_context("hlo-lens", list(arguments))
    name, command, rest = main.resolve_command(context, arguments)
    assert command is not None
    if rest and "--help" not in rest:
        command.make_context(name, rest, parent=context)


def test_a_command_line_with_an_unknown_option_is_refused() -> None:
    with pytest.raises(click.NoSuchOption):
        _parse(["memory", "x", "--nonsense"])


def _command_lines(document: Path) -> Iterator[tuple[int, str]]:
    """Yield each command line of a document, in blocks and between backticks, with its line."""
    for block in blocks(document):
        if block.info in _WITH_COMMANDS:
            text = re.sub(r"(?<=>)\n|\\\n", " ", block.text)
            for command in _WITH_COMMANDS[block.info].findall(text):
                yield block.line, _END_OF_COMMAND.sub("", command)
    text = prose(document)
    for match in _INLINE.finditer(text):
        if match[1].split()[1] != "COMMAND":  # stands for any of them
            yield text.count("\n", 0, match.start()) + 1, _END_OF_COMMAND.sub("", match[1])


def test_topic_lists_every_exit_code() -> None:
    codes = {value for name, value in vars(exit_codes).items() if name.isupper()}
    rows = re.findall(r"^\| (\d+) \|", prose(MANUAL / "exit-codes.md"), re.MULTILINE)
    assert sorted(map(int, rows)) == sorted(codes)


def test_topic_has_the_limit_of_estimates() -> None:
    limit = f"modules of up to {MOST_ESTIMATED:,}"
    assert limit in (MANUAL / "estimates.md").read_text("utf-8")


def test_topics_are_reached_from_the_start() -> None:
    start = (MANUAL / "help.md").read_text("utf-8")
    missing = [t.stem for t in TOPICS if t.stem != "help" and f"({t.name})" not in start]
    assert missing == []
