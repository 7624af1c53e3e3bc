"""The two readers of a text: the scanner, and the grammar alone as its reference."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hlo_lens.text.errors import UsageError

ReaderName: TypeAlias = Literal["scanner", "grammar"]
"""``scanner`` is fast and notes gaps; ``grammar`` is slow and raises at the first error."""


def uses_grammar(reader: str) -> bool:
    """Return whether a text is to be read by the grammar; raises UsageError for a wrong name."""
    if reader not in ("scanner", "grammar"):
        raise UsageError(f"reader is 'scanner' or 'grammar', found {reader!r}")
    return reader == "grammar"
