"""Slices of a value that each device holds.

Of a dimension of size d divided into n tiles, each tile is c = ceil(d/n) long, and tile k is
``[min(k*c, d), min((k+1)*c, d))``: the last tiles can be short or empty. XLA gives every device an
array of c, however little of it the device owns; the rest is padding.

Source: xla/hlo/ir/hlo_sharding.cc (TileShape, TileOffsetForDevice, TileLimitForDevice), as of
August 2026.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.shapes.shape import Shape
    from hlo_lens.shapes.sharding import HloSharding

Bounds: TypeAlias = tuple[tuple[int, int], ...]
"""First index and the index after the last, for each dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSlice:
    """Slice of a value on one device.

    Attributes:
        device: Device id; None means every device, where the sharding names none.
        tile: Tile number in each dimension; all 0 where nothing is divided.
        bounds: Owned range of each dimension.
        size_bytes: Bytes of the owned elements, without padding.
    """

    device: int | None
    tile: tuple[int, ...]
    bounds: Bounds
    size_bytes: int | None

    @property
    def is_empty(self) -> bool:
        """Whether the device owns no element, because earlier tiles hold all of them."""
        return any(start == end for start, end in self.bounds)


@dataclass(frozen=True, kw_only=True)
class DeviceSlices(Result):
    """Slices by device, in order of device ids.

    Attributes:
        shape: Global shape.
        shard_shape: Shape that each device's array has, padding included.
        tile_counts: Number of tiles of each dimension.
        replication_factor: Number of devices that hold each element; None if unknown.
        slices: One for each device.
    """

    KIND: ClassVar[str] = "device-slices"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("device", Unit.NONE, "device id; empty for every device"),
        Column("slice", Unit.NONE, "slice in Python's notation"),
        Column("tile", Unit.NONE, "tile number in each dimension"),
        Column("size_bytes", Unit.BYTES, "bytes of the owned elements"),
        Column("padding_bytes", Unit.BYTES, "bytes of its array beyond these"),
        Column("start", Unit.NONE, "first index of each dimension"),
        Column("end", Unit.NONE, "index after the last of each dimension"),
    )
    RECORDS: ClassVar[str] = "slices"
    shape: Shape
    shard_shape: Shape
    tile_counts: tuple[int, ...]
    replication_factor: int | None
    slices: tuple[DeviceSlice, ...]

    def rows(self) -> Iterator[Row]:
        """Yield device, slice and bytes."""
        whole = self.shard_shape.size_bytes
        for part in self.slices:
            size = part.size_bytes
            yield (
                part.device,
                slice_text(part.bounds),
                part.tile,
                size,
                None if size is None or whole is None else whole - size,
                tuple(start for start, _ in part.bounds),
                tuple(end for _, end in part.bounds),
            )

    @property
    def is_uneven(self) -> bool:
        """Whether some dimension is not divided into equal tiles."""
        sizes = zip(self.shape.dimensions, self.tile_counts, strict=True)
        return any(size is not None and size % count for size, count in sizes)


def device_slices(
    sharding: HloSharding, shape: Shape, *, devices: Sequence[int] | None = None
) -> DeviceSlices:
    """Return the slice of an array on each device.

    Args:
        sharding: Any sharding but a tuple, in any spelling.
        shape: Global shape of an array; dimensions without a size cannot be divided.
        devices: Devices of the program, for a sharding that names none.

    Raises:
        DumpMismatchError: If the sharding is for another number of dimensions.
        UsageError: If there is nothing to divide: a tuple, a token, a dimension of unknown size.
    """
    _check(sharding, shape)
    shard_shape = sharding.shard_shape(shape)
    sizes = tuple(size or 0 for size in shape.dimensions)
    is_tiled = sharding.kind is ShardingKind.TILED
    counts = (sharding.tile_counts if is_tiled else ())[: len(sizes)]
    counts += (1,) * (len(sizes) - len(counts))
    named = tuple(dict.fromkeys(sharding.devices())) or tuple(devices or ())
    bounds_of: dict[tuple[int, ...], tuple[Bounds, int | None]] = {}
    found = []
    holders: list[int | None] = [*sorted(named)] or [None]
    for device in holders:
        tile = sharding.tile_of(device) if is_tiled and device is not None else ()
        tile += (0,) * (len(sizes) - len(tile))
        if tile not in bounds_of:
            bounds = _bounds(sizes, counts, tile)
            bounds_of[tile] = (bounds, _size_bytes(shape, bounds))
        bounds, size_bytes = bounds_of[tile]
        found.append(DeviceSlice(device=device, tile=tile, bounds=bounds, size_bytes=size_bytes))
    return DeviceSlices(
        shape=shape,
        shard_shape=shard_shape,
        tile_counts=counts,
        replication_factor=sharding.replication_factor(len(named) or None),
        slices=tuple(found),
    )


def _check(sharding: HloSharding, shape: Shape) -> None:
    """Raise UsageError if there is nothing to divide."""
    if sharding.kind is ShardingKind.TUPLE or shape.is_tuple:
        raise UsageError("a tuple has no slices; take one of its elements")
    if None in shape.dimensions or shape.is_token or shape.is_opaque:
        raise UsageError(f"{shape} has no sizes to divide")


def _bounds(sizes: Sequence[int], counts: Sequence[int], tile: Sequence[int]) -> Bounds:
    """Return the range of a tile in each dimension."""
    found = []
    for size, count, place in zip(sizes, counts, tile, strict=True):
        length = -(-size // count)
        found.append((min(place * length, size), min((place + 1) * length, size)))
    return tuple(found)


def _size_bytes(shape: Shape, bounds: Bounds) -> int | None:
    sizes = tuple(end - start for start, end in bounds)
    return replace(shape, dimensions=sizes, layout=None).size_bytes


def slice_text(bounds: Bounds) -> str:
    """Return a slice in Python's notation.

    >>> slice_text(((0, 5), (16, 32)))
    '[0:5, 16:32]'
    """
    return f"[{', '.join(f'{start}:{end}' for start, end in bounds)}]"
