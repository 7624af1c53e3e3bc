"""Columns of instructions and computations: offsets of their parts in the text, and their filling.

The scanner fills them with matches of its patterns, the grammar with `ReadInstruction`.
"""

from __future__ import annotations

import bisect
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.text import (
    CALLING_ATTRIBUTES,
    HloOperand,
    parse_attribute,
    parse_attributes,
    parse_names,
    parse_operands,
)

if TYPE_CHECKING:
    from hlo_lens.text.source import Source


class NameIndex:
    """Number of each name; the last one of a repeated name.

    A hash table of numbers with open addressing: 8 to 16 bytes a name, where a dictionary with the
    names takes 200.
    """

    __slots__ = ("_name_of", "_slots")

    def __init__(
        self, numbers: Sequence[int], name_of: Callable[[int], str], names: Iterable[str]
    ) -> None:
        self._name_of = name_of
        size = 1 << (2 * len(numbers)).bit_length()
        self._slots = array("Q" if numbers and max(numbers) >= _WIDE else "I", [0]) * size
        slots, last = self._slots, size - 1
        for number, name in zip(numbers, names, strict=True):
            slot = hash(name) & last
            while (found := slots[slot]) and name_of(found - 1) != name:
                slot = (slot + 1) & last
            slots[slot] = number + 1

    def get(self, name: str) -> int | None:
        slots, name_of = self._slots, self._name_of
        last = len(slots) - 1
        slot = hash(name) & last
        while (found := slots[slot]) and name_of(found - 1) != name:
            slot = (slot + 1) & last
        return found - 1 if found else None


_WIDE = (1 << 32) - 1


NAME, NAME_END, SHAPE, SHAPE_END, OPCODE, OPCODE_END, OPERANDS, OPERANDS_END, END = range(9)
"""Columns of one row. Attributes: from OPERANDS_END + 1 to END. No shape: SHAPE == SHAPE_END."""
STRIDE = 9

LONG_NUMBER = 20
"""Digits that no number of XLA has, which is of 64 bits; Python refuses more than 4,300."""

_FIRST_INDEX = re.compile(rf", index=(\d{{1,{LONG_NUMBER - 1}}})(?=,|\Z)", re.ASCII)
"""The attribute of a get-tuple-element, where it is the first one, as XLA prints it."""

NOTHING = -1
"""Row of an operand, or position of a computation, that the text does not define."""


