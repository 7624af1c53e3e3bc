"""Uses and origin of an array, as rules ask for them (`ValueFlow.array_uses`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.value_flow import Value, value_flow

if TYPE_CHECKING:
    from collections.abc import Callable

    from hlo_lens.hlo.module import HloInstruction, HloModule
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
    """Return the uses of an array, in text order; None if it is in a tuple, or leaves otherwise."""
    uses = []
    for use in value_flow(module).array_uses(value):
        if use is None:
            return None
        uses.append(use)
    return tuple(Use(module.instruction(use.row), use.position) for use in sorted(uses))


def are_all_uses(module: HloModule, value: Value, is_wanted: Callable[[Use], bool]) -> bool:
    """Return whether an array has uses and all are wanted; stops at the first that is not.

    Args:
        module: Module of the array.
        value: The array.
        is_wanted: Returns whether a use is wanted.
    """
    has_uses = False
    for use in value_flow(module).array_uses(value):
        if use is None or not is_wanted(Use(module.instruction(use.row), use.position)):
            return False
        has_uses = True
    return has_uses


def is_used(module: HloModule, value: Value) -> bool:
    """Return whether an array has uses, or is in a tuple, or leaves otherwise."""
    return any(True for _ in value_flow(module).array_uses(value))


def maker_of(module: HloModule, value: Value) -> Value | None:
    """Return the value whose instruction computes an array's elements; None if not in the text."""
    return value_flow(module).maker(value)


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
    shape = module.operand_shape(made.row, 0)
    return None if shape is None else shape.element_type


def _element_type(instruction: HloInstruction) -> str | None:
    return None if instruction.shape is None else instruction.shape.element_type
