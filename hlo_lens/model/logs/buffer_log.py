"""Buffer statistics and peak buffers that XLA prints into logs and errors.

Source: xla/service/buffer_assignment.cc, ToVerboseString and StatsString. Printed sizes are
rounded; each stands for a range of bytes.
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
    """Sums in a ``BufferAssignment stats:`` block; None if not printed.

    Attributes:
        parameter: Sum of the allocations of entry parameters.
        constant: Sum of constants.
        maybe_live_out: Sum of the possible parts of the result, aliased parameters included.
        preallocated_temp: Sum of the temporary allocations.
        preallocated_temp_fragmentation: Bytes of these that are never in use.
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
        operator: Its metadata; None if XLA has none.
        label: Opcode of the instruction; None for a parameter.
        shape_text: Shape without layout; for a part of a parameter, the shape of the part.
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
    """One block of buffer statistics, of a failed allocation or of a log level.

    Attributes:
        is_oom: Whether its title is ``BufferAssignment OOM Debugging``.
        requested_bytes: Bytes of the failed allocation in the text before it; None without one.
        stats: The statistics; None if they are missing.
        peak_buffers: Largest values at the peak, largest first (at most 15).
        line: 1-based line of the file where it begins.
        is_complete: Whether it is complete, as far as is known.
    """

    is_oom: bool = False
    requested_bytes: int | None = None
    stats: BufferStats | None = None
    peak_buffers: tuple[PeakBuffer, ...] = ()
    line: int = field(default=1, compare=False)
    is_complete: bool = field(default=True, compare=False)


@dataclass(kw_only=True)
class BufferLog:
    """All blocks of buffer statistics in a log.

    Attributes:
        entries: Blocks in the order of the text.
        gaps: Lines inside the blocks that could not be read, in text order.
        path: Name of the file.
        spans: Start and end of each block in the text.
    """

    entries: tuple[BufferLogEntry, ...] = ()
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)
    path: str = field(default="<text>", compare=False)
    spans: tuple[tuple[int, int], ...] = field(default=(), repr=False, compare=False)

    @property
    def is_complete(self) -> bool:
        """Whether all blocks are complete, as far as is known."""
        return all(entry.is_complete for entry in self.entries)
