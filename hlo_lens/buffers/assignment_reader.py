"""Text of a BufferAssignment, and of its used values, to the model.

The scanner reads it in one pass over the lines, or the grammar alone, which is the reference of the
scanner. A text has the allocations alone, the used values alone (since April 2026 they have a file
of their own), or both followed by the live range (before); a log may have several of each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hlo_lens.buffers import patterns
from hlo_lens.buffers.assignment import BufferAssignment
from hlo_lens.buffers.assignment_draft import BufferDraft
from hlo_lens.buffers.assignment_grammar import NAMES, UNKNOWN_SHAPE, Places, parser, read_items
from hlo_lens.buffers.columns import (
    OUTPUT_SHAPE,
    OUTPUT_SHAPE_END,
    PARAMETER_SHAPE,
    PARAMETER_SHAPE_END,
)
from hlo_lens.buffers.lines import (
    ANY_HEADER,
    Node,
    ShapeCheck,
    first_found,
    header_of_others,
    scan_source,
    source_of,
)
from hlo_lens.buffers.values import BufferValues
from hlo_lens.grammar.reader_choice import ReaderName, uses_grammar
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source, Span


def parse_buffer_assignment(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    reader: ReaderName = "scanner",
) -> BufferAssignment:
    """Return the allocations of a text, with its used values if it has any.

    Unread parts are listed in its ``gaps``. A live range in the same text is skipped:
    `parse_live_range` reads it. Of several assignments the first is returned, with a gap at the
    start of the second.

    Args:
        text: A ``-buffer-assignment.txt`` dump of any year, or a log with one in it.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        reader: ``grammar`` reads by the grammar alone and raises at the first error.

    Raises:
        DumpSyntaxError: If it has no allocations, or, if strict, at the first gap.
    """
    scan = _read(source_of(text, path), reader)
    second = "a second BufferAssignment (hlo_lens.load reads them all)"
    return first_found(scan, scan.assignments, EXPECTED, second, strict=strict)


def parse_buffer_values(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    reader: ReaderName = "scanner",
) -> BufferValues:
    """Return the used values of a text: alone, or after the allocations.

    Args:
        text: A ``-buffer-assignment-values.txt`` dump, or a ``-buffer-assignment.txt`` of the
            years before April 2026.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        reader: ``grammar`` reads by the grammar alone and raises at the first error.

    Raises:
        DumpSyntaxError: If it has none, or, if strict, at the first gap.
    """
    scan = _read(source_of(text, path), reader)
    second = "a second list of used values (hlo_lens.load reads them all)"
    return first_found(scan, scan.values, "'Used values:'", second, strict=strict)


def _read(source: Source, reader: ReaderName) -> BufferDraft:
    if not uses_grammar(reader):
        return scan_source(source, BufferScan)
    from hlo_lens.buffers.grammar_reader import read_buffer_dump

    buffers, _ = read_buffer_dump(source)
    return buffers


_ASSIGNMENT = re.compile(r"BufferAssignment:[ \t]*+(?:\n|\Z)")
_USED = re.compile(r"Used values:[ \t]*+(?:\n|\Z)")
_OLD_REPORT = re.compile(r"Total bytes used: [^\n]*+\s++Allocations sorted by size")
_OTHERS = header_of_others(DumpKind.BUFFER_ASSIGNMENT, DumpKind.BUFFER_VALUES)

_OWN = re.compile(r"\n(?=BufferAssignment:|Total bytes used: |Used values:|\*\*\* (?:Begin|End) )")
"""Line ends after which this reader resumes behind the text of another dump."""

_RESUME = re.compile(rf"\n(?=[ \t]*+(?:allocation \d|value: <|<\d++ |reused by |{ANY_HEADER}))")
"""Line ends after which reading resumes behind unreadable text."""

_LIKE = re.compile(
    r"[ \t]*+(?:(allocation[ \t]++\d)|(value[ \t]*+:)|(<[ \t]*+\d)|(Total bytes used))"
)
"""Apparent kind of a line: allocation, value in an allocation, used value, total."""

_TORN = re.compile(r"[ \t]*+(?:positions:|uses(?::| are)|from instruction:)")
"""A line of a used value without its first line."""

_OF_OTHER_COLOR = re.compile(r"> *+\( *+color")

_BLOCK_END = re.compile(
    r"\n(?=<\d|allocation \d|[ \t]*+(?:\n|\Z)|BufferAssignment:|HloLiveRange |\*\*\* )"
    r"|(?<=.)(?=<\d++ [^<>\n]++>\n positions:)"
)
"""End of a used value that is not in XLA's layout."""

