"""Data of the view Memory over the schedule, which What is alive reads too.

Bytes of each role as changes over the instants; values as columns. Values below a share of the
peak are folded, except those alive at the peak: pictures show them as ``[N others]`` with the
bytes that the roles have beyond the listed values.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.questions.memory.peak import described_values
from hlo_lens.questions.memory.results import memory_results, peak_of
from hlo_lens.questions.memory.roles import ROLES, memory_roles, role_series
from hlo_lens.questions.memory.statement import space_name
from hlo_lens.questions.memory.timeline import loop_bands
from hlo_lens.questions.report.html.data import View, differences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.memory.layout import LaidValue
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.memory.roles import RoleSeries
    from hlo_lens.questions.report.html.data import Strings, Subject

LEAST_SHARE = 1000
"""Values of less than this part of the peak are folded."""

MOST_VALUES = 4000
"""Values of a memory space that are listed, besides those alive at the peak."""

MOST_INSTANTS = 1 << 16
"""Instants that are stored; of a longer schedule each is the largest of some neighbours."""

_CELLS = 8
"""Columns of a value without its role and origin."""

_ROLE_NUMBERS = {role: number for number, role in enumerate(ROLES)}


def _view_data(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return the memory of a module over its schedule; None where live ranges are not known."""
    analysis = subject.analysis
    memory = memory_results(analysis)
    if memory is None or not has_schedule(analysis):
        return None
    spaces = [
        _space(analysis, memory, color, strings)
        for color in memory.layout.colors
        if memory.layout.held_bytes(color) or any(memory.layout.temporary_series(color) or ())
    ]
    return {
        "source": memory.layout.source,
        "limit": None
        if subject.limit_bytes is None
        else [subject.limit_bytes, subject.limit_source],
        "roles": list(ROLES.items()),
        "spaces": spaces,
        "loops": [[strings.number(one.loop), *one[1:]] for one in loop_bands(analysis)],
    }


def has_schedule(analysis: ModuleDump) -> bool:
    """Return whether the memory of a module over its schedule is known."""
    memory = memory_results(analysis)
    return memory is not None and memory.layout.schedule is not None and memory.peak is not None


def _space(
    analysis: ModuleDump, memory: MemoryResults, color: int, strings: Strings
) -> Mapping[str, object]:
    """Return one memory space."""
    layout = memory.layout
    peak = memory.peak if color == DEFAULT_SPACE else peak_of(analysis, color)
    series = role_series(analysis, color)
    assert series is not None  # there is a schedule
    assert peak is not None
    held = layout.held_series(color) or []
    instants = _representatives(held)
    schedule = layout.schedule or ()
    values = _Values(analysis, peak)
    shown = range(len(schedule)) if instants is None else instants
    names = [schedule[t] if t < len(schedule) else None for t in shown]
    return {
        "color": color,
        "name": space_name(color, memory.backend),
        "length": len(held),
        "instants": None if instants is None else differences(instants),
        "schedule": strings.numbers(names),
        "peak": {"bytes": peak.total_bytes, "position": peak.position},
        "total_bytes": _total(memory, color),
        "changes": [
            [_ROLE_NUMBERS[role], *_columns(series, role, instants)] for role in series.changes
        ],
        "values": values.columns(strings),
        "folded": values.folded(shown),
        "least_bytes": values.least,
        "allocations": [
            [one.index, one.size, one.category]
            for one in layout.allocations
            if one.color == color and one.category == "temp"
        ],
    }


def _total(memory: MemoryResults, color: int) -> int | None:
    if color == DEFAULT_SPACE:
        return memory.statement.total_bytes
    spaces = memory.statement.spaces
    return next((space.total_bytes for space in spaces if space.color == color), None)


