"""Groups of collectives by kind, mesh axis, source line or loop, and the nested loops of a program.

Payload of groups is per program run, each collective counted as often as it runs, of branches that
exclude each other the largest (`run_sum`), or per text, each once; bytes on the wire have a column
for each. A sum with an unknown part is unknown.

A level of a program is the entry, the body of a loop, or a branch of a conditional. Calls, fusions
and async computations belong to the level that runs them. Communication of a level excludes that of
loops inside it.

The instant of a collective is its place in the flattened schedule; of one inside a fusion or an
async computation, that of the instruction that runs it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, TypeAlias

from hlo_lens.load.fact import fact
from hlo_lens.program.origins import NO_ORIGIN, is_inferred, marked, origins
from hlo_lens.program.runs import CallCounts, SumBounds, call_counts
from hlo_lens.program.summary import instruction_table
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.collectives.collective import (
    COUNT,
    PAYLOAD,
    UNKNOWN_TIMES,
    WIRE,
    Collective,
    collectives,
    known_sum,
    run_sum,
)
from hlo_lens.render.result import Records, Unit, sum_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloComputation, HloInstruction, HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.collectives.collective import Collective

_WIRE = ("wire_bytes_per_device", "wire_bytes_per_run")


KIND_AND_AXIS = "kind and axis"
"""Grouping of collectives where the user names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveGroup:
    """Collectives of one group; its fields are columns of `CollectivesBy`.

    Sums are None if any part is unknown, and upper bounds where marked. `times` is text: ``24``,
    ``<= 24``, ``24 + x?``; `where` has the source line of the collective that moves the most, and
    the number of others.
    """

    group: Annotated[str, "label of the group"]
    kind: Annotated[str, "kinds of collectives"]
    axis: Annotated[str, "mesh axes of the groups of devices"]
    group_size: Annotated[str, "devices in each group"]
    element_type: Annotated[str, "element types"]
    static_count: Annotated[int, Unit.COUNT, "collectives in the text"]
    dynamic_count: Annotated[int | None, Unit.COUNT, "runs per program run"]
    times: Annotated[str, "dynamic_count as text, with bounds, and x? for unknown counts"]
    payload_bytes: Annotated[int | None, Unit.BYTES, "bytes of the full tensors of one group"]
    wire_bytes_per_device: Annotated[int | None, Unit.BYTES, "bytes that leave each device once"]
    wire_bytes_per_run: Annotated[int | None, Unit.BYTES, "bytes that leave each device in one run"]
    exposed: Annotated[int, Unit.COUNT, "collectives that last longer than the overlapping work"]
    asynchronous: Annotated[int, Unit.COUNT, "collectives that may overlap with other instructions"]
    where: Annotated[str | None, "source line of the largest"]
    dynamic_is_at_most: Annotated[bool, "whether dynamic_count is an upper bound"]
    payload_bytes_is_at_most: Annotated[bool, "whether payload_bytes is an upper bound"]
    wire_bytes_is_at_most: Annotated[bool, "whether the bytes of one run are at most"]
    is_inferred: Annotated[bool, "whether a source line in it is inferred"]


