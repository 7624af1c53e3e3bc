"""Text of a BufferAssignment, and of its used values, to the model.

A text has the allocations alone, the used values alone (since April 2026 they have a file of their
own), or both followed by the live range (before); a log may have several of each.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from hlo_lens.buffers.assignment import (
    ALLOCATION_STRIDE,
    ASSIGNED_STRIDE,
    FILES,
    REUSED_STRIDE,
    USED_STRIDE,
    BufferAssignment,
    BufferColumns,
    BufferValues,
    allocation_shapes,
)
from hlo_lens.buffers.lines import (
    ANY_HEADER,
    NAMES as LINE_NAMES,
    RuleScan,
    ShapeCheck,
    first_found,
    header_of_others,
    one_of,
    scan_text,
)
from hlo_lens.grammar.lines import LineParser, LineRule, terminal
from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.shapes.shape import SHAPE_NAMES
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source, Span

if TYPE_CHECKING:
    from hlo_lens.grammar.files import Spans
    from hlo_lens.hlo.module import HloModule


def parse_buffer_assignment(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> BufferAssignment:
    """Return the allocations of a text, with its used values if it has any.

    Unread parts are listed in its ``gaps``. A live range in the same text is skipped:
    `parse_live_range` reads it. Of several assignments the first is returned, with a gap at the
    start of the second.

    Args:
        text: A ``-buffer-assignment.txt`` dump of any year, or a log with one in it.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.

    Raises:
        DumpSyntaxError: If it has no allocations, or, if strict, at the first gap.
    """
    scan = scan_text(text, path, BufferScan)
    second = "a second BufferAssignment (hlo_lens.load reads them all)"
    return first_found(scan, scan.assignments, BufferScan.expected, second, strict=strict)


def parse_buffer_values(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> BufferValues:
    """Return the used values of a text: alone, or after the allocations.

    Args:
        text: A ``-buffer-assignment-values.txt`` dump, or a ``-buffer-assignment.txt`` of the
            years before April 2026.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.

    Raises:
        DumpSyntaxError: If it has none, or, if strict, at the first gap.
    """
    scan = scan_text(text, path, BufferScan)
    second = "a second list of used values (hlo_lens.load reads them all)"
    return first_found(scan, scan.values, "'Used values:'", second, strict=strict)


_TITLE = LineRule("assignment_title", *FILES)
_ALLOCATION = LineRule("allocation", *FILES)
_ASSIGNED = LineRule("assigned_value", *FILES)
_REUSED_TITLE = LineRule("reused_title", *FILES)
_REUSED = LineRule("reused_value", *FILES)
_TOTAL = LineRule("total", *FILES)
_VALUES_TITLE = LineRule("values_title", *FILES)
_USED = LineRule("used_value", *FILES, is_line=False)
_RULES = (*(_TITLE, _ALLOCATION, _ASSIGNED, _REUSED_TITLE, _REUSED, _TOTAL, _VALUES_TITLE, _USED),)

NAMES = {
    **LINE_NAMES,
    **SHAPE_NAMES,
    "_ALLOCATION": "'allocation'",
    "_COLOR": "'color'",
    "_PAGE": "'page'",
    "_PARAMETER": "'parameter'",
    "_POINTER": "a pointer",
    "_FROM": "'from instruction:'",
    "_VALUE_OPEN": "'<'",
    **dict.fromkeys(("CONSTANT", "THREAD_LOCAL", "MAYBE_LIVE_OUT", "PREALLOCATED_TEMP"), "a word"),
    **dict.fromkeys(("ALLOCATION_NUMBER", "BYTES", "OFFSET", "VALUE_NUMBER"), "a number"),
    **dict.fromkeys(("ALLOCATION_COLOR", "COLOR", "PAGE", "PARAMETER", "OPERAND"), "a number"),
    **dict.fromkeys(("_VALUE_COLOR", "TOTAL"), "a number"),
}
"""Names of the terminals for users."""

PARSER = LineParser(*FILES, rules=_RULES, names=NAMES)


class BufferScan(RuleScan):
    """One pass over a source: its assignments and lists of used values, one of them being filled.

    Attributes:
        assignments: Assignments found so far.
        values: Lists of used values found so far, those of the assignments included.
        part: The assignment or list being filled.
        owner: The assignment to which the next list of used values belongs.
        has_header: Whether the header of the part was found.
    """

    parser = PARSER
    expected = "'BufferAssignment:', an allocation or a value"
    others = header_of_others(DumpKind.BUFFER_ASSIGNMENT, DumpKind.BUFFER_VALUES)
    own_titles = (_TITLE, _TOTAL, _VALUES_TITLE)
    landmarks = (_ALLOCATION, _ASSIGNED, _USED, _REUSED_TITLE)

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.assignments: list[BufferAssignment] = []
        self.values: list[BufferValues] = []
        self.part: BufferAssignment | BufferValues | None = None
        self.owner: BufferAssignment | None = None
        self.has_header = False
        self.rules = (
            (_ASSIGNED, self._assigned_value),
            (_ALLOCATION, self._allocation),
            (_USED, self._used_value),
            (_REUSED, self._reused_value),
            (_REUSED_TITLE, lambda _: None),
            (_TITLE, self._title),
            (_TOTAL, self._total),
            (_VALUES_TITLE, self._values_title),
        )
        self._shapes = ShapeCheck()
        self._right_words: set[str] = set()

    # ---- parts ---------------------------------------------------------------------------------

    def _begin_assignment(self, start: int, *, has_header: bool) -> BufferAssignment:
        """End the previous part and begin an assignment."""
        self.end()
        self.has_header = has_header
        self.part = self.owner = BufferAssignment(
            columns=BufferColumns(self.source, ALLOCATION_STRIDE),
            assigned=BufferColumns(self.source, ASSIGNED_STRIDE),
            reused_columns=BufferColumns(self.source, REUSED_STRIDE),
            start=start,
        )
        self.assignments.append(self.part)
        return self.part

    def _begin_values(self, start: int) -> BufferValues:
        """End the previous part and begin used values; they belong to the previous assignment."""
        self.end()
        self.has_header = False
        self.part = BufferValues(columns=BufferColumns(self.source, USED_STRIDE), start=start)
        if self.owner is not None and self.owner.values is None:
            self.owner.values = self.part
        else:
            self.owner = None
        self.values.append(self.part)
        return self.part

    def end(self) -> None:
        """End the part: set its gaps, and whether it is complete."""
        part, self.part = self.part, None
        if part is None:
            return
        part.gaps = gaps = self.take_gaps()
        part.is_complete = self.has_header and not self.is_damaged
        self.is_damaged = False
        if isinstance(part, BufferAssignment):
            rows = len(part.columns)
            if rows and not part.value_rows(rows - 1) and part.allocations[-1].size:
                part.ends_without_values = part.is_complete  # most without values have size 0
                part.is_complete = False
        elif self.owner is not None:
            owner = self.owner
            owner.gaps = (*owner.gaps, *gaps)
            total = part.total_bytes
            if total is not None and total != owner.allocated_bytes:
                owner.is_complete = False
            if len(part) != len(owner.assigned):  # XLA lists each value of each allocation
                part.is_complete = False
            owner.is_complete = owner.is_complete_with(part) and part.is_complete

    def end_before_others(self, position: int) -> None:
        """End what is being filled at the frame of a file in a log."""
        if self.text.startswith("***", position):
            self.end()
            self.owner = None

    # ---- lines ---------------------------------------------------------------------------------

    def _title(self, spans: Spans) -> None:
        self._begin_assignment(spans[0][0], has_header=True)

    def _allocation(self, spans: Spans) -> DumpSyntaxError | None:
        _, (number, _), (size, _), (words, words_end) = spans
        text = self.text[words:words_end]
        if text not in self._right_words:
            for first, last in allocation_shapes(text):
                if problem := self._shape_problem(words + first, words + last):
                    return problem
            self._right_words.add(text)
        part = self.part
        if not isinstance(part, BufferAssignment):
            part = self._begin_assignment(number, has_header=False)
        part.columns.cells.extend((number, size, words, words_end, len(part.assigned)))
        return None

    def _assigned_value(self, spans: Spans) -> DumpSyntaxError | None:
        (start, end), (number, _), (name, name_end), (_, index_end), *places = spans
        (size, _), (offset, _), (shape, shape_end) = places
        part = self.part
        if not isinstance(part, BufferAssignment) or not part.columns.cells:
            self.refuse(start, end, "a value outside any allocation")
            return None
        if self.text[shape:shape_end] not in self._shapes.right:
            problem = self._shape_problem(shape, shape_end)
            if problem is not None:
                return problem
        index_end = name_end if index_end < 0 else index_end
        part.assigned.cells.extend(
            (number, name, name_end, index_end, size, offset, shape, shape_end)
        )
        return None

    def _reused_value(self, spans: Spans) -> None:
        (start, end), (number, _), (name, name_end), (_, index_end), (color, _) = spans
        part = self.part
        if not isinstance(part, BufferAssignment) or not part.columns.cells:
            self.refuse(start, end, "a value outside any allocation")
            return
        rows = part.reused_rows.setdefault(len(part.columns) - 1, [])
        rows.append(len(part.reused_columns))
        index_end = name_end if index_end < 0 else index_end
        part.reused_columns.cells.extend((number, name, name_end, index_end, color))

    def _total(self, spans: Spans) -> None:
        (start, _), total, text = spans
        part = self._begin_values(start)
        part.total_bytes, part.total_text = int(self.text[slice(*total)]), self.text[slice(*text)]

    def _values_title(self, spans: Spans) -> None:
        if not isinstance(self.part, BufferValues) or len(self.part):
            self._begin_values(spans[0][0])
        self.has_header = True

    def _used_value(self, spans: Spans) -> None:
        (start, _), (number, _), (name, name_end), (_, index_end), *lists = spans
        part = self.part
        if not isinstance(part, BufferValues):
            part = self._begin_values(start)
        index_end = name_end if index_end < 0 else index_end
        part.columns.cells.extend((number, name, name_end, index_end))
        for places in lists:  # positions, uses, instruction
            part.columns.cells.extend(places)

    def _shape_problem(self, start: int, end: int) -> DumpSyntaxError | None:
        """Return the error of a malformed shape between two offsets, or None."""
        problem = self._shapes.problem(self.text[start:end])
        if problem is None:
            return None
        place = min(end, start + problem.column - 1)
        return DumpSyntaxError.at(self.source, Span(place, max(end, place + 1)), problem.message)

    def unit_end(self, rule: LineRule, position: int) -> int:
        """Return the end of a line; of a used value, the end of its lines."""
        if rule is not _USED:
            return self.next_line(position)
        match = _block_end().search(self.text, position + 1)
        return len(self.text) if match is None else match.end()

    def skip_junk(self, position: int, resume: re.Pattern[str]) -> int:
        """Note a gap; a line of a used value without its first line shows that one is lost."""
        if _torn().match(self.text, position):
            self.is_damaged = True
        return super().skip_junk(position, resume)


@functools.cache
def _torn() -> re.Pattern[str]:
    words = ("_POSITIONS", "_USES", "_UNINITIALIZED", "_FROM")
    return re.compile(rf"[ \t]*+(?:{'|'.join(terminal(word, *FILES) for word in words)})")


@functools.cache
def _block_end() -> re.Pattern[str]:
    """Return the pattern of the end of a used value that is not in XLA's layout."""
    rules = one_of((_USED, _ALLOCATION, _TITLE))
    positions = terminal("_POSITIONS", *FILES)
    return re.compile(
        rf"\n(?={rules}|[ \t]*+(?:\n|\Z)|{ANY_HEADER})"
        rf"|(?<=.)(?=<\d++ [^<>\n]++>\n {positions})"
    )


def value_instructions(assignment: BufferAssignment, values: BufferValues) -> HloModule | None:
    """Return a module of the defining instructions; None if none is printed.

    Args:
        assignment: Allocations of the values.
        values: The used values.
    """
    inner = {
        value.instruction_name
        for allocation in assignment.allocations
        if allocation.is_thread_local
        for value in allocation.values
    }
    texts = dict.fromkeys(
        value.instruction_text for value in values if value.instruction_name not in inner
    )
    lines = [f"  {text}\n" for text in texts if text]
    if not lines:
        return None
    text = "".join(
        ("HloModule values\n\nENTRY values {\n", *lines[:-1], "  ROOT", lines[-1], "}\n")
    )
    try:
        return parse_hlo(text)
    except DumpSyntaxError:
        return None
