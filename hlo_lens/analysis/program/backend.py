"""Backend that a module was compiled for, from framework, HLO text or file names, in this order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.program.summary import backend_of_text

if TYPE_CHECKING:
    from hlo_lens.model.dump import ModuleDump


def backend_of_dump(dump: ModuleDump) -> str | None:
    """Return ``cpu``, ``gpu``, ``tpu``, or None if neither framework, text nor names show it."""
    if dump.framework is not None and dump.framework.backend is not None:
        return dump.framework.backend
    module = dump.hlo
    found = None if module is None else backend_of_text(module, range(len(module.columns)))
    return found or _backend_of_names(dump)


def _backend_of_names(dump: ModuleDump) -> str | None:
    """Return the backend in the stage's name; only file names of libtpu contain a change list."""
    stage = dump.stage or ""
    if "cpu_" in stage:
        return "cpu"
    if "gpu_" in stage:
        return "gpu"
    return "tpu" if any(".cl_" in file for file in dump.files) else None
