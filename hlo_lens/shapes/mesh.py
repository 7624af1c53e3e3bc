"""Device meshes with named axes, and parts of them.

Source: xla/hlo/ir/mesh_and_axis.cc, as of August 2026.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from hlo_lens.shapes.tile_assignment import TileAssignment
from hlo_lens.text.errors import UnknownNameError, UsageError
from hlo_lens.text.nearest_names import did_you_mean

MOST_DEVICES = 1 << 20
"""Most devices of a mesh or of a sharding."""


class HasMeshShape(Protocol):
    """A mesh of another library, as ``jax.sharding.Mesh``: sizes by axis name, major first."""

    @property
    def shape(self) -> Mapping[str, int]:
        """Sizes by axis name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRef:
    """A mesh axis, or the part of it that ``'x':(pre_size)size`` names.

    A sub-axis is the middle dimension of the axis viewed as ``[pre_size, size, rest]``.

    Attributes:
        axis: Name of the axis.
        pre_size: Size of the more major part of the axis; None for the whole axis.
        size: Size of the part; None for the whole axis.
    """

    axis: str
    pre_size: int | None = None
    size: int | None = None

    def __str__(self) -> str:
        sub = "" if self.size is None else f":({self.pre_size}){self.size}"
        return f"'{self.axis}'{sub}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """Devices in an array with named axes; without axes: one device (``maximal_mesh``) or none.

    Attributes:
        axis_names: Names, most major first.
        axis_sizes: Size of each axis.
        device_assignment: The device ids; None for 0, 1, 2, ... in row-major order.
    """

    axis_names: tuple[str, ...] = ()
    axis_sizes: tuple[int, ...] = ()
    device_assignment: TileAssignment | None = None

    @classmethod
    def of(cls, mesh: MeshLike) -> Mesh:
        """Return a mesh for sizes by axis name, or for the mesh of another library.

        Raises:
            UsageError: If an axis has no devices.
        """
        if isinstance(mesh, Mesh):
            return mesh
        sizes = mesh if isinstance(mesh, Mapping) else mesh.shape
        if any(size < 1 for size in sizes.values()):
            raise UsageError(
                f"expected a mesh whose axes have at least one device each, found {dict(sizes)}"
            )
        return cls(axis_names=tuple(sizes), axis_sizes=tuple(sizes.values()))

    @classmethod
    def from_sizes_text(cls, text: str) -> Mesh:
        """Return the mesh written as ``data=2,model=4``, most major axis first.

        Raises:
            UsageError: If it is malformed.
        """
        sizes: dict[str, int] = {}
        for part in text.split(","):
            name, _, size = (word.strip().strip("'\"") for word in part.partition("="))
            if not name or not size.isdecimal() or int(size) < 1 or name in sizes:
                raise UsageError(f"not a mesh: {text!r}; write it like data=2,model=4")
            sizes[name] = int(size)
        if math.prod(sizes.values()) > MOST_DEVICES:
            raise UsageError(f"mesh {text} has more than {MOST_DEVICES} devices")
        return cls.of(sizes)

    @classmethod
    def maximal(cls, device: int) -> Mesh:
        """Return the mesh of one device."""
        return cls(device_assignment=TileAssignment(dimensions=(1,), device_ids=(device,)))

    @property
    def size(self) -> int:
        """Number of devices; 0 for ``mesh[]``."""
        if self.axis_names:
            return math.prod(self.axis_sizes)
        return 1 if self.device_assignment else 0

    @property
    def is_maximal(self) -> bool:
        """Whether it is ``maximal_mesh``: one device and no axes."""
        return not self.axis_names and self.device_assignment is not None

    @property
    def assignment(self) -> TileAssignment:
        """The device ids, as a list or an iota."""
        return self.device_assignment or TileAssignment(dimensions=self.axis_sizes)

    @property
    def device_ids(self) -> tuple[int, ...]:
        """All device ids, row-major."""
        return self.assignment.devices() if self.size else ()

    def axis_size(self, axis: AxisRef) -> int:
        """Return the size of an axis or of a part of one; raises UnknownNameError."""
        if axis.axis not in self.axis_names:
            hint = did_you_mean(axis.axis, self.axis_names)
            raise UnknownNameError(f"no axis '{axis.axis}' in {self}{hint}")
        whole = self.axis_sizes[self.axis_names.index(axis.axis)]
        if axis.size is None:
            return whole
        pre_size = axis.pre_size or 1
        if pre_size < 1 or axis.size < 1 or whole % (pre_size * axis.size):
            raise UsageError(f"sub-axis {axis} does not divide an axis of size {whole}")
        return axis.size

    def split(self, axes: Sequence[AxisRef]) -> AxisSplit:
        """Return the axes split into parts so that each given axis consists of whole parts.

        Raises:
            UnknownNameError: If the mesh has no such axis.
            UsageError: If two of the axes overlap, or split an axis into sizes that do not divide
            it.
        """
        cuts = {
            name: {1, size} for name, size in zip(self.axis_names, self.axis_sizes, strict=True)
        }
        for axis in axes:
            size = self.axis_size(axis)
            pre_size = axis.pre_size or 1
            cuts[axis.axis] |= {pre_size, pre_size * size}
        parts: list[int] = []
        first: dict[tuple[str, int], int] = {}
        for name in self.axis_names:
            edges = sorted(cuts[name])
            for start, end in zip(edges, [*edges[1:], edges[-1]], strict=True):
                if end % start:
                    raise UsageError(f"sub-axes of '{name}' overlap")
                first[name, start] = len(parts)
                if end != start:
                    parts.append(end // start)
        return self._assigned(axes, parts, first)

    def _assigned(
        self, axes: Sequence[AxisRef], parts: list[int], first: Mapping[tuple[str, int], int]
    ) -> AxisSplit:
        """Return the parts of each axis; raises UsageError if two axes share a part."""
        taken: dict[int, AxisRef] = {}
        groups: list[tuple[int, ...]] = []
        for axis in axes:
            start = axis.pre_size or 1
            end = start * self.axis_size(axis)
            group = tuple(range(first[axis.axis, start], first[axis.axis, end]))
            for part in group:
                if part in taken:
                    raise UsageError(f"axes {taken[part]} and {axis} overlap")
                taken[part] = axis
            groups.append(group)
        rest = tuple(part for part in range(len(parts)) if part not in taken)
        return AxisSplit(sizes=tuple(parts), groups=tuple(groups), rest=rest)

    def __str__(self) -> str:
        if self.is_maximal:
            return f"maximal_mesh[device_id={self.device_ids[0]}]"
        pairs = zip(self.axis_names, self.axis_sizes, strict=True)
        axes = ",".join(f"'{name}'={size}" for name, size in pairs)
        text = f"mesh[{axes}]"
        if self.device_assignment is None:
            return text
        printed = str(self.device_assignment).partition("]")[2].removeprefix("<=")
        return f"{text}, device_ids=({printed})"


MeshLike: TypeAlias = Mesh | Mapping[str, int] | HasMeshShape
"""A mesh: ours, sizes by axis name, or an object whose ``shape`` is such a mapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisSplit:
    """A mesh whose axes are split into parts.

    Attributes:
        sizes: Size of each part, in mesh order.
        groups: For each given axis, the numbers of its parts.
        rest: Numbers of the other parts.
    """

    sizes: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    rest: tuple[int, ...]
