"""Checks of attribute values for the scanner: the counterpart of the rule ``attribute``.

Regular expressions check the common values; an instruction with any other value goes to the
grammar, which reports the place of an error. If only the value of an attribute is of an unknown
form, the instruction is kept, with the value as text, and the place is a gap. Shapes, shardings and
device lists are parsed, once per distinct text. Attributes that are not listed may have any value:
XLA gains some every month.
"""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING

from hlo_lens.grammar.lines import LineRule, alternatives, terminal
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.patterns import (
    ATTRIBUTE,
    COMMENTS,
    GRAMMARS,
    NAME,
    NESTED_CALL,
    PARAMETER_NUMBER,
    SHAPE,
    SPACE,
    TYPED_OPERANDS,
)
from hlo_lens.hlo.text import CALLING_ATTRIBUTES
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.patterns import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.hlo.text import HloReader
    from hlo_lens.shapes.shape import Shape

PARSED = frozenset({"sharding", "replica_groups"})
"""Attributes whose values are parsed, once for each distinct text, instead of matched."""


@functools.cache
def forms() -> Mapping[str, LineRule]:
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

_PARAMETER = rf"(?:\(unknown\):?|{NAME}:?){SPACE}{SHAPE}".replace("([", "(?:[")
_SIGNATURE = lazy_pattern(
    rf"\({SPACE}(?:{_PARAMETER}{SPACE}(?:,{SPACE}{_PARAMETER}{SPACE})*+)?+\)"
    rf"{SPACE}->{SPACE}{SHAPE}"
)

_STRUCTURAL = frozenset((*CALLING_ATTRIBUTES, "control-predecessors", "index"))
"""Attributes without which an instruction is not connected with others as it should be."""

_REMEMBERED = 200
"""Longest literal, in characters, in the cache."""

_COUNTED = 1 << 16
"""Longest literal, in characters, whose elements are counted."""

_WORD = (
    r"-?(?:inf|nan(?:\(0x[0-9a-fA-F]++\))?+|(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+)"
    r"|true|false"
)
_COMPLEX = rf"\(\s*+(?:{_WORD})\s*+,\s*+(?:{_WORD})\s*+\)"
_SCALAR = lazy_pattern(rf"\s*+(?:{_WORD}|{_COMPLEX}|unknown|undetermined)\s*+")
_ELEMENTS = lazy_pattern(rf"(?:{_WORD}|{_COMPLEX}|[{{}},\s]|\.\.\.)*+")
_ELIDED = lazy_pattern(r"\s*\{\s*\.\.\.\s*\}\s*")
_WORDS = lazy_pattern(r"[^{},\s]+")
_BRACE = lazy_pattern(r"[{}]")
_DYNAMIC_SIZES = lazy_pattern(r"\s*\([\d,\s]*\)(?=\s*\{)")


def _fits(text: str, shape: Shape) -> bool:
    """Return whether a literal is written as one of this shape; False for tuples."""
    if "/" in text:
        text = COMMENTS.sub(" ", text)
    if _ELIDED.fullmatch(text):
        return True
    if shape.is_tuple:
        return False
    if not shape.dimensions or "{" not in text:  # one number may fill the array
        return _SCALAR.fullmatch(text) is not None
    text = _DYNAMIC_SIZES.sub("", text, count=1)
    if _ELEMENTS.fullmatch(text) is None:
        return False
    sizes = shape.dimensions
    depth = sizes.index(0) + 1 if 0 in sizes else len(sizes)  # no braces inside empty ones
    return _nesting(text) == depth and _has_all(text, shape)


def _has_all(text: str, shape: Shape) -> bool:
    """Return whether a literal has as many elements as its shape; long ones are not counted."""
    if len(text) > _COUNTED or "..." in text or None in shape.dimensions or "(" in text:
        return True
    if any(shape.dynamic_dimensions):
        return True
    return len(_WORDS.findall(text)) == math.prod(d or 0 for d in shape.dimensions)


def _nesting(text: str) -> int:
    """Return the nesting depth of braces; -1 if they are unbalanced or not one group."""
    depth = deepest = closed = 0
    for match in _BRACE.finditer(text):
        depth += 1 if match[0] == "{" else -1
        if depth < 0:
            return -1
        deepest = max(deepest, depth)
        closed += depth == 0
    return deepest if depth == 0 and closed == 1 else -1


_VARIABLE = lazy_pattern(r"%[\w.-]++|(?<=channel_id=)\d++")
"""Numbers and names that differ between attribute lists of one form and need no check."""


class AttributeCheck:
    """Checks shapes and attributes, each distinct text once.

    Attributes:
        shapes: Texts of correct shapes.
        attributes: Texts of correct attribute lists, without names and channels; the empty one
            included.
        unknown: Names of unknown attributes.
    """

    def __init__(self, reader: HloReader) -> None:
        self._reader = reader
        self.shapes: set[str] = set()
        self.attributes: set[str] = {""}
        self.unknown: set[str] = set()
        self._literals: set[tuple[str, str]] = set()

    def take_unknown(self) -> tuple[str, ...]:
        """Return the unknown names since the last call; called at the end of a module."""
        names = tuple(sorted(self.unknown))
        if names:
            self.unknown.clear()
            self.attributes.clear()  # the next module may have the same names in the same texts
            self.attributes.add("")
        return names

    def instruction(self, match: re.Match[str]) -> bool:
        """Return whether the parts of a match that patterns cannot check are correct."""
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
            return self.literal(match[3], operands)
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
        """Return whether a text is a shape."""
        if text in self.shapes:
            return True
        if self.shape_problem(text) is not None:
            return False
        self.shapes.add(text)
        return True

    def shape_problem(self, text: str) -> DumpSyntaxError | None:
        """Return the error of a text that is no shape, with its place in the text, or None."""
        return _problem(self._reader.shape, text)

    def attribute_text(self, text: str) -> bool:
        """Return whether all values of an attribute list are correct."""
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
        if name in PARSED:
            return self.value_problem(name, value) is None
        form = forms().get(name)
        if form is None:
            self.unknown.add(name)
        return form is None or form.pattern.fullmatch(value) is not None

    def literal(self, shape_text: str, text: str) -> bool:
        """Return whether a literal has the nesting of its shape."""
        key = (shape_text, text)
        if key in self._literals:
            return True
        if not _fits(text, self._reader.shape(shape_text)):
            return False
        if len(text) <= _REMEMBERED:
            self._literals.add(key)
        return True

    def value_problem(self, name: str, value: str) -> DumpSyntaxError | None:
        """Return the error of a wrong sharding or device list, or None; others are not checked."""
        if name not in forms():
            self.unknown.add(name)
        if name == "sharding":
            return _problem(self._reader.sharding, value)
        return _problem(self._reader.device_list, value) if name == "replica_groups" else None

    def signature(self, text: str) -> bool:
        """Return whether a text is ``(name: shape, ...) -> shape``; the shapes are not checked."""
        return _SIGNATURE.fullmatch(text) is not None

    def header(self, header: Mapping[str, str]) -> str | None:
        """Return the name of the first header attribute whose value is wrong, or None."""
        for name, value in header.items():
            form = forms().get(name)
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
