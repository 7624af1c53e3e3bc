"""The folder of the grammar files, their texts, and the places of what they read."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

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
