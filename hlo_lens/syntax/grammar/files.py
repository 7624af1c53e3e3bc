"""Find the grammar files, join them and build parsers, once each.

Grammars do not import each other (imported terminals are renamed, and their callbacks are silently
not called); a parser is built from the joined text of the files it needs.
"""

from __future__ import annotations

import functools
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lark import Lark

from hlo_lens.text.errors import BrokenInstallError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from lark import Transformer


@functools.cache
def grammar_folder() -> Traversable | Path:
    """Return the folder of the grammars: the installed copy, else the one in the checkout."""
    shipped = files("hlo_lens") / "_grammars"
    if shipped.is_dir():
        return shipped
    checkout = Path(__file__).resolve().parents[3] / "grammars"
    if checkout.is_dir():
        return checkout
    raise BrokenInstallError("the grammars are missing from this installation; reinstall hlo-lens")


@functools.cache
def grammar_text(*names: str) -> str:
    """Return the joined text of grammar files, named without ``.lark``."""
    folder = grammar_folder()
    return "\n".join((folder / f"{name}.lark").read_text("utf-8") for name in names)


def build_parser(
    *names: str,
    start: str | list[str],
    transformer: Transformer[Any, Any] | None = None,
    has_positions: bool = False,
    has_placeholders: bool = True,
) -> Lark:
    """Return an LALR parser with a contextual lexer for the joined grammar files.

    Args:
        names: Grammar files without ``.lark``, each after the files that its head comment needs.
        start: Start rule, or several.
        transformer: Applied while parsing, so that no tree is kept.
        has_positions: Whether trees have the positions of their text.
        has_placeholders: Whether an optional part that is missing is None in its tree.
    """
    return Lark(
        grammar_text(*names),
        start=start,
        parser="lalr",
        lexer="contextual",
        transformer=transformer,
        propagate_positions=has_positions,
        maybe_placeholders=has_placeholders,
    )
