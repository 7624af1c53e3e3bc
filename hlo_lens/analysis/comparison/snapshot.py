"""Snapshot of a module from the results of its passes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.alive_groups import space_peaks
from hlo_lens.analysis.comparison.fact_rows import (
    annotation_rows,
    collective_rows,
    digest,
    entry_rows,
)
from hlo_lens.analysis.comparison.facts import module_facts
from hlo_lens.model.snapshot.facts import ShardingFacts
from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot

if TYPE_CHECKING:
    from hlo_lens.analysis.module_analysis import ModuleAnalysis


def module_snapshot(
    analysis: ModuleAnalysis,
    *,
    name: str,
    target: str | None = None,
    toolchain: str | None = None,
) -> ModuleSnapshot:
    """Return the snapshot of a module, without fingerprint.

    Args:
        analysis: Results of its passes.
        name: Its name.
        target: GPU or TPU that it was compiled for.
        toolchain: Compiler.
    """
    facts, shardings = module_facts(analysis), analysis.shardings
    if facts.collectives is not None:
        rows = collective_rows(analysis.collectives, analysis.module)
        facts = replace(facts, collectives=replace(facts.collectives, rows=rows))
    if shardings is not None:
        facts = replace(facts, sharding=ShardingFacts(rows=entry_rows(shardings)))
    return ModuleSnapshot(
        name=name,
        target=target,
        toolchain=toolchain,
        signature=_signature(analysis) if analysis.has_hlo else None,
        fingerprint=None,
        facts=facts,
        peaks=() if analysis.memory is None else tuple(space_peaks(analysis.memory)),
        annotations=None if shardings is None else annotation_rows(shardings),
    )


def _signature(analysis: ModuleAnalysis) -> str:
    """Return a digest of the shapes of parameters and results, without layouts."""
    shapes = [value.shape or "?" for value in analysis.signature.parameters]
    given = [value.shape or "?" for value in analysis.signature.outputs]
    text = f"{', '.join(shapes)} -> {', '.join(given)}"
    return digest(text)
