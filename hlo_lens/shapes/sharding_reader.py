"""Text of a sharding, in any spelling, to `HloSharding`."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from hlo_lens.grammar.misplaced import MisplacedError, present, whole_number
from hlo_lens.grammar.small import SmallLanguage
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.shapes.mesh_reader import (
    Axis,
    Iota,
    Sizes,
    axis_name,
    device_array,
    named_mesh,
    named_sharding,
    permutation,
    positive,
    printed_axis,
    printed_sizes,
)
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.sharding import HloSharding, ShardGroup
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from hlo_lens.shapes.tile_assignment import TileAssignment


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
"""Names of these terminals for users."""


class MeshRules:
    """The rules ``mesh``, ``axis_refs`` and ``iota`` of sharding.lark."""

    def sharding_sizes(self, *sizes: str) -> Sizes:
        """Return sizes."""
        return Sizes(sizes[0], tuple(map(whole_number, sizes)))

    def sharding_ids(self, ids: str) -> Sizes:
        """Return device ids."""
        return printed_sizes(ids)

    def iota_permutation(self, _: str, order: Sizes) -> Sizes:
        """Return a permutation."""
        return permutation(order)

    def iota(self, _: str, view: Sizes, order: Sizes | None) -> Iota:
        """Return view and permutation of an iota."""
        return Iota(view, order)

    def mesh_named(self, start: str, axes: list[tuple[str, int]], ids: Iota | Sizes | None) -> Mesh:
        """Return a mesh with axes."""
        return named_mesh(start, axes, ids)

    def mesh_axes(self, *axes: tuple[str, int] | None) -> list[tuple[str, int]]:
        """Return names and sizes."""
        return present(axes)

    def mesh_axis(self, name: str, size: str) -> tuple[str, int]:
        """Return name and size of an axis."""
        return axis_name(name), positive(size)

    def mesh_device_ids(self, _: str, ids: Iota | Sizes) -> Iota | Sizes:
        """Return the device ids of a mesh."""
        return ids

    def mesh_iota(self, view: Sizes, order: Sizes | None) -> Iota:
        """Return the device ids of a mesh, written as an iota without ``<=``."""
        return Iota(view, order)

    def mesh_maximal(self, _start: str, _key: str, device: str) -> Mesh:
        """Return the mesh of one device."""
        return Mesh.maximal(whole_number(device))

    def axis_refs(self, *axes: Axis | None) -> list[Axis]:
        """Return axes, not yet looked up in their mesh."""
        return present(axes)

    def axis_ref(self, name: str, pre_size: str | None, size: str | None) -> Axis:
        """Return an axis or a part of one, not yet looked up in its mesh."""
        return printed_axis(name, axis_name(name), pre_size, size)


SHARDING_NAMES = {
    "SHARDING_OPEN": "a sharding",
    "SHARDING_KIND": "a kind of sharding",
    "SHARDING_MAXIMAL": "a kind of sharding",
    "SHARDING_DEVICES": "'devices='",
    "SHARDING_DEVICE": "'device='",
    "SHARDING_LAST_REPLICATE": "'last_tile_dim_replicate'",
    "SHARDING_LAST_DIMS": "'last_tile_dims='",
    "SHARDING_SUBGROUP": "a kind of subgroup",
    "SHARDING_GROUP": "'shard_as' or 'shard_like'",
    "SHARDING_METADATA": "'metadata='",
    "SHARDING_AXES": "'replicated=', 'unreduced=' or 'manual='",
    "SHARDING_REDUCTION": "a reduction",
    "SHARDING_OPEN_DIM": "'?'",
    **MESH_NAMES,
}
"""Names of the terminals of sharding.lark for users."""

_REDUCTION = re.compile(r'op_type="sdy::reduction_op" op_name="(\w+)"')

_Part: TypeAlias = tuple[str, Any]
"""Name and value of a part of a sharding."""


@functools.lru_cache(maxsize=1 << 14)
def parse_sharding(text: str) -> HloSharding:
    """Return the sharding that a text prints; each distinct text is parsed once.

    Raises:
        DumpSyntaxError: If it is malformed; line and column are those within the text.
    """
    sharding: HloSharding = SHARDINGS.parse(text)
    return dataclasses.replace(sharding, text=text.strip())


class _ShardingRules(MeshRules):
    """Rules of sharding.lark to objects of the model.

    The text of a sharding inside a tuple is the one that XLA prints; its white space may differ
    from the source.
    """

    def sharding_tuple(self, *elements: HloSharding | None) -> HloSharding:
        return HloSharding(kind=ShardingKind.TUPLE, elements=tuple(present(elements)))

    def sharding_tiled(self, brace: str, *parts: _Part) -> HloSharding:
        """Return a sharding in V1 or V2 form; raises MisplacedError if a part occurs twice."""
        found = _unique(brace, parts)
        extra = _extras(found)
        kind: ShardingKind | None = found.pop("kind", None)
        device: int | None = found.pop("device", None)
        subgroups: tuple[ShardingKind, ...] = found.pop("subgroups", ())
        tiles: TileAssignment | None = found.pop("tiles", None)
        if sum(value is not None for value in (kind, device, tiles)) != 1:
            raise MisplacedError.at_token(
                brace, "expected one of a kind of sharding, a device and 'devices='"
            )
        if tiles is None and subgroups:
            raise MisplacedError.at_token(brace, "expected 'devices=' before its last dimensions")
        if device is not None:
            return HloSharding(kind=ShardingKind.MAXIMAL, device=device, **extra)
        if tiles is None:
            return HloSharding(kind=kind or ShardingKind.UNKNOWN, **extra)
        if len(subgroups) > len(tiles.dimensions):
            raise MisplacedError.at_token(
                brace, f"{len(subgroups)} kinds of subgroups for {len(tiles.dimensions)} dimensions"
            )
        sharding = HloSharding.tiled(tiles, subgroups)
        return dataclasses.replace(sharding, text="", **extra) if extra else sharding

    def sharding_named(self, brace: str, mesh: Mesh, *parts: _Part) -> HloSharding:
        found = _unique(brace, parts)
        extra = _extras(found)
        try:
            named = dataclasses.replace(
                named_sharding(mesh, found), reduction=extra.get("reduction")
            )
            sharding = HloSharding.from_named(named)
        except UsageError as error:
            raise MisplacedError.at_token(brace, str(error)) from error
        return dataclasses.replace(sharding, named=named, text="", **extra)

    def sharding_short(self, brace: str, *parts: _Part) -> HloSharding:
        found = _unique(brace, parts)
        extra = _extras(found)
        if "device" in found:
            return HloSharding(kind=ShardingKind.MAXIMAL, device=found["device"], **extra)
        name, value = found.popitem()
        if name != "kind" and (name != "unreduced" or value[1]):
            raise MisplacedError.at_token(brace, "expected a mesh before its axes")
        return HloSharding(kind=value if name == "kind" else ShardingKind.UNREDUCED, **extra)

    def sharding_kind(self, kind: str) -> _Part:
        return "kind", ShardingKind(str(kind))

    sharding_whole = sharding_kind

    def sharding_maximal(self, _maximal: str, _device: str, device: str) -> _Part:
        return "device", whole_number(device)

    def sharding_devices(self, key: str, dimensions: Sizes, ids: Iota | Sizes) -> _Part:
        return "tiles", device_array(key, dimensions.values, ids)

    def sharding_last_replicate(self, _: str) -> _Part:
        return "subgroups", (ShardingKind.REPLICATED,)

    def sharding_last_dims(self, _: str, *kinds: str) -> _Part:
        return "subgroups", tuple(ShardingKind(str(kind)) for kind in kinds)

    def sharding_group(self, keyword: str, group_id: str) -> _Part:
        return "shard_group", ShardGroup(keyword=str(keyword), group_id=whole_number(group_id))

    def sharding_metadata(self, text: str) -> _Part:
        return "metadata", text.partition("=")[2][1:-1]

    def sharding_dims(self, *dims: tuple[list[Axis], bool] | None) -> _Part:
        return "dims", present(dims)

    def sharding_dim(self, *parts: Axis | str | None) -> tuple[list[Axis], bool]:
        items = present(parts)
        axes = [item for item in items if isinstance(item, Axis)]
        return axes, len(axes) < len(items)

    def sharding_axes(self, key: str, reduction: str | None, axes: list[Axis] | None) -> _Part:
        return key[:-1], (None if reduction is None else str(reduction), axes)


def _unique(brace: str, parts: tuple[_Part, ...] | list[_Part]) -> dict[str, Any]:
    """Return the parts by name; raises MisplacedError if one occurs twice."""
    found = dict(parts)
    if len(found) != len(parts):
        raise MisplacedError.at_token(brace, "a part of the sharding occurs twice")
    return found


def _extras(found: dict[str, Any]) -> dict[str, Any]:
    """Remove and return the parts that have no effect on where data is."""
    names = {"shard_group", "metadata"} & found.keys()
    extra: dict[str, Any] = {name: found.pop(name) for name in names}
    match = _REDUCTION.search(extra.get("metadata", ""))
    if match:
        extra["reduction"] = match[1].lower()
    reduction = found["unreduced"][0] if "unreduced" in found else None
    if reduction is not None:
        extra["reduction"] = reduction
    return extra


SHARDINGS = SmallLanguage(
    "sharding", "hlo_tokens", "sharding", results=_ShardingRules(), names=SHARDING_NAMES
)
