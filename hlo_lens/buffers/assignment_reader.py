"""Text of a BufferAssignment, and of its used values, to the model.

A text has the allocations alone, the used values alone (since April 2026 they have a file of their
own), or both followed by the live range (before); a log may have several of each.

`RuleScan` is the base of the scanners of all buffer-side texts. It matches lines in XLA's layout. A
line of the dump in another layout goes to the grammar; a line that the grammar refuses is a gap.
Text of other dumps in the same file is no gap, as it has readers of its own.
"""

from __future__ import annotations

import codecs
import functools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from hlo_lens.buffers.assignment import (
    ALLOCATION_STRIDE,
    ASSIGNED_STRIDE,
    FILES,
    USED_STRIDE,
    BufferAssignment,
    BufferColumns,
    BufferValues,
)
from hlo_lens.grammar.lines import LineParser, LineRule, terminal
from hlo_lens.hlo.module_reader import parse_hlo
from hlo_lens.hlo.text import LINE_SHAPE
from hlo_lens.shapes.shape import SHAPE_NAMES, parse_shape
from hlo_lens.text.dump_kinds import (
    BUFFER_HEADERS,
    BUFFER_ROWS,
    HLO_MODULE,
    ROW_OF,
    TOTAL_BYTES,
    DumpKind,
)
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.source import Source, Span, clean, cut_log_prefixes, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hlo_lens.grammar.files import Spans
    from hlo_lens.hlo.module import HloModule


GRAMMAR_LIMIT = 1 << 20
"""Longest line or block, in characters, that the grammar parses."""

_MOST_ASKED = 4096
"""Most failed parses by the grammar in one text."""

_MOST_GAPS = 4096
"""Most separate gaps; further ones are counted in the last."""

BLANK = re.compile(r"(?:[ \t]*+\n)++|[ \t]++\Z")


ANY_HEADER = "|".join((r"\*\*\* ", HLO_MODULE, *map(re.escape, BUFFER_HEADERS)))
"""Beginnings of the header lines of all dumps that may be in one file."""


_OF_REPORT = rf"[^\n]*+\s++{ROW_OF[DumpKind.MEMORY_USAGE_REPORT].headers[1]}"


def header_of_others(*own: DumpKind) -> re.Pattern[str]:
    """Return the pattern of lines that begin a dump of another kind than some."""
    others = [re.escape(w) for row in BUFFER_ROWS if row.kind not in own for w in row.headers]
    # The used values and the report of the years 2024 to 2026 begin with the same line.
    if DumpKind.MEMORY_USAGE_REPORT in own:
        others.append(rf"{TOTAL_BYTES}(?!{_OF_REPORT})")
    else:
        others.append(
            rf"{TOTAL_BYTES}(?={_OF_REPORT})" if DumpKind.BUFFER_VALUES in own else TOTAL_BYTES
        )
    return re.compile("|".join((r"\*\*\* (?:Begin|End) ", rf"{HLO_MODULE[:-1]}[ ,\n]", *others)))


LINE_NAMES: Mapping[str, str] = {
    "NATURAL": "a number",
    "SMALL": "a number",
    "SIGNED": "a number",
    "SPACED": "a number",
    "HUMAN_SIZE": "a size such as 8.00MiB",
    "VALUE_NAME": "a name",
    "LESSTHAN": "'<'",
    "MORETHAN": "'>'",
    "AT": "'@'",
    "VBAR": "'|'",
    "SEMICOLON": "';'",
    "MINUS": "'-'",
    "PHI": "'(phi)'",
    "OTHER": "a word",
}
"""Names for users of the terminals of the buffer grammars."""

_Scan = TypeVar("_Scan", bound="RuleScan")


class ReadText(Protocol):
    """A dump that was read: where it begins, and its parts that could not be read."""

    gaps: tuple[Gap, ...]
    start: int


_Read = TypeVar("_Read", bound=ReadText)