def _representatives(held: Sequence[int]) -> list[int] | None:
    """Return the largest instant of each few; None if all are stored."""
    if len(held) <= MOST_INSTANTS:
        return None
    step = -(-len(held) // MOST_INSTANTS)
    ranges = (range(k, min(k + step, len(held))) for k in range(0, len(held), step))
    return [max(one, key=held.__getitem__) for one in ranges]


def _columns(
    series: RoleSeries, role: str, instants: Sequence[int] | None
) -> tuple[list[int], list[int]]:
    """Return the places at which the bytes of a role change, as differences, and the changes."""
    changes = series.changes[role]
    if instants is None:
        return differences(changes), list(changes.values())
    whole = series.series(role)
    found = {}
    last = 0
    for place, instant in enumerate(instants):
        if whole[instant] != last:
            found[place] = whole[instant] - last
            last = whole[instant]
    return differences(found), list(found.values())


class _Values:
    """Values of a memory space that are listed, and the number of those that are not.

    Args:
        analysis: The module.
        peak: Memory held at the peak of the space; its values are all listed.
    """

    def __init__(self, analysis: ModuleDump, peak: PeakMemory) -> None:
        memory = memory_results(analysis)
        assert memory is not None
        self._analysis = analysis
        layout = memory.layout
        self._listed: list[LiveValue] = sorted(peak.live, key=lambda one: -one.size_bytes)
        known = {(one.value, one.allocation) for one in peak.live if one.category == "temp"}
        self.least = peak.total_bytes // LEAST_SHARE
        occupants = layout.occupants(peak.color, is_temp=True)
        others = [one for one in occupants if _key(layout.values[one.key]) not in known]
        large = [one for one in others if one.size >= max(1, self.least)]
        large.sort(key=lambda one: (-one.size, one.start, one.key))
        self._large = large[:MOST_VALUES]
        if len(large) > MOST_VALUES:
            self.least = self._large[-1].size + 1
        chosen = {one.key for one in self._large}
        self._folded = [one for one in others if one.key not in chosen]
        self._values = layout.values

    def folded(self, shown: Sequence[int]) -> Mapping[str, object] | None:
        """Return the number of folded values over the stored instants, as changes."""
        if not self._folded:
            return None
        changes: dict[int, int] = {}
        for one in self._folded:
            first, last = bisect_left(shown, one.start), bisect_left(shown, one.end + 1)
            changes[first] = changes.get(first, 0) + 1
            changes[last] = changes.get(last, 0) - 1
        places = sorted(place for place, change in changes.items() if change)
        return {
            "count": len(self._folded),
            "places": differences(places),
            "changes": [changes[place] for place in places],
        }

    def columns(self, strings: Strings) -> Mapping[str, Sequence[object]]:
        """Return the listed values as columns."""
        rows = [
            (
                *(one.value, one.size_bytes, one.offset, one.allocation),
                *(one.start, one.end, one.category, one.shape),
            )
            for one in self._listed
        ]
        for occupant in self._large:
            value = self._values[occupant.key]
            rows.append(
                (
                    *(value.name, value.size, value.offset, value.allocation),
                    *(occupant.start, occupant.end, "temp", value.shape_text),
                )
            )
        found = list(zip(*rows, strict=True)) or [()] * _CELLS
        names, sizes, offsets, allocations, starts, ends, categories, shapes = found
        return {
            "name": strings.numbers(names),
            "size": sizes,
            "offset": offsets,
            "allocation": allocations,
            "start": starts,
            "end": ends,
            "category": strings.numbers(categories),
            "shape": strings.numbers(shapes),
            **self._roles(names, allocations, strings),
            **self._origins(names, strings),
        }

    def _roles(
        self, names: Sequence[str], allocations: Sequence[int], strings: Strings
    ) -> Mapping[str, list[int]]:
        roles = memory_roles(self._analysis)
        assert roles is not None
        found = [roles.of_value(*one) for one in zip(names, allocations, strict=True)]
        return {
            "role": [_ROLE_NUMBERS[one.role] for one in found],
            "basis": strings.numbers(one.basis for one in found),
        }

    def _origins(self, names: Sequence[str], strings: Strings) -> Mapping[str, list[int]]:
        """Return opcode, source line, operation path, argument and call stack of values."""
        described = described_values(self._analysis, names)
        return {
            key: strings.numbers(getattr(one, key) for one in described)
            for key in ("opcode", "source", "op_name", "argument", "stack")
        }


def _key(value: LaidValue) -> tuple[str, int]:
    return value.name, value.allocation


def _alive(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return the name of the view whose data the view What is alive shows."""
    del strings
    return {"values_of": "memory"} if has_schedule(subject.analysis) else None


VIEWS = (View("memory", 20, _view_data), View("alive", 30, _alive))
