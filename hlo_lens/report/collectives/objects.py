"""The JSON object of a module's collectives, whose names scripts rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.collectives.collectives import Collectives
    from hlo_lens.analysis.result import Result


def collectives_object(found: Collectives) -> Mapping[str, object]:
    """Return counts per kind, bytes of one run, and every collective with its loops and mesh."""
    mesh = found.meshes[0] if found.meshes else None
    return {
        "static": found.static_counts(),
        "dynamic": found.dynamic_counts(),
        "wire_bytes_per_device": found.wire_bytes_per_device,
        "rows": rows_of(found),
        "unknown_opcodes": dict(found.unknown_opcodes),
        "mesh": None if mesh is None else {"axes": mesh.sizes, "source": mesh.source},
        "loops": rows_of(found.trips),
        "data_movement": rows_of(found.movement),
    }


def rows_of(result: Result) -> list[Mapping[str, object]]:
    """Return the rows of a result as objects."""
    names = [column.name for column in result.COLUMNS]
    return [dict(zip(names, row, strict=True)) for row in result.rows()]
