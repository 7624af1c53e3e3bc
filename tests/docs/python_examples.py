"""Examples of ``pycon`` blocks, run as one doctest for each document."""

from __future__ import annotations

import doctest
from typing import TYPE_CHECKING

from tests.docs.documents import blocks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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
