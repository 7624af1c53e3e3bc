"""Replica groups: the devices of each group of a collective, in all printed forms.

`CollectiveOpGroupMode` is the meaning of the ids: replicas, partitions, or both.
`device_groups` has the groups of devices that exchange data, by flattened ids: replica * number of
partitions + partition.

Sources: xla/hlo/ir/replica_group.cc (flattened_replica_groups), collective_op_group_mode.cc,
xla/service/collective_ops_utils.cc (GetCollectiveOpGroupMode, GetParticipatingDevicesGroups), as of
August 2026.
"""

from __future__ import annotations

import enum
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from hlo_lens.grammar.files import MisplacedError, present
from hlo_lens.grammar.lines import SmallLanguage
from hlo_lens.shapes.mesh import (
    MESH_NAMES,
    Axis,
    Iota,
    MeshRules,
    Sizes,
    device_array,
    positive,
    resolved,
)
from hlo_lens.text.errors import UsageError

if TYPE_CHECKING:
    from hlo_lens.shapes.mesh import AxisRef, Mesh, TileAssignment


Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""Ids of each group, in rank order."""

MOST_IDS = 1 << 20
"""Most ids that are expanded; ten times the devices of the largest machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaGroups:
    """Groups as a list of lists (V1): ``{{0,1},{2,3}}``; an empty list means one group of all."""

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


def device_groups(
    listed: Groups, mode: CollectiveOpGroupMode, replicas: int, partitions: int | None
) -> Groups | None:
    """Return groups of flattened ids; None if they depend on an unknown number.

    None, too, for more than `MOST_IDS` ids. An empty list means one group of all ids.

    >>> device_groups(((0,),), CollectiveOpGroupMode.CROSS_REPLICA_AND_PARTITION, 1, 4)
    ((0, 1, 2, 3),)
    """
    if mode is CollectiveOpGroupMode.FLATTENED_ID:
        return listed or None
    of_partitions = mode is CollectiveOpGroupMode.CROSS_PARTITION
    if not listed:
        everybody = partitions if of_partitions else replicas
        if everybody is None or everybody > MOST_IDS:
            return None
        listed = (tuple(range(everybody)),)
    if partitions is None and of_partitions:
        return listed if replicas == 1 else None
    count = partitions or 1
    if (replicas if of_partitions else count) * sum(map(len, listed)) > MOST_IDS:
        return None
    each = range(replicas if of_partitions else count)
    if of_partitions:
        return tuple(tuple(r * count + p for p in group) for r in each for group in listed)
    if mode is CollectiveOpGroupMode.CROSS_REPLICA:
        return tuple(tuple(r * count + p for r in group) for group in listed for p in each)
    if partitions is None:
        return None
    return tuple(tuple(r * count + p for r in group for p in each) for group in listed)


def connected_devices(pairs: Groups) -> Groups:
    """Return groups of devices that transfers connect, directly or through other devices.

    Groups and their members are in ascending order. A device that only sends to itself is a group
    of one.

    >>> connected_devices(((0, 1), (2, 0), (5, 4), (3, 3)))
    ((0, 1, 2), (3,), (4, 5))
    """
    leads_to: dict[int, int] = {}
    for pair in pairs:
        for device in pair:
            leads_to[_end(leads_to, device)] = _end(leads_to, pair[0])
    groups: dict[int, list[int]] = {}
    for device in sorted(leads_to):
        groups.setdefault(_end(leads_to, device), []).append(device)
    return tuple(sorted(tuple(group) for group in groups.values()))


def _end(leads_to: dict[int, int], device: int) -> int:
    """Return the representative of a device's group, and shorten the paths to it (union-find)."""
    while (following := leads_to.setdefault(device, device)) != device:
        leads_to[device] = device = leads_to.setdefault(following, following)
    return device


def expand_replica_groups(text: str) -> Groups:
    """Return the ids of each group of a ``replica_groups`` value in any printed form.

    Raises:
        DumpSyntaxError: If it is malformed.

    >>> import hlo_lens
    >>> hlo_lens.expand_replica_groups("[2,4]<=[4,2]T(1,0)")
    ((0, 2, 4, 6), (1, 3, 5, 7))
    """
    return parse_device_list(text).flattened_replica_groups()


def _rows(assignment: TileAssignment) -> Groups:
    ids = assignment.devices()
    size = assignment.dimensions[1]
    return tuple(ids[start : start + size] for start in range(0, len(ids), size))


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
    names=MESH_NAMES,
)
