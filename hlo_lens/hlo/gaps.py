"""Gaps of an HLO text: places that could not be read; checks of values; the grammar as fallback.

Regular expressions check the common values of attributes; an instruction with any other value goes
to the grammar, which reports the place of an error. If only the value of an attribute is of an
unknown form, the instruction is kept, with the value as text, and the place is a gap. Shapes,
shardings and device lists are parsed, once per distinct text. Attributes that are not listed may
have any value: XLA gains some every month.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hlo_lens.grammar.lines import LineRule, alternatives, terminal
from hlo_lens.hlo.columns import (
    NAME,
    NAME_END,
    OPCODE,
    OPERANDS,
    OPERANDS_END,
    STRIDE,
    ReadInstruction,
    with_nested,
)
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.text import (
    ATTRIBUTE,
    BRACKET,
    CALLING_ATTRIBUTES,
    COMMENTS,
    GRAMMARS,
    HLO_MODULE,
    INSTRUCTION_LIKE,
    LINE_START,
    LOOSE_PROGRAM_SHAPE,
    MARKS,
    NAME as NAME_PATTERN,
    NESTED_CALL,
    PARAMETER_NUMBER,
    SHAPE,
    SPACE,
    TABLE_TITLES,
    TYPED_OPERANDS,
)
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.names import lazy_pattern
from hlo_lens.text.source import Source, Span
from hlo_lens.text.units import plural

if TYPE_CHECKING:
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.text import HloReader


GRAMMAR_LIMIT = 1 << 20
"""Longest text, in characters, that the grammar parses."""

MOST_EXPLAINED = 10_000
"""Most gaps with a message of the grammar and an excerpt; further ones have a place only."""

_BLANK_LINES = re.compile(r"\n[ \t]*+(?:\n[ \t]*+)++")


class HloGaps:
    """The gaps of a module while it is read, and the foreign lines outside its computations."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.found: list[Gap] = []
        self._passed: list[tuple[int, int]] = []
        self._strange: list[tuple[int, int]] = []

    def take(self, *, has_read: bool) -> tuple[tuple[Gap, ...], int, tuple[tuple[int, int], ...]]:
        """Return gaps, number of foreign lines and spans of no HLO so far, and forget them.

        Where no computation was read, foreign lines count as gaps.
        """
        passed = 0
        for start, end in self._passed:
            if has_read:
                passed += self._lines(start, end)
            else:
                self.add_run(start, end)
        found, strange = self.found, tuple(self._strange)
        if not has_read:
            found.sort(key=lambda gap: (gap.line, gap.column))
        self.found, self._passed, self._strange = [], [], []
        return tuple(found), passed, strange

    def note_strange(self, start: int, end: int) -> None:
        self._strange.append((start, end))

    def pass_over(self, start: int, end: int) -> None:
        self._passed.append((start, end))

    def add_run(self, start: int, end: int) -> None:
        if lines := self._lines(start, end):
            first_end = self._source.text.find("\n", start, end)
            message = "expected 'HloModule' or a computation"
            self.add(start, end if first_end < 0 else first_end, message, lines)

    def _lines(self, start: int, end: int) -> int:
        """Return the number of lines; a run of blank lines counts as one."""
        text = self._source.text[start:end].strip()
        blank = sum(run[0].count("\n") - 1 for run in _BLANK_LINES.finditer(text))
        return text.count("\n") + 1 - blank if text else 0

    def add(self, start: int, end: int, message: str, lines: int = 1) -> None:
        if len(self.found) < MOST_EXPLAINED:
            self.found.append(Gap.at(self._source, Span(start, end), message, lines))
            return
        line, column = self._source.line_column(start)
        path = self._source.path
        self.found.append(Gap(path=path, line=line, column=column, message=message, lines=lines))

    def add_error(self, error: DumpSyntaxError) -> None:
        self.found.append(Gap.of(error))