@dataclass(slots=True)
class Overlay:
    """Facts of one row that its spans do not give, because the text does not print them plainly."""

    name: str | None = None
    operands: tuple[HloOperand, ...] | None = None
    attributes: tuple[tuple[str, str], ...] | None = None
    called: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class InstructionColumns:
    """Offsets of the parts of every instruction in the text: `STRIDE` for each row.

    `roots` are the rows marked ROOT, ascending.
    """

    source: Source
    spans: array[int] = field(default_factory=lambda: array("I"))
    roots: array[int] = field(default_factory=lambda: array("I"))
    overlays: dict[int, Overlay] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.spans) // STRIDE

    def extend(self, spans: array[int], roots: Iterable[int], first: int) -> None:
        """Append rows; `roots` are counted from row `first`."""
        self.spans.extend(spans)
        self.roots.extend([first + root for root in roots])

    def column(self, column: int) -> memoryview[int]:
        """Return one column of all rows, without a copy; no row can be added while it is held."""
        return memoryview(self.spans)[column::STRIDE]

    def texts(self, first: int, last: int) -> Iterator[str]:
        places = map(slice, self.column(first), self.column(last))
        return map(self.source.text.__getitem__, places)

    def text(self, row: int, first: int, last: int) -> str:
        base = row * STRIDE
        return self.source.text[self.spans[base + first] : self.spans[base + last]]

    def name(self, row: int) -> str:
        overlay = self.overlays.get(row)
        if overlay is not None and overlay.name is not None:
            return overlay.name
        return self.text(row, NAME, NAME_END)

    def names(self, rows: Sequence[int]) -> Iterator[str]:
        if self.overlays or not isinstance(rows, range):
            return map(self.name, rows)
        spans = self.spans[rows.start * STRIDE : rows.stop * STRIDE]
        places = map(slice, spans[NAME::STRIDE], spans[NAME_END::STRIDE])
        return map(self.source.text.__getitem__, places)

    def rows_by_name(self, rows: Sequence[int]) -> dict[str, int]:
        """Return the row of each name among some rows; the last one of a repeated name."""
        return dict(zip(self.names(rows), rows, strict=True))

    def root_among(self, rows: Sequence[int]) -> int:
        """Return the last row marked ROOT of some ascending rows; -1 if none is."""
        place = bisect.bisect_right(self.roots, rows[-1]) if rows else 0
        while place and self.roots[place - 1] >= rows[0]:
            place -= 1
            root = self.roots[place]
            if rows[bisect.bisect_left(rows, root)] == root:
                return root
        return -1

    def rows_with_attribute_text(self, word: str) -> Iterator[int]:
        """Yield the rows whose attributes contain a word, in text order.

        Rows are in text order, except where the text nests instructions: then each row is searched.
        """
        text = self.source.text
        if not len(self):
            return
        starts, ends = self.column(OPERANDS_END), self.column(END)
        if self.overlays:
            for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
                if text.find(word, start, end) >= 0:
                    yield row
            return
        place = text.find(word, starts[0])
        while place >= 0:
            row = bisect.bisect_right(starts, place) - 1
            if place + len(word) <= ends[row]:
                yield row
            following = starts[row + 1] if row + 1 < len(starts) else len(text)
            place = text.find(word, following)

    def attributes_text(self, row: int) -> str:
        base = row * STRIDE
        return self.source.text[self.spans[base + OPERANDS_END] + 1 : self.spans[base + END]]

    def opcode(self, row: int) -> str:
        return self.text(row, OPCODE, OPCODE_END)

    def operands(self, row: int) -> tuple[HloOperand, ...]:
        """Return the operands of a row, in order; none for a constant and a parameter."""
        overlay = self.overlays.get(row)
        if overlay is not None and overlay.operands is not None:
            return overlay.operands
        if opcode_traits(self.opcode(row)).is_printed_value:
            return ()
        return parse_operands(self.text(row, OPERANDS, OPERANDS_END))

    def parameter_number(self, row: int) -> int | None:
        """Return K of ``parameter(K)``; None for other opcodes and if not printed."""
        if self.opcode(row) != "parameter":
            return None
        text = self.text(row, OPERANDS, OPERANDS_END).strip()
        if "/" in text:  # a comment
            text = "".join(operand.name for operand in parse_operands(text))
        return int(text) if text.isdecimal() and len(text) < LONG_NUMBER else None

    def attribute_list(self, row: int) -> tuple[tuple[str, str], ...]:
        """Return names and values of the attributes of a row, in order, as written."""
        overlay = self.overlays.get(row)
        if overlay is not None and overlay.attributes is not None:
            return overlay.attributes
        text = self.attributes_text(row)
        return parse_attributes(text) if text else ()

    def attribute(self, row: int, name: str) -> str | None:
        """Return the first value of one attribute of a row as written, or None."""
        text = self.attributes_text(row)
        if f"{name}=" not in text:
            return None
        overlay = self.overlays.get(row)
        if overlay is not None and overlay.attributes is not None:
            return next((value for key, value in overlay.attributes if key == name), None)
        return parse_attribute(text, name)

    def tuple_index(self, row: int) -> int | None:
        """Return K of ``index=K``; None if it is not printed or no such number."""
        if row not in self.overlays:
            base = row * STRIDE
            start, end = self.spans[base + OPERANDS_END] + 1, self.spans[base + END]
            plain = _FIRST_INDEX.match(self.source.text, start, end)
            if plain is not None:
                return int(plain[1])
        value = self.attribute(row, "index") or ""
        return int(value) if value.isdecimal() and len(value) < LONG_NUMBER else None

    def calls(self, row: int) -> tuple[tuple[str, str], ...]:
        """Return attribute and name of each computation that a row calls, in order."""
        overlay = self.overlays.get(row)
        if overlay is not None and overlay.called:
            roles = [name for name, _ in self.attribute_list(row) if name in CALLING_ATTRIBUTES]
            if len(roles) != len(overlay.called):  # a list of branches
                roles = (roles or ["calls"])[:1] * len(overlay.called)
            return tuple(zip(roles, overlay.called, strict=True))
        text = self.attributes_text(row)
        if not any(f"{name}=" in text for name in CALLING_ATTRIBUTES):
            return ()
        return tuple(
            (key, name)
            for key, value in self.attribute_list(row)
            if key in CALLING_ATTRIBUTES
            for name in parse_names(value)
        )

    def control_predecessors(self, row: int) -> tuple[str, ...]:
        value = self.attribute(row, "control-predecessors")
        return tuple(dict.fromkeys(parse_names(value))) if value else ()


START, TITLE, TITLE_END, SIGNATURE, SIGNATURE_END, TAIL, TAIL_END, FIRST_ROW, LAST_ROW = range(9)
"""Columns of one computation: its start, its name, ``(parameters) -> shape``, the text after its
closing brace, and its rows as a half-open range."""
_STRIDE = 9


_ENTRY, _COMPLETE, _INLINE = 1, 2, 4
_NOWHERE = (0, 0)


