"""Numbers in small texts, and the error for text that is well formed but wrong.

Readers by regular expressions and transformers of the grammars both use it; it needs no Lark.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

_Item = TypeVar("_Item")

_INT64_MAX = 2**63 - 1


class MisplacedError(Exception):
    """A part of a text is well formed but makes no sense.

    Attributes:
        message: The error message.
        start: Offset in the parsed text.
        end: Offset after it.
    """

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end

    @classmethod
    def at_token(cls, token: str, message: str) -> MisplacedError:
        """Return the error at a token of Lark; a plain string counts as the start of the text."""
        start = getattr(token, "start_pos", None) or 0
        return cls(message, start, start + len(token))


def whole_number(token: str) -> int:
    """Return the value of a number; raises MisplacedError if it takes more than 64 bits."""
    value = int(token) if len(token) <= len(str(_INT64_MAX)) + 1 else _INT64_MAX + 1
    if not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        raise MisplacedError.at_token(token, f"number too large, the largest is {_INT64_MAX}")
    return value


def present(items: Iterable[_Item | None]) -> list[_Item]:
    """Return the items without the None that Lark puts where an optional part is absent."""
    return [item for item in items if item is not None]
