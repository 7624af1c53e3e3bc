"""Snapshot of a module from the results of its passes."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.program.runs import numbered_branch
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.questions.collectives.results import UNKNOWN_TIMES, Collective, Collectives
from hlo_lens.questions.findings.findings import findings_basis
from hlo_lens.questions.findings.module_findings import module_findings
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.questions.snapshots.annotation_facts import annotation_facts
from hlo_lens.questions.snapshots.facts import LoopFact, ShardingFacts
from hlo_lens.questions.snapshots.module_facts import copied, module_facts
from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot
from hlo_lens.questions.snapshots.peaks import space_peaks
from hlo_lens.questions.snapshots.rows import CollectiveFact, EntryFact
from hlo_lens.text.portable_names import portable_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.findings.findings import Findings
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.questions.sharding.savings import ShardingResults


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
    named = {a for m in found.meshes if m.source != "inferred" for a in m.sizes}
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
