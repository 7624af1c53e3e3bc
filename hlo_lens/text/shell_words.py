"""Words of commands to paste into a shell."""

from __future__ import annotations

import shlex

_NOT_IN_DOUBLE_QUOTES = frozenset('"$`\\!')


def shell_word(text: str) -> str:
    """Return a word of a shell's command; names with single quotes are in double ones.

    >>> print(shell_word("params['w']"), shell_word("state.*"), shell_word("DIR"))
    "params['w']" 'state.*' DIR
    """
    if "'" in text and not _NOT_IN_DOUBLE_QUOTES.intersection(text):
        return f'"{text}"'
    return shlex.quote(text)
