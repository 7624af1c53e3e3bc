"""Groups of devices from groups of ids."""

from __future__ import annotations

import pytest

from hlo_lens.model.shapes.replica_groups import CollectiveOpGroupMode as Mode
from hlo_lens.model.shapes.replica_groups import Groups, connected_devices, device_groups


@pytest.mark.parametrize(
    ("mode", "listed", "replicas", "partitions", "groups"),
    [
        (Mode.FLATTENED_ID, ((0, 3), (1, 2)), 2, 2, ((0, 3), (1, 2))),
        (Mode.FLATTENED_ID, (), 2, 2, None),
        (Mode.CROSS_REPLICA, (), 3, None, ((0, 1, 2),)),
        (Mode.CROSS_REPLICA, ((1, 0),), 2, 2, ((2, 0), (3, 1))),
        (Mode.CROSS_PARTITION, ((0, 1),), 1, None, ((0, 1),)),
        (Mode.CROSS_PARTITION, ((0, 1),), 2, None, None),
        (Mode.CROSS_PARTITION, (), 1, None, None),
        (Mode.CROSS_PARTITION, (), 2, 2, ((0, 1), (2, 3))),
        (Mode.CROSS_REPLICA_AND_PARTITION, ((0,),), 1, 4, ((0, 1, 2, 3),)),
        (Mode.CROSS_REPLICA_AND_PARTITION, ((0,), (1,)), 2, 2, ((0, 1), (2, 3))),
        (Mode.CROSS_REPLICA_AND_PARTITION, (), 2, 2, ((0, 1, 2, 3),)),
        (Mode.CROSS_REPLICA_AND_PARTITION, ((0,),), 1, None, None),
        (Mode.CROSS_REPLICA, (), 10**12, None, None),
        (Mode.CROSS_REPLICA, ((0, 1),), 2, 10**12, None),
        (Mode.CROSS_PARTITION, ((0, 1),), 10**12, 2, None),
    ],
)
def test_ids_mean_what_the_mode_says(
    mode: Mode, listed: Groups, replicas: int, partitions: int | None, groups: Groups | None
) -> None:
    assert device_groups(listed, mode, replicas, partitions) == groups


@pytest.mark.parametrize(
    ("pairs", "groups"),
    [
        ((), ()),
        (((0, 0),), ((0,),)),
        (((0, 1), (1, 2), (2, 3), (3, 0)), ((0, 1, 2, 3),)),
        (((0, 4), (4, 0), (1, 5)), ((0, 4), (1, 5))),
        (((0, 1), (2, 3), (3, 1)), ((0, 1, 2, 3),)),
    ],
)
def test_transfers_connect_devices(pairs: Groups, groups: Groups) -> None:
    assert connected_devices(pairs) == groups
