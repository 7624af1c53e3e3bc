"""Device meshes with named axes, and arrays of device ids.

Sources: xla/hlo/ir/mesh_and_axis.cc, xla/hlo/ir/tile_assignment.cc (IotaTileAssignment), as of
August 2026.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias

from hlo_lens.grammar.files import MisplacedError, present, whole_number
from hlo_lens.text.errors import UnknownNameError, UsageError
from hlo_lens.text.names import did_you_mean
from hlo_lens.text.units import bounded_int

Stride: TypeAlias = tuple[int, int]
"""Size and stride: number and width of steps in the device ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileAssignment:
    """An array of device ids, row-major.

    With `device_ids` it is that list. Without, it is ``arange(n)`` viewed as `reshape_dims`,
    transposed by `transpose_perm` (new axis k is old axis ``perm[k]``) and viewed as `dimensions`;
    both are empty for none.
    """

    dimensions: tuple[int, ...]
    reshape_dims: tuple[int, ...] = ()
    transpose_perm: tuple[int, ...] = ()
    device_ids: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        return math.prod(self.dimensions)

    def devices(self) -> tuple[int, ...]:
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
        ids, steps = self.devices(), _strides(parts)
        places = _expanded([(parts[part], steps[part]) for part in order])
        found = TileAssignment(
            dimensions=tuple(dimensions), device_ids=tuple(ids[place] for place in places)
        )
        return found if self.device_ids is not None else found.as_iota() or found

    def as_iota(self) -> TileAssignment | None:
        """Return the same array as an iota in its normal form; None if it is not one."""
        if self.device_ids is None:
            return self.canonical()
        loops = nested_loops(self.device_ids)
        return None if loops is None else _iota(self.dimensions, reversed(loops))

    def as_list(self) -> TileAssignment:
        """Return the same array with all device ids written out."""
        return TileAssignment(dimensions=self.dimensions, device_ids=self.devices())

    def axes_of_dimensions(self) -> list[list[Stride]] | None:
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

    def _axes(self) -> list[Stride]:
        """Return sizes and strides of the nested loops that generate the ids of an iota."""
        view = self.reshape_dims or (self.size,)
        steps = _strides(view)
        return [(view[axis], steps[axis]) for axis in self.transpose_perm or range(len(view))]


def _strides(sizes: Sequence[int]) -> list[int]:
    strides = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * sizes[axis + 1]
    return strides


def nested_loops(devices: Sequence[int]) -> list[Stride] | None:
    """Return sizes and strides of loops that generate the devices, innermost first, or None."""
    if not devices or devices[0] != 0:
        return None
    loops: list[Stride] = []
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


def _expanded(axes: Iterable[Stride]) -> tuple[int, ...]:
    """Return the numbers that nested loops over sizes and strides generate, outermost first."""
    numbers = [0]
    for size, stride in axes:
        steps = range(0, size * stride, stride)
        numbers = [number + step for number in numbers for step in steps]
    return tuple(numbers)


def _refined(axes: Sequence[Stride], parts: Sequence[int]) -> list[list[Stride]] | None:
    """Return the axes split so that each part has whole axes; None if sizes do not divide."""
    left = [axis for axis in reversed(axes) if axis[0] != 1]
    result: list[list[Stride]] = []
    for part in parts:
        needed = part
        taken: list[Stride] = []
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


def _iota(dimensions: tuple[int, ...], axes: Iterable[Stride]) -> TileAssignment:
    """Return the iota of these axes, with neighbours joined if they form one axis."""
    joined: list[Stride] = []
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


MOST_DEVICES = 1 << 20
"""Most devices of a mesh or of a sharding."""


class HasMeshShape(Protocol):
    """A mesh of another library, as ``jax.sharding.Mesh``: sizes by axis name, major first."""

    @property
    def shape(self) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRef:
    """A mesh axis, or the part of it that ``'x':(pre_size)size`` names.

    A sub-axis is the middle dimension of the axis viewed as ``[pre_size, size, rest]``; sizes of a
    whole axis are None.
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

    Axes are most major first; no assignment means 0, 1, 2, ... in row-major order.
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
            count = bounded_int(size) if size.isdecimal() else 0
            if not name or not 0 < count < 1 << 63 or name in sizes:
                raise UsageError(f"not a mesh: {text!r}; write it like data=2,model=4")
            sizes[name] = count
        if math.prod(sizes.values()) > MOST_DEVICES:
            raise UsageError(f"mesh {text} has more than {MOST_DEVICES} devices")
        return cls.of(sizes)

    @classmethod
    def maximal(cls, device: int) -> Mesh:
        return cls(device_assignment=TileAssignment(dimensions=(1,), device_ids=(device,)))

    @property
    def size(self) -> int:
        if self.axis_names:
            return math.prod(self.axis_sizes)
        return 1 if self.device_assignment else 0

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def is_maximal(self) -> bool:
        """Whether it is ``maximal_mesh``: one device and no axes."""
        return not self.axis_names and self.device_assignment is not None

    @property
    def assignment(self) -> TileAssignment:
        return self.device_assignment or TileAssignment(dimensions=self.axis_sizes)

    @property
    def device_ids(self) -> tuple[int, ...]:
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
        cuts = {name: {1, size} for name, size in self.sizes.items()}
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
        axes = ",".join(f"'{name}'={size}" for name, size in self.sizes.items())
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
        groups: For each given axis, the numbers of its parts.
    """

    sizes: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    rest: tuple[int, ...]


# ---- texts -------------------------------------------------------------------------------------

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Sizes(NamedTuple):
    """Numbers, and the token at which errors are reported."""

    token: str
    values: tuple[int, ...]