class RuleScan:
    """One pass over a source whose lines follow line rules, with the gaps so far.

    A line in another layout than XLA's goes to Lark; one that Lark refuses is a gap.

    Attributes:
        parser: Reads the lines that are not in XLA's layout.
        rules: Each line rule and the method that takes its spans: it returns None, or the error of
            a line that is well formed and wrong. The likeliest come first.
        expected: What a text of this kind has, for messages.
        others: Lines that begin a dump of another kind.
        own_titles: Rules at whose lines reading resumes behind such a dump.
        landmarks: Rules at whose lines it resumes behind unreadable text.
        junk: Number of runs of lines that were not of the dump.
        is_damaged: Whether a line of the dump itself was refused, or the last one is cut off.
    """

    parser: LineParser
    rules: Sequence[tuple[LineRule, Callable[[Spans], DumpSyntaxError | None]]]
    expected: str
    others: re.Pattern[str]
    own_titles: Sequence[LineRule]
    landmarks: Sequence[LineRule]

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.gaps: list[Gap] = []
        self.junk = 0
        self.is_damaged = False
        self._asked = 0
        self._first_gap = 0

    def run(self) -> None:
        position, size = 0, len(self.text)
        while position < size:
            blank = BLANK.match(self.text, position)
            position = self._unit(position) if blank is None else blank.end()
        self.end()

    def end(self) -> None:
        raise NotImplementedError

    def take_gaps(self) -> tuple[Gap, ...]:
        gaps = tuple(self.gaps[self._first_gap :])
        self._first_gap = len(self.gaps)
        return gaps

    def _unit(self, position: int) -> int:
        """Read from the start of a line that is not blank; return the offset after it."""
        text = self.text
        if self.others.match(text, position):
            self.end_before_others(position)
            if text.startswith("***", position):  # a frame of a log
                return self.next_line(position)
            own = rf"\n(?={one_of(self.own_titles)}|\*\*\* (?:Begin|End) )"
            return self._next_match(position, re.compile(own))
        for rule, take in self.rules:
            start = position
            while (match := rule.match(text, position)) and take(match.regs) is None:
                position = match.end()
            if position > start:
                break
        else:
            position = self._irregular(position)
        if position == len(text) and text[-1] != "\n":
            self.note_cut()
        return position

    def note_cut(self) -> None:
        self.is_damaged = True

    def _irregular(self, position: int) -> int:
        """Read a line in another layout by Lark, or skip text that is not of this dump."""
        text = self.text
        rules = [pair for pair in self.rules if pair[0].begins.match(text, position)]
        if not rules:
            resume = rf"\n(?={one_of(self.landmarks)}|[ \t]*+(?:{ANY_HEADER}))"
            return self.skip_junk(position, re.compile(resume))
        end = self.unit_end(rules[0][0], position)
        lines = text.count("\n", position, max(position, end - 1)) + 1
        if end - position > GRAMMAR_LIMIT or self._asked >= _MOST_ASKED:
            self.is_damaged = True
            size = f"{(end - position) / 1e6:.1f} MB"
            self._add_gap(position, position + 1, f"not written as XLA prints it ({size})", lines)
            return end
        errors: list[DumpSyntaxError] = []
        for rule, take in rules:
            try:
                problem = take(self.parser.spans(rule, self.source, position, end))
            except DumpSyntaxError as refused:
                self._asked += 1
                problem = refused
            if problem is None:
                return end
            errors.append(problem)
        self.is_damaged = True
        farthest = max(errors, key=lambda error: (error.line, error.column))
        if self._has_room(lines):
            self.gaps.append(Gap.of(farthest, lines))
        return end

    def unit_end(self, rule: LineRule, position: int) -> int:  # for subclasses
        return self.next_line(position)

    def end_before_others(self, position: int) -> None:  # for subclasses
        self.end()

    def refuse(self, position: int, end: int, message: str) -> None:
        self.is_damaged = True
        lines = self.text.count("\n", position, max(position, end - 1)) + 1
        self._add_line_gap(position, message, lines)

    def skip_junk(self, position: int, resume: re.Pattern[str]) -> int:
        """Note a gap for text that is not of the dump; return the offset after it."""
        end = self._next_match(position, resume)
        lines = self.text[position:end].rstrip().count("\n") + 1
        self.junk += 1
        if end == len(self.text) and not self.text.endswith("\n"):
            self.is_damaged = True
        self._add_line_gap(position, f"expected {self.expected}", lines)
        return end

    def _add_line_gap(self, position: int, message: str, lines: int) -> None:
        end = self._line_end(position)
        line = self.text[position:end]
        self._add_gap(position + len(line) - len(line.lstrip(" \t")), end, message, lines)

    def _add_gap(self, start: int, end: int, message: str, lines: int) -> None:
        if self._has_room(lines):
            self.gaps.append(Gap.at(self.source, Span(start, max(end, start + 1)), message, lines))

    def _has_room(self, lines: int) -> bool:
        if len(self.gaps) < _MOST_GAPS:
            return True
        self.gaps[-1] = replace(self.gaps[-1], lines=self.gaps[-1].lines + lines)
        return False

    def _line_end(self, position: int) -> int:
        """Return the end of the line of an offset, without its line end."""
        end = self.text.find("\n", position)
        return len(self.text) if end < 0 else end

    def next_line(self, position: int) -> int:
        return min(len(self.text), self._line_end(position) + 1)

    def _next_match(self, position: int, pattern: re.Pattern[str]) -> int:
        match = pattern.search(self.text, self._line_end(position))
        return len(self.text) if match is None else match.end()


