"""HLO module text to HloModule.

The scanner makes one anchored pass over the text; a second process reads ahead in a long one. At
each offset it tries the pattern of a printed instruction line, then a loose one, then the grammar
on that one instruction; text that none of them matches is a gap. Instructions become rows of
places; their parts are parsed on demand. The cost of a gap is bounded: text is read again only a
fixed number of times.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from hlo_lens.hlo.columns import (
    STRIDE,
    ComputationColumns,
    ComputationParts,
    HloRows,
    InstructionColumns,
    operands_of,
)
from hlo_lens.hlo.gaps import (
    MOST_EXPLAINED,
    SIGNATURE,
    AttributeCheck,
    ForeignLines,
    HloFallback,
    HloGaps,
    begins_line,
    follows_directly,
    has_body,
    line_is_foreign,
    missing_entry,
    repetitions,
)
from hlo_lens.hlo.metadata import read_tables
from hlo_lens.hlo.module import HloModule
from hlo_lens.hlo.text import (
    COMPUTATION_LIKE,
    FIRST_LETTERS,
    HEADER,
    HEADER_INSIDE,
    HEADER_START,
    INSTRUCTION_LIKE,
    LENIENT_COMPUTATION,
    LINE_CLOSE,
    LINE_COMPUTATION,
    LINE_INSTRUCTION,
    LONG_LINE,
    LOOSE_CLOSE,
    LOOSE_COMPUTATION,
    LOOSE_INSTRUCTION,
    NEXT_HEADER,
    TABLE,
    HloReader,
    HloUnits,
    parse_attributes,
)
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.processes import SecondProcess, start_second
from hlo_lens.text.source import Source, Span, clean, cut_log_prefixes, decode

if TYPE_CHECKING:
    from array import array


class HloScan:
    """One pass over a source: the module that is being filled, and its gaps so far.

    Attributes:
        is_strange: Whether any part of the text was no HLO.
    """

    def __init__(
        self,
        source: Source,
        progress: Callable[[int], None] | None,
        ahead: ScanAhead | None = None,
    ) -> None:
        self.source = source
        self.text = source.text
        self.modules: list[HloModule] = []
        self.gaps = HloGaps(source)
        self.is_strange = False
        self._failed = 0
        self._progress = progress
        self._ahead = ahead
        self._reader = HloReader()
        self._check = AttributeCheck(self._reader)
        self._units = HloUnits(source.text)
        self._fallback = HloFallback(source, self._check)
        self._foreign = ForeignLines()
        self._module: HloModule | None = None
        self._rows = HloRows(source)
        self._has_entry = False

    def run(self) -> None:
        position, size = 0, len(self.text)
        while True:
            position = self._units.blank(position)
            if position >= size:
                break
            if self._progress is not None:
                self._progress(position)
            read = None
            if self._ahead is not None and position == self._ahead.at:
                rows = None if self._module is None else self._rows
                read = self._ahead.take_rest(rows, has_entry=self._has_entry)
            if read is None:
                position = self._unit(position)
            else:
                self._has_entry |= read.has_entry
                self._check.unknown |= read.unknown_attributes
                position = read.end
        self._end_module(size)

    def _unit(self, position: int) -> int:
        text = self.text
        if text[position] in FIRST_LETTERS:
            if HEADER_START.match(text, position):
                return self._header(position)
            if TABLE.match(text, position):
                module = self._module or self._begin_module("", position)
                module.stack_frames, end = read_tables(text, position)
                return self._outside(end, headless=True) if follows_directly(text, end) else end
        match = LINE_COMPUTATION.match(text, position)
        if match is None:
            end = self._units.unit_end(position)
            match = LOOSE_COMPUTATION.match(text, position, end)
        if match is not None and self._is_head(match):
            return self._computation(match)
        if line_is_foreign(text, position, self._units.line_end(position)):
            return self._outside(position)
        if INSTRUCTION_LIKE.match(text, position, position + LONG_LINE):
            return self._stray_instructions(position)
        match = LENIENT_COMPUTATION.match(text, position)
        if match is not None:
            self.gaps.add(*match.span(), "expected a computation")
            return self._computation(match)
        return self._outside(position)

    def _is_head(self, match: re.Match[str]) -> bool:
        if match[1] is not None or match[3] is not None or "%" in match[0]:
            return True
        return has_body(self.text, match.end(), named=match[2] is not None)

    def _header(self, position: int) -> int:
        text = self.text
        match = HEADER.match(text, position)
        if match is None:
            return self._outside(position)
        module = self._begin_module(match[1] or "", position)
        start, end = match.span(2)
        header: dict[str, str] = {}
        for name, value in parse_attributes(text[start:end]):
            header.setdefault(name, value)
        module.header = header
        line_end = self._units.line_end(end)
        after = self._units.blank(end)
        if after < line_end and not LOOSE_COMPUTATION.match(text, after):
            self.gaps.add(end, line_end, "expected ',' and a header attribute")
            module.is_truncated = line_end >= len(text)
            return line_end
        bad = self._check.header(module.header)
        if bad is not None:
            place = text.find(f"{bad}=", start, end)
            self.gaps.add(place, end, f"expected another value of {bad}")
        return end

    def _begin_module(self, name: str, start: int) -> HloModule:
        self._end_module(start)
        self._has_entry = False
        self._rows = rows = HloRows(self.source)
        self._module = HloModule(
            name=name,
            columns=rows.columns,
            reader=self._reader,
            computation_columns=rows.computations,
            start=start,
        )
        return self._module

    def _end_module(self, end: int) -> None:
        module, self._module = self._module, None
        if module is None:
            return
        has_read = bool(module.computations)
        module.gaps, module.passed_lines, strange = self.gaps.take(has_read=has_read)
        gap = None
        if not self._has_entry and not module.is_truncated:
            gap = missing_entry(module, self._reader, end)
        if gap is not None:
            module.is_truncated = True
            if not module.gaps or module.gaps[-1].line + module.gaps[-1].lines <= gap.line:
                module.gaps = (*module.gaps, gap)
        if repeated := repetitions(module):
            gaps = (*module.gaps, *repeated)
            module.gaps = tuple(sorted(gaps, key=lambda gap: (gap.line, gap.column)))
        module.strange_spans = strange
        self.is_strange |= bool(strange)
        module.unknown_attributes = self._check.take_unknown()
        self.modules.append(module)

    def _computation(self, match: re.Match[str]) -> int:
        module = self._module or self._begin_module("", match.start())
        rows, first = self._rows, len(self._rows.columns)
        computation = ComputationParts(
            start=match.start(),
            name=match.span(2),
            signature=match.span(3),
            is_entry=match[1] is not None,
            is_complete=False,
        )
        if computation.is_entry and self._has_entry:
            self.gaps.add(match.start(1), match.start(1) + 5, "expected one ENTRY, found a second")
        self._has_entry |= computation.is_entry
        if match[3] and SIGNATURE.fullmatch(match[3]) is None:
            self.gaps.add(*match.span(3), "expected (name: shape, ...) -> shape")
        position = self._body(match.end(), computation)
        computation.rows = rows.take(first)
        rows.computations.add(computation)  # after bodies that it prints in place
        if not computation.is_complete and position >= len(self.text):
            module.is_truncated = True
        return position

    def _body(self, position: int, computation: ComputationParts, *, rooted: bool = False) -> int:
        """Read instructions up to the closing brace and return the offset after it.

        `rooted`: the computation has its ROOT.
        """
        text, rows, columns = self.text, self._rows, self._rows.columns
        extend, roots = columns.spans.extend, columns.roots
        match_line = LINE_INSTRUCTION.match
        shapes, attributes = self._check.shapes, self._check.attributes
        accepts = self._check.instruction
        row = len(columns)
        stop = -1 if self._ahead is None else self._ahead.at
        while position != stop:
            match = match_line(text, position)
            if match is not None:
                (
                    (_, end),
                    (root, _),
                    (name, name_end),
                    (shape, shape_end),
                    (opcode, opcode_end),
                    (operands, operands_end),
                    _,
                    (middle, middle_end),
                    (_, tail_end),
                ) = match.regs
                is_plain = (
                    operands >= 0
                    and text[shape:shape_end] in shapes
                    and (middle == middle_end or text[middle:middle_end] in attributes)
                )
                if is_plain or accepts(match):
                    if root >= 0:
                        self._check_root(root, is_second=rooted)
                        rooted = True
                        roots.append(row)
                    if operands < 0:
                        operands, operands_end = operands_of(match)
                    extend(
                        (
                            name,
                            name_end,
                            shape,
                            shape_end,
                            opcode,
                            opcode_end,
                            operands,
                            operands_end,
                            tail_end,
                        )
                    )
                    row += 1
                    position = end
                    continue
            start = position
            position, ends = self._irregular(position, computation)
            if ends:
                return position
            if len(columns) > row and roots and roots[-1] == len(columns) - 1:
                self._check_root(self._units.blank(start), is_second=rooted)
                rooted = True
            row = len(columns)
        read = None if self._ahead is None else self._ahead.take_body(rows, rooted=rooted)
        if read is None:
            return self._body(position, computation, rooted=rooted)
        computation.is_complete = True
        computation.attributes = read.body_attributes
        self._check.unknown |= read.unknown_attributes
        return read.body_end

    def _check_root(self, place: int, *, is_second: bool) -> None:
        if is_second:
            self.gaps.add(place, place + 4, "expected one ROOT, found a second")

    def _irregular(self, position: int, computation: ComputationParts) -> tuple[int, bool]:
        """Read an item of a body that is no printed instruction line.

        Returns its end, and whether the computation ends there.
        """
        text = self.text
        match = LINE_CLOSE.match(text, position)
        start = position
        if match is None:
            start = self._units.blank(position)
            if start >= len(text):
                end = len(text.rstrip())
                place = computation.name
                name = place if isinstance(place, str) else text[slice(*place)]
                name = name or "the computation"
                self.gaps.add(end, end + 1, f"expected '}}', found the end: {name} is cut off")
                return len(text), True
            if text[start] == "}":
                match = LOOSE_CLOSE.match(text, start)
        if match is not None:
            computation.is_complete = True
            computation.attributes = match.span(1)
            if self._progress is not None:
                self._progress(match.end())
            return match.end(), True
        line = LINE_INSTRUCTION.match(text, start) if start > position else None
        if line is not None and self._check.instruction(line):
            self._rows.add_match(line, attributes_end=line.end(8))
            return line.end(), False
        if self._begins_computation(start):
            self.gaps.add(
                start, self._units.line_end(start), "expected '}', found a new computation"
            )
            return start, True
        return self._unit_in_body(start), False

    def _begins_computation(self, position: int) -> bool:
        text = self.text
        if text[position - 1 : position] not in ("\n", ""):
            return False
        if NEXT_HEADER.match(text, position):
            return True
        return (
            LINE_COMPUTATION.match(text, position) is not None
            or COMPUTATION_LIKE.match(text, position, self._units.line_end(position)) is not None
        )

    def _unit_in_body(self, position: int) -> int:
        """Read one instruction that is not on one line as XLA prints it, or note a gap."""
        text, rows = self.text, self._rows
        end = self._units.unit_end(position)
        if not INSTRUCTION_LIKE.match(text, position, position + LONG_LINE):
            junk = text[position:end].rstrip()
            self.gaps.note_strange(position, end)
            first_end = min(self._units.line_end(position), position + len(junk))
            lines = junk.count("\n") + 1
            self.gaps.add(position, first_end, "expected an instruction or '}'", lines)
            return end
        match = LOOSE_INSTRUCTION.match(text, position, end)
        if match is not None and self._check.instruction(match):
            rows.add_match(match, attributes_end=match.end(7))
            return match.end()
        if self._failed >= MOST_EXPLAINED:
            self.gaps.add(position, self._units.line_end(position), "expected an instruction")
            return end
        try:
            read, stop = self._fallback.read(position, end)
        except DumpSyntaxError as error:
            self._failed += 1
            self.gaps.add_error(error)
            if match is None or not self._check.is_open(match):
                return end
            rows.add_match(match, attributes_end=match.end(7))
            return match.end()
        rows.add_read(read)
        return stop

    def _stray_instructions(self, position: int) -> int:
        """Read instructions outside any computation, as XLA prints a single one."""
        if self._module is not None and self._module.computations:
            return self._outside(position, headless=True)
        if self._module is None:
            self._begin_module("", position)
        rows, start, first = self._rows, position, len(self._rows.columns)
        while position < len(self.text) and INSTRUCTION_LIKE.match(self.text, position):
            position = self._units.blank(self._unit_in_body(position))
        rows.computations.add(ComputationParts(start=start, rows=rows.take(first), is_entry=True))
        return position

    def _outside(self, position: int, *, headless: bool = False) -> int:
        """Skip foreign lines outside any computation, note gaps for others; return their end.

        `headless`: it begins with a row of a table, or with an instruction whose computation has
        lost its first line.
        """
        end = self._units.unit_end(position)
        header = HEADER_INSIDE.search(self.text, position + 1, end)
        if header is not None:
            end = header.start()
        self.gaps.note_strange(position, end)
        headless |= not begins_line(self.text, position)
        for start, stop, foreign in self._foreign.runs(self.text, position, end, headless=headless):
            is_last = stop == len(self.text) and not self.text.endswith("\n")
            # The last line may be the first one of the entry, cut off.
            if foreign and not (is_last and self._module is not None and not self._has_entry):
                self.gaps.pass_over(start, stop)
            else:
                self.gaps.add_run(start, stop)
        return end


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
        self._process.end()

    def take_body(self, rows: HloRows, *, rooted: bool) -> RowsAhead | None:
        """Add the rest of the computation that is being read; None if that is not possible."""
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

        `rows` is None before the first computation.
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
        rows.computations.extend(read.computations, first)
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

    def _end(self, *_: object, **__: object) -> NoReturn:
        raise _FirstGapError

    add = add_error = note_strange = pass_over = _end


class _PartScan(HloScan):
    """A scan that begins at any line, and ends before what is out of the ordinary."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, None)
        self.gaps = _NoGaps(source)

    def read(self, position: int) -> RowsAhead | None:
        """Return the rows from a line on; None if its computation is out of the ordinary."""
        self._begin_module("", position)
        rows, columns, computations = self._rows, self._rows.columns, self._rows.computations
        body, attributes = None, (0, 0)
        if self._head(position) is None:
            computation = ComputationParts(is_complete=False)
            with suppress(_FirstGapError):
                position = self._body(position, computation)
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
        if HEADER_START.match(self.text, position):
            return None
        match = LINE_COMPUTATION.match(self.text, position)
        return match if match is not None and self._is_head(match) else None


