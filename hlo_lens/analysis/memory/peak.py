"""Values alive at one instant of the schedule, by default at the peak.

The peak is the first instant at which the union of occupied bytes is largest; the one that XLA
prints adds up sizes of whole instructions and is often elsewhere. Rows are values, largest first;
with the residual ``[bytes counted twice]`` of values that share bytes at that instant they sum to
the occupied bytes. Source of the ranges: HloLiveRange, both ends inclusive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from hlo_lens.analysis.memory.layout import DEFAULT_SPACE, MemoryLayout
from hlo_lens.analysis.memory.makers import makers_of
from hlo_lens.analysis.memory.occupancy import owned_bytes
from hlo_lens.analysis.result import Column, Result, Row, Unit
from hlo_lens.model.shapes.shape import Shape
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.model.hlo.instruction import HloInstruction
    from hlo_lens.model.hlo.module import HloModule

SHARED = "[bytes counted twice]"


class LiveValue(NamedTuple):
    """A live value: its place in memory, its live range and its owner.

    Other fields are columns of `PeakMemory`.

    Attributes:
        parameter_number: Entry parameter whose memory it is, or None.
        owned_bytes: Its bytes that no later value of the same instant holds; these sum to the
            union.
    """

    value: str
    size_bytes: int
    category: str
    shape: str
    start: int | None
    end: int | None
    offset: int
    allocation: int
    parameter_number: int | None
    owned_bytes: int

    @property
    def padding_bytes(self) -> int | None:
        """Owned bytes beyond the elements; None for tables of tuples, and if not known."""
        try:
            logical = Shape.parse(self.shape).size_bytes
        except DumpSyntaxError:
            return None
        if logical is None or self.shape.startswith("("):
            return None
        return max(0, self.owned_bytes - logical) if self.owned_bytes else 0


@dataclass(frozen=True, kw_only=True)
class PeakMemory(Result):
    """Values alive at one instant, largest first.

    Attributes:
        source: ``buffer-assignment`` or ``estimate``.
        color: Memory space.
        position: The instant; None where no schedule is known, and all values count.
        instruction: The instruction that runs then; None after the last one.
        total_bytes: Union of their bytes.
        live: The values.
        is_peak: Whether it is the peak, or another instant that was asked for.
        module: HLO text that has the instructions; None without one.
    """

    KIND: ClassVar[str] = "peak-memory"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("value", Unit.NONE, "instruction and shape index"),
        Column("size_bytes", Unit.BYTES, "bytes it holds, padding included"),
        Column("category", Unit.NONE, "use of its allocation: argument, output, temp, ..."),
        Column("source", Unit.NONE, "source line of the instruction that made it"),
        Column("opcode", Unit.NONE, "opcode of that instruction"),
        Column("shape", Unit.NONE, "its shape with layout"),
        Column("op_name", Unit.NONE, "operation path, or name of the argument"),
        Column("start", Unit.NONE, "first instant of its live range"),
        Column("end", Unit.NONE, "last instant, inclusive"),
        Column("offset", Unit.NONE, "first byte in its allocation"),
        Column("allocation", Unit.NONE, "index of the allocation"),
    )
    RECORDS: ClassVar[str] = "live"
    source: str
    color: int
    position: int
    instruction: str | None
    total_bytes: int
    live: tuple[LiveValue, ...]
    is_peak: bool = True
    module: HloModule | None = field(default=None, repr=False, compare=False)

    @cached_property
    def makers(self) -> Mapping[str, HloInstruction]:
        """Instructions that made the values, by value; empty without HLO text."""
        return makers_of(self.module, (value.value for value in self.live))

    def rows(self) -> Iterator[Row]:
        """Yield the values, largest first."""
        for value in self.live:
            maker = self.makers.get(value.value)
            yield (
                value.value,
                value.size_bytes,
                value.category,
                None if maker is None else maker.source,
                None if maker is None else maker.opcode,
                value.shape,
                None if maker is None else maker.op_name,
                value.start,
                value.end,
                value.offset,
                value.allocation,
            )

    @property
    def shared_bytes(self) -> int:
        """Bytes that the rows count more than once: sum of sizes minus their union."""
        return sum(value.size_bytes for value in self.live) - self.total_bytes

    def residual_rows(self) -> tuple[Row, ...]:
        """Return the bytes that values share, as a negative number."""
        if not self.shared_bytes:
            return ()
        return ((SHARED, -self.shared_bytes, *(None,) * (len(self.COLUMNS) - 2)),)

    def totals(self) -> Mapping[str, int]:
        """Return the union of all bytes."""
        return {"size_bytes": self.total_bytes}


def peak_memory(
    layout: MemoryLayout,
    *,
    color: int = DEFAULT_SPACE,
    at: int | None = None,
    module: HloModule | None = None,
) -> PeakMemory | None:
    """Return the values alive at the peak of a memory space, or at another instant.

    Args:
        layout: Allocations and values with their live ranges.
        color: Memory space.
        at: Instant; None for the peak.
        module: HLO text, for opcode, operation path and source line of each value.

    Returns:
        None where no live ranges are known.
    """
    series = layout.series(color)
    if layout.schedule is None or not series:
        return None
    peak = max(range(len(series)), key=series.__getitem__)
    position = peak if at is None else at
    live = _live(layout, color, position)
    instruction = layout.schedule[position] if 0 <= position < len(layout.schedule) else None
    return PeakMemory(
        source=layout.source,
        color=color,
        position=position,
        instruction=instruction,
        total_bytes=sum(value.owned_bytes for value in live),
        live=tuple(live),
        is_peak=position == peak,
        module=module,
    )


def peaks_of(layout: MemoryLayout, module: HloModule | None = None) -> dict[int, PeakMemory | None]:
    """Return the peak of each memory space, as `peak_memory` does."""
    return {color: peak_memory(layout, color=color, module=module) for color in layout.colors}


def _live(layout: MemoryLayout, color: int, position: int) -> list[LiveValue]:
    """Return the values alive at an instant, largest first."""
    by_index = layout.by_index
    occupants = [o for o in layout.occupants(color) if o.start <= position <= o.end]
    occupants.sort(key=lambda o: (-o.start, o.key))  # bytes belong to the youngest value
    held: dict[int, list[int]] = {}
    for number, occupant in enumerate(occupants):
        held.setdefault(occupant.allocation, []).append(number)
    owned = [0] * len(occupants)
    for numbers in held.values():
        parts = owned_bytes([(occupants[n].offset, occupants[n].size) for n in numbers])
        for number, part in zip(numbers, parts, strict=True):
            owned[number] = part
    live: list[LiveValue] = []
    for occupant, part in zip(occupants, owned, strict=True):
        value = layout.values[occupant.key]
        allocation = by_index[value.allocation]
        live.append(
            LiveValue(
                value=value.name,
                size_bytes=value.size,
                category=allocation.category,
                shape=value.shape_text,
                offset=value.offset,
                allocation=value.allocation,
                start=occupant.start,
                end=occupant.end,
                parameter_number=allocation.parameter_number,
                owned_bytes=part,
            )
        )
    live.sort(key=lambda v: (-v.size_bytes, v.value))
    return live
