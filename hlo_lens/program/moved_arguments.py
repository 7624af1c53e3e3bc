"""Arguments whose bytes collectives move: through conversions, slices, loops, other collectives."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import ArgumentNames
from hlo_lens.program.summary import hlo_text
from hlo_lens.program.value_flow import CALLERS, COPIES, ENDS, TUPLES, Route, Use, Value, value_flow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump

_MOST = 300_000
"""Values that are visited, of all arguments together."""

_DEEPEST = 8
"""Deepest nesting of tuples; damaged texts have any."""

_STEPS = 256
"""Values of a loop's body that are visited for one element."""

_RUNNERS = CALLERS - {"custom-call"}
_PASSING = TUPLES | COPIES | ENDS | _RUNNERS
_BACK = Route(_PASSING, _RUNNERS - {"while"})

_JOINING = {"concatenate": range(1 << 20), "dynamic-update-slice": range(2), "select": range(1, 3)}
"""Operands that the elements of the result are of."""


@fact
def moved_arguments(module: ModuleDump) -> Mapping[int, tuple[str, ...]]:
    """Return the names of the arguments whose bytes each collective moves, by its row, in order.

    An argument is followed through what copies, converts, reorders, cuts and joins elements, and
    through collectives that add nothing up; as an element of a loop only if the body computes no
    other elements in its place.
    """
    hlo = hlo_text(module)
    found: dict[int, dict[str, None]] = defaultdict(dict)
    if not hlo.has_entry or not hlo.entry.rows:
        return {}
    walk, names, visited = _Walk(hlo), ArgumentNames(hlo).by_row, 0
    for number, row in sorted(hlo.links.parameters_of(hlo.entry.place).items()):
        waiting, seen = deque([Value(row)]), {Value(row)}
        while waiting and visited < _MOST:
            visited += 1
            for use, further in walk.onward(waiting.popleft()):
                if use is not None and opcode_traits(walk.opcodes[use.row]).collective_kind:
                    found[use.row][names.get(row) or f"argument {number}"] = None
                fresh = [v for v in further if v not in seen and len(v.element) <= _DEEPEST]
                waiting += fresh
                seen.update(fresh)
    return {row: tuple(listed) for row, listed in found.items()}


class _Walk:
    """Steps from a value to those that have its elements."""

    def __init__(self, module: HloModule) -> None:
        self.flow = value_flow(module)
        self.opcodes = self.flow.opcodes
        self._links = module.links
        self._kept: dict[Value, bool] = {}

    def onward(self, value: Value) -> Iterator[tuple[Use | None, list[Value]]]:
        """Yield the uses of a value, each with the values that have its elements then.

        None for the use that is the result of a computation.
        """
        for use in self.flow.uses(value):
            yield use, self._after(use)
        returned = self.flow.returned(value)
        if returned is not None:
            call = self.flow.caller(value.row)
            is_body = call is not None and call.role == "body"  # then the next iteration has it too
            again = self.flow.after(Use(returned.row, 0, value.element)) if is_body else ()
            yield None, [returned, *again]

    def _after(self, use: Use) -> list[Value]:
        opcode = self.opcodes[use.row]
        if opcode == "while" and not self._is_kept(Value(use.row, use.element)):
            return []
        if opcode_traits(opcode).collective_kind:
            return self._transferred(use)
        is_moved = opcode in _PASSING or use.position in self._moved_operands(opcode)
        return [*self.flow.after(use)] if is_moved else []

    def _moved_operands(self, opcode: str) -> range:
        """Return the operands whose elements the result of an instruction has."""
        return _JOINING.get(opcode) or range(int(opcode_traits(opcode).is_moving))

    def _transferred(self, use: Use) -> list[Value]:
        """Return what a collective makes of an operand."""
        traits = opcode_traits(self.opcodes[use.row])
        if traits.is_reduction or opcode_traits(traits.base).is_reduction:
            return []
        is_combined = opcode_traits(traits.base).is_combinable
        if not is_combined or len(self._links.operands_of(use.row)) == 1:
            return [*self.flow.after(use)]
        element = (use.position, *use.element)
        return [Value(use.row, (1, *element) if traits.phase == "start" else element)]

    def _is_kept(self, value: Value) -> bool:
        """Return whether an element of a loop is never one that the body computes."""
        written = self.flow.written(value) if value.element else None
        if written is None:
            return True
        if value not in self._kept:
            waiting, seen = [written], {written}
            while waiting and len(seen) < _STEPS:
                behind = self._behind(waiting.pop())
                if behind is None:
                    break
                waiting += (one for one in behind if one not in seen)
                seen.update(behind)
            else:
                self._kept[value] = not waiting
            self._kept.setdefault(value, False)
        return self._kept[value]

    def _behind(self, value: Value) -> list[Value] | None:
        """Return the values whose elements a value has; None where they are computed."""
        before = self.flow.before(value, _BACK)
        if before is not None:
            return [before]
        traits = opcode_traits(self.opcodes[value.row])
        if traits.is_sourceless or traits.opcode == "broadcast":
            return []
        moved = self._moved_operands(traits.opcode)
        if traits.collective_kind and not opcode_traits(traits.base).is_reduction:
            moved = range(1 << 20)
        operands = self.flow.operands(value.row)
        return [operands[k] for k in range(len(operands)) if k in moved] if moved else None
