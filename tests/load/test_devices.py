"""Devices: targets by name and from files of dumps, assignments, places in TPU slices."""

from __future__ import annotations

import math

import pytest

import hlo_lens
from hlo_lens.load.devices import (
    CPU,
    ChipPlace,
    all_slices,
    device_assignment,
    device_count,
    gpu_names,
    gpu_target,
    gpu_topology,
    parse_target,
    slices_of,
    topology_arguments,
    topology_of,
    tpu_target,
    usual_gpu,
    usual_tpu,
)
from hlo_lens.load.module import already_read
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.errors import UnknownNameError, UsageError

ARGUMENTS = """\
tpu_topology_args {
  version: TPU_VERSION_VIPERFISH
  variant: "lite"
  chip_config_name: "default"
  chips_per_host_bounds { x: 2 y: 2 z: 1 }
  host_bounds { x: 1 y: 2 z: 1 }
  wrap { }
}
"""


def test_tpu_of_a_dump_has_its_shape_and_hosts() -> None:
    found = tpu_target(ARGUMENTS)
    assert found is not None
    assert (found.topology, found.options) == ("v5e:2x4", {"chips_per_host_bounds": [2, 2, 1]})


def test_variant_wrap_and_cores_of_a_dump_count() -> None:
    found = tpu_target(
        ARGUMENTS.replace('  variant: "lite"\n', "").replace("wrap { }", "wrap { x: true z: true }")
    )
    assert found is not None
    assert found.topology == "v5p:2x4x1"
    assert found.options["wrap"] == [True, False, True]
    assert tpu_target(ARGUMENTS.replace("VIPERFISH", "UNHEARD_OF")) is None


_BOUNDS = r"*\006\010\002\020\002\030\0012\006\010\002\020\002\030\004"
_WRAPS = r":\006\010\001\020\001\030\001"
_OF_PJRT = rf'value: "\n%\010\004\030\001\"\007default{_BOUNDS}{_WRAPS}H\001X\001"'


@pytest.mark.parametrize(
    ("text", "name", "wraps"),
    [
        (_OF_PJRT, "v5p:4x4x4", True),
        (_OF_PJRT.replace(r"004\030", r"004\022\004lite\030", 1), "v5e:4x4", True),
        (_OF_PJRT.replace(_WRAPS, r":\000"), "v5p:4x4x4", False),
    ],
)
def test_a_slice_is_known_from_the_topology_of_pjrt(text: str, name: str, wraps: bool) -> None:
    arguments = topology_arguments(text)
    assert arguments is not None
    found = tpu_target(arguments)
    assert found is not None
    assert (found.name, "wrap" in found.options) == (name, wraps)


@pytest.mark.parametrize(
    "text", ["", 'value: "\\n"', 'value: "\\x"', _OF_PJRT.replace("004", "077", 1)]
)
def test_a_damaged_topology_is_not_known(text: str) -> None:
    assert topology_arguments(text) is None


def test_the_usual_gpu_of_an_architecture_has_no_known_memory() -> None:
    usual = usual_gpu("sm_9.0")
    assert usual is not None
    assert (usual.name, usual.memory_bytes) == ("h100_sxm", None)
    assert usual_gpu("sm_1.0") is None


@pytest.mark.parametrize(("devices", "name"), [(1, "v5e:1x1"), (3, "v5e:2x2"), (8, "v5e:2x4")])
def test_the_usual_tpu_has_enough_devices(devices: int, name: str) -> None:
    usual = usual_tpu(devices)
    assert usual is not None
    assert (usual.name, usual.memory_bytes) == (name, None)


def test_two_slices_are_counted() -> None:
    text = f"multislice_topology {{ slice_info {{ {ARGUMENTS} }} slice_info {{ {ARGUMENTS} }} }}"
    found = tpu_target(text)
    assert found is not None
    assert (found.name, found.options["num_slices"]) == ("v5e:2x4*2", 2)


