"""Bytes held and bytes in use over the schedule: one row per instant.

Held are whole arguments, outputs and constants, and the temporaries alive (`peak`); in use are the
values alive, those in arguments and outputs too (`occupancy`). Instants are positions in the
flattened schedule, which has a loop's body once: program order, not time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hlo_lens.questions.memory.layout import DEFAULT_SPACE, MemoryLayout
from hlo_lens.render.result import Column, Result, Row, Unit


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
