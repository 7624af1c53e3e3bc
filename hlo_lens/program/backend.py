"""Backend that a module was compiled for, from framework, HLO text or file names, in this order.

The text does not name its backend. Evidence: TPU layouts have tiles (``T(8,128)``), GPU and CPU
instructions have backend_config keys and custom-call targets of their own. Unoptimized text has
none of these, and small optimized CPU text may have none. Marks are searched in the header and in
`_SAMPLES` evenly spread instructions. Source: XLA's backend_configs.proto files, and dumps of
jaxlib 0.4.13 to 0.12.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import END, SHAPE
from hlo_lens.load.fact import fact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump

_SAMPLES = 4096
_TOGETHER = 256

_MARKS = {
    "tpu": (
        "{1,0:T(",
        "{0:T(",
        "[]{:T(",
        '"aliasing_operands":{',
        '"scoped_memory_configs":[',
        'custom_call_target="AsyncCollectiveStart"',
        'custom_call_target="tpu_custom_call"',
    ),
    "gpu": (
        '"operation_queue_id":',
        '"fusion_backend_config":{',
        '"collective_backend_config":{',
        '"device_type":"DEVICE_TYPE_',
        '"gemm_backend_config":{',
        'custom_call_target="__cu',
        'custom_call_target="__triton',
    ),
    "cpu": (
        '"outer_dimension_partitions":[',
        '"fusion_config":{"kind":"__',
        'custom_call_target="__onednn',
        'custom_call_target="__xla_cpu',
    ),
}
"""Texts printed by one backend only; before mid-2023 the quotes in them were escaped."""


@fact
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


def backend_of_text(module: HloModule, rows: Sequence[int]) -> str | None:
    """Return the only backend whose marks are in the header or in some of these rows."""
    if any(":T(" in value for value in module.header.values()):
        return "tpu"
    step = len(rows) // _SAMPLES + 1
    columns = module.columns
    sample = rows[::step]
    found: set[str] = set()
    for first in range(0, len(sample), _TOGETHER):
        texts = [columns.text(row, SHAPE, END) for row in sample[first : first + _TOGETHER]]
        whole = "\n".join(texts).replace('\\"', '"')
        for backend, marks in _MARKS.items():
            if backend not in found and any(mark in whole for mark in marks):
                found.add(backend)
    return next((backend for backend in _MARKS if backend in found), None)
