"""Grammar rules that shardings and replica groups share: meshes, axes, iota, ids."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer, v_args

from hlo_lens.model.shapes.mesh import Mesh
from hlo_lens.syntax.grammar.misplaced import MisplacedError, present, whole_number
from hlo_lens.syntax.shapes.mesh import Axis, Iota, Sizes, axis_name, named_mesh, positive

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
            raise MisplacedError.at_token(
                order.token, f"expected a permutation of 0 to {len(order.values) - 1}"
            )
        return order

    def iota(self, _: Token, view: Sizes, order: Sizes | None) -> Iota:
        """Return view and permutation of an iota."""
        return Iota(view, order)

    def mesh_named(
        self, start: Token, axes: list[tuple[str, int]], ids: Iota | Sizes | None
    ) -> Mesh:
        """Return a mesh with axes."""
        return named_mesh(start, axes, ids)

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
