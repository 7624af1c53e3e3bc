"""Out-of-memory messages of XLA: of the TPU compiler, and of running programs.

Source: see ``grammars/out_of_memory.lark``. Printed sizes are rounded; each stands for a range of
bytes (`HumanSize`). A size printed in bytes is a range of one number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.buffers.human_size import HumanSize

if TYPE_CHECKING:
    from hlo_lens.hlo.metadata import OpMetadata

_LABEL = re.compile(r"%?([\w.-]+) = (?:.*?[\])}] |\(.*?\) )?([a-z][a-z0-9-]*)\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """A line of a memory statement.

    Attributes:
        name: As printed: ``reserved``, ``program``, ``arguments``; ``global``, ``HLO temp``, ...
        size: Bytes; None if the message says that they are unknown.
        utilization_percent: Unpadded bytes in percent of `size`.
        unpadded: Bytes of the values without padding, at the peak.
        padded: The same with padding.
        fragmentation_percent: `fragmentation` in percent of `size`.
        fragmentation: Bytes between values that no value occupies.
    """

    name: str
    size: HumanSize | None
    utilization_percent: float | None = None
    unpadded: HumanSize | None = None
    padded: HumanSize | None = None
    fragmentation_percent: float | None = None
    fragmentation: HumanSize | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAllocation:
    """One of the largest allocations of a program.

    Attributes:
        number: 1 for the largest; None if the list has no numbers.
        size: Bytes with padding; None if the list has no sizes.
        operator: Its metadata; None if XLA has none.
        shape_text: Shape with layout, as printed.
        unpadded: Bytes without padding.
        padding: Extra bytes due to padding; None if there are none.
        expansion: `size` divided by `unpadded`, as printed.
        label: The instruction as HLO text, cut by its printer.
        allocation_type: ``HLO temp``, ``scoped``, ``global``, ...
    """

    number: int | None = None
    size: HumanSize | None = None
    operator: OpMetadata | None = None
    shape_text: str | None = None
    unpadded: HumanSize | None = None
    padding: HumanSize | None = None
    expansion: float | None = None
    label: str | None = None
    allocation_type: str = ""

    @property
    def instruction(self) -> str | None:
        """Name of the instruction in the label; None if it has none."""
        match = None if self.label is None else _LABEL.match(self.label)
        return None if match is None else match[1]

    @property
    def opcode(self) -> str | None:
        """Opcode of the instruction in the label; None if it has none."""
        match = None if self.label is None else _LABEL.match(self.label)
        return None if match is None else match[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOutOfMemory:
    """A program that the TPU compiler refused for lack of memory.

    Attributes:
        memory_space: ``hbm``, ``vmem``, ``smem``, ``sflag``, ...
        used: Bytes that the program needs; for both kinds of cores if printed for each.
        capacity: Bytes that the device has.
        exceeded: Missing bytes, as printed; None if not printed.
        used_for: Meaning of `used`, in the words of the message.
        module: Name of the HLO module; None if it is not printed.
        instruction: The instruction, as HLO text, whose stack did not fit.
        total: Lower bound of the whole usage, with memory reserved by the system.
        usage: Parts of the total.
        output: Bytes of the outputs.
        output_shared: Bytes of the outputs that are donated arguments.
        requirement: Bytes of the program without arguments and outputs.
        parts: Parts of the requirement.
        allocations: Largest allocations, largest first.
        line: 1-based line of the file where it begins.
        lines: Number of its lines.
        repeats: Lines at which it is printed again.
        is_complete: Whether it is complete, as far as is known.
    """

    memory_space: str
    used: tuple[HumanSize, ...] = ()
    capacity: HumanSize | None = None
    exceeded: HumanSize | None = None
    used_for: str = ""
    module: str | None = None
    instruction: str | None = None
    total: HumanSize | None = None
    usage: tuple[MemoryPart, ...] = ()
    output: HumanSize | None = None
    output_shared: HumanSize | None = None
    requirement: HumanSize | None = None
    parts: tuple[MemoryPart, ...] = ()
    allocations: tuple[ProgramAllocation, ...] = ()
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
    repeats: tuple[int, ...] = field(default=(), compare=False)
    is_complete: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAllocation:
    """An allocation that failed in a running program.

    Attributes:
        requested: Requested bytes; None for a tensor whose element type is not printed.
        free: Free bytes; None if not printed.
        largest_free: Bytes of the largest free region.
        device: ``0x0x0_HBM0``, an ordinal, or empty.
        allocator: Name of the allocator, such as ``GPU_0_bfc``; empty if not printed.
        program: Executable that was loaded or run; None if not printed.
        purpose: Purpose of the memory: ``device buffer``, ``program``, ``tensor[2,3]``, or empty.
        is_fatal: Whether the program failed; False for attempts that are allowed to fail.
        printed_by: ``driver``, ``allocator``, ``runtime`` or ``exception``.
        line: 1-based line of the file.
        lines: Number of its lines.
        repeats: Lines of further messages about the same failure.
    """

    requested: HumanSize | None
    free: HumanSize | None = None
    largest_free: HumanSize | None = None
    device: str = ""
    allocator: str = ""
    program: str | None = None
    purpose: str = ""
    is_fatal: bool = True
    printed_by: str = field(default="runtime", compare=False)
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
    repeats: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorBin:
    """A bin of a BFC allocator: chunks from `least_bytes` up to the next bin's.

    Attributes:
        least_bytes: Smallest chunk that belongs here.
        chunks: Number of chunks.
        chunks_in_use: Number of its chunks in use.
        allocated: Bytes of all its chunks.
        in_use: Bytes of the chunks in use.
        requested: Bytes that their owners requested.
    """

    least_bytes: int
    chunks: int
    chunks_in_use: int
    allocated: HumanSize
    in_use: HumanSize
    requested: HumanSize | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorState:
    """State of a BFC allocator when an allocation failed.

    Attributes:
        name: Such as ``GPU_0_bfc``; empty if not printed.
        bins: Bins by size, smallest first.
        used_chunks: Size in bytes and number of chunks in use, as in the summary.
        free_chunks: The same of free chunks, counted from the list of all chunks; None without one.
        chunks_in_use: Sum of the chunks in use, as printed.
        pool: Bytes that the allocator has taken from the device.
        stats: Names and numbers, or sizes as printed since 2026: ``Limit``, ``InUse``,
            ``MaxInUse``, ``NumAllocs``, ...
        line: 1-based line of the file where it begins.
        lines: Number of its lines.
        is_complete: Whether it is complete, as far as is known.
    """

    name: str = ""
    bins: tuple[AllocatorBin, ...] = ()
    used_chunks: tuple[tuple[int, int], ...] = ()
    free_chunks: tuple[tuple[int, int], ...] | None = None
    chunks_in_use: HumanSize | None = None
    pool: HumanSize | None = None
    stats: tuple[tuple[str, int | HumanSize], ...] = ()
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
    is_complete: bool = field(default=True, compare=False)

    def size(self, name: str) -> HumanSize | None:
        """Return the bytes of the statistics by name; None if they are not printed."""
        value = dict(self.stats).get(name)
        return HumanSize(f"{value}B") if isinstance(value, int) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class RematerializationLimit:
    """A program that rematerialization did not make as small as XLA wanted.

    Attributes:
        wanted: Bytes that XLA aimed at.
        reached: Bytes after rematerialization.
        original: Bytes before it; None if not printed.
        line: 1-based line of the file.
        lines: Number of its lines.
    """

    wanted: HumanSize
    reached: HumanSize
    original: HumanSize | None = None
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
