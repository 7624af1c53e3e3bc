"""Number of runs of each computation in one run of the program, and sums over what runs.

The entry runs once. A loop runs its body trip count times and its condition once more; a
conditional runs one branch, so each counts at most once; a call, a fusion or an async-start runs
its computation once. The runs of a computation with several callers are their sum, of callers in
different branches of one conditional the largest. The number is unknown inside a loop without a
known trip count, also where that has a bound: bounds such as the most iterations of a solver are no
figures to compare. Computations that are applied to elements (reducers, comparators) are not
counted.

Sums over parts of a program: a conditional runs one of its branches each time, so of its branches
the one with the largest sum counts. The least sum takes the smallest instead, 0 if a branch has no
part. Branches of the same conditional inside a loop are added up before the largest is taken: no
run exceeds the number of trips times the largest branch. The branches around a part are texts,
outermost first: ``main/conditional.3:0/2`` is the first of the two branches of ``conditional.3`` in
the computation ``main``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.program.summary import instruction_table
from hlo_lens.program.trip_counts import trip_counts
from hlo_lens.text.units import Amount, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_lens.hlo.links import Call
    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump


Branches = tuple[str, ...]


class SumPart(NamedTuple):
    """One part of a sum: its amount if all branches around it, outermost first, are taken."""

    branches: Branches
    amount: int
    is_exact: bool = True  # else it is an upper bound


class SumBounds(NamedTuple):
    """Least and largest sum; equal if the sum is known exactly."""

    least: int
    most: int

    @property
    def is_at_most(self) -> bool:
        """Whether the largest sum is an upper bound only."""
        return self.least != self.most

    @property
    def amount(self) -> Amount:
        """The largest sum, marked where it is an upper bound."""
        return Amount(self.most, Kind.AT_MOST if self.is_at_most else Kind.EXACT)


def numbered_branch(branch: str, numbers: dict[str, str]) -> str:
    """Return the text of a branch with a number instead of the name of its conditional.

    The numbers are those of the conditionals seen so far; a new one is added.
    """
    conditional, _, rest = branch.rpartition(":")
    return f"{numbers.setdefault(conditional, str(len(numbers)))}:{rest}"


def bounded_sum(parts: Iterable[SumPart]) -> SumBounds:
    """Return the least and the largest sum of some parts."""
    levels: list[dict[Branches, SumBounds]] = [{}]  # sums by the branches around, and their number
    for branches, amount, is_exact in parts:
        levels += [{} for _ in range(len(levels), len(branches) + 1)]
        _add(levels[len(branches)], branches, amount * is_exact, amount)
    while len(levels) > 1:
        conditionals: dict[tuple[Branches, str, int], list[SumBounds]] = {}
        for branches, bounds in levels.pop().items():
            conditional, count = branches[-1].rpartition(":")[0], branches[-1].rpartition("/")[2]
            key = (branches[:-1], conditional, int(count))
            conditionals.setdefault(key, []).append(bounds)
        for (around, _, branch_count), sums in conditionals.items():
            least = min(bounds.least for bounds in sums) if len(sums) >= branch_count else 0
            _add(levels[-1], around, least, max(bounds.most for bounds in sums))
    return levels[0].get((), SumBounds(0, 0))


def _add(sums: dict[Branches, SumBounds], branches: Branches, least: int, most: int) -> None:
    before = sums.get(branches, SumBounds(0, 0))
    sums[branches] = SumBounds(before.least + least, before.most + most)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """One instruction that runs a computation."""

    caller: HloInstruction
    role: str  # body, condition, branch or call
    branch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Number of runs of a computation in one run of the program."""

    times: int | None
    """Number of runs if all branches are taken; None if a trip count around it is not known."""
    branches: Branches = ()
    loop_path: tuple[str, ...] = ()
    """Names of the loops around it, outermost first; of several callers, around the first."""

    @property
    def is_at_most(self) -> bool:
        """Whether it is in a branch that may not be taken, so that `times` is an upper bound."""
        return bool(self.branches)


ONCE = Runs(times=1)
_NEVER_CALLED = Runs(times=None)


