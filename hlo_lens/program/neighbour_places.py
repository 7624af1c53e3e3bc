"""Source lines of the nearest neighbours of values, found without a search.

Most values without a line of their own have an operand or a user with one: constants, broadcasts,
reshapes. The search of `Origins` would visit that neighbour first and return its line.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.value_flow import SOURCELESS, Value, ValueFlow

if TYPE_CHECKING:
    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.program.loop_lines import LoopLines
    from hlo_lens.program.source_places import InstructionPlaces

SCALAR = 16
"""Bytes of the largest value that may be the counter of a loop, or is as insignificant."""

_CHAIN = 4
"""Users followed, each the only one of the value before; no more than any search visits."""

_INDIRECT = frozenset({"while", "parameter"})
"""Opcodes of values whose origin is that of other instructions."""


class NeighbourPlaces:
    """Places of operands and users that a search for the origin of a value returns.

    Args:
        steps: Steps between the values of a module.
        places: Places of its instructions.
        loops: Lines of its loops.
    """

    def __init__(self, steps: ValueFlow, places: InstructionPlaces, loops: LoopLines) -> None:
        self._steps = steps
        self._places = places
        self._loops = loops
        self._opcodes = steps.opcodes

    def place(self, value: Value) -> SourceLocation | None:
        """Return the place that a search finds first, where that is simply a neighbour's own.

        None where that is not certain: then the search decides.
        """
        opcode = self._opcodes[value.row]
        if opcode in self._steps.passing or not self._has_own_origin(value, None):
            return None
        if opcode not in SOURCELESS:
            operands = self._steps.sources(value)
            place = self._places.innermost(operands[0].row) if operands else None
            if not operands or not self._has_own_origin(operands[0], place):
                return None
            if place is not None:
                return None if self._loops.is_line_of_loop(place) else place
            if len(operands) > 1 or self._opcodes[operands[0].row] not in SOURCELESS:
                return None
        return self._user_place(value)

    def _user_place(self, value: Value) -> SourceLocation | None:
        """Return the place of the first user, or of the only user's first one, and so on."""
        one = value
        for _ in range(_CHAIN):
            users = list(islice(self._steps.users(one), 2))
            place = self._places.innermost(users[0].row) if users else None
            if not users or not self._has_own_origin(users[0], place):
                return None
            if place is not None:
                is_line_of_loop = self._loops.is_line_of_loop(place)
                return place if not is_line_of_loop or self._steps.size(value) <= SCALAR else None
            if len(users) > 1:
                return None
            one = users[0]
        return None

    def _has_own_origin(self, value: Value, place: SourceLocation | None) -> bool:
        """Return whether `Origins` is certain to return the origin of an instruction's metadata.

        Args:
            value: The value.
            place: The own place of its instruction.
        """
        opcode = self._opcodes[value.row]
        if opcode in _INDIRECT or (place is None and opcode_traits(opcode).is_runner):
            return False
        return self._loops.stored_slice(value) is None
