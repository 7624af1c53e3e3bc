"""Targets of compiles by name, and from the files of dumps."""

from __future__ import annotations

import pytest

from hlo_lens.load.devices import CPU, gpu_names, gpu_target, gpu_topology, parse_target, tpu_target
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