@dataclass(frozen=True, kw_only=True)
class CollectivesBy(Records[CollectiveGroup]):
    """Groups of collectives by bytes, largest first; unknown amounts first of all.

    Attributes:
        by: Kind of grouping.
        is_dynamic: Whether bytes are per program run; else each collective counts once.
        groups: The groups.
    """

    KIND: ClassVar[str] = "collectives-by"
    groups: tuple[CollectiveGroup, ...]
    by: str
    is_dynamic: bool

    def totals(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for name in (*("static_count", "payload_bytes"), *_WIRE, "exposed"):
            cells = [getattr(group, name) for group in self.groups]
            flag = _FLAGS.get(name, "")
            is_at_most = any(getattr(group, flag, False) for group in self.groups)
            if not is_at_most and all(isinstance(cell, int) for cell in cells):
                found[name] = sum(cells)
        return found


_OF_ORIGINS = frozenset({"op", "source"})


def collectives_by(
    found: Sequence[Collective], by: str = KIND_AND_AXIS, *, is_dynamic: bool = True
) -> CollectivesBy:
    """Return collectives in groups by a key of `LABELS`; parts of combined ones by their lines.

    `is_dynamic`: whether bytes are per program run; else each collective counts once.
    """
    label = LABELS[by]
    members: dict[str, list[Collective]] = {}
    for collective in found:
        for part in collective.parts if by in _OF_ORIGINS else (collective,):
            members.setdefault(label(part), []).append(part)
    groups = [_group(name, listed, is_dynamic) for name, listed in members.items()]
    size = attrgetter(_WIRE[is_dynamic])
    groups.sort(key=lambda one: (size(one) is not None, -(size(one) or 0), one.group))
    return CollectivesBy(by=by, is_dynamic=is_dynamic, groups=tuple(groups))


_FLAGS = {
    "payload_bytes": "payload_bytes_is_at_most",
    "wire_bytes_per_run": "wire_bytes_is_at_most",
}
"""Columns of sums that do not add up if they are upper bounds, and the flag of each."""


def _group(name: str, members: list[Collective], is_dynamic: bool) -> CollectiveGroup:
    whole = [c for c in members if c.static_count]
    runs, wire = run_sum(whole, COUNT), run_sum(members, WIRE)
    payload = run_sum(members, PAYLOAD)
    if not is_dynamic:
        size = sum_of(c.payload_bytes for c in members)
        least = 0 if any(c.is_payload_at_most for c in members) else size
        payload = None if size is None else SumBounds(least or 0, size)
    return CollectiveGroup(
        group=name,
        kind=_joined(c.kind for c in members),
        axis=_joined(c.axis for c in members),
        group_size=_joined(str(c.group_size or "?") for c in members),
        element_type=_joined(t for c in members for t in (c.element_type or "?").split(",")),
        static_count=len(whole),
        dynamic_count=None if runs is None else runs.most,
        times=_times(members),
        payload_bytes=None if payload is None else payload.most,
        wire_bytes_per_device=sum_of(c.wire_bytes_per_device for c in members),
        wire_bytes_per_run=None if wire is None else wire.most,
        exposed=sum(c.is_exposed is True for c in whole),
        asynchronous=sum(c.is_async for c in whole),
        where=_where(members),
        dynamic_is_at_most=runs is not None and runs.is_at_most,
        payload_bytes_is_at_most=payload is not None and payload.is_at_most,
        wire_bytes_is_at_most=wire is not None and wire.is_at_most,
        is_inferred=any(is_inferred(c.origin_basis) for c in members),
    )


def _joined(parts: Iterable[str]) -> str:
    return " ".join(sorted(dict.fromkeys(parts)))


def _times(members: list[Collective]) -> str:
    known = known_sum(members, COUNT)
    unknown = any(c.dynamic_count is None for c in members)
    if unknown and not known.most:
        return UNKNOWN_TIMES
    return f"{known.amount}{f' + {UNKNOWN_TIMES}' if unknown else ''}"


def _where(members: list[Collective]) -> str | None:
    parts = [part for c in members for part in c.parts if part.source is not None]
    if not parts:
        return None
    largest = max(parts, key=lambda c: c.wire_bytes_per_run or c.wire_bytes_per_device or 0)
    others = len({part.source for part in parts}) - 1
    text = marked(largest.source, largest.origin_basis)
    return f"{text} +{others}" if others else text


LABELS: Mapping[str, Callable[[Collective], str]] = {
    "kind": lambda c: c.kind,
    "axis": lambda c: c.axis,
    "source": lambda c: c.source or "[no source line]",
    "loop": lambda c: " > ".join(c.loop_path) or "[not in a loop]",
    "op": lambda c: c.op_name or "[no operation path]",
    KIND_AND_AXIS: lambda c: f"{c.kind} {c.axis}",
}
"""Label functions of the groupings."""

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
    trips_at_most: Annotated[int | None, Unit.COUNT, "upper bound of an unknown trip count"]
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
    found, known_origins = collectives(module), origins(module)
    trips = {(trip.computation, trip.loop): trip for trip in found.trips.loops}
    inside: dict[str, list[HloInstruction]] = {}
    for row in table.rows_where(lambda traits: traits.is_control_flow):
        instruction = table.instruction(row)
        inside.setdefault(instruction.computation.name, []).append(instruction)
    listed: dict[str, list[Collective]] = {}
    for collective in found.collectives:
        listed.setdefault(_home(collective.computation, calls), []).append(collective)

    def level(
        depth: int, body: HloComputation, by: HloInstruction | None, number: int | None
    ) -> LoopLevel:
        runs, own = calls.at(body.place), tuple(listed.get(body.name, ()))
        trip = None if by is None else trips.get((by.computation.name, by.name))
        origin = NO_ORIGIN if by is None else known_origins.direct(Value(by.row))
        is_branch = by is not None and by.opcode != "while"
        return LoopLevel(
            depth=depth,
            kind="entry" if by is None else "branch" if is_branch else "loop",
            loop=body.name if by is None else by.name,
            branch=number if is_branch else None,
            computation=body.name,
            trip_count=None if trip is None else trip.trip_count,
            trips_at_most=None if trip is None else trip.trips_at_most,
            trip_source=None if trip is None else trip.trip_source,
            reason=None if trip is None or trip.trip_count is not None else trip.reason,
            times=runs.times,
            is_at_most=runs.is_at_most,
            instructions=len(body.rows),
            collectives=own,
            static_count=len(own),
            wire_bytes_per_trip=sum_of(c.wire_bytes_per_device for c in own),
            wire_bytes_per_run=sum_of(c.wire_bytes_per_run for c in own),
            op_name=origin.op_name,
            source=origin.source,
            origin_basis=origin.basis,
        )

    return Loops(levels=tuple(itertools.starmap(level, _bodies(table.module, inside))))


def _home(computation: str, calls: CallCounts) -> str:
    for _ in range(_DEEPEST):
        sites = calls.sites(computation)
        if not sites or sites[0].role != "call":
            break
        computation = sites[0].caller.computation.name
    return computation


_Body: TypeAlias = "tuple[int, HloComputation, HloInstruction | None, int | None]"
"""Depth of a level, its computation, what runs it, and its number among what that runs."""


def _bodies(module: HloModule, inside: Mapping[str, Sequence[HloInstruction]]) -> Iterator[_Body]:
    """Yield the entry and all levels inside it; `inside` is control flow by computation."""
    if not module.has_entry:
        return
    shown, path = 0, list[str]()

    def within(computation: HloComputation, depth: int) -> Iterator[_Body]:
        nonlocal shown
        if depth > _DEEPEST or len(path) > _DEEPEST or computation.name in path:
            return
        path.append(computation.name)
        for instruction in inside.get(computation.name, ()):
            names = instruction.called_computations
            if instruction.opcode == "while":
                value = instruction.attribute("body")
                names = module.reader.names(value) if value else ()
            for number, name in enumerate(names):
                called = module.computation(name)
                if called is None or shown > _MOST:
                    continue
                shown += 1
                is_call = instruction.opcode in ("call", "async-start")
                if not is_call:
                    yield depth, called, instruction, number
                yield from within(called, depth if is_call else depth + 1)
        path.pop()

    yield 0, module.entry, None, None
    yield from within(module.entry, 1)


class SchedulePlace(NamedTuple):
    """Instants of start, which has the operands, and end of a collective; None where not known."""

    start: int | None
    end: int | None


@fact
def schedule_places(module: ModuleDump) -> list[SchedulePlace]:
    """Return the places of a module's collectives in the flattened schedule, in their order."""
    from hlo_lens.questions.memory.results import memory_results

    table, calls, memory = instruction_table(module), call_counts(module), memory_results(module)
    schedule = () if memory is None else memory.layout.schedule or ()
    instants = {name: instant for instant, name in reversed(list(enumerate(schedule)))}
    places = []
    for one in collectives(module).collectives:
        sender = one.name if one.start_row is None else table.instruction(one.start_row).name
        name, computation, start = sender, one.computation, instants.get(sender)
        for _ in range(_DEEPEST):  # else that of the instruction that runs its computation
            sites = calls.sites(computation) if start is None else ()
            if not sites:
                break
            name, computation = sites[0].caller.name, sites[0].caller.computation.name
            start = instants.get(name)
        end = instants.get(one.ended_by) if one.ended_by else start
        places.append(SchedulePlace(start, end))
    return places
