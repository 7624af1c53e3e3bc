"""Lines of loops, and instructions of their bodies that have no better line."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from hlo_lens.program.value_flow import STORING

if TYPE_CHECKING:
    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.program.origin import Origin
    from hlo_lens.program.source_places import InstructionPlaces
    from hlo_lens.program.value_flow import Value, ValueFlow

_STEPS = 64
"""Computations that are left in search of the loop around an instruction, at most."""

_SLICES = ("/dynamic_slice", "/dynamic_update_slice")
"""Ends of the operation paths of slices that ``lax.scan`` takes and stores."""


class LoopLines:
    """Lines of the loops of a module.

    Args:
        steps: Steps between its values.
        places: Places of its instructions.
    """

    def __init__(self, steps: ValueFlow, places: InstructionPlaces) -> None:
        self._steps = steps
        self._places = places
        self._opcodes = steps.opcodes

    def is_of_loop(self, value: Value, near: Origin) -> bool:
        """Return whether the origin of a value is only the line of a loop.

        This is so for loops, for what their bodies do on that line, and for the slices that they
        take and store, also where XLA moved them out of the body.
        """
        if self._opcodes[value.row] == "while":
            return is_same_line(near.place, self.place(value.row))
        if near.place is not None and (near.op_name or "").endswith(_SLICES):
            return self.is_line_of_loop(near.place)
        loop = self._loop_around(value.row)
        return loop is not None and is_same_line(near.place, self.place(loop))

    def is_line_of_loop(self, place: SourceLocation) -> bool:
        """Return whether a place is on the line of any loop."""
        return (place.file, place.line) in self._lines

    @cached_property
    def _lines(self) -> frozenset[tuple[str, int | None]]:
        """File and line of each loop of the module."""
        rows = (row for row, opcode in enumerate(self._opcodes) if opcode == "while")
        places = map(self.place, rows)
        return frozenset((place.file, place.line) for place in places if place is not None)

    def stored_slice(self, value: Value) -> Value | None:
        """Return the slice that an instruction of a loop body only stores; None for all others."""
        row = value.row
        if self._opcodes[row] not in STORING:
            return None
        loop = self._loop_around(row)
        update = None if loop is None else self._steps.update(value)
        if loop is None or update is None:
            return None
        place = self._places.innermost(row)
        is_stored = place is None or is_same_line(place, self.place(loop))
        return update if is_stored else None

    def _loop_around(self, row: int) -> int | None:
        """Return the loop that runs an instruction, also in a fusion or call of its body."""
        for _ in range(_STEPS):
            call = self._steps.caller(row)
            if call is None:
                return None
            row = call.row
            if self._opcodes[row] == "while":
                return row
        return None

    def place(self, row: int) -> SourceLocation | None:
        """Return the place of a loop: its own, or that of the comparison that ends it."""
        place = self._places.innermost(row)
        root = self._steps.root(row, "condition") if place is None else None
        return self._places.innermost(root) if root is not None else place


def is_same_line(one: SourceLocation | None, other: SourceLocation | None) -> bool:
    """Return whether two places are of the same file and line."""
    if one is None or other is None:
        return one is other
    return (one.file, one.line) == (other.file, other.line)
