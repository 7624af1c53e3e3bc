"""Number of runs of each computation in one run of the program, and the loops around it.

The entry runs once. A loop runs its body trip count times and its condition once more; a
conditional runs one branch, so each counts at most once; a call, a fusion or an async-start runs
its computation once. The runs of a computation with several callers are their sum, of callers in
different branches of one conditional the largest (`branch_sums`). The number is unknown inside a
loop without a known trip count.

Computations that are applied to elements (reducers, comparators) are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.program.branch_sums import (
    Branches,
    SumPart,
    bounded_sum,
    branch_text,
    shared_branches,
)
from hlo_lens.program.hlo_text import instruction_table
from hlo_lens.program.trip_counts import TripCounts, trip_counts

if TYPE_CHECKING:
    from hlo_lens.hlo.calls import Call
    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump


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
    """Number of runs of a computation in one run of the program.

    Attributes:
        times: Number of runs if all `branches` are taken; None if a trip count around it is not
            known.
        branches: Branches of conditionals around it, outermost first, as in `branch_sums`.
        loop_path: Names of the loops around it, outermost first; for several callers, the loops
            around the first.
        known_times: The product of the known trip counts, for ``5 x ?``.
    """

    times: int | None
    branches: Branches = ()
    loop_path: tuple[str, ...] = ()
    known_times: int = 1

    @property
    def is_at_most(self) -> bool:
        """Whether it is in a branch that may not be taken, so that `times` is an upper bound."""
        return bool(self.branches)

    @property
    def of_single_trips(self) -> int:
        """Number of runs, with one trip of each loop without known trip count."""
        return self.known_times if self.times is None else self.times


ONCE = Runs(times=1)
_NEVER_CALLED = Runs(times=None)


class CallCounts:
    """Run counts of computations, found when first asked for.

    Args:
        table: Table of the module.
        trips: Its trip counts; found here if None.
    """

    def __init__(self, table: InstructionTable, trips: TripCounts | None = None) -> None:
        self.trips = trips = trip_counts(table, derives_printed=False) if trips is None else trips
        self._module = table.module
        self._opcodes = table.module.opcodes
        self._links = table.module.links
        self._trips = {(trip.computation, trip.loop): trip for trip in trips.loops}
        self._found: dict[int, Runs] = {}

    def of(self, computation: str) -> Runs:
        """Return the runs of a computation; unknown for one that nothing calls."""
        found = self._module.computation(computation)
        return _NEVER_CALLED if found is None else self.at(found.place)

    def at(self, place: int) -> Runs:
        """Return the runs of the computation at a position among the module's."""
        waiting = [] if place in self._found else [place]
        opened: dict[int, list[Call]] = {}
        while waiting:  # callers first; not recursive, as calls may be thousands deep
            one = waiting[-1]
            if one in opened:
                self._found[waiting.pop()] = self._counted(one, opened[one])
            elif one in self._found:
                waiting.pop()
            else:
                calls = [] if self._is_entry(one) else self._calls(one)
                opened[one] = calls
                self._found[one] = _NEVER_CALLED  # seen by a computation that calls itself
                callers = dict.fromkeys(self._links.owners[call.row] for call in calls)
                waiting += [caller for caller in reversed(callers) if caller not in self._found]
        return self._found[place]

    def _is_entry(self, place: int) -> bool:
        return self._module.entry.place == place

    def sites(self, computation: str) -> list[CallSite]:
        """Return the instructions that run a computation, in text order.

        Fusions are listed only if nothing else runs it.
        """
        found = self._module.computation(computation)
        return [] if found is None else self.sites_at(found.place)

    def sites_at(self, place: int) -> list[CallSite]:
        """Return the instructions that run the computation at a position, as `sites` does."""
        return [self._site(call) for call in self._calls(place)]

    def _calls(self, place: int) -> list[Call]:
        """Return the calls that run a computation, those of fusions only if there are no others."""
        fusions: list[Call] = []
        found: list[Call] = []
        for call in self._links.calls.of_computation(place):
            traits = opcode_traits(self._opcodes[call.row])
            if traits.opcode == "fusion":
                fusions.append(call)
            elif traits.is_runner or traits.phase == "start":
                found.append(call)
        return found or ([] if self._module.computations[place].is_entry else fusions)

    def _site(self, call: Call) -> CallSite:
        caller = self._module.instruction(call.row)
        branch = call.number if caller.opcode == "conditional" else None
        return CallSite(caller=caller, role=self._role(call), branch=branch)

    def _role(self, call: Call) -> str:
        if self._opcodes[call.row] == "conditional":
            return "branch"
        return call.role if call.role in ("body", "condition") else "call"

    def trip_count(self, loop: HloInstruction) -> int | None:
        """Return the trip count of a while instruction; None if unknown."""
        trip = self._trips.get((loop.computation.name, loop.name))
        return None if trip is None else trip.trip_count

    def _counted(self, place: int, calls: list[Call]) -> Runs:
        if self._is_entry(place):
            return ONCE
        runs = [self._through(call) for call in calls]
        if not runs:
            return _NEVER_CALLED
        if len(runs) == 1:
            return runs[0]
        times, branches = _merged(runs, self._module.computations[place].name)
        return Runs(
            times=times,
            branches=branches,
            loop_path=runs[0].loop_path,
            known_times=max(run.known_times for run in runs),
        )

    def _through(self, call: Call) -> Runs:
        """Return the runs of a computation by one call."""
        around = self.at(self._links.owners[call.row])
        role = self._role(call)
        if role in ("body", "condition"):
            return self._in_loop(call, around)
        if role == "branch":
            caller = self._module.instruction(call.row)
            count = len(caller.called_computations)
            conditional = f"{caller.computation.name}/{caller.name}"
            branch = branch_text(conditional, call.number, count)
            return replace(around, branches=(*around.branches, branch)) if count > 1 else around
        return around

    def _in_loop(self, call: Call, around: Runs) -> Runs:
        """Return the runs of the body or condition of a loop, of those of its computation."""
        loop = self._module.instruction(call.row)
        trip = self._trips.get((loop.computation.name, loop.name))
        trips = None if trip is None else trip.trip_count
        times, known = around.times, around.known_times
        if trip is not None and trip.around is not None and trip.trips_of_outer_run is not None:
            outer = self.of(trip.around)
            times = _times(outer.times, trip.trips_of_outer_run)
            known = outer.known_times * trip.trips_of_outer_run
            if call.role == "condition":
                times = None if times is None or around.times is None else times + around.times
                known += around.known_times
        else:
            if trips is not None and call.role == "condition":
                trips += 1
            times = _times(times, trips)
            known *= 1 if trips is None else trips
        path = (*around.loop_path, loop.name)
        return Runs(times=times, branches=around.branches, loop_path=path, known_times=known)


def _merged(runs: list[Runs], computation: str) -> tuple[int | None, Branches]:
    """Return the runs of a computation with several callers, and the branches around it.

    If they depend on branches that the callers do not share, the computation counts as a branch of
    a conditional of its own.
    """
    shared = shared_branches([run.branches for run in runs])
    own = (*shared, branch_text(f"calls of {computation}", 0, 2))
    is_apart = any(run.branches != shared for run in runs)
    if any(run.times is None for run in runs):
        return None, own if is_apart else shared
    parts = [SumPart(run.branches[len(shared) :], run.times or 0) for run in runs]
    bounds = bounded_sum(parts)
    return bounds.most, own if bounds.is_at_most else shared


def _times(outer: int | None, inner: int | None) -> int | None:
    """Return a product of counts; zero runs stay zero if the other count is unknown."""
    if outer == 0 or inner == 0:
        return 0
    return None if outer is None or inner is None else outer * inner


@fact
def call_counts(module: ModuleDump) -> CallCounts:
    """Return the run counts of a module's computations, with the trip counts of loops."""
    return CallCounts(instruction_table(module))
