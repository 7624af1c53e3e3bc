"""Moves a matrix from one placement to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from programs.traced.dtensor.collectives import mesh_all_gather, mesh_all_reduce

if TYPE_CHECKING:
    from programs.traced.dtensor.placement import Matrix, Placement


def redistribute_local_tensor(
    parts: list[Matrix], source: Placement, target: Placement
) -> list[Matrix]:
    """Returns what each device has after the change; only changes to replicated are needed."""
    if source == target:
        return parts
    if source.kind == "partial":
        return mesh_all_reduce(parts)
    return mesh_all_gather(parts, source.dim)
