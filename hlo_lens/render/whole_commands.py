"""Commands in sentences, kept whole where the sentence is wrapped.

A command ends where prose goes on: before a word of lower-case letters alone that no option
follows, after the topic of ``help``, or at a mark. Values of options and quoted words belong to it.
"""

from __future__ import annotations

import re

_QUOTED = r"""'[^']*'|"[^"]*\""""
_VALUE = rf"(?:{_QUOTED}|[^\s,;()'\"])+(?<![.:])"
_OPTION = rf"--?[a-z][\w-]*(?:=(?:{_VALUE})| (?!-)(?:{_VALUE}))?"
_PROSE = r"[a-z]+(?![^\s,;:.()])(?! --?[a-z])"
_COMMAND = re.compile(
    rf"\bhlo-lens (?:help [a-z-]+|[a-z]+(?:-[a-z]+)*(?: (?:{_OPTION}|(?!{_PROSE}){_VALUE}))*)"
)
_JOINT = "\ue000"
"""Stands for a space inside of a command; for private use, so that no text has it."""


def joined(text: str, most: int | None = None) -> str:
    """Return a text whose commands have no spaces, to be wrapped and given to `separated`.

    Args:
        text: The text.
        most: Characters of the longest command that is kept whole; None for any.
    """
    if "hlo-lens " not in text:
        return text

    def join(match: re.Match[str]) -> str:
        is_kept = most is None or len(match[0]) <= most
        return match[0].replace(" ", _JOINT) if is_kept else match[0]

    return _COMMAND.sub(join, text)


def separated(text: str) -> str:
    """Return a text of `joined` with its spaces.

    >>> joined("see hlo-lens show PATH -n 0, or hlo-lens ls DIR prints it").replace("\ue000", "_")
    'see hlo-lens_show_PATH_-n_0, or hlo-lens_ls_DIR prints it'
    >>> separated(joined("marks it (hlo-lens help blame)"))
    'marks it (hlo-lens help blame)'
    """
    return text.replace(_JOINT, " ")
