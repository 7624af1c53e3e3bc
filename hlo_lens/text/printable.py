"""Text of dumps, logs, paths and names, made safe to print."""

from __future__ import annotations

import re

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
