"""Nested loops of a program, with the communication of each level.

A level is the entry, the body of a loop, or a branch of a conditional. Calls, fusions and async
computations belong to the level that runs them. Communication of a level excludes that of loops
inside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.load.fact import fact
from hlo_lens.program.origins import NO_ORIGIN, Origins, origins
from hlo_lens.program.runs import CallCounts, call_counts
from hlo_lens.program.summary import instruction_table
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.collectives.collective_groups import CollectivesBy, collectives_by
from hlo_lens.questions.collectives.collectives import collectives
from hlo_lens.render.result import Records, Unit, sum_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.computation import HloComputation
    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collectives import Collective, Collectives

_DEEPEST = 64
_MOST = 20_000
"""Most levels; a body that several levels run appears below each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLevel:
    """One level of a program; its fields are columns of `Loops`, and its own collectives.

    `loop` is the entry computation for the entry; `branch` is None for others than branches.
    """

    depth: Annotated[int, "0 for the entry"]
    kind: Annotated[str, "entry, loop or branch"]
    loop: Annotated[str, "the while or conditional instruction"]
    branch: Annotated[int | None, "number of the branch"]
    computation: Annotated[str, "name of the body, branch or entry"]
    trip_count: Annotated[int | None, Unit.COUNT, "runs of the body per run of the loop"]
    trip_source: Annotated[str | None, "printed by XLA, or derived"]
    reason: Annotated[str | None, "why the trip count is unknown"]
    times: Annotated[int | None, Unit.COUNT, "runs of this level in one run of the program"]
    is_at_most: Annotated[bool, "whether it is under a conditional"]
    instructions: Annotated[int, Unit.COUNT, "instructions of the computation"]
    static_count: Annotated[int, Unit.COUNT, "collectives of this level itself, in the text"]
    wire_bytes_per_trip: Annotated[int | None, Unit.BYTES, "bytes that leave each device each time"]
    wire_bytes_per_run: Annotated[int | None, Unit.BYTES, "bytes that leave each device in one run"]
    op_name: Annotated[str | None, "scope path of the framework"]
    source: Annotated[str | None, "source line that it comes from"]
    origin_basis: Annotated[str | None, "way that op_name and source were found"]
    collectives: tuple[Collective, ...]

    @property
    def groups(self) -> CollectivesBy:
        """Its communication in one run of the program, by kind and axis."""
        return collectives_by(self.collectives)


@dataclass(frozen=True, kw_only=True)
class Loops(Records[LoopLevel]):
    """The levels of a program, each before those inside it, in text order.

    Attributes:
        levels: The entry first.
    """

    KIND: ClassVar[str] = "loops"
    levels: tuple[LoopLevel, ...]


@fact
def loops(module: ModuleDump) -> Loops:
    """Return the loops and branches of a module, with their communication."""
    table, calls = instruction_table(module), call_counts(module)
    return Loops(levels=tuple(_Levels(table, collectives(module), calls, origins(module)).all()))


class _Levels:
    """Walk of a program from its entry through all computations that it runs."""

    def __init__(
        self, table: InstructionTable, found: Collectives, calls: CallCounts, origins: Origins
    ) -> None:
        self._module = table.module
        self._origins = origins
        self._path: list[str] = []
        self._shown = 0
        self._calls = calls
        self._trips = {(trip.computation, trip.loop): trip for trip in found.trips.loops}
        self._inside: dict[str, list[HloInstruction]] = {}
        for row in table.rows_where(lambda traits: traits.is_control_flow):
            instruction = table.instruction(row)
            self._inside.setdefault(instruction.computation.name, []).append(instruction)
        self._collectives: dict[str, list[Collective]] = {}
        for collective in found.collectives:
            home = self._home(collective.computation)
            self._collectives.setdefault(home, []).append(collective)

    def _home(self, computation: str) -> str:
        """Return the computation of the level that runs another one."""
        for _ in range(_DEEPEST):
            sites = self._calls.sites(computation)
            if not sites or sites[0].role != "call":
                break
            computation = sites[0].caller.computation.name
        return computation

    def all(self) -> Iterator[LoopLevel]:
        """Yield the entry and all levels inside it."""
        entry = self._module.entry
        if self._module.has_entry:
            yield self._level(entry, 0, "entry", None, None)
            yield from self._within(entry, 1)

    def _within(self, computation: HloComputation, depth: int) -> Iterator[LoopLevel]:
        if depth > _DEEPEST or len(self._path) > _DEEPEST or computation.name in self._path:
            return
        self._path.append(computation.name)
        for instruction in self._inside.get(computation.name, ()):
            for number, name in enumerate(self._run_by(instruction)):
                called = self._module.computation(name)
                if called is None or self._shown > _MOST:
                    continue
                self._shown += 1
                if instruction.opcode in ("call", "async-start"):
                    yield from self._within(called, depth)
                    continue
                is_loop = instruction.opcode == "while"
                kind, branch = ("loop", None) if is_loop else ("branch", number)
                yield self._level(called, depth, kind, instruction, branch)
                yield from self._within(called, depth + 1)
        self._path.pop()

    def _run_by(self, instruction: HloInstruction) -> tuple[str, ...]:
        """Return the computations that an instruction runs; for a loop only the body."""
        if instruction.opcode == "while":
            value = instruction.attribute("body")
            return self._module.reader.names(value) if value else ()
        return instruction.called_computations

    def _level(
        self,
        computation: HloComputation,
        depth: int,
        kind: str,
        instruction: HloInstruction | None,
        branch: int | None,
    ) -> LoopLevel:
        runs = self._calls.at(computation.place)
        trip = None
        if instruction is not None:
            trip = self._trips.get((instruction.computation.name, instruction.name))
        origin = NO_ORIGIN if instruction is None else self._origins.direct(Value(instruction.row))
        own = tuple(self._collectives.get(computation.name, ()))
        return LoopLevel(
            depth=depth,
            kind=kind,
            loop=computation.name if instruction is None else instruction.name,
            branch=branch,
            computation=computation.name,
            trip_count=None if trip is None else trip.trip_count,
            trip_source=None if trip is None else trip.trip_source,
            reason=None if trip is None or trip.trip_count is not None else trip.reason,
            times=runs.times,
            is_at_most=runs.is_at_most,
            instructions=len(computation.rows),
            collectives=own,
            static_count=len(own),
            wire_bytes_per_trip=sum_of(c.wire_bytes_per_device for c in own),
            wire_bytes_per_run=sum_of(c.wire_bytes_per_run for c in own),
            op_name=origin.op_name,
            source=origin.source,
            origin_basis=origin.basis,
        )
