"""Search of a log for messages, and extraction of a message from the lines around it.

A log may have hundreds of megabytes of other text. Plain searches for words that only these
messages have find candidates; the readers look at these places alone. A block is then cut out of
the log: prefixes of loggers are removed, foreign lines between its own are skipped and counted, and
the grammar parses the rest.
"""

from __future__ import annotations

import heapq
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from hlo_lens.hlo.text import parse_metadata, unescape
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.hlo.metadata import OpMetadata

T = TypeVar("T")

MOST_INTERRUPTED = 3
"""Most foreign lines between two lines of a block."""

MOST_LINES = 4096
"""Most lines of a block."""

LONGEST_LINE = 1 << 16
"""Most characters of a line of a block."""

LEAD = re.compile(
    r"(?:\((?:[^()\n]{1,60} )?pid=[^()\n]{1,60}\)[ ]|\[[\w.-]+/?\w*\]:?[ ]"
    r"|[\w.-]{1,40}[ ]*\|[ ]|\d{1,5}:[ ]|E[ ]{3}|>[ ]|\#[ ])?+"
)
"""Prefixes that schedulers, test runners and quotations put before each line."""

_ESCAPED_LINES = 2
"""A line with this many ``\\n`` is a whole text in a string of JSON or Python."""


def find_anchors(text: str, words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the places of words in a text, in order."""
    return heapq.merge(*(_find(text, word) for word in words))


def _find(text: str, word: str) -> Iterator[tuple[int, str]]:
    place = text.find(word)
    while place >= 0:
        yield place, word
        place = text.find(word, place + len(word))


@dataclass(slots=True)
class Block:
    """Lines of a log that form one message.

    Attributes:
        source: The log.
        lines: Its lines without prefixes.
        offsets: Offset of each in the log.
        end: Offset of its end in the log.
        gaps: Foreign lines between its own.
    """

    source: Source
    lines: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    end: int = 0
    gaps: list[Gap] = field(default_factory=list)

    def gap(self, index: int, message: str, lines: int = 1) -> None:
        """Add a gap at a line of the block."""
        self.add_gap(self.offsets[index], 1, message, lines, f"    {self.lines[index][:96]}")

    def error(self, index: int, error: DumpSyntaxError, lines: int) -> None:
        """Add a gap for lines that the grammar refused, from line `index` of the block on."""
        place = min(index + error.line - 1, len(self.lines) - 1)
        self.add_gap(self.offsets[place], error.column, error.message, lines, error.excerpt)

    def add_gap(self, offset: int, column: int, message: str, lines: int, excerpt: str) -> None:
        """Add a gap at a column, counted from an offset of the log."""
        line, first = self.source.line_column(offset)
        gap = Gap(
            path=self.source.path,
            line=line,
            column=first + column - 1,
            message=message,
            lines=lines,
            excerpt=excerpt,
        )
        self.gaps.append(gap)


def cut_block(
    source: Source,
    start: int,
    belongs: Callable[[str], bool],
    *,
    wraps: Callable[[str, str], bool] | None = None,
    stops: Callable[[str], object] | None = None,
) -> Block:
    """Return the block that begins at an offset: the rest of its line, and its further lines.

    Args:
        source: The log.
        start: Offset of its start, anywhere in a line.
        belongs: Whether a line, without its prefix, belongs to the block.
        wraps: Whether a line of the block continues on another one, as terminals wrap lines.
        stops: Whether a line begins another message, so that the block ends before it.
    """
    text = source.text
    end = line_end(text, start)
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
    stops: Callable[[str], object] | None,
) -> bool:
    """Add the next line of a block, and gaps before it; return False if there is none."""
    text, position = block.source.text, block.end
    passed: list[tuple[int, str]] = []
    while position < len(text) and len(passed) <= MOST_INTERRUPTED:
        end = line_end(text, position)
        lead = LEAD.match(text, position, end)
        begin = position if lead is None else lead.end()
        line = text[begin : min(end, begin + LONGEST_LINE)]
        if belongs(line):
            _add_passed_lines(block, passed, wraps)
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


def _add_passed_lines(
    block: Block, passed: Sequence[tuple[int, str]], wraps: Callable[[str, str], bool] | None
) -> None:
    """Join wrapped lines, and add a gap for foreign lines, before the next line is added."""
    strange = [(begin, line) for begin, line in passed if line.strip()]
    if not strange:
        return
    while wraps is not None and strange and wraps(block.lines[-1], strange[0][1]):
        block.lines[-1] += strange.pop(0)[1]
    if not strange:
        return
    begin, line = strange[0]
    message = "expected the next line of the message"
    block.add_gap(begin, 1, message, len(strange), f"    {line[:96]}")


def line_end(text: str, position: int) -> int:
    """Return the offset of the end of a line, without its line end."""
    end = text.find("\n", position)
    return len(text) if end < 0 else end


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A message that a reader found.

    Attributes:
        value: The message; None if the grammar refused it, which is then a gap.
        start: Offset of its start.
        end: Offset of its end.
        gaps: Parts that could not be read.
    """

    value: T | None
    start: int
    end: int
    gaps: Sequence[Gap] = ()


def line_range(source: Source, start: int, end: int) -> tuple[int, int]:
    """Return the 1-based line of an offset, and the number of lines up to another offset."""
    line = source.line_column(start)[0]
    return line, source.line_column(max(start, end - 1))[0] - line + 1


def read_metadata(text: str) -> OpMetadata | None:
    """Return the metadata in a text with its braces; None if it cannot be read."""
    try:
        return parse_metadata(text)
    except ValueError:  # a line number of thousands of digits
        return None


def span_gap(source: Source, start: int, end: int, message: str) -> Gap:
    """Return a gap for a span of a log."""
    return Gap.at(source, Span(start, end), message)
