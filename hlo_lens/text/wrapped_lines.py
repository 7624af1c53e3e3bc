r"""Lines of logs that were wrapped at a width, by a mail program, an editor or a terminal.

A line was wrapped if the first word of the next line had no room in it. Joined lines are followed
by as many empty lines as were joined, so that the lines below keep their numbers. A paragraph is
joined only if that gives more words that messages consist of.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hlo_lens.text.log_words import (
    FAILED_ALLOCATION,
    MESSAGE_WORDS,
    OUT_OF_MEMORY,
    REMATERIALIZATION_LIMIT,
    WARNINGS,
)
from hlo_lens.text.source import Cuts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.text.source import Source

_LONGEST_TEXT = 1 << 20
"""Characters of a text in which wrapped lines are looked for: people wrap what they paste."""

_WIDTHS = range(40, 240)
_RAGGED = 8
"""Characters by which lines that people wrap are shorter than they could be."""

_PARAGRAPH = re.compile(r"^(?:[^\S\n]*+\S[^\n]*+(?:\n|\Z))++", re.MULTILINE)
_BEGINS = re.compile(
    r"\s*(?:```|~~~|[|>#*$+]|[IWEF]\d{4}[ ]|\d{4}-\d\d-\d\d[T ]|\[?\d\d:\d\d|[A-Z]\w*:\s"
    r"|\d+ Chunks of size|(?:InUse|Free |Chunk) at|Bin \(|(?:Sum|Total) |Stats:|Allocator )"
)
"""Beginning of a line that continues none."""

_WORD = re.compile(r"\s*(\S+)")


def without_wraps(source: Source) -> Source:
    """Return the text with wrapped lines of messages joined; itself if it has none."""
    text = source.text
    if not text or len(text) > _LONGEST_TEXT or text.count("\n") < 1:
        return source
    joins = [join for match in _PARAGRAPH.finditer(text) for join in _joins(source, *match.span())]
    return _joined(source, joins) if joins else source


def _joins(source: Source, start: int, end: int) -> list[tuple[int, str]]:
    """Return the offsets of the line ends to remove in a paragraph, and what replaces each."""
    text = source.text
    lines = _lines(text, start, end)
    if len(lines) < 2:
        return []
    lengths = [stop - begin + _cut(source, begin, stop) for begin, stop in lines]
    width = max(lengths)
    if width not in _WIDTHS:
        return []
    found: list[tuple[int, str]] = []
    for k, ((_, stop), (after, after_end)) in enumerate(pairwise(lines)):
        if _starts_cut(source, after) or _BEGINS.match(text, after, after_end):
            continue
        word = _WORD.match(text, after, after_end)
        if word is None:
            continue
        if lengths[k] == width:
            found.append((stop, ""))
        elif lengths[k] + 1 + len(word[1]) > width - _RAGGED:
            found.append((stop, " "))
    spaced = [(stop, " " * (text[stop - 1] != " " and text[stop + 1] != " ")) for stop, _ in found]
    if len(found) > 1 and all(not glue for _, glue in found):  # wrapped at characters, not at words
        rest = (text[after:after_end] for (after, after_end) in lines[1:])
        if _count(text[start:end]) and not any(word in line for line in rest for word in _STARTS):
            return found
        spaced, found = found, spaced
    return max([], spaced, found, key=lambda joins: _count(_replaced(text, start, end, joins)))


def _lines(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return start and end of the lines of a span, without their line ends."""
    found = []
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        found.append((start, stop))
        start = stop + 1
    return found


def _cut(source: Source, start: int, end: int) -> int:
    """Return the number of characters that were cut out of a line of the file."""
    cuts = source.cuts
    first, last = bisect_left(cuts.offsets, start), bisect_left(cuts.offsets, end)
    return sum(cuts.lengths[first:last])


def _starts_cut(source: Source, start: int) -> bool:
    """Whether the start of a line was cut off, such as the prefix of a logger."""
    at = bisect_left(source.cuts.offsets, start)
    return at < len(source.cuts.offsets) and source.cuts.offsets[at] == start


_STARTS = (*OUT_OF_MEMORY, *FAILED_ALLOCATION, *REMATERIALIZATION_LIMIT, *WARNINGS)


def _count(text: str) -> int:
    return sum(text.count(word) for word in MESSAGE_WORDS)


def _replaced(text: str, start: int, end: int, joins: Sequence[tuple[int, str]]) -> str:
    parts: list[str] = []
    done = start
    for stop, glue in joins:
        parts += (text[done:stop], glue)
        done = stop + 1
    return "".join((*parts, text[done:end]))


def _joined(source: Source, joins: Sequence[tuple[int, str]]) -> Source:
    """Return the text without some line ends, which are added after the joined lines."""
    text, cuts = source.text, Cuts()
    parts: list[str] = []
    moved: list[tuple[int, int]] = []  # offset in the text, distance by which what follows moves
    done = shift = 0
    for stop, glue, count in _with_counts(text, joins):
        parts += (text[done:stop], glue)
        shift += len(glue) - 1
        moved.append((stop + 1, shift))
        done = stop + 1
        if count:
            line_end = text.find("\n", done)
            line_end = len(text) if line_end < 0 else line_end
            parts += (text[done:line_end], "\n" * count)
            shift += count
            moved.append((line_end, shift))
            done = line_end
    parts.append(text[done:])
    places = [place for place, _ in moved]
    for offset, length in zip(source.cuts.offsets, source.cuts.lengths, strict=True):
        at = bisect_left(places, offset + 1) - 1
        cuts.add(offset + (moved[at][1] if at >= 0 else 0), length)
    return replace(source, text="".join(parts), cuts=cuts)


def _with_counts(text: str, joins: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str, int]]:
    """Yield each join with the number of joins of its line if it is the last of them, else 0."""
    count = 0
    for k, (stop, glue) in enumerate(joins):
        count += 1
        following = joins[k + 1][0] if k + 1 < len(joins) else -1
        is_last = following < 0 or text.find("\n", stop + 1) != following
        yield stop, glue, count if is_last else 0
        count = 0 if is_last else count
