"""Bytes held over the schedule, by role: the stacks of a timeline.

Each byte that is held at an instant has one role: that of the youngest value that holds it, as in
`peak`; so the roles of an instant sum to the bytes held. Stored are the changes, few for most
roles.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.role_names import ROLES
from hlo_lens.questions.memory.roles import MemoryRoles, memory_roles
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.layout import MemoryLayout
    from hlo_lens.questions.memory.occupancy import Occupant


@dataclass(frozen=True, kw_only=True)
class RoleSeries(Result):
    """Bytes of each role over the schedule.

    Attributes:
        color: Memory space.
        length: Number of instants.
        changes: Role to instant to the change of its bytes at that instant, ascending.
    """

    KIND: ClassVar[str] = "role-series"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("role", Unit.NONE, "role of the values"),
        Column("position", Unit.NONE, "instant, from 0"),
        Column("change_bytes", Unit.BYTES_DELTA, "change of its bytes at that instant"),
    )
    color: int
    length: int
    changes: Mapping[str, Mapping[int, int]]

    def rows(self) -> Iterator[Row]:
        """Yield the changes, role by role."""
        for role, changes in self.changes.items():
            for position, change in changes.items():
                yield role, position, change

    def series(self, role: str) -> list[int]:
        """Return the bytes of a role at each instant."""
        changes = self.changes.get(role, {})
        return list(accumulate(changes.get(t, 0) for t in range(self.length)))


def role_series(module: ModuleDump, color: int) -> RoleSeries | None:
    """Return the bytes of each role over the schedule; None without live ranges."""
    roles = memory_roles(module)
    return None if roles is None else series_of_roles(roles.layout, roles, color=color)


def series_of_roles(
    layout: MemoryLayout, roles: MemoryRoles, *, color: int = DEFAULT_SPACE
) -> RoleSeries | None:
    """Return the bytes of each role over a schedule; None without live ranges."""
    if layout.length is None:
        return None
    changes: dict[str, dict[int, int]] = {role: defaultdict(int) for role in ROLES}
    for allocation in layout.held(color):
        changes[roles.allocations[allocation.index].role][0] += allocation.size
    groups: dict[int, list[Occupant]] = defaultdict(list)
    for occupant in layout.occupants(color, is_temp=True):
        if occupant.size > 0 and occupant.start <= occupant.end and occupant.start < layout.length:
            groups[occupant.allocation].append(occupant)
    named = [role.role for role in roles.values]
    for group in groups.values():
        _Sweep(group, named, changes).run()
    found = {
        role: {t: change for t, change in sorted(of_role.items()) if change and t < layout.length}
        for role, of_role in changes.items()
    }
    return RoleSeries(
        color=color,
        length=layout.length,
        changes={role: of_role for role, of_role in found.items() if of_role},
    )


class _Sweep:
    """Pieces of one allocation with their owners, swept over time.

    Pieces do not overlap and are sorted. Most values share no bytes with others, or take all those
    of a value that ends then; each of their events changes one piece.
    """

    def __init__(
        self,
        group: Sequence[Occupant],
        roles: Sequence[str],
        changes: Mapping[str, dict[int, int]],
    ) -> None:
        self._group = group
        self._changes = [changes[roles[one.key]] for one in group]
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._owners: list[int] = []
        self._covered: dict[int, set[int]] = {}
        self._ended: set[int] = set()

    def run(self) -> None:
        """Add the changes of all values."""
        group = self._group
        events = [(one.start, 1, -one.key, k) for k, one in enumerate(group)]
        events += [(one.end + 1, 0, 0, k) for k, one in enumerate(group)]
        events.sort()
        for instant, begins, _, number in events:
            if begins:
                self._begin(instant, number)
            else:
                self._end(instant, number)

    def _begin(self, instant: int, number: int) -> None:
        """Give a value its bytes; older values lose them as long as it lives."""
        one = self._group[number]
        start, end = one.offset, one.offset + one.size
        self._changes[number][instant] += one.size
        place = bisect_right(self._ends, start)
        if place == len(self._starts) or self._starts[place] >= end:
            self._starts.insert(place, start)
            self._ends.insert(place, end)
            self._owners.insert(place, number)
            return
        below = self._covered[number] = set()
        for owner, size in self._take(start, end, number):
            self._changes[owner][instant] -= size
            below.add(owner)
            below |= self._covered.get(owner, _NONE)

    def _take(self, start: int, end: int, number: int) -> list[tuple[int, int]]:
        """Give a range of bytes to a value; return the bytes that each former owner lost."""
        first = last = bisect_right(self._ends, start)
        lost: list[tuple[int, int]] = []
        pieces = [(start, end, number)]
        while last < len(self._starts) and self._starts[last] < end:
            low, high, owner = self._starts[last], self._ends[last], self._owners[last]
            lost.append((owner, min(high, end) - max(low, start)))
            if low < start:
                pieces.insert(0, (low, start, owner))
            if high > end:
                pieces.append((end, high, owner))
            last += 1
        self._starts[first:last] = [piece[0] for piece in pieces]
        self._ends[first:last] = [piece[1] for piece in pieces]
        self._owners[first:last] = [piece[2] for piece in pieces]
        return lost

    def _end(self, instant: int, number: int) -> None:
        """Free a value's bytes; older values that are still alive get theirs back."""
        one = self._group[number]
        end = one.offset + one.size
        place = bisect_right(self._ends, one.offset)
        pieces: list[tuple[int, int]] = []
        while place < len(self._starts) and self._starts[place] < end:
            if self._owners[place] == number:
                pieces.append((self._starts[place], self._ends[place]))
                del self._starts[place], self._ends[place], self._owners[place]
            else:
                place += 1
        self._changes[number][instant] -= sum(high - low for low, high in pieces)
        self._ended.add(number)
        below = self._covered.pop(number, _NONE)
        for older in sorted(below - self._ended, key=self._age) if below else ():
            self._give_back(instant, older, pieces)

    def _age(self, number: int) -> tuple[int, int]:
        """Return the sort key of values, oldest first."""
        one = self._group[number]
        return one.start, -one.key

    def _give_back(self, instant: int, number: int, pieces: Sequence[tuple[int, int]]) -> None:
        one = self._group[number]
        for start, end in pieces:
            low, high = max(start, one.offset), min(end, one.offset + one.size)
            if low >= high:
                continue
            for owner, size in self._take(low, high, number):
                self._changes[owner][instant] -= size
            self._changes[number][instant] += high - low


_NONE: frozenset[int] = frozenset()
