"""Producers and consumers of an instruction's values: the nearest instructions that compute.

Instructions that only pass values on are skipped: tuples and their elements, copies, conversions,
reshapes, transposes, slices, and fusions of these; ends of asynchronous operations; the boundaries
of fusions, calls, loops and conditionals. A value carried by a loop is followed to the loop's
operand.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import opcode_traits, opcodes_where
from hlo_lens.program.value_flow import CALLERS, COPIES, ENDS, TUPLES, Route, Use, Value, value_flow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.shape import ShapeIndex

_PASSED_ON = opcodes_where(lambda traits: traits.is_formatting or traits.is_naming)
"""Opcodes in fusions that only pass a value on."""

_PASSING = TUPLES | COPIES | ENDS | opcodes_where(lambda traits: traits.is_formatting)
_BACK = Route(_PASSING | {"while", "call"}, CALLERS - {"custom-call"})

_STEPS = 4000
_MOST = 16
"""Most neighbours that are returned."""

_Loops = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A producer or consumer.

    Attributes:
        instruction: The instruction.
        position: Number of its operand that is the value; None for producers.
        index: Tuple index of the value.
        loops: Loops whose carried values are between the two.
    """

    instruction: HloInstruction
    position: int | None = None
    index: ShapeIndex = ()
    loops: tuple[str, ...] = ()


class Neighbourhood:
    """Finder of producers and consumers in a module."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._flow = value_flow(module)

    def producers(self, instruction: HloInstruction) -> tuple[Neighbour, ...]:
        """Return the producers of the operands of an instruction, nearest first."""
        producers: dict[Value, _Loops] = {}
        waiting = deque((value, _Loops()) for value in self._flow.operands(instruction.row))
        seen = {value for value, _ in waiting}
        for _ in range(_STEPS):
            if not waiting or len(producers) >= _MOST:
                break
            value, loops = waiting.popleft()
            if self._module.opcodes[value.row] == "tuple" and not value.element:
                behind = self._flow.operands(value.row)
            else:
                before, loop = self._behind(value)
                behind = [] if before is None else [before]
                loops = loops if loop is None else (*loops, self._module.columns.name(loop))
                if before is None:
                    producers[value] = loops
            waiting.extend((one, loops) for one in behind if one not in seen)
            seen.update(behind)
        instruction_of = self._module.instruction
        return tuple(
            Neighbour(instruction=instruction_of(value.row), index=value.element, loops=loops)
            for value, loops in producers.items()
        )

    def _behind(self, value: Value) -> tuple[Value | None, int | None]:
        """Return the value that one is passed on from, and the loop between; None if computed."""
        flow, row = self._flow, value.row
        opcode = self._module.opcodes[row]
        if opcode in ("fusion", "async-start"):
            return flow.result(value) if self._only_passes_on(row) else None, None
        call = flow.caller(row) if opcode == "parameter" else None
        if call is not None and self._module.opcodes[call.row] == "while":
            return flow.argument(value, call), call.row
        before = flow.before(value, _BACK)
        return before, row if opcode == "while" and before is not None else None

    def consumers(self, instruction: HloInstruction) -> tuple[Neighbour, ...]:
        """Return the consumers of the result of an instruction, nearest first."""
        consumers: dict[tuple[int, int | None], Neighbour] = {}
        waiting: deque[tuple[Value, _Loops]] = deque([(Value(instruction.row), ())])
        seen = {Value(instruction.row)}
        for _ in range(_STEPS):
            if not waiting or len(consumers) >= _MOST:
                break
            value, loops = waiting.popleft()
            for step in self._ahead(value):
                if isinstance(step, Use):
                    row, position, index = step
                    consumers.setdefault(
                        (row, None if position == NOTHING else position),
                        Neighbour(
                            instruction=self._module.instruction(row),
                            position=None if position == NOTHING else position,
                            index=index,
                            loops=loops,
                        ),
                    )
                elif step not in seen:
                    seen.add(step)
                    waiting.append((step, self._crossed(value, step, loops)))
        return tuple(consumers.values())

    def _crossed(self, value: Value, step: Value, loops: _Loops) -> _Loops:
        """Return the loops on the way to a step, with one that it goes into or out of."""
        links, opcodes = self._module.links, self._module.opcodes
        if links.owners[value.row] == links.owners[step.row]:
            return loops
        call = self._flow.caller(step.row) if opcodes[step.row] == "parameter" else None
        loop = step.row if call is None else call.row
        is_loop = opcodes[loop] == "while"
        return (*loops, self._module.columns.name(loop)) if is_loop else loops

    def _ahead(self, value: Value) -> Iterator[Value | Use]:
        """Yield the values that a value is passed on to, and the operands that consume it.

        The result of the program is consumed as operand `NOTHING` of its instruction.
        """
        flow, opcodes = self._flow, self._module.opcodes
        if self._module.entry.root_row == value.row:
            yield Use(value.row, NOTHING, value.element)
        returned = flow.returned(value)
        if returned is not None:
            yield returned
        for use in flow.uses(value):
            opcode = opcodes[use.row]
            if opcode in _PASSING or opcode == "while":
                yield from flow.after(use)
            elif not opcode_traits(opcode).is_positional:
                yield use
            elif self._only_passes_on(use.row) is not False:  # or runs what the text lacks
                yield Value(use.row)
            elif opcode != "fusion":
                yield from flow.after(use)
            else:
                inside = [inner for entered in flow.after(use) for inner in self._reads(entered)]
                yield from inside or [Use(use.row, use.position)]

    def _reads(self, parameter: Value) -> Iterator[Use]:
        """Yield the products, reductions and collectives in a fusion that read a parameter."""
        waiting, seen = deque([parameter.row]), {parameter.row}
        while waiting:
            for user, position in self._module.links.users_of(waiting.popleft()):
                traits = opcode_traits(self._module.opcodes[user])
                if traits.is_heavy or traits.is_update or traits.collective_kind:
                    yield Use(user, position)
                elif traits.is_formatting and user not in seen:
                    seen.add(user)
                    waiting.append(user)

    def _only_passes_on(self, row: int) -> bool | None:
        """Return whether a fusion or call computes nothing; None if the text lacks what it runs."""
        links, opcodes = self._module.links, self._module.opcodes
        calls = links.calls.of_row(row)
        if not calls or calls[0].place == NOTHING:
            return None
        waiting, seen = [calls[0].place], {calls[0].place}
        while waiting:
            for inner in self._module.computations[waiting.pop()].rows:
                if opcodes[inner] == "fusion":
                    called = {call.place for call in links.calls.of_row(inner)[:1]}
                    if not called or NOTHING in called:
                        return False
                    waiting += called - seen
                    seen |= called
                elif opcodes[inner] not in _PASSED_ON:
                    return False
        return True
