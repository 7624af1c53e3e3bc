"""Uses and origin of an array: the instructions that compute with it, and the one that made it.

An array is the result of an instruction or an element of it. Texts print an element as an
instruction (``get-tuple-element``), or, since July 2026, in the operand alone (``%w#1``).
Views, copies of the same elements, ends of asynchronous operations and the boundaries of fusions
are skipped; loops, calls and tuples that are handed on are not.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.value_steps import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.shape import Shape, ShapeIndex

_MOST_STEPS = 64


class Use(NamedTuple):
    """An instruction that computes with a value, and the number of the operand."""

    instruction: HloInstruction
    position: int

    @property
    def opcode(self) -> str:
        """Opcode of the instruction."""
        return self.instruction.opcode


def uses_of(module: HloModule, value: Value) -> tuple[Use, ...] | None:
    """Return the uses of an array, in text order; None if it is in a tuple, or leaves otherwise.

    Args:
        module: Module of the array.
        value: The array.
    """
    found: list[Use] = []
    for use in _each_use(module, value):
        if use is None:
            return None
        found.append(use)
    return tuple(sorted(found, key=lambda use: use.instruction.row))


def are_all_uses(module: HloModule, value: Value, is_wanted: Callable[[Use], bool]) -> bool:
    """Return whether an array has uses and all are wanted; stops at the first that is not.

    Args:
        module: Module of the array.
        value: The array.
        is_wanted: Returns whether a use is wanted.
    """
    is_used = False
    for use in _each_use(module, value):
        if use is None or not is_wanted(use):
            return False
        is_used = True
    return is_used


def is_used(module: HloModule, value: Value) -> bool:
    """Return whether an array has uses, or is in a tuple, or leaves otherwise."""
    return any(True for _ in _each_use(module, value))


def _each_use(module: HloModule, value: Value) -> Iterator[Use | None]:
    """Yield the uses of an array as they are found; None where it is in a tuple or leaves."""
    waiting, seen = [value], {value}
    while waiting:
        for step in _steps(module, waiting.pop()):
            if step is None or len(seen) > _MOST_STEPS:
                yield None
            elif isinstance(step, Use):
                yield step
            elif step not in seen:
                seen.add(step)
                waiting.append(step)


def _steps(module: HloModule, value: Value) -> Iterator[Use | Value | None]:
    """Yield a use or the array behind each use, and what its computation returns it to."""
    (row, element), links = value, module.links
    users = links.users_of_element(row, element[0]) if element else links.users_of(row)
    for user, position in users:
        _, read = module.links.operand(user, position)
        if read == element[: len(read)]:
            yield from _step(module, user, position, element[len(read) :])
        elif element == read[: len(element)]:
            yield None
    if module.links.is_root(row):
        fusion = _fusion_around(module, row)
        yield None if fusion is None else Value(fusion, element)


def _step(
    module: HloModule, user: int, position: int, element: ShapeIndex
) -> Iterator[Use | Value | None]:
    """Yield a use, or the array that a user hands on; None for a tuple.

    Yields nothing where the user takes another element.

    Args:
        module: Module of the array.
        user: Row of the user.
        position: Number of the operand.
        element: Index of the array in the operand.
    """
    opcode = module.opcodes[user]
    traits = opcode_traits(opcode)
    if opcode == "get-tuple-element":
        if element and module.instruction(user).tuple_index == element[0]:
            yield Value(user, element[1:])
    elif opcode == "tuple":
        yield None
    elif traits.is_same or (traits.is_end and not element):
        yield Value(user, element)
    elif opcode == "fusion":
        inside = _inside(module, user, position)
        yield None if inside is None else Value(inside, element)
    else:
        yield None if element else Use(module.instruction(user), position)


def _fusion_around(module: HloModule, row: int) -> int | None:
    """Return the one fusion whose computation has a row; None in other computations."""
    callers = module.links.calls.of_computation(module.links.owners[row])
    is_fused = len(callers) == 1 and module.opcodes[callers[0].row] == "fusion"
    return callers[0].row if is_fused else None


def _inside(module: HloModule, fusion: int, position: int) -> int | None:
    """Return the row of the parameter that an operand of a fusion is; None if not in the text."""
    for call in module.links.calls.of_row(fusion):
        if call.place != NOTHING:
            return module.links.parameters_of(call.place).get(position)
    return None


def maker_of(module: HloModule, value: Value) -> Value | None:
    """Return the value whose instruction computes an array's elements; None if not in the text."""
    for _ in range(_MOST_STEPS):
        if value.row == NOTHING:
            return None
        before = _before(module, value)
        if before is None:
            return value
        value = before
    return None


