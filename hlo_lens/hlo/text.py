"""Patterns of HLO text, and parsers of its small parts: strings, operands, attributes.

The patterns of the scanner are made from the terminals of ``hlo_module.lark``. Every repetition is
possessive (``*+``): a text that does not match costs one pass, whatever it is. *Line* patterns take
the layout of XLA's printer (one instruction a line), *loose* ones any white space and comments
between tokens. The argument of each parser is a part that scanner or grammar has accepted.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.grammar.lines import LineRule, terminal
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.replica_groups import parse_device_list
from hlo_lens.shapes.shape import (
    REMEMBERED_LENGTH,
    ProgramShape,
    Shape,
    parse_shape,
    remembered_shape,
)
from hlo_lens.shapes.sharding import HloSharding, parse_sharding
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.names import lazy_pattern
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.shapes.shape import ShapeIndex


GRAMMARS = ("hlo_tokens", "shape", "sharding", "replica_groups", "hlo_module")


@functools.cache
def _terminal(name: str) -> str:
    return terminal(name, *GRAMMARS)


NAME = r"(?:%(?=[\w.-])|(?=[A-Za-z_]))([\w.-]++)"
"""A name; the group is the name without ``%``."""

_NEXT = r"(?:%[\w.-]++|[A-Za-z_][\w.-]*+(?!=))"
_ANY = r"%?+[\w.-]++"
"""The same without a group, and for places where a number is a name too."""

_SPACE_OR_COMMENT = f"(?:{_terminal('WHITESPACE')}|{_terminal('COMMENT')})"
SPACE = f"{_SPACE_OR_COMMENT}*+"
"""White space and comments, in loose patterns."""

_ROOT, _ENTRY = _terminal("ROOT"), _terminal("ENTRY")
SHAPE, _PARENS, _VALUE = (f"(?>{_terminal(n)})" for n in ("SHAPE_TEXT", "PARENS", "VALUE_TEXT"))
LINE_SHAPE, _LINE_PARENS, _LINE_VALUE = (
    text.replace("[^", r"[^\n") for text in (SHAPE, _PARENS, _VALUE)
)
_ATTRIBUTE = _terminal("ATTRIBUTE_NAME") + "="
HLO_MODULE = _terminal("HLO_MODULE")
_TABLES = [
    _terminal(name)
    for name in ("_FILE_NAMES", "_FUNCTION_NAMES", "_FILE_LOCATIONS", "_STACK_FRAMES")
]
MARKS = f"{_ENTRY}|{_ROOT}"
TABLE_TITLES = "|".join(_TABLES)
FIRST_LETTERS = {title[0] for title in (HLO_MODULE, *_TABLES)}
"""First letters of headers and of stack tables."""

LINE_INSTRUCTION = LineRule("printed_instruction", *GRAMMARS, before=" *+")
"""A printed instruction with its line end.

Groups: ROOT, name, shape, opcode, operands that are names, other operands (a literal, operands with
shapes), attributes before ``metadata`` and ``backend_config``, those two.
"""

LOOSE_INSTRUCTION = LineRule(
    "loose_instruction",
    *GRAMMARS,
    is_line=False,
    is_loose=True,
    after=rf"(?={SPACE}(?:\}}|(?:{_ROOT}{SPACE})?+(?:\Z|{_NEXT}{SPACE}=)))",
)
"""The same with any white space, ending where the next instruction or the brace begins.

Groups as in the line pattern, all attributes in one. The shape may be left out.
"""

_NAMED_OPERAND = rf"{_ANY}(?:{SPACE}#{SPACE}\d++)*+"
_TUPLE = rf"(?=\({SPACE}(?:[()]|b\(|[a-z]\w*+{SPACE}\[)){_PARENS}"
_OPERAND_SHAPE = rf"(?:b{_PARENS}|{_terminal('ARRAY_TEXT')}|{_TUPLE})"
_TYPED_OPERAND = rf"(?:{_OPERAND_SHAPE}{SPACE}(?:{_NAMED_OPERAND})?+|{_NAMED_OPERAND}){SPACE}"
TYPED_OPERANDS = lazy_pattern(
    rf"[,\s]*+(?:{SPACE}{_TYPED_OPERAND}(?:,[,\s]*+{SPACE}{_TYPED_OPERAND})*+)?+[,\s]*+"
)
"""Operands with shapes. XLA's parser allows extra commas, but no missing ones."""

