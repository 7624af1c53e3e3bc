"""Memory held at the peaks of a module, in groups of one origin and shape."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import defaultdict
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hlo_lens.program.flops import flops
from hlo_lens.program.instructions import opcodes
from hlo_lens.program.origins import NO_ORIGIN, Origin, Origins
from hlo_lens.program.runs import numbered_branch
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import backend_of_dump, hlo_text, summary
from hlo_lens.questions.collectives.collective import (
    UNKNOWN_TIMES,
    Collective,
    Collectives,
    collectives,
)
from hlo_lens.questions.findings.findings import findings_basis
from hlo_lens.questions.findings.module_findings import module_findings
from hlo_lens.questions.memory.layout import owned_bytes
from hlo_lens.questions.memory.peak import (
    LiveValue,
    PeakMemory,
    instructions_by_name,
    peak_memory,
    values_of,
)
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.sharding.annotations import Annotation
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.questions.snapshots.figures import (
    AliveGroup,
    CollectiveFact,
    CollectivesFacts,
    EntryFact,
    LoopFact,
    MeshFacts,
    ModuleFacts,
    ShardingFacts,
    SpacePeak,
)
from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot
from hlo_lens.shapes import shardy
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.names import portable_path, portable_source, split_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from _typeshed import DataclassInstance

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.hlo.text import HloReader
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.value_flow import Value
    from hlo_lens.questions.collectives.collective import Collectives
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.findings.findings import Findings
    from hlo_lens.questions.memory.layout import LaidValue, MemoryLayout
    from hlo_lens.questions.memory.results import MemoryResults
    from hlo_lens.questions.memory.statement import SpaceFacts
    from hlo_lens.questions.sharding.annotations import Annotation
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.questions.sharding.savings import ShardingResults
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape
    from hlo_lens.shapes.sharding import HloSharding


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


_RESULT = "xla.sdy.FuncResultSharding"
"""Annotation of a result's sharding, which the rows of outputs have."""

_ENTERING = "xla.sdy.GlobalToLocalShape"
"""Annotation whose shape is that of one device, and its sharding that of the operand."""

_SPECS = re.compile(r", (?=P\(|\?)")


def annotation_facts(results: ShardingResults) -> tuple[Annotation, ...] | None:
    """Return the annotations of a program; None if the text that has them is not there."""
    found = results.found
    if found.before is None and found.is_per_device:
        return None
    module = (found.before or found.own).module
    meshes = shardy.shardy_meshes(module.frontend_attributes.get(shardy.MESHES, ""))
    reader = _Reader(module.reader, meshes)
    return tuple(
        fact
        for one in results.annotations.annotations
        if one.annotation != _RESULT
        for fact in reader.facts(one)
    )


class _Reader:
    """Reader of the values of annotations that parses each distinct text once."""

    def __init__(self, reader: HloReader, meshes: Mapping[str, Mesh]) -> None:
        self._reader = reader
        self._meshes = meshes
        self._shardings: dict[str, tuple[HloSharding | None, ...]] = {}
        self._shapes: dict[str, tuple[Shape, ...]] = {}

    def facts(self, one: Annotation) -> Iterator[Annotation]:
        """Yield the values of an annotation; the annotation itself if they cannot be told apart."""
        whole = dataclasses.replace(one, source=portable_source(*split_source(one.source)))
        shapes = self._shapes_of(one.shape)
        shardings = self._shardings_of(one.sharding)
        specs: list[str | None] = [*_SPECS.split(one.spec)] if one.spec else []
        specs = specs or [None] * len(shardings)
        if not len(shapes) == len(shardings) == len(specs):
            yield whole
            return
        for shape, sharding, spec in zip(shapes, shardings, specs, strict=True):
            if sharding is None:
                yield dataclasses.replace(whole, shape=shape.to_text(layout=False), spec=spec)
                continue
            if one.annotation == _ENTERING:
                shape = _global_shape(shape, sharding)
            yield dataclasses.replace(
                whole,
                shape=shape.to_text(layout=False),
                sharding=sharding.to_v2().text,
                spec=None if spec == "?" else spec,
            )

    def _shapes_of(self, text: str | None) -> tuple[Shape, ...]:
        if text is None:
            return ()
        if text not in self._shapes:
            try:
                shape = self._reader.shape(text)
            except DumpSyntaxError:
                self._shapes[text] = ()
            else:
                self._shapes[text] = shape.tuple_shapes if shape.is_tuple else (shape,)
        return self._shapes[text]

    def _shardings_of(self, text: str | None) -> tuple[HloSharding | None, ...]:
        if text is None:
            return ()
        if text not in self._shardings:
            self._shardings[text] = self._read(text)
        return self._shardings[text]

    def _read(self, text: str) -> tuple[HloSharding | None, ...]:
        if shardy.SHARDINGS_BEGIN in text:
            return shardy.shardy_shardings(text, self._meshes)
        try:
            sharding = self._reader.sharding(text)
        except DumpSyntaxError:
            return ()
        return sharding.elements or (sharding,)


