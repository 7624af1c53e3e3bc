"""The JSON object of ``hlo-lens diff``, whose names scripts rely on: more may come, none changes.

Bytes are integers. A key whose value is not known is there with null; 0 means zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hlo_lens.report.comparison.program import program_diff_json
from hlo_lens.report.render.envelope import envelope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hlo_lens.analysis.comparison.module_diff import ModuleDiff
    from hlo_lens.analysis.comparison.peak_diff import PeakDiff
    from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot
    from hlo_lens.model.snapshot.rows import SpacePeak

PROGRAM_COUNTS = ("unchanged", "changed", "added", "removed", "moved")


class DiffLike(Protocol):
    """What `compare.Diff` has."""

    @property
    def identical(self) -> bool:
        """Whether nothing changed."""

    @property
    def modules(self) -> Sequence[ModuleDiff]:
        """Modules of both sides."""

    @property
    def added(self) -> Sequence[ModuleSnapshot]:
        """Modules of the head alone."""

    @property
    def removed(self) -> Sequence[ModuleSnapshot]:
        """Modules of the base alone."""

    @property
    def copies(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Places of modules that were left out as copies of others, on both sides."""


def diff_object(diff: DiffLike) -> dict[str, object]:
    """Return the whole object."""
    return envelope(
        "diff",
        identical=diff.identical,
        modules=[module_object(module) for module in diff.modules],
        modules_added=[_unpaired(module) for module in diff.added],
        modules_removed=[_unpaired(module) for module in diff.removed],
        modules_copied=sum(map(len, diff.copies)),
    )


def _unpaired(module: ModuleSnapshot) -> dict[str, object]:
    return {"name": module.name, "signature": module.signature}


def module_object(diff: ModuleDiff) -> dict[str, object]:
    """Return the object of one pair of modules."""
    memory, collectives, shardings = diff.memory, diff.collectives, diff.shardings
    return {
        "name_base": diff.base.name,
        "name_head": diff.head.name,
        "identical": diff.identical,
        "unknown": list(diff.unknown),
        "note": diff.note or None,
        "incomparable": list(diff.differences),
        "toolchain": diff.toolchain or None,
        "memory": None
        if memory is None
        else {name: delta.to_dict() for name, delta in memory.metrics.items()},
        "memory_source": None
        if memory is None
        else {"base": memory.base_source, "head": memory.head_source},
        "memory_problem": None if memory is None else memory.problem or None,
        "memory_unexplained": [] if memory is None else list(memory.unexplained),
        "memory_rows": []
        if memory is None
        else [row for peak in memory.peaks for row in peak.objects()],
        "peaks": [] if memory is None else [_peak(peak) for peak in memory.peaks],
        "donation_rows": [] if diff.donations is None else diff.donations.objects(),
        "collectives": None
        if collectives is None
        else {name: _count(delta.to_dict()) for name, delta in collectives.counts.items()},
        "collectives_dynamic": None
        if collectives is None
        else {name: _count(delta.to_dict()) for name, delta in collectives.dynamic_counts.items()},
        "wire_bytes_per_device": None if collectives is None else collectives.wire_bytes.to_dict(),
        "collective_rows": [] if collectives is None else collectives.objects(),
        "sharding_rows": [] if shardings is None else shardings.objects(),
        "sharding_unknown": None if shardings is None else shardings.unknown,
        "sharding_problem": None if shardings is None else shardings.problem or None,
        "program": _program(diff),
        "program_rows": [] if diff.program is None else diff.program.objects(),
        "program_identical": diff.is_program_equal,
    }


def _count(delta: Mapping[str, int | None]) -> dict[str, int | None]:
    return {"base": delta["base"], "head": delta["head"]}


def _peak(peak: PeakDiff) -> dict[str, object]:
    return {
        "space": peak.space,
        "color": peak.color,
        "is_peak": peak.is_peak,
        "base": _moment(peak.base),
        "head": _moment(peak.head),
        "delta": peak.delta_bytes,
        "has_moved": peak.has_moved,
    }


def _moment(peak: SpacePeak | None) -> dict[str, object] | None:
    if peak is None:
        return None
    return {
        "bytes": peak.bytes,
        "opcode": peak.opcode,
        "op_name": peak.op_name,
        "source": peak.source,
    }


def _program(diff: ModuleDiff) -> Mapping[str, object] | None:
    """Return how many instructions changed; all null where no text tells which."""
    if "program" not in diff.subjects:
        return None
    if diff.program is not None:
        return program_diff_json(diff.program)
    if diff.is_program_equal:
        counts: dict[str, int | None] = dict.fromkeys(PROGRAM_COUNTS, 0)
        return {**counts, "unchanged": diff.head.facts.instructions}
    return dict.fromkeys(PROGRAM_COUNTS)
