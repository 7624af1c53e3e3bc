"""Scan of the second half of a long text in a second process, while this one reads the first.

The second scan begins at a line in the middle of the text, inside a computation or between two,
and cannot know whether that line is really one: it may be in a comment. The first scan takes its
rows only if it comes to that line in the same state. The second scan ends before the first
computation with a gap or with parts that are not in their places; the first scan reads that one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from hlo_lens.hlo import patterns
from hlo_lens.hlo.columns import STRIDE, ComputationColumns, ComputationParts
from hlo_lens.hlo.gaps import HloGaps
from hlo_lens.hlo.scan import HloScan
from hlo_lens.text.processes import SecondProcess, start_second

if TYPE_CHECKING:
    from array import array

    from hlo_lens.hlo.rows import HloRows
    from hlo_lens.text.errors import DumpSyntaxError
    from hlo_lens.text.source import Source

SHORTEST = 4 << 20
"""Characters of the shortest text that is worth a second process."""


_LINE = re.compile(r"\n++(?=.)")
"""What is before the first character of a line that is not empty."""


@dataclass(slots=True, kw_only=True)
class RowsAhead:
    """Instructions and computations of a part of a text.

    Attributes:
        body: Number of rows of the computation in which the part begins; None for a part that
            begins between computations.
        body_attributes: Span of the attributes after the closing brace of that computation.
        body_end: Offset of the first computation after it.
        spans: Offsets of instructions, first those of the body.
        roots: Rows marked ROOT, counted from the first of the part.
        computations: Computations after the body, with rows counted like this.
        end: Offset after them.
        has_entry: Whether one of them is the entry.
        unknown_attributes: Names of attributes that are not known, those behind `end` included:
            this text is read again.
    """

    body: int | None
    body_attributes: tuple[int, int]
    body_end: int
    spans: array[int]
    roots: array[int]
    computations: ComputationColumns
    end: int
    has_entry: bool
    unknown_attributes: set[str]


class ScanAhead:
    """A scan from a line in the middle of a text on, in a second process.

    Attributes:
        at: Offset at which the scan of the first half can take rows; -1 if it cannot any more.
    """

    def __init__(self, start: int, process: SecondProcess[RowsAhead | None]) -> None:
        self.at = start
        self._process = process
        self._read: RowsAhead | None = None

    def end(self) -> None:
        """End the process, if its result was not asked for."""
        self._process.end()

    def take_body(self, rows: HloRows, *, rooted: bool) -> RowsAhead | None:
        """Add the rest of the computation that is being read; None if that is not possible.

        Args:
            rows: Rows so far.
            rooted: Whether the computation has its ROOT.
        """
        self.at, read = -1, self._process.result()
        if read is None or read.body is None:
            return None
        roots = bisect_left(read.roots, read.body)
        if roots and rooted:
            return None
        first = len(rows.columns)
        rows.columns.extend(read.spans[: read.body * STRIDE], read.roots[:roots], first)
        self._read, self.at = read, read.body_end
        return read

    def take_rest(self, rows: HloRows | None, *, has_entry: bool) -> RowsAhead | None:
        """Add the computations that begin here; None if that is not possible.

        Args:
            rows: Rows so far; None before the first computation.
            has_entry: Whether the module has its entry.
        """
        self.at, read = -1, self._read
        if read is None:
            read = self._process.result()
            if read is None or read.body is not None:
                return None
        if rows is None or (has_entry and read.has_entry):
            return None
        count = read.body or 0
        roots = bisect_left(read.roots, count)
        first = len(rows.columns) - count
        rows.module.computation_columns.extend(read.computations, first)
        rows.columns.extend(read.spans[count * STRIDE :], read.roots[roots:], first)
        return read


def start_ahead(source: Source) -> ScanAhead | None:
    """Return the scan of the second half of a long text; None where this process scans it all."""
    if len(source.text) < SHORTEST:
        return None
    line = _LINE.search(source.text, len(source.text) // 2)
    if line is None:
        return None
    process = start_second(partial(rows_from, source, line.end()))
    return None if process is None else ScanAhead(line.end(), process)


def rows_from(source: Source, start: int) -> RowsAhead | None:
    """Return the rows from a line on; None if there is nothing that begins in an ordinary way."""
    return _PartScan(source).read(start)


class _FirstGapError(Exception):
    """The end of a part: its next line is a gap, or no HLO."""


class _NoGaps(HloGaps):
    """Gaps of a scan that ends before the first of them."""

    def add(self, start: int, end: int, message: str, lines: int = 1) -> NoReturn:
        raise _FirstGapError

    def add_error(self, error: DumpSyntaxError) -> NoReturn:
        raise _FirstGapError

    def note_strange(self, start: int, end: int) -> NoReturn:
        raise _FirstGapError

    def pass_over(self, start: int, end: int) -> NoReturn:
        raise _FirstGapError


class _PartScan(HloScan):
    """A scan that begins at any line, and ends before what is out of the ordinary."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, None)
        self.gaps = _NoGaps(source)

    def read(self, position: int) -> RowsAhead | None:
        """Return the rows from a line on; None if its computation is out of the ordinary."""
        rows = self._begin_module("", position)
        columns, computations = rows.columns, rows.module.computation_columns
        body, attributes = None, (0, 0)
        if self._head(position) is None:
            computation = ComputationParts(is_complete=False)
            with suppress(_FirstGapError):
                position = self._body(position, computation, rows)
            if not computation.is_complete or not rows.are_plain:
                return None
            body, attributes = len(columns), computation.attributes
        body_end = end = self._units.blank(position)
        count, roots, complete, has_entry = len(columns), len(columns.roots), 0, False
        with suppress(_FirstGapError):
            while (head := self._head(end)) is not None:
                after = self._units.blank(self._computation(head))
                if not rows.are_plain:
                    break
                end, count, roots = after, len(columns), len(columns.roots)
                complete, has_entry = len(computations), self._has_entry
        computations.cut(complete)
        return RowsAhead(
            body=body,
            body_attributes=attributes,
            body_end=body_end,
            spans=columns.spans[: count * STRIDE],
            roots=columns.roots[:roots],
            computations=computations,
            end=end,
            has_entry=has_entry,
            unknown_attributes=self._check.unknown,
        )

    def _head(self, position: int) -> re.Match[str] | None:
        """Return the match of the first line of a computation, or None."""
        if patterns.HEADER_START.match(self.text, position):
            return None
        match = patterns.LINE_COMPUTATION.match(self.text, position)
        return match if match is not None and self._is_head(match) else None
