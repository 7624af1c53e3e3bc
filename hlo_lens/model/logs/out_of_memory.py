"""What XLA says when memory runs out: while it compiles for a TPU, and while programs run.

Source: see ``grammars/out_of_memory.lark``. Sizes are printed for people; each stands for a range
of bytes, which `HumanSize` knows. A number of bytes that was printed whole is a range of one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.model.buffers.human_size import HumanSize
    from hlo_lens.model.hlo.metadata import OpMetadata

_LABEL = re.compile(r"%?([\w.-]+) = (?:.*?[\])}] |\(.*?\) )?([a-z][a-z0-9-]*)\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """A line of a statement: what memory is for, and how much of it.

    Attributes:
        name: As printed: ``reserved``, ``program``, ``arguments``; ``global``, ``HLO temp``, ...
        size: Bytes; None where the message says that it does not know.
        utilization_percent: Unpadded bytes in percent of `size`.
        unpadded: Bytes of the values without padding, at the peak.
        padded: The same with padding.
        fragmentation_percent: `fragmentation` in percent of `size`.
        fragmentation: Bytes that no value occupies because of where others are.
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
        number: 1 for the largest; None where the list has no numbers.
        size: Bytes with padding; None in lists that print none.
        operator: Where it comes from; None where XLA does not know.
        shape_text: Shape with layout, as printed.
        unpadded: Bytes without padding.
        padding: Extra bytes due to padding; None where there are none.
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
        """Name of the instruction that the label shows; None where it shows none."""
        match = None if self.label is None else _LABEL.match(self.label)
        return None if match is None else match[1]

    @property
    def opcode(self) -> str | None:
        """Opcode of the instruction that the label shows; None where it shows none."""
        match = None if self.label is None else _LABEL.match(self.label)
        return None if match is None else match[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOutOfMemory:
    """A program that the TPU compiler refused because it needs more memory than there is.

    Attributes:
        memory_space: ``hbm``, ``vmem``, ``smem``, ``sflag``, ...
        used: What the program needs; the sum of both kinds of cores where it is told for each.
        capacity: What there is.
        exceeded: What is missing, as printed; None where the message leaves it to the reader.
        used_for: What `used` is, in the words of the message where it has any.
        module: Name of the HLO module; None where it is not told.
        instruction: The instruction, as HLO text, on whose stack there was no room.
        total: Least usage of all, with what the system reserves.
        usage: What the total is for.
        output: Bytes of the outputs.
        output_shared: Bytes of the outputs that are donated arguments.
        requirement: Bytes of the program, arguments and outputs left out.
        parts: What the requirement is for.
        allocations: The largest ones, largest first.
        line: 1-based line of the file where it begins.
        lines: How many lines it takes.
        is_complete: Whether nothing of it is known to be missing.
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
    is_complete: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAllocation:
    """One piece of memory that a running program asked for and did not get.

    Attributes:
        requested: How much.
        free: What was free in all; None where it is not told.
        largest_free: The largest piece of it.
        device: ``0x0x0_HBM0``, an ordinal, or empty.
        allocator: Name of the allocator, such as ``GPU_0_bfc``; empty where it is not told.
        program: The executable that was loaded or run; None where it is not told.
        purpose: What the memory was for: ``device buffer``, ``program``, or empty.
        is_fatal: Whether the message is of a failure, not of a try that may fail.
        line: 1-based line of the file.
        lines: How many lines it takes.
    """

    requested: HumanSize
    free: HumanSize | None = None
    largest_free: HumanSize | None = None
    device: str = ""
    allocator: str = ""
    program: str | None = None
    purpose: str = ""
    is_fatal: bool = True
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorBin:
    """A bin of a BFC allocator: chunks of at least so many bytes and less than the next bin's.

    Attributes:
        least_bytes: Smallest chunk that belongs here.
        chunks: Number of chunks.
        chunks_in_use: How many of them are in use.
        allocated: Bytes of all its chunks.
        in_use: Bytes of those in use.
        requested: Bytes that the owners of those asked for.
    """

    least_bytes: int
    chunks: int
    chunks_in_use: int
    allocated: HumanSize
    in_use: HumanSize
    requested: HumanSize | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorState:
    """What a BFC allocator held when an allocation failed.

    Attributes:
        name: Such as ``GPU_0_bfc``; empty where it is not printed.
        bins: Bins by size, smallest first.
        used_chunks: Size in bytes and how many chunks of it are in use, as the summary says.
        free_chunks: The same of free chunks, counted from the list of all chunks; None without one.
        chunks_in_use: Sum of the chunks in use, as printed.
        pool_bytes: Bytes that the allocator has taken from the device.
        stats: ``Limit``, ``InUse``, ``MaxInUse``, ``NumAllocs``, ``MaxAllocSize``, ... to a number.
        line: 1-based line of the file where it begins.
        lines: How many lines it takes.
        is_complete: Whether nothing of it is known to be missing.
    """

    name: str = ""
    bins: tuple[AllocatorBin, ...] = ()
    used_chunks: tuple[tuple[int, int], ...] = ()
    free_chunks: tuple[tuple[int, int], ...] | None = None
    chunks_in_use: HumanSize | None = None
    pool_bytes: int | None = None
    stats: tuple[tuple[str, int], ...] = ()
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
    is_complete: bool = field(default=True, compare=False)

    def stat(self, name: str) -> int | None:
        """Return a number of the statistics; None where it is not printed."""
        return dict(self.stats).get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RematerializationLimit:
    """A program that recomputing values did not make as small as XLA wanted it.

    Attributes:
        wanted: Bytes that XLA aimed at.
        reached: Bytes that are left.
        original: Bytes before; None in texts that do not say.
        line: 1-based line of the file.
        lines: How many lines it takes.
    """

    wanted: HumanSize
    reached: HumanSize
    original: HumanSize | None = None
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
