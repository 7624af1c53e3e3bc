"""Places of devices in TPU slices."""

from __future__ import annotations

import math

import pytest

from hlo_lens.load.devices import ChipPlace, parse_target, topology_of, tpu_target

ARGUMENTS = """tpu_topology_args {
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
    target = tpu_target(ARGUMENTS)
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
