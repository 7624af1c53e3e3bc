"""The memory-usage report as XLA prints it: a check of the figures computed from the allocations.

Two forms: by allocation (October 2024 to March 2026), and by memory space (since). Its sizes are
rounded, so each means a range of bytes; its names of memory spaces are a fixed table that fits no
backend (colour 5 is called ``cmem`` and is host memory). Source: xla/service/buffer_assignment.cc,
MemoryUsageReport of BufferAssignment and of BufferAllocation.

Rounded sizes are those of strings::HumanReadableNumBytes (tsl/platform/numbers.cc): whole bytes
below 1024; above, the number is divided by 1024 without its remainder until less than 1024 * 1024
is left, and that is printed in units of 1024, with one decimal for KiB, two for larger units.
libtpu prints the same without ``iB``: ``12.50G``.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.buffers.assignment import allocation_words
from hlo_lens.buffers.assignment_reader import (
    LINE_NAMES,
    RuleScan,
    ShapeCheck,
    first_found,
    header_of_others,
    scan_text,
)
from hlo_lens.grammar.lines import LineParser, LineRule
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.buffers.assignment import AllocationWords
    from hlo_lens.grammar.files import Spans
    from hlo_lens.text.errors import Gap
    from hlo_lens.text.source import Source


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


@dataclass(slots=True, kw_only=True)
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

    @property
    def is_whole(self) -> bool:
        """Whether the last row has the total, or the rest is counted as hidden.

        An allocation without values has a table without rows.
        """
        if self.hidden_percent is not None or not self.rows:
            return True
        return self.rows[-1].cumulative_percent in (100, None)


@dataclass(slots=True, kw_only=True)
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


@dataclass(slots=True, kw_only=True)
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
        return self.printed_total is None

    @property
    def total_bytes(self) -> int:
        if self.printed_total is not None:
            return self.printed_total
        return sum(space.total_bytes for space in self.spaces)

    def bytes_by_color(self) -> dict[int, int] | None:
        """Return memory space to its bytes; None in the form without memory spaces."""
        if not self.is_by_memory_space:
            return None
        return {space.color: space.total_bytes for space in self.spaces}


def parse_memory_usage_report(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> MemoryUsageReport:
    """Return the report of a text, in either form.

    Unread parts are listed in its ``gaps``. Of several the first is returned, with a gap
    at the start of the second.

    Args:
        text: A ``-memory-usage-report.txt`` dump.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.

    Raises:
        DumpSyntaxError: If it has no report, or, if strict, at the first gap.
    """
    scan = scan_text(text, path, ReportScan)
    expected = "'Memory Space:' or 'Allocations sorted by size:'"
    return first_found(scan, scan.found, expected, "a second memory-usage report", strict=strict)


_FILES = ("hlo_tokens", "shape", "buffer_tokens", "buffer_assignment", "memory_usage_report")
_SPACE = LineRule("memory_space", *_FILES)
_SPACE_TOTAL = LineRule("space_total", *_FILES)
_TOTAL = LineRule("report_total", *_FILES)
_SORTED = LineRule("sorted_title", *_FILES)
_WITH_VALUES = LineRule("sorted_with_values_title", *_FILES)
_ALLOCATIONS_HEAD = LineRule("allocations_head", *_FILES)
_TABLE_HEAD = LineRule("table_head", *_FILES)
_DASHES = LineRule("dashes", *_FILES)
_ROW = LineRule("row", *_FILES)
_SHAPE = LineRule("counted_shape", *_FILES, is_line=False)
_ALLOCATION_ROW = LineRule("allocation_row", *_FILES)
_ALLOCATION = LineRule("short_allocation", *_FILES)
_REST = LineRule("rest", *_FILES)
_RULES = (
    *(_SPACE, _SPACE_TOTAL, _TOTAL, _SORTED, _WITH_VALUES, _ALLOCATIONS_HEAD, _TABLE_HEAD),
    *(_DASHES, _ROW),
    *(_ALLOCATION_ROW, _ALLOCATION, _REST),
)
PARSER = LineParser(
    *_FILES,
    rules=_RULES,
    names={
        **LINE_NAMES,
        "SPACE_NAME": "a name",
        "_TABLE_HEAD": "'cumulative_size;'",
        "_ALLOCATIONS_HEAD": "'cumulative_size;'",
        "PERCENT": "a share such as ( 17%)",
        "TIMES": "a count such as 2\N{MULTIPLICATION SIGN}",
        "_REST": "'The rest'",
        **dict.fromkeys(("CUMULATIVE", "ROW_SIZE"), "a size such as 8.00MiB"),
        **dict.fromkeys(("ROW_OFFSET", "ROW_VALUES", "HIDDEN", "SHARE"), "a number"),
    },
)


class ReportScan(RuleScan):
    """One pass over a source, with the report that is being filled.

    Attributes:
        found: Reports so far.
    """

    parser = PARSER
    expected = "a line of a memory-usage report"
    others = header_of_others(DumpKind.MEMORY_USAGE_REPORT)
    own_titles = (_SPACE, _TOTAL)
    landmarks = (_TABLE_HEAD, _REST, _ALLOCATION, _ROW, _ALLOCATION_ROW)

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.found: list[MemoryUsageReport] = []
        self._report: MemoryUsageReport | None = None
        self._has_values = False  # allocations with their tables follow
        self._space_title: tuple[str, int] | None = None  # until its total is read
        self._shapes = ShapeCheck()
        self.rules = (
            (_ROW, self._row),
            (_ALLOCATION_ROW, self._allocation_row),
            (_SPACE, self._space),
            (_SPACE_TOTAL, self._space_total),
            (_TOTAL, self._total),
            (_SORTED, self._sorted),
            (_ALLOCATIONS_HEAD, self._sorted),
            (_WITH_VALUES, self._with_values),
            (_TABLE_HEAD, self._table_head),
            (_DASHES, lambda _: None),
            (_REST, self._rest),
            (_ALLOCATION, self._allocation),
        )

    def _open(self, spans: Spans) -> MemoryUsageReport:
        if self._report is None:
            self._report = MemoryUsageReport(start=spans[0][0], path=self.source.path)
        return self._report

    def end(self) -> None:
        report, self._report = self._report, None
        if report is None:
            return
        report.gaps = self.take_gaps()
        is_cut = self.is_damaged or self._space_title is not None
        report.is_complete = not is_cut and self._is_whole(report)
        self._space_title = None
        self.is_damaged = self._has_values = False
        self.found.append(report)

    def _is_whole(self, report: MemoryUsageReport) -> bool:
        tables = [table for space in report.spaces for table in space.tables]
        tables += [usage.table for usage in report.allocations if usage.table is not None]
        if not all(table.is_whole for table in tables):
            return False
        if report.is_by_memory_space:
            return bool(report.spaces) and all(space.tables for space in report.spaces)
        rows, hidden = report.allocation_rows, report.hidden_allocations
        if not hidden and rows and not rows[-1].remaining.matches(0):
            return False
        return self._has_values and len(report.allocations) == len(rows) + hidden

    # ---- lines ---------------------------------------------------------------------------------

    def _words(self, spans: Sequence[tuple[int, int]]) -> list[str]:
        return [self.text[start:end].strip() for start, end in spans]

    def _space(self, spans: Spans) -> None:
        self._open(spans)
        name, color = self._words(spans[1:])
        self._space_title = name, int(color)

    def _space_total(self, spans: Spans) -> None:
        if self._space_title is None:
            self.refuse(*spans[0], "a total outside any memory space")
            return
        total, human = self._words(spans[1:])
        name, color = self._space_title
        space = MemorySpaceUsage(
            name=name, color=color, total_bytes=int(total), total=HumanSize(human)
        )
        self._open(spans).spaces += (space,)
        self._space_title = None

    def _total(self, spans: Spans) -> None:
        self.end()
        total, human = self._words(spans[1:])
        report = self._open(spans)
        report.printed_total, report.total = int(total), HumanSize(human)

    def _sorted(self, spans: Spans) -> None:
        self._open(spans)

    def _with_values(self, spans: Spans) -> None:
        self._open(spans)
        self._has_values = True

    def _table_head(self, spans: Spans) -> None:
        report = self._open(spans)
        if self._has_values and report.allocations:
            report.allocations[-1].table = ReportTable()
        elif not self._has_values and report.spaces:
            report.spaces[-1].tables += (ReportTable(),)
        else:
            self.refuse(*spans[0], "a table outside any allocation")

    def _table(self) -> ReportTable | None:
        """Return the table to which rows belong; None if none has begun."""
        report = self._report
        if report is not None and self._has_values:
            return report.allocations[-1].table if report.allocations else None
        spaces = () if report is None else report.spaces
        return spaces[-1].tables[-1] if spaces and spaces[-1].tables else None

    def _row(self, spans: Spans) -> DumpSyntaxError | None:
        table = self._table()
        if table is None:
            self.refuse(*spans[0], "a row outside any table")
            return None
        *words, shapes = self._words(spans[1:])
        try:
            items = PARSER.items("counted_shapes", _SHAPE, shapes)
        except DumpSyntaxError as error:
            return error
        counted = []
        for _, times, (start, end) in items:
            problem = self._shapes.problem(shapes[start:end])
            if problem is not None:
                return problem
            count = int(shapes[times[0] : times[1] - 1]) if times[0] >= 0 else 1
            counted.append(CountedShape(count=count, shape_text=shapes[start:end]))
        row = ReportRow(
            cumulative_size=HumanSize(words[0]),
            cumulative_percent=_percent(words[1]),
            size=HumanSize(words[2]),
            offset=int(words[3]),
            used_by_n_values=int(words[4]),
            shapes=tuple(counted),
        )
        table.rows += (row,)
        return None

    def _allocation_row(self, spans: Spans) -> None:
        cumulative, percent, remaining, *allocation = self._words(spans[1:])
        row = AllocationRow(
            cumulative_size=HumanSize(cumulative),
            cumulative_percent=_percent(percent),
            remaining=HumanSize(remaining),
            allocation=_report_allocation(*allocation),
        )
        self._open(spans).allocation_rows += (row,)

    def _allocation(self, spans: Spans) -> None:
        report, self._has_values = self._open(spans), True
        allocation = _report_allocation(*self._words(spans[1:]))
        report.allocations += (AllocationUsage(allocation=allocation),)

    def _rest(self, spans: Spans) -> None:
        count, allocations, share = self._words(spans[1:])
        table = self._table()
        if allocations:
            report = self._open(spans)
            report.hidden_allocations, report.hidden_percent = int(count), int(share)
        elif table is not None:
            table.hidden_rows, table.hidden_percent = int(count), int(share)
        else:
            self.refuse(*spans[0], "a row outside any table")

    def end_before_others(self, position: int) -> None:  # any other dump ends it
        self.end()


def _report_allocation(index: str, size: str, words: str) -> ReportAllocation:
    return ReportAllocation(index=int(index), size=HumanSize(size), words=allocation_words(words))


def _percent(text: str) -> int | None:
    """Return a share in percent; None for nan, the share of a total of 0."""
    digits = text.strip("( %)")
    return int(digits) if digits.isdecimal() else None


_PRINTED = re.compile(r"(-?)(\d{1,19})(?:\.(\d{1,3}))?(?:([KMGTPE])(?:i?B)?|i?B)")
_UNITS = "KMGTPE"
_LEAST, _MOST = 1024, 1024 * 1024 - 1
"""Bounds of the quotient after the divisions; it is printed divided by 1024."""

_NO_SIZE = "-8E"
"""XLA's text for the one number that cannot be negated; it means no size."""