PARAMETER_NUMBER = lazy_pattern(rf"{SPACE}(?:\d++{SPACE})?+")
"""The text between the parentheses of a parameter."""

NESTED_CALL = lazy_pattern(r"(?<![A-Za-z0-9_.%-])(?!b\()(?!nan\()[a-z][a-z0-9_-]*+\s*+\(")
"""An instruction written inside an operand list."""

LINE_COMPUTATION = lazy_pattern(
    rf"({_ENTRY} ?+)?+(?:{NAME})?+ ?+(?:({_LINE_PARENS} -> {LINE_SHAPE}) )?+\{{[ ]*+\n"
)
"""First line of a printed computation. Groups: ENTRY, name, signature."""

LOOSE_COMPUTATION = lazy_pattern(
    rf"{SPACE}({_ENTRY}{SPACE})?+(?:{NAME}(?!=))?+{SPACE}"
    rf"(?:({_PARENS}{SPACE}->{SPACE}{SHAPE}){SPACE})?+\{{"
)
LINE_CLOSE = lazy_pattern(rf"\}}((?:, {_ATTRIBUTE}{_LINE_VALUE})*+)(?: //[^\n]*+)?+(?:\n|\Z)\n*+")
LOOSE_CLOSE = lazy_pattern(rf"{SPACE}\}}((?:{SPACE},{SPACE}{_ATTRIBUTE}{_VALUE})*+){SPACE}")
BLANK = lazy_pattern(SPACE)
COMMENT_OR_REST = r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|\Z)"
"""A comment of any length; an unclosed one extends to the end."""

COMMENTS = lazy_pattern(rf"{COMMENT_OR_REST}|//[^\n]*+")

ATTRIBUTE = LineRule("loose_attribute", *GRAMMARS, is_line=False, is_loose=True)
"""One attribute of a list, with its leading comma. Groups: name, value."""

_BEFORE_VALUE = rf"(?:[ \t]*+(?!/[*/])|{SPACE}(?!{_ENTRY}|{_ANY}{SPACE}[({{=]))"
HEADER = lazy_pattern(
    rf"{HLO_MODULE}(?:[ \t]|{_terminal('COMMENT')})*+(?:(?!{_ENTRY}){NAME}:?+)?+"
    rf"((?:{SPACE},{SPACE}{_ATTRIBUTE}{_BEFORE_VALUE}{_VALUE})*+)"
)
"""A header. A missing value is not taken from the next line, where the body begins."""

HEADER_START = lazy_pattern(HLO_MODULE)
HEADER_INSIDE = lazy_pattern(
    rf"(?<![\w.\"'\\-]){HLO_MODULE} [A-Za-z_][\w.-]*+(?:, [a-z_]++=|,?[ \t]*+$)", re.MULTILINE
)
"""A header after other words of a log on its line."""

NEXT_HEADER = lazy_pattern(rf"^[ \t]*+{HLO_MODULE}(?=[ ,])", re.MULTILINE)

TABLE = lazy_pattern(rf"(?:{'|'.join(f'({title})' for title in _TABLES)})[ \t]*+\n")
"""Title of a table. Groups: one for each table."""

TABLE_STRING = lazy_pattern(rf"[ \t]*+(\d++)[ \t]++({_terminal('STRING')})[ \t]*+\n")
TABLE_RECORD = lazy_pattern(r"[ \t]*+(\d++)[ \t]++\{((?:[ ,]*+[a-z_]++=\d++)*+)[ ,]*+\}[ \t]*+\n")
TABLE_FIELD = lazy_pattern(r"([a-z_]++)=(\d++)")
PLAIN_LOCATION = lazy_pattern(
    r"\d++ \{file_name_id=(\d{1,18}+) function_name_id=(\d{1,18}+) line=(\d{1,18}+) "
    r"end_line=(\d{1,18}+) column=(\d{1,18}+) end_column=(\d{1,18}+)\}\n"
)
PLAIN_FRAME = lazy_pattern(r"\d++ \{file_location_id=(\d{1,18}+) parent_frame_id=(\d{1,18}+)\}\n")
"""Records of both tables as XLA prints them, with all fields in the order of the model's."""