@dataclass(slots=True, kw_only=True)
class ComputationParts:
    """The parts of one computation, as the scanner finds them.

    Attributes:
        name: Span of its name, or the name itself if the text does not print it.
        signature: Span of ``(parameters) -> shape``.
        attributes: Span of the attributes after the closing brace, with the leading comma.
        is_complete: Whether its closing brace was found.
        is_inline: Whether its body is printed inside the instruction that calls it.
    """

    start: int = 0
    name: tuple[int, int] | str = _NOWHERE
    signature: tuple[int, int] = _NOWHERE
    attributes: tuple[int, int] = _NOWHERE
    rows: Sequence[int] = ()
    is_entry: bool = False
    is_complete: bool = True
    is_inline: bool = False


@dataclass(slots=True, eq=False)
class ComputationColumns:
    """Offsets of the parts of every computation; a large module has tens of thousands.

    Attributes:
        names: Names that the text does not print.
        scattered: Rows of computations that contain others, whose rows lie between theirs.
        name_indexes: Instructions of a computation by name, made when first asked for.
        small_indexes: The same for small computations, of those asked for last.
    """

    spans: array[int] = field(default_factory=lambda: array("I"))
    flags: bytearray = field(default_factory=bytearray)
    names: dict[int, str] = field(default_factory=dict)
    scattered: dict[int, tuple[int, ...]] = field(default_factory=dict)
    name_indexes: dict[int, NameIndex] = field(default_factory=dict)
    small_indexes: dict[int, dict[str, int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.flags)

    def __getstate__(self) -> tuple[object, ...]:
        """Return the pickled state, without indexes: hashes are those of one process."""
        return self.spans, self.flags, self.names, self.scattered

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.spans, self.flags, self.names, self.scattered = state
        self.name_indexes = {}
        self.small_indexes = {}

    def add(self, parts: ComputationParts) -> None:
        name, rows = parts.name, parts.rows
        if isinstance(name, str):
            self.names[len(self)] = name
            name = _NOWHERE
        if isinstance(rows, range):
            first, last = rows.start, rows.stop
        else:
            self.scattered[len(self)] = tuple(rows)
            first, last = _NOWHERE
        places = (*_where(name), *_where(parts.signature), *_where(parts.attributes))
        self.spans.extend((parts.start, *places, first, last))
        self.flags.append(
            parts.is_entry * _ENTRY | parts.is_complete * _COMPLETE | parts.is_inline * _INLINE
        )

    def extend(self, others: ComputationColumns, first: int) -> None:
        """Append computations with printed names, whose rows are ranges counted from a row."""
        spans = others.spans[:]
        for column in (FIRST_ROW, LAST_ROW):
            rows = [first + row for row in spans[column::_STRIDE]]
            spans[column::_STRIDE] = array(spans.typecode, rows)
        self.spans.extend(spans)
        self.flags.extend(others.flags)

    def cut(self, count: int) -> None:
        del self.spans[count * _STRIDE :], self.flags[count:]
        for known in (self.names, self.scattered):
            for place in [place for place in known if place >= count]:
                del known[place]

    def start(self, place: int) -> int:
        return self.spans[place * _STRIDE]

    def span(self, place: int, first: int) -> tuple[int, int]:
        base = place * _STRIDE + first
        return self.spans[base], self.spans[base + 1]

    def all_names(self, text: str) -> list[str]:
        """Return the names of all computations, without ``%``; empty where `text` has none."""
        places = map(slice, self.spans[TITLE::_STRIDE], self.spans[TITLE_END::_STRIDE])
        found = list(map(text.__getitem__, places))
        for place, name in self.names.items():
            found[place] = name
        return found

    def rows(self, place: int) -> Sequence[int]:
        if place in self.scattered:
            return self.scattered[place]
        return range(*self.span(place, FIRST_ROW))

    def all_rows(self) -> list[Sequence[int]]:
        firsts, lasts = self.spans[FIRST_ROW::_STRIDE], self.spans[LAST_ROW::_STRIDE]
        found: list[Sequence[int]] = list(map(range, firsts, lasts))
        for place, rows in self.scattered.items():
            found[place] = rows
        return found

    def is_entry(self, place: int) -> bool:
        return bool(self.flags[place] & _ENTRY)

    def is_complete(self, place: int) -> bool:
        return bool(self.flags[place] & _COMPLETE)

    def is_inline(self, place: int) -> bool:
        return bool(self.flags[place] & _INLINE)


def _where(span: tuple[int, int]) -> tuple[int, int]:
    """Return a span; `_NOWHERE` for an empty one and for a group without a match."""
    return span if span[1] > span[0] else _NOWHERE


# ---- what the grammar reads --------------------------------------------------------------------


@dataclass(slots=True)
class ReadOperand:
    """An operand: a name, or an instruction nested in its place."""

    name: str = ""
    index: tuple[int, ...] = ()
    shape: tuple[int, int] | None = None
    nested: ReadInstruction | None = None


@dataclass(slots=True)
class ReadInstruction:
    """Places of the parts of one instruction, as start and end in the source.

    Attributes:
        name: Without ``%``; None for a nested instruction.
        arguments: The operands; empty for constants and parameters.
        called: Names of the computations that it calls; None for one that is printed in place.
        nesting: Depth to which computations are printed inside it; 0 for none.
    """

    is_root: bool
    name: tuple[int, int] | None
    shape: tuple[int, int] | None
    opcode: tuple[int, int]
    operands: tuple[int, int]
    end: int
    arguments: list[ReadOperand] = field(default_factory=list)
    attributes: list[tuple[str, int, int]] = field(default_factory=list)
    bodies: list[ReadBody] = field(default_factory=list)
    called: list[str | None] = field(default_factory=list)
    nesting: int = 0


@dataclass(slots=True)
class ReadBody:
    """A computation printed in place."""

    name: str
    signature: tuple[int, int] | None
    span: tuple[int, int]
    instructions: list[ReadInstruction]


def with_nested(read: ReadInstruction) -> list[ReadInstruction]:
    """Return an instruction and all those nested in its operands, users before their operands."""
    order: list[ReadInstruction] = []
    stack = [read]
    while stack:
        current = stack.pop()
        order.append(current)
        stack.extend(a.nested for a in current.arguments if a.nested is not None)
    return order


def operands_of(match: re.Match[str]) -> tuple[int, int]:
    """Return the place of the text between the parentheses of an instruction that was matched."""
    start = match.string.index("(", match.end(4)) + 1
    return start, max(start, match.end(5), match.end(6))


_LARGEST_OFFSET = (1 << 32) - 1
"""Longest text whose offsets fit into 32 bits."""


class HloRows:
    """Fills the columns of a module.

    Attributes:
        are_plain: Whether the text prints all parts of all rows in their places.
    """

    def __init__(self, source: Source) -> None:
        self.columns, self.computations = InstructionColumns(source), ComputationColumns()
        if len(source.text) > _LARGEST_OFFSET:
            self.columns.spans, self.computations.spans = array("Q"), array("Q")
        self.text = source.text
        self.are_plain = True
        self._nested = 0
        self._inline = 0
        self._foreign: list[range] = []

    def add_match(self, match: re.Match[str], *, attributes_end: int) -> None:
        columns = self.columns
        if match.start(1) >= 0:
            columns.roots.append(len(columns))
        shape = match.span(3)
        if shape[0] < 0:
            shape = match.start(4), match.start(4)
        columns.spans.extend(
            (*match.span(2), *shape, *match.span(4), *operands_of(match), attributes_end)
        )

    def take(self, first: int) -> Sequence[int]:
        """Return the rows from `first` on, without those of computations printed in between."""
        rows = range(first, len(self.columns))
        if not self._foreign:
            return rows
        foreign = {row for rows in self._foreign for row in rows}
        self._foreign = []
        return tuple(row for row in rows if row not in foreign)

    def add_read(self, read: ReadInstruction) -> None:
        """Add the rows of an instruction of the grammar, after those of its inner computations."""
        self.are_plain = False
        bodies = map(self._add_body, read.bodies)
        called = tuple(next(bodies) if name is None else name for name in read.called)
        columns = self.columns
        names: dict[int, str] = {}
        for current in reversed(with_nested(read)):
            overlay = Overlay()
            if current.name is None:
                self._nested += 1
                names[id(current)] = f"{self.text[slice(*current.opcode)]}.nested.{self._nested}"
                overlay.name = names[id(current)]
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
            nowhere = (current.opcode[0], current.opcode[0])
            name, shape = current.name or nowhere, current.shape or nowhere
            columns.spans.extend((*name, *shape, *current.opcode, *current.operands, current.end))

    def _add_body(self, read: ReadBody) -> str:
        name = read.name
        if not name:
            name = f"_.{self._inline}" if self._inline else "_"
            self._inline += 1
        outer, self._foreign = self._foreign, []
        first = len(self.columns)
        for instruction in read.instructions:
            self.add_read(instruction)
        self.computations.add(
            ComputationParts(
                start=read.span[0],
                name=name,
                signature=read.signature or _NOWHERE,
                rows=self.take(first),
                is_inline=True,
            )
        )
        self._foreign = [*outer, range(first, len(self.columns))]
        return name

    def _operand(self, read: ReadOperand, names: dict[int, str]) -> HloOperand:
        if read.nested is not None:
            return HloOperand(name=names[id(read.nested)])
        shape = None if read.shape is None else self.text[slice(*read.shape)]
        return HloOperand(name=read.name, index=read.index, shape_text=shape)
