"""Search of a log for messages: places of first words, rules of the grammar, lines of one message.

A log may have hundreds of megabytes of other text, or one line of that size. Plain searches for
words that only messages have find candidates; line rules of the grammar read what begins there.
"""

from __future__ import annotations

import functools
import heapq
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from hlo_lens.buffers.memory_usage import HumanSize
from hlo_lens.grammar.lines import LineRule
from hlo_lens.hlo.metadata import parse_metadata
from hlo_lens.text.errors import Gap
from hlo_lens.text.source import Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.metadata import OpMetadata

T = TypeVar("T")

MOST_FOREIGN = 3
"""Most foreign lines between two lines of a message."""

LONGEST_LINE = 1 << 16
"""Characters around a place in which its line is looked for: lines may be megabytes long."""

MOST_REFUSED = 50
"""Places of one line at which words begin no message; the rest of the line is then skipped, so that
a line of megabytes costs no more than its length."""

LEAD = re.compile(
    r"(?:\((?:[^()\n]{1,60} )?pid=[^()\n]{1,60}\)[ ]|\[[\w.-]+/?\w*\]:?[ ]"
    r"|[^\n\]]{1,120}\.cc:\d{1,6}\][ ]|[\w.-]{1,40}[ ]*\|[ ]|\d{1,5}:[ ]|E[ ]{3}|>[ ]|\#[ ])?+"
)
"""Prefixes that schedulers, test runners and quotations put before each line."""


class MessageRule(LineRule):
    """A line rule whose words any white space may separate, also the end of a line."""

    def __init__(self, name: str, file: str = "out_of_memory") -> None:
        super().__init__(name, file, is_line=False)

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(super().pattern.pattern.replace(r"\ ", r"\s++"))

    def read(self, text: str, start: int, end: int | None = None) -> tuple[Fields, int] | None:
        """Return the fields of the text at an offset, and its end; None if it is another.

        Without an end the text is read as far as a line may be.
        """
        match = self.pattern.match(text, start, start + LONGEST_LINE if end is None else end)
        return None if match is None else (self.fields(match), match.end())

    def read_line(self, text: str, start: int) -> Fields | None:
        """Return the fields of the line that begins at an offset, without what is put before it."""
        found = self.read(text, _first_word(text, start), line_end(text, start))
        return None if found is None else found[0]

    def fields(self, match: re.Match[str]) -> Fields:
        return Fields({k: match[n].strip() for k, n in self.groups.items() if match[n] is not None})


class Fields(dict[str, str]):
    """Tokens of a message by the names of their terminals."""

    def size(self, name: str) -> HumanSize | None:
        """Return a size as printed, or the number of bytes that is printed beside it."""
        exact = self.get(f"{name}_BYTES")
        text = f"{int(exact)}B" if exact else self.get(name)
        return None if text is None else HumanSize(text)

    def text(self, name: str) -> str | None:
        return self[name].partition(":")[2].strip() if name in self else None


def read_first(
    rules: Mapping[str, MessageRule], text: str, start: int
) -> tuple[str, Fields, int] | None:
    """Return the name of the first rule that reads the text at an offset, its fields, its end."""
    for name, rule in rules.items():
        if (read := rule.read(text, start)) is not None:
            return name, *read
    return None


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A message that a reader found."""

    value: T | None
    start: int
    end: int
    gaps: Sequence[Gap] = ()


@dataclass(slots=True)
class Lines:
    """Lines of a log that form one message, read by one rule."""

    source: Source
    rule: MessageRule
    end: int
    stop: re.Pattern[str] | None = None
    gaps: list[Gap] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[Fields, int]]:
        """Yield fields and start of each line; one after which the caller stops is not read."""
        text, position, foreign = self.source.text, self.end, list[int]()
        while position < len(text) and len(foreign) <= MOST_FOREIGN:
            begin = _first_word(text, position)
            found = self.rule.read(text, begin)
            if found is not None:
                yield found[0], begin
                if foreign:
                    self.gap(foreign[0], "expected the next line of the message", len(foreign))
                foreign = []
                position = self.end = found[1]
                continue
            stop = line_end(text, begin)
            if self.stop is not None and self.stop.search(text, begin, stop):
                return
            if stop - begin >= LONGEST_LINE:
                return
            is_rest = position and "\n" not in text[position - 1 : begin]
            if begin < stop and not is_rest:
                foreign.append(begin)
            position = stop + 1

    def gap(self, start: int, message: str, lines: int = 1) -> None:
        self.gaps.append(
            Gap.at(self.source, Span(start, line_end(self.source.text, start)), message, lines)
        )


def _first_word(text: str, position: int) -> int:
    """Return the offset of the next word, after what is put before lines."""
    blank = _BLANK.match(text, position)
    begin = position if blank is None else blank.end()
    lead = LEAD.match(text, begin) if begin == 0 or text[begin - 1] == "\n" else None
    if lead is not None and lead.end() > begin:
        return _first_word(text, lead.end())
    return begin


_BLANK = re.compile(r"\s*+")


def find_anchors(text: str, words: Sequence[str]) -> Iterator[int]:
    """Yield the places of words in a text, in order."""

    def places(word: str) -> Iterator[int]:
        place = text.find(word)
        while place >= 0:
            yield place
            place = text.find(word, place + len(word))

    return heapq.merge(*map(places, words))


class Refusals:
    """Count of places on one line at which a reader found nothing."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._count, self._last = 0, -1

    def end_after(self, place: int) -> int:
        """Return where to go on after a refused place: behind the line, if it had too many."""
        is_same_line = self._last >= 0 and self.text.find("\n", self._last, place) < 0
        self._count = self._count + 1 if is_same_line else 1
        self._last = place
        if self._count < MOST_REFUSED:
            return place
        end = self.text.find("\n", place)
        return len(self.text) if end < 0 else end


def line_start(text: str, position: int) -> int:
    """Return the start of a line, or the farthest place before it that may be one."""
    return max(
        text.rfind("\n", max(0, position - LONGEST_LINE), position) + 1, position - LONGEST_LINE, 0
    )


def line_end(text: str, position: int) -> int:
    """Return the offset of the end of a line, or the farthest place after it that may be one."""
    limit = min(len(text), position + LONGEST_LINE)
    end = text.find("\n", position, limit)
    return limit if end < 0 else end


def read_metadata(text: str) -> OpMetadata | None:
    """Return the metadata in a text with its braces; None if it cannot be read."""
    try:
        return parse_metadata(text)
    except ValueError:  # a line number of thousands of digits
        return None


def source_of(metadata: OpMetadata | None) -> str | None:
    """Return file and line in metadata."""
    if metadata is None or metadata.source_file is None:
        return None
    line = "" if metadata.source_line is None else f":{metadata.source_line}"
    return f"{metadata.source_file}{line}"