LINE_START = lazy_pattern(
    rf"^[ \t]*+(?:(?:{_ROOT}[ \t]*+)?+{_ANY}[ \t]++=\s|\}}|{HLO_MODULE}(?=[ ,])"
    rf"|{_ENTRY}[^\n]*\{{[ \t]*+$|{_ANY}[ \t]++(?:\([^\n]*)?\{{[ \t]*+$)",
    re.MULTILINE,
)
"""A line at which reading resumes after unreadable text."""

LENIENT_COMPUTATION = lazy_pattern(
    rf"({_ENTRY}[ \t]*+)?+(?:{NAME})?+(?=[ \t:({{])[^\n]*?()\{{[ \t]*+(?:\n|\Z)"
)
"""A line that looks like the start of a computation, errors included. Groups as above."""

INLINE_START = lazy_pattern(
    rf"(?<=[ \t])(?:{_ROOT}[ \t]*+)?+{_ANY}[ \t]++=[ \t]++(?:{LINE_SHAPE}[ \t]++)?+"
    r"[a-z][a-z0-9_-]*+\("
)
"""The same inside a line, for modules printed on one line."""

KEYWORD = lazy_pattern(rf"(?:{_ROOT}|{_ENTRY}){SPACE}(?!{_ROOT}|{_ENTRY})")
INSTRUCTION_LIKE = lazy_pattern(rf"{SPACE}(?:{_ROOT}{SPACE})?+{_ANY}{SPACE}=")
COMPUTATION_LIKE = lazy_pattern(
    rf"(?:{_ENTRY}|%?+[A-Za-z_][\w.-]*+[ \t]*+[({{])[^\n]*\{{[ \t]*+$", re.MULTILINE
)

BRACKET = lazy_pattern(
    rf'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|{COMMENT_OR_REST}|[(\[{{}})\]]|\n', re.DOTALL
)
"""Brackets, strings, comments and line ends: the end of text over several lines depends on them."""

LOOSE_PROGRAM_SHAPE = lazy_pattern(
    rf"\{{{SPACE}\(({SPACE}(?:{SHAPE}{SPACE},?+{SPACE})*+)\){SPACE}->{SPACE}({SHAPE}){SPACE}\}}"
)
"""Value of ``entry_computation_layout``. Groups: parameter shapes, result shape."""

SHAPE_ITEM = lazy_pattern(rf"{SPACE}({SHAPE}){SPACE}(?:,|\Z)")
"""One shape of a comma-separated list."""


LONG_LINE = 1 << 14
"""A line longer than this may hold many instructions."""