@dataclass(frozen=True, slots=True)
class HumanSize:
    """A rounded size as XLA prints it: ``8.00MiB``.

    Attributes:
        text: As printed.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def at_least(self) -> int | None:
        """Smallest number of bytes printed as this text; None if there is none."""
        return _bounds(self.text)[0]

    @property
    def at_most(self) -> int | None:
        """Largest number of bytes printed as this text; None if there is none."""
        return _bounds(self.text)[1]

    def matches(self, size_bytes: int) -> bool:
        least, most = _bounds(self.text)
        return least is not None and most is not None and least <= size_bytes <= most


@functools.lru_cache(maxsize=4096)
def _bounds(text: str) -> tuple[int, int] | tuple[None, None]:
    """Return the smallest and the largest number printed as this text, both inclusive."""
    match = _PRINTED.fullmatch(text)
    if match is None or text == _NO_SIZE:
        return None, None
    sign, whole, decimals, unit = match.groups()
    if not unit:
        bounds = (int(whole), int(whole)) if decimals is None else None
    else:
        bounds = _scaled_bounds(whole, decimals or "", _UNITS.index(unit))
    if bounds is None:
        return None, None
    least, most = bounds
    return (-most, -least) if sign else (least, most)


def _scaled_bounds(whole: str, decimals: str, power: int) -> tuple[int, int] | None:
    """Return the bounds of a number in units of 1024 to the power of one more than `power`."""
    places = len(decimals)
    twice, scale = 2 * int(whole + decimals), 10**places  # the bounds are half a last digit away
    printed = f"{whole}.{decimals}" if places else whole
    least = max(_LEAST, (twice - 1) * 512 // scale - 1)
    most = min(_MOST, (twice + 1) * 512 // scale + 1)
    # Ties are rounded to even, which is easier seen by printing than derived.
    while least <= most and f"{least / 1024:.{places}f}" != printed:
        least += 1
    while most >= least and f"{most / 1024:.{places}f}" != printed:
        most -= 1
    if least > most:
        return None
    unit = int(1024**power)
    return least * unit, (most + 1) * unit - 1
