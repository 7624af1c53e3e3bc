"""The program was compiled for a TPU mesh without wraparound links, which real slices have.

What:
    target_arguments of the dump describe a slice of 4x4x4 chips or more whose axes do not wrap.
    Slices of v4, v5p and 7x of this size are tori: each axis is a ring.

Why it costs:
    Nothing in memory; but XLA chooses the algorithms of collectives for another network, and each
    of them takes up to twice as long as on the torus. Code and estimates of time are not those of
    the real slice.

Fix:
    Name the wraparound in the topology: jax.experimental.topologies.get_topology_desc(
    "v5p:4x4x4", "tpu", wrap=(True, True, True)). what-if --target v5p:4x4x4 does so.

Fine when:
    Only memory is of interest; or the slice really has no wraparound. Without collectives it is an
    info.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.load.devices import TARGET_ARGUMENTS, tpu_target
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.findings.finding import Finding, Severity
from hlo_lens.questions.findings.rule import ModuleRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump

_DIMENSIONS, _LEAST = 3, 4
_SIZES = re.compile(r"\d+")


def mesh_topology(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for a slice whose axes should wrap."""
    text = known.setting(TARGET_ARGUMENTS)
    target = None if text is None else tpu_target(text)
    if target is None or "wrap" in target.options:
        return
    kind, _, shape = target.topology.partition(":")
    sizes = [int(one) for one in _SIZES.findall(shape)]
    if len(sizes) != _DIMENSIONS or min(sizes) < _LEAST or any(one % _LEAST for one in sizes):
        return
    options = f'"{kind}:{shape}", "tpu", wrap=(True, True, True)'
    yield Finding(
        message=f"compiled for {target.name} without wraparound links; a real slice is a torus",
        fix=f"get_topology_desc({options})",
        evidence=(f"{TARGET_ARGUMENTS} of the dump has no axis that wraps",),
        severity=Severity.WARNING if collectives(known).collectives else Severity.INFO,
    )


RULE = ModuleRule("X004", mesh_topology)
