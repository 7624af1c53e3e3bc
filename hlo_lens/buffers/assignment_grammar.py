"""Lines of buffer assignments and used values by the grammar.

The results are places in the text, in the form of the scanner.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from lark import Lark, Token, Tree

from hlo_lens.buffers import patterns
from hlo_lens.buffers.columns import (
    ALLOCATION_STRIDE,
    COLOR,
    FLAGS,
    IS_CONSTANT,
    IS_PREALLOCATED_TEMP,
    IS_THREAD_LOCAL,
    MAYBE_LIVE_OUT,
    NUMBER,
    OUTPUT_SHAPE,
    PAGE,
    PARAMETER,
    PARAMETER_SHAPE,
    SHAPE_INDEX,
    SIZE,
)
from hlo_lens.buffers.lines import NAMES as LINE_NAMES, Node, find_all, optional_token
from hlo_lens.buffers.values import HloPosition, HloUse
from hlo_lens.grammar.parsers import build_parser
from hlo_lens.shapes.shape_grammar import SHAPE_NAMES

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from hlo_lens.shapes.shape import ShapeIndex

GRAMMARS = ("hlo_tokens", "shape", "buffer_tokens", "buffer_assignment", "buffer_values")

NAMES: Mapping[str, str] = {
    **LINE_NAMES,
    **SHAPE_NAMES,
    "BUFFER_ASSIGNMENT": "'BufferAssignment:'",
    "ALLOCATION": "'allocation'",
    "VALUE": "'value:'",
    "SIZE": "'size'",
    "OFFSET": "'offset'",
    "COLOR": "'color'",
    "PAGE": "'page'",
    "PARAMETER": "'parameter'",
    "PARAMETER_SHAPE": "'shape |'",
    "OUTPUT_SHAPE": "'output shape is |'",
    "AT_SHAPE_INDEX": "'at ShapeIndex'",
    "UNKNOWN_SHAPE": "'<unknown shape>'",
    "REUSED_COLOR": "'color'",
    "POINTER": "a pointer",
    "FLAG": "a word",
    "TOTAL": "'Total bytes used:'",
    "USED_VALUES": "'Used values:'",
    "POSITIONS": "'positions:'",
    "USES": "'uses:'",
    "UNINITIALIZED": "'uses are not initialized yet.'",
    "NONE": "'(none)'",
    "OPERAND": "'operand'",
    "FROM": "'from instruction:'",
}
"""Names of the terminals for users."""

UNKNOWN_SHAPE = "<unknown shape>"
FROM_INSTRUCTION = "from instruction:"

_SIZES = ("NATURAL", "HUMAN_SIZE")

FLAG_BITS = {
    "constant": IS_CONSTANT,
    "thread-local": IS_THREAD_LOCAL,
    "maybe-live-out": MAYBE_LIVE_OUT,
    "preallocated-temp": IS_PREALLOCATED_TEMP,
}


@functools.cache
def parser() -> Lark:
    """Return the parser of buffer assignments, used values and their lines."""
    return build_parser(
        *GRAMMARS,
        start=[
            "buffer_assignment",
            "buffer_values",
            "allocation_line",
            "assigned_value",
            "reused_value",
            "used_value",
            "total",
        ],
        has_positions=True,
    )


@dataclass(slots=True)
class ReadAllocation:
    """An allocation line: its cells, except that of the first value, and its unknown words."""

    cells: list[int]
    other: tuple[str, ...]


@dataclass(slots=True)
class ReadUsedValue:
    """A used value: its cells, its positions and its uses."""

    cells: tuple[int, ...]
    positions: tuple[HloPosition, ...]
    uses: tuple[HloUse, ...] | None


class Places:
    """Converts trees of the grammar to places in the text.

    Args:
        offset: Offset in the source of the part that was parsed.
    """

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def start(self, node: object) -> int:
        """Return the start of a token or a rule in the source."""
        if isinstance(node, Token):
            return self._offset + (node.start_pos or 0)
        return self._offset + cast("Node", node).meta.start_pos

    def end(self, node: object) -> int:
        """Return the end of a token or a rule in the source."""
        if isinstance(node, Token):
            return self._offset + (node.end_pos or 0)
        return self._offset + cast("Node", node).meta.end_pos

    def value_id(self, node: Node) -> tuple[int, int, int, int]:
        """Return the first cells of a value."""
        number, name, index, _, _ = node.children
        name_end = self.end(name)
        index_end = self.end(index) if isinstance(index, Tree) else name_end
        return self.start(number), self.start(name), name_end, index_end

    def allocation(self, node: Node) -> ReadAllocation:
        """Return an allocation line; of a repeated item, the first counts."""
        cells = [0] * ALLOCATION_STRIDE
        numbers = [c for c in node.children if isinstance(c, Token) and c.type in _SIZES]
        cells[NUMBER], cells[SIZE] = (self.start(token) for token in numbers)
        other: list[str] = []
        for item in node.children:
            if isinstance(item, Tree):
                self._item(item, cells, other)
        return ReadAllocation(cells, tuple(other))

    def _item(self, item: Node, cells: list[int], other: list[str]) -> None:
        kind, children = str(item.data), item.children
        if kind == "other":
            other.append(str(children[0]).rstrip())
        elif kind == "flag":
            cells[FLAGS] |= FLAG_BITS[str(children[0])]
        elif kind in ("color", "page"):
            column = COLOR if kind == "color" else PAGE
            cells[column] = cells[column] or self.start(children[1])
        elif kind == "parameter":
            cells[PARAMETER] = cells[PARAMETER] or self.start(children[1])
            self._span(cells, SHAPE_INDEX, children[-1])
        elif kind == "parameter_shape":
            self._span(cells, PARAMETER_SHAPE, children[1])
            self._span(cells, SHAPE_INDEX, children[-1])
        else:
            self._span(cells, OUTPUT_SHAPE, children[1])

    def _span(self, cells: list[int], column: int, node: object) -> None:
        if node is not None and not cells[column]:
            cells[column], cells[column + 1] = self.start(node), self.end(node)

    def assigned_value(self, node: Node) -> tuple[int, ...]:
        """Return the cells of a value in an allocation."""
        numbers = [c for c in node.children if isinstance(c, Token) and c.type == "NATURAL"]
        size, offset = (self.start(token) for token in numbers)
        shape = node.children[-1]
        first = self.value_id(next(find_all(node, "value_id")))
        return (*first, size, offset, self.start(shape), self.end(shape))

    def reused_value(self, node: Node) -> tuple[int, ...]:
        """Return the cells of a value of another colour."""
        color = self.start(optional_token(node, "NATURAL"))
        return (*self.value_id(next(find_all(node, "value_id"))), color)

    def used_value(self, node: Node) -> ReadUsedValue:
        """Return a used value."""
        first = self.value_id(next(find_all(node, "value_id")))
        positions = next(find_all(node, "positions"))
        uses = next(find_all(node, "uses"))
        origin = cast("Token", optional_token(node, "FROM"))
        origin_start = self.start(origin) + len(FROM_INSTRUCTION)
        known = optional_token(uses, "UNINITIALIZED") is None
        return ReadUsedValue(
            cells=(
                *first,
                *self._list(positions),
                *(self._list(uses) if known else (-1, -1)),
                *(origin_start, self.end(origin)),
            ),
            positions=tuple(_position(p) for p in find_all(positions, "position")),
            uses=tuple(_use(u) for u in find_all(uses, "use")) if known else None,
        )

    def _list(self, node: Node) -> tuple[int, int]:
        """Return start and end of a list; 0 and 0 for an empty one."""
        if node.meta.empty:
            return 0, 0
        return self.start(node), self.end(node)


def _position(node: Node) -> HloPosition:
    name, index = node.children
    return HloPosition(instruction_name=str(name), index=_index(index))


def _use(node: Node) -> HloUse:
    name, _, number, index = node.children
    return HloUse(
        instruction_name=str(name), operand_number=int(str(number)), operand_index=_index(index)
    )


def _index(node: object) -> ShapeIndex:
    """Return an index; empty if it is absent."""
    if node is None:
        return ()
    numbers = (c for c in cast("Node", node).children if isinstance(c, Token))
    return tuple(int(number) for number in numbers)


_ITEM_COLUMNS = ((1, COLOR), (2, PAGE), (3, PARAMETER))
_ITEM_SPANS = ((4, SHAPE_INDEX), (5, PARAMETER_SHAPE), (6, SHAPE_INDEX), (7, OUTPUT_SHAPE))


def read_items(text: str, match: re.Match[str]) -> ReadAllocation | None:
    """Return an allocation line with any items; None where only the grammar can decide.

    Args:
        text: The whole text.
        match: Match of a pattern whose groups are number, size, and items with a leading comma.
    """
    cells = [0] * ALLOCATION_STRIDE
    cells[NUMBER], cells[SIZE] = match.start(1), match.start(2)
    other: list[str] = []
    for item in patterns.ITEM.finditer(text, *match.span(3)):
        known = patterns.KNOWN_ITEM.fullmatch(text, *item.span(1))
        if known is not None:
            _note_item(known, cells)
        elif patterns.ITEM_OF_GRAMMAR.match(item[1]):
            return None
        else:
            other.append(item[1].rstrip())
    return ReadAllocation(cells, tuple(other))


def _note_item(match: re.Match[str], cells: list[int]) -> None:
    """Note the places of an item of an allocation line; of a repeated one, the first counts."""
    for group, column in _ITEM_COLUMNS:
        if match.start(group) >= 0:
            cells[column] = cells[column] or match.start(group)
    for group, column in _ITEM_SPANS:
        if match.start(group) >= 0 and not cells[column]:
            cells[column : column + 2] = match.span(group)
    cells[FLAGS] |= FLAG_BITS.get(match[0], 0)
