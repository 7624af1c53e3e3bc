"""Parts that shardings and replica groups share: meshes, axes, iota, lists of ids."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from hlo_lens.grammar.misplaced import MisplacedError, whole_number
from hlo_lens.shapes.mesh import AxisRef, Mesh
from hlo_lens.shapes.named_sharding import DimensionSharding, NamedSharding, ShardingKind
from hlo_lens.shapes.tile_assignment import TileAssignment

MAX_DEVICES = 1 << 20
"""Most devices of a mesh or tiling; larger ones are refused, as their ids cannot be listed."""

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


def named_mesh(start: str, axes: list[tuple[str, int]], ids: Iota | Sizes | None) -> Mesh:
    """Return a mesh with axes."""
    names, sizes = zip(*axes, strict=True) if axes else ((), ())
    if len(set(names)) != len(names):
        raise MisplacedError.at_token(start, "two axes of the mesh have one name")
    if math.prod(sizes) > MAX_DEVICES:
        raise MisplacedError.at_token(start, f"more than {MAX_DEVICES} devices")
    assignment = None if ids is None else device_array(start, sizes, ids)
    if assignment == TileAssignment(dimensions=sizes):
        assignment = None
    return Mesh(axis_names=names, axis_sizes=sizes, device_assignment=assignment)


def printed_sizes(text: str) -> Sizes:
    """Return a list of numbers."""
    return Sizes(text, tuple(int(number.strip()) for number in text.split(",")))


def permutation(order: Sizes) -> Sizes:
    """Return the order of an iota; raises MisplacedError if it is no permutation."""
    if sorted(order.values) != list(range(len(order.values))):
        message = f"expected a permutation of 0 to {len(order.values) - 1}"
        raise MisplacedError.at_token(order.token, message)
    return order


def printed_axis(token: str, name: str, pre_size: str | None, size: str | None) -> Axis:
    """Return an axis or a part of one, not yet looked up in its mesh."""
    if pre_size is None or size is None:
        return Axis(token, name, None, None)
    return Axis(token, name, positive(pre_size), positive(size))


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
        tiles = _iota(dimensions, ids)
        place, count = ids.view.token, math.prod(ids.view.values)
    if count != math.prod(dimensions):
        shown = "x".join(map(str, dimensions)) or "no"
        raise MisplacedError.at_token(place, f"expected {shown} devices, found {count}")
    if count > MAX_DEVICES:
        raise MisplacedError.at_token(at, f"more than {MAX_DEVICES} devices")
    if not count:
        raise MisplacedError.at_token(at, "expected at least one device")
    return tiles


def _iota(dimensions: tuple[int, ...], iota: Iota) -> TileAssignment:
    """Return an iota; a view without permutation has no effect and is dropped."""
    view, order = iota
    if order is None:
        return TileAssignment(dimensions=dimensions)
    if len(order.values) != len(view.values):
        message = f"expected a permutation of {len(view.values)} dimensions, found one of "
        raise MisplacedError.at_token(order.token, message + str(len(order.values)))
    return TileAssignment(
        dimensions=dimensions, reshape_dims=view.values, transpose_perm=order.values
    )


def resolved(mesh: Mesh, axes: list[Axis]) -> tuple[AxisRef, ...]:
    """Return axes looked up in their mesh; a number means the axis at that position, as in XLA."""
    return tuple(_resolved(mesh, axis) for axis in axes)


def _resolved(mesh: Mesh, axis: Axis) -> AxisRef:
    token, name, pre_size, size = axis
    names = mesh.axis_names
    if name not in names:
        place = int(name) if name.isdecimal() and len(name) < 4 else len(names)
        if place >= len(names):
            shown = ", ".join(names[:4]) or "none"
            raise MisplacedError.at_token(
                token, f"expected an axis of the mesh ({shown}), found '{name}'"
            )
        name = names[place]
    whole = mesh.axis_sizes[names.index(name)]
    if pre_size is None or size is None or (pre_size == 1 and size == whole):
        return AxisRef(axis=name)
    if whole % (pre_size * size):
        raise MisplacedError.at_token(
            token, f"sub-axis ({pre_size}){size} does not divide an axis of size {whole}"
        )
    return AxisRef(axis=name, pre_size=pre_size, size=size)


def named_sharding(mesh: Mesh, found: dict[str, Any]) -> NamedSharding:
    """Return a sharding by mesh axes.

    Args:
        mesh: The mesh.
        found: Parts of the sharding by name; ``dims``, ``kind``, ``replicated``, ``unreduced`` and
            ``manual`` are removed from it.
    """
    kind: ShardingKind | None = found.pop("kind", None)
    everything = tuple(AxisRef(axis=name) for name in mesh.axis_names)
    axes: list[tuple[AxisRef, ...]] = []
    for name in ("replicated", "unreduced", "manual"):
        listed = found.pop(name, (None, []))[1]
        whole = listed is None or (kind is not None and kind.value == name)
        axes.append(everything if whole else resolved(mesh, listed))
    dims = tuple(
        DimensionSharding(axes=resolved(mesh, dim), is_open=is_open)
        for dim, is_open in found.pop("dims", [])
    )
    return NamedSharding(
        mesh=mesh,
        dim_shardings=dims,
        replicated_axes=() if kind is ShardingKind.REPLICATED else axes[0],
        unreduced_axes=axes[1],
        manual_axes=axes[2],
    )
