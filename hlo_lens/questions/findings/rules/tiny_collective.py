"""A collective with a tiny payload runs many times.

What:
    A loop, or one line 16 times and more, runs collectives whose payload is so small that starting
    them takes longer than moving their bytes. XLA combines those that do not need each other.

Why it costs:
    Each run costs the latency of the network, whatever its size: 32 to 97 us for 1 KiB between the
    eight GPUs of one H100 host (XLA's default_collective_perf_table.txtpb), and devices wait for
    each other. 200 of them are some 10 ms in each step.

Fix:
    Compute the value once after the loop (sum the partial results, then reduce once), or combine
    several: lax.psum takes a tuple of arrays.

Fine when:
    The reduced value is needed before the next, as a norm over a sharded dimension is; or the loop
    is short. Fewer than 128 runs, and dumps of a CPU, are an info.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.program.summary import backend_of_dump
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.findings.finding import Saves, Severity
from hlo_lens.questions.findings.rule import ModuleRule
from hlo_lens.questions.findings.values import by_line, finding_of, subject
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.findings.finding import Finding

TINY_BYTES = 16 * 1024
"""Largest tiny payload: on H100, XLA's tables give it the time of 1 KiB."""

MANY_RUNS = 32
"""Fewest runs in one run of the program that are many."""

MANY_IN_A_ROW = 16
"""Fewest collectives of one line, outside of loops, that are many."""

WARNING_RUNS = 128
"""Fewest runs that are worth a warning: 4 ms and more between the GPUs of an H100 host."""


def tiny_collective(known: ModuleDump) -> Iterator[Finding]:
    """Yield a finding for each line with tiny collectives in a loop."""
    is_quick = backend_of_dump(known) == "cpu"
    tiny = [one for one in collectives(known).collectives if _is_tiny(one)]
    in_loops = [one for one in tiny if one.loop_path]
    others = [one for one in tiny if not one.loop_path]
    for found, least in (
        *((group, MANY_RUNS) for group in by_line(in_loops)),
        *((group, MANY_IN_A_ROW) for group in by_line(others)),
    ):
        runs = sum(one.dynamic_count or 0 for one in found)
        if runs < least:
            continue
        size = format_bytes(max(one.payload_bytes or 0 for one in found))
        how = f"{runs:,} runs in a loop" if found[0].loop_path else "one after another"
        yield finding_of(
            found,
            f"{subject(found)} of at most {size}, {how}",
            "reduce once after the loop, or several arrays with one lax.psum",
            saves=Saves(),
            severity=Severity.INFO if is_quick or runs < WARNING_RUNS else Severity.WARNING,
        )


def _is_tiny(one: Collective) -> bool:
    return (
        not one.moves_nothing
        and not one.is_host_transfer
        and one.payload_bytes is not None
        and one.payload_bytes <= TINY_BYTES
    )


RULE = ModuleRule("C002", tiny_collective)
