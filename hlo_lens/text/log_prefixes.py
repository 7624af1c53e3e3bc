r"""Leads of a log: what a logger, a launcher or a quotation puts before each line.

A lead is found by its repetition. Lines of several processes that alternate are told apart by the
numbers in it that are no time. Leads are cut, so that lines and columns in messages remain those of
the file. In a string of JSON or Python, ``\n`` is a line end.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import replace
from itertools import compress, pairwise
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.text.dump_kinds import BUFFER_HEADERS, HLO_MODULE
from hlo_lens.text.log_words import FIRST_LINES, has_log_words
from hlo_lens.text.names import lazy_pattern
from hlo_lens.text.source import cut_spans, replace_spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.text.source import Source

_DUMPS = (HLO_MODULE, *BUFFER_HEADERS)
_HEAD = 256
"""Characters in which a text that is a dump and no log begins."""

_SIGNS = (*_DUMPS, *FIRST_LINES)
_SEARCHED = 1 << 26
"""Characters of a log in which leads are looked for."""

_LONGEST = 240
_LINES_COMPARED = 12
_BELOW = 1 << 14
"""Characters after a sign in which the lines that are compared begin."""

_FEWEST_ALIKE = 3
_PLACES = 40
"""Places of each sign at which a lead is looked for."""

_ROUNDS = 4
"""Most leads of one text: it may be joined from several logs, or have one lead inside another."""

_MOST_STREAMS = 64

_NUMBER = lazy_pattern(r"[ ]*\d+")
_TIMES = lazy_pattern(
    r"\d{1,4}(?:[:/.-]\d+){2,}(?:[T ]\d+(?::\d+)+)?(?:[.,]\d+)?|\d+(?::\d+)+(?:[.,]\d+)?"
    r"|\d+\.\d+|(?<=:)\d+(?=\])"
)
"""Dates, times, durations, and line numbers of the program that logs."""


class _Lead(NamedTuple):
    """Pattern of a lead at the start of a line, also without its blanks at the end of a line.

    It has a group for each number; `is_name` is whether that one may name a process.
    """

    pattern: re.Pattern[str]
    is_name: tuple[bool, ...]


def without_leads(source: Source) -> list[Source]:
    """Return the text of each process without the leads of its lines; itself if it has none.

    Lines of other processes are empty, so that lines and columns remain those of the file.
    """
    sources = [source]
    if source.text[:_HEAD].lstrip().startswith(_DUMPS):
        return sources
    for _ in range(_ROUNDS):
        leads = [_lead_of(one.text) for one in sources]
        if not any(leads):
            break
        pairs = zip(sources, leads, strict=True)
        sources = [part for one, lead in pairs for part in (_cut(one, lead) if lead else [one])]
    return sources


def _lead_of(text: str) -> _Lead | None:
    """Return the lead of the first sign that has one."""
    for sign in _SIGNS:
        place = -1
        for _ in range(_PLACES):
            place = text.find(sign, place + 1, _SEARCHED)
            if place < 0:
                break
            start = text.rfind("\n", max(0, place - _LONGEST - 1), place) + 1
            lead = text[start:place]
            below = text[place : place + _BELOW].split("\n")[1 : 1 + _LINES_COMPARED]
            lines = [line[:_LONGEST] for line in below]
            if place - start <= _LONGEST and lead.strip() and (size := _common_size(lead, lines)):
                return _pattern(lead[:size])
    return None


def _common_size(lead: str, lines: Sequence[str]) -> int:
    """Return how many characters of a text begin most of some lines, 0 if too few do."""
    sizes = [_matched(lead, line) for line in lines]
    alike = [size for size in sizes if size]
    if len(alike) < min(_FEWEST_ALIKE, len(lines)) or 2 * len(alike) < len(lines):
        return 0
    ended = [size for size, line in zip(sizes, lines, strict=True) if 0 < size < len(line)]
    size = min(ended, default=0)
    is_whole = size >= len(lead.rstrip()) or not lead[size - 1].isalnum()
    return size if lead[:size].strip() and is_whole else 0


def _matched(lead: str, line: str) -> int:
    """Return how many characters of a lead a line begins with; numbers may differ."""
    at = position = 0
    while at < len(lead) and position < len(line):
        number = _NUMBER.match(lead, at)
        other = _NUMBER.match(line, position) if number else None
        if number and other:
            at, position = number.end(), other.end()
        elif lead[at] == line[position]:
            at, position = at + 1, position + 1
        else:
            break
    return at


def _pattern(lead: str) -> _Lead:
    times = [match.span() for match in _TIMES.finditer(lead)]
    parts, is_name, done = [], [], 0
    for number in _NUMBER.finditer(lead):
        parts += [re.escape(lead[done : number.start()]), r"([ ]*\d+)"]
        digit = number.end() - 1
        is_name.append(not any(start <= digit < end for start, end in times))
        done = number.end()
    rest = lead[done:]
    bare = re.escape(rest.rstrip())
    blanks = re.escape(rest[len(rest.rstrip()) :])
    whole = rf"{bare}(?!\w)" if bare[-1:].isalpha() else bare  # not the start of a word
    tail = f"{bare}(?:{blanks}|[ \t]*$)" if blanks else whole
    return _Lead(re.compile(f"^{''.join(parts)}{tail}", re.MULTILINE), tuple(is_name))


def _cut(source: Source, lead: _Lead) -> list[Source]:
    """Return the text without a lead: one for each process whose lines alternate with others."""
    found = [
        (m.span(), tuple(map(str.strip, compress(m.groups(""), lead.is_name))))
        for m in lead.pattern.finditer(source.text)
    ]
    streams = list(dict.fromkeys(stream for _, stream in found))
    runs = sum(one[1] != other[1] for one, other in pairwise(found)) + 1
    if not 1 < len(streams) <= _MOST_STREAMS or runs == len(streams) or 2 * len(streams) > runs + 1:
        return [_without(source, [span for span, _ in found])]
    return [_without(source, list(_others(source.text, found, stream))) for stream in streams]


def _others(
    text: str, found: Sequence[tuple[tuple[int, int], tuple[str, ...]]], own: tuple[str, ...]
) -> Iterator[tuple[int, int]]:
    """Yield the spans to cut for one process: its leads, and the lines of the others.

    A line without lead belongs to the process of the line before it.
    """
    following = [span[0] for span, _ in found[1:]] + [len(text)]
    for ((start, end), stream), after in zip(found, following, strict=True):
        if stream == own:
            yield start, end
            continue
        while start < after:
            line_end = text.find("\n", start, after)
            line_end = after if line_end < 0 else line_end
            yield start, line_end
            start = line_end + 1


def _without(source: Source, spans: Sequence[tuple[int, int]]) -> Source:
    text, cuts = cut_spans(spans, source.text, source.cuts)
    return replace(source, text=text, cuts=cuts)


# ---- messages in strings -----------------------------------------------------------------------

_LONGEST_TEXT = 1 << 24
"""Characters of a text in which messages in strings are looked for."""

_FEWEST_BREAKS = 2
_LINE = lazy_pattern(r"[^\n]*\\n[^\n]*")
_ESCAPE = lazy_pattern(
    r"(?P<end>\\+n|['`](?=[)\]}, |]{0,8}$))|(?P<gone>\\+r)|\\+(?P<character>[\"'/t])"
    r"|\\+u00(?P<code>[2-7][0-9a-fA-F])|(?P<quote>\")"
)
_JSON = lazy_pattern(r"\s*[\[{\"]|[^\n]{0,200}?\"\s*:\s*\"")


def without_escapes(source: Source) -> Source:
    """Return the text with the lines in strings as lines; itself if it has none."""
    text = source.text
    if len(text) > _LONGEST_TEXT or "\\n" not in text or not has_log_words(text):
        return source
    spans = [span for line in _LINE.finditer(text) for span in _string_spans(line[0], line.start())]
    if not spans:
        return source
    added, lost = array("Q"), 0
    for start, end, replacement in spans:
        if replacement == "\n":
            added.append(start - lost)
        lost += end - start - len(replacement)
    text, cuts = replace_spans(spans, text, source.cuts)
    return replace(source, text=text, cuts=cuts, added=added)


def _string_spans(line: str, offset: int) -> Iterator[tuple[int, int, str]]:
    """Yield the spans of a line to replace, and what replaces each."""
    if line.count("\\n") < _FEWEST_BREAKS or not has_log_words(line):
        return
    is_json = _JSON.match(line) is not None
    for match in _ESCAPE.finditer(line):
        kind, character = match.lastgroup, match["character"]
        if kind == "end" or (kind == "quote" and is_json):
            replacement = "\n"  # a quote may delimit the string
        elif kind == "code":
            replacement = chr(int(match["code"], 16))
        else:
            replacement = (
                "" if kind == "gone" else " " if character == "t" else character or match[0]
            )
        if replacement != match[0]:
            yield offset + match.start(), offset + match.end(), replacement
