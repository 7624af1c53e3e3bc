"""Which backend a module was compiled for: as framework, text or file names tell, in this order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.program.summary import backend_of_text

if TYPE_CHECKING:
    from hlo_lens.analysis.program.summary import Summary
    from hlo_lens.model.dump import ModuleDump


def backend_of(dump: ModuleDump, facts: Summary) -> str | None:
    """Return the backend that framework or text tell, else the one in the names of the files."""
    return _backend_told(dump) or facts.backend or _backend_of_names(dump)


def backend_of_dump(dump: ModuleDump) -> str | None:
    """Return the same where no facts are known yet."""
    module = dump.hlo
    told = _backend_told(dump)
    if told is None and module is not None:
        told = backend_of_text(module, range(len(module.columns)))
    return told or _backend_of_names(dump)


def _backend_told(dump: ModuleDump) -> str | None:
    return None if dump.framework is None else dump.framework.backend


def _backend_of_names(dump: ModuleDump) -> str | None:
    """Return the backend of the stage's name; only libtpu's files have a change list in theirs."""
    stage = dump.stage or ""
    if "cpu_" in stage:
        return "cpu"
    if "gpu_" in stage:
        return "gpu"
    return "tpu" if any(".cl_" in file for file in dump.files) else None
