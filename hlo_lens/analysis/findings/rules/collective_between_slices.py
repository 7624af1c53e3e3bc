"""A mesh axis crosses slices: its collectives use the data center network.

What:
    Transfers of the program go to other slices of a multi-slice TPU job.

Why it costs:
    The network between slices has a small part of the bandwidth of the links inside one (about
    6 GB/s against 90 GB/s and more for each chip of v5e; see the scaling book). What crosses it
    should be the axis that communicates least: data parallel gradients, once in each step.

Fix:
    Build the mesh with mesh_utils.create_hybrid_device_mesh, so that only the outermost data axis
    crosses slices, and keep model and fsdp axes inside one.

Fine when:
    It is the data axis, and its transfers are covered by work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.findings.finding import Saves, Severity
from hlo_lens.analysis.findings.rule import ModuleRule
from hlo_lens.analysis.findings.transfers import by_line, finding_of
from hlo_lens.analysis.result import sum_of
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.analysis.findings.finding import Finding
    from hlo_lens.analysis.module_analysis import ModuleAnalysis


def collective_between_slices(known: ModuleAnalysis) -> Iterator[Finding]:
    """Yield a finding for each line with transfers between slices."""
    crossing = (one for one in known.collectives.collectives if one.crosses_slices)
    for found in by_line(crossing):
        first = found[0]
        wire = sum_of(one.wire_bytes_per_run for one in found)
        size = "bytes not known" if wire is None else format_bytes(wire)
        axis = "" if first.axis in ("?", "-") else f" over {first.axis}"
        in_loop = any(one.loop_path for one in found)
        yield finding_of(
            found,
            f"{plural(len(found), first.performed_as or first.kind)}{axis} between slices: {size} "
            "of one run on the data center network",
            "let only the data axis cross slices (mesh_utils.create_hybrid_device_mesh)",
            saves=Saves(),
            severity=Severity.WARNING if in_loop else Severity.INFO,
        )


RULE = ModuleRule("C008", collective_between_slices)
