"""Text of a shape to `Shape`.

The grammar is the definition (`parse_shape_with_grammar`). `parse_shape` has the same result,
faster: one regular expression cuts a tuple into its leaves, another reads an array in its common
form, and each distinct leaf is parsed once. All other texts go to the grammar, which also finds the
places of errors; it is loaded when it is first needed.
"""

from __future__ import annotations

import functools
import re

from hlo_lens.shapes.shape import MAX_NESTING, Layout, Shape
from hlo_lens.shapes.tiling import Tile
from hlo_lens.text.errors import DumpSyntaxError

REMEMBERED_LENGTH = 1 << 16
"""Longest text, in characters, in the cache: a tuple of a million elements has 20 MB."""

_LEAF = r"[a-z][a-z0-9]*\[[^\[\]{}()]*\](?:\{(?=[\d:])[^{}]*\})?"
_PIECE = re.compile(rf"\s*(?:/\*[^*]*\*/\s*)*((?:{_LEAF}|b\({_LEAF}\)|\)),?|[\s\S])")
"""A leaf or a closing parenthesis, with the comma after it, or any other single character."""

_SIZES = r"\d{1,18}(?:,\d{1,18})*+"
_ARRAY = re.compile(
    r"([a-z][a-z0-9]*+)\[((?:(?:<=)?\d{1,18}(?:,(?:<=)?\d{1,18})*+)?+)\]"
    rf"(\{{(?=[\d:])((?:{_SIZES})?+)"
    rf"(?::(?:T((?:\({_SIZES}\))++))?+(?:L\((\d{{1,18}})\))?+(?:E\((\d{{1,18}})\))?+"
    r"(?:S\((\d{1,18})\))?+)?+\})?+"
)
"""An array. Groups: type, sizes, layout, its order, tiles, and numbers of ``L``, ``E``, ``S``."""


def parse_shape(text: str) -> Shape:
    """Return the shape that a text prints; each distinct text is parsed once.

    Raises:
        DumpSyntaxError: If it is malformed; line and column are those within the text.
    """
    return remembered_shape(text) if len(text) <= REMEMBERED_LENGTH else _parse(text)


@functools.lru_cache(maxsize=1 << 14)
def remembered_shape(text: str) -> Shape:
    """Return the shape of a text of at most `REMEMBERED_LENGTH` characters; remembered."""
    return _parse(text)


def _parse(text: str) -> Shape:
    """Return the shape of a text: by regular expressions if they match, else by the grammar."""
    shape = _array(text)
    if shape is None and "(" in text:
        shape = _cut_tuple(text.strip())
    if shape is None:
        from hlo_lens.shapes.shape_grammar import parse_shape_with_grammar

        return parse_shape_with_grammar(text)
    return shape


def _array(text: str) -> Shape | None:
    """Return the shape of an array in its common form; None where only the grammar can decide."""
    match = _ARRAY.fullmatch(text)
    if match is None:
        return None
    element_type, sizes, braces, order, tiles, alignment, bits, space = match.groups()
    listed = sizes.split(",") if sizes else []
    layout = None
    if braces is not None:
        found = _numbers(order)
        if sorted(found) != list(range(len(listed))):
            return None
        layout = Layout(
            minor_to_major=found,
            tiles=tuple(Tile(dimensions=_numbers(tile)) for tile in tiles[1:-1].split(")("))
            if tiles
            else (),
            tail_padding_alignment_in_elements=1 if alignment is None else int(alignment),
            element_size_in_bits=int(bits or 0),
            memory_space=int(space or 0),
        )
    dynamic = tuple(size.startswith("<=") for size in listed)
    return Shape(
        element_type=element_type,
        dimensions=tuple(int(size.removeprefix("<=")) for size in listed),
        dynamic_dimensions=dynamic,
        layout=None if layout == Layout() else layout,
    )


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list without spaces; empty for an empty text."""
    return tuple(map(int, text.split(","))) if text else ()


def _cut_tuple(text: str) -> Shape | None:
    """Return the shape of a tuple text; None where only the grammar can decide."""
    if not text.startswith("("):
        return None
    stack: list[list[Shape]] = [[]]
    leaves: dict[str, Shape] = {}
    more = True  # whether an element may follow: at the start, after "(" and after ","
    for piece in _PIECE.findall(text):
        if piece in _CLOSINGS:
            if len(stack) < 2 or (more and stack[-1]):
                return None
            shape = Shape.tuple_of(stack.pop())
        elif not more:
            return None
        elif piece == "(" and len(stack) <= MAX_NESTING:
            stack.append([])
            continue
        else:
            known = leaves.get(piece) or _leaf(piece.removesuffix(","))
            if known is None:
                return None
            shape = leaves[piece] = known
        stack[-1].append(shape)
        more = piece[-1] == ","
    return stack[0][0] if len(stack) == len(stack[0]) == 1 and not more else None


_CLOSINGS = frozenset({")", "),"})


def _leaf(text: str) -> Shape | None:
    """Return the shape of a leaf; None if it is malformed."""
    if "[" not in text:
        return None
    try:
        return remembered_shape(text)
    except DumpSyntaxError:
        return None
