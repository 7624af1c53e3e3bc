"""How often one run of a program runs each of its computations, and in which loops.

The entry runs once. A loop runs its body trip count times and its condition once more; a
conditional runs one of its branches, so that each counts once at most; a call, a fusion or an
async-start runs what it calls once. A computation with several callers runs as often as they make
it together. Unknown where a loop around it has no known trip count.

Computations that are applied to elements (reducers, comparators) are not told about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.program.trip_counts import TripCounts
    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.opcodes import OpcodeTraits
    from hlo_lens.model.hlo.query import InstructionTable

_CALLED = re.compile(r"\bcalls=\{?%?([\w.-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """One instruction that runs a computation.

    Attributes:
        caller: The instruction.
        role: ``body``, ``condition``, ``branch`` or ``call``.
        branch: Number of the branch of a conditional; None for other roles.
    """

    caller: HloInstruction
    role: str
    branch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """How often one run of the program runs a computation.

    Attributes:
        times: Number of runs; None where a trip count around it is not known.
        is_at_most: Whether a conditional decides, so that `times` is a bound.
        loop_path: Names of the loops around it, outermost first; of several callers, those of the
            first.
        known_times: The product of the trip counts that are known, for ``5 x ?``.
    """

    times: int | None
    is_at_most: bool = False
    loop_path: tuple[str, ...] = ()
    known_times: int = 1


ONCE = Runs(times=1)
_NEVER_CALLED = Runs(times=None)


class CallCounts:
    """How often computations run; found when asked for, and remembered.

    Args:
        table: Table of the module.
        trips: Its trip counts.
    """

    def __init__(self, table: InstructionTable, trips: TripCounts) -> None:
        self._table = table
        self._trips = {(trip.computation, trip.loop): trip.trip_count for trip in trips.loops}
        self._sites = _control_flow_sites(table)
        self._fusions: Mapping[str, list[CallSite]] | None = None
        self._found: dict[str, Runs] = {}

    def of(self, computation: str) -> Runs:
        """Return how often a computation runs; unknown for one that nothing calls."""
        if computation not in self._found:
            self._found[computation] = _NEVER_CALLED  # what a computation that calls itself sees
            self._found[computation] = self._counted(computation)
        return self._found[computation]

    def sites(self, computation: str) -> list[CallSite]:
        """Return the instructions that run a computation, in text order."""
        if computation in self._sites:
            return self._sites[computation]
        if computation == self._table.module.entry.name:
            return []
        if self._fusions is None:
            self._fusions = _fusion_sites(self._table)
        return self._fusions.get(computation, [])

    def trip_count(self, loop: HloInstruction) -> int | None:
        """Return the trip count of a while instruction; None if unknown."""
        return self._trips.get((loop.computation.name, loop.name))

    def _counted(self, computation: str) -> Runs:
        if self._table.module.entry.name == computation:
            return ONCE
        runs = [self._through(site) for site in self.sites(computation)]
        if not runs:
            return _NEVER_CALLED
        times = [run.times for run in runs]
        known = [time for time in times if time is not None]
        return Runs(
            times=sum(known) if len(known) == len(times) else None,
            is_at_most=any(run.is_at_most for run in runs),
            loop_path=runs[0].loop_path,
            known_times=max(run.known_times for run in runs),
        )

    def _through(self, site: CallSite) -> Runs:
        """Return how often one caller runs a computation."""
        around = self.of(site.caller.computation.name)
        if site.role in ("body", "condition"):
            trips = self.trip_count(site.caller)
            if trips is not None and site.role == "condition":
                trips += 1
            return Runs(
                times=_times(around.times, trips),
                is_at_most=around.is_at_most,
                loop_path=(*around.loop_path, site.caller.name),
                known_times=around.known_times * (1 if trips is None else trips),
            )
        if site.role == "branch":
            return Runs(
                times=around.times,
                is_at_most=True,
                loop_path=around.loop_path,
                known_times=around.known_times,
            )
        return around


def _times(outer: int | None, inner: int | None) -> int | None:
    """Return a product of counts; nothing is run by what runs zero times."""
    if outer == 0 or inner == 0:
        return 0
    return None if outer is None or inner is None else outer * inner


def _is_caller(traits: OpcodeTraits) -> bool:
    return traits.phase == "start" or (traits.is_runner and traits.opcode != "fusion")


def _control_flow_sites(table: InstructionTable) -> dict[str, list[CallSite]]:
    """Return the calls of loops, conditionals, calls and async-starts by what they call."""
    found: dict[str, list[CallSite]] = {}
    for row in table.rows_where(_is_caller):
        caller = table.instruction(row)
        names = caller.called_computations
        condition = caller.attribute("condition") if caller.opcode == "while" else None
        for position, name in enumerate(names):
            site = CallSite(caller=caller, role="call")
            if caller.opcode == "conditional":
                site = CallSite(caller=caller, role="branch", branch=position)
            elif caller.opcode == "while":
                is_condition = condition is not None and condition.lstrip("%") == name
                site = CallSite(caller=caller, role="condition" if is_condition else "body")
            found.setdefault(name, []).append(site)
    return found


def _fusion_sites(table: InstructionTable) -> dict[str, list[CallSite]]:
    """Return the fusions by the computation that they call."""
    found: dict[str, list[CallSite]] = {}
    columns = table.module.columns
    for row in table.rows_of({"fusion"}):
        match = _CALLED.search(columns.attributes_text(row))
        names = (match[1],) if match else table.instruction(row).called_computations
        for name in names:
            site = CallSite(caller=table.instruction(row), role="call")
            found.setdefault(name, []).append(site)
    return found
