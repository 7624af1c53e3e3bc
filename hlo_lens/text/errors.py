"""Errors for bad input, and their form in messages.

Form: ``file:line:column: error: message``, then the line, then carets under the place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.text.source import Source, Span


_COMMAND = re.compile(r"^(\s*):(?=:)|#(?=#\[)", re.MULTILINE)
"""Starts of workflow commands, which runners of continuous integration read in any output."""


def printable(text: str) -> str:
    r"""Return a text of one line: each character that does not print becomes its escape.

    These are control characters, line ends, marks of writing direction and blanks other than the
    space.

    >>> printable("a\x1b[31m\n")
    'a\\x1b[31m\\n'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else escaped(c) for c in text)


def printable_lines(text: str) -> str:
    r"""Return a text whose lines print as they are and are no commands for a runner.

    >>> printable_lines("x\n::error::y")
    'x\n\\x3a:error::y'
    """
    if not text.isprintable():
        text = "\n".join(map(printable, text.split("\n")))
    if "::" in text or "##[" in text:
        text = _COMMAND.sub(lambda m: f"{m[1] or ''}{escaped(m[0][-1])}", text)
    return text


def escaped(character: str) -> str:
    """Return the escape of a character, as in string literals of Python."""
    if character.isascii() and character.isprintable():
        return f"\\x{ord(character):02x}"
    return character.encode("unicode_escape").decode("ascii")


SHOWN_GAPS = 20
"""Most gaps listed in one error; the rest is counted."""

_WINDOW = 96
"""Most characters of an excerpt; a longer line is shortened to a window around the place."""


class HloLensError(Exception):
    """Base of all errors caused by the input or by the use of the tool.

    Attributes:
        exit_code: Exit code of commands: 2 usage, 3 unreadable, 4 not parsable, 5 not writable.
    """

    exit_code: ClassVar[int] = 4


class UnreadableError(HloLensError):
    """The file is missing, is a directory where a file is needed, or cannot be decompressed."""

    exit_code: ClassVar[int] = 3


class UsageError(HloLensError):
    """The request is not valid."""

    exit_code: ClassVar[int] = 2


class OutputError(HloLensError):
    """The output cannot be written."""

    exit_code: ClassVar[int] = 5


class DumpMismatchError(HloLensError):
    """Two texts or numbers disagree."""


class MissingDumpError(HloLensError):
    """A required file is missing; the message names the XLA flag that writes it."""

    exit_code: ClassVar[int] = 3


class MissingPackageError(HloLensError):
    """A required package is not installed; the message has the command that installs it."""

    exit_code: ClassVar[int] = 3


class UnknownNameError(HloLensError):
    """The module does not have the requested name; the message lists the nearest names."""

    exit_code: ClassVar[int] = 2


class BrokenInstallError(HloLensError):
    """The package was installed without its grammars."""

    exit_code: ClassVar[int] = 70


class DumpSyntaxError(HloLensError):
    """The text does not have the syntax of its format.

    Attributes:
        message: Expected and found text, without the place.
        path: Name of the file, or ``<text>``.
        line: 1-based line.
        column: 1-based column, counted in characters of that line.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str = "<text>",
        line: int = 1,
        column: int = 1,
        excerpt: str = "",
    ) -> None:
        self.message = message = printable(message)
        self.path = path
        self.line = line
        self.column = column
        self.excerpt = excerpt
        text = f"{printable(path)}:{line}:{column}: error: {message}"
        super().__init__(f"{text}\n{excerpt}" if excerpt else text)

    @staticmethod
    def at(source: Source, span: Span, message: str) -> DumpSyntaxError:
        """Return the error for a span of a source, with line, column and excerpt filled in."""
        return Gap.at(source, span, message).as_error()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A part of the input that could not be read.

    Attributes:
        path: Name of the file, or ``<text>``.
        line: 1-based line where it begins.
        column: 1-based column of the place that could not be read.
        lines: Number of lines that the gap covers, at least 1.
        excerpt: The line, or a window of it, with a caret under the place.
    """

    path: str
    line: int
    column: int
    message: str
    lines: int = 1
    excerpt: str = ""

    @classmethod
    def at(cls, source: Source, span: Span, message: str, lines: int = 1) -> Gap:
        """Return the gap for a span of a source, with line, column and excerpt filled in."""
        line, column = source.line_column(span.start)
        place = {"path": source.path, "excerpt": show_excerpt(source, span)}
        return cls(line=line, column=column, message=message, lines=lines, **place)

    @classmethod
    def of(cls, error: DumpSyntaxError, lines: int = 1) -> Gap:
        place = {name: getattr(error, name) for name in ("path", "line", "column", "excerpt")}
        return cls(message=error.message, lines=lines, **place)

    def __str__(self) -> str:
        return str(self.as_error())

    def as_error(self) -> DumpSyntaxError:
        return DumpSyntaxError(
            self.message, path=self.path, line=self.line, column=self.column, excerpt=self.excerpt
        )


def show_excerpt(source: Source, span: Span) -> str:
    """Return the line of a span, indented by four, with carets under it (at most to its end)."""
    start, end = source.line_bounds(span.start)
    left, right = start, end
    if right - left > _WINDOW:
        left = max(start, span.start - _WINDOW // 3)
        right = min(end, left + _WINDOW)
    line = "".join(
        c if c.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for c in source.text[left:right].replace("\t", " ")
    )
    head, tail = "..." * (left > start), "..." * (right < end)
    carets = max(1, min(span.end, right) - span.start)
    return f"    {head}{line}{tail}\n    {' ' * (len(head) + span.start - left)}{'^' * carets}"


def show_gaps(gaps: Sequence[Gap], *, shown: int = SHOWN_GAPS) -> str:
    """Return the first gaps as error messages, and the number of further ones."""
    texts = [str(gap) for gap in gaps[:shown]]
    if len(gaps) > shown:
        texts.append(f"[{len(gaps) - shown} more]")
    return "\n".join(texts)
