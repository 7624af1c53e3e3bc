"""LogText: all messages of a log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_lens.model.logs.buffer_log import BufferLog
    from hlo_lens.model.logs.compiler_warnings import CompilerWarning
    from hlo_lens.model.logs.jax_values import ShardingLog
    from hlo_lens.model.logs.out_of_memory import (
        AllocatorState,
        CompileOutOfMemory,
        FailedAllocation,
        RematerializationLimit,
    )
    from hlo_lens.text.errors import Gap


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
    shardings: ShardingLog | None = None
    buffers: BufferLog | None = None
    understood_lines: int = 0
    dump_lines: int = 0
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is no message."""
        messages = (self.compile_ooms, self.failures, self.allocators, self.limits, self.warnings)
        return not any(messages) and self.buffers is None and self.shardings is None

    @property
    def passed_lines(self) -> int:
        """Lines that belong to no message, gap or dump."""
        dumps = 0 if self.shardings is None else self.shardings.dump_lines
        gaps = sum(gap.lines for gap in self.gaps)
        return max(0, self.lines - self.understood_lines - self.dump_lines - gaps - dumps)