EXPECTED = "'BufferAssignment:', an allocation or a value"


class BufferScan(BufferDraft):
    """One pass over a source."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._shapes = ShapeCheck()

    # ---- lines ---------------------------------------------------------------------------------

    def _unit(self, position: int) -> int:
        """Read lines from one that is not blank, and return the offset after them."""
        end = self._printed(position)
        if end == position:
            end = self._irregular(position)
        if end == len(self.text) and self.text[-1] != "\n":
            self.is_damaged = True  # XLA ends every line: this one may be cut off
        return end

    def _printed(self, position: int) -> int:
        """Read lines in XLA's layout, up to the first other line; return the offset after them."""
        start = -1
        while start != position:
            start = position
            position = self._allocations(position)
            position = self._allocation_of_items(position)
            position = self._used_values(position)
        return position

    def _allocations(self, position: int) -> int:
        """Read allocations with their values; return the offset after them."""
        part = self.part
        if not isinstance(part, BufferAssignment):
            return position
        text, right = self.text, self._shapes.right
        match_value, match_allocation = patterns.ASSIGNED_VALUE.match, patterns.ALLOCATION.match
        extend, extend_values = part.columns.cells.extend, part.assigned.cells.extend
        values = len(part.assigned)
        rows = len(part.columns)
        while True:
            match = match_value(text, position)
            if match is not None and rows:
                (
                    (_, end),
                    (number, _),
                    (name, name_end),
                    (_, index_end),
                    (size, _),
                    (offset, _),
                    (shape, shape_end),
                ) = match.regs
                if text[shape:shape_end] not in right and not self._is_shape(shape, shape_end):
                    return position
                extend_values((number, name, name_end, index_end, size, offset, shape, shape_end))
                values += 1
            else:
                match = match_allocation(text, position)
                cells = None if match is None else self._cells(match.regs, values)
                if match is None or cells is None:
                    return position
                extend(cells)
                rows += 1
                end = match.end()
            position = end

    def _cells(self, regs: tuple[tuple[int, int], ...], values: int) -> tuple[int, ...] | None:
        """Return the cells of an allocation line; None if a shape in it is malformed."""
        (
            _,
            (number, _),
            (size, _),
            (color, _),
            (page, _),
            (parameter, _),
            (shape, shape_end),
            (index, index_end),
            (output, output_end),
            (constant, _),
            (local, _),
            (live_out, _),
            (temp, _),
        ) = regs
        if shape >= 0 and not self._is_parameter_shape(shape, shape_end):
            return None
        if output >= 0 and not self._is_shape(output, output_end):
            return None
        flags = (constant > 0) + 2 * (local > 0) + 4 * (live_out > 0) + 8 * (temp > 0)
        return (
            *(number, size, color, page, parameter, shape, shape_end, index, index_end),
            *(output, output_end, flags, values),
        )

    def _is_shape(self, start: int, end: int) -> bool:
        return self._shapes.problem(self.text[start:end]) is None

    def _is_parameter_shape(self, start: int, end: int) -> bool:
        text = self.text[start:end]
        return text == UNKNOWN_SHAPE or self._shapes.problem(text) is None

    def _allocation_of_items(self, position: int) -> int:
        """Read an allocation line with unknown words, or in another order."""
        match = patterns.ALLOCATION_OF_ITEMS.match(self.text, position)
        if match is None:
            return position
        read = read_items(self.text, match)
        if read is None or self._bad_shape(read.cells) is not None:
            return position
        self.add_allocation(read.cells, read.other)
        return match.end()

    def _used_values(self, position: int) -> int:
        """Read used values in XLA's layout; return the offset after them."""
        text, match_value = self.text, patterns.USED_VALUE.match
        part = self.part
        while (match := match_value(text, position)) is not None:
            if not isinstance(part, BufferValues):
                part = self.begin_values(position)
            (
                (_, end),
                (number, _),
                (name, name_end),
                (_, index_end),
                (positions, positions_end),
                (uses, uses_end),
                (origin, origin_end),
            ) = match.regs
            if text.startswith(" positions:", end):
                end = origin_end = self._next_id(origin, origin_end)
            part.columns.cells.extend(
                (
                    *(number, name, name_end, index_end),
                    *(positions, positions_end, uses, uses_end, origin, origin_end),
                )
            )
            position = end
        return position

    def _next_id(self, start: int, end: int) -> int:
        """Return the start of the next value on the line of this one's instruction.

        XLA of mid-2024 (jaxlib 0.4.30 to 0.4.35) prints the next value's id on the same line.
        """
        place = self.text.rfind("<", start, end)
        return end if patterns.VALUE_ID.fullmatch(self.text, max(0, place), end) is None else place

    def _irregular(self, position: int) -> int:
        """Read a header, or a line that is not in XLA's layout."""
        text = self.text
        if (match := _ASSIGNMENT.match(text, position)) is not None:
            self.begin_assignment(position, has_header=True)
            return match.end()
        if _OLD_REPORT.match(text, position) or _OTHERS.match(text, position):
            return self._others(position)
        if (match := patterns.TOTAL.match(text, position)) is not None:
            self.add_total(int(match[1]), match[2], position)
            return match.end()
        if (match := _USED.match(text, position)) is not None:
            if not isinstance(self.part, BufferValues) or len(self.part):
                self.begin_values(position)
            self.has_header = True
            return match.end()
        if (match := patterns.REUSED.match(text, position)) is not None:
            return match.end()
        if (match := patterns.REUSED_VALUE.match(text, position)) is not None:
            cells = (match.start(1), *match.span(2), match.end(3), match.start(4))
            self.add_reused(cells, position, match.end())
            return match.end()
        if (like := _LIKE.match(text, position)) is not None:
            return self._by_grammar(like.lastindex or 0, position)
        if _TORN.match(text, position):
            self.is_damaged = True
        return self.skip_junk(position, _RESUME, EXPECTED)

    def _others(self, position: int) -> int:
        """Skip a dump of another kind; return its end."""
        if self.text.startswith("***", position):
            self.end()
            self.owner = None
        return self.after_other_dump(position, _OWN)

    # ---- the grammar ---------------------------------------------------------------------------

    def _by_grammar(self, kind: int, position: int) -> int:
        """Read a line or block that is not in XLA's layout by the grammar; return its end."""
        rule = ("allocation_line", "assigned_value", "used_value", "total")[kind - 1]
        end = self.next_line(position)
        if rule == "used_value":
            match = _BLOCK_END.search(self.text, position + 1)
            end = len(self.text) if match is None else match.end()
        elif rule == "assigned_value" and _OF_OTHER_COLOR.search(self.text, position, end):
            rule = "reused_value"
        tree = self.ask(parser(), NAMES, rule, position, end)
        if tree is not None:
            self._add_tree(rule, tree, position, end)
        return end

    def _add_tree(self, rule: str, tree: Node, position: int, end: int) -> None:
        """Add the values that the grammar read, or a gap for a malformed shape."""
        places, problem = Places(position), None
        if rule == "allocation_line":
            read = places.allocation(tree)
            problem = self._bad_shape(read.cells)
            if problem is None:
                self.add_allocation(read.cells, read.other)
        elif rule == "assigned_value":
            cells = places.assigned_value(tree)
            problem = self._shape_problem(cells[-2], cells[-1]) if self.has_allocation else None
            if problem is None:
                self.add_assigned(cells, position, end)
        elif rule == "reused_value":
            self.add_reused(places.reused_value(tree), position, end)
        elif rule == "used_value":
            self.add_used(places.used_value(tree))
        else:
            self.add_total_tree(tree, position)
        if problem is not None:
            self.add_error(problem)

    def _bad_shape(self, cells: Sequence[int]) -> DumpSyntaxError | None:
        """Return the error of a malformed shape in an allocation line, or None."""
        start, end = cells[PARAMETER_SHAPE], cells[PARAMETER_SHAPE_END]
        if start and self.text[start:end] != UNKNOWN_SHAPE:
            problem = self._shape_problem(start, end)
            if problem is not None:
                return problem
        start, end = cells[OUTPUT_SHAPE], cells[OUTPUT_SHAPE_END]
        return self._shape_problem(start, end) if start else None

    def _shape_problem(self, start: int, end: int) -> DumpSyntaxError | None:
        """Return the error of a malformed shape between two offsets, or None."""
        problem = self._shapes.problem(self.text[start:end])
        if problem is None:
            return None
        place = min(end, start + problem.column - 1)
        return DumpSyntaxError.at(self.source, Span(place, max(end, place + 1)), problem.message)
