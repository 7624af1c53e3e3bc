"""Devices that hold each tile of parameters and outputs; values divided alike share a division."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.load.fact import fact
from hlo_lens.questions.sharding.device_slices import device_slices
from hlo_lens.questions.sharding.results import sharding_results
from hlo_lens.text.errors import HloLensError

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.sharding.table import ShardedValue

MOST_DEVICES = 2048
"""Devices over which a value is divided here."""

MOST_DIVISIONS = 200
"""Different divisions that are made."""


class Division(NamedTuple):
    """Division of values over devices.

    Attributes:
        sizes: Size of each dimension.
        counts: Number of tiles of each dimension.
        tiles: Each tile with the devices that hold it; none where it names no devices.
    """

    sizes: tuple[int | None, ...]
    counts: tuple[int, ...]
    tiles: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


class TileDevices(NamedTuple):
    """Different divisions, and for each value the number of its own; None beyond the limits."""

    divisions: tuple[Division, ...]
    numbers: tuple[int | None, ...]


@fact
def tile_devices(module: ModuleDump) -> TileDevices:
    """Return the divisions of parameters and outputs whose sharding and global shape are known."""
    shardings = sharding_results(module)
    values = () if shardings is None else shardings.table.values
    found: dict[Division, int] = {}
    known: dict[tuple[str, tuple[int | None, ...]], int | None] = {}
    numbers: list[int | None] = []
    for value in values:
        if value.sharding is None or value.global_shape is None:
            numbers.append(None)
            continue
        key = (value.sharding.text, value.global_shape.dimensions)
        if key not in known:
            made = _division(value)
            is_new = made is not None and made not in found
            if made is None or (is_new and len(found) == MOST_DIVISIONS):
                known[key] = None
            else:
                known[key] = found.setdefault(made, len(found))
        numbers.append(known[key])
    return TileDevices(tuple(found), tuple(numbers))


def _division(value: ShardedValue) -> Division | None:
    assert value.sharding is not None
    assert value.global_shape is not None
    try:
        slices = device_slices(value.sharding, value.global_shape)
    except HloLensError:
        return None
    if len(slices.slices) > MOST_DEVICES:
        return None
    tiles: dict[tuple[int, ...], list[int]] = {}
    for one in slices.slices:
        tiles.setdefault(one.tile, []).extend([] if one.device is None else [one.device])
    return Division(
        sizes=value.global_shape.dimensions,
        counts=slices.tile_counts,
        tiles=tuple((tile, tuple(devices)) for tile, devices in sorted(tiles.items())),
    )
