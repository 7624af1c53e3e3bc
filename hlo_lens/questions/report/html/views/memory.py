"""Data of the view Memory over the schedule, which What is alive reads too.

Bytes of each role as changes over the instants; values as columns. Values below a share of the
peak are folded, except those alive at the peak: pictures show them as ``[N others]`` with the
bytes that the roles have beyond the listed values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import pairwise
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
    from hlo_lens.questions.memory.layout import MemoryLayout, Occupant
    from hlo_lens.questions.memory.peak import PeakMemory
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
    limit = memory.statement.limit_bytes
    spaces = [
        _space(analysis, memory, color, strings)
        for color in memory.layout.colors
        if memory.layout.held_bytes(color) or any(memory.layout.temporary_series(color) or ())
    ]
    return {
        "source": memory.layout.source,
        "limit": None if limit is None else [limit, memory.statement.limit_source],
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
    instants = None  # all are stored; of a long schedule the largest instant of each few
    if len(held) > MOST_INSTANTS:
        width = -(-len(held) // MOST_INSTANTS)
        ranges = (range(k, min(k + width, len(held))) for k in range(0, len(held), width))
        instants = [max(some, key=held.__getitem__) for some in ranges]
    schedule = layout.schedule or ()
    shown = range(len(schedule)) if instants is None else instants
    names = [schedule[t] if t < len(schedule) else None for t in shown]
    totals = {space.color: space.total_bytes for space in memory.statement.spaces}
    totals[DEFAULT_SPACE] = memory.statement.total_bytes
    listed, folded, least = _temporaries(layout, peak)
    return {
        "color": color,
        "name": space_name(color, memory.backend),
        "length": len(held),
        "instants": None if instants is None else differences(instants),
        "schedule": strings.numbers(names),
        "peak": {"bytes": peak.total_bytes, "position": peak.position},
        "total_bytes": totals.get(color),
        "changes": [
            [_ROLE_NUMBERS[role], *_role_changes(series, role, instants)] for role in series.changes
        ],
        "values": _value_columns(analysis, peak, layout, listed, strings),
        "folded": _folded(folded, shown),
        "least_bytes": least,
        "allocations": [
            [allocation.index, allocation.size, allocation.category]
            for allocation in layout.allocations
            if allocation.color == color and allocation.category == "temp"
        ],
    }


def _role_changes(
    series: RoleSeries, role: str, instants: Sequence[int] | None
) -> tuple[list[int], list[int]]:
    """Return the places at which the bytes of a role change, as differences, and the changes."""
    changes: Mapping[int, int] = series.changes[role]
    if instants is not None:
        whole = series.series(role)
        sizes = [0, *(whole[instant] for instant in instants)]
        steps = (after - before for before, after in pairwise(sizes))
        changes = {place: step for place, step in enumerate(steps) if step}
    return differences(changes), list(changes.values())


def _temporaries(
    layout: MemoryLayout, peak: PeakMemory
) -> tuple[list[Occupant], list[Occupant], int]:
    """Return the temporaries that are not alive at the peak, and the least bytes of listed ones.

    The first are listed, the second folded.
    """
    alive = {(value.value, value.allocation) for value in peak.live if value.category == "temp"}
    others = []
    for occupant in layout.occupants(peak.color, is_temp=True):
        value = layout.values[occupant.key]
        if (value.name, value.allocation) not in alive:
            others.append(occupant)
    least = peak.total_bytes // LEAST_SHARE
    large = [occupant for occupant in others if occupant.size >= max(1, least)]
    large.sort(key=lambda occupant: (-occupant.size, occupant.start, occupant.key))
    if len(large) > MOST_VALUES:
        least = large[MOST_VALUES - 1].size + 1
    chosen = {occupant.key for occupant in large[:MOST_VALUES]}
    folded = [occupant for occupant in others if occupant.key not in chosen]
    return large[:MOST_VALUES], folded, least


def _folded(folded: Sequence[Occupant], shown: Sequence[int]) -> Mapping[str, object] | None:
    """Return the number of folded values over the stored instants, as changes."""
    if not folded:
        return None
    changes: Counter[int] = Counter()
    for occupant in folded:
        changes[bisect_left(shown, occupant.start)] += 1
        changes[bisect_left(shown, occupant.end + 1)] -= 1
    places = sorted(place for place, change in changes.items() if change)
    return {
        "count": len(folded),
        "places": differences(places),
        "changes": [changes[place] for place in places],
    }


def _value_columns(
    analysis: ModuleDump,
    peak: PeakMemory,
    layout: MemoryLayout,
    listed: Sequence[Occupant],
    strings: Strings,
) -> Mapping[str, Sequence[object]]:
    """Return the values alive at the peak and listed temporaries, as columns."""
    rows = [
        (v.value, v.size_bytes, v.offset, v.allocation, v.start, v.end, v.category, v.shape)
        for v in sorted(peak.live, key=lambda value: -value.size_bytes)
    ]
    for occupant in listed:
        value = layout.values[occupant.key]
        place = (value.name, value.size, value.offset, value.allocation)
        rows.append((*place, occupant.start, occupant.end, "temp", value.shape_text))
    columns = list(zip(*rows, strict=True)) or [()] * _CELLS
    names, sizes, offsets, allocations, starts, ends, categories, shapes = columns
    roles = memory_roles(analysis)
    assert roles is not None
    known = {
        "name": strings.numbers(names),
        "size": sizes,
        "offset": offsets,
        "allocation": allocations,
        "start": starts,
        "end": ends,
        "category": strings.numbers(categories),
        "shape": strings.numbers(shapes),
    }
    found = [roles.of_value(*value) for value in zip(names, allocations, strict=True)]
    described = described_values(analysis, names)
    return {
        **known,
        "role": [_ROLE_NUMBERS[role.role] for role in found],
        "basis": strings.numbers(role.basis for role in found),
        **{
            key: strings.numbers(getattr(one, key) for one in described)
            for key in ("opcode", "source", "op_name", "argument", "stack")
        },
    }


def _alive(subject: Subject, strings: Strings) -> Mapping[str, object] | None:
    """Return the name of the view whose data the view What is alive shows."""
    del strings
    return {"values_of": "memory"} if has_schedule(subject.analysis) else None


VIEWS = (View("memory", 10, _view_data), View("alive", 20, _alive))
