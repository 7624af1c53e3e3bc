"""Parsers of small parts of HLO text: strings, operands, attributes.

The argument of each function is a part that the scanner or the grammar has accepted.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.grammar.lines import LineRule
from hlo_lens.hlo.patterns import (
    ATTRIBUTE,
    COMMENTS,
    GRAMMARS,
    LOOSE_PROGRAM_SHAPE,
    NAME,
    SHAPE,
    SHAPE_ITEM,
    SPACE,
)
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
from hlo_lens.text.patterns import lazy_pattern
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.shapes.shape import ShapeIndex


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
LONGEST_NUMBER = 20
"""Digits of the largest 64-bit number, plus one."""


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
        """Return the shape that a text prints."""
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