def _before(module: HloModule, value: Value) -> Value | None:
    """Return the value that an instruction hands on; None if it computes it."""
    row, element = value
    instruction = module.instruction(row)
    opcode, traits = instruction.opcode, opcode_traits(instruction.opcode)
    if opcode == "get-tuple-element":
        number = instruction.tuple_index
        return None if number is None else operand_of(module, row, 0, (number, *element))
    if opcode == "tuple":
        return operand_of(module, row, element[0], element[1:]) if element else None
    if opcode == "fusion":
        root = module.links.root_of(row)
        return None if root is None else Value(root, element)
    if opcode == "parameter":
        fusion, number = _fusion_around(module, row), instruction.parameter_number
        if fusion is None or number is None:
            return None
        return operand_of(module, fusion, number, element)
    is_handed_on = traits.is_same or (traits.is_end and not element)
    return operand_of(module, row, 0, element) if is_handed_on else None


def operand_of(module: HloModule, row: int, position: int, element: ShapeIndex = ()) -> Value:
    """Return an operand of an instruction, or an element of it; `NOTHING` if not in the text."""
    operand, read = module.links.operand(row, position)
    return Value(operand, (*read, *element))


def operands_of(module: HloModule, row: int) -> list[Value]:
    """Return the operands of an instruction."""
    count = len(module.links.operands_of(row))
    return [operand_of(module, row, position) for position in range(count)]


def shape_of(module: HloModule, value: Value) -> Shape | None:
    """Return the shape of a value; None if not known."""
    return module.instruction(value.row).shape_of(value.element)


def is_cut_to_own_part(module: HloModule, value: Value) -> bool:
    """Return whether all uses of an array, or of its conversion, are slices of the own part."""
    return are_all_uses(module, value, partial(_is_own_part, module))


def _is_own_part(module: HloModule, use: Use) -> bool:
    if use.opcode == "convert":
        return is_cut_to_own_part(module, Value(use.instruction.row))
    return is_own_slice(module, use)


def is_own_slice(module: HloModule, use: Use) -> bool:
    """Return whether a use takes the part of a value that depends on the device."""
    is_slice = use.opcode == "dynamic-slice" and use.position == 0
    return is_slice and any(
        _depends_on_device(module, value) for value in operands_of(module, use.instruction.row)[1:]
    )


def _depends_on_device(module: HloModule, value: Value) -> bool:
    """Return whether a value is computed from the number of the device."""
    waiting, seen = [value], {value}
    while waiting and len(seen) <= _MOST_STEPS:
        made = maker_of(module, waiting.pop())
        if made is None:
            continue
        if opcode_traits(module.opcodes[made.row]).is_device_number:
            return True
        new = set(operands_of(module, made.row)) - seen
        seen |= new
        waiting += new
    return False


def is_converted(module: HloModule, value: Value, types: tuple[str, ...]) -> bool:
    """Return whether all uses of an array convert it to one of some element types."""
    return are_all_uses(
        module,
        value,
        lambda use: use.opcode == "convert" and _element_type(use.instruction) in types,
    )


def converted_from(module: HloModule, value: Value) -> str | None:
    """Return the element type that a value was converted from; None if it was not converted."""
    made = maker_of(module, value)
    if made is None or module.opcodes[made.row] != "convert":
        return None
    shape = module.links.operand_shape(made.row, 0)
    return None if shape is None else shape.element_type


def _element_type(instruction: HloInstruction) -> str | None:
    return None if instruction.shape is None else instruction.shape.element_type
