"""JSON object of a module's collectives; scripts rely on its names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.collectives.collectives import Collectives


def collectives_object(found: Collectives) -> Mapping[str, object]:
    """Return counts per kind, bytes of one run, all collectives, loops and the mesh."""
    mesh = found.meshes[0] if found.meshes else None
    return {
        "static": found.static_counts(),
        "dynamic": found.dynamic_counts(),
        "wire_bytes_per_device": found.wire_bytes_per_device,
        "rows": found.objects(),
        "unknown_opcodes": dict(found.unknown_opcodes),
        "mesh": None if mesh is None else {"axes": mesh.sizes, "source": mesh.source},
        "loops": found.trips.objects(),
        "data_movement": found.movement.objects(),
    }
