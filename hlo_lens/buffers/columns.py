"""Columns of allocations and values: places of their parts in the text, one row for each."""

from __future__ import annotations

import functools
import re
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.shapes.shape import ShapeIndex
    from hlo_lens.text.source import Source

NUMBER, SIZE, WORDS, WORDS_END, FIRST_VALUE = range(5)
"""Columns of an allocation: offsets in the text, row of its first value."""
ALLOCATION_STRIDE = 5

ID, NAME, NAME_END, INDEX_END = range(4)
"""First columns of every value. ``(phi)`` and the colour are between INDEX_END and the next."""
VALUE_SIZE, VALUE_OFFSET, VALUE_SHAPE, VALUE_END = range(4, 8)
"""Further columns of an assigned value."""
ASSIGNED_STRIDE = 8

POSITIONS, POSITIONS_END, USES, USES_END, FROM, FROM_END = range(4, 10)
"""Further columns of a used value; uses unknown to XLA and a missing instruction are at -1."""
USED_STRIDE = 10

REUSED_COLOR = 4
REUSED_STRIDE = 5
"""Columns of a value of another memory space: the first ones, then its allocation's colour."""

LARGEST_OFFSET = (1 << 31) - 1
"""Longest text whose offsets fit into 32 bits."""

NUMBER_PATTERN = re.compile(r"-?\d+")


@functools.lru_cache(maxsize=4096)
def parse_index(text: str) -> ShapeIndex:
    """Return the index that ``{1,0}`` prints, outermost first; () for ``{}`` and for no text."""
    return tuple(map(int, NUMBER_PATTERN.findall(text)))


@dataclass(slots=True, eq=False)
class BufferColumns:
    """Rows of places in a text, of `stride` columns each."""

    source: Source
    stride: int
    cells: array[int] = field(default_factory=lambda: array("i"))

    def __post_init__(self) -> None:
        if len(self.source.text) > LARGEST_OFFSET:
            self.cells = array("q", self.cells)

    def __len__(self) -> int:
        return len(self.cells) // self.stride

    def cell(self, row: int, column: int) -> int:
        """Return one place."""
        return self.cells[row * self.stride + column]

    def text(self, row: int, first: int, last: int) -> str:
        """Return the text between two columns of a row."""
        base = row * self.stride
        return self.source.text[self.cells[base + first] : self.cells[base + last]]

    def number(self, row: int, column: int) -> int | None:
        """Return the number at a place; None if there is no place."""
        place = self.cells[row * self.stride + column]
        match = NUMBER_PATTERN.match(self.source.text, place) if place > 0 else None
        return None if match is None else int(match[0])

    def line(self, row: int, column: int) -> int:
        """Return the 1-based line of a place."""
        return self.source.line_column(self.cell(row, column))[0]
