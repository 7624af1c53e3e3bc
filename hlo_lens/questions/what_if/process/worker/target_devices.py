"""Devices of a target, none of which need exist."""

from __future__ import annotations

import re
from typing import Any

from .jaxlib_names import WorkerError

_NEWER_FIELDS = (
    ("mem_clock_ghz", "reserved_shared_memory_per_block", "max_blocks_per_multiprocessor"),
    ("collective_memory_granularity", "device_interconnect_info", "feature_extension"),
    ("scalar_unit_description", "matrix_unit_description", "l1_cache_size_per_sm"),
    (
        *(f"thread_dim_limit_{axis}" for axis in "xyz"),
        *("device_vendor", "platform_version", "model_str", "device_address_bits"),
        *("pcie_bandwidth", "ecc_enabled", "name", "driver_version", "runtime_version"),
        *("compile_time_toolkit_version", "dnn_version", "cub_version"),
    ),
)
"""Fields of a GPU target configuration that older plugins lack, the newest first."""


def target_devices(request: dict[str, Any]) -> list[Any]:
    """Return the devices of the target; none of them need exist."""
    import jax

    if request["backend"] == "cpu":
        return list(jax.devices("cpu"))
    from jax.experimental import topologies

    options = dict(request["topology_options"])
    if request["backend"] == "tpu":
        options = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
        found = topologies.get_topology_desc(
            platform="tpu", topology_name=request["topology"], **options
        )
        return list(found.devices)
    config = request["gpu_config"]
    for fields in ((), *_NEWER_FIELDS):
        for field in fields:
            config = _without_field(config, field)
        try:
            found = topologies.get_topology_desc(
                platform="cuda",
                topology_name="",
                target_config=config,
                topology=request["topology"],
            )
        except Exception as error:
            if "GpuTargetConfig" not in str(error) or fields is _NEWER_FIELDS[-1]:
                raise
        else:
            return list(found.devices)
    return []


def _without_field(text: str, name: str) -> str:
    """Return a text proto without a field, whether a value or a message of up to three levels."""
    inner = r"\{[^{}]*\}"
    for _ in range(3):
        inner = rf"\{{(?:[^{{}}]|{inner})*\}}"
    return re.sub(rf"(?m)^\s*{name}(?::[^\n]*|\s*{inner})\n?", "", text)


def assigned(request: dict[str, Any], devices: list[Any]) -> list[list[int]]:
    """Return the device ids by replica and partition."""
    replicas, partitions = request["replicas"], request["partitions"]
    known = sorted(device.id for device in devices)
    given: list[list[int]] | None = request["assignment"]
    if given is not None and {i for row in given for i in row} <= set(known):
        return given
    if replicas * partitions > len(known):
        raise WorkerError(
            "target",
            f"it has {len(known)} devices, the program needs {replicas * partitions}",
        )
    return [known[k * partitions : (k + 1) * partitions] for k in range(replicas)]
