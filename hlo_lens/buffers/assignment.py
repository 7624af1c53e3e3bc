"""BufferAssignment: the allocations of a module, the values in them, and their heap simulations.

Allocations are light views over columns of places in the text. Sizes are bytes.
`HeapTrace` is in protos only. Sources: xla/service/buffer_assignment.h (names) and
heap_simulator/heap_simulator.cc (FillDebugTrace).
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.buffers import columns as at
from hlo_lens.buffers.printed_lists import allocation_words
from hlo_lens.buffers.values import AssignedValue, BufferValues, ReusedValue
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hlo_lens.buffers.columns import BufferColumns
    from hlo_lens.buffers.printed_lists import AllocationWords
    from hlo_lens.shapes.shape import ShapeIndex
    from hlo_lens.text.errors import Gap


class BufferAllocation:
    """One contiguous piece of memory. Equal if its content is.

    Args:
        assignment: The assignment that it belongs to.
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
        return (self.index, self.size, self.words, self.values, self.reused)

    @property
    def _columns(self) -> BufferColumns:
        return self._assignment.columns

    @property
    def index(self) -> int:
        """Number of the allocation, dense from 0."""
        return self._columns.number(self._row, at.NUMBER) or 0

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._columns.number(self._row, at.SIZE) or 0

    @property
    def words(self) -> AllocationWords:
        """What its line has after the size."""
        text = self._columns.text(self._row, at.WORDS, at.WORDS_END)
        return allocation_words(text)

    @property
    def color(self) -> int:
        """Memory space; 0, the default, is not printed."""
        return self.words.color

    @property
    def page_id(self) -> int | None:
        """Page of its heap; None before August 2026."""
        return self.words.page_id

    @property
    def parameter_number(self) -> int | None:
        """Number of the entry parameter in it, wholly or in part."""
        return self.words.parameter_number

    @property
    def param_shape_index(self) -> ShapeIndex | None:
        """Index of the part of the parameter in it."""
        return self.words.param_shape_index

    @property
    def parameter_shape_text(self) -> str | None:
        """Shape of the parameter or of its part."""
        return self.words.parameter_shape_text

    @property
    def output_shape_text(self) -> str | None:
        """Shape of the module's result if its root value is here."""
        return self.words.output_shape_text

    @property
    def is_constant(self) -> bool:
        """Whether it is of a constant of the program."""
        return self.words.is_constant

    @property
    def is_thread_local(self) -> bool:
        """Whether it is in no heap."""
        return self.words.is_thread_local

    @property
    def maybe_live_out(self) -> bool:
        """Whether it may be part of the module's result."""
        return self.words.maybe_live_out

    @property
    def is_preallocated_temp(self) -> bool:
        """Whether it is none of parameter, result, constant and thread-local."""
        return self.words.is_preallocated_temp

    @property
    def other(self) -> tuple[str, ...]:
        """Unknown words of its line, as printed."""
        return self.words.other

    @property
    def values(self) -> Sequence[AssignedValue]:
        """Values in it, by id. Values of different times may share bytes."""
        return Rows(self._assignment.assigned_value, self._assignment.value_rows(self._row))

    @property
    def reused(self) -> Sequence[ReusedValue]:
        """Values of other memory spaces in its bytes."""
        rows = self._assignment.reused_rows.get(self._row, ())
        return Rows(self._assignment.reused_value, rows)

    @property
    def line(self) -> int:
        """1-based line in the file."""
        return self._columns.line(self._row, at.NUMBER)


@dataclass(eq=False)
class BufferAssignment:
    """The memory of a module: allocations, and the bytes of each value in them.

    Attributes:
        columns: Places of the parts of the allocations.
        assigned: Places of the parts of the values, in the order of their allocations.
        reused_columns: The same for values of other memory spaces.
        reused_rows: Row of an allocation to the rows of those values.
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
    reused_columns: BufferColumns = field(repr=False)
    reused_rows: dict[int, list[int]] = field(default_factory=dict, repr=False)
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
        """Name of the file that it was read from."""
        return self.columns.source.path

    @property
    def allocations(self) -> Sequence[BufferAllocation]:
        """Allocations in the order of the text, which is by index."""
        return Rows(functools.partial(BufferAllocation, self), range(len(self.columns)))

    def assigned_value(self, row: int) -> AssignedValue:
        """Return the value of a row."""
        return AssignedValue(self.assigned, row)

    def reused_value(self, row: int) -> ReusedValue:
        """Return the value of another memory space of a row."""
        return ReusedValue(self.reused_columns, row)

    def value_rows(self, row: int) -> range:
        """Return the rows of the values in the allocation of a row."""
        first = self.columns.cell(row, at.FIRST_VALUE)
        if row + 1 < len(self.columns):
            return range(first, self.columns.cell(row + 1, at.FIRST_VALUE))
        return range(first, len(self.assigned))

    @property
    def total_bytes(self) -> int | None:
        """Total that XLA prints with the used values; None if it is not in the text.

        The sum of the sizes of all allocations of all memory spaces, constants and thread-local
        ones included; not a peak.
        """
        return None if self.values is None else self.values.total_bytes

    def is_complete_with(self, values: BufferValues | None) -> bool:
        """Return whether it is complete, if need be by the used values: XLA lists all of them."""
        if self.is_complete or values is None or not self.ends_without_values:
            return self.is_complete
        is_all = values.is_complete and len(values) == len(self.assigned)
        return is_all and values.total_bytes == self.allocated_bytes

    @functools.cached_property
    def allocated_bytes(self) -> int:
        """Sum of the sizes of all allocations; equal to `total_bytes` in a complete text."""
        number = self.columns.number
        return sum(number(row, at.SIZE) or 0 for row in range(len(self.columns)))

    def bytes_by_color(
        self, counts: Callable[[BufferAllocation], bool] | None = None
    ) -> Mapping[int, int]:
        """Return memory space to the bytes of its allocations, in ascending order.

        Args:
            counts: Whether an allocation counts; None for all.
        """
        found: Counter[int] = Counter()
        for allocation in self.allocations:
            if counts is None or counts(allocation):
                found[allocation.color] += allocation.size
        return dict(sorted(found.items()))


class HeapEventKind(Enum):
    """Kind of an event; numbers are those of the proto."""

    ALLOC = 0
    FREE = 1
    SHARE_WITH = 2


class HeapEvent(NamedTuple):
    """One step of the simulation.

    Attributes:
        kind: Its kind.
        value: The value: instruction and index, ``add.2{}``.
        size_bytes: Its bytes.
        canonical: For SHARE_WITH, the value whose memory it shares.
    """

    kind: HeapEventKind
    value: str
    size_bytes: int
    canonical: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapTrace:
    """The simulation of one allocation.

    Attributes:
        allocation: Index of the allocation in the simulation; CPU and GPU renumber them later.
        events: In order.
        is_whole_module: Whether one simulation covers all computations.
    """

    allocation: int
    events: tuple[HeapEvent, ...]
    is_whole_module: bool = True
