"""A text and places in it.

A `Source` holds the text that is parsed. Where the file had bytes that are not part of its format
(a byte order mark, terminal colours, log prefixes, carriage returns), they are cut out and the cuts
remembered, so that every line and column still is that of the file.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_LOG_PREFIX = re.compile(
    r"""^(?:
      (?:
        \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)[ ]
        (?:std(?:out|err)[ ][FP][ ])?
      )?+
      (?:\[\d+(?:,\d+)?\](?:<std(?:out|err)>)?:[ ]?|\d+:[ ](?=[IWEF]\d{4}[ ]))?+
      (?:
        [IWEF]\d{4}[ ][\d:.]+[ ]+\d+[ ][\w./+-]+:\d+\][ ]?
      | \d{4}-\d\d-\d\d[ ]\d\d:\d\d:\d\d[.,]\d+:[ ][IWEF][ ]\S+:\d+\][ ]?
      )
    | \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)[ ](?:std(?:out|err)[ ][FP][ ])?
    | \[\d+(?:,\d+)?\]<std(?:out|err)>:[ ]?
    )""",
    re.MULTILINE | re.VERBOSE,
)
"""Prefixes that absl, glog, TensorFlow, Kubernetes and mpirun put before each line of a log."""

_LOG_PREFIX_HINT = re.compile(
    r"^(?:[IWEF]\d{4} [\d:.]+ |\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\[\d+(?:,\d+)?\]<std"
    r"|(?:\d+|\[\d+(?:,\d+)?\]): ?[IWEF]\d{4} )",
    re.MULTILINE,
)
_HINT_LENGTH = 1 << 16
"""How far `clean` looks for log prefixes; whoever finds lines he cannot read looks further."""

_GROWTH = 1 << 18
"""By how many characters a text grows at least; a long one by a sixteenth of its length.

Where the interpreter copies it to grow, that is not often.
"""

_ASTRAL = re.compile(rb"[\xf0-\xf7][\x80-\xbf]{3}")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Half-open range of offsets ``[start, end)`` in a source text."""

    start: int
    end: int


@dataclass(slots=True)
class Source:
    r"""A text to be parsed, its name, and where parts of the file were cut out of it.

    Attributes:
        text: The text, with line ends as ``\n``.
        path: Name for messages.
        cut_offsets: Offsets in `text` where something was cut, ascending.
        cut_lengths: How many characters were cut there.
        is_cut: Whether the file is known to end too early, as a compressed file can tell.
    """

    text: str
    path: str = "<text>"
    cut_offsets: list[int] = field(default_factory=list)
    cut_lengths: list[int] = field(default_factory=list)
    is_cut: bool = False
    _mark: tuple[int, int] = (0, 1)

    def line_bounds(self, offset: int) -> tuple[int, int]:
        """Return start and end offset of the line that holds an offset, without its line end."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        return start, len(self.text) if end < 0 else end

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of an offset, as they are in the file.

        Places asked for in ascending order cost one pass over the text in all.
        """
        known, line = self._mark
        if offset < known:
            known, line = 0, 1
        line += self.text.count("\n", known, offset)
        self._mark = (offset, line)
        start = self.text.rfind("\n", 0, offset) + 1
        first = bisect.bisect_left(self.cut_offsets, start)
        last = bisect.bisect_right(self.cut_offsets, offset)
        return line, offset - start + 1 + sum(self.cut_lengths[first:last])


def decode(data: bytes) -> str:
    r"""Return the text of dump bytes: UTF-8 (or UTF-16 by its mark), never failing.

    Bytes that are not UTF-8 become the four characters of their C escape, ``\xff``, which is what
    XLA's own printer would have written inside a string. Characters beyond the 16-bit plane become
    octal escapes for the same reason, so that no text takes four bytes a character.
    """
    if data.isascii():
        return data.decode("ascii")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    data = _ASTRAL.sub(lambda m: "".join(f"\\{b:03o}" for b in m[0]).encode(), data)
    return data.decode("utf-8", errors="backslashreplace")


def decode_pieces(pieces: Iterable[bytes]) -> str:
    """Return the text of bytes that come in pieces, as `decode` does.

    Of ASCII, which almost all dumps are, no more than a piece is held beside the text: it grows in
    place, because nothing else refers to it.
    """
    text = ""
    waiting: list[bytes] = []
    size = 0
    rest = iter(pieces)
    for piece in rest:
        waiting.append(piece)
        size += len(piece)
        if not piece.isascii():
            waiting[:0] = [text.encode("ascii")]
            text = ""
            return decode(b"".join([*waiting, *rest]))
        if size >= max(_GROWTH, len(text) >> 4):
            text += b"".join(waiting).decode("ascii")
            waiting.clear()
            size = 0
    text += b"".join(waiting).decode("ascii")
    return text


def clean(text: str, path: str = "<text>") -> Source:
    r"""Return the source for a text: line ends made ``\n``, marks, colours and log prefixes cut."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    patterns = []
    if text.startswith("\ufeff"):
        patterns.append("\ufeff")
    if "\x1b" in text:
        patterns.append(_ANSI.pattern)
    offsets: list[int] = []
    lengths: list[int] = []
    if patterns:
        text = _cut(re.compile("|".join(patterns)), text, offsets, lengths)
    source = Source(text, path, offsets, lengths)
    if _LOG_PREFIX_HINT.search(text, 0, _HINT_LENGTH):
        return cut_log_prefixes(source) or source
    return source


def cut_log_prefixes(source: Source) -> Source | None:
    """Return a source without the prefixes that loggers put before each line; None without any."""
    if _LOG_PREFIX_HINT.search(source.text) is None:
        return None
    offsets, lengths = list(source.cut_offsets), list(source.cut_lengths)
    text = _cut(_LOG_PREFIX, source.text, offsets, lengths)
    return Source(text, source.path, offsets, lengths, source.is_cut)


def _cut(pattern: re.Pattern[str], text: str, offsets: list[int], lengths: list[int]) -> str:
    """Cut all matches out of a text and note where, in offsets of the result."""
    parts: list[str] = []
    done = size = 0
    cuts: list[tuple[int, int]] = []
    for match in pattern.finditer(text):
        start, end = match.span()
        if start == end:
            continue
        parts.append(text[done:start])
        size += start - done
        cuts.append((size, end - start))
        done = end
    if not cuts:
        return text
    moved = _moved(offsets, lengths, cuts)
    offsets[:] = [offset for offset, _ in moved]
    lengths[:] = [length for _, length in moved]
    parts.append(text[done:])
    return "".join(parts)


def _moved(
    offsets: list[int], lengths: list[int], cuts: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Merge earlier cuts with later ones; all offsets are those of the text after both."""
    moved: list[tuple[int, int]] = []
    taken = index = 0
    for offset, length in zip(offsets, lengths, strict=True):
        while index < len(cuts) and cuts[index][0] + taken <= offset:
            taken += cuts[index][1]
            index += 1
        moved.append((max(0, offset - taken), length))
    return sorted([*moved, *cuts])
