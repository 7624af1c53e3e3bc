"""The memory-usage report as XLA prints it: a check of the figures computed from the allocations.

Its sizes are rounded, so each means a range of bytes; its names of memory spaces are a fixed table
that fits no backend (colour 5 is called ``cmem`` and is host memory). Source:
xla/service/buffer_assignment.cc, MemoryUsageReport of BufferAssignment and of BufferAllocation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hlo_lens.buffers.human_size import HumanSize
    from hlo_lens.buffers.printed_lists import AllocationWords
    from hlo_lens.text.errors import Gap


class CountedShape(NamedTuple):
    """A shape and the number of values at one offset that have it."""

    count: int  # type: ignore[assignment] # hides tuple.count, which is not used
    shape_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """The values that begin at one offset of an allocation.

    Attributes:
        cumulative_size: Sum of `size` up to this row; rows overlap, so the last one is not the
            size of the allocation.
        cumulative_percent: The same, in rounded percent of the sum over all rows; None for nan.
        size: Size of the largest of the values.
        offset: Bytes from the start of the allocation.
        used_by_n_values: Number of values that begin there.
        shapes: Their shapes, without layout, rarest first.
    """

    cumulative_size: HumanSize
    cumulative_percent: int | None
    size: HumanSize
    offset: int
    used_by_n_values: int
    shapes: tuple[CountedShape, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """Values in one allocation.

    Attributes:
        rows: Largest first.
        hidden_rows: Number of small rows that XLA omits.
        hidden_percent: Each has less than this share of the sum; None without hidden rows.
    """

    rows: tuple[ReportRow, ...] = ()
    hidden_rows: int = 0
    hidden_percent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySpaceUsage:
    """One memory space; since March 2026.

    Attributes:
        name: XLA's name for it, which may be wrong.
        color: Its number.
        total_bytes: Sum of the sizes of its allocations.
        total: The same, rounded.
        tables: One for each allocation, largest first; their indices are not printed.
    """

    name: str
    color: int
    total_bytes: int
    total: HumanSize
    tables: tuple[ReportTable, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAllocation:
    """An allocation in a report: its number, its rounded size, and the words after it."""

    index: int
    size: HumanSize
    words: AllocationWords


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRow:
    """An allocation in the list by size; until March 2026.

    Attributes:
        cumulative_size: Sum of the sizes up to this row.
        cumulative_percent: The same, in rounded percent of the total; None for nan.
        remaining: Total less `cumulative_size`.
        allocation: The allocation.
    """

    cumulative_size: HumanSize
    cumulative_percent: int | None
    remaining: HumanSize
    allocation: ReportAllocation


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationUsage:
    """An allocation and its values; one with a single value has no table."""

    allocation: ReportAllocation
    table: ReportTable | None = None


@dataclass(kw_only=True)
class MemoryUsageReport:
    """The whole report, in one of its two forms.

    Attributes:
        spaces: Memory spaces by ascending colour; empty in the form until March 2026.
        printed_total: Total over all allocations; None in the form since then.
        total: The same, rounded.
        allocation_rows: Allocations, largest first; only in the form until March 2026.
        hidden_allocations: Number of small allocations that XLA omits.
        hidden_percent: Each has less than this share of the total; None without hidden ones.
        allocations: All allocations with their values; only in that form.
        gaps: Parts that could not be read, in text order.
        is_complete: Whether no part is known to be missing.
        start: Offset in the text where it begins.
        path: Name of the file that it was read from.
    """

    spaces: tuple[MemorySpaceUsage, ...] = ()
    printed_total: int | None = None
    total: HumanSize | None = None
    allocation_rows: tuple[AllocationRow, ...] = ()
    hidden_allocations: int = 0
    hidden_percent: int | None = None
    allocations: tuple[AllocationUsage, ...] = ()
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)
    is_complete: bool = field(default=True, compare=False)
    start: int = field(default=0, compare=False)
    path: str = field(default="<text>", compare=False)

    @property
    def is_by_memory_space(self) -> bool:
        """Whether it is of the form printed since March 2026."""
        return self.printed_total is None

    @property
    def total_bytes(self) -> int:
        """Sum of the sizes of all allocations of all memory spaces."""
        if self.printed_total is not None:
            return self.printed_total
        return sum(space.total_bytes for space in self.spaces)

    def bytes_by_color(self) -> dict[int, int] | None:
        """Return memory space to its bytes; None in the form without memory spaces."""
        if not self.is_by_memory_space:
            return None
        return {space.color: space.total_bytes for space in self.spaces}
