"""HLO module text to HloModule: a scanner over the text, with the grammar for what it leaves.

The scanner goes through the text once, anchored: at each place it tries the pattern of a printed
instruction line, then a loose one, then the grammar on that one instruction; what none of them
takes is a gap. Instructions become rows of places; their meaning is read on demand. The cost of a
gap is bounded: text is looked at again only a fixed number of times.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from hlo_lens.model.hlo import (
    HloComputation,
    HloModule,
    HloOperand,
    InstructionColumns,
    Overlay,
)
from hlo_lens.syntax import hlo_patterns as patterns
from hlo_lens.syntax.hlo_attributes import AttributeCheck
from hlo_lens.syntax.hlo_reader import HloTextReader
from hlo_lens.syntax.hlo_tables import read_tables
from hlo_lens.syntax.hlo_text import parse_attributes
from hlo_lens.text.errors import DumpSyntaxError, Gap, show_excerpt
from hlo_lens.text.source import Source, Span, clean, cut_log_prefixes, decode

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Sequence

    from hlo_lens.syntax.hlo_grammar import ReadComputation, ReadInstruction, ReadOperand

_GRAMMAR_LIMIT = 1 << 20
"""Longest instruction, in characters, that goes to the grammar."""

_GRAMMAR_COST = 8
"""How many times dearer it is to parse a text in vain than to find where it ends."""

_MOST_EXPLAINED = 10_000
"""How many bad instructions of a text are explained; of the others only the place is told."""

_LONG_LINE = 1 << 14
"""A line longer than this may hold many instructions."""

_LARGEST_OFFSET = (1 << 32) - 1
"""Longest text whose places fit into columns of 32 bits."""


def parse_hlo(text: str | bytes, *, strict: bool = False, path: str = "<text>") -> HloModule:
    """Return the module that a text prints.

    What could not be read is in the module's ``gaps``. A text of several modules gives the first,
    and a gap that says where the second begins; `hlo_lens.load` reads them all.

    Args:
        text: HLO text as XLA dumps or prints it.
        strict: Raise at the first gap.
        path: Name of the text for messages.

    Raises:
        DumpSyntaxError: If nothing could be read, or, when strict, at the first gap.
    """
    source = clean(decode(text) if isinstance(text, bytes) else text, path)
    modules = parse_hlo_modules(source)
    module = modules[0]
    if len(modules) > 1:
        second = modules[1]
        place = _gap(second.columns.source, Span(second.start, second.start + 9), _SECOND)
        module.gaps = (*module.gaps, place)
    if strict and module.gaps:
        raise module.gaps[0].as_error()
    return module


_SECOND = "expected the end of the text, found a second HloModule (hlo_lens.load reads them all)"


def parse_hlo_modules(
    source: Source, *, progress: Callable[[int], None] | None = None
) -> list[HloModule]:
    """Return all modules of a source, in order; at least one.

    Args:
        source: The text.
        progress: Called now and then with the offset reached.

    Raises:
        DumpSyntaxError: If there is no computation and no header in the whole text.
    """
    scan = _Scan(source, progress)
    scan.run()
    if scan.junk and not source.cut_offsets and (cut := cut_log_prefixes(source)) is not None:
        scan = _Scan(cut, progress)
        scan.run()
    if source.is_cut and scan.modules:
        _mark_cut(scan.modules[-1], scan.source)
    if not scan.modules:
        if scan.gaps:
            raise scan.gaps[0].as_error()
        message = "expected 'HloModule' or a computation, found nothing"
        raise DumpSyntaxError(message, path=source.path)
    return scan.modules


def parse_with_grammar(source: Source) -> HloModule:
    """Return the one module of a source as the grammar alone reads it: the scanner's reference.

    Raises:
        DumpSyntaxError: At the first place that the grammar does not allow.
    """
    from hlo_lens.syntax.hlo_grammar import read_module

    read = read_module(source)
    scan = _Scan(source, None)
    module = scan.begin_module(read.name, 0)
    module.header = _firsts((name, source.text[start:end]) for name, start, end in read.header)
    module.stack_frames, _ = read_tables(source.text, read.tables)
    for computation in read.computations:
        scan.add_read_computation(computation, is_inline=False)
    return module


def _firsts(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return name to value, of a repeated name the first value."""
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def _mark_cut(module: HloModule, source: Source) -> None:
    """Note that the file that a module is in ends too early, if the text does not show it."""
    if not module.is_truncated:
        end = len(source.text)
        message = "expected more of the compressed file, found its end: it is cut off"
        module.gaps = (*module.gaps, _gap(source, Span(max(0, end - 1), end), message))
        module.is_truncated = True


