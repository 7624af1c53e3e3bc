"""A text and places in it.

A `Source` holds the text that is parsed. Where the file had bytes that are not part of its format
(a byte order mark, terminal colours, log prefixes, carriage returns), they are cut out and the cuts
remembered, so that every line and column still is that of the file.
"""

from __future__ import annotations

import bisect
import re
from array import array
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
"""By how many characters a text grows at least; a long one by a 32nd of its length.

Where the interpreter copies it to grow, that is not often.
"""

_SHIFT = 5
"""Binary logarithm of that 32."""

_PIECES = 4096
"""How many pieces of a text that is cut are held before they are joined."""

_ASTRAL = re.compile(rb"[\xf0-\xf7][\x80-\xbf]{3}")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Half-open range of offsets ``[start, end)`` in a source text."""

    start: int
    end: int


@dataclass(slots=True)
class Cuts:
    """Where parts of a file were cut out of its text: a log has one cut a line, so 16 bytes each.

    Attributes:
        offsets: Offsets in the text, ascending.
        lengths: How many characters were cut there.
    """

    offsets: array[int] = field(default_factory=lambda: array("Q"))
    lengths: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, offset: int, length: int) -> None:
        """Note a cut behind all others."""
        self.offsets.append(offset)
        self.lengths.append(length)


@dataclass(slots=True)
class Source:
    r"""A text to be parsed, its name, and where parts of the file were cut out of it.

    Attributes:
        text: The text, with line ends as ``\n``.
        path: Name for messages.
        cuts: Where something was cut.
        is_cut: Whether the file is known to end too early, as a compressed file can tell.
    """

    text: str
    path: str = "<text>"
    cuts: Cuts = field(default_factory=Cuts)
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
        first = bisect.bisect_left(self.cuts.offsets, start)
        last = bisect.bisect_right(self.cuts.offsets, offset)
        return line, offset - start + 1 + sum(self.cuts.lengths[first:last])


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

    Of ASCII, which almost all dumps are, no more is held beside the text than what it grows by: it
    grows in place, because nothing else refers to it.
    """
    text = ""
    waiting = bytearray()
    rest = iter(pieces)
    for piece in rest:
        if not piece.isascii():
            before = text.encode("ascii")
            text = ""
            return decode(b"".join([before, waiting, piece, *rest]))
        waiting += piece
        if len(waiting) >= max(_GROWTH, len(text) >> _SHIFT):
            text += waiting.decode("ascii")
            waiting.clear()
    text += waiting.decode("ascii")
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
    cuts = Cuts()
    if patterns:
        text, cuts = _cut(re.compile("|".join(patterns)), text, cuts)
    source = Source(text, path, cuts)
    if _LOG_PREFIX_HINT.search(text, 0, _HINT_LENGTH):
        return cut_log_prefixes(source) or source
    return source


def cut_log_prefixes(source: Source) -> Source | None:
    """Return a source without the prefixes that loggers put before each line; None without any."""
    if _LOG_PREFIX_HINT.search(source.text) is None:
        return None
    text, cuts = _cut(_LOG_PREFIX, source.text, source.cuts)
    return Source(text, source.path, cuts, source.is_cut)


def _cut(pattern: re.Pattern[str], text: str, cuts: Cuts) -> tuple[str, Cuts]:
    """Return a text without all matches, and where they were beside earlier cuts.

    Of ASCII, no more is held beside the two texts than a 32nd of one, and sixteen bytes a cut.
    """
    kept = ""
    chunks: list[str] = []
    pieces: list[str] = []
    done = size = grown = 0
    made = Cuts()
    for match in pattern.finditer(text):
        start, end = match.span()
        if start == end:
            continue
        pieces.append(text[done:start])
        size += start - done
        made.add(size, end - start)
        done = end
        if len(pieces) >= _PIECES:
            chunks.append("".join(pieces))
            pieces.clear()
            if size - grown >= max(_GROWTH, size >> _SHIFT):
                kept += "".join(chunks)
                chunks.clear()
                grown = size
    if not made.offsets:
        return text, cuts
    chunks += pieces
    pieces.clear()
    kept += "".join(chunks)
    chunks.clear()
    kept += text[done:]
    return kept, made if not cuts.offsets else _merged(cuts, made)


def _merged(earlier: Cuts, later: Cuts) -> Cuts:
    """Return earlier cuts with later ones; all offsets are those of the text after both."""
    merged = Cuts()
    taken = index = place = 0
    for offset, length in zip(earlier.offsets, earlier.lengths, strict=True):
        while index < len(later.offsets) and later.offsets[index] + taken <= offset:
            place = later.offsets[index]
            taken += later.lengths[index]
            merged.add(place, later.lengths[index])
            index += 1
        merged.add(max(place, offset - taken), length)
    merged.offsets += later.offsets[index:]
    merged.lengths += later.lengths[index:]
    return merged
