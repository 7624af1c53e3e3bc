"""Calls of a module: which instruction runs which computation, in which role."""

from __future__ import annotations

import functools
import re
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import END, NOTHING, OPERANDS_END, STRIDE
from hlo_lens.hlo.instruction import CALLING_ATTRIBUTES
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.hlo.operand_columns import inverted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.hlo.module import HloModule

_CALLED = re.compile(rf",\s*({'|'.join(CALLING_ATTRIBUTES)})=\s*(\{{[^{{}}]*\}}|%?[\w.-]+)")
_NAME = re.compile(r"[\w.-]+")
_ROLES = {role: number for number, role in enumerate(CALLING_ATTRIBUTES)}


class Call(NamedTuple):
    """A computation that an instruction calls.

    Attributes:
        row: Row of the instruction.
        place: Position of the computation among the module's; `NOTHING` if it is not in the
            text.
        role: Attribute that names it: ``body``, ``condition``, ``to_apply``, ``calls``, ...
        number: Its position among those that the instruction calls.
    """

    row: int
    place: int
    role: str
    number: int


def operand_number(call: Call, opcode: str, parameter: int) -> int:
    """Return the number of the caller's operand that is a parameter of a called computation.

    Args:
        call: The call.
        opcode: Opcode of the caller.
        parameter: Number of the parameter.
    """
    if opcode == "while":
        return 0
    return 1 + call.number if opcode == "conditional" else parameter


class Calls:
    """The calls of a module, in text order.

    Attributes:
        rows: Row of the caller of each call.
        places: Position of each called computation; `NOTHING` if it is not in the text.
        undefined: Position of a call to the name of its computation, if that is not in the text.
    """

    def __init__(self, module: HloModule) -> None:
        self.rows = array("I")
        self.places = array("i")
        self.undefined: dict[int, str] = {}
        self._roles = array("B")
        self._computations = len(module.computations)
        names = module.computation_columns.all_names(module.columns.source.text)
        places = {name: place for place, name in enumerate(names)}
        for row, role, name in _calls(module):
            place = places.get(name, NOTHING)
            if place == NOTHING:
                self.undefined[len(self.rows)] = name
            self.rows.append(row)
            self.places.append(place)
            self._roles.append(_ROLES[role])

    @functools.cached_property
    def _by_place(self) -> tuple[Sequence[int], Sequence[int]]:
        return inverted(self.places, self._computations)

    def of_row(self, row: int) -> list[Call]:
        """Return the calls of an instruction, in the order of its attributes."""
        first, last = bisect_left(self.rows, row), bisect_right(self.rows, row)
        return [self._call(number) for number in range(first, last)]

    def targets(self, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield row and called computation of the calls by some ascending rows."""
        if isinstance(rows, range):
            first, last = bisect_left(self.rows, rows.start), bisect_left(self.rows, rows.stop)
            return zip(self.rows[first:last], self.places[first:last], strict=True)
        return ((call.row, call.place) for call in self.of_rows(rows))

    def of_rows(self, rows: Sequence[int]) -> Iterator[Call]:
        """Yield the calls of some ascending rows."""
        if not isinstance(rows, range):
            for row in rows:
                yield from self.of_row(row)
            return
        first, last = bisect_left(self.rows, rows.start), bisect_left(self.rows, rows.stop)
        yield from map(self._call, range(first, last))

    @property
    def roles(self) -> Iterator[str]:
        """Attribute that names the computation of each call."""
        return map(CALLING_ATTRIBUTES.__getitem__, self._roles)

    def of_computation(self, place: int) -> list[Call]:
        """Return the calls that name a computation, in text order."""
        offsets, order = self._by_place
        return [self._call(number) for number in order[offsets[place] : offsets[place + 1]]]

    def _call(self, number: int) -> Call:
        row = self.rows[number]
        role = CALLING_ATTRIBUTES[self._roles[number]]
        return Call(row, self.places[number], role, number - bisect_left(self.rows, row))


def _calls(module: HloModule) -> Iterator[tuple[int, str, str]]:
    """Yield row, role and name of each called computation, in text order."""
    opcodes, columns = module.opcodes, module.columns
    text, spans = columns.source.text, columns.spans
    traits = map(opcode_traits, opcodes.different)
    wanted = {one.opcode for one in traits if one.is_caller or not one.is_known}
    calling = {row for row, overlay in columns.overlays.items() if overlay.called}
    for row in sorted(calling.union(opcodes.places_of(wanted))):
        start, end = spans[row * STRIDE + OPERANDS_END], spans[row * STRIDE + END]
        matches = () if row in columns.overlays else tuple(_CALLED.finditer(text, start, end))
        if matches and _is_plain(text, start, matches[-1].end(), end):
            for match in matches:
                role, value = match.groups()
                if value[0] != "{":
                    yield row, role, value.removeprefix("%")
                else:
                    yield from ((row, role, name) for name in _NAME.findall(value))
            continue
        yield from ((row, role, name) for role, name in module.instruction(row).calls)


def _is_plain(text: str, start: int, last: int, end: int) -> bool:
    """Return whether attributes have no comment, and no string before the end of the last call.

    A comment has a star, or ends with its line; one character is found faster than two.
    """
    if text.find("*", start, end) >= 0 or text.find("\n", start, end) >= 0:
        return False
    return text.find('"', start, last) < 0
