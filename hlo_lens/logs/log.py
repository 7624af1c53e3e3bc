"""Reader of logs: messages of all kinds between lines that are no messages."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.logs.allocators import read_allocator
from hlo_lens.logs.buffer_statistics import BufferLog, read_buffer_statistics, read_stats
from hlo_lens.logs.compiler_warnings import read_warning
from hlo_lens.logs.messages import Found, find_anchors
from hlo_lens.logs.out_of_memory import read_failure, read_limit, read_refusal
from hlo_lens.logs.shardings import read_shardings
from hlo_lens.text import log_words
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.log_prefixes import without_entries, without_escapes, without_leads
from hlo_lens.text.source import Source, clean, cut_log_prefixes, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _typeshed import DataclassInstance

    from hlo_lens.logs.allocators import AllocatorState
    from hlo_lens.logs.buffer_statistics import BufferLogEntry, PrintedStats
    from hlo_lens.logs.compiler_warnings import CompilerWarning
    from hlo_lens.logs.out_of_memory import (
        CompileOutOfMemory,
        FailedAllocation,
        RematerializationLimit,
    )
    from hlo_lens.logs.shardings import ShardingLog

T = TypeVar("T", bound="DataclassInstance")


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
    def has_memory(self) -> bool:
        """Whether there is a message about memory."""
        messages = (self.compile_ooms, self.failures, self.allocators, self.limits)
        return any(messages) or self.buffers is not None

    @property
    def is_empty(self) -> bool:
        """Whether there is no message."""
        return not (self.has_memory or self.warnings or self.stats or self.shardings)

    @property
    def buffer_entries(self) -> tuple[BufferLogEntry, ...]:
        """Blocks of buffer statistics."""
        return () if self.buffers is None else self.buffers.entries

    @property
    def passed_lines(self) -> int:
        """Lines that belong to no message, gap or dump."""
        dumps = 0 if self.shardings is None else self.shardings.dump_lines
        gaps = sum(gap.lines for gap in self.gaps)
        return max(0, self.lines - self.understood_lines - self.dump_lines - gaps - dumps)


def parse_log(
    text: str | bytes | Source,
    *,
    strict: bool = False,
    path: str = "<text>",
    may_be_empty: bool = False,
) -> LogText:
    """Return all messages in a log or in the text of an exception.

    What loggers put before lines is cut. Lines of several processes that alternate are separated
    by `hlo_lens.load`, which returns a log for each.

    Args:
        text: The log.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.
        may_be_empty: Return an empty log for a text without messages.

    Raises:
        DumpSyntaxError: If there is no message in it, or, when strict, at the first gap.
    """
    if isinstance(text, Source):
        source = text
    else:
        source = clean(decode(text) if isinstance(text, bytes) else text, path)
    entries = without_entries(source)
    if entries is not source or not source.cuts.offsets:
        source = cut_log_prefixes(entries) or entries
        bare = without_leads(source)
        source = bare[0] if len(bare) == 1 else source
    log = _read(without_escapes(source))
    if log.is_empty and not may_be_empty:
        if log.gaps:
            raise log.gaps[0].as_error()
        raise DumpSyntaxError(
            "expected a message of XLA or JAX, found nothing that hlo-lens reads", path=source.path
        )
    if strict and log.gaps:
        raise log.gaps[0].as_error()
    return log


def parse_buffer_log(
    text: str | bytes | Source, *, strict: bool = False, path: str = "<text>"
) -> BufferLog:
    """Return all blocks of buffer statistics in a log, in the order of the text.

    Args:
        text: A log, or the text of an exception.
        strict: Raise at the first gap.
        path: Name of the text for messages; a source has its own.

    Raises:
        DumpSyntaxError: If there is no such block, or, when strict, at the first gap.
    """
    log = parse_log(text, strict=strict, path=path, may_be_empty=True)
    if log.buffers is None:
        message = "expected 'BufferAssignment stats:' or 'Peak buffers:', found nothing"
        raise DumpSyntaxError(message, path=log.path)
    return log.buffers


def _read(source: Source) -> LogText:
    """Return the messages of a log, found in one pass for each kind."""
    text = source.text
    gaps: list[Gap] = []
    spans: list[tuple[int, int]] = []

    def read(words: Sequence[str], reader: Callable[[Source, int], Found[T] | None]) -> list[T]:
        messages: list[T] = []
        end = -1
        for place in find_anchors(text, words):
            found = reader(source, place) if place >= end else None
            if found is None:
                continue
            end = found.end
            gaps.extend(found.gaps)
            if found.value is None:
                continue
            line = source.line_column(found.start)[0]
            last = source.line_column(max(found.start, end - 1))[0]
            extent = {"line": line, "lines": last - line + 1}
            names = type(found.value).__dataclass_fields__
            known = {name: value for name, value in extent.items() if name in names}
            messages.append(replace(found.value, **known))
            spans.append((min(place, found.start), end))
        return messages

    log = LogText(
        path=source.path,
        compile_ooms=tuple(read(log_words.OUT_OF_MEMORY, read_refusal)),
        failures=tuple(read(log_words.FAILED_ALLOCATION, read_failure)),
        allocators=tuple(read(log_words.ALLOCATOR_STATE, read_allocator)),
        limits=tuple(read(log_words.REMATERIALIZATION_LIMIT, read_limit)),
        warnings=tuple(read(log_words.WARNINGS, read_warning)),
        stats=tuple(read(log_words.STATS, read_stats)),
    )
    before = len(gaps)
    entries = tuple(read(log_words.BUFFERS, read_buffer_statistics))
    if entries:
        log.buffers = BufferLog(entries=entries, gaps=tuple(gaps[before:]), path=source.path)
    log.shardings = read_shardings(source, spans)
    if log.shardings is not None:
        gaps += log.shardings.gaps
        spans += log.shardings.spans
        if not (log.shardings.values or log.shardings.boxes):
            log.shardings = None
    is_open = bool(source.added) and source.added[-1] == len(text) - 1  # no line end in the file
    log.lines = source.line_column(len(text))[0] - (text.endswith("\n") and not is_open)
    log.gaps = tuple(sorted(gaps, key=lambda gap: (gap.line, gap.column)))
    covered = done = 0
    for start, end in sorted(spans):
        first = max(done + 1, source.line_column(start)[0])
        done = max(done, source.line_column(max(start, end - 1))[0])
        covered += max(0, done + 1 - first)
    log.understood_lines = max(0, covered - sum(gap.lines for gap in gaps))
    return log
