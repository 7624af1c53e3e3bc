"""BufferAssignment: the allocations of a module and the values in them.

Allocations and values are light views over columns of places in the text; a list in a line (words
of an allocation, positions and uses of a value) is read when it is asked for. Sizes and offsets are
bytes. Sources: xla/service/buffer_assignment.h, hlo_value.h (names).
"""

from __future__ import annotations

import functools
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, overload

from hlo_lens.grammar.lines import LineParser, LineRule
from hlo_lens.shapes.shape import parse_shape
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.shapes.shape import Shape, ShapeIndex
    from hlo_lens.text.errors import Gap
    from hlo_lens.text.source import Source


NUMBER, SIZE, WORDS, WORDS_END, FIRST_VALUE = range(5)
"""Columns of an allocation: offsets in the text, row of its first value."""
ALLOCATION_STRIDE = 5

ID, NAME, NAME_END, INDEX_END = range(4)
"""First columns of every value. ``(phi)`` and the colour are between INDEX_END and the next."""
VALUE_SIZE, VALUE_OFFSET, VALUE_SHAPE, VALUE_END = range(4, 8)
"""Further columns of an assigned value."""
ASSIGNED_STRIDE = 8

FROM, FROM_END = range(5, 7)
"""Further columns of a used value, after the end of its colour; -1 without an instruction."""
USED_STRIDE = 7

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
        return self.cells[row * self.stride + column]

    def text(self, row: int, first: int, last: int) -> str:
        base = row * self.stride
        return self.source.text[self.cells[base + first] : self.cells[base + last]]

    def number(self, row: int, column: int) -> int | None:
        place = self.cells[row * self.stride + column]
        match = NUMBER_PATTERN.match(self.source.text, place) if place > 0 else None
        return None if match is None else int(match[0])


FILES = ("hlo_tokens", "shape", "buffer_tokens", "buffer_assignment", "buffer_values")
"""Grammars of allocations and used values."""

WORD = LineRule("word", *FILES, is_line=False)
_PARSER = LineParser(*FILES, rules=(), names={})


class AllocationWords(NamedTuple):
    """What an allocation line has after the size, besides shapes and pages.

    Attributes:
        color: Memory space; 0, the default, is not printed.
        parameter_number: Number of the entry parameter in it, or of which a part is in it.
        is_constant: Whether it is of a constant of the program.
        is_thread_local: Whether it is local to a called computation, a reducer or a thread: in no
            heap.
        maybe_live_out: Whether it may be part of the module's result.
        is_preallocated_temp: Whether it is none of parameter, result, constant and thread-local.
    """

    color: int
    parameter_number: int | None
    is_constant: bool
    is_thread_local: bool
    maybe_live_out: bool
    is_preallocated_temp: bool


@functools.lru_cache(maxsize=1 << 12)
def allocation_words(text: str) -> AllocationWords:
    """Return the words after the size of an allocation; of a repeated word, the first counts."""
    found: dict[str, str] = {}
    for spans in _PARSER.items("words", WORD, text):
        for name, group in WORD.groups.items():
            start, end = spans[group]
            if start >= 0:
                found.setdefault(name, text[start:end])
    number = found.get("PARAMETER")
    words = "CONSTANT", "THREAD_LOCAL", "MAYBE_LIVE_OUT", "PREALLOCATED_TEMP"
    return AllocationWords(
        int(found.get("COLOR", 0)),
        None if number is None else int(number),
        *(word in found for word in words),
    )


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
        return self._columns.number(self._row, ID) or 0

    @property
    def instruction_name(self) -> str:
        """Name of the instruction that defines it, without ``%``."""
        return self._columns.text(self._row, NAME, NAME_END)

    @property
    def index_text(self) -> str:
        """Index as printed: ``{0}``; empty if the instruction's shape is no tuple."""
        return self._columns.text(self._row, NAME_END, INDEX_END).strip()

    @property
    def index(self) -> ShapeIndex:
        return parse_index(self.index_text)

    @property
    def name(self) -> str:
        """Instruction and index as in live ranges, always with braces: ``add.2{}``."""
        return self.instruction_name + (self.index_text or "{}")

    @property
    def is_phi(self) -> bool:
        """Whether it is the join of values of a loop or of branches."""
        return "(phi)" in self._columns.text(self._row, INDEX_END, INDEX_END + 1)

    @property
    def color(self) -> int | None:
        """Memory space; None if it is not printed."""
        _, _, tail = self._columns.text(self._row, INDEX_END, INDEX_END + 1).partition("@")
        return parse_index(tail)[0] if tail else None


class AssignedValue(_Value):
    """A value in an allocation, with its bytes, padding of tiles included."""

    __slots__ = ()

    def _content(self) -> tuple[object, ...]:
        return (*super()._content(), *self.facts()[2:])

    @property
    def size(self) -> int:
        return self._columns.number(self._row, VALUE_SIZE) or 0

    @property
    def offset(self) -> int:
        return self._columns.number(self._row, VALUE_OFFSET) or 0

    @property
    def shape_text(self) -> str:
        return self._columns.text(self._row, VALUE_SHAPE, VALUE_END)

    @property
    def shape(self) -> Shape:
        return parse_shape(self.shape_text)

    def facts(self) -> tuple[str, str, int, int, str]:
        """Return instruction name, index as printed, offset, size and shape text, all at once."""
        columns = self._columns
        text, cells, base = columns.source.text, columns.cells, self._row * columns.stride
        name_end = cells[base + NAME_END]
        size, offset = cells[base + VALUE_SIZE], cells[base + VALUE_OFFSET]
        size_match = NUMBER_PATTERN.match(text, size) if size > 0 else None
        offset_match = NUMBER_PATTERN.match(text, offset) if offset > 0 else None
        return (
            text[cells[base + NAME] : name_end],
            text[name_end : cells[base + INDEX_END]].strip(),
            0 if offset_match is None else int(offset_match[0]),
            0 if size_match is None else int(size_match[0]),
            text[cells[base + VALUE_SHAPE] : cells[base + VALUE_END]],
        )


