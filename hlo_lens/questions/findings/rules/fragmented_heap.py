"""The heap of temporaries is fragmented: a tenth of the memory is between values.

What:
    XLA places temporaries in one heap. What must fit exceeds the bytes held at the peak by a tenth
    or more, because freed places are too small for the values that come later.

Why it costs:
    The memory between the values, on every device. The saving is "up to": XLA's placement is
    a heuristic, and a lower bound without any fragmentation may not exist.

Fix:
    Let values of one size follow each other: the same chunk sizes in loops, batch and sequence
    dimensions that are not changed slightly between layers (padding to one size). On GPU
    --xla_gpu_enable_while_loop_double_buffering=false keeps fewer copies. A newer XLA may place
    better: hlo-lens bisect compares versions.

Fine when:
    The program fits: where it takes at most four fifths of the memory of a device that is known,
    nothing is said. Below 64 MiB, or below a quarter of the memory, it is an info: no change of the
    program is known to avoid it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import PEAK, ModuleRule
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.statement import memory_amount
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump

_LEAST_SHARE = 0.1
_LEAST_BYTES = 1 << 20
_WARNING_BYTES, _WARNING_SHARE = 64 << 20, 0.25
_ROOMY = 0.8
"""Share of the memory of a device up to which a program fits with room."""


def fragmented_heap(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding if the heap has a large part that no value at the peak uses."""
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if memory is None or peak is None:
        return
    statement = memory.statement
    if not statement.is_exact and statement.source != "estimate":
        return  # a libtpu that counts fragmentation twice
    lost = next(
        (one.fragmentation_bytes for one in statement.spaces if one.color == peak.color), None
    )
    total = statement.total_bytes
    limit = statement.limit_bytes
    if limit is not None and total <= _ROOMY * limit:
        return
    least = max(_WARNING_BYTES, int(_WARNING_SHARE * total))
    if lost is None or lost < max(_LEAST_BYTES, _LEAST_SHARE * total):
        return
    free = memory_amount(statement, "fragmentation", lost).text(format_bytes)
    yield Finding(
        message=(
            f"{free} of the heap of temporaries ({format_bytes(statement.temp_bytes)}) is free at "
            "the peak, between values"
        ),
        fix="keep the sizes of values equal from layer to layer, so that they reuse each other's "
        "places",
        **at(peak.instruction_origin.place),
        values=() if peak.instruction is None else (peak.instruction,),
        saves=Saves.up_to(lost),
        severity=None if lost >= least else Severity.INFO,
    )


RULE = ModuleRule("M012", fragmented_heap, PEAK)
