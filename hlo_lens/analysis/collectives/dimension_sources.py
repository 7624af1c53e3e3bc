"""Dimensions of operands that a dimension of a result comes from, and those that are summed.

Source: shardy's op_sharding_rule_registry.cc (which dimension is which), as of August 2026.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.model.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.shapes.shape import Shape

_NUMBER = re.compile(r"\d+")
_LABELS = re.compile(r"(\w+)_(\w+)->")


def summed_dimensions(instruction: HloInstruction, position: int) -> tuple[int, ...] | None:
    """Return the dimensions of an operand that a product sums over; None for other instructions."""
    if instruction.opcode == "dot":
        side = "lhs" if position == 0 else "rhs"
        return listed_numbers(instruction, f"{side}_contracting_dims")
    if instruction.opcode == "convolution":
        labels = _LABELS.match(instruction.attribute("dim_labels") or "")
        if labels is None or position > 1:
            return None
        text, wanted = (labels[1], "f") if position == 0 else (labels[2], "i")
        return (text.index(wanted),) if wanted in text else None
    return None


def listed_numbers(instruction: HloInstruction, attribute: str) -> tuple[int, ...]:
    """Return the numbers in the value of an attribute."""
    return tuple(int(n) for n in _NUMBER.findall(instruction.attribute(attribute) or ""))


def operand_array_shape(user: HloInstruction, position: int) -> Shape | None:
    """Return the shape of an operand; None for a tuple, and where the text has none."""
    shape = user.operand_shape(position)
    return None if shape is None or shape.is_tuple else shape


def dimension_sources(instruction: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    """Yield the sources of a dimension of a result, as operand number and dimension."""
    follow = _FOLLOW.get(instruction.opcode)
    if follow is not None:
        yield from follow(instruction, dimension)
    elif opcode_traits(instruction.opcode).is_aligned:
        if instruction.operands:
            yield 0, dimension
    else:
        yield from _of_elements(instruction, dimension)


def _of_transpose(transpose: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    order = listed_numbers(transpose, "dimensions")
    if dimension < len(order):
        yield 0, order[dimension]


def _of_broadcast(broadcast: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    order = listed_numbers(broadcast, "dimensions")
    if dimension in order:
        yield 0, order.index(dimension)


def _of_reduce(reduce: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    summed = listed_numbers(reduce, "dimensions")
    shape = operand_array_shape(reduce, 0)
    kept = [k for k in range(len(shape.dimensions) if shape else 0) if k not in summed]
    if dimension < len(kept):
        yield 0, kept[dimension]


def _of_dot(dot: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    """Yield sources of a product's dimension: batch, then free ones of the left, of the right."""
    free: list[list[int]] = []
    batch: list[tuple[int, ...]] = []
    for position, side in enumerate(("lhs", "rhs")):
        shape = operand_array_shape(dot, position)
        batch.append(listed_numbers(dot, f"{side}_batch_dims"))
        gone = (*batch[-1], *listed_numbers(dot, f"{side}_contracting_dims"))
        free.append([k for k in range(len(shape.dimensions) if shape else 0) if k not in gone])
    if dimension < len(batch[0]):
        yield 0, batch[0][dimension]
        yield 1, batch[1][dimension]
        return
    place = dimension - len(batch[0])
    if place < len(free[0]):
        yield 0, free[0][place]
    elif place - len(free[0]) < len(free[1]):
        yield 1, free[1][place - len(free[0])]


def _of_reshape(reshape: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    """Yield the source of a dimension if a reshape only adds or drops dimensions of size 1."""
    before, after = operand_array_shape(reshape, 0), reshape.shape
    if before is None or after is None or after.is_tuple:
        return
    places = [place for place, size in enumerate(before.dimensions) if size != 1]
    kept = [place for place, size in enumerate(after.dimensions) if size != 1]
    same = [before.dimensions[k] for k in places] == [after.dimensions[k] for k in kept]
    if same and dimension in kept:
        yield 0, places[kept.index(dimension)]


def _of_elements(instruction: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    """Yield the operands with the shape of the result, as of elementwise operations."""
    result = instruction.shape
    for position in range(len(instruction.operands)):
        shape = operand_array_shape(instruction, position)
        if result is not None and shape is not None and shape.dimensions == result.dimensions:
            yield position, dimension


_FOLLOW: Mapping[str, Callable[[HloInstruction, int], Iterator[tuple[int, int]]]] = {
    "dot": _of_dot,
    "transpose": _of_transpose,
    "broadcast": _of_broadcast,
    "reshape": _of_reshape,
    "reduce": _of_reduce,
}
