"""Rules that shardings and replica groups share: meshes, axes, iota, lists of ids."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from lark import Token, Transformer, v_args

from hlo_lens.model.mesh import AxisRef, Mesh
from hlo_lens.model.tile_assignment import TileAssignment
from hlo_lens.syntax.transform import MisplacedError, present, whole_number

MESH_NAMES = {
    "MESH": "a mesh",
    "MESH_OLD": "a mesh",
    "MESH_MAXIMAL": "a mesh",
    "MESH_AXIS": "an axis name",
    "MESH_DEVICE_ID": "'device_id='",
    "MESH_DEVICE_IDS": "', device_ids='",
    "IOTA": "'<='",
    "IOTA_T": "'T('",
    "SHARDING_SIZE": "a number",
    "SHARDING_ID": "a number",
    "SHARDING_IDS": "device ids",
    "LESSTHAN": "'<'",
    "MORETHAN": "'>'",
}
"""What users call these terminals."""

MAX_DEVICES = 1 << 20
"""More devices than this are taken for a broken text: their ids could not be listed."""

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Sizes(NamedTuple):
    """Numbers, and the token of the first, for messages."""

    token: Token
    values: tuple[int, ...]


class Iota(NamedTuple):
    """View of an iota, and its permutation if one is printed."""

    view: Sizes
    order: Sizes | None


class Axis(NamedTuple):
    """A mesh axis as printed, not yet looked up in its mesh."""

    token: Token
    name: str
    pre_size: int | None
    size: int | None


@v_args(inline=True)
class MeshTransformer(Transformer[Any, Any]):
    """The rules ``mesh``, ``axis_refs`` and ``iota`` of sharding.lark."""

    def sharding_sizes(self, *sizes: Token) -> Sizes:
        """Return sizes."""
        return Sizes(sizes[0], tuple(map(whole_number, sizes)))

    def sharding_ids(self, ids: Token) -> Sizes:
        """Return device ids."""
        return Sizes(ids, tuple(map(int, ids.split(","))))

    def iota_permutation(self, _: Token, order: Sizes) -> Sizes:
        """Return a permutation."""
        if sorted(order.values) != list(range(len(order.values))):
            message = f"expected a permutation of 0 to {len(order.values) - 1}"
            raise MisplacedError.at_token(order.token, message)
        return order

    def iota(self, _: Token, view: Sizes, order: Sizes | None) -> Iota:
        """Return view and permutation of an iota."""
        return Iota(view, order)

    def mesh_named(
        self, start: Token, axes: list[tuple[str, int]], ids: Iota | Sizes | None
    ) -> Mesh:
        """Return a mesh with axes."""
        names, sizes = zip(*axes, strict=True) if axes else ((), ())
        if len(set(names)) != len(names):
            raise MisplacedError.at_token(start, "two axes of the mesh have one name")
        if math.prod(sizes) > MAX_DEVICES:
            raise MisplacedError.at_token(start, f"more than {MAX_DEVICES} devices")
        if ids is None:
            return Mesh(axis_names=names, axis_sizes=sizes)
        assignment = device_array(start, sizes, ids)
        if assignment == TileAssignment(dimensions=sizes):
            return Mesh(axis_names=names, axis_sizes=sizes)
        return Mesh(axis_names=names, axis_sizes=sizes, device_assignment=assignment)

    def mesh_axes(self, *axes: tuple[str, int] | None) -> list[tuple[str, int]]:
        """Return names and sizes."""
        return present(axes)

    def mesh_axis(self, name: Token, size: Token) -> tuple[str, int]:
        """Return name and size of an axis."""
        return axis_name(name), positive(size)

    def mesh_device_ids(self, _: Token, ids: Iota | Sizes) -> Iota | Sizes:
        """Return the device ids of a mesh."""
        return ids

    def mesh_iota(self, view: Sizes, order: Sizes | None) -> Iota:
        """Return the device ids of a mesh, written as an iota without ``<=``."""
        return Iota(view, order)

    def mesh_maximal(self, _start: Token, _key: Token, device: Token) -> Mesh:
        """Return the mesh of one device."""
        return Mesh.maximal(whole_number(device))

    def axis_refs(self, *axes: Axis | None) -> list[Axis]:
        """Return axes, not yet looked up in their mesh."""
        return present(axes)

    def axis_ref(self, name: Token, pre_size: Token | None, size: Token | None) -> Axis:
        """Return an axis or a part of one, not yet looked up in its mesh."""
        if pre_size is None or size is None:
            return Axis(name, axis_name(name), None, None)
        return Axis(name, axis_name(name), positive(pre_size), positive(size))


def positive(token: Token) -> int:
    """Return a number that is at least 1."""
    value = whole_number(token)
    if value < 1:
        raise MisplacedError.at_token(token, f"expected a number above 0, found {value}")
    return value


def axis_name(token: Token) -> str:
    """Return the name of an axis without quotes and escapes."""
    return _ESCAPE.sub(r"\1", token[1:-1]) if token.startswith("'") else str(token)


def device_array(at: Token, dimensions: tuple[int, ...], ids: Iota | Sizes) -> TileAssignment:
    """Return the array of these dimensions; the number of ids must fit."""
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
    """Return an iota; a view without permutation is left out, as it has no effect."""
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
    """Return axes of a mesh; a number stands for the axis at that place, as XLA has it."""
    return tuple(_resolved(mesh, axis) for axis in axes)


def _resolved(mesh: Mesh, axis: Axis) -> AxisRef:
    """Return one axis of a mesh."""
    token, name, pre_size, size = axis
    names = mesh.axis_names
    if name not in names:
        place = int(name) if name.isdecimal() and len(name) < 4 else len(names)
        if place >= len(names):
            shown = ", ".join(names[:4]) or "none"
            message = f"expected an axis of the mesh ({shown}), found '{name}'"
            raise MisplacedError.at_token(token, message)
        name = names[place]
    whole = mesh.axis_sizes[names.index(name)]
    if pre_size is None or size is None or (pre_size == 1 and size == whole):
        return AxisRef(axis=name)
    if whole % (pre_size * size):
        message = f"sub-axis ({pre_size}){size} does not divide an axis of size {whole}"
        raise MisplacedError.at_token(token, message)
    return AxisRef(axis=name, pre_size=pre_size, size=size)