def _global_shape(shape: Shape, sharding: HloSharding) -> Shape:
    """Return the shape whose part on one device is a shape."""
    counts = sharding.tile_counts
    if len(counts) != len(shape.dimensions):
        return shape
    sizes = tuple(
        None if size is None else size * count
        for size, count in zip(shape.dimensions, counts, strict=True)
    )
    return dataclasses.replace(shape, dimensions=sizes)


if TYPE_CHECKING:
    F = TypeVar("F", bound=DataclassInstance)


def module_facts(analysis: ModuleDump) -> ModuleFacts:
    """Return the figures of a module, without rows; without HLO text only memory is known."""
    results = memory_results(analysis)
    memory = None if results is None else results.statement
    if not analysis.has_hlo:
        return ModuleFacts(stage=analysis.stage, backend=backend_of_dump(analysis), memory=memory)
    size, work = summary(analysis), flops(analysis)
    is_known = work.total is not None
    findings = module_findings(analysis)
    return copied(
        ModuleFacts,
        size,
        stage=analysis.stage,
        backend=backend_of_dump(analysis),
        opcodes={one.opcode: one.instructions for one in opcodes(analysis).counts},
        unknown_opcodes=opcodes(analysis).unknown_opcodes,
        unknown_attributes=hlo_text(analysis).unknown_attributes,
        parameters=entry_signature(analysis).parameter_count,
        flops=work.total,
        flops_at_least=work.at_least,
        flops_is_at_most=work.is_at_most if is_known else None,
        flops_is_estimate=work.is_estimate if is_known else None,
        collectives=collectives_facts(collectives(analysis)),
        memory=memory,
        sharding=None,
        findings=findings.findings,
        findings_basis=findings_basis(findings),
    )


def copied(kind: type[F], source: object, /, **others: object) -> F:
    """Return a dataclass with the fields of another by name, and others as given."""
    names = _names(kind, tuple(others))
    return kind(**{name: getattr(source, name) for name in names}, **others)