def unread_module(path: str, error: DumpSyntaxError | None = None) -> HloModule:
    """Return a module without anything in it, for a file of which nothing could be read."""
    gaps = () if error is None else (_gap_of(error),)
    columns = InstructionColumns(Source("", path))
    return HloModule(name="", columns=columns, reader=HloTextReader(), gaps=gaps)


def _gap_of(error: DumpSyntaxError) -> Gap:
    return Gap(
        path=error.path,
        line=error.line,
        column=error.column,
        message=error.message,
        excerpt=error.excerpt,
    )


def _gap(source: Source, span: Span, message: str, lines: int = 1) -> Gap:
    line, column = source.line_column(span.start)
    return Gap(
        path=source.path,
        line=line,
        column=column,
        message=message,
        lines=lines,
        excerpt=show_excerpt(source, span),
    )


class _Scan:
    """One pass over a source. Holds the module that is being filled and the gaps so far."""

    def __init__(self, source: Source, progress: Callable[[int], None] | None) -> None:
        self.source = source
        self.text = source.text
        self.modules: list[HloModule] = []
        self.gaps: list[Gap] = []
        self.junk = 0
        self._failed = 0
        self._progress = progress
        self._reader = HloTextReader()
        self._check = AttributeCheck(self._reader)
        self._module: HloModule | None = None
        self._columns = InstructionColumns(source)
        self._nested = 0
        self._has_entry = False
        self._inline = 0
        self._budget = 16 * len(self.text) + (1 << 20)
        self._foreign: list[range] = []
        self._line = (0, -1)
        self._last_comment: int | None = None

    # ---- modules -------------------------------------------------------------------------------

    def run(self) -> None:
        """Read the whole text."""
        position, size = 0, len(self.text)
        while True:
            position = self._blank(position)
            if position >= size:
                break
            if self._progress is not None:
                self._progress(position)
            position = self._unit(position)
        self._end_module()

    def _blank(self, position: int) -> int:
        """Return where white space and comments end that begin at a place."""
        text = self.text
        while True:
            match = patterns.BLANK.match(text, position)
            position = position if match is None else match.end()
            if not text.startswith("/*", position):
                return position
            if self._last_comment is None:
                self._last_comment = text.rfind("*/")
            if self._last_comment < position + 2:
                return position
            position = text.index("*/", position + 2) + 2  # longer than the patterns follow

    def _unit(self, position: int) -> int:
        """Read what stands between computations and return where it ends."""
        text = self.text
        if patterns.HEADER_START.match(text, position):
            return self._header(position)
        if patterns.TABLE.match(text, position):
            module = self._module or self.begin_module("", position)
            module.stack_frames, end = read_tables(text, position)
            return end
        match = patterns.LINE_COMPUTATION.match(text, position)
        if match is None:
            end = self._unit_end(position)
            match = patterns.LOOSE_COMPUTATION.match(text, position, end)
        if match is not None:
            return self._computation(match)
        if patterns.INSTRUCTION_LIKE.match(text, position, position + _LONG_LINE):
            return self._stray_instructions(position)
        match = patterns.LENIENT_COMPUTATION.match(text, position)
        if match is not None:
            self._head_gap(match)
            return self._computation(match)
        return self._junk(position)

    def _head_gap(self, match: re.Match[str]) -> None:
        from hlo_lens.syntax.hlo_grammar import check_head

        start, end = match.span()
        try:
            check_head(self.source, start, min(end, start + _GRAMMAR_LIMIT))
        except DumpSyntaxError as error:
            self._add_error(error)
            return
        self._add_gap(start, end, "expected a computation")

    def _header(self, position: int) -> int:
        text = self.text
        match = patterns.HEADER.match(text, position)
        if match is None:
            return self._junk(position)
        module = self.begin_module(match[1] or "", position)
        start, end = match.span(2)
        module.header = _firsts(parse_attributes(text[start:end]))
        line_end = self._line_end(end)
        after = self._blank(end)
        if after < line_end and not patterns.LOOSE_COMPUTATION.match(text, after):
            self._header_gap(position, end, line_end, "expected ',' and a header attribute")
            return line_end
        bad = self._check.header(module.header)
        if bad is not None:
            place = text.find(f"{bad}=", start, end)
            self._header_gap(position, place, end, f"expected another value of {bad}")
        return end

    def _header_gap(self, position: int, start: int, end: int, message: str) -> None:
        if end - position <= _GRAMMAR_LIMIT:
            from hlo_lens.syntax.hlo_grammar import check_header

            try:
                check_header(self.source, position, end)
            except DumpSyntaxError as error:
                self._add_error(error)
                return
        self._add_gap(start, end, message)

    def begin_module(self, name: str, start: int) -> HloModule:
        """End the module before and begin a new one."""
        self._end_module()
        self._columns = InstructionColumns(self.source)
        if len(self.text) > _LARGEST_OFFSET:
            self._columns.spans = array("Q")
        self._nested = self._inline = 0
        self._has_entry = False
        self._module = HloModule(name=name, columns=self._columns, reader=self._reader, start=start)
        return self._module

    def _check_entry(self, module: HloModule) -> None:
        """Note that the entry is lost: the header tells its parameters, and nothing has them."""
        layout = module.header.get("entry_computation_layout")
        if layout is None or self._has_entry or module.is_truncated or not module.computations:
            return
        if patterns.LOOSE_PROGRAM_SHAPE.fullmatch(layout) is None:
            return
        wanted = len(self._reader.program_shape(layout).parameters)
        found = len(module.computations[-1].parameters)
        if wanted != found:
            end = len(self.text)
            module.is_truncated = True
            message = f"expected an ENTRY computation of {wanted} parameters, found the end"
            self._add_gap(max(0, end - 1), end, message)

    def _end_module(self) -> None:
        module, self._module = self._module, None
        if module is None:
            return
        self._check_entry(module)
        module.gaps, self.gaps = tuple(self.gaps), []
        module.unknown_attributes = self._check.take_unknown()
        self.modules.append(module)

    # ---- computations --------------------------------------------------------------------------

    def _computation(self, match: re.Match[str]) -> int:
        module = self._module or self.begin_module("", match.start())
        first = len(self._columns)
        computation = HloComputation(
            module=module,
            name=match[2] or "",
            is_entry=match[1] is not None,
            start=match.start(),
            is_complete=False,
        )
        computation.signature_span = match.span(3)
        if computation.is_entry and self._has_entry:
            self._add_gap(match.start(1), match.start(1) + 5, "expected one ENTRY, found a second")
        self._has_entry |= computation.is_entry
        self._signature(match)
        index = len(module.computations)
        module.computations.append(computation)
        position = self._body(match.end(), computation)
        computation.rows = self._own_rows(first)
        self._foreign = []
        if len(module.computations) > index + 1:  # bodies printed in place come before their caller
            module.computations[index:] = [*module.computations[index + 1 :], computation]
        if not computation.is_complete and position >= len(self.text):
            module.is_truncated = True
        return position

    def _signature(self, match: re.Match[str]) -> None:
        if match[3] and not self._check.signature(match[3]):
            start, end = match.span(3)
            self._add_gap(start, end, "expected (name: shape, ...) -> shape")

    def _body(self, position: int, computation: HloComputation) -> int:
        """Read instructions up to the closing brace and return where the text goes on."""
        text, columns = self.text, self._columns
        extend, roots = columns.spans.extend, columns.roots
        match_line = patterns.LINE_INSTRUCTION.match
        shapes, attributes = self._check.shapes, self._check.attributes
        accepts = self._accepts
        row = len(columns)
        rooted = False
        while True:
            match = match_line(text, position)
            if match is not None:
                (
                    (_, end),
                    (root, _),
                    (name, name_end),
                    (shape, shape_end),
                    (opcode, opcode_end),
                    (operands, operands_end),
                    (_, complex_end),
                    (middle, middle_end),
                    (_, tail_end),
                ) = match.regs
                if (
                    operands >= 0
                    and text[shape:shape_end] in shapes
                    and (middle == middle_end or text[middle:middle_end] in attributes)
                ) or accepts(match):
                    if operands < 0:
                        operands, operands_end = opcode_end + 1, complex_end
                    if root >= 0:
                        if rooted:
                            self._add_gap(root, root + 4, "expected one ROOT, found a second")
                        rooted = True
                        roots.append(row)
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
                if rooted:
                    start = self._blank(start)
                    self._add_gap(start, start + 4, "expected one ROOT, found a second")
                rooted = True
            row = len(columns)

    def _accepts(self, match: re.Match[str]) -> bool:
        """Whether the parts of an instruction that patterns cannot judge are right."""
        check = self._check
        if not (check.shape(match[3]) and check.attribute_text(match[7])):
            return False
        if match[5] is not None:
            return True
        if match[4] == "constant":
            return check.literal(match[3], match[6])
        if match[4] == "parameter":
            return patterns.PARAMETER_NUMBER.fullmatch(match[6]) is not None
        operands = match[6]
        if "/" in operands:
            if operands.count("/*") != operands.count("*/"):
                return False
            operands = patterns.COMMENTS.sub(" ", operands)
        return (
            patterns.NESTED_CALL.search(operands) is None
            and patterns.TYPED_OPERANDS.fullmatch(operands) is not None
        )

    def _irregular(self, position: int, computation: HloComputation) -> tuple[int, bool]:
        """Read what is no printed instruction line.

        Returns:
            Where the text goes on, and whether the computation ends there.
        """
        text = self.text
        match = patterns.LINE_CLOSE.match(text, position)
        start = position
        if match is None:
            start = self._blank(position)
            if start >= len(text):
                self._truncated(computation)
                return len(text), True
            if text[start] == "}":
                match = patterns.LOOSE_CLOSE.match(text, start)
        if match is not None:
            computation.is_complete = True
            computation.attributes_span = match.span(1)
            if self._progress is not None:
                self._progress(match.end())
            return match.end(), True
        line = patterns.LINE_INSTRUCTION.match(text, start) if start > position else None
        if line is not None and self._accepts(line):
            self._add_match(line, attributes_end=line.end(8))
            return line.end(), False
        if self._begins_computation(start):
            self._add_gap(start, self._line_end(start), "expected '}', found a new computation")
            return start, True
        return self._unit_in_body(start), False

    def _truncated(self, computation: HloComputation) -> None:
        end = len(self.text)
        while end and self.text[end - 1].isspace():
            end -= 1
        name = computation.name or "the computation"
        self._add_gap(end, end + 1, f"expected '}}', found the end: {name} is cut off")

    def _begins_computation(self, position: int) -> bool:
        text = self.text
        if text[position - 1 : position] not in ("\n", ""):
            return False
        if patterns.NEXT_HEADER.match(text, position):
            return True
        return (
            patterns.LINE_COMPUTATION.match(text, position) is not None
            or patterns.COMPUTATION_LIKE.match(text, position, self._line_end(position)) is not None
        )

    def _unit_in_body(self, position: int) -> int:
        """Read one instruction that is not printed on one plain line, or note a gap."""
        text = self.text
        if not patterns.INSTRUCTION_LIKE.match(text, position, position + _LONG_LINE):
            return self._junk(position, inside=True)
        end = self._unit_end(position)
        match = patterns.LOOSE_INSTRUCTION.match(text, position, end)
        if match is not None and self._accepts(match):
            self._add_match(match, attributes_end=match.end(7))
            return match.end()
        if self._failed >= _MOST_EXPLAINED:
            self._add_gap(position, self._line_end(position), "expected an instruction")
            return end
        from hlo_lens.syntax.hlo_grammar import read_instruction

        error: DumpSyntaxError | None = None
        for stop in self._stops(position, end):
            try:
                read = read_instruction(self.source, position, stop)
            except DumpSyntaxError as problem:
                if error is None or stop == end:
                    error = problem
                self._budget -= _GRAMMAR_COST * (stop - position) if stop > end else 0
                continue
            error = self._problem(read)
            if error is None:
                self.add_read(read)
                return stop
            break
        self._failed += 1
        if error is None:
            size = stop_size(end - position)
            self._add_gap(position, end, f"an instruction of {size} that only the grammar can read")
        else:
            self._add_error(error)
        return end

    def _stops(self, position: int, end: int) -> list[int]:
        """Return where the instruction at a place may end: the next line start, then balance."""
        stops = {end, self._balanced_end(position)}
        return sorted(stop for stop in stops if 0 < stop - position <= _GRAMMAR_LIMIT)

    def _balanced_end(self, position: int) -> int:
        """Return where the brackets opened from a place on are closed at a line end, or 0."""
        if self._budget <= 0:
            return 0
        depth = 0
        end = min(len(self.text), position + _GRAMMAR_LIMIT)
        for match in patterns.BRACKET.finditer(self.text, position, end):
            token = match[0]
            if token in "([{":
                depth += 1
            elif token in ")]}":
                depth -= 1
                if depth < 0:
                    self._budget -= match.start() - position
                    return match.start()
            elif token == "\n" and depth == 0 and patterns.LINE_START.match(self.text, match.end()):
                self._budget -= match.end() - position
                return match.end()
        self._budget -= end - position
        return end if depth == 0 else 0

    def _unit_end(self, position: int) -> int:
        """Return where reading can begin anew after a place: the next line that starts something.

        On a line that is longer than lines of one instruction are, also inside the line.
        """
        text = self.text
        keyword = patterns.KEYWORD.match(text, position)
        if keyword is not None:  # which may stand on a line of its own
            position = keyword.end()
        line_end = self._line_end(position)
        if line_end - position > _LONG_LINE:
            head = patterns.INSTRUCTION_LIKE.match(text, position, line_end)
            start = position + 1 if head is None else head.end()
            inside = patterns.INLINE_START.search(text, start, line_end)
            if inside is not None:
                return inside.start()
        match = patterns.LINE_START.search(text, line_end + 1) if line_end < len(text) else None
        return len(text) if match is None else match.start()

    def _line_end(self, position: int) -> int:
        """Return where the line of an offset ends; remembered, for lines of many megabytes."""
        start, end = self._line
        if not start <= position <= end:
            found = self.text.find("\n", position)
            end = len(self.text) if found < 0 else found
            self._line = (position, end)
        return end

    def _stray_instructions(self, position: int) -> int:
        """Read instructions that stand outside any computation, as XLA prints a single one."""
        if self._module is not None and self._module.computations:
            return self._junk(position)
        module = self._module or self.begin_module("", position)
        computation = HloComputation(module=module, name="", is_entry=True, start=position)
        module.computations.append(computation)
        first = len(self._columns)
        size = len(self.text)
        while position < size and patterns.INSTRUCTION_LIKE.match(self.text, position):
            position = self._blank(self._unit_in_body(position))
        computation.rows = range(first, len(self._columns))
        return position

    # ---- rows ----------------------------------------------------------------------------------

    def _add_match(self, match: re.Match[str], *, attributes_end: int) -> None:
        columns = self._columns
        if match.start(1) >= 0:
            columns.roots.append(len(columns))
        group = 5 if match.start(5) >= 0 else 6
        columns.spans.extend(
            (
                *match.span(2),
                *match.span(3),
                *match.span(4),
                *match.span(group),
                attributes_end,
            )
        )

    def add_read_computation(self, read: ReadComputation, *, is_inline: bool) -> HloComputation:
        """Add a computation that the grammar read."""
        module = self._module or self.begin_module("", read.start)
        computation = HloComputation(
            module=module, name=read.name, is_entry=read.is_entry, start=read.start
        )
        if is_inline:
            computation.name = computation.name or self._inline_name()
            computation.is_inline = True
        if read.signature is not None:
            computation.signature_span = read.signature
        computation.attributes_span = read.attributes
        outer, self._foreign = self._foreign, []
        first = len(self._columns)
        for instruction in read.instructions:
            self.add_read(instruction)
        computation.rows = self._own_rows(first)
        self._foreign = outer
        self._foreign.append(range(first, len(self._columns)))
        module.computations.append(computation)
        return computation

    def _own_rows(self, first: int) -> Sequence[int]:
        """Return the rows from one on without those of computations printed in between."""
        rows = range(first, len(self._columns))
        if not self._foreign:
            return rows
        foreign = {row for rows in self._foreign for row in rows}
        return tuple(row for row in rows if row not in foreign)

    def _inline_name(self) -> str:
        self._inline += 1
        return "_" if self._inline == 1 else f"_.{self._inline - 1}"

    def add_read(self, read: ReadInstruction) -> None:
        """Add the rows of an instruction that the grammar read, its inner computations first."""
        bodies = iter(read.bodies)
        called = tuple(
            self.add_read_computation(next(bodies), is_inline=True).name if name is None else name
            for name in read.called
        )
        columns = self._columns
        names: dict[int, str] = {}
        for current in reversed(_with_nested(read)):
            overlay = Overlay()
            if current.name is None:
                self._nested += 1
                opcode = self.text[slice(*current.opcode)]
                overlay.name = names[id(current)] = f"{opcode}.nested.{self._nested}"
            if any(argument.nested is not None for argument in current.arguments):
                overlay.operands = tuple(self._operand(a, names) for a in current.arguments)
            if current is read:
                overlay.called = called if read.bodies else ()
                overlay.attributes = tuple(
                    (name, self.text[start:end]) for name, start, end in read.attributes
                )
            if current.is_root:
                columns.roots.append(len(columns))
            columns.overlays[len(columns)] = overlay
            columns.spans.extend(_places(current))

    def _operand(self, read: ReadOperand, names: dict[int, str]) -> HloOperand:
        if read.nested is not None:
            return HloOperand(name=names[id(read.nested)])
        shape = None if read.shape is None else self.text[slice(*read.shape)]
        return HloOperand(name=read.name, index=read.index, shape_text=shape)

    def _problem(self, read: ReadInstruction) -> DumpSyntaxError | None:
        """Return what is wrong with the meaning of an instruction that the grammar read."""
        for current in _with_nested(read):
            if current.shape is not None:
                start, end = current.shape
                problem = self._check.shape_problem(self.text[start:end])
                if problem is not None:
                    return self._placed(problem, start, end)
                problem = self._literal_problem(current, self.text[start:end])
                if problem is not None:
                    return problem
        for name, start, end in read.attributes:
            problem = self._check.value_problem(name, self.text[start:end])
            if problem is not None:
                return self._placed(problem, start, end)
        return None

    def _literal_problem(self, read: ReadInstruction, shape: str) -> DumpSyntaxError | None:
        start, end = read.operands
        if self.text[slice(*read.opcode)] != "constant" or shape.startswith("("):
            return None
        if self._check.literal(shape, self.text[start:end]):
            return None
        place = Span(start, max(end, start + 1))
        return DumpSyntaxError.at(self.source, place, f"expected a literal of shape {shape}")

    def _placed(self, problem: DumpSyntaxError, start: int, end: int) -> DumpSyntaxError:
        """Return an error in a part of the text as one in the whole."""
        place = start + (problem.column - 1 if problem.line == 1 else 0)
        return DumpSyntaxError.at(self.source, Span(place, max(end, place + 1)), problem.message)

    # ---- gaps ----------------------------------------------------------------------------------

    def _add_gap(self, start: int, end: int, message: str, lines: int = 1) -> None:
        if len(self.gaps) < _MOST_EXPLAINED:
            self.gaps.append(_gap(self.source, Span(start, end), message, lines))
            return
        line, column = self.source.line_column(start)
        path = self.source.path
        self.gaps.append(Gap(path=path, line=line, column=column, message=message, lines=lines))

    def _add_error(self, error: DumpSyntaxError) -> None:
        self.gaps.append(_gap_of(error))

    def _junk(self, position: int, *, inside: bool = False) -> int:
        """Note a gap for text that is not HLO and return where reading can begin anew."""
        end = self._unit_end(position)
        header = None if inside else patterns.HEADER_INSIDE.search(self.text, position + 1, end)
        if header is not None:
            end = header.start()
        text = self.text[position:end].rstrip()
        lines = text.count("\n") + 1
        self.junk += 1
        expected = "an instruction or '}'" if inside else "'HloModule' or a computation"
        first_end = min(self._line_end(position), position + len(text))
        self._add_gap(position, first_end, f"expected {expected}", lines)
        return end


def stop_size(size: int) -> str:
    """Return a length of text in words."""
    return f"{size / 1e6:.1f} MB"


def _with_nested(read: ReadInstruction) -> list[ReadInstruction]:
    """Return an instruction and all that are nested in it, callers before what they hold."""
    order: list[ReadInstruction] = []
    stack = [read]
    while stack:
        current = stack.pop()
        order.append(current)
        stack.extend(a.nested for a in current.arguments if a.nested is not None)
    return order


def _places(read: ReadInstruction) -> tuple[int, ...]:
    """Return the columns of a row."""
    nowhere = (read.opcode[0], read.opcode[0])
    return (
        *(read.name or nowhere),
        *(read.shape or nowhere),
        *read.opcode,
        *read.operands,
        read.end,
    )