def test_slices_of_multiples_of_four_wrap() -> None:
    assert parse_target("v5p:4x4x8").options == {"wrap": [True, True, True]}
    assert parse_target("v5p:2x2x1").options == {}
    assert parse_target("v5e:4x4*2").options == {"num_slices": 2}


def test_every_shipped_gpu_has_a_memory() -> None:
    assert "h100_sxm" in gpu_names()
    for name in gpu_names():
        assert (parse_target(name).memory_bytes or 0) > 10 << 30


def test_hosts_of_a_gpu_have_at_most_eight_devices() -> None:
    target = gpu_target("device_memory_size: 5")
    assert [gpu_topology(target, n) for n in (1, 8, 16)] == ["1x1x1", "1x1x8", "1x2x8"]
    assert gpu_topology(parse_target("h200:1x4x4"), 8) == "1x4x4"


def test_unknown_names_are_errors() -> None:
    assert parse_target("cpu") is CPU
    with pytest.raises(UnknownNameError, match="h100_sxm"):
        parse_target("v9:2x2")
    with pytest.raises(UsageError, match="dimensions"):
        parse_target("v5p:2x4")
    with pytest.raises(UsageError, match="v5e:2x2"):
        parse_target("v5e")


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


SLICE_ARGUMENTS = """tpu_topology_args {
  version: TPU_VERSION_VIPERFISH
  chips_per_host_bounds { x: 2 y: 2 z: 1 }
  host_bounds { x: 2 y: 2 z: 4 }
  wrap { x: true y: true }
}
"""


@pytest.mark.parametrize(
    ("name", "device", "place"),
    [  # as [(d.id, d.coords, d.core_on_chip) for d in get_topology_desc(...).devices] prints
        ("v5p:4x4x4", 1, ChipPlace(0, 1, 0, 0, 0)),
        ("v5p:4x4x4", 4, ChipPlace(0, 0, 1, 0, 0)),
        ("v5p:4x4x4", 16, ChipPlace(0, 0, 0, 1, 0)),
        ("v5e:4x8", 5, ChipPlace(0, 1, 1, 0, 0)),
        ("tpu7x:4x4x4", 3, ChipPlace(0, 1, 0, 0, 1)),
        ("v5e:2x4*2", 200_003, ChipPlace(2, 1, 1, 0, 0)),
    ],
)
def test_ids_are_chips(name: str, device: int, place: ChipPlace) -> None:
    found = topology_of(parse_target(name), [[device]])
    assert found is not None
    assert found.places == (place,)


def test_every_device_has_a_place_of_its_own() -> None:
    found = topology_of(parse_target("tpu7x:4x4x4"), [list(range(128))])
    assert found is not None
    assert found.sizes == (4, 4, 4)
    assert len(set(found.places)) == math.prod(found.sizes) * 2


def test_wraps_are_those_of_the_dump() -> None:
    target = tpu_target(SLICE_ARGUMENTS)
    assert target is not None
    found = topology_of(target, [[0]])
    assert found is not None
    assert (found.name, found.sizes, found.wraps) == ("v5p:4x4x4", (4, 4, 4), (True, True, False))


@pytest.mark.parametrize("devices", [[[8]], [[0, 0]], [[]]])
def test_ids_that_do_not_fit_have_no_places(devices: list[list[int]]) -> None:
    assert topology_of(parse_target("v5e:2x4"), devices) is None


@pytest.mark.parametrize("name", ["cpu", "h100_sxm:1x1x8"])
def test_others_have_no_topology(name: str) -> None:
    assert topology_of(parse_target(name), [[0]]) is None


def test_slices_of_a_kind_are_in_the_order_of_their_size() -> None:
    counts = [device_count(one) for one in all_slices("v5e:*")]
    assert counts[:4] == [1, 4, 8, 16]
    assert [device_count(one) for one in all_slices("h100_sxm:*")][:5] == [1, 2, 4, 8, 16]
    assert device_count(parse_target("tpu7x:2x2x1")) == 8
