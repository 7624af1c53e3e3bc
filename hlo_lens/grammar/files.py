"""The folder of the grammar files and their texts; errors and numbers of what they read.

Readers by regular expressions and transformers of the grammars use them; they need no Lark.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from hlo_lens.text.errors import BrokenInstallError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


Spans: TypeAlias = "tuple[tuple[int, int], ...]"
"""Start and end of the whole line and of each group; -1 and -1 for one that is absent."""


@functools.cache
def grammar_folder() -> Traversable | Path:
    """Return the folder of the grammars: the installed copy, else the one in the checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_grammars", package.parent / "grammars"):
        if folder.is_dir():
            return folder
    from importlib.resources import files  # slow to import, and needed inside an archive only

    shipped = files("hlo_lens") / "_grammars"
    if shipped.is_dir():
        return shipped
    raise BrokenInstallError("the grammars are missing from this installation; reinstall hlo-lens")


@functools.cache
def grammar_text(*names: str) -> str:
    """Return the joined text of grammar files, named without ``.lark``."""
    folder = grammar_folder()
    return "\n".join((folder / f"{name}.lark").read_text("utf-8") for name in names)


_Item = TypeVar("_Item")

_INT64_MAX = 2**63 - 1


class MisplacedError(Exception):
    """A part of a parsed text, between two offsets, is well formed but makes no sense."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message, self.start, self.end = message, start, end

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
