"""Script of the worker, run by any Python: ``python worker/__main__.py REQUEST.json RESULT.json``.

The keys of both are those of `CompileRequest` and `Compilation`. Nothing of the program runs.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
import time
from typing import Any

if not __package__:  # a script: import this folder as a package, without hlo_lens
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 # before pathlib is imported
    __package__ = "worker"
    importlib.import_module(__package__)
    del sys.path[0]  # its other modules have names of modules that jax may import

from .compile_options import compile_options
from .jaxlib_names import WorkerError, find, has
from .mlir_program import mlir_module
from .target_devices import assigned, target_devices

_PACKAGES = (
    "jax",
    "jaxlib",
    "libtpu",
    "jax-cuda12-pjrt",
    "jax-cuda13-pjrt",
    "nvidia-cuda-nvcc-cu12",
)


def _versions() -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _compile(client: Any, module: Any, devices: list[Any], options: Any) -> Any:
    """Return the executable, by whichever method this version has."""
    compile_ = getattr(client, "compile_and_load", None)
    if type(client).__name__ == "CompileOnlyPyClient" or compile_ is None:
        compile_ = client.compile
    from jax._src.interpreters import mlir

    listed = find("DeviceList")(tuple(devices)) if has("DeviceList") else None
    bytecode = mlir.module_to_bytecode(module)
    refused: object = None
    for program in (module, bytecode):
        for given in ((listed, options), (options,)):
            try:
                return compile_(program, *given)
            except TypeError as error:
                refused = error
    raise WorkerError("compile", refused)


def _memory(executable: Any) -> dict[str, int]:
    try:
        stats = executable.get_compiled_memory_stats()
    except Exception:  # a version or backend that has none
        return {}
    names = (name for name in dir(stats) if name.endswith("_in_bytes"))
    return {name: value for name in names if isinstance(value := getattr(stats, name), int)}


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    began = time.monotonic()
    try:
        importlib.import_module("jax")
    except Exception as error:
        raise WorkerError("import", error) from error
    module, dropped = mlir_module(request)
    try:
        devices = target_devices(request)
        ids = assigned(request, devices)
    except WorkerError:
        raise
    except Exception as error:
        raise WorkerError("target", error) from error
    by_id = {device.id: device for device in devices}
    used = [by_id[i] for row in ids for i in row]
    try:
        options = compile_options(request, ids)
    except Exception as error:
        raise WorkerError("options", error) from error
    try:
        executable = _compile(used[0].client, module, used, options)
    except Exception as error:
        raise WorkerError("compile", error) from error
    return {
        "device_kind": used[0].device_kind,
        "devices": len(devices),
        "memory_analysis": _memory(executable),
        "dropped_attributes": dropped,
        "compile_seconds": time.monotonic() - began,
    }


def main() -> None:
    """Compile what the request names and write the result."""
    with open(sys.argv[1], encoding="utf-8") as opened:  # noqa: PTH123 # see above
        request = json.load(opened)
    result: dict[str, Any] = {"versions": _versions()}
    try:
        result.update(run(request))
    except WorkerError as error:
        result.update(step=error.step, error=str(error))
    with open(sys.argv[2], "w", encoding="utf-8") as opened:  # noqa: PTH123 # see above
        json.dump(result, opened)


if __name__ == "__main__":
    main()
