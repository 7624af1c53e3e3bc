"""JSON object of ``hlo-lens diff``. Scripts rely on its names: names may be added, none changes.

Bytes are integers. A key whose value is unknown is present with null; 0 means zero.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.sections import COUNTS, program_diff_json
from hlo_lens.questions.snapshots.writing import facts_object
from hlo_lens.render.envelope import envelope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.questions.diff.collectives import CollectiveDiff
    from hlo_lens.questions.diff.line_diff import LineDiff
    from hlo_lens.questions.diff.memory import MemoryDiff, PeakDiff
    from hlo_lens.questions.diff.module_diff import DumpDiff, ModuleDiff
    from hlo_lens.questions.diff.pairs import Delta
    from hlo_lens.questions.findings.changes import FindingChanges
    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot
    from hlo_lens.questions.snapshots.rows import SpacePeak
    from hlo_lens.render.result import Result


def diff_object(diff: DumpDiff) -> dict[str, object]:
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
    shardings = diff.shardings
    return {
        "name_base": diff.base.name,
        "name_head": diff.head.name,
        "identical": diff.identical,
        "unknown": list(diff.unknown),
        "note": diff.note or None,
        "incomparable": list(diff.differences),
        "toolchain": diff.toolchain or None,
        **_lines(diff.lines),
        **_memory(diff.memory),
        "findings": _findings(diff.findings),
        "donation_rows": _rows(diff.donations),
        **_collectives(diff.collectives),
        "sharding_rows": _rows(shardings),
        "sharding_unknown": None if shardings is None else shardings.unknown,
        "sharding_renamed": None if shardings is None else shardings.renamed,
        "sharding_problem": None if shardings is None else shardings.problem or None,
        "program": _program(diff),
        "program_rows": _rows(diff.program),
        "program_identical": diff.is_program_equal,
    }


_STAGES = {True: "before", False: "after", None: None}
"""Texts whose instructions the rows of lines count."""


def _lines(lines: LineDiff | None) -> dict[str, object]:
    return {
        "causes": [] if lines is None else [asdict(cause) for cause in lines.causes],
        "line_rows": _rows(lines),
        "line_rows_stage": _STAGES[None if lines is None else lines.is_source],
    }


def _findings(changes: FindingChanges | None) -> dict[str, object] | None:
    if changes is None:
        return None
    new, gone = ([*map(facts_object, found)] for found in (changes.new, changes.gone))
    undecided = list(changes.undecided)
    return {"new": new, "gone": gone, "kept": changes.kept, "undecided": undecided}


def _rows(result: Result | None) -> list[object]:
    return [] if result is None else [*result.objects()]


def _memory(memory: MemoryDiff | None) -> dict[str, object]:
    names = ("memory", "memory_source", "memory_problem")
    if memory is None:
        lists: dict[str, object] = {"memory_unexplained": [], "memory_rows": [], "peaks": []}
        return {**dict.fromkeys(names), **lists}
    return {
        "memory": {name: delta.to_dict() for name, delta in memory.metrics.items()},
        "memory_source": {"base": memory.base_source, "head": memory.head_source},
        "memory_problem": memory.problem or None,
        "memory_unexplained": list(memory.unexplained),
        "memory_rows": [row for peak in memory.peaks for row in peak.objects()],
        "peaks": [_peak(peak) for peak in memory.peaks],
    }


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
    return facts_object(peak, leave_out=("color", "name", "is_peak", "groups"))


_AT_MOST = ("collectives_dynamic_is_at_most", "wire_bytes_is_at_most")
"""Whether a figure of either side is an upper bound."""


def _collectives(found: CollectiveDiff | None) -> dict[str, object]:
    if found is None:
        names = ("collectives", "collectives_dynamic", "wire_bytes_per_device")
        return {**dict.fromkeys((*names, *_AT_MOST)), "collective_rows": []}
    return {
        "collectives": _counts(found.counts),
        "collectives_dynamic": _counts(found.dynamic_counts),
        "wire_bytes_per_device": found.wire_bytes.to_dict(),
        "collectives_dynamic_is_at_most": {
            kind: delta.is_at_most for kind, delta in found.dynamic_counts.items()
        },
        "wire_bytes_is_at_most": found.wire_bytes.is_at_most,
        "collective_rows": found.objects(),
    }


def _counts(deltas: Mapping[str, Delta]) -> dict[str, object]:
    return {kind: {"base": delta.base, "head": delta.head} for kind, delta in deltas.items()}


def _program(diff: ModuleDiff) -> Mapping[str, object] | None:
    """Return the numbers of instructions by change; all null if only digests are known."""
    if "program" not in diff.subjects:
        return None
    if diff.program is not None:
        return program_diff_json(diff.program)
    if diff.is_program_equal:
        counts: dict[str, int | None] = dict.fromkeys(COUNTS, 0)
        return {**counts, "unchanged": diff.head.facts.instructions}
    return dict.fromkeys(COUNTS)
