"""README and handbook as lines and fenced blocks, and how blocks are rewritten."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.corpus import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

README = ROOT / "README.md"
MANUAL = ROOT / "hlo_lens" / "manual"
TOPICS = tuple(sorted(MANUAL.glob("*.md")))
DOCUMENTS = (README, *TOPICS)

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
