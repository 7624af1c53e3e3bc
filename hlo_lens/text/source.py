"""Source texts, their positions, and the parts that were cut out of them.

A `Source` has the text to be parsed. Parts of the file that do not belong to its format (a byte
order mark, terminal colours, log prefixes, carriage returns) are cut out and the cuts are recorded,
so that all lines and columns in messages are those of the file.
"""

from __future__ import annotations

import bisect
import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

_ANSI = re.compile(r"\A\ufeff|\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_LOG_PREFIX = re.compile(
    r"""^(?:
      (?:
        \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)[ ]
        (?:std(?:out|err)[ ][FP][ ])?
      )?+
      (?:\[\d+(?:,\d+)?\](?:<std(?:out|err)>)?:[ ]?|\d+:[ ](?=[IWEF]\d{4}[ ]))?+
      (?:
        [IWEF]\d{4}[ ][\d:.]+[ ]+\d+[ ][\w./+-]+:\d+\][ ]?
      | (?:\d{4}-\d\d-\d\d[ ]\d\d:\d\d:\d\d[.,]\d+:[ ])?[IWEF][ ]\S+:\d+\][ ]?
      )
    | \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)[ ](?:std(?:out|err)[ ][FP][ ])?
    | \[\d+(?:,\d+)?\]<std(?:out|err)>:[ ]?
    )""",
    re.MULTILINE | re.VERBOSE,
)
"""Prefixes that absl, glog, TensorFlow, Kubernetes and mpirun put before each line of a log."""

_HINT_LENGTH = 1 << 16
"""Characters in which `clean` looks for log prefixes; readers of logs look further."""

_ASTRAL = re.compile(rb"[\xf0-\xf7][\x80-\xbf]{3}")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Half-open range of offsets ``[start, end)`` in a source text."""

    start: int
    end: int


@dataclass(slots=True)
class Cuts:
    """Positions where parts of a file were cut out of its text, ascending, 16 bytes each."""

    offsets: array[int] = field(default_factory=lambda: array("Q"))
    lengths: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, offset: int, length: int) -> None:
        self.offsets.append(offset)
        self.lengths.append(length)


@dataclass(slots=True)
class Source:
    r"""A text to be parsed, with line ends as ``\n``, its name, and the cuts that were made in it.

    `is_cut`: the file is known to end too early, as compressed files show.
    `added`: offsets of line ends in the text that the file does not have, ascending.
    """

    text: str
    path: str = "<text>"
    cuts: Cuts = field(default_factory=Cuts)
    is_cut: bool = False
    added: array[int] = field(default_factory=lambda: array("Q"))
    _mark: tuple[int, int, int, int, int] = field(
        default=(0, 1, 0, 0, 0), init=False, repr=False, compare=False
    )

    def line_bounds(self, offset: int) -> tuple[int, int]:
        """Return start and end of the line of an offset, without its line end."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        return start, len(self.text) if end < 0 else end

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of an offset, as they are in the file.

        Queries in ascending order cost one pass over the text in total, whatever its lines.
        """
        known, line, start, cut, lost = self._mark
        if offset < known:
            known = start = cut = lost = 0
            line = 1
        ends = self.text.count("\n", known, offset)
        if ends and self.added:
            ends -= bisect.bisect_left(self.added, offset) - bisect.bisect_left(self.added, known)
        if ends:
            line += ends
            start = self.text.rfind("\n", known, offset) + 1
            at = bisect.bisect_left(self.added, start) - 1
            while at >= 0 and self.added[at] == start - 1:  # no end of a line of the file
                start = self.text.rfind("\n", known, start - 1) + 1
                at -= 1
            cut, lost = bisect.bisect_left(self.cuts.offsets, start), 0
        last = bisect.bisect_right(self.cuts.offsets, offset)
        lost += sum(self.cuts.lengths[cut:last])
        self._mark = (offset, line, start, last, lost)
        return line, offset - start + 1 + lost


def decode(data: bytes) -> str:
    r"""Return the text of a dump's bytes: UTF-8, or UTF-16 by its mark; never fails.

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
    """Return the text of bytes that arrive in pieces, decoded as by `decode`.

    ASCII text, as in almost all dumps, grows in place, since nothing else refers to it: only its
    growth needs more memory.
    """
    text = ""
    rest = iter(pieces)
    for piece in rest:
        if not piece.isascii():
            before = text.encode("ascii")
            text = ""
            return decode(b"".join([before, piece, *rest]))
        text += piece.decode("ascii")
    return text


def clean(text: str, path: str = "<text>") -> Source:
    """Return the source of a text: LF line ends; marks, colours and log prefixes are cut."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    cuts = Cuts()
    if text.startswith("\ufeff") or "\x1b" in text:
        text, cuts = cut_spans((match.span() for match in _ANSI.finditer(text)), text, cuts)
    source = Source(text, path, cuts)
    if _LOG_PREFIX.search(text, 0, _HINT_LENGTH):
        return cut_log_prefixes(source) or source
    return source


def cut_log_prefixes(source: Source) -> Source | None:
    """Return a source without the prefixes of loggers; None if it has none."""
    if _LOG_PREFIX.search(source.text) is None:
        return None
    spans = (match.span() for match in _LOG_PREFIX.finditer(source.text))
    text, cuts = cut_spans(spans, source.text, source.cuts)
    return Source(text, source.path, cuts, source.is_cut)


def cut_spans(spans: Iterable[tuple[int, int]], text: str, cuts: Cuts) -> tuple[str, Cuts]:
    """Return a text without some spans, in order, and the cuts in addition to earlier ones."""
    return replace_spans(((start, end, "") for start, end in spans), text, cuts)


def replace_spans(spans: Iterable[tuple[int, int, str]], text: str, cuts: Cuts) -> tuple[str, Cuts]:
    """Return a text with shorter text in place of some spans, in order, and the cuts."""
    parts: list[str] = []
    made = Cuts()
    done = lost = at = 0

    def add_earlier(end: int) -> None:
        nonlocal at
        while at < len(cuts.offsets) and cuts.offsets[at] <= end:
            least = made.offsets[-1] if made.offsets else 0
            made.add(max(least, cuts.offsets[at] - lost), cuts.lengths[at])
            at += 1

    for start, end, replacement in spans:
        add_earlier(start)
        parts += (text[done:start], replacement)
        shorter = end - start - len(replacement)
        lost += shorter
        if shorter:
            made.add(end - lost, shorter)
        done = end
    if not parts:
        return text, cuts
    parts.append(text[done:])
    add_earlier(len(text))
    return "".join(parts), made
