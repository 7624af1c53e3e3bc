"""Figures and snapshot of a module.

Names and paths of the machine are left out, and what several texts word differently is written in
one way, so that compiles can be compared.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.program.flops import flops
from hlo_lens.program.instructions import opcodes
from hlo_lens.program.origins import NO_ORIGIN, Origin, origins_of
from hlo_lens.program.runs import numbered_branch
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import backend_of_dump, hlo_text, summary
from hlo_lens.questions.collectives.collective import LoopTrips, collectives, loop_paths
from hlo_lens.questions.findings.findings import findings_basis, module_findings
from hlo_lens.questions.memory.layout import owned_bytes
from hlo_lens.questions.memory.peak import instructions_by_name, peak_memory, values_of
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.questions.snapshots.figures import (
    AliveGroup,
    EntryFact,
    ModuleFacts,
    ShardingFacts,
    SpacePeak,
)
from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot
from hlo_lens.shapes.sharding import MESHES, SHARDINGS_BEGIN, shardy_meshes, shardy_shardings
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.names import digest, portable_path, portable_source, split_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.text import HloReader
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import CollectiveTotals
    from hlo_lens.questions.findings.findings import Findings
    from hlo_lens.questions.memory.layout import LaidValue, MemoryLayout
    from hlo_lens.questions.memory.peak import LiveValue, PeakMemory
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.sharding.annotations import Annotation
    from hlo_lens.questions.sharding.savings import ShardingResults
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape
    from hlo_lens.shapes.sharding import HloSharding


def module_facts(analysis: ModuleDump) -> ModuleFacts:
    """Return the figures of a module, without rows; without HLO text only memory is known."""
    results = memory_results(analysis)
    facts = ModuleFacts(
        stage=analysis.stage,
        backend=backend_of_dump(analysis),
        memory=None if results is None else results.statement,
    )
    if not analysis.has_hlo:
        return facts
    size, work, found = summary(analysis), flops(analysis), module_findings(analysis)
    return replace(
        facts,
        **{name: getattr(size, name) for name in _OF_SUMMARY},
        opcodes={one.opcode: one.instructions for one in opcodes(analysis).counts},
        unknown_opcodes=opcodes(analysis).unknown_opcodes,
        unknown_attributes=hlo_text(analysis).unknown_attributes,
        parameters=entry_signature(analysis).parameter_count,
        flops=work.total,
        flops_at_least=work.at_least,
        flops_is_at_most=None if work.total is None else work.is_at_most,
        flops_is_estimate=None if work.total is None else work.is_estimate,
        collectives=collectives(analysis).figures,
        findings=found.findings,
        findings_basis=findings_basis(found),
    )


_OF_SUMMARY = (
    *("is_scheduled", "num_partitions", "evident_partitions", "replica_count"),
    *("computations", "instructions", "coverage"),
)


def module_snapshot(
    analysis: ModuleDump, *, name: str, target: str | None = None, toolchain: str | None = None
) -> ModuleSnapshot:
    """Return the snapshot of a module, without fingerprint."""
    facts, shardings = module_facts(analysis), sharding_results(analysis)
    memory, signature = memory_results(analysis), None
    if facts.collectives is not None:
        facts = replace(facts, collectives=_with_rows(facts.collectives, analysis))
    if shardings is not None and shardings.is_complete:
        rows = tuple(_entry_rows(shardings, _result_paths(analysis)))
        facts = replace(facts, sharding=ShardingFacts(rows=rows))
    if analysis.has_hlo and (entry := entry_signature(analysis)).is_complete:
        sides = (entry.parameters, entry.outputs)  # without layouts
        texts = [", ".join(value.shape or "?" for value in side) for side in sides]
        signature = digest(" -> ".join(texts))
    made = ModuleSnapshot(
        name=name,
        target=target,
        toolchain=toolchain,
        signature=signature,
        fingerprint=None,
        facts=facts,
        peaks=() if memory is None else tuple(_space_peaks(memory)),
        annotations=None if shardings is None else _annotations(shardings),
        path=analysis.path,
    )
    return with_findings(made, module_findings(analysis)) if analysis.has_hlo else made


def with_findings(snapshot: ModuleSnapshot, found: Findings) -> ModuleSnapshot:
    """Return the snapshot of a module with some findings in place of its own."""
    portable = tuple(
        one if one.source_file is None else replace(one, source_file=portable_path(one.source_file))
        for one in found.findings
    )
    facts = replace(snapshot.facts, findings=portable, findings_basis=findings_basis(found))
    return replace(snapshot, facts=facts)


def _with_rows(totals: CollectiveTotals, analysis: ModuleDump) -> CollectiveTotals:
    found, module = collectives(analysis), hlo_text(analysis)
    paths = loop_paths(module) if found.trips.loops else {}
    numbers: dict[str, str] = {}  # of each conditional
    rows = []
    for one in found.collectives:  # as another machine has them
        file = None if one.source_file is None else portable_path(one.source_file)
        branches = tuple(numbered_branch(text, numbers) for text in one.branches)
        is_same = (file, branches) == (one.source_file, one.branches)
        rows.append(one if is_same else replace(one, source_file=file, branches=branches))
    loops = [
        LoopTrips(
            op_name=paths.get((trip.computation, trip.loop)),
            trip_count=trip.trip_count,
            trip_source=trip.trip_source,
        )
        for trip in found.trips.loops
    ]
    return replace(totals, rows=tuple(rows), loops=tuple(loops))


_RESULT_PATH = re.compile(r'jax\.result_info = "([^"]*)"')
_MAIN = "func.func public @main("


def _result_paths(analysis: ModuleDump) -> list[str]:
    text = "" if analysis.mlir_text is None else analysis.mlir_text.get() or ""
    start = text.find(_MAIN)
    return _RESULT_PATH.findall(text, start, text.find("\n", start)) if start >= 0 else []


def _entry_rows(results: ShardingResults, paths: Sequence[str]) -> Iterator[EntryFact]:
    outputs = [v for v in results.table.values if v.value.kind == "output"]
    named = {id(v): path for v, path in zip(outputs, paths, strict=False)}
    named = named if len(outputs) == len(paths) else {}
    placed: dict[int, dict[str, object]] = {}  # by the cells, which equal placements share
    for value in results.table.values:
        entry, part, whole = value.value, value.device_shape, value.global_shape
        if id(value.cells) not in placed:
            placed[id(value.cells)] = {
                "global_shape": None if whole is None else whole.to_text(layout=False),
                "device_shape": None if part is None else part.to_text(layout=False),
                "device_bytes": value.device_bytes,
                "padded_device_bytes": None if part is None else part.padded_size_bytes,
                "spec": value.spec_text,
                "sharding": None if value.sharding is None else value.sharding.to_v2().text,
                "replication_factor": value.replication_factor,
            }
        yield EntryFact(
            kind=entry.kind,
            number=entry.number,
            index=entry.index,
            name=entry.name if entry.kind == "parameter" else named.get(id(value)),
            donation=entry.donation,
            aliased_with=entry.aliased_with,
            **placed[id(value.cells)],  # type: ignore[arg-type] # fields by name
        )


NO_VALUE = "[no value]"
"""Group of the bytes of allocations that hold no value; without live ranges no peak is known."""

_LAYOUT = re.compile(r"\{[^{}]*\}")


class _Part(NamedTuple):
    """Values or bytes of one origin, in an allocation of some use (`category`)."""

    category: str
    shape: str
    size: int
    opcode: str | None = None
    origin: Origin = NO_ORIGIN


def _space_peaks(memory: MemoryResults) -> Iterator[SpacePeak]:
    """Yield the peak of each memory space that has allocations.

    Without live ranges, the values in its allocations.
    """
    layout, module = memory.layout, memory.module
    for space in memory.statement.spaces:
        if not space.total_bytes:
            continue
        peak = peak_memory(layout, color=space.color, module=module)
        origin, running = NO_ORIGIN, None
        if peak is not None:
            origin, name = peak.instruction_origin, peak.instruction
            if module is not None and name is not None:
                running = instructions_by_name(module, {name}).get(name)
        parts = _allocated(layout, space.color, module) if peak is None else _live(peak)
        yield SpacePeak(
            color=space.color,
            name=space.name,
            is_peak=peak is not None,
            bytes=space.total_bytes if peak is None else peak.total_bytes,
            op_name=origin.op_name,
            source=_place(origin),
            opcode=None if running is None else running.opcode,
            groups=_groups(parts),
        )


def _live(peak: PeakMemory) -> Iterator[_Part]:
    """Yield values with their own bytes.

    Bytes that several values share at an instant, such as a value and its update in place, count
    for the oldest: it names the maker of the buffer, and is the same at every instant of a loop.
    """
    held: dict[int, list[LiveValue]] = defaultdict(list)
    for value in peak.live:
        held[value.allocation].append(value)
    for values in held.values():
        values.sort(key=lambda v: (v.start or 0, -v.size_bytes, v.value))
        sizes = owned_bytes([(v.offset, v.size_bytes) for v in values])
        for value, size in zip(values, sizes, strict=True):
            maker = peak.makers.get(value.value)
            opcode = None if maker is None else maker.opcode
            yield _Part(value.category, value.shape, size, opcode, peak.origin_of(value))


def _allocated(layout: MemoryLayout, color: int, module: HloModule | None) -> Iterator[_Part]:
    """Yield all bytes of a space's allocations, each counted for the largest value there.

    Thread-local scalars are on no heap and not counted.
    """
    held: dict[int, list[LaidValue]] = defaultdict(list)
    for value in layout.values:
        held[value.allocation].append(value)
    known = values_of(module, (value.name for value in layout.values))
    origins = None if module is None else origins_of(module)
    for allocation in layout.allocations:
        if allocation.color != color or allocation.category == "thread-local":
            continue
        values = sorted(held[allocation.index], key=lambda v: (-v.size, v.offset, v.name))
        sizes = owned_bytes([(v.offset, v.size) for v in values])
        for value, size in zip(values, sizes, strict=True):
            made, part = known.get(value.name), _Part(allocation.category, value.shape_text, size)
            if size and made is not None and origins is not None:
                opcode, origin = origins.opcode(origins.maker(made)), origins.of_value(made)
                part = part._replace(opcode=opcode, origin=origin)
            if size:
                yield part
        if allocation.size > sum(sizes):
            yield _Part(allocation.category, NO_VALUE, allocation.size - sum(sizes))


def _groups(parts: Iterable[_Part]) -> tuple[AliveGroup, ...]:
    members: dict[tuple[str | None, ...], list[_Part]] = defaultdict(list)
    for part in parts:
        place, shape = _place(part.origin), _LAYOUT.sub("", part.shape)
        members[part.category, part.origin.op_name, place, part.opcode, shape].append(part)
    groups = [
        AliveGroup(
            category=same[0].category,
            op_name=op_name,
            source=source,
            opcode=opcode,
            shape=shape or "",
            values=len(same),
            size_bytes=sum(part.size for part in same),
            origin_basis=max(same, key=lambda part: part.size).origin.basis,
        )
        for (_, op_name, source, opcode, shape), same in members.items()
    ]
    groups.sort(
        key=lambda g: (
            *(-g.size_bytes, g.category),
            *(g.op_name or "", g.source or "", g.opcode or "", g.shape),
        )
    )
    return tuple(groups)


def _place(origin: Origin) -> str | None:
    place = origin.place
    return None if place is None else portable_source(place.file, place.line)


_RESULT = "xla.sdy.FuncResultSharding"
"""Annotation of a result's sharding, which the rows of outputs have."""