_HEADER = HLO_MODULE[:8]  # of a header whose end is cut off
_ATTRIBUTES = (
    "backend_config|body|branch_computations|calls|called_computations|channel_id|condition"
    "|control-predecessors|custom_call_target|dimensions|entry_computation_layout|frontend_attributes"
    "|input_output_alias|is_scheduled|known_trip_count|metadata|num_partitions|operand_layout\\w*"
    "|replica_count|replica_groups|sharding|slice_sizes|source_target_pairs|stack_frame_id|to_apply"
)
_TYPE = r"(?:pred|token|opaque|bf16|[suf]\d{1,3}|f8\w{1,20}|f4\w{1,10}|c64|c128)"
_SIGN = lazy_pattern(
    rf"(?<![\w%.])%[A-Za-z_][\w.-]*+|(?<![\w.]){_TYPE}\[[\d,<=? ]*+(?:\]|\Z)"
    rf"|\b(?:{_ATTRIBUTES})=[{{\"%\d]"
    r"|\bis_scheduled=true|\breplica_groups=(?:\[|mesh)|\bto_apply=[\w%]"
    rf"|\A\s*+(?:{MARKS}|(?i:{_HEADER}))|\A\s*+\d++ (?:\"|\{{[a-z_]++=)"
    rf"|\A\s*+(?:{TABLE_TITLES})\s*+\Z"
)
"""Signs of HLO in a line, whole or damaged."""

_PROSE = lazy_pattern(
    rf"\s*+(?:(?!{MARKS}|{HLO_MODULE})"
    r"(?:[A-Za-z][a-z']*+ ++[A-Za-z][a-z']*+(?=[ ,.:;!?']|\Z)(?! *+(?:[=(]|-> ))"
    r"|[A-Za-z][A-Za-z ]*+:(?=\s|\Z))|\[[A-Za-z ]++\] |[(\[]?\d[\d.]*+[)\]:] )"
)
"""Beginnings of sentences, labels and list items, with which no line of HLO begins."""

_OTHER_IR = lazy_pattern(
    r"\s*+(?:(?:%[\w:, ]++= )?\"?(?:stablehlo|mhlo|chlo|vhlo|sdy|func|arith|mpmd)\."
    r"|module @|return %|#\w++ = |#loc\b|(?:\w++:\w++\[[^\]\n]*+\] ?)++= |\{ lambda )"
)
"""Beginnings of lines of MLIR and of jaxprs."""

_PLAIN_LINES = lazy_pattern(
    rf"(?:(?!\s*+(?:{MARKS}|(?:{TABLE_TITLES})\b|(?i:{_HEADER})))"
    r"(?![ \t]*+\d++ \")[^\n%\[={}\0]*+\n)++"
)
"""Runs of lines without a character that a sign needs."""

_LOOKED_AT = 1 << 12
"""Characters of a line that are searched for a sign."""

_INDENT = 1 << 8
"""Largest indentation of a foreign line."""

_BODY = 1 << 9
"""Characters after a brace that are searched for a sign."""


def _is_foreign(line: str) -> bool:
    if _OTHER_IR.match(line) is not None or _PROSE.match(line) is not None:
        return True
    return _SIGN.search(line) is None and "\0" not in line


def line_is_foreign(text: str, position: int, end: int) -> bool:
    """Return whether the line from an offset to its end is foreign."""
    return begins_line(text, position) and _is_foreign(
        text[position : min(end, position + _LOOKED_AT)]
    )


def begins_line(text: str, position: int) -> bool:
    """Return whether only white space precedes an offset in its line."""
    before = text[max(0, position - _INDENT) : position].rstrip(" \t")
    return before.endswith("\n") or (not before and position < _INDENT)


def follows_directly(text: str, position: int) -> bool:
    """Return whether a line directly below another one begins no part of a module."""
    before = text[max(0, position - _INDENT) : position].rstrip(" \t")
    first = position - (len(text[max(0, position - _INDENT) : position]) - len(before))
    return (
        position < len(text)
        and text[position] != "\n"
        and not before[:-1].rstrip(" \t").endswith("\n")
        and LINE_START.match(text, first) is None
    )


def has_body(text: str, position: int, *, named: bool) -> bool:
    """Return whether instructions may follow a brace; a brace with a name may also be empty."""
    if not named and INSTRUCTION_LIKE.match(text, position) is None:
        return False
    close = text.find("\n}", position, position + _BODY)
    body = text[position : position + _BODY if close < 0 else close]
    return _SIGN.search(body) is not None or not body.strip() or body[0] == "}"


