"""Dumps inside another text: files that XLA printed, and buffer-side texts in a log.

``--xla_dump_to=-`` prints each file between two markers with its name; each is a file in memory of
that name. Source: xla/service/dump.cc, DumpToFileInDirOrStdoutImpl.

A buffer-side text ends at the first line that no buffer-side text has. Each becomes a file in
memory, after as many empty lines as it has lines before it in the log, so that line numbers stay
those of the log. The rest is the HLO text. A buffer-side text belongs to the module before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.load.stored import MemoryFile, StoredFile
from hlo_lens.text.dump_kinds import BUFFER_HEADERS, BUFFER_ROWS, DumpKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.text.source import Source

_VALUES = re.compile(r"^(?:Total bytes used: [^\n]*\n\s*)?Used values:", re.MULTILINE)
"""Header of the used values, the only one that may begin on an earlier line."""

_OTHERS = re.compile(
    rf"^(?![ \t]|$|allocation \d|<\d|\d|-{{4}}|{'|'.join(map(re.escape, BUFFER_HEADERS))}"
    r"|cumulative_size;|The rest )",
    re.MULTILINE,
)
"""Start of a line that no buffer-side text has."""


_BEGIN = re.compile(r"^\*\*\* Begin ([^\s/]+) \*\*\*[ \t]*(?:\n|\Z)", re.MULTILINE)
_END = re.compile(r"^\*\*\* (?:End|Begin) [^\s/]+ \*\*\*[ \t]*(?:\n|\Z)", re.MULTILINE)


def printed_files(source: Source) -> tuple[list[MemoryFile], Around]:
    """Return the files that XLA printed between markers, and the text around them.

    A file whose end is missing ends before the next one.
    """
    text, files, spans = source.text, list[MemoryFile](), list[tuple[int, int]]()
    begin = _BEGIN.search(text) if "*** Begin " in text else None
    while begin is not None:
        end = _END.search(text, begin.end())
        stop = len(text) if end is None else end.start()
        data = text[begin.end() : stop].encode("utf-8", errors="surrogatepass")
        files.append(MemoryFile(path=f"{source.path}/{begin[1]}", data=data))
        is_ended = end is not None and end[0].startswith("*** End")
        spans.append((begin.start(), end.end() if end is not None and is_ended else stop))
        begin = _BEGIN.search(text, spans[-1][1])
    return files, Around(source, tuple(spans))


@dataclass(frozen=True, slots=True)
class Part:
    """A buffer-side text in a log.

    Attributes:
        kind: Part of the module, as in XLA's file names.
        start: Offset of its start.
        end: Offset of its end.
    """

    kind: str
    start: int
    end: int


def buffer_parts(text: str) -> list[Part]:
    """Return the buffer-side texts in a text, in order, without overlaps."""
    starts: list[tuple[int, str]] = []
    for row in BUFFER_ROWS:
        places = _line_starts(text, row.headers[0])
        if row.kind is DumpKind.BUFFER_VALUES and places:
            places = [match.start() for match in _VALUES.finditer(text)]
        starts += [(place, row.part or "") for place in places]
    found: list[Part] = []
    for start, kind in sorted(starts):
        if found and start < found[-1].end:
            continue
        other = _OTHERS.search(text, start + 1)
        found.append(Part(kind, start, len(text) if other is None else other.start()))
    return found


def _line_starts(text: str, word: str) -> list[int]:
    found = [0] if text.startswith(word) else []
    place = text.find(f"\n{word}") + 1
    while place:
        found.append(place)
        place = text.find(f"\n{word}", place) + 1
    return found


@dataclass(frozen=True, slots=True)
class Around:
    """The text around the dumps in a text.

    Attributes:
        source: The whole text.
        dumps: Spans of the dumps in it, in order.
    """

    source: Source
    dumps: tuple[tuple[int, int], ...] = ()

    def has_any(self, words: Iterable[str]) -> bool:
        """Whether any of some words occurs outside the dumps."""
        text = self.source.text
        ends = (*(start for start, _ in self.dumps), len(text))
        spans = list(zip((0, *(end for _, end in self.dumps)), ends, strict=True))
        return any(text.find(word, start, end) >= 0 for word in words for start, end in spans)

    @property
    def dump_lines(self) -> int:
        """Number of lines in dumps."""
        return sum(self.source.text.count("\n", start, end) for start, end in self.dumps)

    def rest(self) -> Source:
        """Return the text with blank lines in place of the dumps; offsets stay the same."""
        if not self.dumps:
            return self.source
        text = self.source.text
        pieces: list[str] = []
        done = 0
        for start, end in self.dumps:
            lines = text.count("\n", start, end)
            pieces += (text[done:start], " " * (end - start - lines), "\n" * lines)
            done = end
        pieces.append(text[done:])
        return replace(self.source, text="".join(pieces))


def around_parts(source: Source, parts: Sequence[Part]) -> Around:
    """Return the text around buffer-side texts."""
    return Around(source, tuple((part.start, part.end) for part in parts))


def around_modules(modules: Sequence[HloModule]) -> Around:
    """Return the text around the modules of one text, and the lines inside them that are no HLO."""
    source = modules[0].columns.source
    dumps: list[tuple[int, int]] = []
    done = 0
    for start, end in (span for module in modules for span in module.strange_spans):
        first = source.line_bounds(start)[0]
        dumps.append((done, start if source.text[first:start].strip() else max(done, first)))
        done = end
    dumps.append((done, len(source.text)))
    return Around(source, tuple(span for span in dumps if span[0] < span[1]))


def files_of_parts(
    source: Source, parts: Sequence[Part], lines: Sequence[int]
) -> list[dict[str, StoredFile]]:
    """Return, for each module, the buffer-side texts between it and the next one: kind to file.

    Args:
        source: The log.
        parts: Its buffer-side texts.
        lines: First line of each module; texts before the first module belong to it too.
    """
    found: list[dict[str, StoredFile]] = [{} for _ in lines]
    for part in parts:
        line = source.line_column(part.start)[0]
        place = max((k for k, first in enumerate(lines) if first <= line), default=0)
        found[place].setdefault(part.kind, _file(source, part, line))
    return found


def files_alone(source: Source, parts: Sequence[Part]) -> list[dict[str, StoredFile]]:
    """Return the buffer-side texts of a log without HLO; a repeated kind begins another module."""
    found: list[dict[str, StoredFile]] = []
    for part in parts:
        if not found or part.kind in found[-1]:
            found.append({})
        found[-1][part.kind] = _file(source, part, source.line_column(part.start)[0])
    return found


def _file(source: Source, part: Part, line: int) -> MemoryFile:
    """Return a file of one buffer-side text; its line numbers are those of the log."""
    text = "\n" * (line - 1) + source.text[part.start : part.end]
    return MemoryFile(path=source.path, data=text.encode("utf-8", errors="surrogatepass"))
