"""Columns of instructions: where the parts of each stand in the text, one row per instruction."""

from __future__ import annotations

import bisect
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.model.hlo_reader import HloOperand
    from hlo_lens.text.source import Source

NAME, NAME_END, SHAPE, SHAPE_END, OPCODE, OPCODE_END, OPERANDS, OPERANDS_END, END = range(9)
"""Columns of one row. Attributes: from OPERANDS_END + 1 to END. No shape: SHAPE == SHAPE_END."""
STRIDE = 9


@dataclass(slots=True)
class Overlay:
    """What is known of one row beside its spans, because the text does not print it plainly.

    Attributes:
        name: Generated name of an instruction that the text nests in an operand list.
        operands: Operands with such names in place.
        attributes: Attribute list that the splitter cannot cut (nested deeper than it follows).
        called: Names of computations whose bodies the text prints in place.
    """

    name: str | None = None
    operands: tuple[HloOperand, ...] | None = None
    attributes: tuple[tuple[str, str], ...] | None = None
    called: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class InstructionColumns:
    """Where the parts of every instruction stand in the text; one row per instruction.

    Attributes:
        source: The text.
        spans: `STRIDE` offsets for each row.
        roots: Rows that are marked ROOT, ascending.
        overlays: What is known of single rows beside their spans.
    """

    source: Source
    spans: array[int] = field(default_factory=lambda: array("I"))
    roots: array[int] = field(default_factory=lambda: array("I"))
    overlays: dict[int, Overlay] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.spans) // STRIDE

    def column(self, column: int) -> memoryview[int]:
        """Return one column of all rows, without a copy; no row can be added while it is held."""
        return memoryview(self.spans)[column::STRIDE]

    def texts(self, first: int, last: int) -> Iterator[str]:
        """Yield the text between two columns of each row."""
        places = map(slice, self.column(first), self.column(last))
        return map(self.source.text.__getitem__, places)

    def text(self, row: int, first: int, last: int) -> str:
        """Return the text between two columns of a row."""
        base = row * STRIDE
        return self.source.text[self.spans[base + first] : self.spans[base + last]]

    def name(self, row: int) -> str:
        """Return the name of a row's instruction, without ``%``."""
        overlay = self.overlays.get(row)
        if overlay is not None and overlay.name is not None:
            return overlay.name
        return self.text(row, NAME, NAME_END)

    def root_among(self, rows: Sequence[int], default: int) -> int:
        """Return the last of some ascending rows that is marked ROOT, or a default."""
        place = bisect.bisect_right(self.roots, default)
        while place and self.roots[place - 1] >= rows[0]:
            place -= 1
            root = self.roots[place]
            if rows[bisect.bisect_left(rows, root)] == root:
                return root
        return default

    def attributes_text(self, row: int) -> str:
        """Return all that stands after the operand list, with its leading comma."""
        base = row * STRIDE
        return self.source.text[self.spans[base + OPERANDS_END] + 1 : self.spans[base + END]]
