"""Collectives over the devices of a mesh; a list holds what each device has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from programs.traced.dtensor.placement import Matrix


def mesh_scatter(whole: Matrix, devices: int, dim: int) -> list[Matrix]:
    """Returns a slice of a matrix for each device."""
    size = len(whole if dim == 0 else whole[0]) // devices
    parts = [slice(device * size, (device + 1) * size) for device in range(devices)]
    return [whole[part] if dim == 0 else [row[part] for row in whole] for part in parts]


def mesh_broadcast(whole: Matrix, devices: int) -> list[Matrix]:
    """Returns the same matrix for each device."""
    return [whole] * devices


def mesh_all_reduce(parts: list[Matrix]) -> list[Matrix]:
    """Returns the sum of all devices' matrices for each device."""
    rows = zip(*parts, strict=True)
    summed = [[sum(cells) for cells in zip(*row, strict=True)] for row in rows]
    return [summed] * len(parts)


def mesh_all_gather(parts: list[Matrix], dim: int) -> list[Matrix]:
    """Returns the whole matrix for each device."""
    if dim == 0:
        whole = [row for part in parts for row in part]
    else:
        whole = [[cell for row in rows for cell in row] for rows in zip(*parts, strict=True)]
    return [whole] * len(parts)
