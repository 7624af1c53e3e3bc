"""Instructions of an HLO text as rows of places, filled by the scanner and by the grammar."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import (
    SHAPE,
    SHAPE_END,
    STRIDE,
    ComputationColumns,
    ComputationParts,
    InstructionColumns,
    Overlay,
)
from hlo_lens.hlo.module import HloInstruction, HloModule
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.text import HloOperand
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Sequence

    from hlo_lens.hlo.module import HloComputation
    from hlo_lens.hlo.text import HloReader
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
        parts = ("%", name, " = ", shape, " ", "parameter", "(", str(number), ")")
        start, _ = append_text(self.columns, "".join(parts))
        self.columns.spans.extend(accumulate(map(len, parts[1:]), initial=start + 1))

    def add_read_computation(self, read: ReadComputation, *, is_inline: bool) -> str:
        """Add a computation that the grammar read, and return its name."""
        name = read.name
        if is_inline and not name:
            name = f"_.{self._inline}" if self._inline else "_"
            self._inline += 1
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


def missing_operands(
    computation: HloComputation,
) -> tuple[dict[str, HloOperand], dict[int, tuple[HloOperand, ...]]]:
    """Return the operands of an instruction printed alone that must become parameters.

    An operand becomes one only if its shape is printed; a shape without a name gets one. Source:
    hlo_parser.cc, ParseSingleInstruction.

    Returns:
        Name to operand, in the order of the parameters, and position of an instruction to its
        operands, where some had no name.
    """
    parameters: dict[str, HloOperand] = {}
    named: dict[int, tuple[HloOperand, ...]] = {}
    for position, instruction in enumerate(computation.instructions):
        operands = []
        for printed in instruction.operands:
            operand = printed if printed.name else replace(printed, name=f"_{len(parameters)}")
            is_defined = computation.instruction(operand.name) is not None
            if operand.shape_text and not operand.index and not is_defined:
                parameters.setdefault(operand.name, operand)
            operands.append(operand)
        if tuple(operands) != instruction.operands:
            named[position] = tuple(operands)
    return parameters, named


if TYPE_CHECKING:
    _Operands = Sequence[Shape]

_FIXED = {
    "after-all": "token",
    "get-dimension-size": "s32",
    "partition-id": "u32",
    "replica-id": "u32",
}
_ELEMENT_TYPES = {"compare": "pred", "is-finite": "pred"}
_OF_COMPLEX = {"abs": 0, "imag": 0, "real": 0}
_PARTS = {"c64": "f32", "c128": "f64"}
_NOT_INFERRED = frozenset({"bitcast-convert", "constant", "convert", "rng", "stochastic-convert"})
_RUNNERS = frozenset({"call", "conditional"})


def infer_shapes(module: HloModule, rows: Sequence[int]) -> None:
    """Set the shapes of some ascending rows whose text has none, where they can be inferred."""
    columns = module.columns
    for computation in module.computations:
        of_computation = computation.rows
        if not of_computation:
            continue
        first = bisect_left(rows, of_computation[0])
        for row in rows[first : bisect_left(rows, of_computation[-1] + 1)]:
            if row not in of_computation:
                continue
            try:
                shape = _inferred(HloInstruction(computation, row))
            except DumpSyntaxError:  # the shape of an operand is a gap
                continue
            if shape is not None:
                base = row * STRIDE
                columns.spans[base + SHAPE], columns.spans[base + SHAPE_END] = append_text(
                    columns, str(shape)
                )


def _inferred(instruction: HloInstruction) -> Shape | None:
    opcode = instruction.opcode
    if opcode in _FIXED:
        return Shape(element_type=_FIXED[opcode])
    found = [instruction.operand_shape(number) for number in range(len(instruction.operands))]
    operands = [shape for shape in found if shape is not None]
    if len(operands) < len(found) or (not found and opcode != "tuple"):
        return None
    if opcode in _RUNNERS:
        return _result_of_called(instruction)
    if opcode in _RULES:
        return _RULES[opcode](instruction, operands)
    if opcode_traits(opcode).is_elementwise and opcode not in _NOT_INFERRED:
        return _elementwise(opcode, operands)
    return None


def _elementwise(opcode: str, operands: _Operands) -> Shape | None:
    shape = operands[1 if opcode in ("select", "clamp") and len(operands) > 1 else 0]
    if shape.is_tuple or any(one.is_tuple for one in operands):
        return None
    if opcode == "complex":
        parts = {part: whole for whole, part in _PARTS.items()}
        return (
            replace(shape, element_type=parts[shape.element_type])
            if shape.element_type in parts
            else None
        )
    if opcode in _OF_COMPLEX:
        return replace(shape, element_type=_PARTS.get(shape.element_type, shape.element_type))
    return replace(shape, element_type=_ELEMENT_TYPES.get(opcode, shape.element_type))


def _result_of_called(instruction: HloInstruction) -> Shape | None:
    """Return the shape of the first called computation's result."""
    names = instruction.called_computations
    called = instruction.computation.module.computation(names[0]) if names else None
    root = None if called is None else called.root
    return None if root is None else root.shape


