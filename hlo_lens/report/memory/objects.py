"""The MEMORY object of the JSON; scripts rely on its names. All figures in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.facts import memory_facts
from hlo_lens.model.snapshot.writing import facts_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.memory.peak import PeakMemory
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.analysis.memory.timeline import MemoryTimeline


def memory_object(results: MemoryResults | None) -> Mapping[str, object] | None:
    """Return the MEMORY object; None where no memory is known."""
    if results is None:
        return None
    peak = None if results.peak is None else peak_object(results.peak)
    return {**facts_object(memory_facts(results)), "peak": peak}


def peak_object(peak: PeakMemory) -> Mapping[str, object]:
    """Return the values alive at an instant."""
    return {
        "bytes": peak.total_bytes,
        "color": peak.color,
        "position": peak.position,
        "instruction": peak.instruction,
        "shared_bytes": peak.shared_bytes,
        "live": peak.objects(),
    }


def timeline_object(timeline: MemoryTimeline) -> Mapping[str, object]:
    """Return the occupied bytes of a memory space, each column as a list over the instants."""
    cells = zip(*timeline.rows(), strict=True)
    columns = zip((column.name for column in timeline.COLUMNS), map(list, cells), strict=True)
    return {"color": timeline.color, **dict(columns)}