_ENTERING = "xla.sdy.GlobalToLocalShape"
"""Annotation whose shape is that of one device, and its sharding that of the operand."""

_SPECS = re.compile(r", (?=P\(|\?)")


def _annotations(results: ShardingResults) -> tuple[Annotation, ...] | None:
    """Return a row for each value of a program's annotations; None without the text that has them.

    The wording changes from version to version of JAX: shard_map of 0.4 to 0.6 has pairs of GSPMD's
    custom calls (a ``Sharding`` of the global value, then one that is manual), 0.7 to 0.10 Shardy's
    ``GlobalToLocalShape`` of all operands with their shardings, 0.12 a ``Sharding`` for each
    operand and a manual ``GlobalToLocalShape``. So that they can be compared, tuples are split into
    their values, shardings are printed as tiles of devices, and operands have their global shape.
    """
    found = results.found
    if found.before is None and found.is_per_device:
        return None
    module = (found.before or found.own).module
    meshes = shardy_meshes(module.frontend_attributes.get(MESHES, ""))
    shapes: dict[str, tuple[Shape, ...]] = {}
    shardings: dict[str, tuple[HloSharding | None, ...]] = {}
    rows: list[Annotation] = []
    for one in results.annotations.annotations:
        if one.annotation == _RESULT:
            continue
        shape, sharding = one.shape or "", one.sharding or ""
        if shape not in shapes:
            shapes[shape] = _shapes(shape, module.reader)
        if sharding not in shardings:
            shardings[sharding] = _shardings(sharding, module.reader, meshes)
        rows += _values_of(one, shapes[shape], shardings[sharding])
    return tuple(rows)


