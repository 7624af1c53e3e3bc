"""Loops of a flattened schedule: the instants at which their bodies are, once each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.load.fact import fact
from hlo_lens.program.runs import call_counts
from hlo_lens.questions.memory.layout import DEFAULT_SPACE, MemoryLayout
from hlo_lens.questions.memory.peak import rows_of_names
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.load.module import ModuleDump


class LoopBand(NamedTuple):
    """A loop, the first and last instant of its condition and body, its trip count and depth."""

    loop: str
    start: int
    end: int
    trip_count: int | None
    depth: int


@dataclass(frozen=True, kw_only=True)
class LoopBands(Result):
    """Loops of a schedule, in the order in which they begin."""

    KIND: ClassVar[str] = "loop-bands"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("loop", Unit.NONE, "while instruction"),
        Column("start", Unit.NONE, "first instant of its condition or body"),
        Column("end", Unit.NONE, "instant of the while instruction, after its body"),
        Column("trip_count", Unit.COUNT, "runs of the body for one run of the loop"),
        Column("depth", Unit.NONE, "number of loops around it"),
    )
    RECORDS: ClassVar[str] = "bands"
    bands: tuple[LoopBand, ...]


@fact
def loop_bands(dump: ModuleDump) -> LoopBands | None:
    """Return the loops of the flattened schedule; None without live ranges or HLO text."""
    memory, module = memory_results(dump), dump.hlo
    if memory is None or memory.layout.schedule is None or module is None:
        return None
    schedule, calls = memory.layout.schedule, call_counts(dump)
    rows = rows_of_names(module, set(schedule))
    owners, links = module.links.owners, module.links.calls
    first: dict[int, int] = {}
    found: list[LoopBand] = []
    for instant, name in enumerate(schedule):
        row = rows.get(name)
        if row is None:
            continue
        start = instant
        if module.opcodes[row] == "while":
            places = [call.place for call in links.of_row(row) if call.place != NOTHING]
            start = min((first[place] for place in places if place in first), default=instant)
            trips = calls.trip_count(module.instruction(row))
            if start < instant:
                found.append(LoopBand(name, start, instant, trips, 0))
        place = owners[row]
        first[place] = min(first.get(place, start), start)
    found.sort(key=lambda band: (band.start, -band.end, band.loop))
    return LoopBands(bands=tuple(_with_depths(found)))


def _with_depths(bands: Sequence[LoopBand]) -> list[LoopBand]:
    """Return bands, sorted by start, with the number of those around each."""
    open_ends: list[int] = []
    found = []
    for band in bands:
        while open_ends and open_ends[-1] < band.start:
            open_ends.pop()
        found.append(band._replace(depth=len(open_ends)))
        open_ends.append(band.end)
    return found


@dataclass(frozen=True, kw_only=True)
class MemoryTimeline(Result):
    """Bytes of a memory space at each instant.

    Attributes:
        color: Memory space.
        held: Bytes held, whose largest is the peak; one more than the schedule's instructions.
        used: Bytes of the values alive.
        schedule: Name of the instruction that runs at each instant but the last.
    """

    KIND: ClassVar[str] = "memory-timeline"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("position", Unit.NONE, "instant, from 0"),
        Column("instruction", Unit.NONE, "instruction that runs then"),
        Column("held_bytes", Unit.BYTES, "bytes held: whole arguments and outputs, temporaries"),
        Column("occupied_bytes", Unit.BYTES, "bytes in use: values alive"),
    )
    RECORDS: ClassVar[str] = "held"
    color: int
    held: tuple[int, ...]
    used: tuple[int, ...]
    schedule: Sequence[str]

    def rows(self) -> Iterator[Row]:
        """Yield the instants in order."""
        for position, (held, used) in enumerate(zip(self.held, self.used, strict=True)):
            name = self.schedule[position] if position < len(self.schedule) else None
            yield position, name, held, used


def memory_timeline(layout: MemoryLayout, *, color: int = DEFAULT_SPACE) -> MemoryTimeline | None:
    """Return the bytes over the schedule; None where no live ranges are known."""
    held, used = layout.held_series(color), layout.used_series(color)
    if held is None or used is None or layout.schedule is None:
        return None
    return MemoryTimeline(color=color, held=tuple(held), used=tuple(used), schedule=layout.schedule)