def one_of(rules: Iterable[LineRule]) -> str:
    """Return the regular expression of the first token of a line of some rules."""
    return "|".join(dict.fromkeys(rule.beginning for rule in rules))


_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BRANCHES = re.compile(rb"^ *+(?:\xe2\x94[\x80\x82\x94\x9c] *+)++", re.MULTILINE)
_AS_ASCII = str.maketrans("│├└─", "|+`-")


def source_of(text: str | bytes | Source, path: str) -> Source:
    """Return the source of a text or of the bytes of a file; a source unchanged.

    The branches of a stack-trace tree become ``|``, ``+``, `` ` `` and ``-``: a single character
    that is not ASCII doubles the memory of the text in Python.
    """
    if isinstance(text, Source):
        return text
    if isinstance(text, str):
        return clean(text, path)
    if not text.isascii() and text[:2] not in _UTF16:
        text = _BRANCHES.sub(lambda m: m[0].decode().translate(_AS_ASCII).encode(), text)
    return clean(decode(text), path)


def scan_text(text: str | bytes | Source, path: str, make: Callable[[Source], _Scan]) -> _Scan:
    """Return a finished scan; if lines were junk, one without the prefixes of a log."""
    source = source_of(text, path)
    scan = make(source)
    scan.run()
    if scan.junk and not source.cuts.offsets and (cut := cut_log_prefixes(source)) is not None:
        scan = make(cut)
        scan.run()
    return scan


def first_found(
    scan: RuleScan,
    found: Sequence[_Read],
    expected: str,
    second: str,
    *,
    strict: bool,
    width: int = 1,
) -> _Read:
    """Return the first dump of a scan; the start of a second one is a gap of `width` characters.

    Raises:
        DumpSyntaxError: If there is none, or, when strict, at the first gap.
    """
    if not found and scan.gaps:
        raise scan.gaps[0].as_error()
    if not found:
        raise DumpSyntaxError(f"expected {expected}, found nothing", path=scan.source.path)
    first = found[0]
    if len(found) > 1:
        start = found[1].start
        message = f"expected the end of the text, found {second}"
        first.gaps = (*first.gaps, Gap.at(scan.source, Span(start, start + width), message))
    if strict and first.gaps:
        raise first.gaps[0].as_error()
    return first


