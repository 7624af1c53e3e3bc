"""Text of ``replica_groups`` by the grammar: the definition, with the places of errors."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

from lark import Lark, Token, v_args

from hlo_lens.grammar.misplaced import MisplacedError, present
from hlo_lens.grammar.parsers import build_parser, parse_with
from hlo_lens.shapes.mesh_reader import Axis, Iota, Sizes, device_array, positive, resolved
from hlo_lens.shapes.replica_groups import (
    CollectiveDeviceList,
    IotaReplicaGroupList,
    MeshAxesReplicaGroupList,
    ReplicaGroups,
)
from hlo_lens.shapes.sharding_grammar import MESH_NAMES, MeshTransformer
from hlo_lens.text.errors import UsageError
from hlo_lens.text.source import Source

if TYPE_CHECKING:
    from hlo_lens.shapes.mesh import Mesh

DEVICE_LIST_NAMES = {"REPLICA_OPEN": "'['", **MESH_NAMES}
"""Names of the terminals of replica_groups.lark for users."""


def parse_device_list_with_grammar(text: str) -> CollectiveDeviceList:
    """Return the result of `parse_device_list` by the grammar alone, without a cache."""
    return cast("CollectiveDeviceList", parse_with(_parser(), Source(text), DEVICE_LIST_NAMES))


@v_args(inline=True)
class _DeviceListTransformer(MeshTransformer):
    """Rules of replica_groups.lark to objects of the model."""

    def replica_groups(self, *groups: tuple[int, ...] | None) -> ReplicaGroups:
        return ReplicaGroups(groups=tuple(present(groups)))

    def replica_group(self, ids: Sizes | None) -> tuple[int, ...]:
        return ids.values if ids else ()

    def replica_groups_iota(
        self, _: Token, count: Token, size: Token, iota: Iota
    ) -> IotaReplicaGroupList:
        dimensions = (positive(count), positive(size))
        return IotaReplicaGroupList(assignment=device_array(count, dimensions, iota))

    def replica_groups_mesh(self, mesh: Mesh, axes: list[Axis]) -> MeshAxesReplicaGroupList:
        found = resolved(mesh, axes)
        try:
            mesh.split(found)
        except UsageError as error:
            raise MisplacedError.at_token(axes[0].token, str(error)) from error
        return MeshAxesReplicaGroupList(mesh=mesh, axes=found)


@functools.cache
def _parser() -> Lark:
    names = ("hlo_tokens", "sharding", "replica_groups")
    return build_parser(*names, start="device_list", transformer=_DeviceListTransformer())