class Iota(NamedTuple):
    """View of an iota, and its permutation if one is printed."""

    view: Sizes
    order: Sizes | None


class Axis(NamedTuple):
    """A mesh axis as printed, not yet looked up in its mesh."""

    token: str
    name: str
    pre_size: int | None
    size: int | None


def positive(token: str) -> int:
    """Return a number that is at least 1."""
    value = whole_number(token)
    if value < 1:
        raise MisplacedError.at_token(token, f"expected a number above 0, found {value}")
    return value


def axis_name(token: str) -> str:
    """Return the name of an axis without quotes and escapes."""
    return _ESCAPE.sub(r"\1", token[1:-1]) if token.startswith("'") else str(token)


def device_array(at: str, dimensions: tuple[int, ...], ids: Iota | Sizes) -> TileAssignment:
    """Return the array of devices; raises MisplacedError if the number of ids does not match."""
    if isinstance(ids, Sizes):
        tiles = TileAssignment(dimensions=dimensions, device_ids=ids.values)
        place, count = ids.token, len(ids.values)
    else:
        view, order = ids
        place, count = view.token, math.prod(view.values)
        tiles = TileAssignment(dimensions=dimensions)
        if order is not None:  # a view without permutation has no effect
            tiles = replace(tiles, reshape_dims=view.values, transpose_perm=order.values)
    if count != math.prod(dimensions):
        shown = "x".join(map(str, dimensions)) or "no"
        raise MisplacedError.at_token(place, f"expected {shown} devices, found {count}")
    if not 0 < count <= MOST_DEVICES:
        message = f"expected at least one device and at most {MOST_DEVICES}, found {count}"
        raise MisplacedError.at_token(at, message)
    return tiles


def resolved(mesh: Mesh, axes: list[Axis]) -> tuple[AxisRef, ...]:
    """Return axes looked up in their mesh; a number means the axis at that position, as in XLA."""
    names, found = mesh.axis_names, []
    for token, printed, pre_size, size in axes:
        name = printed
        if name not in names:
            place = int(name) if name.isdecimal() and len(name) < 4 else len(names)
            if place >= len(names):
                shown = ", ".join(names[:4]) or "none"
                message = f"expected an axis of the mesh ({shown}), found '{name}'"
                raise MisplacedError.at_token(token, message)
            name = names[place]
        whole = mesh.axis_sizes[names.index(name)]
        if pre_size is None or size is None or (pre_size == 1 and size == whole):
            found.append(AxisRef(axis=name))
        elif whole % (pre_size * size):
            message = f"sub-axis ({pre_size}){size} does not divide an axis of size {whole}"
            raise MisplacedError.at_token(token, message)
        else:
            found.append(AxisRef(axis=name, pre_size=pre_size, size=size))
    return tuple(found)


MESH_NAMES = {
    **dict.fromkeys(("MESH", "MESH_OLD", "MESH_MAXIMAL"), "a mesh"),
    "MESH_AXIS": "an axis name",
    "MESH_DEVICE_ID": "'device_id='",
    "MESH_DEVICE_IDS": "', device_ids='",
    "IOTA_T": "'T('",
    **dict.fromkeys(("SHARDING_SIZE", "SHARDING_ID"), "a number"),
    "SHARDING_IDS": "device ids",
}
"""Names of these terminals for users."""


class MeshRules:
    """The rules ``mesh``, ``axis_refs`` and ``iota`` of sharding.lark."""

    def sharding_sizes(self, *sizes: str) -> Sizes:
        return Sizes(sizes[0], tuple(map(whole_number, sizes)))

    def sharding_ids(self, ids: str) -> Sizes:
        return Sizes(ids, tuple(int(number.strip()) for number in ids.split(",")))

    def iota_permutation(self, _: str, order: Sizes) -> Sizes:
        return order

    def iota(self, _: str, view: Sizes, order: Sizes | None) -> Iota:
        return self.mesh_iota(view, order)

    def mesh_iota(self, view: Sizes, order: Sizes | None) -> Iota:
        """Return an iota; raises MisplacedError if its order is no permutation of the view."""
        if order is not None and sorted(order.values) != list(range(len(view.values))):
            message = f"expected a permutation of 0 to {len(view.values) - 1}"
            raise MisplacedError.at_token(order.token, message)
        return Iota(view, order)

    def mesh_named(self, start: str, axes: list[tuple[str, int]], ids: Iota | Sizes | None) -> Mesh:
        names, sizes = zip(*axes, strict=True) if axes else ((), ())
        if len(set(names)) != len(names):
            raise MisplacedError.at_token(start, "two axes of the mesh have one name")
        if math.prod(sizes) > MOST_DEVICES:
            raise MisplacedError.at_token(start, f"more than {MOST_DEVICES} devices")
        assignment = None if ids is None else device_array(start, sizes, ids)
        if assignment == TileAssignment(dimensions=sizes):
            assignment = None
        return Mesh(axis_names=names, axis_sizes=sizes, device_assignment=assignment)

    def mesh_axes(self, *axes: tuple[str, int] | None) -> list[tuple[str, int]]:
        return present(axes)

    def mesh_axis(self, name: str, size: str) -> tuple[str, int]:
        return axis_name(name), positive(size)

    def mesh_device_ids(self, _: str, ids: Iota | Sizes) -> Iota | Sizes:
        return ids

    def mesh_maximal(self, _start: str, _key: str, device: str) -> Mesh:
        return Mesh.maximal(whole_number(device))

    def axis_refs(self, *axes: Axis | None) -> list[Axis]:
        return present(axes)

    def axis_ref(self, name: str, pre_size: str | None, size: str | None) -> Axis:
        sizes = [None if text is None else positive(text) for text in (pre_size, size)]
        return Axis(name, axis_name(name), *sizes)
