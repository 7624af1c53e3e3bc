"""Results of all sharding passes on one module."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.load.fact import fact
from hlo_lens.program.signature import entry_signature
from hlo_lens.program.summary import instruction_table, num_devices
from hlo_lens.questions.sharding.placement import ShardingTable, sharding_table
from hlo_lens.questions.sharding.replication import ReplicatedBytes, replicated_bytes
from hlo_lens.questions.sharding.sources import ModuleShardings, module_shardings
from hlo_lens.text.errors import HloLensError

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.sharding.annotations import ShardingAnnotations
    from hlo_lens.questions.sharding.donation import Donations
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.shapes.mesh import Mesh


@dataclass(frozen=True, kw_only=True)
class ShardingResults:
    """Results of the sharding passes on one module; `donations` and `annotations` run when read.

    Attributes:
        found: Sources of shardings and meshes.
        table: Parameters and outputs.
        replicated: Values held by several devices.
        mesh: Mesh named by the user.
    """

    found: ModuleShardings
    table: ShardingTable
    replicated: ReplicatedBytes
    mesh: Mesh | None

    @property
    def is_complete(self) -> bool:
        """Whether the table has all parameters and outputs: the text has the whole entry."""
        return self.found.own.signature.is_complete

    @functools.cached_property
    def donations(self) -> Donations:
        """Donation of arguments to results."""
        from hlo_lens.questions.sharding.donation import donations

        before = self.found.before
        return donations(self.table, None if before is None else before.module)

    @functools.cached_property
    def annotations(self) -> ShardingAnnotations:
        """Sharding annotations inside the program."""
        from hlo_lens.questions.sharding.annotations import sharding_annotations

        return sharding_annotations((self.found.before or self.found.own).table, self.mesh)


@fact
def sharding_results(module: ModuleDump) -> ShardingResults | None:
    """Return the results of the sharding passes; None without HLO text.

    The text from before optimizations gives shapes and shardings of the whole program, which a
    program of one device does not need.
    """
    if module.hlo is None:
        return None
    reads_before = not module.given.is_quick or num_devices(module) > 1
    mesh = module.given.mesh
    found = module_shardings(
        module.hlo,
        module.before if reads_before else None,
        mesh,
        lowered=module.lowered_meshes if reads_before else (),
        known=(instruction_table(module), entry_signature(module)),
    )
    table = sharding_table(found)
    return ShardingResults(found=found, table=table, replicated=replicated_bytes(table), mesh=mesh)


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
    from hlo_lens.questions.sharding.shard import device_slices  # only the HTML page needs it

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
