"""What XLA says of its buffers in logs and exceptions when memory runs out.

Source: xla/service/buffer_assignment.cc, ToVerboseString and StatsString. Sizes are printed for
people; each stands for a range of bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.model.buffers.human_size import HumanSize
    from hlo_lens.model.hlo.metadata import OpMetadata
    from hlo_lens.text.errors import Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferStats:
    """The ``BufferAssignment stats:`` block; None is what it does not print.

    Attributes:
        parameter: Sum of the allocations of entry parameters.
        constant: Sum of constants.
        maybe_live_out: Sum of what may be part of the result, aliased parameters included.
        preallocated_temp: Sum of the temporary allocations.
        preallocated_temp_fragmentation: Of it, what is in use at no time.
        preallocated_temp_fragmentation_percent: The same in percent of `preallocated_temp`.
        total: Sum of all allocations.
        total_fragmentation: `total` less the least that this schedule needs.
        total_fragmentation_percent: The same in percent of `total`.
    """

    parameter: HumanSize | None = None
    constant: HumanSize | None = None
    maybe_live_out: HumanSize | None = None
    preallocated_temp: HumanSize | None = None
    preallocated_temp_fragmentation: HumanSize | None = None
    preallocated_temp_fragmentation_percent: float | None = None
    total: HumanSize | None = None
    total_fragmentation: HumanSize | None = None
    total_fragmentation_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakBuffer:
    """One of the largest values at the peak.

    Attributes:
        number: 1 for the largest.
        size: Bytes of the value.
        operator: Where it comes from; None where XLA does not know.
        label: Opcode of the instruction; None for a parameter.
        shape_text: Shape without layout; of a parameter, that of the part that is meant.
        is_entry_parameter: Whether it is (part of) an entry parameter.
    """

    number: int
    size: HumanSize
    operator: OpMetadata | None = None
    label: str | None = None
    shape_text: str | None = None
    is_entry_parameter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferLogEntry:
    """What one failed allocation, or one look at the statistics, printed.

    Attributes:
        is_oom: Whether it stands under ``BufferAssignment OOM Debugging``.
        requested_bytes: What could not be allocated, from the line before; None without one.
        stats: The statistics; None where they are missing.
        peak_buffers: Largest values at the peak, largest first (at most 15).
        line: 1-based line of the file where it begins.
        is_complete: Whether nothing of it is known to be missing.
    """

    is_oom: bool = False
    requested_bytes: int | None = None
    stats: BufferStats | None = None
    peak_buffers: tuple[PeakBuffer, ...] = ()
    line: int = field(default=1, compare=False)
    is_complete: bool = field(default=True, compare=False)


@dataclass(kw_only=True)
class BufferLog:
    """All that a log says of buffers.

    Attributes:
        entries: In the order of the text.
        gaps: Lines inside the blocks that could not be read, in text order.
        path: Name of the file that it was read from.
        spans: Offsets in its text where each block begins and ends.
    """

    entries: tuple[BufferLogEntry, ...] = ()
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)
    path: str = field(default="<text>", compare=False)
    spans: tuple[tuple[int, int], ...] = field(default=(), repr=False, compare=False)

    @property
    def is_complete(self) -> bool:
        """Whether nothing of its entries is known to be missing."""
        return all(entry.is_complete for entry in self.entries)
