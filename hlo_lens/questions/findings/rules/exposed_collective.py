"""Devices wait for a collective in a loop: no work overlaps the transfer.

What:
    In a loop, a collective runs while nothing else does, or the work between its start and its end
    is too small to last as long as the transfer.

Why it costs:
    The transfer adds to the time of each trip. The saving in bytes of memory or on the wire is
    none; the message has the bytes that are not covered.

Fix:
    Let XLA overlap it: --xla_gpu_enable_latency_hiding_scheduler=true on GPU (TPU's compiler does
    it by default); unroll the scan by two, so that the next layer's weights are gathered while this
    layer computes; or gather less (another axis, a smaller type).

Fine when:
    The value is needed at once, and nothing else could run. On CPU every collective is synchronous,
    so this rule does not look at CPU dumps. It is an info: what overlaps depends on times that the
    dump does not have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.program.summary import backend_of_dump
from hlo_lens.questions.collectives.collective import UNCOVERED, collectives, known_sum
from hlo_lens.questions.findings.finding import Saves, Severity
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import bound_text, by_line, finding_of, subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding

_LEAST_SHARE = 0.05
"""Least share of the bytes of one run that a line leaves uncovered."""


def exposed_collective(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line whose collectives in loops are not covered by work."""
    found = collectives(known)
    total = found.known_wire_bytes
    if backend_of_dump(known) == "cpu" or not found.is_scheduled or not total.most:
        return
    whole = "all bytes sent"
    if found.wire_bytes_per_device is None:
        whole = "the bytes sent that are known"
    elif total.is_at_most:
        whole = "the most that is sent"
    exposed = (one for one in found.collectives if one.loop_path and one.is_exposed)
    for group in by_line(exposed):
        uncovered = known_sum(group, UNCOVERED)
        if uncovered.most < _LEAST_SHARE * total.most:
            continue
        one = finding_of(
            group,
            f"{subject(group)} in a loop: {bound_text(uncovered)} of one run, "
            f"{uncovered.most / total.most:.0%} of {whole}, are not covered by work",
            "let XLA overlap it (latency hiding scheduler; scan(..., unroll=2)), or move less",
            saves=Saves(),
            severity=Severity.INFO,
        )
        yield replace(one, axes=group[0].axes or ())


RULE = ModuleRule("C001", exposed_collective)
