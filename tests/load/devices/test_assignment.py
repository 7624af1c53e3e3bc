"""Device assignments of dumps."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.load.devices import device_assignment, slices_of
from hlo_lens.load.module import already_read
from hlo_lens.text.dump_kinds import DumpKind


def test_devices_are_read_by_replica_and_partition() -> None:
    columns = "".join(
        f"  computation_devices {{\n    replica_device_ids: {i}\n    replica_device_ids: {i + 4}\n"
        "  }\n"
        for i in (0, 1, 3, 2)
    )
    text = f"num_replicas: 2\ndevice_assignment {{\n  replica_count: 2\n{columns}}}\nx: 1\n"
    dump = hlo_lens.ModuleDump(name="m", kind=DumpKind.BUFFER_ASSIGNMENT)
    dump.settings = {"execution_options.txt": already_read(text)}
    assert device_assignment(dump) == ((0, 1, 3, 2), (4, 5, 7, 6))


@pytest.mark.parametrize(
    ("assignment", "slices"),
    [
        ([[0, 1, 2, 3]], ((0, 1, 2, 3),)),
        ([[200001, 200000, 100001, 100000]], ((2, 3), (0, 1))),
        ([[100000, 200000], [100001, 200001]], ((0, 2), (1, 3))),
    ],
)
def test_slices_have_the_devices_of_their_ids_in_the_order_of_the_program(
    assignment: list[list[int]], slices: tuple[tuple[int, ...], ...]
) -> None:
    assert slices_of(assignment) == slices
