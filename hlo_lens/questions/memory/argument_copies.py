"""Values that are copies of an argument: moved, cut, converted or gathered, not computed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.value_flow import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.value_flow import ValueFlow

SCALAR = 16
"""Bytes of the largest value that is as insignificant as a scalar."""

_STEPS = 64
_MOVING = ("all-gather", "collective-permute")
"""Kinds of collectives whose result has only elements of the operand."""

_TARGET = "custom_call_target"
_CONCATENATION = "ConcatBitcast"
"""Custom call of TPUs that joins the parts in which a value was copied on chip."""
_KERNEL_TARGET = re.compile(r"tpu_custom_call|mosaic|pallas|triton", re.IGNORECASE)
_MATMUL_TARGET = re.compile(r"gemm|matmul|dot|conv|cublas|cudnn", re.IGNORECASE)


class ArgumentCopy(NamedTuple):
    """Argument that a value is a copy of.

    Attributes:
        argument: Leaf of a parameter of the entry.
        is_gathered: Whether an all-gather is on the way.
        is_copied: Whether any operation is on the way.
    """

    argument: Value
    is_gathered: bool = False
    is_copied: bool = False


class ArgumentCopies:
    """Copies of the arguments of a module, each found when first asked for.

    Args:
        module: The module.
        steps: Steps between its values.
    """

    def __init__(self, module: HloModule, steps: ValueFlow) -> None:
        self.module = module
        self.steps = steps
        self.parameters = {one.row: one.parameter_number for one in module.entry.parameters}
        self._known: dict[Value, ArgumentCopy | None] = {}

    def of_value(self, value: Value) -> ArgumentCopy | None:
        """Return the argument that a value is, or is a copy of; None if it is computed."""
        path: list[tuple[Value, bool]] = []
        found: ArgumentCopy | None = None
        for _ in range(_STEPS):
            value = self.steps.definition(value)
            if value in self._known or value.row in self.parameters:
                found = self._known.setdefault(value, ArgumentCopy(value))
                break
            before, is_gathered = self.before(value)
            path.append((value, is_gathered))
            if before is None:
                break
            value = before
        for one, is_gathered in reversed(path):
            if found is not None:
                found = ArgumentCopy(found.argument, found.is_gathered or is_gathered, True)
            self._known[one] = found
        return found

    def before(self, value: Value) -> tuple[Value | None, bool]:
        """Return the value before one copy, None if there is none, and whether it is gathered."""
        row, index = value
        opcode = self.steps.opcodes[row]
        if opcode in ("fusion", "async-start"):
            root = self.steps.root(row)
            inner = index[1:] if opcode == "async-start" else index
            return (None if root is None else Value(root, inner)), False
        traits = opcode_traits(opcode)
        base = traits.base
        is_async_end = base == "async" and traits.is_end
        if opcode_traits(base).is_moving or base in _MOVING or is_async_end:
            return self.steps.operand(row, 0), base == "all-gather"
        if opcode == "custom-call" and _CONCATENATION in self._target(row):
            return self.steps.operand(row, 0), False
        return None, False

    def _target(self, row: int) -> str:
        """Return what a custom call calls."""
        return self.module.instruction(row).attributes.get(_TARGET, "")

    def product_operands(self) -> Iterator[tuple[int, list[Value]]]:
        """Yield row and operands of each product and convolution, and the source of gathers."""
        for row, opcode in enumerate(self.steps.opcodes):
            if opcode_traits(opcode).is_contraction:
                yield row, self.steps.operands(row, 2)
            elif opcode == "gather":
                yield row, self.steps.operands(row, 1)
            elif opcode == "custom-call" and _MATMUL_TARGET.search(self._target(row)):
                yield row, self.steps.operands(row)

    def kernel_operands(self) -> Iterator[Value]:
        """Yield the operands of kernels that users write, which may be products or not."""
        for row, opcode in enumerate(self.steps.opcodes):
            if opcode == "custom-call" and _KERNEL_TARGET.search(self._target(row)):
                yield from self.steps.operands(row)

    def broadcast_operands(self) -> Iterator[Value]:
        """Yield the operands of broadcasts that are not scalars."""
        for row, opcode in enumerate(self.steps.opcodes):
            operand = self.steps.operand(row, 0) if opcode == "broadcast" else None
            if operand is not None and self.steps.size(operand) > SCALAR:
                yield operand
