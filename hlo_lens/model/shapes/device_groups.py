"""Groups of devices that exchange data, from the ids of a collective and their meaning.

A device has a flattened id: replica * number of partitions + partition.

Source: xla/service/collective_ops_utils.cc, GetParticipatingDevicesGroups, as of August 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.model.shapes.replica_groups import CollectiveOpGroupMode

if TYPE_CHECKING:
    from hlo_lens.model.shapes.replica_groups import Groups


MOST_IDS = 1 << 20
"""Most ids that are expanded; ten times the devices of the largest machine."""


def device_groups(
    listed: Groups, mode: CollectiveOpGroupMode, replicas: int, partitions: int | None
) -> Groups | None:
    """Return groups of flattened ids; None if they depend on an unknown number.

    None, too, for more than `MOST_IDS` ids.

    Args:
        listed: Groups as printed; an empty list means one group of all ids.
        mode: Meaning of the printed ids.
        replicas: Number of replicas.
        partitions: Number of partitions; None if unknown.

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
    times = replicas if of_partitions else partitions or 1
    if times * sum(map(len, listed)) > MOST_IDS:
        return None
    if of_partitions:
        return _of_partitions(listed, replicas, partitions)
    if mode is CollectiveOpGroupMode.CROSS_REPLICA:
        return tuple(
            tuple(replica * times + partition for replica in group)
            for group in listed
            for partition in range(times)
        )
    if partitions is None:
        return None
    return tuple(
        tuple(replica * partitions + p for replica in group for p in range(partitions))
        for group in listed
    )


def _of_partitions(listed: Groups, replicas: int, partitions: int | None) -> Groups | None:
    """Return groups of partition ids as flattened ids, for each replica."""
    if partitions is None:
        return listed if replicas == 1 else None
    return tuple(
        tuple(replica * partitions + partition for partition in group)
        for replica in range(replicas)
        for group in listed
    )


def connected_devices(pairs: Groups) -> Groups:
    """Return groups of devices that transfers connect, directly or through other devices.

    Groups and their members are in ascending order. A device that only sends to itself is a group
    of one.

    Args:
        pairs: Source and target of each transfer.

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
