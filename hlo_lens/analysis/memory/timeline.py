"""Occupied bytes over the schedule: one row per instant.

Definition as in `occupancy`. Instants are positions in the flattened schedule, which has a loop's
body once: program order, not time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hlo_lens.analysis.memory.layout import DEFAULT_SPACE, MemoryLayout
from hlo_lens.analysis.result import Column, Result, Row, Unit


@dataclass(frozen=True, kw_only=True)
class MemoryTimeline(Result):
    """Occupied bytes of a memory space at each instant.

    Attributes:
        color: Memory space.
        series: Bytes; its length is one more than the schedule's.
        schedule: Name of the instruction that runs at each instant but the last.
    """

    KIND: ClassVar[str] = "memory-timeline"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("position", Unit.NONE, "instant, from 0"),
        Column("instruction", Unit.NONE, "instruction that runs then"),
        Column("occupied_bytes", Unit.BYTES, "union of bytes in use"),
    )
    RECORDS: ClassVar[str] = "series"
    color: int
    series: tuple[int, ...]
    schedule: Sequence[str]

    def rows(self) -> Iterator[Row]:
        """Yield the instants in order."""
        for position, size in enumerate(self.series):
            name = self.schedule[position] if position < len(self.schedule) else None
            yield position, name, size


def memory_timeline(layout: MemoryLayout, *, color: int = DEFAULT_SPACE) -> MemoryTimeline | None:
    """Return the occupied bytes over the schedule; None where no live ranges are known."""
    series = layout.series(color)
    if series is None or layout.schedule is None:
        return None
    return MemoryTimeline(color=color, series=tuple(series), schedule=layout.schedule)