@cache
def _names(kind: type[DataclassInstance], given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass that are not given."""
    return tuple(field.name for field in fields(kind) if field.name not in given)


def collectives_facts(found: Collectives) -> CollectivesFacts:
    """Return the figures of a module's collectives."""
    meshes = tuple(MeshFacts(axes=mesh.mesh.sizes, source=mesh.source) for mesh in found.meshes)
    runs, wire = found.dynamic_bounds(), found.wire_bounds
    return CollectivesFacts(
        static=found.static_counts(),
        dynamic={kind: None if one is None else one.most for kind, one in runs.items()},
        wire_bytes_per_device=None if wire is None else wire.most,
        dynamic_is_at_most={kind: one is not None and one.is_at_most for kind, one in runs.items()},
        wire_bytes_is_at_most=wire is not None and wire.is_at_most,
        unknown_opcodes=dict(found.unknown_opcodes),
        mesh=meshes[0] if meshes else None,
        meshes=meshes,
    )


def module_snapshot(
    analysis: ModuleDump,
    *,
    name: str,
    target: str | None = None,
    toolchain: str | None = None,
) -> ModuleSnapshot:
    """Return the snapshot of a module, without fingerprint."""
    facts, shardings = module_facts(analysis), sharding_results(analysis)
    memory = memory_results(analysis)
    if facts.collectives is not None:
        rows = _collective_rows(collectives(analysis), hlo_text(analysis))
        loops = _loops(collectives(analysis), hlo_text(analysis))
        facts = replace(facts, collectives=replace(facts.collectives, rows=rows, loops=loops))
    if shardings is not None and shardings.is_complete:
        facts = replace(facts, sharding=ShardingFacts(rows=_entry_rows(shardings)))
    made = ModuleSnapshot(
        name=name,
        target=target,
        toolchain=toolchain,
        signature=_signature(analysis) if analysis.has_hlo else None,
        fingerprint=None,
        facts=facts,
        peaks=() if memory is None else tuple(space_peaks(memory)),
        annotations=None if shardings is None else annotation_facts(shardings),
        path=analysis.path,
    )
    return with_findings(made, module_findings(analysis)) if analysis.has_hlo else made


def with_findings(snapshot: ModuleSnapshot, found: Findings) -> ModuleSnapshot:
    """Return the snapshot of a module with some findings in place of its own."""
    facts = tuple(_portable_finding(one) for one in found.findings)
    basis = findings_basis(found)
    return replace(snapshot, facts=replace(snapshot.facts, findings=facts, findings_basis=basis))


def _portable_finding(finding: Finding) -> Finding:
    """Return a finding whose file is named alike on every machine."""
    if finding.source_file is None:
        return finding
    return replace(finding, source_file=portable_path(finding.source_file))


def _signature(analysis: ModuleDump) -> str | None:
    """Return a digest of the shapes of parameters and results, without layouts; None if unknown."""
    if not entry_signature(analysis).is_complete:
        return None
    shapes = [value.shape or "?" for value in entry_signature(analysis).parameters]
    given = [value.shape or "?" for value in entry_signature(analysis).outputs]
    return _digest(f"{', '.join(shapes)} -> {', '.join(given)}")


def _digest(text: str) -> str:
    """Return a digest that is the same on every machine."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _collective_rows(found: Collectives, module: HloModule) -> tuple[CollectiveFact, ...]:
    """Return the collectives of a module in the order of the text."""
    labels = _loop_labels(found, module) if found.collectives else {}
    named = {a for m in found.meshes if m.source != "inferred" for a in m.mesh.sizes}
    conditionals: dict[str, str] = {}
    return tuple(_collective(one, labels, named, conditionals) for one in found.collectives)


def _collective(
    one: Collective, labels: Mapping[str, str], named: set[str], conditionals: dict[str, str]
) -> CollectiveFact:
    """Return the row of a collective; `conditionals` gets a number for each new conditional."""
    pairs = one.source_target_pairs  # their order means nothing
    devices = one.groups if pairs is None else tuple(sorted(pairs))
    return copied(
        CollectiveFact,
        one,
        axis=one.axis,
        are_axes_named=one.axes is not None and named.issuperset(one.axes),
        groups=None if devices is None else _digest(repr(devices)),
        loops=tuple(labels.get(name, UNKNOWN_TIMES) for name in one.loop_path),
        source_file=None if one.source_file is None else portable_path(one.source_file),
        branches=tuple(numbered_branch(text, conditionals) for text in one.branches),
        performed_as=one.performed_as or one.kind,
    )


def _loops(found: Collectives, module: HloModule) -> tuple[LoopFact, ...]:
    """Return the loops of a module in the order of the text."""
    paths = _operation_paths(module)
    return tuple(
        copied(LoopFact, trip, op_name=paths.get((trip.computation, trip.loop)))
        for trip in found.trips.loops
    )


def _operation_paths(module: HloModule) -> dict[tuple[str, str], str | None]:
    """Return the operation path of each loop, by computation and name."""
    loops = map(module.instruction, module.opcodes.places_of({"while"}))
    return {(loop.computation.name, loop.name): loop.op_name for loop in loops}


def _loop_labels(found: Collectives, module: HloModule) -> dict[str, str]:
    """Return loop name to operation path and trip count."""
    labels: dict[str, str] = {}
    paths = _operation_paths(module)
    for trip in found.trips.loops:
        path = paths.get((trip.computation, trip.loop)) or "while"
        times = UNKNOWN_TIMES if trip.trip_count is None else f"x{trip.trip_count}"
        labels.setdefault(trip.loop, f"{path} {times}")
    return labels


def _entry_rows(results: ShardingResults) -> tuple[EntryFact, ...]:
    """Return the parameters, then the outputs of a module."""
    placed: dict[int, dict[str, object]] = {}  # by the cells, which equal placements share
    found = []
    for value in results.table.values:
        entry, key = value.value, id(value.cells)
        if key not in placed:
            placed[key] = _placement(value)
        name = entry.name if entry.kind == "parameter" else None
        found.append(copied(EntryFact, entry, kind=entry.kind, name=name, **placed[key]))
    return tuple(found)


def _placement(value: ShardedValue) -> dict[str, object]:
    """Return the fields that values of equal placement share."""
    part, whole = value.device_shape, value.global_shape
    return {
        "global_shape": None if whole is None else whole.to_text(layout=False),
        "device_shape": None if part is None else part.to_text(layout=False),
        "device_bytes": value.device_bytes,
        "padded_device_bytes": None if part is None else part.padded_size_bytes,
        "spec": value.spec_text,
        "sharding": None if value.sharding is None else value.sharding.to_v2().text,
        "replication_factor": value.replication_factor,
    }
