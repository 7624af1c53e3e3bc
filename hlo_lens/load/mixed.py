"""A text that holds dumps of several kinds, as a log does: the buffer-side texts cut out of it.

A buffer-side text ends where a line begins that none of its kind has. Each is put into a file of
its own in memory, with as many line ends before it as there were, so that places stay those of the
log. What is left is the HLO text. A buffer-side text belongs to the module before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.load.stored import MemoryFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.stored import StoredFile
    from hlo_lens.text.source import Source

_HEADERS: tuple[tuple[str, str], ...] = (
    ("buffer-assignment", "BufferAssignment:"),
    ("live-range", "HloLiveRange ("),
    ("memory-usage-report", "Memory Space: "),
)
"""Words with which a text of each kind begins, at the start of a line."""

_VALUES = re.compile(r"^(?:Total bytes used: [^\n]*\n\s*)?Used values:", re.MULTILINE)

_OTHERS = re.compile(
    r"^(?![ \t]|$|allocation \d|<\d|\d|-{4}|Total bytes|BufferAssignment:|Used values:"
    r"|HloLiveRange |Allocations sorted|Memory Space: |cumulative_size;|The rest )",
    re.MULTILINE,
)
"""Where a line begins that no buffer-side text has."""


@dataclass(frozen=True, slots=True)
class Part:
    """A buffer-side text in a log.

    Attributes:
        kind: Word for it in XLA's file names.
        start: Where it begins.
        end: Where it ends.
    """

    kind: str
    start: int
    end: int


def buffer_parts(text: str) -> list[Part]:
    """Return the buffer-side texts in a text, in order; none within another."""
    starts: list[tuple[int, str]] = []
    for kind, word in _HEADERS:
        place = 0 if text.startswith(word) else text.find(f"\n{word}") + 1
        while place or text.startswith(word):
            starts.append((place, kind))
            following = text.find(f"\n{word}", place)
            if following < 0:
                break
            place = following + 1
    if "\nUsed values:" in text or text.startswith("Used values:"):
        starts += [(m.start(), "buffer-assignment-values") for m in _VALUES.finditer(text)]
    found: list[Part] = []
    for start, kind in sorted(starts):
        if found and start < found[-1].end:
            continue
        other = _OTHERS.search(text, start + 1)
        found.append(Part(kind, start, len(text) if other is None else other.start()))
    return found


def without_parts(source: Source, parts: Sequence[Part]) -> Source:
    """Return a source with blank lines where its buffer-side texts were; places stay the same."""
    pieces: list[str] = []
    done = 0
    for part in parts:
        pieces.append(source.text[done : part.start])
        lines = source.text.count("\n", part.start, part.end)
        pieces.append(" " * (part.end - part.start - lines) + "\n" * lines)
        done = part.end
    pieces.append(source.text[done:])
    return replace(source, text="".join(pieces))


def files_of_parts(
    source: Source, parts: Sequence[Part], lines: Sequence[int]
) -> list[dict[str, StoredFile]]:
    """Return, for each module, the buffer-side texts between it and the next one: kind to file.

    Args:
        source: The log.
        parts: Its buffer-side texts.
        lines: Line where each module begins; what stands before the first belongs to it too.
    """
    found: list[dict[str, StoredFile]] = [{} for _ in lines]
    for part in parts:
        line = source.line_column(part.start)[0]
        place = max((k for k, first in enumerate(lines) if first <= line), default=0)
        found[place].setdefault(part.kind, _file(source, part, line))
    return found


def files_alone(source: Source, parts: Sequence[Part]) -> list[dict[str, StoredFile]]:
    """Return the buffer-side texts of a log without HLO text; a kind that repeats begins anew."""
    found: list[dict[str, StoredFile]] = []
    for part in parts:
        if not found or part.kind in found[-1]:
            found.append({})
        found[-1][part.kind] = _file(source, part, source.line_column(part.start)[0])
    return found


def _file(source: Source, part: Part, line: int) -> MemoryFile:
    """Return a file of one buffer-side text, whose lines have the numbers of the log."""
    text = "\n" * (line - 1) + source.text[part.start : part.end]
    return MemoryFile(path=source.path, data=text.encode("utf-8", errors="surrogatepass"))
