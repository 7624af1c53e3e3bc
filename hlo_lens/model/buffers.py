"""BufferAssignment: the allocations of a module, and the values that lie in them.

Allocations and values are light views over columns: where their parts stand in the text. Sizes and
offsets are bytes. Source of the names: xla/service/buffer_assignment.h, hlo_value.h.
"""

from __future__ import annotations

import functools
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, overload

from hlo_lens.model.reader import reader
from hlo_lens.model.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.model.shape import Shape, ShapeIndex
    from hlo_lens.text.errors import Gap
    from hlo_lens.text.source import Source

(
    NUMBER,
    SIZE,
    COLOR,
    PAGE,
    PARAMETER,
    PARAMETER_SHAPE,
    PARAMETER_SHAPE_END,
    SHAPE_INDEX,
    SHAPE_INDEX_END,
    OUTPUT_SHAPE,
    OUTPUT_SHAPE_END,
    FLAGS,
    FIRST_VALUE,
) = range(13)
"""Columns of an allocation: offsets in the text, none of them positive for what is not printed;
flags; row of its first value."""
ALLOCATION_STRIDE = 13

IS_CONSTANT, IS_THREAD_LOCAL, MAYBE_LIVE_OUT, IS_PREALLOCATED_TEMP = 1, 2, 4, 8
"""Bits of FLAGS."""

ID, NAME, NAME_END, INDEX_END = range(4)
"""First columns of every value. Between INDEX_END and the next stand ``(phi)`` and the colour."""
VALUE_SIZE, VALUE_OFFSET, VALUE_SHAPE, VALUE_END = range(4, 8)
"""Further columns of an assigned value."""
ASSIGNED_STRIDE = 8

POSITIONS, POSITIONS_END, USES, USES_END, FROM, FROM_END = range(4, 10)
"""Further columns of a used value; uses that XLA did not know are at -1."""
USED_STRIDE = 10

REUSED_COLOR = 4
REUSED_STRIDE = 5
"""A value of another colour has its allocation's colour after the first columns."""

LARGEST_OFFSET = (1 << 31) - 1
"""Longest text whose offsets fit into 32 bits."""

_NUMBER = re.compile(r"-?\d+")


