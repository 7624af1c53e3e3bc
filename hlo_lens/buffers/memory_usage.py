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
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.buffers.assignment_reader import (
    LINE_NAMES,
    RuleScan,
    first_found,
    header_of_others,
    scan_text,
)
from hlo_lens.grammar.lines import LineParser, LineRule
from hlo_lens.text.dump_kinds import DumpKind

if TYPE_CHECKING:
    from hlo_lens.grammar.files import Spans
    from hlo_lens.text.errors import Gap
    from hlo_lens.text.source import Source


class ReportRow(NamedTuple):
    """The values that begin at one offset of an allocation.

    Attributes:
        size: Size of the largest of them.
        offset: Bytes from the start of the allocation.
        used_by_n_values: Number of values that begin there.
        shapes: Their shapes as printed, without layout, rarest first.
    """

    size: HumanSize
    offset: int
    used_by_n_values: int
    shapes: str


class MemorySpaceUsage(NamedTuple):
    """One memory space, under the name that XLA prints, which may be wrong."""

    name: str
    color: int
    total_bytes: int


@dataclass(kw_only=True)
class MemoryUsageReport:
    """The whole report, in one of its two forms.

    Attributes:
        spaces: Memory spaces by ascending colour; empty in the form until March 2026.
        printed_total: Total over all allocations; None in the form since then.
        rows: Values by allocation and offset; small ones are not printed.
        gaps: Parts that could not be read, in text order.
        is_complete: Whether no part is known to be missing.
        start: Offset in the text where it begins.
    """

    spaces: tuple[MemorySpaceUsage, ...] = ()
    printed_total: int | None = None
    rows: list[ReportRow] = field(default_factory=list)
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)
    is_complete: bool = field(default=True, compare=False)
    start: int = field(default=0, compare=False)

    @property
    def is_by_memory_space(self) -> bool:
        return self.printed_total is None

    @property
    def total_bytes(self) -> int:
        if self.printed_total is not None:
            return self.printed_total
        return sum(space.total_bytes for space in self.spaces)

    def bytes_by_color(self) -> dict[int, int] | None:
        if not self.is_by_memory_space:
            return None
        return {space.color: space.total_bytes for space in self.spaces}


