"""HloValue: a value that an instruction defines, its positions and its uses.

Values are light views over columns of places in the text. Sizes and offsets are bytes. Source of
the names: xla/service/hlo_value.h.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from hlo_lens.buffers import columns as at
from hlo_lens.buffers.printed_lists import value_positions, value_uses
from hlo_lens.hlo.text_reader import reader
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from hlo_lens.buffers.columns import BufferColumns
    from hlo_lens.buffers.printed_lists import HloPosition, HloUse
    from hlo_lens.shapes.shape import Shape, ShapeIndex
    from hlo_lens.text.errors import Gap


class _Value:
    """Common part of all views of a value: ``<25 fusion.5{0} (phi) @1>``."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: BufferColumns, row: int) -> None:
        self._columns = columns
        self._row = row

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.name}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self.id)

    def _content(self) -> tuple[object, ...]:
        return (self.id, self.instruction_name, self.index_text, self.is_phi, self.color)

    @property
    def id(self) -> int:
        """Number of the HloValue, unique in the module."""
        return self._columns.number(self._row, at.ID) or 0

    @property
    def instruction_name(self) -> str:
        """Name of the instruction that defines it, without ``%``."""
        return self._columns.text(self._row, at.NAME, at.NAME_END)

    @property
    def index_text(self) -> str:
        """Index as printed: ``{0}``; empty if the instruction's shape is no tuple."""
        return self._columns.text(self._row, at.NAME_END, at.INDEX_END).strip()

    @property
    def index(self) -> ShapeIndex:
        """Index into the shape of the instruction; () also if that is no tuple."""
        return at.parse_index(self.index_text)

    @property
    def name(self) -> str:
        """Instruction and index as in live ranges, always with braces: ``add.2{}``."""
        return self.instruction_name + (self.index_text or "{}")

    @property
    def is_phi(self) -> bool:
        """Whether it is a phi: the join of values of a loop or of branches."""
        return "(phi)" in self._columns.text(self._row, at.INDEX_END, at.INDEX_END + 1)

    @property
    def color(self) -> int | None:
        """Memory space; None if it is not printed."""
        _, _, tail = self._columns.text(self._row, at.INDEX_END, at.INDEX_END + 1).partition("@")
        return at.parse_index(tail)[0] if tail else None

    @property
    def line(self) -> int:
        """1-based line in the file."""
        return self._columns.line(self._row, at.ID)


class AssignedValue(_Value):
    """A value in an allocation, with its bytes."""

    __slots__ = ()

    def _content(self) -> tuple[object, ...]:
        return (*super()._content(), self.size, self.offset, self.shape_text)

    @property
    def size(self) -> int:
        """Bytes of the value, padding of tiles included."""
        return self._columns.number(self._row, at.VALUE_SIZE) or 0

    @property
    def offset(self) -> int:
        """Offset in the allocation, in bytes."""
        return self._columns.number(self._row, at.VALUE_OFFSET) or 0

    @property
    def shape_text(self) -> str:
        """Shape with layout, as printed."""
        return self._columns.text(self._row, at.VALUE_SHAPE, at.VALUE_END)

    @property
    def shape(self) -> Shape:
        """Shape with layout."""
        return reader().shape(self.shape_text)

    def facts(self) -> tuple[str, str, int, int, str]:
        """Return instruction name, index as printed, offset, size and shape text, all at once."""
        columns = self._columns
        text, cells, base = columns.source.text, columns.cells, self._row * columns.stride
        name_end = cells[base + at.NAME_END]
        size, offset = cells[base + at.VALUE_SIZE], cells[base + at.VALUE_OFFSET]
        size_match = at.NUMBER_PATTERN.match(text, size) if size > 0 else None
        offset_match = at.NUMBER_PATTERN.match(text, offset) if offset > 0 else None
        return (
            text[cells[base + at.NAME] : name_end],
            text[name_end : cells[base + at.INDEX_END]].strip(),
            0 if offset_match is None else int(offset_match[0]),
            0 if size_match is None else int(size_match[0]),
            text[cells[base + at.VALUE_SHAPE] : cells[base + at.VALUE_END]],
        )


class ReusedValue(_Value):
    """A value of another memory space in the bytes of this allocation."""

    __slots__ = ()

    def _content(self) -> tuple[object, ...]:
        return (*super()._content(), self.allocation_color)

    @property
    def allocation_color(self) -> int:
        """The colour printed after the value."""
        return self._columns.number(self._row, at.REUSED_COLOR) or 0


class HloValue(_Value):
    """A value with its positions and uses.

    Args:
        values: Its block.
        row: Its row in the block's columns.
    """

    __slots__ = ("_values",)

    def __init__(self, values: BufferValues, row: int) -> None:
        super().__init__(values.columns, row)
        self._values = values

    def _content(self) -> tuple[object, ...]:
        return (*super()._content(), self.positions, self.uses, self.instruction_text)

    @property
    def positions(self) -> tuple[HloPosition, ...]:
        """Positions of the value; the first one defines it."""
        return value_positions(self._columns.text(self._row, at.POSITIONS, at.POSITIONS_END))

    @property
    def uses(self) -> tuple[HloUse, ...] | None:
        """Uses of the value; None if unknown to XLA (``uses are not initialized yet``)."""
        if self._columns.cell(self._row, at.USES) < 0:
            return None
        return value_uses(self._columns.text(self._row, at.USES, at.USES_END))

    @property
    def instruction_text(self) -> str:
        """The defining instruction as XLA prints it in long style, tuple accesses written out."""
        if self._columns.cell(self._row, at.FROM) < 0:
            return ""
        return self._columns.text(self._row, at.FROM, at.FROM_END).strip()


@dataclass(eq=False)
class BufferValues(Sequence[HloValue]):
    """The used values of an assignment, printed after it or in a file of their own.

    A sequence of HloValue in the order of the text, which is by id.

    Attributes:
        columns: Places of the parts of the values.
        total_bytes: Printed sum of the sizes of all allocations of all memory spaces; or None.
        total_text: The same, rounded, as printed: ``30.2KiB``.
        gaps: Parts that could not be read, in text order.
        is_complete: Whether no part is known to be missing.
        start: Offset in the text where it begins.
    """

    columns: BufferColumns = field(repr=False)
    total_bytes: int | None = None
    total_text: str | None = None
    gaps: tuple[Gap, ...] = field(default=(), repr=False)
    is_complete: bool = True
    start: int = 0

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, index: int) -> HloValue: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[HloValue]: ...
    def __getitem__(self, index: int | slice) -> HloValue | Sequence[HloValue]:
        return Rows(functools.partial(HloValue, self), range(len(self)))[index]

    def __iter__(self) -> Iterator[HloValue]:
        return (HloValue(self, row) for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BufferValues):
            return NotImplemented
        return (
            self.total_bytes == other.total_bytes
            and self.total_text == other.total_text
            and self[:] == other[:]
        )

    __hash__ = object.__hash__
