"""Script: compiles variants of programs for targets, in one process; run by any Python with jax.

Usage: ``python -m tests.questions.what_if.compile_pairs REQUESTS.json``. Each request has
``program``, ``variant``, ``is_shardy``, ``flags``, ``folder`` and the device: ``backend``,
``topology``, ``topology_options`` and ``gpu_config`` as the worker of what-if takes them. Into each
folder go the dump (``dump/``) and the figures that jax gives (``figures.json``), or an error.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # not where the tests of this module are collected
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=16"
    os.environ.update(
        JAX_PLATFORMS="cpu",
        JAX_SKIP_CUDA_CONSTRAINTS_CHECK="1",
        TPU_SKIP_MDS_QUERY="1",
        TPU_WORKER_HOSTNAMES="localhost",
        TF_CPP_MIN_LOG_LEVEL="3",
    )

import jax

from hlo_lens.questions.what_if.worker import flag_value, target_devices
from tests.questions.what_if.pair_programs import PROGRAMS, Variant

FIGURES = ("argument", "output", "alias", "temp")


def compiled(request: dict[str, Any], devices: Any) -> dict[str, int]:
    """Compile a variant into its folder; return its figures."""
    jax.config.update("jax_use_shardy_partitioner", request["is_shardy"])
    variant = Variant(devices=devices, **request["variant"])
    function, arguments = PROGRAMS[request["program"]](variant)
    shutil.rmtree(request["folder"], ignore_errors=True)  # of a compile that failed
    dump = str(Path(request["folder"]) / "dump")
    flags = {name: flag_value(value) for name, value in request["flags"].items()}
    options = {"xla_dump_to": dump, "xla_dump_hlo_as_text": True, **flags}
    stats = function.lower(*arguments).compile(options).memory_analysis()
    return {name: getattr(stats, f"{name}_size_in_bytes") for name in FIGURES}


def main() -> None:
    """Compile all requests of a file."""
    known: dict[str, Any] = {}
    for request in json.loads(Path(sys.argv[1]).read_text("utf-8")):
        key = json.dumps([request[name] for name in ("topology", "gpu_config", "backend")])
        found: dict[str, Any]
        try:
            if key not in known:
                known[key] = target_devices(request)
            found = compiled(request, known[key])
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"[:2000]}
        folder = Path(request["folder"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "figures.json").write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main()
