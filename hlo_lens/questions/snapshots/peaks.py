"""Memory held at the peaks of a module, in groups of one origin and shape."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.program.origins import NO_ORIGIN, Origin, Origins
from hlo_lens.questions.memory.layout import owned_bytes
from hlo_lens.questions.memory.peak import (
    LiveValue,
    PeakMemory,
    instructions_by_name,
    peak_memory,
    values_of,
)
from hlo_lens.questions.snapshots.rows import AliveGroup, SpacePeak
from hlo_lens.text.portable_names import portable_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.value_flow import Value
    from hlo_lens.questions.memory.layout import LaidValue, MemoryLayout
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.memory.statement import SpaceFacts


NO_VALUE = "[no value]"
"""Group of the bytes of allocations that hold no value; without live ranges no peak is known."""

_LAYOUT = re.compile(r"\{[^{}]*\}")


def space_peaks(memory: MemoryResults) -> Iterator[SpacePeak]:
    """Yield the peak of each memory space that has allocations."""
    for space in memory.statement.spaces:
        if space.total_bytes:
            yield _peak(memory, space)


def _peak(memory: MemoryResults, space: SpaceFacts) -> SpacePeak:
    """Return the peak of a space; without live ranges the values in its allocations."""
    layout, module = memory.layout, memory.module
    peak = peak_memory(layout, color=space.color, module=module)
    if peak is None:
        at, origin, size = None, NO_ORIGIN, space.total_bytes or 0
        groups = _allocated(layout, space.color, module)
    else:
        at, origin, size = (
            _running(module, peak.instruction),
            peak.instruction_origin,
            peak.total_bytes,
        )
        owned = _owned(peak.live)
        groups = _groups(_part(peak, value, size) for value, size in owned)
    return SpacePeak(
        color=space.color,
        name=space.name,
        is_peak=peak is not None,
        bytes=size,
        op_name=origin.op_name,
        source=_place(origin),
        opcode=None if at is None else at.opcode,
        groups=groups,
    )


def _owned(live: Sequence[LiveValue]) -> Iterator[tuple[LiveValue, int]]:
    """Yield values with their own bytes.

    Bytes that several values share at an instant, such as a value and its update in place, count
    for the oldest: it names the maker of the buffer, and is the same at every instant of a loop.
    """
    held: dict[int, list[LiveValue]] = defaultdict(list)
    for value in live:
        held[value.allocation].append(value)
    for values in held.values():
        values.sort(key=lambda v: (v.start or 0, -v.size_bytes, v.value))
        yield from zip(values, owned_bytes([(v.offset, v.size_bytes) for v in values]), strict=True)


def _part(peak: PeakMemory, value: LiveValue, size: int) -> _Part:
    maker = peak.makers.get(value.value)
    opcode = None if maker is None else maker.opcode
    return _Part(value.category, value.shape, size, opcode, peak.origin_of(value))


def _running(module: HloModule | None, name: str | None) -> HloInstruction | None:
    if module is None or name is None:
        return None
    return instructions_by_name(module, {name}).get(name)


def _place(origin: Origin) -> str | None:
    place = origin.place
    return None if place is None else portable_source(place.file, place.line)


class _Part(NamedTuple):
    """Values or bytes of one origin.

    Attributes:
        category: Use of their allocation.
        shape: Shape with layout.
        size: Bytes.
        opcode: Opcode of the instruction that made them.
        origin: Origin in the user's program.
    """

    category: str
    shape: str
    size: int
    opcode: str | None = None
    origin: Origin = NO_ORIGIN


def _groups(parts: Iterable[_Part]) -> tuple[AliveGroup, ...]:
    """Return values in groups of one origin and shape, largest first."""
    members: dict[tuple[str, str | None, str | None, str | None, str], list[_Part]] = {}
    for part in parts:
        shape = _LAYOUT.sub("", part.shape)
        key = (part.category, part.origin.op_name, _place(part.origin), part.opcode, shape)
        members.setdefault(key, []).append(part)
    groups = [
        AliveGroup(
            category=category,
            op_name=op_name,
            source=source,
            opcode=opcode,
            shape=shape,
            values=len(listed),
            size_bytes=sum(part.size for part in listed),
            origin_basis=max(listed, key=lambda part: part.size).origin.basis,
        )
        for (category, op_name, source, opcode, shape), listed in members.items()
    ]
    groups.sort(
        key=lambda g: (g.category, g.op_name or "", g.source or "", g.opcode or "", g.shape)
    )
    return tuple(sorted(groups, key=lambda g: -g.size_bytes))


def _allocated(
    layout: MemoryLayout, color: int, module: HloModule | None
) -> tuple[AliveGroup, ...]:
    """Return all bytes of a space's allocations, each counted for the largest value there.

    Thread-local scalars are on no heap and not counted.
    """
    held: dict[int, list[LaidValue]] = defaultdict(list)
    for value in layout.values:
        held[value.allocation].append(value)
    known = values_of(module, (value.name for value in layout.values))
    origins = None if module is None else Origins(module)
    parts: list[_Part] = []
    for allocation in layout.allocations:
        if allocation.color != color or allocation.category == "thread-local":
            continue
        values = sorted(held[allocation.index], key=lambda v: (-v.size, v.offset, v.name))
        owned = owned_bytes([(v.offset, v.size) for v in values])
        free = allocation.size - sum(owned)
        category = allocation.category
        for value, size in zip(values, owned, strict=True):
            if size:
                found = known.get(value.name)
                made = () if origins is None or found is None else _made(origins, found)
                parts.append(_Part(category, value.shape_text, size, *made))
        if free:
            parts.append(_Part(category, NO_VALUE, free))
    return _groups(parts)


def _made(origins: Origins, value: Value) -> tuple[str, Origin]:
    """Return the opcode of the maker of a value, and its origin."""
    return origins.opcode(origins.maker(value)), origins.of_value(value)
