"""Producers and consumers of an instruction's values: the nearest instructions that compute.

Instructions that only pass values on are skipped: tuples and their elements, copies, conversions,
reshapes, transposes, slices, and fusions of these; ends of asynchronous copies; the boundaries of
fusions, calls, loops and conditionals. A value carried by a loop is followed to the loop's operand.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.hlo.calls import operand_number
from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.instruction import HloInstruction
from hlo_lens.hlo.opcodes import opcode_traits, opcodes_where

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hlo_lens.hlo.computation import HloComputation
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.shapes.shape import ShapeIndex

_PASSED_ON = opcodes_where(lambda traits: traits.is_formatting or traits.is_naming)
"""Opcodes in fusions that only pass a value on."""

_STEPS = 4000
_MOST = 16
"""Most neighbours that are returned."""


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


@dataclass(frozen=True, slots=True)
class _Place:
    """A value: one element of an instruction's result, and the loops on the way to it."""

    instruction: HloInstruction
    index: ShapeIndex
    loops: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, ShapeIndex]:
        return self.instruction.computation.name, self.instruction.name, self.index


class Neighbourhood:
    """Finder of producers and consumers in a module."""

    def __init__(self, module: HloModule) -> None:
        self._module = module

    def producers(self, instruction: HloInstruction) -> tuple[Neighbour, ...]:
        """Return the producers of the operands of an instruction, nearest first."""
        found: dict[tuple[str, str, ShapeIndex], Neighbour] = {}
        waiting = deque(self._operands(_Place(instruction, ())))
        seen = {place.key for place in waiting}
        for _ in range(_STEPS):
            if not waiting or len(found) >= _MOST:
                break
            place = waiting.popleft()
            behind = self._behind(place)
            if behind is None:
                found[place.key] = Neighbour(
                    instruction=place.instruction, index=place.index, loops=place.loops
                )
            for more in behind or ():
                if more.key not in seen:
                    seen.add(more.key)
                    waiting.append(more)
        return tuple(found.values())

    def consumers(self, instruction: HloInstruction) -> tuple[Neighbour, ...]:
        """Return the consumers of the result of an instruction, nearest first."""
        found: dict[tuple[str, str, int | None], Neighbour] = {}
        waiting = deque([_Place(instruction, ())])
        seen = {waiting[0].key}
        for _ in range(_STEPS):
            if not waiting or len(found) >= _MOST:
                break
            for step in self._ahead(waiting.popleft()):
                if isinstance(step, Neighbour):
                    near = step.instruction
                    found.setdefault((near.computation.name, near.name, step.position), step)
                elif step.key not in seen:
                    seen.add(step.key)
                    waiting.append(step)
        return tuple(found.values())

    # -- backwards

    def _operands(self, place: _Place) -> list[_Place]:
        instruction = place.instruction
        return [p for k in range(len(instruction.operands)) for p in self._operand(place, k, ())]

    def _operand(self, place: _Place, position: int, index: ShapeIndex) -> list[_Place]:
        found = place.instruction.producer(position)
        if found is None:
            return []
        producer, element = found
        return [_Place(producer, (*element, *index), place.loops)]

    def _behind(self, place: _Place) -> list[_Place] | None:
        """Return the values that a value is passed on from; None if it is computed here."""
        instruction, index = place.instruction, place.index
        opcode = instruction.opcode
        if opcode == "get-tuple-element":
            number = instruction.tuple_index
            return None if number is None else self._operand(place, 0, (number, *index))
        if opcode == "tuple":
            return self._operand(place, index[0], index[1:]) if index else self._operands(place)
        traits = opcode_traits(opcode)
        if traits.is_formatting:
            return self._operand(place, 0, index)
        if opcode == "parameter":
            return self._outside(place)
        if opcode in ("copy-start", "copy-done"):
            return self._operand(place, 0, index[1:] if opcode == "copy-start" else (0, *index))
        if traits.is_end:
            return self._operand(place, 0, ())
        if traits.is_positional:
            return self._through_call(place)
        return self._through_loop(place) if opcode == "while" else None

    def _through_loop(self, place: _Place) -> list[_Place] | None:
        """Return the loop's operand for an element that it carries unchanged, else None."""
        loop, index = place.instruction, place.index
        body = self._called(loop, "body")
        root = None if body is None else body.root
        if body is None or root is None or root.opcode != "tuple" or not index:
            return None
        operand = root.operands[index[0]]
        producer, taken = body.instruction(operand.name), operand.index
        if producer is not None and producer.opcode == "get-tuple-element":
            taken = (producer.tuple_index or 0, *taken)
            operand = producer.operands[0]
            producer, taken = body.instruction(operand.name), (*operand.index, *taken)
        if producer is None or producer.opcode != "parameter" or taken != index[:1]:
            return None
        return self._operand(_Place(loop, (), (*place.loops, loop.name)), 0, index)

    def _through_call(self, place: _Place) -> list[_Place] | None:
        """Return the result of a call, or of a fusion or async-start that only passes values on."""
        instruction = place.instruction
        computation = self._called(instruction)
        if computation is None or computation.root is None:
            return None
        if instruction.opcode == "call" or self._only_passes_on(computation):
            return [_Place(computation.root, place.index, place.loops)]
        return None

    def _only_passes_on(self, computation: HloComputation) -> bool:
        for instruction in computation.instructions:
            if instruction.opcode == "fusion":
                inner = self._called(instruction)
                if inner is None or not self._only_passes_on(inner):
                    return False
            elif instruction.opcode not in _PASSED_ON:
                return False
        return True

    def _called(self, instruction: HloInstruction, role: str = "") -> HloComputation | None:
        """Return the first computation that an instruction calls, or calls in a role."""
        for call in self._module.links.calls.of_row(instruction.row):
            if not role or call.role == role:
                return None if call.place == NOTHING else self._module.computations[call.place]
        return None

    def _outside(self, place: _Place) -> list[_Place] | None:
        """Return the value of a parameter in the caller; None for an entry parameter."""
        computation = place.instruction.computation
        calls = self._module.links.calls.of_computation(computation.place)
        if computation.is_entry or not calls:
            return None
        call = calls[0]
        caller = self._module.instruction(call.row)
        number = operand_number(call, caller.opcode, place.instruction.parameter_number or 0)
        loops = (*place.loops, caller.name) if caller.opcode == "while" else place.loops
        return self._operand(_Place(caller, (), loops), number, place.index)

    # -- forwards

    def _ahead(self, place: _Place) -> Iterator[_Place | Neighbour]:
        """Yield the values that a value is passed on to, and its consumers."""
        instruction = place.instruction
        if instruction.is_root:
            yield from self._out_of(place)
        for user, position in self._users_of(instruction):
            yield from self._into(place, user, position)

    def _out_of(self, place: _Place) -> Iterator[_Place | Neighbour]:
        """Yield the value of a computation's result in the caller."""
        computation = place.instruction.computation
        if computation.is_entry:
            yield Neighbour(
                instruction=place.instruction, position=None, index=place.index, loops=place.loops
            )
            return
        for caller in computation.callers[:1]:
            if caller.opcode == "while":
                yield _Place(caller, place.index, (*place.loops, caller.name))
            elif opcode_traits(caller.opcode).is_runner:
                yield _Place(caller, place.index, place.loops)

    def _into(
        self, place: _Place, user: HloInstruction, position: int
    ) -> Iterator[_Place | Neighbour]:
        """Yield the value that a user passes on, or the user if it computes from the value."""
        opcode, index = user.opcode, place.index
        traits = opcode_traits(opcode)
        taken = user.operands[position].index
        if taken:
            if index[: len(taken)] != taken[: len(index)]:
                return
            index = index[len(taken) :]
        if opcode == "get-tuple-element":
            number = user.tuple_index
            if not index or index[0] == number:
                yield _Place(user, index[1:], place.loops)
        elif opcode == "tuple":
            yield _Place(user, (position, *index), place.loops)
        elif traits.is_formatting or traits.is_end:
            yield _Place(user, index, place.loops)
        elif opcode == "copy-start":
            yield _Place(user, (0, *index), place.loops)
        elif opcode == "while":
            yield from self._into_loop(user, index, place.loops)
        elif traits.is_positional:
            yield from self._into_call(place, user, position)
        else:
            yield Neighbour(instruction=user, position=position, index=index, loops=place.loops)

    def _into_loop(
        self, loop: HloInstruction, index: ShapeIndex, loops: tuple[str, ...]
    ) -> Iterator[_Place]:
        body = self._called(loop, "body")
        for parameter in body.parameters[:1] if body is not None else ():
            yield _Place(parameter, index, (*loops, loop.name))

    def _into_call(
        self, place: _Place, user: HloInstruction, position: int
    ) -> Iterator[_Place | Neighbour]:
        """Yield the consumers of a value inside a fusion, or the fusion itself if there are none.

        A fusion that only passes values on is skipped.
        """
        called = self._called(user)
        if called is None or self._only_passes_on(called):
            yield _Place(user, (), place.loops)
            return
        parameters = [p for p in called.parameters if p.parameter_number == position]
        if user.opcode != "fusion":
            yield from (_Place(p, place.index, place.loops) for p in parameters)
            return
        inside = self._interesting(parameters)
        yield from inside
        if not inside:
            yield Neighbour(instruction=user, position=position, loops=place.loops)

    def _interesting(self, parameters: Iterable[HloInstruction]) -> list[Neighbour]:
        """Return the products, reductions and collectives in a fusion that read its parameters."""
        waiting = deque(parameters)
        found: list[Neighbour] = []
        seen: set[str] = set()
        while waiting:
            instruction = waiting.popleft()
            for user, position in self._users_of(instruction):
                traits = opcode_traits(user.opcode)
                if traits.is_heavy or traits.is_update or traits.collective_kind:
                    found.append(Neighbour(instruction=user, position=position))
                elif traits.is_formatting and user.name not in seen:
                    seen.add(user.name)
                    waiting.append(user)
        return found

    def _users_of(self, instruction: HloInstruction) -> Iterator[tuple[HloInstruction, int]]:
        """Yield the users of a result, with the number of the operand."""
        for row, number in self._module.links.users_of(instruction.row):
            yield HloInstruction(instruction.computation, row), number
