"""What the readers of logs share: finding candidates, cutting a block out of the lines around it.

A log may be hundreds of megabytes of other things. Candidates are found by plain searches for words
that only these messages have, one pass of the fastest kind for each word; only what stands there
is looked at. A block is then cut out of its log: what loggers put before each line goes, lines of
other writers between its own are left out and counted, and what is left is text for the grammar.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.syntax.hlo.text import unescape
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MOST_INTERRUPTED = 3
"""How many lines of others may stand between two lines of a block."""

MOST_LINES = 4096
"""Longest block, in lines."""

LONGEST_LINE = 1 << 16
"""Longest line of a block, in characters."""

LEAD = re.compile(
    r"(?:\((?:[^()\n]{1,60} )?pid=[^()\n]{1,60}\)[ ]|\[[\w.-]+/?\w*\]:?[ ]"
    r"|[\w.-]{1,40}[ ]*\|[ ]|\d{1,5}:[ ]|E[ ]{3}|>[ ]|\#[ ])?+"
)
"""What schedulers, test runners and quotes put before each line."""

_ESCAPED_LINES = 2
"""A line with so many ``\\n`` in it holds a whole text, as a string of JSON or Python does."""


def find_anchors(text: str, words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield where words stand in a text, in order of place."""
    return heapq.merge(*(_find(text, word) for word in words))


def _find(text: str, word: str) -> Iterator[tuple[int, str]]:
    place = text.find(word)
    while place >= 0:
        yield place, word
        place = text.find(word, place + len(word))


@dataclass(slots=True)
class Block:
    """Lines of a log that belong together.

    Attributes:
        source: The log.
        lines: The lines without what stands before them.
        offsets: Where each begins in the log.
        end: Where the block ends in the log.
        gaps: What stood between its lines.
    """

    source: Source
    lines: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    end: int = 0
    gaps: list[Gap] = field(default_factory=list)

    def gap(self, index: int, message: str, column: int = 1, lines: int = 1) -> None:
        """Note a gap at a line of the block."""
        line, first = self.source.line_column(self.offsets[index])
        excerpt = f"    {self.lines[index][:96]}"
        self.gaps.append(
            Gap(
                path=self.source.path,
                line=line,
                column=first + column - 1,
                message=message,
                lines=lines,
                excerpt=excerpt,
            )
        )

    def error(self, index: int, error: DumpSyntaxError, lines: int) -> None:
        """Note a gap where the grammar refused some lines, of which `index` is the first."""
        place = min(index + error.line - 1, len(self.lines) - 1)
        line, first = self.source.line_column(self.offsets[place])
        self.gaps.append(
            Gap(
                path=self.source.path,
                line=line,
                column=first + error.column - 1,
                message=error.message,
                lines=lines,
                excerpt=error.excerpt,
            )
        )


def cut_block(
    source: Source,
    start: int,
    belongs: Callable[[str], bool],
    *,
    wraps: Callable[[str, str], bool] | None = None,
    stops: Callable[[str], bool] | None = None,
) -> Block:
    """Return the block that begins at an offset: the rest of that line, and the lines of it after.

    Args:
        source: The log.
        start: Where the block begins, somewhere in a line.
        belongs: Whether a line, without its lead, is one of the block's.
        wraps: Whether a line of the block goes on in another one, as terminals wrap it.
        stops: Whether a line begins something else, so that the block ends before it.
    """
    text = source.text
    end = _line_end(text, start)
    block = Block(source, end=min(len(text), end + 1))
    first = text[start:end]
    if first.count("\\n") >= _ESCAPED_LINES and len(first) <= LONGEST_LINE:
        for line in unescape(first).split("\n"):
            if block.lines and line.strip() and not belongs(line):
                break
            block.lines.append(line)
            block.offsets.append(start)
        return block
    block.lines.append(first[:LONGEST_LINE])
    block.offsets.append(start)
    while block.end < len(text) and len(block.lines) < MOST_LINES:
        if not _take_next(block, belongs, wraps, stops):
            break
    return block


def _take_next(
    block: Block,
    belongs: Callable[[str], bool],
    wraps: Callable[[str, str], bool] | None,
    stops: Callable[[str], bool] | None,
) -> bool:
    """Take the next line of a block, and what stands before it; False if there is none."""
    text, position = block.source.text, block.end
    passed: list[tuple[int, str]] = []
    while position < len(text) and len(passed) <= MOST_INTERRUPTED:
        end = _line_end(text, position)
        lead = LEAD.match(text, position, end)
        begin = position if lead is None else lead.end()
        line = text[begin : min(end, begin + LONGEST_LINE)]
        if belongs(line):
            _settle(block, passed, wraps)
            block.lines.append(line)
            block.offsets.append(begin)
            block.end = min(len(text), end + 1)
            return True
        if stops is not None and stops(line):
            return False
        if line.strip() or not passed:
            passed.append((begin, line))
        position = end + 1
    return False


def _settle(
    block: Block, passed: Sequence[tuple[int, str]], wraps: Callable[[str, str], bool] | None
) -> None:
    """Join lines that go on, and note a gap for lines of others, before the next line is taken."""
    strange = [(begin, line) for begin, line in passed if line.strip()]
    if not strange:
        return
    while wraps is not None and strange and wraps(block.lines[-1], strange[0][1]):
        block.lines[-1] += strange.pop(0)[1]
    if not strange:
        return
    begin, line = strange[0]
    number, column = block.source.line_column(begin)
    block.gaps.append(
        Gap(
            path=block.source.path,
            line=number,
            column=column,
            message="expected the next line of the message",
            lines=len(strange),
            excerpt=f"    {line[:96]}",
        )
    )


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def line_range(source: Source, start: int, end: int) -> tuple[int, int]:
    """Return the 1-based line of an offset, and how many lines stand from there to another one."""
    line = source.line_column(start)[0]
    return line, source.text.count("\n", start, max(start, end - 1)) + 1


def span_gap(source: Source, start: int, end: int, message: str) -> Gap:
    """Return a gap for a span of a log."""
    return Gap.at(source, Span(start, end), message)
