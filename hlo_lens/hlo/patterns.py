r"""The compiled regular expressions of the scanner: the fast shadow of ``hlo_module.lark``.

Every repetition is possessive (``*+``): a text that does not match costs one pass, whatever it is.
Two families: *line* patterns for the layout of XLA's printer (one instruction a line), *loose* ones
for any white space and comments between tokens.
"""

from __future__ import annotations

import re

from hlo_lens.text.lazy_pattern import lazy_pattern

NAME = r"(?:%(?=[\w.-])|(?=[A-Za-z_]))([\w.-]++)"
"""A name; the group is the name without ``%``."""

_DEFINED = r"(?:%(?=[\w.-])|(?=[A-Za-z_][\w.-]*+(?!=)))([\w.-]++)"
"""A name before ``=``; without ``%``, a space must follow it, or it is an attribute."""

_NEXT = r"(?:%[\w.-]++|[A-Za-z_][\w.-]*+(?!=))"
_ANY = r"%?+[\w.-]++"
"""The same without a group, and for places where a number is a name too."""

COMMENT = r"/\*[^*]{0,4096}+(?:\*(?!/)[^*]{0,4096}+){0,256}+\*/"
"""A comment of bounded length, or each unclosed ``/*`` would cost a pass over the rest."""

COMMENT_OR_REST = r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|\Z)"
"""A comment of any length; an unclosed one extends to the end."""

SPACE = rf"(?:[ \t\f\n]++|{COMMENT}|//[^\n]*+(?=\n|\Z))*+"
"""White space and comments, in loose patterns."""

_DEPTH = 8
"""Deepest nesting that the patterns match; deeper text goes to the grammar."""


def _nested(opening: str, closing: str, inner: str, depth: int) -> str:
    """Return a pattern for a bracket pair around `inner` and itself, `depth` levels deep."""
    pattern = rf"{opening}(?:{inner})*+{closing}"
    for _ in range(depth - 1):
        pattern = rf"{opening}(?:{inner}|{pattern})*+{closing}"
    return pattern


class Family:
    r"""The patterns of one family.

    Args:
        newline: Character that no token may contain: ``\n`` in line patterns, none in loose ones.
        has_escapes: Whether there may be backslashes and zero bytes; strings without are faster.
    """

    def __init__(self, newline: str, *, has_escapes: bool = True) -> None:
        out = rf"{newline}\0"
        any_escaped = r"\\[^\n\0]" if newline else r"\\[^\0]"
        self.string = '"[^"]*+"'
        if has_escapes:
            self.string = rf'"[^"\\{out}]*+(?:{any_escaped}[^"\\{out}]*+)*+"'
        self.quoted = rf"'[^'\\{out}]*+(?:{any_escaped}[^'\\{out}]*+)*+'"
        self.braces = _nested(r"\{", r"\}", rf'[^"{{}}{out}]++|{self.string}', _DEPTH)
        self.parens = _nested(r"\(", r"\)", rf"[^(){out}]++", _DEPTH)
        self.brackets = _nested(r"\[", r"\]", rf"[^\[\]{out}]++", 2)
        space = SPACE if not newline else ""
        self.array = (
            rf"[a-z]\w*+{space}\[[\d,<=?\s]*+\](?:{space}\{{(?=\s*+[\d:])[^{{}}{out}]*+\}})?+"
        )
        self.shape = rf"(?:b{self.parens}|{self.array}|{self.parens})"
        # A top-level comma ends a value, except for the one comma of replica groups by mesh.
        self.value = (
            rf"(?:[^,\s\"'{{}}()\[\]\0]++|{self.string}|{self.braces}|{self.parens}|{self.brackets}"
            rf"|{self.quoted}|,[ ]device_ids=(?=\()|[ ](?=\{{))++"
        )


LINE = Family(r"\n")
LOOSE = Family("")

_GENERIC = r"(?!metadata=|backend_config=)[A-Za-z_][\w.-]*+="
_OPERAND = r"(?:/\*index=\d++\*/)?+%?+[\w.-]++(?:#\d++)*+"
_NO_NAMES = r"(?<!constant\()(?<!parameter\((?!\d*+\)))"
_OPERANDS = rf"{_NO_NAMES}((?:{_OPERAND}(?:, {_OPERAND})*+)?+)"


