"""Options of one compile."""

from __future__ import annotations

import re
from typing import Any

from .jaxlib_names import find


def _flag(value: str) -> bool | int | str:
    if value in ("true", "false"):
        return value == "true"
    return int(value) if re.fullmatch(r"-?\d+", value) else value


def compile_options(request: dict[str, Any], ids: list[list[int]]) -> Any:
    """Return the compile options that jax itself uses, with those of a request."""
    import numpy

    assignment = numpy.array(ids)
    flags = {name: _flag(value) for name, value in request["flags"].items()}
    sizes = {"num_replicas": len(ids), "num_partitions": len(ids[0])}
    try:
        from jax._src.compiler import get_compile_options

        options = get_compile_options(
            **sizes, device_assignment=assignment, env_options_overrides=flags
        )
    except (ImportError, TypeError):  # a version with other arguments
        options = find("CompileOptions")()
        options.num_replicas, options.num_partitions = sizes.values()
        options.device_assignment = find("DeviceAssignment").create(assignment)
        options.env_option_overrides = list(flags.items())
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = sizes.values()
    build.device_assignment = options.device_assignment
    build.use_spmd_partitioning = request["uses_spmd"]
    if hasattr(build, "use_shardy_partitioner"):
        build.use_shardy_partitioner = request["uses_shardy"]
    for key in ("parameters", "output"):
        values = request[f"propagates_to_{key}"]
        if values is not None:
            setattr(build, f"allow_spmd_sharding_propagation_to_{key}", values)
    return options