class ForeignLines:
    """Separates foreign lines from lines of HLO; counts the open braces of foreign lines."""

    def __init__(self) -> None:
        self._open = 0

    def runs(
        self, text: str, position: int, end: int, *, headless: bool
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield start, end and whether it is foreign of each run of lines, in order.

        `headless`: the first line is an instruction outside any computation; lines that follow it
        directly belong to its body.
        """
        start, kind = position, False
        while position < end:
            plain = None if headless else _PLAIN_LINES.match(text, position, end)
            if plain is not None:
                foreign, stop = True, plain.end()
            else:
                line_end = text.find("\n", position, end)
                stop = end if line_end < 0 else line_end + 1
                line = text[position : min(stop, position + _LOOKED_AT)]
                headless = headless and bool(line.strip())
                foreign = not headless and self._takes(line)
            if position > start and foreign != kind:
                yield start, position, kind
                start = position
            kind = foreign
            position = stop
        if position > start:
            yield start, position, kind

    def _takes(self, line: str) -> bool:
        """Return whether a line is foreign, or closes a brace of a foreign line."""
        if not _is_foreign(line) or (not self._open and line.lstrip().startswith("}")):
            return False
        self._open = max(0, self._open + line.count("{") - line.count("}"))
        return True


_PRINTED = frozenset({"is_scheduled", "input_output_alias", "buffer_donor", "num_partitions"})
"""Header attributes of texts that XLA printed."""


def missing_entry(module: HloModule, reader: HloReader, end: int) -> Gap | None:
    """Return the gap at the end of a module that marks no computation ENTRY, or None.

    XLA marks the entry in all that it prints; text without header attributes is hand-written,
    and its last computation is the entry. So is one with the interface that the header prints.
    """
    layout, what = module.header.get("entry_computation_layout"), "an ENTRY computation"
    last = module.computations[-1] if module.computations else None
    if layout is not None and LOOSE_PROGRAM_SHAPE.fullmatch(layout) is not None:
        wanted = reader.program_shape(layout)
        what = f"{what} of {plural(len(wanted.parameters), 'parameter')}"
        try:
            found = [] if last is None or last.root is None else [*last.parameters, last.root]
            shapes = [one.shape and one.shape.to_text(layout=False) for one in found]
        except DumpSyntaxError:  # a shape that is a gap
            shapes = []
        if shapes == [one.to_text(layout=False) for one in (*wanted.parameters, wanted.result)]:
            return None
    elif last is not None and not module.header.keys() & _PRINTED:
        return None
    source = module.columns.source
    end = max(1, len(source.text[:end].rstrip()))
    return Gap.at(source, Span(end - 1, end), f"expected {what}, found the end")


_MOST_CHECKED = 100_000
"""Instructions of the largest module that is checked, which takes a microsecond for each."""


def repetitions(module: HloModule) -> list[Gap]:
    """Return a gap for each name or parameter number that comes twice; the first few.

    XLA gives each name once, and refuses a text that repeats one ("instruction already exists"):
    lines were pasted twice, or a line between two computations is lost. Modules with bodies printed
    in place are not checked.
    """
    columns, computations = module.columns, module.computation_columns
    if len(columns) > _MOST_CHECKED or computations.scattered:
        return []
    source, spans, titles = columns.source, columns.spans, module.computation_names
    found: list[tuple[int, int, str]] = []
    for place in _repeated(titles):
        if titles[place]:
            start = computations.start(place)
            message = f"name: computation {titles[place]} is defined already"
            found.append((start, start + 1, message))
    firsts = [rows[0] for rows in computations.all_rows() if rows]
    names = list(columns.names(range(len(columns))))
    if len(set(names)) < len(names):
        for row in _repeated([(bisect_right(firsts, row), n) for row, n in enumerate(names)]):
            base, message = row * STRIDE, f"name: {names[row]} is defined already"
            found.append((spans[base + NAME], spans[base + NAME_END], message))
    rows = [
        row
        for row, start in enumerate(columns.column(OPCODE))
        if source.text.startswith("parameter(", start)
    ]
    numbers = [(bisect_right(firsts, r), columns.text(r, OPERANDS, OPERANDS_END)) for r in rows]
    for place in _repeated(numbers):
        base, number = rows[place] * STRIDE, numbers[place][1]
        message = f"parameter: the computation has a parameter {number} already"
        found.append((spans[base + OPERANDS], spans[base + OPERANDS_END], message))
    return [
        Gap.at(source, Span(start, max(end, start + 1)), f"expected another {message}")
        for start, end, message in found[:20]
    ]


def _repeated(items: Sequence[Hashable]) -> Iterator[int]:
    """Yield the positions of items that come earlier, too."""
    if len(set(items)) == len(items):
        return
    earlier: set[Hashable] = set()
    for place, item in enumerate(items):
        if item in earlier:
            yield place
        earlier.add(item)


@functools.cache
def _forms() -> Mapping[str, LineRule]:
    """Return the name of each attribute of the grammar and the rule of its value."""
    found: dict[str, LineRule] = {}
    for rule in ("attribute", "header_attribute"):
        for terminal_name, value in alternatives(rule, *GRAMMARS):
            words = terminal(terminal_name, *GRAMMARS).replace("\\", "")
            if (match := _ATTRIBUTE_NAMES.fullmatch(words)) is not None:
                for word in match["words"].split("|"):
                    found[match["start"] + word] = value
    return found


_ATTRIBUTE_NAMES = re.compile(r"(?P<start>[\w-]*)(?:\(\?:)?(?P<words>[\w|-]*)\)?=")
"""The terminal of one attribute or of several with a common beginning."""

_PARAMETER = rf"(?:\(unknown\):?|{NAME_PATTERN}:?){SPACE}{SHAPE}".replace("([", "(?:[")
SIGNATURE = lazy_pattern(
    rf"\({SPACE}(?:{_PARAMETER}{SPACE}(?:,{SPACE}{_PARAMETER}{SPACE})*+)?+\)"
    rf"{SPACE}->{SPACE}{SHAPE}"
)

_STRUCTURAL = frozenset((*CALLING_ATTRIBUTES, "control-predecessors", "index"))
"""Attributes without which an instruction is not connected with others as it should be."""

_WORD = (
    r"-?(?:inf|nan(?:\(0x[0-9a-fA-F]++\))?+|(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+)"
    r"|true|false"
)
_COMPLEX = rf"\(\s*+(?:{_WORD})\s*+,\s*+(?:{_WORD})\s*+\)"
_LITERAL = lazy_pattern(
    rf"(?:\s*+\([\d,\s]*+\)(?=\s*+\{{))?+"
    rf"(?:{_WORD}|{_COMPLEX}|[{{}},\s]|\.\.\.|unknown|undetermined)++"
)
"""A literal that is no tuple, after its dynamic sizes; its nesting is not checked."""

_VARIABLE = lazy_pattern(r"%[\w.-]++|(?<=channel_id=)\d++")
"""Numbers and names that differ between attribute lists of one form and need no check."""


class AttributeCheck:
    """Checks shapes and attributes, each distinct text once.

    Attributes:
        shapes: Texts of correct shapes.
        attributes: Texts of correct attribute lists, without names and channels.
        unknown: Names of unknown attributes.
    """

    def __init__(self, reader: HloReader) -> None:
        self._reader = reader
        self.shapes: set[str] = set()
        self.attributes: set[str] = {""}
        self.unknown: set[str] = set()

    def take_unknown(self) -> tuple[str, ...]:
        """Return the unknown names since the last call; called at the end of a module."""
        names = tuple(sorted(self.unknown))
        if names:
            self.unknown.clear()
            self.attributes.clear()  # the next module may have the same names in the same texts
            self.attributes.add("")
        return names

    def instruction(self, match: re.Match[str]) -> bool:
        return self.attribute_text(match[7]) and self._is_structure_right(match)

    def is_open(self, match: re.Match[str]) -> bool:
        """Return whether only values of attributes are wrong that no structure depends on.

        Such an instruction is kept, with these values as text: XLA writes new forms before this
        tool knows them.
        """
        wrong = {
            name
            for name, value in ATTRIBUTE.pattern.findall(match[7])
            if not self._is_value_right(name, value)
        }
        return not wrong & _STRUCTURAL and self._is_structure_right(match)

    def _is_structure_right(self, match: re.Match[str]) -> bool:
        """Return whether shape, operands or literal of a match are correct."""
        if match[3] is None:
            if opcode_traits(match[4]).is_printed_value:
                return False
        elif not self.shape(match[3]):
            return False
        operands = match[5] or match[6] or ""
        if match[4] == "constant":
            if "/" in operands:
                operands = COMMENTS.sub(" ", operands)
            is_even = operands.count("{") == operands.count("}")
            return is_even and not match[3].startswith("(") and bool(_LITERAL.fullmatch(operands))
        if match[4] == "parameter":
            return PARAMETER_NUMBER.fullmatch(operands) is not None
        if match[6] is None:
            return True
        if "/" in operands:
            if operands.count("/*") != operands.count("*/"):
                return False
            operands = COMMENTS.sub(" ", operands)
        return (
            NESTED_CALL.search(operands) is None and TYPED_OPERANDS.fullmatch(operands) is not None
        )

    def shape(self, text: str) -> bool:
        if text in self.shapes:
            return True
        if self.shape_problem(text) is not None:
            return False
        self.shapes.add(text)
        return True

    def shape_problem(self, text: str) -> DumpSyntaxError | None:
        return _problem(self._reader.shape, text)

    def attribute_text(self, text: str) -> bool:
        if text in self.attributes:
            return True
        form_of_list = _VARIABLE.sub("\0", text)
        if form_of_list in self.attributes:
            return True
        if not all(
            self._is_value_right(*match.groups()) for match in ATTRIBUTE.pattern.finditer(text)
        ):
            return False
        self.attributes.add(form_of_list)
        return True

    def _is_value_right(self, name: str, value: str) -> bool:
        """Return whether a value has a known form; any value of an unknown attribute has."""
        if name in ("sharding", "replica_groups"):
            return self.value_problem(name, value) is None
        form = _forms().get(name)
        if form is None:
            self.unknown.add(name)
        return form is None or form.pattern.fullmatch(value) is not None

    def value_problem(self, name: str, value: str) -> DumpSyntaxError | None:
        """Return the error of a wrong sharding or device list, or None; others are not checked."""
        if name not in _forms():
            self.unknown.add(name)
        if name == "sharding":
            return _problem(self._reader.sharding, value)
        return _problem(self._reader.device_list, value) if name == "replica_groups" else None

    def header(self, header: Mapping[str, str]) -> str | None:
        """Return the name of the first header attribute whose value is wrong, or None."""
        for name, value in header.items():
            form = _forms().get(name)
            if form is None:
                self.unknown.add(name)
            elif form.pattern.fullmatch(value) is None:
                return name
            if name == "entry_computation_layout" and _problem(self._reader.program_shape, value):
                return name
        return None


def _problem(read: Callable[[str], object], text: str) -> DumpSyntaxError | None:
    """Return the error of a text that a reader refuses, or None."""
    try:
        read(text)
    except DumpSyntaxError as error:
        return error
    return None


_GRAMMAR_COST = 8
"""Cost of a failed parse, relative to a search for the end of the instruction."""


class HloFallback:
    """Parses single instructions of a source by the grammar."""

    def __init__(self, source: Source, check: AttributeCheck) -> None:
        self._source = source
        self._text = source.text
        self._check = check
        self._budget = 16 * len(source.text) + (1 << 20)

    def read(self, position: int, end: int) -> tuple[ReadInstruction, int]:
        """Return the instruction at an offset, and the offset of its end.

        Args:
            position: Its start.
            end: Start of the next line that begins an instruction or the like.

        Raises:
            DumpSyntaxError: If the grammar refuses it, or a value in it is wrong.
        """
        from hlo_lens.hlo.grammar import read_instruction

        error: DumpSyntaxError | None = None
        stops = {end, self._balanced_end(position)}
        for stop in sorted(stop for stop in stops if 0 < stop - position <= GRAMMAR_LIMIT):
            try:
                read = read_instruction(self._source, position, stop)
            except DumpSyntaxError as problem:
                if error is None or stop == end:
                    error = problem
                self._budget -= _GRAMMAR_COST * (stop - position) if stop > end else 0
                continue
            error = self._problem(read)
            if error is None:
                return read, stop
            break
        if error is None:
            size = f"{(end - position) / 1e6:.1f} MB"
            message = f"an instruction of {size} that only the grammar can read"
            raise DumpSyntaxError.at(self._source, Span(position, end), message)
        raise error

    def _balanced_end(self, position: int) -> int:
        """Return the line end at which all brackets since an offset are closed, or 0."""
        if self._budget <= 0:
            return 0
        depth = 0
        end = min(len(self._text), position + GRAMMAR_LIMIT)
        for match in BRACKET.finditer(self._text, position, end):
            token = match[0]
            if token in "([{":
                depth += 1
            elif token in ")]}":
                depth -= 1
                if depth < 0:
                    self._budget -= match.start() - position
                    return match.start()
            elif token == "\n" and depth == 0 and LINE_START.match(self._text, match.end()):
                self._budget -= match.end() - position
                return match.end()
        self._budget -= end - position
        return end if depth == 0 else 0

    def _problem(self, read: ReadInstruction) -> DumpSyntaxError | None:
        """Return the error of a wrong shape, literal or attribute, or None."""
        for current in with_nested(read):
            if current.shape is not None:
                start, end = current.shape
                problem = self._check.shape_problem(self._text[start:end])
                if problem is not None:
                    return self._placed(problem, start, end)
        for name, start, end in read.attributes:
            problem = self._check.value_problem(name, self._text[start:end])
            if problem is not None:
                return self._placed(problem, start, end)
        return None

    def _placed(self, problem: DumpSyntaxError, start: int, end: int) -> DumpSyntaxError:
        place = start + (problem.column - 1 if problem.line == 1 else 0)
        return DumpSyntaxError.at(self._source, Span(place, max(end, place + 1)), problem.message)
