"""Operands that an instruction printed alone does not define, which XLA's parser makes parameters.

An operand becomes one only if its shape is printed; a shape without a name gets one. Source:
hlo_parser.cc, ParseSingleInstruction.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.hlo.columns import HloOperand
    from hlo_lens.hlo.computation import HloComputation


@dataclass(slots=True)
class MissingOperands:
    """Operands that a computation does not define.

    Attributes:
        parameters: Name to operand, with its shape, in the order of the parameters.
        named: Position of an instruction to its operands, where some had no name.
    """

    parameters: dict[str, HloOperand] = field(default_factory=dict)
    named: dict[int, tuple[HloOperand, ...]] = field(default_factory=dict)


def missing_operands(computation: HloComputation) -> MissingOperands:
    """Return the operands of a computation that must become its parameters."""
    found = MissingOperands()
    for position, instruction in enumerate(computation.instructions):
        operands = []
        for operand in instruction.operands:
            one = operand
            if not one.name:
                one = replace(one, name=f"_{len(found.parameters)}")
            is_defined = computation.instruction(one.name) is not None
            if one.shape_text and not one.index and not is_defined:
                found.parameters.setdefault(one.name, one)
            operands.append(one)
        if tuple(operands) != instruction.operands:
            found.named[position] = tuple(operands)
    return found