class HloUnits:
    """Finds ends in a text; remembers the last line end, for lines of many megabytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._line = (0, -1)
        self._last_comment: int | None = None

    def blank(self, position: int) -> int:
        text = self.text
        while True:
            match = BLANK.match(text, position)
            position = position if match is None else match.end()
            if not text.startswith("/*", position):
                return position
            if self._last_comment is None:
                self._last_comment = text.rfind("*/")
            if self._last_comment < position + 2:
                return position
            position = text.index("*/", position + 2) + 2  # longer than the patterns allow

    def unit_end(self, position: int) -> int:
        """Return the offset at which reading resumes: the next line that begins an item.

        On a line that is too long for one instruction, also an offset inside the line.
        """
        text = self.text
        keyword = KEYWORD.match(text, position)
        if keyword is not None:  # which may be on a line of its own
            position = keyword.end()
        line_end = self.line_end(position)
        if line_end - position > LONG_LINE:
            head = INSTRUCTION_LIKE.match(text, position, line_end)
            start = position + 1 if head is None else head.end()
            inside = INLINE_START.search(text, start, line_end)
            if inside is not None:
                return inside.start()
        match = LINE_START.search(text, line_end + 1) if line_end < len(text) else None
        return len(text) if match is None else match.start()

    def line_end(self, position: int) -> int:
        """Return the end of the line of an offset; the last line is remembered."""
        start, end = self._line
        if not start <= position <= end:
            found = self.text.find("\n", position)
            end = len(self.text) if found < 0 else found
            self._line = (position, end)
        return end


CALLING_ATTRIBUTES = (
    "to_apply",
    "calls",
    "condition",
    "body",
    "true_computation",
    "false_computation",
    "branch_computations",
    "called_computations",
    "select",
    "scatter",
)
"""Attributes whose values name computations. Source: hlo_parser.cc, CreateInstruction."""

_ESCAPE = lazy_pattern(r"((?:\\(?:[0-7]{1,3}|x[0-9a-fA-F]{2}))+)|\\(.)", re.DOTALL)
_CODE = lazy_pattern(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2}))")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_PLAIN_OPERAND = lazy_pattern(r"%?([\w.-]+)((?:#\d+)*)")
_OPERAND = lazy_pattern(
    rf"[,\s]*+{SPACE}(?:({SHAPE}){SPACE})?+(?:{NAME}((?:{SPACE}#{SPACE}\d++)*+))?+{SPACE}(?:,|\Z)"
)
_FRONTEND = LineRule(
    "loose_frontend", *GRAMMARS, is_line=False, is_loose=True, after=rf"{SPACE}(?=,|\Z)"
)
_FRONTEND_LENIENT = lazy_pattern(
    r"\s*([\w.-]+)=(?:\"(.*?)\"|(\{.*?\}))\s*(?=,\s*[\w.-]+=[\"{]|\Z)", re.DOTALL
)
_INT = lazy_pattern(r"-?\d+")
_ALIAS = lazy_pattern(
    r"\{([\d,\s]*)\}\s*:\s*\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}\s*(?:,\s*(may-alias|must-alias)\s*)?\)"
)
_DONOR = lazy_pattern(r"\(\s*(\d+)\s*,\s*\{([\d,\s]*)\}\s*\)")
_HIDDEN_INDEX = lazy_pattern(r"#\d+")
_LIST_NAME = lazy_pattern(r"%?([A-Za-z_%][\w.-]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class HloOperand:
    """One operand as written.

    Attributes:
        name: Name of the instruction, without ``%``.
        index: Tuple index after ``#`` (compact get-tuple-element), outermost first; () for none.
        shape_text: The operand's shape where it is printed, else None.
    """

    name: str
    index: ShapeIndex = ()
    shape_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOutputAlias:
    """Output buffer that shares a parameter's memory: an entry of ``input_output_alias``.

    Attributes:
        output_index: Index into the result shape of the entry computation.
        parameter_number: Number of the entry parameter.
        parameter_index: Index into that parameter's shape.
        kind: ``may-alias`` or ``must-alias``.
    """

    output_index: ShapeIndex
    parameter_number: int
    parameter_index: ShapeIndex
    kind: str = "may-alias"


def unescape(text: str) -> str:
    """Return a C-escaped text unescaped: octal and hexadecimal bytes are decoded as UTF-8."""
    escapes = text.count("\\")
    if escapes == text.count("\\'"):  # none, or those of quotes, as in names of arguments
        return text.replace("\\'", "'") if escapes else text
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    if match[1] is None:
        return _SIMPLE.get(match[2], match[2])
    codes = bytes(int(o, 8) & 255 if o else int(x, 16) for o, x in _CODE.findall(match[1]))
    return codes.decode("utf-8", errors="backslashreplace")


def parse_string(text: str) -> str:
    """Return a quoted string without quotes and escapes; any other text unchanged."""
    if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
        return unescape(text[1:-1])
    return text


@functools.lru_cache(maxsize=1024)
def parse_operands(text: str) -> tuple[HloOperand, ...]:
    """Return the operands of a list, in order; printed shapes are kept as text."""
    if "/" in text:
        text = COMMENTS.sub("", text)
    if "[" not in text and "(" not in text:
        return tuple(
            HloOperand(name=name, index=_index(index)) if index else HloOperand(name=name)
            for name, index in _PLAIN_OPERAND.findall(text)
        )
    return tuple(
        HloOperand(name=m[2] or "", index=_index(m[3] or ""), shape_text=m[1])
        for m in _OPERAND.finditer(text)
        if m[1] or m[2]
    )


def _index(text: str) -> ShapeIndex:
    return tuple(map(bounded_int, _INT.findall(text)))


@functools.lru_cache(maxsize=256)
def parse_attributes(text: str) -> tuple[tuple[str, str], ...]:
    """Return names and values of an attribute list (with its leading comma), as written."""
    return tuple(ATTRIBUTE.pattern.findall(text))


def parse_attribute(text: str, name: str) -> str | None:
    """Return the first value of a name in an attribute list; the rest is not parsed."""
    for match in ATTRIBUTE.pattern.finditer(text):
        if match[1] == name:
            return match[2]
    return None


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names in ``{%a, %b}`` or ``%a``, without ``%`` and tuple indices."""
    if text.startswith(("{", "%")) or "/" in text:
        text = COMMENTS.sub("", text)
    return tuple(_LIST_NAME.findall(_HIDDEN_INDEX.sub("", text) if "#" in text else text))