def parse_buffer_assignment(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> BufferAssignment:
    """Return the allocations of a text, with its used values if it has any.

    Unread parts are listed in its ``gaps``. A live range in the same text is skipped:
    `parse_live_range` reads it. Of several assignments the first is returned, with a gap at the
    start of the second. `path` is its name for messages.

    Raises:
        DumpSyntaxError: If it has no allocations, or, if strict, at the first gap.
    """
    scan = scan_text(text, path, BufferScan)
    second = "a second BufferAssignment (hlo_lens.load reads them all)"
    return first_found(scan, scan.assignments, BufferScan.expected, second, strict=strict)


def parse_buffer_values(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> BufferValues:
    """Return the used values of a text: alone, or after the allocations (before April 2026).

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
_RULES = (_TITLE, _ALLOCATION, _ASSIGNED, _REUSED_TITLE, _REUSED, _TOTAL, _VALUES_TITLE, _USED)

_NAMES = {
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


class BufferScan(RuleScan):
    """One pass over a source: its assignments and lists of used values, one of them being filled.

    Attributes:
        part: The assignment or list being filled.
        owner: The assignment to which the next list of used values belongs.
        has_header: Whether the header of the part was found.
    """

    parser = LineParser(*FILES, rules=_RULES, names=_NAMES)
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
            (_REUSED, lambda _: None),  # a value of another memory space in these bytes
            (_REUSED_TITLE, lambda _: None),
            (_TITLE, self._title),
            (_TOTAL, self._total),
            (_VALUES_TITLE, self._values_title),
        )
        self._shapes: dict[str, DumpSyntaxError | None] = {}  # with the errors of malformed ones

    # ---- parts ---------------------------------------------------------------------------------

    def _begin_assignment(self, start: int, *, has_header: bool) -> BufferAssignment:
        self.end()
        self.has_header = has_header
        self.part = self.owner = BufferAssignment(
            columns=BufferColumns(self.source, ALLOCATION_STRIDE),
            assigned=BufferColumns(self.source, ASSIGNED_STRIDE),
            start=start,
        )
        self.assignments.append(self.part)
        return self.part

    def _begin_values(self, start: int) -> BufferValues:
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
        if self.text.startswith("***", position):
            self.end()
            self.owner = None

    # ---- lines ---------------------------------------------------------------------------------

    def _title(self, spans: Spans) -> None:
        self._begin_assignment(spans[0][0], has_header=True)

    def _allocation(self, spans: Spans) -> None:
        _, (number, _), (size, _), (words, words_end) = spans
        part = self.part
        if not isinstance(part, BufferAssignment):
            part = self._begin_assignment(number, has_header=False)
        part.columns.cells.extend((number, size, words, words_end, len(part.assigned)))

    def _assigned_value(self, spans: Spans) -> DumpSyntaxError | None:
        (start, end), (number, _), (name, name_end), (_, index_end), *places = spans
        (size, _), (offset, _), (shape, shape_end) = places
        part = self.part
        if not isinstance(part, BufferAssignment) or not part.columns.cells:
            self.refuse(start, end, "a value outside any allocation")
            return None
        if problem := self._shape_problem(shape, shape_end):
            return problem
        index_end = name_end if index_end < 0 else index_end
        part.assigned.cells.extend(
            (number, name, name_end, index_end, size, offset, shape, shape_end)
        )
        return None

    def _total(self, spans: Spans) -> None:
        (start, _), total, _ = spans
        self._begin_values(start).total_bytes = int(self.text[slice(*total)])

    def _values_title(self, spans: Spans) -> None:
        if not isinstance(self.part, BufferValues) or len(self.part):
            self._begin_values(spans[0][0])
        self.has_header = True

    def _used_value(self, spans: Spans) -> None:
        (start, _), (number, _), (name, name_end), (_, index_end), (after, _), _, origin = spans
        part = self.part
        if not isinstance(part, BufferValues):
            part = self._begin_values(start)
        index_end = name_end if index_end < 0 else index_end
        part.columns.cells.extend((number, name, name_end, index_end, after, *origin))

    def _shape_problem(self, start: int, end: int) -> DumpSyntaxError | None:
        """Return the error of a malformed shape between two offsets, or None."""
        text = self.text[start:end]
        if text not in self._shapes:
            self._shapes[text] = _shape_error(text)
        problem = self._shapes[text]
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


_JUDGED = 1 << 20
"""Longest shape, in characters, that is parsed; of longer ones only the brackets are checked."""


def _shape_error(text: str) -> DumpSyntaxError | None:
    try:
        if len(text) <= _JUDGED:
            parse_shape(text)
        elif re.fullmatch(LINE_SHAPE, text) is None:
            return DumpSyntaxError("expected a shape")
    except DumpSyntaxError as error:
        return error
    return None


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
    """Return a module of the instructions that define used values; None if none is printed."""
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
    head = "HloModule values\n\nENTRY values {\n"
    try:
        return parse_hlo("".join((head, *lines[:-1], "  ROOT", lines[-1], "}\n")))
    except DumpSyntaxError:
        return None
