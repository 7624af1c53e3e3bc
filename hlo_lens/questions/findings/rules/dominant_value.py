"""One temporary value is more than half of the memory at the peak.

What:
    A single temporary holds more than half of all bytes at the peak.

Why it costs:
    The peak is this value. A program that does not fit because of one value is rarely short of
    capacity: the value is larger than intended, for example logits of a whole batch, a gather that
    became dense, or an array that lost its sharding. The saving is its size; what
    is computed from it may be divided too.

Fix:
    Divide it: with_sharding_constraint where it is made; or make it in parts with lax.map or
    lax.scan over chunks, for example the loss over chunks of the sequence.

Fine when:
    The program is small, and fits: below 1 GiB at the peak it is an info.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Finding, Saves, Severity, at
from hlo_lens.questions.findings.rule import PEAK, ModuleRule
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump

_SHARE = 0.5
_LEAST_BYTES = 1 << 20
_WARNING_BYTES = 1 << 30
_MOST_VALUES = 16
"""Limit on the values at the peak that are examined, largest first."""


def dominant_value(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for the value, if there is one."""
    memory = memory_results(known)
    peak = None if memory is None else memory.peak
    if peak is None or peak.total_bytes < _LEAST_BYTES:
        return
    for one in peak.live[:_MOST_VALUES]:
        if one.category != "temp" or one.owned_bytes <= _SHARE * peak.total_bytes:
            continue
        origin = peak.origin_of(one)
        share = round(100 * one.owned_bytes / peak.total_bytes)
        yield Finding(
            message=(
                f"{one.value} {one.shape.partition('{')[0]} holds {format_bytes(one.owned_bytes)}, "
                f"{share}% of the memory at the peak"
            ),
            fix="divide it with jax.lax.with_sharding_constraint where it is made, or make it in "
            "parts with jax.lax.map",
            **at(origin.place),
            values=(one.value,),
            evidence=(f"operation {origin.op_name}",) if origin.op_name else (),
            saves=Saves.up_to(one.owned_bytes),
            severity=Severity.INFO if peak.total_bytes < _WARNING_BYTES else None,
            has_cost=True,
        )


RULE = ModuleRule("M011", dominant_value, PEAK)
