"""Text of ``replica_groups`` and ``source_target_pairs`` to objects of the model."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

from lark import v_args

from hlo_lens.model.replica_groups import (
    CollectiveDeviceList,
    IotaReplicaGroupList,
    MeshAxesReplicaGroupList,
    ReplicaGroups,
)
from hlo_lens.syntax.grammar import build_parser
from hlo_lens.syntax.mesh import MESH_NAMES, MeshTransformer, device_array, positive, resolved
from hlo_lens.syntax.transform import MisplacedError, parse_with, present
from hlo_lens.text.errors import DumpSyntaxError, UsageError
from hlo_lens.text.source import Source, Span

if TYPE_CHECKING:
    from lark import Lark, Token

    from hlo_lens.model.mesh import Mesh
    from hlo_lens.syntax.mesh import Axis, Iota, Sizes

DEVICE_LIST_NAMES = {"REPLICA_OPEN": "'['", **MESH_NAMES}
"""What users call the terminals of replica_groups.lark."""


@functools.lru_cache(maxsize=1 << 12)
def parse_device_list(text: str) -> CollectiveDeviceList:
    """Return the device list that a ``replica_groups`` value prints; the same text is read once.

    Raises:
        DumpSyntaxError: If it is none; line and column are those within the text.
    """
    return cast("CollectiveDeviceList", parse_with(_parser(), Source(text), DEVICE_LIST_NAMES))


def parse_source_target_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Return the pairs that a ``source_target_pairs`` value prints: ``{{0,1},{1,2}}``.

    Raises:
        DumpSyntaxError: If it is no list of pairs.
    """
    found = parse_device_list(text)
    source = Source(text)
    if not isinstance(found, ReplicaGroups):
        raise DumpSyntaxError.at(source, Span(0, 1), "expected pairs in braces")
    pairs = []
    for group in found.groups:
        if len(group) != 2:
            message = f"expected pairs of a source and a target, found {len(group)} ids"
            raise DumpSyntaxError.at(source, Span(0, len(text)), message)
        pairs.append((group[0], group[1]))
    return tuple(pairs)


@v_args(inline=True)
class DeviceListTransformer(MeshTransformer):
    """Rules of replica_groups.lark to objects of the model."""

    def replica_groups(self, *groups: tuple[int, ...] | None) -> ReplicaGroups:
        """Return groups as a list of lists."""
        return ReplicaGroups(groups=tuple(present(groups)))

    def replica_group(self, ids: Sizes | None) -> tuple[int, ...]:
        """Return the ids of one group."""
        return ids.values if ids else ()

    def replica_groups_iota(
        self, _: Token, count: Token, size: Token, iota: Iota
    ) -> IotaReplicaGroupList:
        """Return groups as the rows of an iota."""
        dimensions = (positive(count), positive(size))
        return IotaReplicaGroupList(assignment=device_array(count, dimensions, iota))

    def replica_groups_mesh(self, mesh: Mesh, axes: list[Axis]) -> MeshAxesReplicaGroupList:
        """Return groups along mesh axes."""
        found = resolved(mesh, axes)
        try:
            mesh.split(found)
        except UsageError as error:
            raise MisplacedError.at_token(axes[0].token, str(error)) from error
        return MeshAxesReplicaGroupList(mesh=mesh, axes=found)


@functools.cache
def _parser() -> Lark:
    """Return the parser of a device list alone."""
    names = ("hlo_tokens", "sharding", "replica_groups")
    return build_parser(*names, start="device_list", transformer=DeviceListTransformer())
