"""Everything that README.md shows as output is what the program prints."""

from __future__ import annotations

import doctest
import re
import shlex

import pytest

from hlo_lens.cli import main
from tests.commands import WRITE, output_of
from tests.corpus import ROOT

README = ROOT / "README.md"
BLOCK = re.compile(r"```console\n\$ hlo-lens ([^\n]*)\n(.*?)```", re.DOTALL)


def printed(command: str) -> str:
    """Return what a command line prints, which may end in ``| head -N`` or ``| tail -N``."""
    arguments, _, end = command.partition(" | ")
    text = output_of(shlex.split(arguments))
    if not end:
        return text
    program, _, lines = end.partition(" -")
    kept = text.splitlines(keepends=True)
    return "".join(kept[: int(lines)] if program == "head" else kept[-int(lines) :])


def test_readme_shows_what_the_program_prints() -> None:
    text = README.read_text("utf-8")
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) >= 3
    if WRITE:
        text = BLOCK.sub(
            lambda m: f"```console\n$ hlo-lens {m[1]}\n{printed(m[1])}```",
            text,
        )
        README.write_text(text, "utf-8")
        blocks = list(BLOCK.finditer(text))
    for block in blocks:
        assert printed(block[1]) == block[2]


@pytest.mark.parametrize("command", sorted(main.list_commands(None)))  # type: ignore[arg-type] # no context needed
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"hlo-lens {command}" in README.read_text("utf-8")


SECTIONS = ("Python", "In tests")


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_on_python_show_what_python_prints(name: str) -> None:
    section = README.read_text("utf-8").partition(f"## {name}\n")[2].partition("\n## ")[0]
    text = "".join(re.findall(r"```pycon\n(.*?)```", section, re.DOTALL))
    test = doctest.DocTestParser().get_doctest(text, {}, "README.md", str(README), 0)
    assert len(test.examples) > 2
    failures: list[str] = []
    doctest.DocTestRunner().run(test, out=failures.append)
    assert failures == []
