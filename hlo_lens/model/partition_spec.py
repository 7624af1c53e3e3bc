"""From an array of devices back to mesh axes.

Source: jax/_src/sharding_impls.py (parse_flatten_op_sharding, unflatten_array) of jax 0.10.2; the
steps and the order in which they try are the same, so that the answers are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.model.mesh import Mesh
    from hlo_lens.model.tile_assignment import TileAssignment

PartitionSpec: TypeAlias = tuple[str | tuple[str, ...] | None, ...]
"""For each dimension: not divided, divided by one mesh axis, or by several, most major first."""


def partition_spec(
    mesh: Mesh, tile_counts: Sequence[int], tiles: TileAssignment
) -> PartitionSpec | None:
    """Return the mesh axes that divide each dimension; None if no axes give these devices.

    Args:
        mesh: The mesh.
        tile_counts: Into how many tiles each dimension is divided.
        tiles: Devices of the tiles; further dimensions of it are not looked at.
    """
    order = _axis_order(mesh, tiles)
    if order is None:
        return None
    axes = iter(order)
    entries: list[tuple[str, ...]] = []
    for count in tile_counts:
        taken = _taken(count, axes)
        if taken is None:
            return None
        entries.append(taken)
    while entries and not entries[-1]:
        entries.pop()
    return tuple(entry[0] if len(entry) == 1 else entry or None for entry in entries)


def _taken(count: int, axes: Iterator[tuple[str, int]]) -> tuple[str, ...] | None:
    """Return the next axes that together divide into so many tiles; None if they do not."""
    names = []
    while count > 1:
        name, size = next(axes, ("", 0))
        if not size or count % size:
            return None
        count //= size
        names.append(name)
    return tuple(names)


def _axis_order(mesh: Mesh, tiles: TileAssignment) -> list[tuple[str, int]] | None:
    """Return names and sizes of the axes in the order whose nested loops give the devices."""
    devices = tiles.devices()
    if mesh.device_assignment is not None:
        places = {device: place for place, device in enumerate(mesh.device_ids)}
        devices = tuple(places.get(device, -1) for device in devices)
    if len(devices) != mesh.size:
        return None
    names: dict[tuple[int, int], str] = {}
    sizes: dict[int, int] = {}
    stride = mesh.size
    for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True):
        if size != 1:
            stride //= size
            names[size, stride] = name
            sizes[stride] = size
    loops = _loops(devices)
    split = None if loops is None else _split_loops(loops, sizes)
    if split is None:
        return None
    return [(names[loop], loop[0]) for loop in split]


def _loops(devices: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """Return sizes and strides whose nested loops give the devices, innermost first."""
    if not devices or devices[0] != 0:
        return None
    loops: list[tuple[int, int]] = []
    while len(devices) > 1:
        stride = devices[1]
        size = 2
        while size < len(devices) and devices[size] == size * stride:
            size += 1
        if stride < 1 or len(devices) % size:
            return None
        loops.append((size, stride))
        firsts = devices[::size]
        if any(
            devices[place] != firsts[place // size] + place % size * stride
            for place in range(len(devices))
        ):
            return None
        devices = firsts
    return loops


def _split_loops(
    loops: list[tuple[int, int]], sizes: dict[int, int]
) -> list[tuple[int, int]] | None:
    """Return the loops, outermost first, each split into axes; `sizes` is by stride."""
    result: list[tuple[int, int]] = []
    for whole, first_stride in reversed(loops):
        size, stride = whole, first_stride
        split: list[tuple[int, int]] = []
        while size > 1:
            axis = sizes.get(stride, 0)
            if not axis or size % axis:
                return None
            split.append((axis, stride))
            size //= axis
            stride *= axis
        result += reversed(split)
    return result