def _values_of(
    one: Annotation, shapes: tuple[Shape, ...], shardings: tuple[HloSharding | None, ...]
) -> Iterator[Annotation]:
    whole = replace(one, source=portable_source(*split_source(one.source)))
    specs: list[str | None] = [*_SPECS.split(one.spec)] if one.spec else [None] * len(shardings)
    if not len(shapes) == len(shardings) == len(specs):
        yield whole
        return
    for shape, sharding, spec in zip(shapes, shardings, specs, strict=True):
        if sharding is None:
            yield replace(whole, shape=shape.to_text(layout=False), spec=spec)
            continue
        if one.annotation == _ENTERING and len(sharding.tile_counts) == len(shape.dimensions):
            sizes = zip(shape.dimensions, sharding.tile_counts, strict=True)
            whole_sizes = tuple(None if n is None else n * tiles for n, tiles in sizes)
            shape = replace(shape, dimensions=whole_sizes)
        yield replace(
            whole,
            shape=shape.to_text(layout=False),
            sharding=sharding.to_v2().text,
            spec=None if spec == "?" else spec,
        )


def _shapes(text: str, reader: HloReader) -> tuple[Shape, ...]:
    try:
        shape = reader.shape(text) if text else None
    except DumpSyntaxError:
        return ()
    if shape is None:
        return ()
    return shape.tuple_shapes if shape.is_tuple else (shape,)


def _shardings(
    text: str, reader: HloReader, meshes: Mapping[str, Mesh]
) -> tuple[HloSharding | None, ...]:
    if SHARDINGS_BEGIN in text:
        return shardy_shardings(text, meshes)
    try:
        sharding = reader.sharding(text) if text else None
    except DumpSyntaxError:
        return ()
    return () if sharding is None else sharding.elements or (sharding,)
