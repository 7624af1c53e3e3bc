"""Parts of buffer-side lines: shapes, items of allocations, lists of used values."""

from __future__ import annotations

import re

from hlo_lens.model.buffers.columns import (
    ALLOCATION_STRIDE,
    COLOR,
    FLAGS,
    NUMBER,
    OUTPUT_SHAPE,
    PAGE,
    PARAMETER,
    PARAMETER_SHAPE,
    SHAPE_INDEX,
    SIZE,
    parse_index,
)
from hlo_lens.model.buffers.values import HloPosition, HloUse
from hlo_lens.syntax.buffers import patterns
from hlo_lens.syntax.buffers.assignment_grammar import FLAG_BITS, ReadAllocation
from hlo_lens.syntax.hlo.patterns import LINE
from hlo_lens.syntax.shapes.shape import parse_shape
from hlo_lens.text.errors import DumpSyntaxError

_JUDGED = 1 << 20
"""Longest shape, in characters, that is parsed; of longer ones only the brackets are checked."""

_REMEMBERED = 1 << 16
"""Longest shape, in characters, in the cache, except for the last one."""

_MOST_WRONG = 256
"""Most malformed shapes in the cache."""

_BALANCED = re.compile(LINE.shape)

_ITEM_COLUMNS = ((1, COLOR), (2, PAGE), (3, PARAMETER))
_ITEM_SPANS = ((4, SHAPE_INDEX), (5, PARAMETER_SHAPE), (6, SHAPE_INDEX), (7, OUTPUT_SHAPE))


class ListReader:
    """Reads the lists of used values; implements `hlo_lens.model.buffers.values.BufferReader`."""

    def positions(self, text: str) -> tuple[HloPosition, ...]:
        """Return the positions that lines of a value print."""
        return tuple(
            HloPosition(instruction_name=m[1], index=parse_index(m[2] or ""))
            for m in patterns.POSITION.finditer(text)
        )

    def uses(self, text: str) -> tuple[HloUse, ...]:
        """Return the uses that lines of a value print."""
        return tuple(
            HloUse(
                instruction_name=m[1],
                operand_number=int(m[2]),
                operand_index=parse_index(m[3] or ""),
            )
            for m in patterns.USE.finditer(text)
        )


class ShapeCheck:
    """Checks shapes, each distinct text once.

    Attributes:
        right: Texts of correct shapes.
    """

    def __init__(self) -> None:
        self.right: set[str] = set()
        self._wrong: dict[str, DumpSyntaxError] = {}
        self._long = ""

    def problem(self, text: str) -> DumpSyntaxError | None:
        """Return the error of a malformed shape, with its place in the text, or None."""
        if text in self.right or text == self._long:
            return None
        if text in self._wrong:
            return self._wrong[text]
        try:
            if len(text) <= _JUDGED:
                parse_shape(text)
            elif _BALANCED.fullmatch(text) is None:
                return DumpSyntaxError("expected a shape")
        except DumpSyntaxError as error:
            if len(text) <= _REMEMBERED and len(self._wrong) < _MOST_WRONG:
                self._wrong[text] = error
            return error
        if len(text) > _REMEMBERED:
            self._long = text
        else:
            self.right.add(text)
        return None


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
