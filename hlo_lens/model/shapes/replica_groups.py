"""Replica groups: the devices of each group of a collective, in all printed forms.

`collective_op_group_mode` has the meaning of the ids: replicas, partitions, or both.

Sources: xla/hlo/ir/replica_group.cc (flattened_replica_groups), collective_op_group_mode.cc,
xla/service/collective_ops_utils.cc (GetCollectiveOpGroupMode), as of August 2026.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.model.hlo.opcodes import opcode_traits
from hlo_lens.text.errors import DumpMismatchError

if TYPE_CHECKING:
    from hlo_lens.model.shapes.mesh import AxisRef, Mesh
    from hlo_lens.model.shapes.tile_assignment import TileAssignment

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""Ids of each group, in rank order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroups:
    """Groups as a list of lists (V1): ``{{0,1},{2,3}}``; an empty list means one group of all.

    Attributes:
        groups: The ids of each group.
    """

    groups: Groups = ()

    def flattened_replica_groups(self) -> Groups:
        """Return the ids of each group."""
        return self.groups

    def __str__(self) -> str:
        groups = (",".join(map(str, group)) for group in self.groups)
        return f"{{{','.join(f'{{{ids}}}' for ids in groups)}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IotaReplicaGroupList:
    """Groups as the rows of an iota (V2): ``[2,4]<=[4,2]T(1,0)``.

    Attributes:
        assignment: Two dimensions: number of groups, size of each.
    """

    assignment: TileAssignment

    def flattened_replica_groups(self) -> Groups:
        """Return the ids of each group."""
        return _rows(self.assignment)

    def __str__(self) -> str:
        return str(self.assignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshAxesReplicaGroupList:
    """Groups along mesh axes (V3): ``mesh['a'=2,'b'=4] {'a'}``.

    Devices that differ only along these axes are one group; the first axis varies slowest.

    Attributes:
        mesh: The mesh.
        axes: Axes along which the devices of a group differ, in rank order.
    """

    mesh: Mesh
    axes: tuple[AxisRef, ...] = ()

    def flattened_replica_groups(self) -> Groups:
        """Return the ids of each group, groups in mesh order."""
        if self.mesh.is_maximal:
            return (self.mesh.device_ids,)
        split = self.mesh.split(self.axes)
        order = (*split.rest, *(part for group in split.groups for part in group))
        size = math.prod(self.mesh.axis_size(axis) for axis in self.axes) or 1
        shape = (self.mesh.size // size, size)
        return _rows(self.mesh.assignment.rearranged(split.sizes, order, shape))

    def __str__(self) -> str:
        return f"{self.mesh} {{{','.join(map(str, self.axes))}}}"


CollectiveDeviceList: TypeAlias = ReplicaGroups | IotaReplicaGroupList | MeshAxesReplicaGroupList
"""A ``replica_groups`` value in any form; all have `flattened_replica_groups()`."""


class CollectiveOpGroupMode(enum.Enum):
    """Meaning of the ids in ``replica_groups``, and the devices that join the named ones."""

    CROSS_REPLICA = "cross_replica"
    """Replica ids; each group exists once in every partition."""
    CROSS_PARTITION = "cross_partition"
    """Partition ids; each group exists once in every replica."""
    CROSS_REPLICA_AND_PARTITION = "cross_replica_and_partition"
    """Replica ids; all partitions of the named replicas are in one group."""
    FLATTENED_ID = "flattened_id"
    """Flattened ids: replica * number of partitions + partition."""


def collective_op_group_mode(
    opcode: str, channel_id: int | None, use_global_device_ids: bool | None
) -> CollectiveOpGroupMode:
    """Return how a collective forms its groups.

    Args:
        opcode: As written; ``-start`` and ``-done`` are ignored.
        channel_id: None where the attribute is absent.
        use_global_device_ids: None where the attribute is absent; ignored for collectives that
            cannot have it, such as ``all-to-all``.

    Raises:
        DumpMismatchError: If global device ids are used without a channel.
    """
    if opcode_traits(opcode_traits(opcode).base).is_local:
        if channel_id is None:
            return CollectiveOpGroupMode.CROSS_REPLICA
        return CollectiveOpGroupMode.CROSS_PARTITION
    if channel_id is None:
        if use_global_device_ids:
            raise DumpMismatchError(f"{opcode} has use_global_device_ids=true but no channel_id")
        return CollectiveOpGroupMode.CROSS_REPLICA
    if use_global_device_ids:
        return CollectiveOpGroupMode.FLATTENED_ID
    return CollectiveOpGroupMode.CROSS_REPLICA_AND_PARTITION


def expand_replica_groups(text: str) -> Groups:
    """Return the ids of each group of a ``replica_groups`` value in any printed form.

    Raises:
        DumpSyntaxError: If it is malformed.

    >>> import hlo_lens
    >>> hlo_lens.expand_replica_groups("[2,4]<=[4,2]T(1,0)")
    ((0, 2, 4, 6), (1, 3, 5, 7))
    """
    from hlo_lens.model.text_reader import reader

    return reader().device_list(text).flattened_replica_groups()


def _rows(assignment: TileAssignment) -> Groups:
    """Return the rows of an array of two dimensions."""
    ids = assignment.devices()
    size = assignment.dimensions[1]
    return tuple(ids[start : start + size] for start in range(0, len(ids), size))
