"""Instructions of an HLO text as rows of places, filled by the scanner and by the grammar."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import (
    ComputationColumns,
    ComputationParts,
    HloOperand,
    InstructionColumns,
    Overlay,
)
from hlo_lens.hlo.module import HloModule

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from hlo_lens.hlo.text_reader import HloReader
    from hlo_lens.text.source import Source


@dataclass(slots=True)
class ReadOperand:
    """An operand: a name, or an instruction nested in its place."""

    name: str = ""
    index: tuple[int, ...] = ()
    shape: tuple[int, int] | None = None
    nested: ReadInstruction | None = None


@dataclass(slots=True)
class ReadInstruction:
    """Places of the parts of one instruction, as offsets in the source.

    Attributes:
        name: Start and end of the name without ``%``; None for a nested instruction.
        shape: Start and end; None where it is left out.
        operands: Inner start and end of the parentheses.
        arguments: The operands; empty for constants and parameters.
        attributes: Name, and start and end of the value.
        bodies: Computations that are printed in place, inside the attribute that calls them.
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
    bodies: list[ReadComputation] = field(default_factory=list)
    called: list[str | None] = field(default_factory=list)
    nesting: int = 0


@dataclass(slots=True)
class ReadComputation:
    """Places of a computation; ``signature`` and ``attributes`` are start and end."""

    is_entry: bool
    name: str
    signature: tuple[int, int] | None
    start: int
    attributes: tuple[int, int]
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


_LARGEST_OFFSET = (1 << 32) - 1
"""Longest text whose offsets fit into 32 bits."""


def new_module(source: Source, reader: HloReader, name: str, start: int) -> HloModule:
    """Return an empty module of a source."""
    columns, computations = InstructionColumns(source), ComputationColumns()
    if len(source.text) > _LARGEST_OFFSET:
        columns.spans, computations.spans = array("Q"), array("Q")
    return HloModule(
        name=name, columns=columns, reader=reader, computation_columns=computations, start=start
    )


def append_text(columns: InstructionColumns, text: str) -> tuple[int, int]:
    """Append a line that is not in the source to the text of some columns; return its place."""
    source = columns.source
    columns.source = replace(source, text=f"{source.text}\n{text}")
    return len(source.text) + 1, len(columns.source.text)


def first_values(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return name to value; of a repeated name, the first value."""
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def operands_of(match: re.Match[str]) -> tuple[int, int]:
    """Return the place of the text between the parentheses of an instruction that was matched."""
    start = match.string.index("(", match.end(4)) + 1
    return start, max(start, match.end(5), match.end(6))


class HloRows:
    """Adds rows to a module.

    Attributes:
        module: The module.
        columns: Its columns.
        shapeless: Rows whose text has no shape, ascending.
    """

    def __init__(self, module: HloModule) -> None:
        self.module = module
        self.columns = module.columns
        self.text = module.columns.source.text
        self.shapeless: list[int] = []
        self._nested = 0
        self._inline = 0
        self._foreign: list[range] = []

    @property
    def are_plain(self) -> bool:
        """Whether the text prints all parts of all rows in their places."""
        return not (self.columns.overlays or self.shapeless)

    def add_match(self, match: re.Match[str], *, attributes_end: int) -> None:
        """Add an instruction that a pattern matched."""
        columns = self.columns
        if match.start(1) >= 0:
            columns.roots.append(len(columns))
        shape = match.span(3)
        if shape[0] < 0:
            shape = match.start(4), match.start(4)
            self.shapeless.append(len(columns))
        columns.spans.extend(
            (*match.span(2), *shape, *match.span(4), *operands_of(match), attributes_end)
        )

    def add_parameter(self, name: str, shape: str, number: int) -> None:
        """Add a parameter that the text does not print; its line is appended to the text."""
        line = f"%{name} = {shape} parameter({number})"
        start, end = append_text(self.columns, line)
        ends = start + 1 + len(name), start + 4 + len(name) + len(shape)
        opcode = ends[1] + 1
        number_start = opcode + len("parameter(")
        self.columns.spans.extend(
            (
                start + 1,
                ends[0],
                ends[0] + 3,
                ends[1],
                opcode,
                number_start - 1,
                number_start,
                end - 1,
                end,
            )
        )

    def add_read_computation(self, read: ReadComputation, *, is_inline: bool) -> str:
        """Add a computation that the grammar read, and return its name."""
        name = read.name or (self._inline_name() if is_inline else "")
        outer, self._foreign = self._foreign, []
        first = len(self.columns)
        for instruction in read.instructions:
            self.add_read(instruction)
        self.module.computation_columns.add(
            ComputationParts(
                start=read.start,
                name=name,
                signature=read.signature or (0, 0),
                attributes=read.attributes,
                rows=self.take(first),
                is_entry=read.is_entry,
                is_inline=is_inline,
            )
        )
        self._foreign = outer
        self._foreign.append(range(first, len(self.columns)))
        return name

    def take(self, first: int) -> Sequence[int]:
        """Return the rows from `first` on, without those of computations printed in between."""
        rows = range(first, len(self.columns))
        if not self._foreign:
            return rows
        foreign = {row for rows in self._foreign for row in rows}
        self._foreign = []
        return tuple(row for row in rows if row not in foreign)

    def _inline_name(self) -> str:
        self._inline += 1
        return "_" if self._inline == 1 else f"_.{self._inline - 1}"

    def add_read(self, read: ReadInstruction) -> None:
        """Add the rows of an instruction of the grammar, after those of its inner computations."""
        bodies = iter(read.bodies)
        called = tuple(
            self.add_read_computation(next(bodies), is_inline=True) if name is None else name
            for name in read.called
        )
        columns = self.columns
        names: dict[int, str] = {}
        for current in reversed(with_nested(read)):
            overlay = Overlay()
            if current.name is None:
                overlay.name = names[id(current)] = self._name(
                    current, is_nested=current is not read
                )
            if any(argument.nested is not None for argument in current.arguments):
                overlay.operands = tuple(self._operand(a, names) for a in current.arguments)
            if current is read:
                overlay.called = called if read.bodies else ()
                overlay.attributes = tuple(
                    (name, self.text[start:end]) for name, start, end in read.attributes
                )
            if current.is_root:
                columns.roots.append(len(columns))
            if current.shape is None:
                self.shapeless.append(len(columns))
            columns.overlays[len(columns)] = overlay
            columns.spans.extend(_places(current))

    def _name(self, read: ReadInstruction, *, is_nested: bool) -> str:
        """Return a name for an instruction without one; that of a module's only one is XLA's."""
        if not is_nested:
            return "_"
        self._nested += 1
        return f"{self.text[slice(*read.opcode)]}.nested.{self._nested}"

    def _operand(self, read: ReadOperand, names: dict[int, str]) -> HloOperand:
        if read.nested is not None:
            return HloOperand(name=names[id(read.nested)])
        shape = None if read.shape is None else self.text[slice(*read.shape)]
        return HloOperand(name=read.name, index=read.index, shape_text=shape)


def _places(read: ReadInstruction) -> tuple[int, ...]:
    nowhere = (read.opcode[0], read.opcode[0])
    return (
        *(read.name or nowhere),
        *(read.shape or nowhere),
        *read.opcode,
        *read.operands,
        read.end,
    )
