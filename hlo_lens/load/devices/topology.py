"""Places of the devices of a program in TPU slices: chips of a grid, some of whose axes wrap.

The id of a device in its slice is ``(x + X * y + X * Y * z) * cores + core``, of several slices
100,000 times the number of the slice more: compared with the coordinates that JAX prints of all
devices of v5p:4x4x4, v5e:4x8 and tpu7x:4x4x4 (libtpu 0.0.51).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.load.devices.assignment import SLICE_STRIDE
from hlo_lens.load.devices.targets import cores_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.devices.targets import Target


class ChipPlace(NamedTuple):
    """Place of a device: slice, coordinates of the chip, core."""

    slice: int
    x: int
    y: int
    z: int
    core: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Slices that a program was compiled for.

    Attributes:
        name: Name of the target.
        sizes: Chips of a slice along x, y and z.
        wraps: Whether each axis has links from its last chip to the first.
        places: Place of each device, by its number in the program.
    """

    name: str
    sizes: tuple[int, int, int]
    wraps: tuple[bool, bool, bool]
    places: tuple[ChipPlace, ...]


def topology_of(target: Target, assignment: Sequence[Sequence[int]]) -> Topology | None:
    """Return the places of the devices of a program; None if the target has no known topology.

    >>> from hlo_lens.load.devices.targets import parse_target
    >>> topology_of(parse_target("v5e:2x4"), [[0, 1, 2, 3]]).places[3]
    ChipPlace(slice=0, x=1, y=1, z=0, core=0)

    Args:
        target: The target.
        assignment: Device ids by replica and partition.
    """
    shape = target.topology.rpartition(":")[2]
    if target.backend != "tpu" or not shape:
        return None
    counts = [int(size) for size in shape.split("x")]
    x, y, z = (*counts, 1, 1, 1)[:3]
    cores = cores_of(target)
    found = []
    for device in (device for row in assignment for device in row):
        number, local = divmod(device, SLICE_STRIDE)
        chip, core = divmod(local, cores)
        if chip >= x * y * z:
            return None
        found.append(ChipPlace(number, chip % x, chip // x % y, chip // (x * y), core))
    if not found or len(set(found)) != len(found):
        return None
    given = target.options.get("wrap")
    wraps = [*given, False, False, False] if isinstance(given, list) else [False] * 3
    return Topology(
        name=target.name,
        sizes=(x, y, z),
        wraps=(bool(wraps[0]), bool(wraps[1]), bool(wraps[2])),
        places=tuple(found),
    )
