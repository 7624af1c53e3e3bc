"""Uses and origin of a value: the instructions that compute with it, and the one that made it.

Views, copies of the same elements, ends of asynchronous operations and the boundaries of fusions
are skipped; loops, calls and tuples that are handed on are not.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.model.hlo.columns import NOTHING
from hlo_lens.model.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.module import HloModule

_MOST_STEPS = 64


class Use(NamedTuple):
    """An instruction that computes with a value, and the number of the operand."""

    instruction: HloInstruction
    position: int

    @property
    def opcode(self) -> str:
        """Opcode of the instruction."""
        return self.instruction.opcode


def uses_of(module: HloModule, row: int) -> tuple[Use, ...] | None:
    """Return the uses of an array, in text order; None if it is in a tuple, or leaves otherwise.

    Args:
        module: Module of the array.
        row: Row of the instruction that makes it.
    """
    found: list[Use] = []
    for use in _each_use(module, row):
        if use is None:
            return None
        found.append(use)
    return tuple(sorted(found, key=lambda use: use.instruction.row))


def are_all_uses(module: HloModule, row: int, is_wanted: Callable[[Use], bool]) -> bool:
    """Return whether an array has uses and all are wanted; stops at the first that is not.

    Args:
        module: Module of the array.
        row: Row of the instruction that makes it.
        is_wanted: Returns whether a use is wanted.
    """
    is_used = False
    for use in _each_use(module, row):
        if use is None or not is_wanted(use):
            return False
        is_used = True
    return is_used


def _each_use(module: HloModule, row: int) -> Iterator[Use | None]:
    """Yield the uses of an array as they are found; None where it is in a tuple or leaves."""
    waiting, seen = [row], {row}
    while waiting:
        at = waiting.pop()
        for step in _steps(module, at):
            if step is None or len(seen) > _MOST_STEPS:
                yield None
            elif isinstance(step, Use):
                yield step
            elif step not in seen:
                seen.add(step)
                waiting.append(step)


def _steps(module: HloModule, row: int) -> Iterator[Use | int | None]:
    """Yield a use or the row behind each user of a row, and what its computation returns it to."""
    for user, position in module.links.users_of(row):
        yield _step(module, user, position)
    if module.links.is_root(row):
        yield _fusion_around(module, row)


def _step(module: HloModule, user: int, position: int) -> Use | int | None:
    """Return a use, or the row by which a user hands the array on; None for a tuple."""
    opcode = module.opcodes[user]
    if opcode == "tuple":
        return None
    traits = opcode_traits(opcode)
    if traits.is_same or traits.is_end:
        return user
    if opcode == "fusion":
        return _inside(module, user, position)
    return Use(module.instruction(user), position)


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


def maker_of(module: HloModule, row: int) -> HloInstruction | None:
    """Return the instruction that computes the elements of a value; None if not in the text."""
    for _ in range(_MOST_STEPS):
        instruction = module.instruction(row)
        opcode = instruction.opcode
        traits = opcode_traits(opcode)
        operands = module.links.operands_of(row)
        if opcode == "fusion":
            root = module.links.root_of(row)
            if root is None:
                return instruction
            row = root
        elif opcode == "parameter":
            outside = _outside(module, instruction)
            if outside is None:
                return instruction
            row = outside
        elif (traits.is_same or traits.is_end) and operands:
            row = operands[0]
        else:
            return instruction
        if row == NOTHING:
            return None
    return None


def _outside(module: HloModule, parameter: HloInstruction) -> int | None:
    """Return the operand that a parameter of a fusion's computation is; None for others."""
    fusion, number = _fusion_around(module, parameter.row), parameter.parameter_number
    if fusion is None or number is None:
        return None
    operands = module.links.operands_of(fusion)
    return operands[number] if number < len(operands) else None


def is_cut_to_own_part(module: HloModule, row: int) -> bool:
    """Return whether all uses of an array, or of its conversion, are slices of the own part."""
    return are_all_uses(module, row, partial(_is_own_part, module))


def _is_own_part(module: HloModule, use: Use) -> bool:
    if use.opcode == "convert":
        return is_cut_to_own_part(module, use.instruction.row)
    return is_own_slice(module, use)


def is_own_slice(module: HloModule, use: Use) -> bool:
    """Return whether a use takes the part of a value that depends on the device."""
    is_slice = use.opcode == "dynamic-slice" and use.position == 0
    return is_slice and any(
        _depends_on_device(module, row) for row in module.links.operands_of(use.instruction.row)[1:]
    )


def _depends_on_device(module: HloModule, row: int) -> bool:
    """Return whether a value is computed from the number of the device."""
    waiting, seen = [row], {row}
    while waiting and len(seen) <= _MOST_STEPS:
        made = maker_of(module, waiting.pop())
        if made is None:
            continue
        if opcode_traits(made.opcode).is_device_number:
            return True
        new = {one for one in module.links.operands_of(made.row) if one != NOTHING} - seen
        seen |= new
        waiting += new
    return False


def is_converted(module: HloModule, row: int, types: tuple[str, ...]) -> bool:
    """Return whether all uses of an array convert it to one of some element types."""
    return are_all_uses(
        module,
        row,
        lambda use: use.opcode == "convert" and _element_type(use.instruction) in types,
    )


def converted_from(module: HloModule, row: int) -> str | None:
    """Return the element type that a value was converted from; None if it was not converted."""
    made = maker_of(module, row)
    if made is None or made.opcode != "convert":
        return None
    shape = made.operand_shape(0)
    return None if shape is None else shape.element_type


def _element_type(instruction: HloInstruction) -> str | None:
    return None if instruction.shape is None else instruction.shape.element_type