def _printed_instruction(line: Family) -> re.Pattern[str]:
    """Return the pattern of a printed instruction with its line end."""
    value = rf"(?:{line.string}|-?\d++|\{{[\d,]*+\}}|[A-Za-z_]\w*+)"
    metadata = rf"metadata=\{{(?:[a-z_]++={value}[ ,]*+)*+\}}"
    config = rf"backend_config=(?:{line.braces}|{line.string})"
    return lazy_pattern(
        rf" *+(ROOT )?+{NAME} = ({line.shape}) ([a-z][a-z0-9_-]*+)"
        rf"\((?:{_OPERANDS}\)|((?:[^()\n\0]++|{line.parens})*+)\))"
        rf"((?:, {_GENERIC}{line.value})*+)((?:, (?:{metadata}|{config}))*+)[ ]*+(?:\n|\Z)"
    )


LINE_INSTRUCTION = _printed_instruction(LINE)
"""A printed instruction with its line end.

Groups: ROOT, name, shape, opcode, operands that are names, other operands (a literal, operands with
shapes), attributes before ``metadata`` and ``backend_config``, those two.
"""

PLAIN_INSTRUCTION = _printed_instruction(Family(r"\n", has_escapes=False))
"""The same for a part of the text that is one line without backslashes and zero bytes."""

LOOSE_INSTRUCTION = lazy_pattern(
    rf"{SPACE}(ROOT\b{SPACE})?+{_DEFINED}{SPACE}={SPACE}(?:({LOOSE.shape}){SPACE})?+"
    rf"([a-z][a-z0-9_-]*+){SPACE}\((?:{_OPERANDS}\)|((?:[^()\0]++|{LOOSE.parens})*+)\))"
    rf"((?:{SPACE},{SPACE}[A-Za-z_][\w.-]*+={SPACE}{LOOSE.value})*+)"
    rf"(?={SPACE}(?:\}}|(?:ROOT\b{SPACE})?+(?:\Z|{_NEXT}{SPACE}=)))"
)
"""The same with any white space, ending where the next instruction or the brace begins.

Groups as in the line pattern, all attributes in one. The shape may be left out.
"""

_NAMED_OPERAND = rf"{_ANY}(?:{SPACE}#{SPACE}\d++)*+"
_TUPLE = rf"(?=\({SPACE}(?:[()]|b\(|[a-z]\w*+{SPACE}\[)){LOOSE.parens}"
_OPERAND_SHAPE = rf"(?:b{LOOSE.parens}|{LOOSE.array}|{_TUPLE})"
_TYPED_OPERAND = rf"(?:{_OPERAND_SHAPE}{SPACE}(?:{_NAMED_OPERAND})?+|{_NAMED_OPERAND}){SPACE}"
TYPED_OPERANDS = lazy_pattern(
    rf"[,\s]*+(?:{SPACE}{_TYPED_OPERAND}(?:,[,\s]*+{SPACE}{_TYPED_OPERAND})*+)?+[,\s]*+"
)
"""Operands with shapes. XLA's parser allows extra commas, but no missing ones."""

PARAMETER_NUMBER = lazy_pattern(rf"{SPACE}(?:\d++{SPACE})?+")
"""The text between the parentheses of a parameter."""

NESTED_CALL = lazy_pattern(r"(?<![A-Za-z0-9_.%-])(?!b\()(?!nan\()[a-z][a-z0-9_-]*+\s*+\(")
"""An instruction written inside an operand list."""

_SIGNATURE = rf"({LINE.parens} -> {LINE.shape})"
LINE_COMPUTATION = lazy_pattern(rf"(ENTRY )?+(?:{NAME})?+ ?+(?:{_SIGNATURE} )?+\{{[ ]*+\n")
"""First line of a printed computation. Groups: ENTRY, name, signature."""

LOOSE_COMPUTATION = lazy_pattern(
    rf"{SPACE}(ENTRY\b{SPACE})?+(?:{NAME}(?!=))?+{SPACE}"
    rf"(?:({LOOSE.parens}{SPACE}->{SPACE}{LOOSE.shape}){SPACE})?+\{{"
)
LINE_CLOSE = lazy_pattern(
    rf"\}}((?:, [A-Za-z_][\w.-]*+={LINE.value})*+)(?: //[^\n]*+)?+(?:\n|\Z)\n*+"
)
LOOSE_CLOSE = lazy_pattern(
    rf"{SPACE}\}}((?:{SPACE},{SPACE}[A-Za-z_][\w.-]*+={LOOSE.value})*+){SPACE}"
)
BLANK = lazy_pattern(SPACE)
COMMENTS = lazy_pattern(rf"{COMMENT_OR_REST}|//[^\n]*+")

ATTRIBUTE = lazy_pattern(rf"{SPACE},{SPACE}([A-Za-z_][\w.-]*+)={SPACE}({LOOSE.value})")
"""One attribute of a list, with its leading comma. Groups: name, value."""

