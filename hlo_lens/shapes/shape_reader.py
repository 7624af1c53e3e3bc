"""Text of a shape to `Shape`: each distinct text, and each distinct array of a tuple, once."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from hlo_lens.grammar.misplaced import MisplacedError, present, whole_number
from hlo_lens.grammar.small import SmallLanguage
from hlo_lens.shapes.shape import MAX_NESTING, Layout, Shape
from hlo_lens.shapes.tiling import SplitConfig, Tile
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source, Span

REMEMBERED_LENGTH = 1 << 16
"""Longest text, in characters, in the cache: a tuple of a million elements has 20 MB."""


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
    if text.count("(") > MAX_NESTING:
        _check_nesting(Source(text))
    return cast("Shape", SHAPES.parse(text))


_PROPERTIES = ("D", "T", "L", "INDEX", "POINTER", "E", "S", "SC", "P", "M", "OTHER")

SHAPE_NAMES = {
    "SHAPE_TYPE": "a shape",
    "SHAPE_BUFFER": "a shape",
    "SHAPE_SIZE": "a number",
    "SHAPE_BOUND": "'<='",
    "SHAPE_UNKNOWN": "'?'",
    "LAYOUT_OPEN": "a layout",
    **dict.fromkeys(map("LAYOUT_{}".format, _PROPERTIES), "a layout property"),
    "LAYOUT_LEVEL": "a level type",
    "LAYOUT_TYPE": "a primitive type",
    "LAYOUT_COMBINE": "'*'",
}
"""Names of the terminals of shape.lark for users."""


def _property(
    name: str, read: Callable[[str], Any]
) -> Callable[[object, str, str], tuple[str, Any]]:
    """Return the rule of a layout property with one value."""
    return lambda _self, _key, value: (name, read(value))


class _ShapeRules:
    """Rules of shape.lark to objects of the model."""

    def shape_array(self, element_type: str, dimensions: _Sizes, layout: _Placed) -> Shape:
        """Return an array; raises MisplacedError if its layout is not of its dimensions."""
        return Shape(
            element_type=str(element_type),
            dimensions=tuple(size for size, _ in dimensions),
            dynamic_dimensions=tuple(dynamic for _, dynamic in dimensions),
            layout=_checked_layout(layout, len(dimensions)),
        )

    def shape_tuple(self, *shapes: Shape | None) -> Shape:
        return Shape.tuple_of(present(shapes))

    def shape_buffer(self, _: str, shape: Shape) -> Shape:
        return replace(shape, is_buffer=True)

    def shape_dimensions(self, *sizes: tuple[int | None, bool] | None) -> _Sizes:
        return present(sizes)

    def shape_size(self, size: str) -> tuple[int | None, bool]:
        return whole_number(size), False

    def shape_bound(self, _: str, size: str) -> tuple[int | None, bool]:
        return whole_number(size), True

    def shape_unknown(self, _: str) -> tuple[int | None, bool]:
        return None, True

    def layout(
        self, brace: str, order: tuple[int, ...], properties: dict[str, Any] | None
    ) -> _Placed:
        return brace, Layout(minor_to_major=order, **(properties or {}))

    def layout_order(self, *dimensions: str | None) -> tuple[int, ...]:
        return tuple(map(whole_number, present(dimensions)))

    def layout_properties(self, *properties: tuple[str, Any]) -> dict[str, Any]:
        """Return field names and values of a Layout; of a repeated property, the first."""
        found = dict(reversed(properties))
        others = tuple(value for name, value in properties if name == "other_properties")
        if others:
            found["other_properties"] = others
        return found

    def layout_levels(self, _: str, *levels: str) -> tuple[str, Any]:
        return "dim_level_types", tuple(map(str, levels))

    layout_tail_padding = _property("tail_padding_alignment_in_elements", whole_number)
    layout_index_type = _property("index_primitive_type", str)
    layout_pointer_type = _property("pointer_primitive_type", str)
    layout_element_size = _property("element_size_in_bits", whole_number)
    layout_memory_space = _property("memory_space", whole_number)
    layout_metadata_prefix = _property("dynamic_shape_metadata_prefix_bytes", whole_number)

    def layout_tiles(self, _: str, *tiles: Tile) -> tuple[str, Any]:
        return "tiles", tiles

    def layout_tile(self, *sizes: str | None) -> Tile:
        found = present(sizes)
        return Tile(dimensions=tuple(None if s == "*" else whole_number(s) for s in found))

    def layout_splits(self, _: str, *splits: SplitConfig) -> tuple[str, Any]:
        return "split_configs", splits

    def layout_split(self, dimension: str, *indices: str) -> SplitConfig:
        numbers = tuple(map(whole_number, indices))
        return SplitConfig(dimension=whole_number(dimension), split_indices=numbers)

    def layout_physical_shape(self, key: str, shape: Shape) -> tuple[str, Any]:
        """Return ``P(shape)``; raises MisplacedError if that has a physical shape, too."""
        if shape.layout is not None and shape.layout.physical_shape is not None:
            raise MisplacedError.at_token(key, "a physical shape cannot have a physical shape")
        return "physical_shape", shape

    def layout_other(self, text: str) -> tuple[str, Any]:
        return "other_properties", str(text)


_Sizes = list[tuple[int | None, bool]]
_Placed = tuple[str, Layout] | None


def _checked_layout(placed: _Placed, rank: int) -> Layout | None:
    """Return the layout of an array, None for the default; raises MisplacedError if it is wrong."""
    if placed is None:
        return None
    brace, layout = placed
    order = layout.minor_to_major
    if len(order) != rank:
        raise MisplacedError.at_token(
            brace, f"expected a layout of {rank} dimensions, found one of {len(order)}"
        )
    if sorted(order) != list(range(rank)):
        raise MisplacedError.at_token(
            brace, f"expected a layout that names each of 0 to {rank - 1} once"
        )
    return None if layout == Layout() else layout


SHAPES = SmallLanguage("shape", "hlo_tokens", "shape", results=_ShapeRules(), names=SHAPE_NAMES)

_PARENTHESIS = re.compile(r"([\w#*)]?)\(|\)")


def _check_nesting(source: Source) -> None:
    """Raise DumpSyntaxError if tuples are nested too deep."""
    opened: list[bool] = []
    depth = 0
    for match in _PARENTHESIS.finditer(source.text):
        if match[0] == ")":
            depth -= opened.pop() if opened else 0
            continue
        opened.append(not match[1])
        depth += not match[1]
        if depth > MAX_NESTING:
            raise DumpSyntaxError.at(
                source,
                Span(match.end() - 1, match.end()),
                f"tuples are nested deeper than {MAX_NESTING}",
            )
