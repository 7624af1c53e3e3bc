"""README and handbook: their blocks, prose and headings, and what their commands print."""

from __future__ import annotations

import doctest
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from hlo_lens.cli import main
from tests.corpus import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

README = ROOT / "README.md"
MANUAL = ROOT / "hlo_lens" / "manual"
TOPICS = tuple(sorted(MANUAL.glob("*.md")))
DOCUMENTS = (README, *TOPICS)
CACHE = ROOT / "tests" / "docs"
"""Has ``proofs``: what ``lint`` compiled, for the commands of documents, which compile nothing."""

_FENCE = re.compile(r"^( *)```([^\n`]*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        info: Text after the opening fence, such as ``console``.
        line: 1-based line of the opening fence.
        text: Lines between the fences, each with its line break.
    """

    info: str
    line: int
    text: str


def has_block(document: Path, info: str) -> bool:
    """Whether a document opens a block with this text after the fence."""
    return f"\n```{info}\n" in document.read_text("utf-8")


def blocks(document: Path) -> tuple[Block, ...]:
    """Return the fenced blocks of a document; fails where a fence is not closed."""
    return tuple(_blocks(document.read_text("utf-8"), document.name))


def _blocks(text: str, name: str) -> Iterator[Block]:
    opened: tuple[str, int] | None = None
    inside: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if fence is None:
            inside.append(line + "\n")
        elif opened is None:
            opened, inside = (fence[2].strip(), number), []
        else:
            assert not fence[2].strip(), f"{name}:{opened[1]}: this fence is not closed"
            yield Block(opened[0], opened[1], "".join(inside))
            opened = None
    assert opened is None, f"{name}:{opened[1]}: this fence is not closed"


def rewrite(document: Path, new_text: Callable[[Block], str]) -> None:
    """Replace the text of each block of a document."""
    lines = document.read_text("utf-8").splitlines(keepends=True)
    for block in reversed(blocks(document)):
        count = block.text.count("\n")
        lines[block.line : block.line + count] = new_text(block).splitlines(keepends=True)
    document.write_text("".join(lines), "utf-8")


def prose(document: Path) -> str:
    """Return a document with the lines of its blocks emptied, so that line numbers hold."""
    lines = document.read_text("utf-8").splitlines()
    for block in blocks(document):
        count = block.text.count("\n")
        lines[block.line - 1 : block.line + count + 1] = [""] * (count + 2)
    return "\n".join(lines) + "\n"


# ---- command lines of console blocks: ``$ hlo-lens ... 2>&1 | head -20`` ------------------------

_CODE = " > /dev/null; echo $?"


def run(command_line: str, *, columns: int) -> str:
    """Return the output of a command line in the checkout, in a terminal of this width.

    Understood are ``head -c N FILE | hlo-lens ...``, ``2>&1``, ``hlo-lens ... > /dev/null; echo
    $?``, and the filters ``head -N``, ``tail -N``, ``sed '/REGEX/q'`` (up to the first match) and
    ``sed -n '/FROM/,/TO/p'``.
    """
    if command_line.endswith(_CODE):
        return f"{_run_tool(command_line.removesuffix(_CODE), '', columns)[1]}\n"
    text = ""
    for stage in command_line.split(" | "):
        if stage.startswith("hlo-lens "):
            text, _ = _run_tool(stage, text, columns)
        else:
            text = _run_filter(shlex.split(stage), text)
    return text


def _run_tool(stage: str, given: str, columns: int) -> tuple[str, int]:
    arguments = [part for part in shlex.split(stage)[1:] if part != "2>&1"]
    settings = {"COLUMNS": str(columns), "NO_COLOR": "1", "HLO_LENS_CACHE": str(CACHE)}
    runner = CliRunner(env=settings)
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        result = runner.invoke(main, arguments, input=given, catch_exceptions=False)
    finally:
        os.chdir(before)
    return result.output if "2>&1" in stage else result.stdout, result.exit_code


def _run_filter(words: list[str], given: str) -> str:
    """Return what head, tail or sed prints of a text."""
    program, option, *rest = words
    if (program, option) == ("head", "-c"):
        return (ROOT / rest[1]).read_bytes()[: int(rest[0])].decode()
    lines = given.splitlines(keepends=True)
    if program == "sed":
        return "".join(_sed(rest[0] if rest else option, lines))
    count = int(option.removeprefix("-"))
    return "".join({"head": lines[:count], "tail": lines[-count:]}[program])


def _sed(script: str, lines: list[str]) -> Iterator[str]:
    """Yield the lines up to the first match of ``/A/q``, or those from ``/A/`` to ``/B/p``."""
    start, _, end = script[1:-2].partition("/,/")
    is_printing = not end
    for line in lines:
        if not is_printing:
            is_printing = re.search(start, line.rstrip("\n")) is not None
            if is_printing:
                yield line
            continue
        yield line
        if re.search(end or start, line.rstrip("\n")):
            if not end:
                return
            is_printing = False


# ---- examples of pycon blocks, run as one doctest for each document ----------------------------


def examples(document: Path) -> doctest.DocTest:
    """Return the examples of a document, with its line numbers."""
    lines = [""] * document.read_text("utf-8").count("\n")
    for block in blocks(document):
        if block.info == "pycon":
            inside = block.text.splitlines()
            lines[block.line : block.line + len(inside)] = inside
    text = "\n".join(lines) + "\n"
    return doctest.DocTestParser().get_doctest(text, {}, document.name, str(document), 0)


def failures(document: Path, *, optionflags: int = 0) -> list[str]:
    """Return what doctest reports of the examples that print something else."""
    test = examples(document)
    assert test.examples
    found: list[str] = []
    doctest.DocTestRunner(optionflags=optionflags).run(test, out=found.append)
    return found


class _Recorder(doctest.DocTestRunner):
    """Keeps what failing examples printed; what raised is left to the test."""

    def __init__(self) -> None:
        super().__init__(verbose=False)
        self.printed: list[tuple[doctest.Example, str]] = []

    def report_failure(
        self,
        out: Callable[[str], object],
        test: doctest.DocTest,
        example: doctest.Example,
        got: str,
    ) -> None:
        self.printed.append((example, got))


def rewrite_examples(document: Path) -> None:
    """Replace the expected outputs of a document by those of its examples."""
    recorder = _Recorder()
    recorder.run(examples(document), out=lambda _: None)
    lines = document.read_text("utf-8").splitlines(keepends=True)
    for example, got in reversed(recorder.printed):
        if example.exc_msg is None:
            start = example.lineno + example.source.count("\n")
            lines[start : start + example.want.count("\n")] = got.splitlines(keepends=True)
    document.write_text("".join(lines), "utf-8")
