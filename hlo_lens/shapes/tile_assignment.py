"""Arrays of device ids: a list, or an iota that is viewed, transposed and viewed again.

Source: xla/hlo/ir/tile_assignment.cc (IotaTileAssignment), as of August 2026.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Axis: TypeAlias = tuple[int, int]
"""Size and stride: number and width of steps in the device ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileAssignment:
    """An array of device ids, row-major.

    With `device_ids` it is that list. Without, it is ``arange(n)`` viewed as `reshape_dims`,
    transposed by `transpose_perm` (new axis k is old axis ``perm[k]``) and viewed as `dimensions`.

    Attributes:
        dimensions: Size of each dimension; their product is the number of devices.
        reshape_dims: First view of the iota; empty for none.
        transpose_perm: Transposition of that view; empty for none.
        device_ids: Explicit ids, row-major over `dimensions`; None for an iota.
    """

    dimensions: tuple[int, ...]
    reshape_dims: tuple[int, ...] = ()
    transpose_perm: tuple[int, ...] = ()
    device_ids: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.dimensions)

    def devices(self) -> tuple[int, ...]:
        """Return all device ids, row-major."""
        return _expanded(self._axes()) if self.device_ids is None else self.device_ids

    def index_of(self, device: int) -> tuple[int, ...] | None:
        """Return the index of a device, one number for each dimension; None if it is not there."""
        position = 0
        if self.device_ids is not None:
            if device not in self.device_ids:
                return None
            position = self.device_ids.index(device)
        elif not 0 <= device < self.size:
            return None
        else:
            for size, stride in self._axes():
                position = position * size + device // stride % size
        index = []
        for size in reversed(self.dimensions):
            index.append(position % size)
            position //= size
        return tuple(reversed(index))

    def rearranged(
        self, parts: Sequence[int], order: Sequence[int], dimensions: Iterable[int]
    ) -> TileAssignment:
        """Return the array viewed as `parts`, transposed to `order`, viewed as `dimensions`.

        The result is an iota if it can be written as one.
        """
        shape = tuple(dimensions)
        if self.device_ids is None:
            runs = _runs(parts, order)
            starts = sorted(runs)
            axes = _refined(self._axes(), [runs[start] for start in starts])
            if axes is not None:
                found = dict(zip(starts, axes, strict=True))
                return _iota(shape, [axis for start in runs for axis in found[start]])
        ids = self.devices()
        steps = _strides(parts)
        places = _expanded([(parts[part], steps[part]) for part in order])
        return TileAssignment(dimensions=shape, device_ids=tuple(ids[place] for place in places))

    def as_iota(self) -> TileAssignment | None:
        """Return the same array as an iota in its normal form; None if it is not one."""
        if self.device_ids is None:
            return self.canonical()
        loops = nested_loops(self.device_ids)
        return None if loops is None else _iota(self.dimensions, reversed(loops))

    def as_list(self) -> TileAssignment:
        """Return the same array with all device ids written out."""
        return TileAssignment(dimensions=self.dimensions, device_ids=self.devices())

    def axes_of_dimensions(self) -> list[list[Axis]] | None:
        """Return for each dimension the sizes and strides of its steps in the device ids.

        Outermost first; a dimension of size 1 has none. None if the array is no iota, or if sizes
        do not divide, so that two dimensions would share a step.
        """
        loops = nested_loops(self.devices())
        return None if loops is None else _refined(loops[::-1], self.dimensions)

    def canonical(self) -> TileAssignment:
        """Return the same array as XLA prints it: an iota with the fewest dimensions."""
        return _iota(self.dimensions, self._axes()) if self.device_ids is None else self

    def __str__(self) -> str:
        dimensions = ",".join(map(str, self.dimensions))
        if self.device_ids is not None:
            return f"[{dimensions}]{','.join(map(str, self.device_ids))}"
        view = ",".join(map(str, self.reshape_dims or (self.size,)))
        perm = ",".join(map(str, self.transpose_perm))
        return f"[{dimensions}]<=[{view}]{f'T({perm})' if perm else ''}"

    def _axes(self) -> list[Axis]:
        """Return sizes and strides of the nested loops that generate the ids of an iota."""
        view = self.reshape_dims or (self.size,)
        steps = _strides(view)
        return [(view[axis], steps[axis]) for axis in self.transpose_perm or range(len(view))]


def _strides(sizes: Sequence[int]) -> list[int]:
    strides = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return strides


def nested_loops(devices: Sequence[int]) -> list[Axis] | None:
    """Return sizes and strides of loops that generate the devices, innermost first, or None."""
    if not devices or devices[0] != 0:
        return None
    loops: list[Axis] = []
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


def _expanded(axes: Iterable[Axis]) -> tuple[int, ...]:
    """Return the numbers that nested loops over sizes and strides generate, outermost first."""
    numbers = [0]
    for size, stride in axes:
        steps = range(0, size * stride, stride)
        numbers = [number + step for number in numbers for step in steps]
    return tuple(numbers)


def _runs(parts: Sequence[int], order: Sequence[int]) -> dict[int, int]:
    """Return runs of parts that stay neighbours: first part to joined size, in new order."""
    runs: dict[int, int] = {}
    real = [part for part in range(len(parts)) if parts[part] != 1]
    following = dict(itertools.pairwise(real))
    first = last = -1
    for part in order:
        if parts[part] == 1:
            continue
        if following.get(last) == part:
            runs[first] *= parts[part]
        else:
            first = part
            runs[first] = parts[part]
        last = part
    return runs


def _refined(axes: Sequence[Axis], parts: Sequence[int]) -> list[list[Axis]] | None:
    """Return the axes split so that each part has whole axes; None if sizes do not divide."""
    left = [axis for axis in reversed(axes) if axis[0] != 1]
    result: list[list[Axis]] = []
    for part in parts:
        needed = part
        taken: list[Axis] = []
        while needed > 1 and left:
            size, stride = left.pop()
            inner = size // math.gcd(size, needed)
            outer = size // inner
            if outer == 1 or (inner > 1 and outer != needed):
                return None
            taken.append((outer, stride * inner))
            needed //= outer
            if inner > 1:
                left.append((inner, stride))
        if needed != 1:
            return None
        result.append(taken)
    return None if left else result


def _iota(dimensions: tuple[int, ...], axes: Iterable[Axis]) -> TileAssignment:
    """Return the iota of these axes, with neighbours joined if they form one axis."""
    joined: list[Axis] = []
    for size, stride in axes:
        if size == 1:
            continue
        if joined and joined[-1][1] == size * stride:
            joined[-1] = (joined[-1][0] * size, stride)
        else:
            joined.append((size, stride))
    order = sorted(range(len(joined)), key=lambda place: -joined[place][1])
    if len(order) < 2:
        return TileAssignment(dimensions=dimensions)
    perm = [0] * len(order)
    for axis, place in enumerate(order):
        perm[place] = axis
    return TileAssignment(
        dimensions=dimensions,
        reshape_dims=tuple(joined[place][0] for place in order),
        transpose_perm=tuple(perm),
    )
