"""Printed Python objects of JAX: trees of calls, words, numbers and sequences; types of arrays."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lark import Lark, Token, Tree

from hlo_lens.buffers.lines import Node, find_all
from hlo_lens.grammar.parsers import build_parser, grammar_tree
from hlo_lens.hlo.text_reader import reader
from hlo_lens.logs.jax_values import Entry, JaxSpec, JaxValue
from hlo_lens.shapes.dtypes import element_type
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.shapes.shape import Shape
    from hlo_lens.shapes.sharding import HloSharding


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
    (child,) = node.children
    if isinstance(child, Token):
        return _TOKENS[child.type](str(child))
    if child.data == "call":
        return _call(child)
    if child.data == "dict":
        return Call("Mesh", (), {}, _axes(child))
    return tuple(_item(one) for one in find_all(child, "value"))


def _axes(node: Node) -> tuple[tuple[str, Item], ...]:
    """Return name and size of each axis of a mesh that was printed as a dictionary (jax 0.3)."""
    return tuple(
        (str(child.children[0]).strip("'\""), _item(next(find_all(child, "value"))))
        for child in node.children
        if isinstance(child, Tree)
    )


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
    digits = text.partition(".")[0]
    if len(digits) > _MOST_DIGITS:
        raise CodeError
    return int(digits)


_MOST_DIGITS = 19
"""Digits of the largest number of 64 bits."""


def _name(text: str) -> Item:
    return None if text == "None" else Name(text)


_TOKENS: Mapping[str, Callable[[str], Item]] = {
    "STRING": lambda text: text[1:-1],
    "NUMBER": _number,
    "NAME": _name,
    "SHAPED": Shaped,
    "HLO_SHARDING": lambda text: reader().sharding(" ".join(text.split())),
    "ANGLE": Name,
}


_SHAPED = re.compile(r"([a-z]\w*)(?:<([\w, ]*)>)?\[([^\]]*)\](?:\{([^}]*)\})?")
_DIMENSION = re.compile(rf"(\d{{1,{_MOST_DIGITS}}})(?:@(?:\(([^)]*)\)|([\w.]+(?:\+[\w.]+)*)))?")
_XLA_SHAPE = re.compile(r"(?:pred|token|[sufc]\d+\w*|bf16|f8\w+)\[")


def array_type(text: str) -> JaxValue:
    """Return the value of ``float32[8@dp,4@mp]{V:mp}`` or of XLA's ``f32[20,16]{1,0}``."""
    if _XLA_SHAPE.match(text):
        shape = reader().shape(str(text))
        return JaxValue(kind="Shape", text=str(text), shape=shape)
    match = _SHAPED.fullmatch(text)
    if match is None:
        raise DumpSyntaxError(f"not a type: {text}")
    dtype, memory, inside, manual = match.groups()
    dims: list[int] = []
    entries: list[Entry] = []
    for word in _split(inside):
        dimension = _DIMENSION.fullmatch(word)
        if dimension is None:
            raise CodeError
        dims.append(int(dimension[1]))
        axes = _axis_words(dimension[2] if dimension[2] is not None else dimension[3])
        entries.append(axes[0] if len(axes) == 1 else axes or None)
    spec = JaxSpec(entries=tuple(entries)) if any(entries) else None
    return JaxValue(
        kind="type",
        text=str(text),
        shape=xla_shape(dtype, tuple(dims)),
        dtype=dtype,
        spec=spec,
        manual_axes=_manual(manual),
        memory_kind=memory,
    )


def _split(text: str) -> list[str]:
    """Return the dimensions of a type; axes in parentheses hold commas."""
    return re.findall(r"(?:[^,()]|\([^)]*\))+", text.replace(" ", ""))


def _axis_words(text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(re.findall(r"[\w.]+", text))


def _manual(text: str | None) -> tuple[str, ...]:
    """Return the axes in ``{mp,dp}`` (jax 0.6) or ``{V:(x,y)}``; an XLA layout has none."""
    if text is None:
        return ()
    varying = re.search(r"V:\(?([\w., ]+)\)?", text)
    words = varying[1] if varying is not None else "" if ":" in text else text
    return tuple(word for word in _axis_words(words) if not word.isdecimal())


def xla_shape(dtype: str, dims: tuple[int, ...]) -> Shape | None:
    """Return the shape in XLA's notation; None for an element type that XLA lacks."""
    name = element_type(dtype)
    if name is None:
        return None
    return reader().shape(f"{name}[{','.join(map(str, dims))}]")