def parse_frontend_attributes(text: str) -> Mapping[str, str]:
    """Return keys and values, unquoted; quotes in dumps before 2025 are not escaped."""
    inner = text.strip()[1:-1]
    found: dict[str, str] = {}
    position = 0
    while position < len(inner):
        match = _FRONTEND.match(inner, position) or _FRONTEND_LENIENT.match(inner, position)
        if match is None:
            break
        key, quoted, braced = match[1], match[2], match[3]
        if quoted is None:
            found[key] = braced
        else:
            is_strict = match.re is _FRONTEND.pattern
            found[key] = parse_string(quoted) if is_strict else unescape(quoted)
        position = match.end() + 1
    return found


def parse_aliasing(text: str) -> tuple[InputOutputAlias, ...]:
    """Return the pairs of an ``input_output_alias`` value, in order."""
    return tuple(
        InputOutputAlias(
            output_index=_index(m[1]),
            parameter_number=bounded_int(m[2]),
            parameter_index=_index(m[3]),
            kind="must-alias" if m[4] == "must-alias" else "may-alias",  # one string for all
        )
        for m in _ALIAS.finditer(text)
    )


def parse_donors(text: str) -> tuple[tuple[int, ShapeIndex], ...]:
    """Return parameter number and index of each entry of a ``buffer_donor`` value."""
    return tuple((bounded_int(m[1]), _index(m[2])) for m in _DONOR.finditer(text))


class HloReader:
    """Reads parts of the text of a module.

    `parse_shape`, `parse_sharding` and `parse_device_list` have the one cache of a process. Only
    very long shapes are cached here, as long as the module lives.
    """

    sharding = staticmethod(parse_sharding)
    device_list = staticmethod(parse_device_list)
    attributes = staticmethod(parse_attributes)
    string = staticmethod(parse_string)
    frontend_attributes = staticmethod(parse_frontend_attributes)
    names = staticmethod(parse_names)

    def __init__(self) -> None:
        self._long_shapes: dict[str, Shape] = {}

    def printed_sharding(self, text: str) -> HloSharding:
        """Return the sharding of an instruction; for a text of unknown form one not known."""
        try:
            return self.sharding(text)
        except DumpSyntaxError:
            return HloSharding(kind=ShardingKind.UNKNOWN, text=text)

    def shape(self, text: str) -> Shape:
        if len(text) <= REMEMBERED_LENGTH:
            return remembered_shape(text)
        known = self._long_shapes.get(text)
        if known is None:
            known = self._long_shapes[text] = parse_shape(text)
        return known

    def program_shape(self, text: str) -> ProgramShape:
        """Return the signature that an ``entry_computation_layout`` value prints.

        Raises:
            DumpSyntaxError: If it is not of the form ``{(shape, ...)->shape}``.
        """
        match = LOOSE_PROGRAM_SHAPE.fullmatch(text)
        if match is None:
            raise DumpSyntaxError("expected {(shape, ...)->shape}")
        parameters = tuple(self.shape(item[1]) for item in SHAPE_ITEM.finditer(match[1]))
        return ProgramShape(parameters=parameters, result=self.shape(match[2]))
