"""Printed Python objects of JAX as trees of calls, words, numbers and sequences."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lark import Lark, Token, Tree

from hlo_lens.model.text_reader import reader
from hlo_lens.syntax.buffers.lines import Node, find_all, grammar_tree
from hlo_lens.syntax.grammar.files import build_parser
from hlo_lens.text.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.model.shapes.sharding import HloSharding

Item: TypeAlias = "Call | str | int | tuple[Item, ...] | HloSharding | None"
"""A printed object: a call, a word, a number or a sequence."""

NAMES: Mapping[str, str] = {
    "NAME": "a name",
    "STRING": "a string",
    "NUMBER": "a number",
    "KEYWORD": "a keyword",
    "SHAPED": "a type such as float32[8,4]",
    "HLO_SHARDING": "a sharding in XLA's notation",
}
"""Names of the terminals in error messages."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as printed.

    Attributes:
        name: Last part of the name of the function.
        arguments: Arguments without a keyword.
        keywords: Arguments by keyword.
        axes: Name and size of each ``'x': 4``.
    """

    name: str
    arguments: tuple[Item, ...]
    keywords: Mapping[str, Item]
    axes: tuple[tuple[str, Item], ...]


class CodeError(Exception):
    """The text is source code: it has names where printed values have values."""


@functools.cache
def parser() -> Lark:
    """Return the parser of values."""
    return build_parser("jax_values", start="value")


def parse_item(text: str) -> Item:
    """Return the item in a text.

    Raises:
        DumpSyntaxError: If the grammar refuses it.
    """
    return _item(grammar_tree(parser(), NAMES, Source(text), "value", 0, len(text)))


class Shaped(str):
    """The text of a type."""

    __slots__ = ()


def _item(node: Node) -> Item:
    """Return the item of a grammar node."""
    (child,) = node.children
    if isinstance(child, Token):
        return _TOKENS[child.type](str(child))
    if child.data == "call":
        return _call(child)
    return tuple(_item(one) for one in find_all(child, "value"))


def _call(node: Node) -> Item:
    name = str(node.children[0]).rpartition(".")[2]
    arguments: list[Item] = []
    keywords: dict[str, Item] = {}
    axes: list[tuple[str, Item]] = []
    for child in node.children[1:]:
        if not isinstance(child, Tree):
            continue
        value = _item(next(find_all(child, "value")))
        token = next((c for c in child.children if isinstance(c, Token)), None)
        if child.data == "axis" and token is not None:
            axes.append((str(token).strip("'\""), value))
        elif token is not None:
            keywords[str(token).rstrip("=")] = value
        else:
            arguments.append(value)
    return Call(name, tuple(arguments), keywords, tuple(axes))


class Name(str):
    """A name: of an object in source code, or a word such as ``Auto``."""

    __slots__ = ()


def _number(text: str) -> int:
    return int(text.partition(".")[0])


def _name(text: str) -> Item:
    return None if text == "None" else Name(text)


_TOKENS: Mapping[str, Callable[[str], Item]] = {
    "STRING": lambda text: text[1:-1],
    "NUMBER": _number,
    "NAME": _name,
    "SHAPED": Shaped,
    "HLO_SHARDING": lambda text: reader().sharding(" ".join(text.split())),
    "POSITIONS": lambda text: text,
    "ANGLE": Name,
}