def _element(instruction: HloInstruction, operands: _Operands) -> Shape | None:
    number, parts = instruction.tuple_index, operands[0].tuple_shapes
    return parts[number] if number is not None and number < len(parts) else None


def _numbers(instruction: HloInstruction, name: str) -> list[int]:
    """Return the numbers of an attribute such as ``dimensions={1,0}``."""
    text = (instruction.attribute(name) or "").strip("{} ")
    return [int(one) for one in text.split(",") if one.strip().isdecimal() and len(one) < 9]


def _array(element_type: str, shape: Shape, dimensions: Sequence[int]) -> Shape | None:
    """Return an array with some dimensions of another, in this order."""
    rank = len(shape.dimensions)
    if shape.is_tuple or any(number >= rank for number in dimensions):
        return None
    return Shape(
        element_type=element_type,
        dimensions=tuple(shape.dimensions[number] for number in dimensions),
        dynamic_dimensions=tuple(shape.dynamic_dimensions[number] for number in dimensions),
    )


def _transposed(instruction: HloInstruction, operands: _Operands) -> Shape | None:
    order = _numbers(instruction, "dimensions")
    shape = operands[0]
    is_order = sorted(order) == list(range(len(shape.dimensions)))
    return _array(shape.element_type, shape, order) if is_order else None


def _reduced(instruction: HloInstruction, operands: _Operands) -> Shape | None:
    shape, gone = operands[0], _numbers(instruction, "dimensions")
    if len(operands) != 2 or any(number >= len(shape.dimensions) for number in gone):
        return None
    kept = [number for number in range(len(shape.dimensions)) if number not in gone]
    return _array(operands[1].element_type, shape, kept)


def _mapped(instruction: HloInstruction, operands: _Operands) -> Shape | None:
    element = _result_of_called(instruction)
    if element is None or element.is_tuple or operands[0].is_tuple:
        return None
    return replace(operands[0], element_type=element.element_type)


def _joined(instruction: HloInstruction, operands: _Operands) -> Shape | None:
    first, places = operands[0], _numbers(instruction, "dimensions")
    if len(places) != 1 or any(len(one.dimensions) <= places[0] for one in operands):
        return None
    sizes = [one.dimensions[places[0]] for one in operands]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or any(any(one.dynamic_dimensions) for one in operands):
        return None
    dimensions = list(first.dimensions)
    dimensions[places[0]] = sum(known)
    return Shape(element_type=first.element_type, dimensions=tuple(dimensions))


def _product(instruction: HloInstruction, operands: _Operands) -> Shape | None:
    left, right = operands[:2] if len(operands) == 2 else (None, None)
    if left is None or right is None or left.element_type != right.element_type:
        return None
    batch = _numbers(instruction, "lhs_batch_dims")
    gone = {*batch, *_numbers(instruction, "lhs_contracting_dims")}
    right_batch = _numbers(instruction, "rhs_batch_dims")
    right_gone = {*right_batch, *_numbers(instruction, "rhs_contracting_dims")}
    ranks = len(left.dimensions), len(right.dimensions)
    if max(gone, default=-1) >= ranks[0] or max(right_gone, default=-1) >= ranks[1]:
        return None
    kept = [number for number in range(ranks[0]) if number not in gone]
    right_kept = [number for number in range(ranks[1]) if number not in right_gone]
    first = _array(left.element_type, left, [*batch, *kept])
    second = _array(left.element_type, right, right_kept)
    if first is None or second is None:
        return None
    return Shape(
        element_type=left.element_type,
        dimensions=(*first.dimensions, *second.dimensions),
        dynamic_dimensions=(*first.dynamic_dimensions, *second.dynamic_dimensions),
    )


_RULES: dict[str, Callable[[HloInstruction, _Operands], Shape | None]] = {
    "concatenate": _joined,
    "copy": lambda _, operands: operands[0],
    "dot": _product,
    "get-tuple-element": _element,
    "map": _mapped,
    "reduce": _reduced,
    "reverse": lambda _, operands: operands[0],
    "transpose": _transposed,
    "tuple": lambda _, operands: Shape.tuple_of(operands),
    "while": lambda _, operands: operands[0],
}