def parse_memory_usage_report(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> MemoryUsageReport:
    """Return the report of a text, in either form.

    Unread parts are listed in its ``gaps``. Of several the first is returned, with a gap
    at the start of the second.

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
_ALLOCATION_ROW = LineRule("allocation_row", *_FILES)
_ALLOCATION = LineRule("short_allocation", *_FILES)
_REST = LineRule("rest", *_FILES)


class ReportScan(RuleScan):
    """One pass over a source, with the reports so far, the last of which may be being filled."""

    parser = LineParser(
        *_FILES,
        rules=(
            *(_SPACE, _SPACE_TOTAL, _TOTAL, _SORTED, _WITH_VALUES, _ALLOCATIONS_HEAD),
            *(_TABLE_HEAD, _DASHES, _ROW, _ALLOCATION_ROW, _ALLOCATION, _REST),
        ),
        names={
            **LINE_NAMES,
            "SPACE_NAME": "a name",
            "_TABLE_HEAD": "'cumulative_size;'",
            "_ALLOCATIONS_HEAD": "'cumulative_size;'",
            "PERCENT": "a share such as ( 17%)",
            "SHAPES": "shapes",
            "_REST": "'The rest'",
            **dict.fromkeys(("CUMULATIVE", "ROW_SIZE"), "a size such as 8.00MiB"),
            **dict.fromkeys(("ROW_OFFSET", "ROW_VALUES", "HIDDEN", "SHARE"), "a number"),
        },
    )
    expected = "a line of a memory-usage report"
    others = header_of_others(DumpKind.MEMORY_USAGE_REPORT)
    own_titles = (_SPACE, _TOTAL)
    landmarks = (_TABLE_HEAD, _REST, _ALLOCATION, _ROW, _ALLOCATION_ROW)

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.found: list[MemoryUsageReport] = []
        self._report: MemoryUsageReport | None = None
        self._space_title: tuple[str, int] | None = None  # until its total is read
        self._has_table = False
        self._is_table_open = False  # until a row of 100 %, or the number of those left out
        self._undescribed = 0  # allocations of the list that have not followed yet
        self.rules = (
            (_ROW, self._row),
            (_ALLOCATION_ROW, self._allocation_row),
            (_SPACE, self._space),
            (_SPACE_TOTAL, self._space_total),
            (_TOTAL, self._total),
            (_SORTED, self._title),
            (_ALLOCATIONS_HEAD, self._title),
            (_WITH_VALUES, self._title),
            (_TABLE_HEAD, self._table_head),
            (_DASHES, lambda _: None),
            (_REST, self._rest),
            (_ALLOCATION, self._allocation),
        )

    def _open(self, spans: Spans) -> MemoryUsageReport:
        if self._report is None:
            self._report = MemoryUsageReport(start=spans[0][0])
            self._undescribed, self._has_table, self._is_table_open = 0, False, False
        return self._report

    def end(self) -> None:
        report, self._report = self._report, None
        if report is None:
            return
        report.gaps = self.take_gaps()
        is_cut = self.is_damaged or self._space_title is not None or self._is_table_open
        if report.is_by_memory_space:
            is_cut |= not report.spaces or not self._has_table
        report.is_complete = not is_cut and not self._undescribed
        self._space_title, self.is_damaged = None, False
        self.found.append(report)

    # ---- lines ---------------------------------------------------------------------------------

    def _words(self, spans: Spans) -> list[str]:
        return [self.text[start:end].strip() for start, end in spans[1:]]

    def _title(self, spans: Spans) -> None:
        self._open(spans)

    def _space(self, spans: Spans) -> None:
        self.is_damaged |= bool(self._open(spans).spaces) and not self._has_table
        self._has_table = False
        name, color = self._words(spans)
        self._space_title = name, int(color)

    def _space_total(self, spans: Spans) -> None:
        if self._space_title is None:
            self.refuse(*spans[0], "a total outside any memory space")
            return
        space = MemorySpaceUsage(*self._space_title, int(self._words(spans)[0]))
        self._open(spans).spaces += (space,)
        self._space_title = None

    def _total(self, spans: Spans) -> None:
        self.end()
        self._open(spans).printed_total = int(self._words(spans)[0])

    def _table_head(self, spans: Spans) -> None:
        self._open(spans)
        self.is_damaged |= self._is_table_open
        self._has_table = True

    def _row(self, spans: Spans) -> None:
        if not self._has_table:
            self.refuse(*spans[0], "a row outside any table")
            return
        _, share, size, offset, count, shapes = self._words(spans)
        row = ReportRow(HumanSize(size), int(offset), int(count), shapes)
        self._open(spans).rows.append(row)
        # a total of 0 has no share: nan
        self._is_table_open = share.strip("( %)") not in ("100", "nan", "-nan")

    def _allocation_row(self, spans: Spans) -> None:
        self._open(spans)
        self._undescribed += 1

    def _allocation(self, spans: Spans) -> None:
        self._open(spans)
        self._undescribed -= 1

    def _rest(self, spans: Spans) -> None:
        self._open(spans)
        count, allocations, _ = self._words(spans)
        if allocations:
            self._undescribed += int(count)
        else:
            self._is_table_open = False


_PRINTED = re.compile(r"(-?)(\d{1,19}(?:\.(\d{1,3}))?)(?:([KMGTPE])(?:i?B)?|i?B)")
_UNITS = "KMGTPE"
_QUOTIENTS = range(1024, 1024 * 1024)
"""What is left after the divisions; it is printed divided by 1024."""

_NO_SIZE = "-8E"
"""XLA's text for the one number that cannot be negated; it means no size."""


@dataclass(frozen=True, slots=True)
class HumanSize:
    """A rounded size as XLA prints it: ``8.00MiB``."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def at_least(self) -> int | None:
        return _bounds(self.text)[0]

    @property
    def at_most(self) -> int | None:
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
    sign, number, decimals, unit = match.groups()
    if not unit:
        if decimals is not None:
            return None, None
        least = most = int(number)
    else:
        places = len(decimals or "")
        scale = 1024 ** _UNITS.index(unit)

        def printed(quotient: int) -> float:  # rounds ties to even, as C does
            return float(f"{quotient / 1024:.{places}f}")

        first = bisect_left(_QUOTIENTS, float(number), key=printed)
        after = bisect_right(_QUOTIENTS, float(number), key=printed)
        if first == after:
            return None, None
        least, most = _QUOTIENTS[first] * scale, (_QUOTIENTS[after - 1] + 1) * scale - 1
    return (-most, -least) if sign else (least, most)
