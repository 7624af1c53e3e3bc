"""LogText: all messages of a log, with buffer statistics, peak buffers and compiler warnings.

Sources: xla/service/buffer_assignment.cc, ToVerboseString and StatsString, whose sizes are rounded,
so that each stands for a range of bytes; for warnings see ``grammars/compiler_warnings.lark``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.buffers.human_size import HumanSize
    from hlo_lens.hlo.metadata import OpMetadata
    from hlo_lens.logs.jax_values import ShardingLog
    from hlo_lens.logs.out_of_memory import (
        AllocatorState,
        CompileOutOfMemory,
        FailedAllocation,
        RematerializationLimit,
    )
    from hlo_lens.shapes.shape import Shape
    from hlo_lens.shapes.sharding import HloSharding
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
        repeats: Lines at which it is printed again.
        is_complete: Whether it is complete, as far as is known.
    """

    is_oom: bool = False
    requested_bytes: int | None = None
    stats: BufferStats | None = None
    peak_buffers: tuple[PeakBuffer, ...] = ()
    line: int = field(default=1, compare=False)
    repeats: tuple[int, ...] = field(default=(), compare=False)
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


class WarningKind(enum.Enum):
    """Kinds of warnings."""

    FULL_REMATERIALIZATION = "full rematerialization"
    UNUSED_DONATION = "unused donation"
    SLOW_COMPILE = "slow compile"
    CONSTANT_FOLDING = "constant folding"
    LARGE_ARGUMENTS = "arguments exceed the limit"
    SLOW_KERNEL = "slow kernel in autotuning"
    WRONG_RESULT = "wrong result in autotuning"
    OUTSIDE_WRITE = "write outside a buffer in autotuning"
    INEXACT_TIMING = "inexact timing in autotuning"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedInstruction:
    """An instruction as printed in a warning, possibly cut off.

    Attributes:
        text: As printed.
        name: Its name, without ``%``; dumps may have another name.
        opcode: Its opcode.
        shape: Shape of its result; None if it is no array, or cannot be read.
        metadata: Its metadata; None if it is cut off.
    """

    text: str
    name: str
    opcode: str
    shape: Shape | None = None
    metadata: OpMetadata | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerWarning:
    """One warning.

    Attributes:
        kind: Kind of warning.
        instruction: Its instruction; None for warnings on whole programs.
        from_sharding: Present sharding of the value, for full rematerialization.
        to_sharding: Required sharding of the value.
        donated: Types of the arguments with unusable donations, as printed.
        donated_shapes: Their shapes; None for a type that cannot be read.
        module: Name of the module that compiles slowly; None if it is not printed.
        platform: Its platform, as printed; empty if it is not.
        subject: Kernel, algorithm or first wrong element, as printed; empty if it is not.
        duration_seconds: Duration of the operation; None while it goes on.
        limit_seconds: Time limit after which XLA warned; None if it is not printed.
        size_bytes: Bytes of the arguments; None for other kinds, or if not known.
        limit_bytes: Their limit.
        differences: Number of printed wrong elements.
        reason: Reason as printed; empty if it is not.
        explanation: Address of JAX's explanation; empty if it is not printed.
        line: 1-based line of the file.
        lines: Number of its lines.
    """

    kind: WarningKind
    instruction: PrintedInstruction | None = None
    from_sharding: HloSharding | None = None
    to_sharding: HloSharding | None = None
    donated: tuple[str, ...] = ()
    donated_shapes: tuple[Shape | None, ...] = ()
    module: str | None = None
    platform: str = ""
    subject: str = ""
    duration_seconds: float | None = None
    limit_seconds: float | None = None
    size_bytes: int | None = None
    limit_bytes: int | None = None
    differences: int | None = None
    reason: str = ""
    explanation: str = ""
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)


class PrintKind(enum.Enum):
    """Methods of a compiled program whose results are printed."""

    MEMORY = "memory_analysis()"
    COST = "cost_analysis()"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedStats:
    """Printed result of a method of a compiled program.

    Attributes:
        kind: The method.
        values: Names and numbers, in the order of the text.
        line: 1-based line of the file.
        lines: Number of its lines.
    """

    kind: PrintKind
    values: tuple[tuple[str, int | float], ...]
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)

    def value(self, name: str) -> int | float | None:
        """Return a number by its name; None if it is not printed."""
        return dict(self.values).get(name)


@dataclass(kw_only=True)
class LogText:
    """Messages of a log, each kind in the order of the text.

    Attributes:
        path: Name of the file.
        lines: Lines of the file.
        compile_ooms: Programs that the TPU compiler refused.
        failures: Failed allocations of running programs.
        allocators: Allocator states.
        limits: Programs that rematerialization did not make small enough.
        warnings: Compiler warnings.
        stats: Printed results of ``memory_analysis()`` and ``cost_analysis()``.
        shardings: Meshes, shardings, types and drawings; None if there are none.
        buffers: Buffer statistics and peak buffers; None if there are none.
        understood_lines: Number of lines in these messages.
        dump_lines: Number of lines in dumps, which are reported separately.
        gaps: Lines in messages that could not be read, in text order.
    """

    path: str = "<text>"
    lines: int = 0
    compile_ooms: tuple[CompileOutOfMemory, ...] = ()
    failures: tuple[FailedAllocation, ...] = ()
    allocators: tuple[AllocatorState, ...] = ()
    limits: tuple[RematerializationLimit, ...] = ()
    warnings: tuple[CompilerWarning, ...] = ()
    stats: tuple[PrintedStats, ...] = ()
    shardings: ShardingLog | None = None
    buffers: BufferLog | None = None
    understood_lines: int = 0
    dump_lines: int = 0
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is no message."""
        memory = (self.compile_ooms, self.failures, self.allocators, self.limits)
        return (
            not any((*memory, self.warnings, self.stats))
            and self.buffers is None
            and self.shardings is None
        )

    @property
    def has_memory(self) -> bool:
        """Whether there is a message about memory."""
        messages = (self.compile_ooms, self.failures, self.allocators, self.limits)
        return any(messages) or self.buffers is not None

    @property
    def passed_lines(self) -> int:
        """Lines that belong to no message, gap or dump."""
        dumps = 0 if self.shardings is None else self.shardings.dump_lines
        gaps = sum(gap.lines for gap in self.gaps)
        return max(0, self.lines - self.understood_lines - self.dump_lines - gaps - dumps)
