"""From the results of all passes on a module to what is kept of it: a `ModuleSnapshot`."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.collectives.grouping import UNKNOWN_TIMES
from hlo_lens.analysis.memory.makers import instructions_by_name, makers_of, op_name_of
from hlo_lens.analysis.memory.occupancy import owned_bytes
from hlo_lens.analysis.memory.peak import LiveValue, peak_memory
from hlo_lens.model.snapshot.facts import (
    AliveGroup,
    AnnotationFact,
    CollectiveFact,
    EntryFact,
    ModuleSnapshot,
    SpacePeak,
    portable_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.analysis.collectives.results import Collective, Collectives
    from hlo_lens.analysis.memory.layout import LaidValue, MemoryLayout
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.analysis.memory.statement import SpaceMemory
    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.analysis.sharding.annotations import Annotation
    from hlo_lens.analysis.sharding.results import ShardingResults
    from hlo_lens.analysis.sharding.table import ShardedValue
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.module import HloModule

FRAGMENTATION = "[fragmentation]"
"""What stands for bytes of allocations in which no value lies."""

_LAYOUT = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What only the files tell of a module.

    Attributes:
        target: What it was compiled for.
        toolchain: Compiler.
        fingerprint: Digest of the program.
    """

    target: str | None = None
    toolchain: str | None = None
    fingerprint: str | None = None


def module_snapshot(
    name: str,
    report: Mapping[str, object],
    results: ModuleAnalysis | None,
    memory: MemoryResults | None,
    shardings: ShardingResults | None,
    *,
    origin: Origin,
) -> ModuleSnapshot:
    """Return what is kept of a module.

    Args:
        name: Name of the module.
        report: The numbers of its object in the report.
        results: All passes on its HLO text; None where there is none.
        memory: Its memory, if anything is known.
        shardings: The passes about shardings; None without HLO text.
        origin: What its files tell.
    """
    return ModuleSnapshot(
        name=name,
        target=origin.target,
        toolchain=origin.toolchain,
        signature=None if results is None else _signature(results),
        fingerprint=origin.fingerprint,
        report=report,
        peaks=() if memory is None else tuple(_peaks(memory)),
        collectives=None if results is None else tuple(_collectives(results.collectives, results)),
        entries=None if shardings is None else tuple(map(_entry, shardings.table.values)),
        annotations=_annotations(shardings),
    )


def _signature(results: ModuleAnalysis) -> str:
    """Return a digest of the shapes of parameters and results, without layouts."""
    shapes = [value.shape or "?" for value in results.signature.parameters]
    given = [value.shape or "?" for value in results.signature.outputs]
    text = f"{', '.join(shapes)} -> {', '.join(given)}"
    return digest(text)


def digest(text: str) -> str:
    """Return a digest that is the same on every machine."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


# ---- memory ------------------------------------------------------------------------------------


def _peaks(memory: MemoryResults) -> Iterator[SpacePeak]:
    for space in memory.statement.spaces:
        if space.total_bytes:
            yield _peak(memory, space)


def _peak(memory: MemoryResults, space: SpaceMemory) -> SpacePeak:
    """Return what is alive at a space's peak; without live ranges what its allocations hold."""
    layout, module = memory.layout, memory.module
    peak = peak_memory(layout, color=space.color, module=module)
    if peak is None:
        return SpacePeak(
            color=space.color,
            name=space.name,
            is_peak=False,
            bytes=space.total_bytes,
            op_name=None,
            source=None,
            opcode=None,
            groups=_allocated(layout, space.color, module),
        )
    at = _running(module, peak.instruction)
    return SpacePeak(
        color=space.color,
        name=space.name,
        is_peak=True,
        bytes=peak.total_bytes,
        op_name=op_name_of(at),
        source=_place(at),
        opcode=None if at is None else at.opcode,
        groups=_groups(
            [
                (value.category, value.shape, size, peak.makers.get(value.value))
                for value, size in _owned(peak.live)
            ]
        ),
    )


def _owned(live: Sequence[LiveValue]) -> Iterator[tuple[LiveValue, int]]:
    """Yield values with the bytes that belong to them.

    Where values share bytes at an instant, as one that is updated in place with its update, they
    belong to the oldest: who made the buffer says more than who wrote to it last, and it is the
    same wherever in the loop the peak is.
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
    if place is None:
        return None
    return f"{portable_path(place.file)}:{place.line}" if place.line else portable_path(place.file)


_Part = tuple[str, str, int, "HloInstruction | None"]
"""Category, shape with layout, bytes, who made it."""


def _groups(parts: Sequence[_Part]) -> tuple[AliveGroup, ...]:
    """Return values in groups of one origin and shape, largest first."""
    values: dict[tuple[str, str | None, str | None, str | None, str], int] = defaultdict(int)
    sizes: dict[tuple[str, str | None, str | None, str | None, str], int] = defaultdict(int)
    for category, shape, size, maker in parts:
        origin = _named(maker)
        opcode = None if maker is None else maker.opcode
        key = (category, op_name_of(origin), _place(origin), opcode, _LAYOUT.sub("", shape))
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
    """Return who made a value; of a fusion without metadata who in it has some, its root first."""
    if maker is None or maker.opcode != "fusion" or op_name_of(maker) is not None:
        return maker
    module = maker.computation.module
    for name in maker.called_computations:
        computation = module.computation(name)
        inside = [] if computation is None else list(computation.instructions)
        for instruction in reversed(inside[-_LOOKED_AT:]):
            if op_name_of(instruction) is not None and instruction.opcode != "parameter":
                return instruction
    return maker


_LOOKED_AT = 256
"""Instructions of a fusion among which an origin is looked for, its last ones."""


def _allocated(
    layout: MemoryLayout, color: int, module: HloModule | None
) -> tuple[AliveGroup, ...]:
    """Return all bytes of a space's allocations, each given to the largest value there."""
    held: dict[int, list[LaidValue]] = defaultdict(list)
    for value in layout.values:
        held[value.allocation].append(value)
    makers = makers_of(module, (value.name for value in layout.values))
    parts: list[_Part] = []
    for allocation in layout.allocations:
        if allocation.color != color:
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


