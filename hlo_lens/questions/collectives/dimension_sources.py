"""Dimensions of operands that a dimension of a result comes from, and those that are summed.

Source: shardy's op_sharding_rule_registry.cc (which dimension is which), as of August 2026.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.shapes.shape import Shape

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


COMBINING = {
    "dot": "sums over",
    "convolution": "sums over, or reads neighbours along,",
    "reduce": "reduces",
    "reduce-window": "reads neighbours along",
    "gather": "takes elements by index along",
    "scatter": "writes elements by index along",
    "sort": "sorts along",
    "concatenate": "joins along",
    "reverse": "reverses",
    "slice": "takes a part of",
    "dynamic-slice": "takes a part of",
    "dynamic-update-slice": "writes a part of",
    "pad": "pads",
    "reshape": "merges",
}
"""Opcodes that combine elements along dimensions of an operand, and the verb for it."""

_LISTED = {
    ("reduce", 0): "dimensions",
    ("gather", 0): "start_index_map",
    ("scatter", 0): "scatter_dims_to_operand_dims",
}
"""Attributes that list such dimensions of an operand."""

_WINDOW_SIZE = re.compile(r"\bsize=([\dx]+)")


def needed_dimensions(instruction: HloInstruction, position: int) -> tuple[int, ...]:
    """Return the dimensions of an operand along which an instruction combines elements."""
    opcode = instruction.opcode
    if (opcode, position) in _LISTED:
        return listed_numbers(instruction, _LISTED[opcode, position])
    if opcode == "scatter" and position:
        return _scattered(instruction, position)
    if opcode in ("sort", "concatenate", "reverse"):
        return listed_numbers(instruction, "dimensions")
    if opcode in ("slice", "dynamic-slice", "pad", "dynamic-update-slice") and position == 0:
        return _resized(instruction, 1 if opcode == "dynamic-update-slice" else None)
    if opcode == "reshape":
        return tuple(place for given, _ in reshape_groups(instruction) for place in given[1:])
    windows = _window_sizes(instruction) if opcode in ("reduce-window", "convolution") else ()
    if opcode == "reduce-window" and position == 0:
        return tuple(place for place, size in enumerate(windows) if size > 1)
    summed = summed_dimensions(instruction, position) or ()
    labels = _LABELS.match(instruction.attribute("dim_labels") or "") if windows else None
    if labels is None or position:
        return summed
    spatial = (labels[1].find(str(place)) for place, size in enumerate(windows) if size > 1)
    return (*summed, *(place for place in spatial if place >= 0))


def _scattered(scatter: HloInstruction, position: int) -> tuple[int, ...]:
    """Return the dimensions of indices or updates along which a scatter writes one element each."""
    updates = (len(scatter.operands) - 1) // 2 + 1
    attribute = "update_window_dims" if position >= updates else "index_vector_dim"
    gone = listed_numbers(scatter, attribute)
    shape = operand_array_shape(scatter, position)
    return tuple(k for k in range(len(shape.dimensions) if shape else 0) if k not in gone)


def _window_sizes(instruction: HloInstruction) -> tuple[int, ...]:
    match = _WINDOW_SIZE.search(instruction.attribute("window") or "")
    return () if match is None else tuple(int(n) for n in match[1].split("x") if n)


def _resized(instruction: HloInstruction, other: int | None) -> tuple[int, ...]:
    """Return the dimensions in which operand 0 differs from the result, or from an operand."""
    given = operand_array_shape(instruction, 0)
    made = instruction.shape if other is None else operand_array_shape(instruction, other)
    if given is None or made is None or made.is_tuple:
        return ()
    pairs = zip(given.dimensions, made.dimensions, strict=False)
    return tuple(place for place, (one, two) in enumerate(pairs) if one != two)


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
    """Yield the source of a dimension: of dimensions split or merged, the major ones."""
    for given, made in reshape_groups(reshape):
        if given and made and made[0] == dimension:
            yield 0, given[0]


def reshape_groups(reshape: HloInstruction) -> list[tuple[list[int], list[int]]]:
    """Return the dimensions of operand and result that have the same elements, without size 1."""
    before, after = operand_array_shape(reshape, 0), reshape.shape
    if before is None or after is None or after.is_tuple:
        return []
    left = [(place, size) for place, size in enumerate(before.dimensions) if size != 1]
    right = [(place, size) for place, size in enumerate(after.dimensions) if size != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while left and right:
        given, made = [left.pop(0)], [right.pop(0)]
        while (one := _size_of(given)) != (two := _size_of(made)):
            side, rest = (given, left) if one < two else (made, right)
            if not rest:
                return groups
            side.append(rest.pop(0))
        groups.append(([place for place, _ in given], [place for place, _ in made]))
    return groups


def _size_of(dimensions: list[tuple[int, int | None]]) -> int:
    return math.prod(size or 0 for _, size in dimensions)


def _of_update(update: HloInstruction, dimension: int) -> Iterator[tuple[int, int]]:
    """Yield operand and update of a dynamic-update-slice, the update where it is as large."""
    yield 0, dimension
    whole, part = operand_array_shape(update, 0), operand_array_shape(update, 1)
    sizes = [() if shape is None else shape.dimensions[dimension:] for shape in (whole, part)]
    if sizes[0][:1] == sizes[1][:1]:
        yield 1, dimension


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
    "dynamic-update-slice": _of_update,
    "reduce": _of_reduce,
}
