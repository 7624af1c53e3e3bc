"""The MEMORY object, whose names scripts rely on; more may come, none changes. All in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.memory.grouping import makers_of, op_name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.memory.peak import PeakMemory
    from hlo_lens.analysis.memory.results import MemoryResults


def memory_object(results: MemoryResults | None) -> Mapping[str, object] | None:
    """Return the MEMORY object that scripts rely on; None where nothing is known."""
    if results is None:
        return None
    statement, peak = results.statement, results.peak
    least, most = statement.temp_range
    return {
        "source": statement.source,
        "argument_bytes": statement.argument_bytes,
        "output_bytes": statement.output_bytes,
        "alias_bytes": statement.alias_bytes,
        "temp_bytes": statement.temp_bytes,
        "temp_range": [least, most],
        "constant_bytes": statement.constant_bytes,
        "thread_local_bytes": statement.thread_local_bytes,
        "total_bytes": statement.total_bytes,
        "host_bytes": dict(
            zip(("argument", "output", "alias", "temp"), statement.host_bytes, strict=True)
        ),
        "spaces": [
            {
                "color": space.color,
                "name": space.name,
                "total_bytes": space.total_bytes,
                "peak_bytes": space.peak_bytes,
                "argument_bytes": space.argument_bytes,
                "alias_bytes": space.alias_bytes,
                "output_bytes": space.output_bytes,
                "temp_bytes": space.temp_bytes,
                "constant_bytes": space.constant_bytes,
                "thread_local_bytes": space.thread_local_bytes,
                "fragmentation_bytes": space.fragmentation_bytes,
                "padding_bytes": space.padding_bytes,
            }
            for space in statement.spaces
        ],
        "peak": None if peak is None else peak_object(results, peak),
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


def peak_object(results: MemoryResults, peak: PeakMemory) -> Mapping[str, object]:
    """Return what is alive at an instant, with who made it."""
    makers = results.makers if peak is results.peak else makers_of(results.module, peak.live)
    return {
        "bytes": peak.total_bytes,
        "color": peak.color,
        "position": peak.position,
        "instruction": peak.instruction,
        "shared_bytes": peak.shared_bytes,
        "live": [
            {
                "value": value.value,
                "size_bytes": value.size_bytes,
                "offset": value.offset,
                "allocation": value.allocation,
                "category": value.category,
                "shape": value.shape,
                "start": value.start,
                "end": value.end,
                "opcode": None if maker is None else maker.opcode,
                "op_name": op_name_of(maker),
                "source": None if place is None else str(place),
            }
            for value in peak.live
            for maker in (makers.get(value.value),)
            for place in (None if maker is None else maker.source_location,)
        ],
    }
