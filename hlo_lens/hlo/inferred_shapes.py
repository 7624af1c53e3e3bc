"""Shapes that a hand-written text leaves out, inferred from the operands as XLA's parser does.

Covered are opcodes whose result follows from the shapes of the operands or from the computations
that they call. The result of any other has an unknown shape, None. The inferred texts are appended
to the text of the module, behind everything that it prints.

Source: hlo_parser.cc, CreateInstruction (`maybe_infer_shape`); shape_inference.cc.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import SHAPE, SHAPE_END, STRIDE
from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.rows import append_text
from hlo_lens.shapes.shape import Shape
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hlo_lens.hlo.module import HloModule

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