# ---- collectives -------------------------------------------------------------------------------


def _collectives(found: Collectives, results: ModuleAnalysis) -> Iterator[CollectiveFact]:
    labels = _loop_labels(found, results.table.module) if found.collectives else {}
    named = {a for m in found.meshes if m.source != "inferred" for a in m.sizes}
    for one in found.collectives:
        yield _collective(one, labels, named)


def _collective(one: Collective, labels: Mapping[str, str], named: set[str]) -> CollectiveFact:
    pairs = one.source_target_pairs  # which mean the same in any order
    devices = one.groups if pairs is None else tuple(sorted(pairs))
    near = one.source_file is None
    file, line = _split_place(one.near_source) if near else (one.source_file, one.source_line)
    return CollectiveFact(
        kind=one.kind,
        axis=one.axis,
        axes=one.axes,
        are_axes_named=one.axes is not None and named.issuperset(one.axes),
        groups=None if devices is None else digest(repr(devices)),
        group_size=one.group_size,
        num_groups=one.num_groups,
        payload_bytes=one.payload_bytes,
        wire_bytes_per_device=one.wire_bytes_per_device,
        element_type=one.element_type,
        dynamic_count=one.dynamic_count,
        is_at_most=one.is_at_most,
        loops=tuple(labels.get(name, UNKNOWN_TIMES) for name in one.loop_path),
        is_async=one.is_async,
        is_exposed=one.is_exposed,
        op_name=one.op_name if one.op_name is not None else one.near_op_name,
        source_file=None if file is None else portable_path(file),
        source_line=line,
    )


def _split_place(place: str | None) -> tuple[str | None, int | None]:
    """Return file and line of ``file:line``."""
    if place is None:
        return None, None
    file, _, line = place.rpartition(":")
    return (file, int(line)) if file and line.isdecimal() else (place, None)


def _loop_labels(found: Collectives, module: HloModule) -> dict[str, str]:
    """Return loop name to operation path and trip count."""
    labels: dict[str, str] = {}
    for trip in found.trips.loops:
        computation = module.computation(trip.computation)
        loop = None if computation is None else computation.instruction(trip.loop)
        path = op_name_of(loop) or "while"
        times = UNKNOWN_TIMES if trip.trip_count is None else f"x{trip.trip_count}"
        labels.setdefault(trip.loop, f"{path} {times}")
    return labels


# ---- shardings ---------------------------------------------------------------------------------


def _entry(value: ShardedValue) -> EntryFact:
    entry = value.value
    part, whole = value.device_shape, value.global_shape
    return EntryFact(
        kind=entry.direction,
        number=entry.number,
        index=entry.index,
        name=entry.name if entry.direction == "parameter" else None,
        global_shape=None if whole is None else whole.to_text(layout=False),
        device_shape=None if part is None else part.to_text(layout=False),
        device_bytes=value.device_bytes,
        padded_device_bytes=None if part is None else part.padded_size_bytes,
        spec=value.spec_text,
        sharding=None if value.sharding is None else value.sharding.to_v2().text,
        replication_factor=value.replication_factor,
        donation=entry.donation,
        aliased_with=entry.aliased_with,
    )


def _annotations(shardings: ShardingResults | None) -> tuple[AnnotationFact, ...] | None:
    """Return what the program says; None where only a text says it that is not there."""
    if shardings is None:
        return None
    if shardings.found.before is None and shardings.found.is_per_device:
        return None
    found = shardings.annotations.annotations
    return tuple(_annotation(one) for one in found if one.annotation != _RESULT)


_RESULT = "xla.sdy.FuncResultSharding"
"""What says how a result lies: outputs have that."""


def _annotation(one: Annotation) -> AnnotationFact:
    file, line = _split_place(one.source)
    place = None if file is None else portable_path(file)
    return AnnotationFact(
        annotation=one.annotation,
        shape=one.shape,
        sharding=one.sharding,
        spec=one.spec,
        manual_axes=one.manual_axes,
        source=place if line is None else f"{place}:{line}",
        op_name=one.op_name,
    )
