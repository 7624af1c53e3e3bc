"""Text of ``replica_groups`` and ``source_target_pairs`` to objects of the model."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

from hlo_lens.grammar.misplaced import MisplacedError, present
from hlo_lens.grammar.small import SmallLanguage
from hlo_lens.shapes.mesh_reader import Axis, Iota, Sizes, device_array, positive, resolved
from hlo_lens.shapes.replica_groups import (
    CollectiveDeviceList,
    IotaReplicaGroupList,
    MeshAxesReplicaGroupList,
    ReplicaGroups,
)
from hlo_lens.shapes.sharding_reader import MESH_NAMES, MeshRules
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from hlo_lens.shapes.mesh import Mesh

DEVICE_LIST_NAMES = {"REPLICA_OPEN": "'['", **MESH_NAMES}
"""Names of the terminals of replica_groups.lark for users."""


@functools.lru_cache(maxsize=1 << 12)
def parse_device_list(text: str) -> CollectiveDeviceList:
    """Return the device list of a ``replica_groups`` value; each distinct text is parsed once.

    Raises:
        DumpSyntaxError: If it is malformed; line and column are those within the text.
    """
    return cast("CollectiveDeviceList", DEVICE_LISTS.parse(text))


class _DeviceListRules(MeshRules):
    """Rules of replica_groups.lark to objects of the model."""

    def replica_groups(self, *groups: tuple[int, ...] | None) -> ReplicaGroups:
        return ReplicaGroups(groups=tuple(present(groups)))

    def replica_group(self, ids: Sizes | None) -> tuple[int, ...]:
        return ids.values if ids else ()

    def replica_groups_iota(
        self, _: str, count: str, size: str, iota: Iota
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


DEVICE_LISTS = SmallLanguage(
    "device_list",
    *("hlo_tokens", "sharding", "replica_groups"),
    results=_DeviceListRules(),
    names=DEVICE_LIST_NAMES,
)