_SECOND = "expected the end of the text, found a second HloModule (hlo_lens.load reads them all)"


def parse_hlo(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> HloModule:
    """Return the module that a text prints.

    Unread parts are listed in the module's ``gaps``. Of several modules the first is returned, with
    a gap at the start of the second; `hlo_lens.load` reads them all.

    Args:
        text: HLO text as XLA dumps or prints it.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.

    Raises:
        DumpSyntaxError: If nothing could be read, or, if strict, at the first gap.
    """
    if isinstance(text, Source):
        source = text
    else:
        source = clean(decode(text) if isinstance(text, bytes) else text, path)
    modules = parse_hlo_modules(source)
    module = modules[0]
    if len(modules) > 1:
        second = modules[1]
        place = Gap.at(second.columns.source, Span(second.start, second.start + 9), _SECOND)
        module.gaps = (*module.gaps, place)
    if strict and module.gaps:
        raise module.gaps[0].as_error()
    return module


def parse_hlo_modules(
    source: Source, *, progress: Callable[[int], None] | None = None
) -> list[HloModule]:
    """Return all modules of a source, in order; at least one.

    `progress` is called at times with the offset reached.

    Raises:
        DumpSyntaxError: If the text has no computation and no header.
    """
    ahead = start_ahead(source)
    scan = HloScan(source, progress, ahead)
    try:
        scan.run()
    finally:
        if ahead is not None:
            ahead.end()
    is_strange = scan.is_strange or not scan.modules
    if is_strange and not source.cuts.offsets and (cut := cut_log_prefixes(source)) is not None:
        scan = HloScan(cut, progress)
        scan.run()
    if source.is_cut and scan.modules and not scan.modules[-1].is_truncated:
        module, end = scan.modules[-1], len(scan.source.text)  # the text does not show it
        message = "expected more of the compressed file, found its end: it is cut off"
        module.gaps = (*module.gaps, Gap.at(scan.source, Span(max(0, end - 1), end), message))
        module.is_truncated = True
    if not scan.modules:
        gaps, *_ = scan.gaps.take(has_read=False)
        if gaps:
            raise gaps[0].as_error()
        raise DumpSyntaxError(
            "expected 'HloModule' or a computation, found nothing", path=source.path
        )
    return scan.modules


def unread_module(path: str, error: DumpSyntaxError | None = None) -> HloModule:
    """Return an empty module, for a file that could not be read."""
    gaps = () if error is None else (Gap.of(error),)
    columns = InstructionColumns(Source("", path))
    return HloModule(name="", columns=columns, reader=HloReader(), gaps=gaps)
