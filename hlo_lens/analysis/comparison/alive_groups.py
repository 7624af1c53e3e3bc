"""Memory held at the peaks of a module, in groups of one origin and shape."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.portable_sources import portable_source
from hlo_lens.analysis.memory.makers import instructions_by_name, makers_of
from hlo_lens.analysis.memory.occupancy import owned_bytes
from hlo_lens.analysis.memory.peak import LiveValue, peak_memory
from hlo_lens.model.snapshot.rows import AliveGroup, SpacePeak

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.analysis.memory.layout import LaidValue, MemoryLayout
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.module import HloModule
    from hlo_lens.model.snapshot.facts import SpaceFacts

FRAGMENTATION = "[fragmentation]"
"""Group of the bytes of allocations that hold no value."""

_LAYOUT = re.compile(r"\{[^{}]*\}")
_LOOKED_AT = 256
"""Number of instructions, from the last one of a fusion, that are searched for an origin."""


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
        at, size, groups = None, space.total_bytes, _allocated(layout, space.color, module)
    else:
        at, size = _running(module, peak.instruction), peak.total_bytes
        owned = _owned(peak.live)
        groups = _groups([(v.category, v.shape, n, peak.makers.get(v.value)) for v, n in owned])
    return SpacePeak(
        color=space.color,
        name=space.name,
        is_peak=peak is not None,
        bytes=size,
        op_name=None if at is None else at.op_name,
        source=_place(at),
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


def _running(module: HloModule | None, name: str | None) -> HloInstruction | None:
    if module is None or name is None:
        return None
    return instructions_by_name(module, {name}).get(name)


def _place(instruction: HloInstruction | None) -> str | None:
    place = None if instruction is None else instruction.source_location
    return None if place is None else portable_source(place.file, place.line)


_Part = tuple[str, str, int, "HloInstruction | None"]
"""Category, shape with layout, bytes, and the instruction that made it."""


def _groups(parts: Sequence[_Part]) -> tuple[AliveGroup, ...]:
    """Return values in groups of one origin and shape, largest first."""
    values: dict[tuple[str, str | None, str | None, str | None, str], int] = defaultdict(int)
    sizes: dict[tuple[str, str | None, str | None, str | None, str], int] = defaultdict(int)
    for category, shape, size, maker in parts:
        origin = _named(maker)
        opcode = None if maker is None else maker.opcode
        op_name = None if origin is None else origin.op_name
        key = (category, op_name, _place(origin), opcode, _LAYOUT.sub("", shape))
        values[key] += 1
        sizes[key] += size
    order = sorted(sizes, key=lambda key: (-sizes[key], tuple(part or "" for part in key)))
    return tuple(
        AliveGroup(
            category=key[0],
            op_name=key[1],
            source=key[2],
            opcode=key[3],
            shape=key[4],
            values=values[key],
            size_bytes=sizes[key],
        )
        for key in order
    )


def _named(maker: HloInstruction | None) -> HloInstruction | None:
    """Return the maker; for a fusion without metadata its last instruction that has some."""
    if maker is None or maker.opcode != "fusion" or maker.op_name is not None:
        return maker
    module = maker.computation.module
    for name in maker.called_computations:
        computation = module.computation(name)
        inside = [] if computation is None else list(computation.instructions)
        for instruction in reversed(inside[-_LOOKED_AT:]):
            if instruction.op_name is not None and instruction.opcode != "parameter":
                return instruction
    return maker


def _allocated(
    layout: MemoryLayout, color: int, module: HloModule | None
) -> tuple[AliveGroup, ...]:
    """Return all bytes of a space's allocations, each counted for the largest value there.

    Thread-local scalars are on no heap and not counted.
    """
    held: dict[int, list[LaidValue]] = defaultdict(list)
    for value in layout.values:
        held[value.allocation].append(value)
    makers = makers_of(module, (value.name for value in layout.values))
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
                parts.append((category, value.shape_text, size, makers.get(value.name)))
        if free:
            parts.append((category, FRAGMENTATION, free, None))
    return _groups(parts)
