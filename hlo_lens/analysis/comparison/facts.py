"""Facts of a module from the results of its passes."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.analysis.collectives.grouping import UNKNOWN_TIMES
from hlo_lens.analysis.comparison.portable_sources import portable_path, split_source
from hlo_lens.analysis.memory.makers import op_name_of
from hlo_lens.model.snapshot.facts import (
    CollectivesFacts,
    CoverageFacts,
    FigureMismatch,
    HostBytes,
    MemoryFacts,
    MeshFacts,
    ModuleFacts,
    PeakFacts,
    ShardingFacts,
    SpaceFacts,
)
from hlo_lens.model.snapshot.rows import CollectiveFact, EntryFact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import DataclassInstance

    from hlo_lens.analysis.collectives.results import Collective, Collectives
    from hlo_lens.analysis.memory.peak import PeakMemory
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.analysis.module_analysis import ModuleAnalysis
    from hlo_lens.analysis.program.summary import Summary
    from hlo_lens.analysis.sharding.results import ShardingResults
    from hlo_lens.analysis.sharding.table import ShardedValue
    from hlo_lens.model.hlo.module import HloModule

    F = TypeVar("F", bound=DataclassInstance)

NAMES_KEPT = 5
"""Undefined names that facts list."""


def module_facts(analysis: ModuleAnalysis) -> ModuleFacts:
    """Return the facts of a module; without HLO text only its memory is known."""
    dump, memory = analysis.dump, _memory(analysis.memory)
    if not analysis.has_hlo:
        return ModuleFacts(stage=dump.stage, backend=analysis.backend, memory=memory)
    summary, has_entry = analysis.summary, bool(analysis.module.computations)
    return ModuleFacts(
        stage=dump.stage,
        backend=analysis.backend,
        is_scheduled=summary.is_scheduled,
        num_partitions=summary.num_partitions,
        evident_partitions=summary.evident_partitions,
        replica_count=summary.replica_count,
        computations=summary.computations,
        instructions=summary.instructions,
        opcodes={row[0]: row[1] for row in analysis.opcodes.counts},
        unknown_opcodes=analysis.opcodes.unknown_opcodes,
        unknown_attributes=analysis.module.unknown_attributes,
        parameters=analysis.signature.parameter_count if has_entry else None,
        flops=analysis.flops.total,
        coverage=_coverage(summary),
        collectives=_collectives(analysis.collectives, analysis.module),
        memory=memory,
        sharding=_sharding(analysis.shardings),
    )


def digest(text: str) -> str:
    """Return a digest that is the same on every machine."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _copied(kind: type[F], source: object, **others: object) -> F:
    """Return a dataclass with the fields of another by name, and others as given."""
    names = [field.name for field in fields(kind) if field.name not in others]
    return kind(**{name: getattr(source, name) for name in names}, **others)


def _coverage(summary: Summary) -> CoverageFacts:
    return _copied(
        CoverageFacts,
        summary,
        ratio=summary.coverage,
        undefined=len(summary.undefined),
        undefined_names=summary.undefined[:NAMES_KEPT],
    )


def _memory(results: MemoryResults | None) -> MemoryFacts | None:
    if results is None:
        return None
    statement = results.statement
    least, most = statement.temp_range
    argument, output, alias, temp = statement.host_bytes
    return _copied(
        MemoryFacts,
        statement,
        host_bytes=HostBytes(argument=argument, output=output, alias=alias, temp=temp),
        spaces=tuple(_copied(SpaceFacts, space) for space in statement.spaces),
        peak=None if results.peak is None else _peak(results.peak),
        is_complete=results.layout.is_complete and results.layout.are_ranges_complete,
        temp_is_exact=least == most,
        unknown_values=results.unknown_values,
        missing=tuple(name for name, _ in results.missing),
        memory_analysis=dict(results.stated) or None,
        mismatches=tuple(
            FigureMismatch(name=name, ours=ours, theirs=theirs)
            for name, ours, theirs in results.mismatches
        ),
    )


def _peak(peak: PeakMemory) -> PeakFacts:
    return _copied(PeakFacts, peak, bytes=peak.total_bytes)


def _collectives(found: Collectives, module: HloModule) -> CollectivesFacts:
    mesh = found.meshes[0] if found.meshes else None
    labels = _loop_labels(found, module) if found.collectives else {}
    named = {a for m in found.meshes if m.source != "inferred" for a in m.sizes}
    return CollectivesFacts(
        static=found.static_counts(),
        dynamic=found.dynamic_counts(),
        wire_bytes_per_device=found.wire_bytes_per_device,
        rows=tuple(_collective(one, labels, named) for one in found.collectives),
        unknown_opcodes=dict(found.unknown_opcodes),
        mesh=None if mesh is None else MeshFacts(axes=mesh.sizes, source=mesh.source),
    )


def _collective(one: Collective, labels: Mapping[str, str], named: set[str]) -> CollectiveFact:
    pairs = one.source_target_pairs  # their order means nothing
    devices = one.groups if pairs is None else tuple(sorted(pairs))
    is_near = one.source_file is None
    file, line = split_source(one.near_source) if is_near else (one.source_file, one.source_line)
    return _copied(
        CollectiveFact,
        one,
        axis=one.axis,
        are_axes_named=one.axes is not None and named.issuperset(one.axes),
        groups=None if devices is None else digest(repr(devices)),
        loops=tuple(labels.get(name, UNKNOWN_TIMES) for name in one.loop_path),
        op_name=one.op_name if one.op_name is not None else one.near_op_name,
        source_file=None if file is None else portable_path(file),
        source_line=line,
    )


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


def _sharding(results: ShardingResults | None) -> ShardingFacts | None:
    if results is None:
        return None
    return ShardingFacts(rows=tuple(map(_entry, results.table.values)))


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