_BEFORE_VALUE = rf"(?:[ \t]*+(?!/[*/])|{SPACE}(?!ENTRY\b|{_ANY}{SPACE}[({{=]))"
HEADER = lazy_pattern(
    rf"HloModule(?![\w.-])(?:[ \t]|{COMMENT})*+(?:(?!ENTRY\b){NAME}:?+)?+"
    rf"((?:{SPACE},{SPACE}[A-Za-z_][\w.-]*+={_BEFORE_VALUE}{LOOSE.value})*+)"
)
"""A header. A missing value is not taken from the next line, where the body begins."""

HEADER_START = lazy_pattern(r"HloModule(?![\w.-])")
HEADER_INSIDE = lazy_pattern(
    r"(?<![\w.\"'\\-])HloModule [A-Za-z_][\w.-]*+(?:, [a-z_]++=|,?[ \t]*+$)", re.MULTILINE
)
"""A header after other words of a log on its line."""

NEXT_HEADER = lazy_pattern(r"^[ \t]*+HloModule[ ,]", re.MULTILINE)

TABLE = lazy_pattern(r"(FileNames|FunctionNames|FileLocations|StackFrames)[ \t]*+\n")
TABLE_STRING = lazy_pattern(rf"[ \t]*+(\d++)[ \t]++({LINE.string})[ \t]*+\n")
TABLE_RECORD = lazy_pattern(r"[ \t]*+(\d++)[ \t]++\{((?:[ ,]*+[a-z_]++=\d++)*+)[ ,]*+\}[ \t]*+\n")
TABLE_FIELD = lazy_pattern(r"([a-z_]++)=(\d++)")
PLAIN_LOCATION = lazy_pattern(
    r"\d++ \{file_name_id=(\d{1,18}+) function_name_id=(\d{1,18}+) line=(\d{1,18}+) "
    r"end_line=(\d{1,18}+) column=(\d{1,18}+) end_column=(\d{1,18}+)\}\n"
)
PLAIN_FRAME = lazy_pattern(r"\d++ \{file_location_id=(\d{1,18}+) parent_frame_id=(\d{1,18}+)\}\n")
"""Records of both tables as XLA prints them, with all fields in the order of the model's."""

LINE_START = lazy_pattern(
    rf"^[ \t]*+(?:(?:ROOT[ \t]++)?+{_ANY}[ \t]++=\s|\}}|HloModule[ ,]"
    rf"|ENTRY[ \t][^\n]*\{{[ \t]*+$|{_ANY}[ \t]++(?:\([^\n]*)?\{{[ \t]*+$)",
    re.MULTILINE,
)
"""A line at which reading resumes after unreadable text."""

LENIENT_COMPUTATION = lazy_pattern(
    rf"(ENTRY\b[ \t]*+)?+(?:{NAME})?+(?=[ \t:({{])[^\n]*?()\{{[ \t]*+(?:\n|\Z)"
)
"""A line that looks like the start of a computation, errors included. Groups as above."""

INLINE_START = lazy_pattern(
    rf"(?<=[ \t])(?:ROOT[ \t]++)?+{_ANY}[ \t]++=[ \t]++(?:{LINE.shape}[ \t]++)?+[a-z][a-z0-9_-]*+\("
)
"""The same inside a line, for modules printed on one line."""

KEYWORD = lazy_pattern(rf"(?:ROOT|ENTRY)\b{SPACE}(?!ROOT\b|ENTRY\b)")
INSTRUCTION_LIKE = lazy_pattern(rf"{SPACE}(?:ROOT\b{SPACE})?+{_ANY}{SPACE}=")
UNNAMED_INSTRUCTION = lazy_pattern(
    rf"(?:b{LOOSE.parens}|{LOOSE.array}|{_TUPLE})[ \t]++[a-z][a-z0-9_-]*+\("
)
"""The start of an instruction without its name, as canonical printing has it."""

COMPUTATION_LIKE = lazy_pattern(
    r"(?:ENTRY\b|%?+[A-Za-z_][\w.-]*+[ \t]*+[({])[^\n]*\{[ \t]*+$", re.MULTILINE
)

BRACKET = lazy_pattern(
    rf'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|{COMMENT_OR_REST}|[(\[{{}})\]]|\n', re.DOTALL
)
"""Brackets, strings, comments and line ends: the end of text over several lines depends on them."""

LOOSE_PROGRAM_SHAPE = lazy_pattern(
    rf"\{{{SPACE}\(({SPACE}(?:{LOOSE.shape}{SPACE},?+{SPACE})*+)\){SPACE}->{SPACE}({LOOSE.shape}){SPACE}\}}"
)
"""Value of ``entry_computation_layout``. Groups: parameter shapes, result shape."""

SHAPE_ITEM = lazy_pattern(rf"{SPACE}({LOOSE.shape}){SPACE}(?:,|\Z)")
"""One shape of a comma-separated list."""
