"""Shortening of text to a width, keeping its most distinctive parts."""

from __future__ import annotations

import re

_DOTS = "..."
_PLACE = re.compile(r"\.\w+:\d+$")


def cell_width(text: str) -> int:
    """Return the number of terminal columns of a text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shorten(text: str, width: int) -> str:
    """Return a text of at most this width: its first third and its end, of a path only its end.

    >>> shorten("jit(step)/transpose(jvp(attention))/dot_general", 30)
    'jit(step)...tion))/dot_general'
    >>> shorten("/home/me/project/train.py:41", 15)
    '...train.py:41'
    """
    if cell_width(text) <= width:
        return text
    keep = width - len(_DOTS)
    if keep < 2:
        return text[:width]
    if not text.isascii():
        from rich.cells import set_cell_size

        return f"{set_cell_size(text, keep)}{_DOTS}"
    head = 0 if text.startswith("/") or _PLACE.search(text) else keep // 3
    return f"{text[:head]}{_DOTS}{text[len(text) - (keep - head) :]}"
