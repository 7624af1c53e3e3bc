"""Processes of one job compiled different programs.

What:
    The folders of several processes have a compile of the same name and order whose instructions
    differ.

Why it costs:
    Processes of one job must run the same program. Collectives that do not match wait for each
    other forever, or mix up data: a job that hangs in its first step.

Fix:
    Remove what depends on the process: jax.process_index() in shapes, the iteration order of sets
    and dictionaries, random seeds from time, files or flags that only one host has. hlo-lens ls
    DIR prints the first instruction that differs.

Fine when:
    The processes are stages of a pipeline, which run programs of their own on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.questions.findings.finding import Finding, Severity
from hlo_lens.questions.findings.rule import DumpRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.dumps.listing import ListingFacts


def different_hosts(modules: Sequence[ListingFacts]) -> Iterator[tuple[int, Finding]]:
    """Yield a finding for each program that differs between processes."""
    if len({one.folder for one in modules}) < 2:
        return  # without importing the comparison
    from hlo_lens.questions.dumps.listing import has_processes
    from hlo_lens.questions.dumps.processes import DIFFERENT, across_processes

    for program in across_processes(modules).programs if has_processes(modules) else ():
        if program.verdict != DIFFERENT or program.modules is None:
            continue
        yield (
            program.modules[1],
            Finding(
                message=f"{program.name} of {program.odd} is not that of {program.having[0]}",
                fix="remove what depends on the process: jax.process_index() in shapes, the order "
                "of sets, seeds from time",
                values=(program.name,),
                evidence=(f"{program.processes} processes have it",),
                severity=Severity.ERROR,
            ),
        )


RULE = DumpRule("X005", different_hosts)
