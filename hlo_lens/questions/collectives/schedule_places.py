"""Instants of collectives in the flattened schedule, and the instructions that overlap each.

A collective inside a fusion or an async computation has the instant of the instruction that runs
it. Overlapping instructions are those that `overlap` counts: between start and end, with work of
their own.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.query import rows_named
from hlo_lens.load.fact import fact
from hlo_lens.program.flops import NO_WORK, WorkFinder
from hlo_lens.program.runs import CallCounts, call_counts
from hlo_lens.program.summary import instruction_table
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.results import memory_results

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective

_DEEPEST = 16
"""Callers that are followed from a collective to an instruction of the schedule."""

_MOST_WORK = 20_000
"""Overlapping instructions that are listed, of all collectives together."""


class SchedulePlace(NamedTuple):
    """Place of a collective in the schedule.

    Attributes:
        start: Instant of the instruction that starts it with its operands; None where not known.
        end: Instant of the instruction that ends it; that of the start if there is none.
        work: Names of the instructions with work between them; None beyond the limit.
    """

    start: int | None
    end: int | None
    work: tuple[str, ...] | None = ()


@fact
def schedule_places(module: ModuleDump) -> list[SchedulePlace]:
    """Return the places of a module's collectives, in their order.

    Without a known schedule they have no instants.
    """
    table, calls, found = instruction_table(module), call_counts(module), collectives(module)
    memory = memory_results(module)
    schedule = () if memory is None else memory.layout.schedule or ()
    ends = {one.ended_by for one in found.collectives if one.ended_by}
    rows = {name: row for row, name in rows_named(table.module, ends)}
    instants = {name: instant for instant, name in reversed(list(enumerate(schedule)))}
    finder, left = WorkFinder(table, calls), _MOST_WORK
    places = []
    for one in found.collectives:
        start = _instant(_sender(one, table), one.computation, calls, instants)
        end = instants.get(one.ended_by) if one.ended_by else start
        work = _work(one, rows, table, finder) if one.overlap_instructions else ()
        left -= len(work)
        places.append(SchedulePlace(start, end, work if left >= 0 else None))
    return places


def _sender(one: Collective, table: InstructionTable) -> str:
    """Return the name of the instruction that starts a collective with its operands."""
    return one.name if one.start_row is None else table.instruction(one.start_row).name


def _instant(
    name: str, computation: str, calls: CallCounts, instants: Mapping[str, int]
) -> int | None:
    """Return the instant of an instruction, or of the one that runs its computation."""
    for _ in range(_DEEPEST):
        if name in instants:
            return instants[name]
        sites = calls.sites(computation)
        if not sites:
            return None
        name, computation = sites[0].caller.name, sites[0].caller.computation.name
    return None


def _work(
    one: Collective, rows: Mapping[str, int], table: InstructionTable, finder: WorkFinder
) -> tuple[str, ...]:
    """Return the names of the instructions with work between start and end."""
    start, end = one.start_row, rows.get(one.ended_by or "")
    if start is None or end is None:
        return ()
    inside = table.module.computations[table.owners[start]].rows
    between = inside[bisect_left(inside, start) + 1 : bisect_left(inside, end)]
    return tuple(table.module.columns.names([r for r in between if finder.of(r) != NO_WORK]))
