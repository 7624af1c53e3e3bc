"""The MEMORY object of the JSON; scripts rely on its names. All figures in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.memory.peak import PeakMemory
    from hlo_lens.analysis.memory.results import MemoryResults
    from hlo_lens.analysis.memory.timeline import MemoryTimeline

FIGURES = (
    "argument_bytes",
    "output_bytes",
    "alias_bytes",
    "temp_bytes",
    "constant_bytes",
    "thread_local_bytes",
    "total_bytes",
)
"""Figures of one device."""


def memory_object(results: MemoryResults | None) -> Mapping[str, object] | None:
    """Return the MEMORY object; None where no memory is known."""
    if results is None:
        return None
    statement, peak = results.statement, results.peak
    least, most = statement.temp_range
    return {
        "source": statement.source,
        **{name: getattr(statement, name) for name in FIGURES},
        "temp_range": [least, most],
        "host_bytes": dict(
            zip(("argument", "output", "alias", "temp"), statement.host_bytes, strict=True)
        ),
        "spaces": statement.objects(),
        "peak": None if peak is None else peak_object(peak),
        "is_complete": results.layout.is_complete and results.layout.are_ranges_complete,
        "temp_is_exact": least == most,
        "unknown_values": results.unknown_values,
        "missing": [name for name, _ in results.missing],
        "memory_analysis": dict(results.stated) or None,
        "mismatches": [
            {"name": name, "ours": ours, "theirs": theirs}
            for name, ours, theirs in results.mismatches
        ],
    }


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