class CallCounts:
    """Run counts of computations, found when first asked for."""

    def __init__(self, table: InstructionTable) -> None:
        self.trips = trip_counts(table)
        self._module = table.module
        self._opcodes = table.module.opcodes
        self._links = table.module.links
        self._trips = {(trip.computation, trip.loop): trip for trip in self.trips.loops}
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
                calls = [] if one == self._module.entry.place else self._calls(one)
                opened[one] = calls
                self._found[one] = _NEVER_CALLED  # seen by a computation that calls itself
                callers = dict.fromkeys(self._links.owners[call.row] for call in calls)
                waiting += [caller for caller in reversed(callers) if caller not in self._found]
        return self._found[place]

    def sites(self, computation: str) -> list[CallSite]:
        """Return the instructions that run a computation, in text order.

        Fusions are listed only if nothing else runs it.
        """
        named = self._module.computation(computation)
        return [] if named is None else self.sites_at(named.place)

    def sites_at(self, place: int) -> list[CallSite]:
        """Return the instructions that run the computation at a position, as `sites` does."""
        return [
            CallSite(
                caller=self._module.instruction(call.row),
                role=self._role(call),
                branch=call.number if self._role(call) == "branch" else None,
            )
            for call in self._calls(place)
        ]

    def _calls(self, place: int) -> list[Call]:
        """Return the calls that run a computation, those of fusions only if there are no others."""
        fusions: list[Call] = []
        runners: list[Call] = []
        for call in self._links.calls.of_computation(place):
            traits = opcode_traits(self._opcodes[call.row])
            if traits.opcode == "fusion":
                fusions.append(call)
            elif traits.is_runner or traits.phase == "start":
                runners.append(call)
        return runners or ([] if self._module.computations[place].is_entry else fusions)

    def _role(self, call: Call) -> str:
        if self._opcodes[call.row] == "conditional":
            return "branch"
        return call.role if call.role in ("body", "condition") else "call"

    def trip_count(self, loop: HloInstruction) -> int | None:
        """Return the trip count of a while instruction; None if unknown."""
        trip = self._trips.get((loop.computation.name, loop.name))
        return None if trip is None else trip.trip_count

    def _counted(self, place: int, calls: list[Call]) -> Runs:
        """Return the runs of a computation by its calls.

        If they depend on branches that the callers do not share, the computation counts as a branch
        of a conditional of its own.
        """
        if place == self._module.entry.place:
            return ONCE
        runs = [self._through(call) for call in calls]
        if len(runs) <= 1:
            return runs[0] if runs else _NEVER_CALLED
        levels = zip(*(run.branches for run in runs), strict=False)
        shared = tuple(level[0] for level in takewhile(lambda level: len({*level}) == 1, levels))
        own = (*shared, f"calls of {self._module.computations[place].name}:0/2")
        times: int | None = None
        is_apart = any(run.branches != shared for run in runs)
        if all(run.times is not None for run in runs):
            bounds = bounded_sum(
                SumPart(run.branches[len(shared) :], run.times or 0) for run in runs
            )
            times, is_apart = bounds.most, bounds.is_at_most
        return Runs(
            times=times,
            branches=own if is_apart else shared,
            loop_path=runs[0].loop_path,
        )

    def _through(self, call: Call) -> Runs:
        around = self.at(self._links.owners[call.row])
        role = self._role(call)
        if role in ("body", "condition"):
            return self._in_loop(call, around)
        caller = self._module.instruction(call.row) if role == "branch" else None
        count = 0 if caller is None else len(caller.called_computations)
        if caller is None or count <= 1:
            return around
        branch = f"{caller.computation.name}/{caller.name}:{call.number}/{count}"
        return replace(around, branches=(*around.branches, branch))

    def _in_loop(self, call: Call, around: Runs) -> Runs:
        """Return the runs of the body or condition of a loop, of those of its computation."""
        loop = self._module.instruction(call.row)
        trip = self._trips.get((loop.computation.name, loop.name))
        trips = None if trip is None else trip.trip_count
        times = around.times
        if trip is not None and trip.around is not None and trip.trips_of_outer_run is not None:
            outer = self.of(trip.around)
            times = run_product(outer.times, trip.trips_of_outer_run)
            if call.role == "condition":
                times = None if times is None or around.times is None else times + around.times
        else:
            if trips is not None and call.role == "condition":
                trips += 1
            times = run_product(times, trips)
        path = (*around.loop_path, loop.name)
        return Runs(times=times, branches=around.branches, loop_path=path)


def run_product(outer: int | None, inner: int | None) -> int | None:
    """Return a product of runs and amounts; zero stays zero if the other factor is unknown."""
    if outer == 0 or inner == 0:
        return 0
    return None if outer is None or inner is None else outer * inner


@fact
def call_counts(module: ModuleDump) -> CallCounts:
    """Return the run counts of a module's computations, with the trip counts of loops."""
    return CallCounts(instruction_table(module))
