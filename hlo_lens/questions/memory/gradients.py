"""Gradients: values from which results that replace arguments are computed elementwise."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.questions.memory.argument_copies import SCALAR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hlo_lens.program.value_flow import Value
    from hlo_lens.questions.memory.argument_copies import ArgumentCopies

_MOST_VISITED = 200_000
_OPERANDS = 64


def gradient_values(copies: ArgumentCopies, results: Iterable[Value]) -> set[Value]:
    """Return the values from which results are computed, back to products and reductions.

    Copies of arguments and scalars are left out.
    """
    steps, summands = copies.steps, _Summands(copies)
    found: set[Value] = set()
    waiting = deque(results)
    seen = set(waiting)
    while waiting and len(seen) < _MOST_VISITED:
        for value in summands.of(waiting.popleft()):
            if value in seen or steps.size(value) <= SCALAR:
                continue
            seen.add(value)
            if copies.of_value(value) is None:
                found.add(value)
                waiting.append(value)
    return found


class _Summands:
    """Values from which others are computed elementwise."""

    def __init__(self, copies: ArgumentCopies) -> None:
        self._steps, self._links = copies.steps, copies.module.links
        owners = self._links.owners
        opcodes = enumerate(self._steps.opcodes)
        self._ending = {owners[row] for row, opcode in opcodes if opcode_traits(opcode).is_mixing}

    def of(self, value: Value) -> Iterator[Value]:
        """Yield the values from which one is computed; none for products and reductions."""
        row = value.row
        opcode = self._steps.opcodes[row]
        is_loop = opcode == "while"
        written = self._steps.written(value) if is_loop else self._steps.update(value)
        if written is not None:
            yield self._steps.definition(written)
            before = self._steps.operand(row, 0, value.element) if is_loop else None
            if before is not None:
                yield self._steps.definition(before)
        elif not is_loop and self._is_passed(row, opcode):
            yield from map(self._steps.definition, self._steps.operands(row, _OPERANDS))

    def _is_passed(self, row: int, opcode: str) -> bool:
        if opcode == "fusion":
            calls = self._links.calls.of_row(row)
            return not any(call.place == NOTHING or call.place in self._ending for call in calls)
        traits = opcode_traits(opcode)
        base = opcode_traits(traits.base)
        return bool(base.is_elementwise or base.is_moving or base.is_collective or traits.is_end)
