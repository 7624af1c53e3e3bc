"""Arguments whose bytes collectives move: through conversions, slices, loops, other collectives."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.program.origins import ArgumentNames
from hlo_lens.program.summary import hlo_text
from hlo_lens.program.value_flow import (
    CALLERS,
    COPIES,
    ENDS,
    SOURCELESS,
    TUPLES,
    Route,
    Use,
    Value,
    value_flow,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

_NONE, _EVERY = range(0), range(1 << 20)
_JOINING = {"concatenate": _EVERY, "dynamic-update-slice": range(2), "select": range(1, 3)}
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
        name = names.get(row) or f"argument {number}"
        waiting, seen = [Value(row)], {Value(row)}
        while waiting and visited < _MOST:
            visited += 1
            value = waiting.pop()
            further: list[Value] = []
            for use in walk.flow.uses(value):
                way = walk.way(use.row)
                if way.is_collective:
                    found[use.row][name] = None
                if way.is_passing or way.is_combined:
                    further += walk.after(use, way)
                elif use.position in way.moved:
                    further.append(Value(use.row, use.element))
            if hlo.links.is_root(value.row):
                further += walk.returned(value)
            fresh = [v for v in further if v not in seen and len(v.element) <= _DEEPEST]
            waiting += fresh
            seen.update(fresh)
    return {row: tuple(listed) for row, listed in found.items()}


class _Way(NamedTuple):
    """What an opcode makes of the elements of its operands.

    Attributes:
        is_collective: Whether it is a collective, or its start.
        is_combined: Whether several operands are several collectives.
        is_passing: Whether it passes its operands on as they are, or to what it runs.
        moved: Numbers of the operands whose elements its result has.
    """

    is_collective: bool
    is_combined: bool
    is_passing: bool
    moved: range


@cache
def _way(opcode: str) -> _Way:
    traits = opcode_traits(opcode)
    base = opcode_traits(traits.base)
    if traits.collective_kind:
        if base.is_reduction:
            return _Way(True, False, False, _NONE)
        return _Way(True, base.is_combinable, False, _EVERY)
    moved = _JOINING.get(opcode) or range(int(traits.is_moving))
    return _Way(False, False, opcode in _PASSING, moved)


class _Walk:
    """Steps from a value to those that have its elements."""

    def __init__(self, module: HloModule) -> None:
        self.flow = value_flow(module)
        self._opcodes = self.flow.opcodes
        self._links = module.links
        self._kept: dict[Value, bool] = {}

    def way(self, row: int) -> _Way:
        """Return what an instruction makes of its operands."""
        return _way(self._opcodes[row])

    def after(self, use: Use, way: _Way) -> Iterable[Value]:
        """Return the values that have the elements of an operand that an instruction moves."""
        if self._opcodes[use.row] == "while" and not self._is_kept(Value(use.row, use.element)):
            return ()
        if way.is_combined and len(self._links.operands_of(use.row)) > 1:
            element = (use.position, *use.element)
            is_start = self._opcodes[use.row].endswith("-start")
            return (Value(use.row, (1, *element) if is_start else element),)
        return self.flow.after(use)

    def returned(self, value: Value) -> Iterable[Value]:
        """Return the result of the call whose computation returns a value, and what that gives."""
        returned = self.flow.returned(value)
        if returned is None:
            return ()
        call = self.flow.caller(value.row)
        is_body = call is not None and call.role == "body"  # then the next iteration has it too
        return (
            returned,
            *(self.flow.after(Use(returned.row, 0, value.element)) if is_body else ()),
        )

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
        opcode = self._opcodes[value.row]
        if opcode in SOURCELESS or opcode == "broadcast":
            return []
        moved = _way(opcode).moved
        operands = self.flow.operands(value.row)
        return [operands[k] for k in range(len(operands)) if k in moved] if moved else None