@functools.lru_cache(maxsize=4096)
def parse_index(text: str) -> ShapeIndex:
    """Return the index that ``{1,0}`` prints, outermost first; () for ``{}`` and for no text."""
    return tuple(map(int, _NUMBER.findall(text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HloPosition:
    """A place where a value is: an instruction's result, or a part of it.

    Attributes:
        instruction_name: Without ``%``.
        index: Index into its shape; () also where its shape is no tuple.
    """

    instruction_name: str
    index: ShapeIndex = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HloUse:
    """A use of a value by an instruction.

    Attributes:
        instruction_name: Who uses it, without ``%``.
        operand_number: Which of its operands, from 0.
        operand_index: Index into that operand's shape; () also where that is no tuple.
    """

    instruction_name: str
    operand_number: int
    operand_index: ShapeIndex = ()


class BufferReader(Protocol):
    """What the model asks of syntax: the meaning of the lists of a used value."""

    def positions(self, text: str) -> tuple[HloPosition, ...]:
        """Return the positions that the lines after ``positions:`` print."""
        ...

    def uses(self, text: str) -> tuple[HloUse, ...]:
        """Return the uses that the lines after ``uses:`` print; ``(none)`` is none."""
        ...


@dataclass(slots=True, eq=False)
class BufferColumns:
    """Rows of places in a text: `stride` columns each, one after the other."""

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
        """Return the number that stands at a place; None where the place is none."""
        place = self.cells[row * self.stride + column]
        match = _NUMBER.match(self.source.text, place) if place > 0 else None
        return None if match is None else int(match[0])

    def line(self, row: int, column: int) -> int:
        """Return the 1-based line of the file where a place is."""
        return self.source.line_column(self.cell(row, column))[0]


class _Value:
    """What all views of a value say: ``<25 fusion.5{0} (phi) @1>``."""

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
        return self._columns.number(self._row, ID) or 0

    @property
    def instruction_name(self) -> str:
        """Name of the instruction that defines it, without ``%``."""
        return self._columns.text(self._row, NAME, NAME_END)

    @property
    def index_text(self) -> str:
        """Index as printed: ``{0}``; empty where the instruction's shape is no tuple."""
        return self._columns.text(self._row, NAME_END, INDEX_END).strip()

    @property
    def index(self) -> ShapeIndex:
        """Index into the shape of the instruction; () also where that is no tuple."""
        return parse_index(self.index_text)

    @property
    def name(self) -> str:
        """Instruction and index as live ranges print them, braces always there: ``add.2{}``."""
        return self.instruction_name + (self.index_text or "{}")

    @property
    def is_phi(self) -> bool:
        """Whether it is what comes out where loops or branches join."""
        return "(phi)" in self._columns.text(self._row, INDEX_END, INDEX_END + 1)

    @property
    def color(self) -> int | None:
        """Memory space; None where the text does not say."""
        _, _, tail = self._columns.text(self._row, INDEX_END, INDEX_END + 1).partition("@")
        return parse_index(tail)[0] if tail else None

    @property
    def line(self) -> int:
        """1-based line of the file where it stands."""
        return self._columns.line(self._row, ID)


class AssignedValue(_Value):
    """A value in an allocation: which bytes of it are the value's."""

    __slots__ = ()

    def _content(self) -> tuple[object, ...]:
        return (*super()._content(), self.size, self.offset, self.shape_text)

    @property
    def size(self) -> int:
        """Bytes that it occupies, padding of tiles included."""
        return self._columns.number(self._row, VALUE_SIZE) or 0

    @property
    def offset(self) -> int:
        """Where in the allocation it begins, in bytes."""
        return self._columns.number(self._row, VALUE_OFFSET) or 0

    @property
    def shape_text(self) -> str:
        """Shape with layout, as printed."""
        return self._columns.text(self._row, VALUE_SHAPE, VALUE_END)

    @property
    def shape(self) -> Shape:
        """Shape with layout."""
        return reader().shape(self.shape_text)

    def facts(self) -> tuple[str, str, int, int, str]:
        """Return instruction name, index as printed, offset, size and shape text, all at once."""
        columns = self._columns
        text, cells, base = columns.source.text, columns.cells, self._row * columns.stride
        name_end = cells[base + NAME_END]
        size, offset = cells[base + VALUE_SIZE], cells[base + VALUE_OFFSET]
        size_match = _NUMBER.match(text, size) if size > 0 else None
        offset_match = _NUMBER.match(text, offset) if offset > 0 else None
        return (
            text[cells[base + NAME] : name_end],
            text[name_end : cells[base + INDEX_END]].strip(),
            0 if offset_match is None else int(offset_match[0]),
            0 if size_match is None else int(size_match[0]),
            text[cells[base + VALUE_SHAPE] : cells[base + VALUE_END]],
        )


class ReusedValue(_Value):
    """A value of another memory space that uses the bytes of this allocation."""

    __slots__ = ()

    def _content(self) -> tuple[object, ...]:
        return (*super()._content(), self.allocation_color)

    @property
    def allocation_color(self) -> int:
        """The colour that the line prints after the value."""
        return self._columns.number(self._row, REUSED_COLOR) or 0


class HloValue(_Value):
    """A value, with where it stands and who uses it.

    Args:
        values: The block that holds it.
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
        """Where the value is; the first is where it is defined."""
        lists = self._values.lists.get(self._row)
        if lists is not None:
            return lists[0]
        return self._values.reader.positions(
            self._columns.text(self._row, POSITIONS, POSITIONS_END)
        )

    @property
    def uses(self) -> tuple[HloUse, ...] | None:
        """Who uses it; None where XLA did not know (``uses are not initialized yet``)."""
        lists = self._values.lists.get(self._row)
        if lists is not None:
            return lists[1]
        if self._columns.cell(self._row, USES) < 0:
            return None
        return self._values.reader.uses(self._columns.text(self._row, USES, USES_END))

    @property
    def instruction_text(self) -> str:
        """The defining instruction as XLA prints it in long style, tuple accesses written out."""
        return self._columns.text(self._row, FROM, FROM_END).strip()


class BufferAllocation:
    """One contiguous piece of memory. Equal when it says the same.

    Args:
        assignment: What it belongs to.
        row: Its row in the columns.
    """

    __slots__ = ("_assignment", "_row")

    def __init__(self, assignment: BufferAssignment, row: int) -> None:
        self._assignment = assignment
        self._row = row

    def __repr__(self) -> str:
        return f"<BufferAllocation {self.index}: size {self.size}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BufferAllocation):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash((self.index, self.size))

    def _content(self) -> tuple[object, ...]:
        return (
            *(self.index, self.size, self.color, self.page_id),
            *(self.parameter_number, self.param_shape_index, self.parameter_shape_text),
            *(self.output_shape_text, self._flags, self.other),
            *(self.values, self.reused),
        )

    @property
    def _columns(self) -> BufferColumns:
        return self._assignment.columns

    def _part(self, column: int) -> str | None:
        """Return the text between a column and the next; None where it is not printed."""
        if self._columns.cell(self._row, column) <= 0:
            return None
        return self._columns.text(self._row, column, column + 1)

    @property
    def _flags(self) -> int:
        return self._columns.cell(self._row, FLAGS)

    @property
    def index(self) -> int:
        """Number of the allocation, dense from 0."""
        return self._columns.number(self._row, NUMBER) or 0

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._columns.number(self._row, SIZE) or 0

    @property
    def color(self) -> int:
        """Memory space; 0, the default one, is not printed."""
        return self._columns.number(self._row, COLOR) or 0

    @property
    def page_id(self) -> int | None:
        """Page of the heap that it lies on; None before August 2026."""
        return self._columns.number(self._row, PAGE)

    @property
    def parameter_number(self) -> int | None:
        """Number of the entry parameter that it holds (a part of); None if it holds none."""
        return self._columns.number(self._row, PARAMETER)

    @property
    def param_shape_index(self) -> ShapeIndex | None:
        """Which part of the parameter it holds, () for all of it; None if it holds none."""
        text = self._part(SHAPE_INDEX)
        return None if text is None else parse_index(text)

    @property
    def parameter_shape_text(self) -> str | None:
        """Shape without layout: of the part since August 2025, before of the whole parameter."""
        return self._part(PARAMETER_SHAPE)

    @property
    def output_shape_text(self) -> str | None:
        """Shape of the module's result if its root value lies here (of a tuple only the table)."""
        return self._part(OUTPUT_SHAPE)

    @property
    def is_constant(self) -> bool:
        """Whether it holds a constant of the program."""
        return bool(self._flags & IS_CONSTANT)

    @property
    def is_thread_local(self) -> bool:
        """Whether it is a scalar of a reducer or the like, which no heap holds."""
        return bool(self._flags & IS_THREAD_LOCAL)

    @property
    def maybe_live_out(self) -> bool:
        """Whether it may be part of the module's result."""
        return bool(self._flags & MAYBE_LIVE_OUT)

    @property
    def is_preallocated_temp(self) -> bool:
        """Whether it is none of parameter, result, constant and thread-local."""
        return bool(self._flags & IS_PREALLOCATED_TEMP)

    @property
    def is_entry_computation_parameter(self) -> bool:
        """Whether it holds an entry parameter."""
        return self.parameter_number is not None

    @property
    def is_parameter_aliased_with_output(self) -> bool:
        """Whether a parameter's memory is that of a result (donated).

        XLA does not print it; it is so where an entry parameter may live out, which held for
        every module of the corpus (the ``input_output_alias`` of its header names the same ones).
        """
        return self.is_entry_computation_parameter and self.maybe_live_out

    @property
    def values(self) -> Sequence[AssignedValue]:
        """Values that lie in it, by id. Those of different times may share bytes."""
        return Rows(self._assignment.assigned_value, self._assignment.value_rows(self._row))

    @property
    def reused(self) -> Sequence[ReusedValue]:
        """Values of other memory spaces that use its bytes."""
        rows = self._assignment.reused_rows.get(self._row, ())
        return Rows(self._assignment.reused_value, rows)

    @property
    def other(self) -> tuple[str, ...]:
        """Words of its line that this tool does not know, as printed."""
        return self._assignment.other.get(self._row, ())

    @property
    def line(self) -> int:
        """1-based line of the file where it stands."""
        return self._columns.line(self._row, NUMBER)


@dataclass(eq=False)
class BufferValues(Sequence[HloValue]):
    """The used values of an assignment, as XLA prints them after it or in a file of their own.

    A sequence of HloValue in the order of the text, which is by id.

    Attributes:
        columns: Where the parts of the values stand.
        reader: Reads their lists on demand.
        total_bytes: Sum of the sizes of all allocations, all memory spaces, as printed; or None.
        total_text: The same as printed for people: ``30.2KiB``.
        lists: Positions and uses of the rows that only the grammar could read.
        gaps: What could not be read, in text order.
        is_complete: Whether nothing of it is known to be missing.
        start: Offset in the text where it begins.
    """

    columns: BufferColumns = field(repr=False)
    reader: BufferReader = field(repr=False)
    total_bytes: int | None = None
    total_text: str | None = None
    lists: dict[int, tuple[tuple[HloPosition, ...], tuple[HloUse, ...] | None]] = field(
        default_factory=dict, repr=False
    )
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

    @functools.cached_property
    def _row_by_id(self) -> dict[int, int]:
        return {value.id: row for row, value in enumerate(self)}

    def by_id(self, number: int) -> HloValue | None:
        """Return the value of an id, or None."""
        row = self._row_by_id.get(number)
        return None if row is None else HloValue(self, row)


@dataclass(eq=False)
class BufferAssignment:
    """The memory of a module: allocations, and which bytes of them each value occupies.

    Attributes:
        columns: Where the parts of the allocations stand.
        assigned: Where the parts of the values stand, in the order of their allocations.
        reused_columns: The same of the values of other colours.
        reused_rows: Row of an allocation to the rows of those values.
        other: Row of an allocation to the words of it that are not known.
        values: The used values, where the same text holds them or they were added; or None.
        gaps: What could not be read, in text order, used values of the same text included.
        is_complete: Whether nothing of it is known to be missing: header and last line are
            there, no line of it was refused, sizes sum to the printed total where there is one.
        start: Offset in the text where it begins.
    """

    columns: BufferColumns = field(repr=False)
    assigned: BufferColumns = field(repr=False)
    reused_columns: BufferColumns = field(repr=False)
    reused_rows: dict[int, list[int]] = field(default_factory=dict, repr=False)
    other: dict[int, tuple[str, ...]] = field(default_factory=dict, repr=False)
    values: BufferValues | None = field(default=None, repr=False)
    gaps: tuple[Gap, ...] = field(default=(), repr=False)
    is_complete: bool = True
    start: int = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BufferAssignment):
            return NotImplemented
        return self.allocations == other.allocations and self.values == other.values

    __hash__ = object.__hash__

    @property
    def path(self) -> str:
        """Name of the file that it was read from."""
        return self.columns.source.path

    @property
    def allocations(self) -> Sequence[BufferAllocation]:
        """Allocations in the order of the text, which is by index."""
        return Rows(functools.partial(BufferAllocation, self), range(len(self.columns)))

    @property
    def assigned_values(self) -> Sequence[AssignedValue]:
        """Values of all allocations, in the order of the text."""
        return Rows(self.assigned_value, range(len(self.assigned)))

    def assigned_value(self, row: int) -> AssignedValue:
        """Return the value of a row."""
        return AssignedValue(self.assigned, row)

    def reused_value(self, row: int) -> ReusedValue:
        """Return the value of another colour of a row."""
        return ReusedValue(self.reused_columns, row)

    def value_rows(self, row: int) -> range:
        """Return the rows of the values that lie in the allocation of a row."""
        first = self.columns.cell(row, FIRST_VALUE)
        if row + 1 < len(self.columns):
            return range(first, self.columns.cell(row + 1, FIRST_VALUE))
        return range(first, len(self.assigned))

    @functools.cached_property
    def _row_by_index(self) -> dict[int, int]:
        return {allocation.index: row for row, allocation in enumerate(self.allocations)}

    def allocation(self, index: int) -> BufferAllocation | None:
        """Return the allocation of an index, or None."""
        row = self._row_by_index.get(index)
        return None if row is None else BufferAllocation(self, row)

    @property
    def total_bytes(self) -> int | None:
        """Total that XLA prints with the used values; None where it is not in the text.

        The sum of the sizes of all allocations of all memory spaces, constants and thread-local
        ones included; not a peak.
        """
        return None if self.values is None else self.values.total_bytes

    @functools.cached_property
    def allocated_bytes(self) -> int:
        """Sum of the sizes of all allocations: what `total_bytes` must be."""
        number = self.columns.number
        return sum(number(row, SIZE) or 0 for row in range(len(self.columns)))

    def bytes_by_color(
        self, counts: Callable[[BufferAllocation], bool] | None = None
    ) -> Mapping[int, int]:
        """Return memory space to the bytes of its allocations, by ascending colour.

        Args:
            counts: Which allocations count; all, if it is left out.
        """
        found: Counter[int] = Counter()
        for allocation in self.allocations:
            if counts is None or counts(allocation):
                found[allocation.color] += allocation.size
        return dict(sorted(found.items()))