class HloValue(_Value):
    """A used value; its positions and uses are checked, not kept: the HLO text has them."""

    __slots__ = ()

    @property
    def instruction_text(self) -> str:
        """The defining instruction as XLA prints it in long style; empty if it is missing."""
        if self._columns.cell(self._row, FROM) < 0:
            return ""
        return self._columns.text(self._row, FROM, FROM_END).strip()


@dataclass(eq=False)
class BufferValues(Sequence[HloValue]):
    """The used values of an assignment, printed after it or in a file of their own.

    A sequence of HloValue in the order of the text, which is by id.

    Attributes:
        columns: Places of the parts of the values.
        total_bytes: Printed sum of the sizes of all allocations of all memory spaces; or None.
        gaps: Parts that could not be read, in text order.
        is_complete: Whether no part is known to be missing.
        start: Offset in the text where it begins.
    """

    columns: BufferColumns = field(repr=False)
    total_bytes: int | None = None
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
        return Rows(functools.partial(HloValue, self.columns), range(len(self)))[index]

    def __iter__(self) -> Iterator[HloValue]:
        return map(functools.partial(HloValue, self.columns), range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BufferValues):
            return NotImplemented
        return self.total_bytes == other.total_bytes and self[:] == other[:]

    __hash__ = object.__hash__


class BufferAllocation:
    """One contiguous piece of memory, in bytes; its words are those of `AllocationWords`."""

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
        return (self.index, self.size, self.words, self.values)

    @property
    def index(self) -> int:
        return self._assignment.columns.number(self._row, NUMBER) or 0

    @property
    def size(self) -> int:
        return self._assignment.columns.number(self._row, SIZE) or 0

    @property
    def words(self) -> AllocationWords:
        return allocation_words(self._assignment.columns.text(self._row, WORDS, WORDS_END))

    @property
    def color(self) -> int:
        return self.words.color

    @property
    def parameter_number(self) -> int | None:
        return self.words.parameter_number

    @property
    def is_constant(self) -> bool:
        return self.words.is_constant

    @property
    def is_thread_local(self) -> bool:
        return self.words.is_thread_local

    @property
    def maybe_live_out(self) -> bool:
        return self.words.maybe_live_out

    @property
    def is_preallocated_temp(self) -> bool:
        return self.words.is_preallocated_temp

    @property
    def values(self) -> Sequence[AssignedValue]:
        """Values in it, by id. Values of different times may share bytes."""
        assignment = self._assignment
        view = functools.partial(AssignedValue, assignment.assigned)
        return Rows(view, assignment.value_rows(self._row))


@dataclass(eq=False)
class BufferAssignment:
    """The memory of a module: allocations, and the bytes of each value in them.

    Attributes:
        columns: Places of the parts of the allocations.
        assigned: Places of the parts of the values, in the order of their allocations.
        values: The used values, if they are in the same text or were added; or None.
        gaps: Parts that could not be read, in text order, used values of the same text included.
        is_complete: Whether no part is known to be missing: header and last line are there, no
            line was refused, sizes sum to the printed total if there is one.
        ends_without_values: Whether the last allocation has no values, and nothing else is known
            to be missing: the text may end early, or reserve memory without values (VMEM of TPUs).
        start: Offset in the text where it begins.
    """

    columns: BufferColumns = field(repr=False)
    assigned: BufferColumns = field(repr=False)
    values: BufferValues | None = field(default=None, repr=False)
    gaps: tuple[Gap, ...] = field(default=(), repr=False)
    is_complete: bool = True
    ends_without_values: bool = False
    start: int = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BufferAssignment):
            return NotImplemented
        return self.allocations == other.allocations and self.values == other.values

    __hash__ = object.__hash__

    @property
    def path(self) -> str:
        return self.columns.source.path

    @property
    def allocations(self) -> Sequence[BufferAllocation]:
        return Rows(functools.partial(BufferAllocation, self), range(len(self.columns)))

    def value_rows(self, row: int) -> range:
        first = self.columns.cell(row, FIRST_VALUE)
        if row + 1 < len(self.columns):
            return range(first, self.columns.cell(row + 1, FIRST_VALUE))
        return range(first, len(self.assigned))

    @property
    def total_bytes(self) -> int | None:
        """Total that XLA prints with the used values; None if it is not in the text.

        The sum of the sizes of all allocations of all memory spaces, constants and thread-local
        ones included; not a peak.
        """
        return None if self.values is None else self.values.total_bytes

    def is_complete_with(self, values: BufferValues | None) -> bool:
        if self.is_complete or values is None or not self.ends_without_values:
            return self.is_complete
        is_all = values.is_complete and len(values) == len(self.assigned)
        return is_all and values.total_bytes == self.allocated_bytes

    @functools.cached_property
    def allocated_bytes(self) -> int:
        """Sum of the sizes of all allocations; equal to `total_bytes` in a complete text."""
        number = self.columns.number
        return sum(number(row, SIZE) or 0 for row in range(len(self.columns)))
