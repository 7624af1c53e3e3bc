"""Reader of logs: messages of all kinds between lines that are no messages."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hlo_lens.logs.compiler_output import (
    read_buffer_statistics,
    read_stats,
    read_warning,
    without_ended_alarms,
)
from hlo_lens.logs.messages import Found, Refusals, find_anchors
from hlo_lens.logs.out_of_memory import (
    read_allocator,
    read_failure,
    read_limit,
    read_refusal,
    size_bounds,
)
from hlo_lens.logs.shardings import read_shardings
from hlo_lens.text import log_words
from hlo_lens.text.errors import DumpSyntaxError, Gap
from hlo_lens.text.log_prefixes import without_escapes, without_leads
from hlo_lens.text.source import Source, clean, cut_log_prefixes, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _typeshed import DataclassInstance

    from hlo_lens.buffers.memory_usage import HumanSize
    from hlo_lens.logs.compiler_output import BufferLogEntry, CompilerWarning, PrintedStats
    from hlo_lens.logs.out_of_memory import (
        AllocatorState,
        CompileOutOfMemory,
        FailedAllocation,
        RematerializationLimit,
    )
    from hlo_lens.logs.shardings import ShardingLog

T = TypeVar("T", bound="DataclassInstance")


@dataclass(kw_only=True)
class LogText:
    """Messages of a log, each kind in the order of the text."""

    path: str = "<text>"
    lines: int = 0
    compile_ooms: tuple[CompileOutOfMemory, ...] = ()
    failures: tuple[FailedAllocation, ...] = ()
    allocators: tuple[AllocatorState, ...] = ()
    limits: tuple[RematerializationLimit, ...] = ()
    warnings: tuple[CompilerWarning, ...] = ()
    stats: tuple[PrintedStats, ...] = ()
    shardings: ShardingLog | None = None
    buffers: tuple[BufferLogEntry, ...] = ()
    understood_lines: int = 0
    dump_lines: int = 0
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)

    @property
    def has_memory(self) -> bool:
        return any((self.compile_ooms, self.failures, self.allocators, self.limits, self.buffers))

    @property
    def is_empty(self) -> bool:
        return not (self.has_memory or self.warnings or self.stats or self.shardings)

    @property
    def passed_lines(self) -> int:
        gaps = sum(gap.lines for gap in self.gaps)
        return max(0, self.lines - self.understood_lines - self.dump_lines - gaps)


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

    Raises:
        DumpSyntaxError: If there is no message in it, or, when strict, at the first gap.
    """
    if isinstance(text, Source):
        source = text
    else:
        source = clean(decode(text) if isinstance(text, bytes) else text, path)
    if not source.cuts.offsets:
        source = cut_log_prefixes(source) or source
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


def _read(source: Source) -> LogText:
    text = source.text
    gaps: list[Gap] = []
    spans: list[tuple[int, int]] = []

    def read(words: Sequence[str], reader: Callable[[Source, int], Found[T] | None]) -> list[T]:
        messages: list[T] = []
        end, refusals = -1, Refusals(text)
        for place in find_anchors(text, words):
            if place < end:
                continue
            found = reader(source, place)
            if found is None:
                end = refusals.end_after(place)
                continue
            end = found.end
            gaps.extend(found.gaps)
            if found.value is None:
                continue
            line = source.line_column(found.start)[0]
            last = source.line_column(max(found.start, end - 1))[0]
            extent = {"line": line, "lines": last - line + 1}
            names = type(found.value).__dataclass_fields__
            stored = {name: value for name, value in extent.items() if name in names}
            messages.append(replace(found.value, **stored))
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
        buffers=tuple(read(log_words.BUFFERS, read_buffer_statistics)),
    )
    log.shardings = read_shardings(source, spans)
    if log.shardings is not None:
        spans += log.shardings.spans
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


_ROUNDING = 255
"""Most bytes by which a BFC allocator rounds a size up."""

_LATEST = 64
"""Latest events that a message may be of."""

_PRINTERS = ("driver", "allocator", "runtime", "exception")
_FIELDS = ("free", "largest_free", "device", "allocator", "program", "purpose")


def without_repeats(log: LogText) -> LogText:
    """Return a log with one message for each event; the lines of the others are its `repeats`.

    A failed allocation is printed by the driver, by the allocator, by the runtime (PJRT or
    TensorFlow) and once more with the exception, in this order; an exception is printed again by
    each handler. So a message of the same size is of the same event if its printer comes later in
    this order, or if both are exceptions. Allocators round sizes up to 256 bytes. Programs that the
    compiler refused and buffer statistics are printed by the compiler and with the exception: equal
    ones are one.
    """
    return replace(
        log,
        compile_ooms=_refused_programs(log.compile_ooms),
        failures=_failed_allocations(log.failures),
        warnings=without_ended_alarms(log.warnings),
        buffers=_buffer_statistics(log.buffers),
    )


def _failed_allocations(messages: Sequence[FailedAllocation]) -> tuple[FailedAllocation, ...]:
    events: list[list[FailedAllocation]] = []
    names: list[str] = []  # allocator of each event
    for message in messages:
        for k in range(len(events) - 1, max(-1, len(events) - 1 - _LATEST), -1):
            is_one = not (names[k] and message.allocator) or names[k] == message.allocator
            if is_one and _is_of(events[k][-1], message):
                events[k].append(message)
                names[k] = names[k] or message.allocator
                break
        else:
            events.append([message])
            names.append(message.allocator)
    return tuple(map(_merged, events))


def _is_of(last: FailedAllocation, message: FailedAllocation) -> bool:
    if not (last.is_fatal and message.is_fatal):
        return False
    before, after = _PRINTERS.index(last.printed_by), _PRINTERS.index(message.printed_by)
    if after < before or (after == before and message.printed_by != "exception"):
        return False
    if last.requested is None or message.requested is None:
        return True
    (least, most), (smallest, largest) = map(size_bounds, (last.requested, message.requested))
    return least <= largest + _ROUNDING and smallest <= most + _ROUNDING


def _merged(event: Sequence[FailedAllocation]) -> FailedAllocation:
    first = event[0]
    values: dict[str, Any] = {
        name: next((value for one in event if (value := getattr(one, name))), getattr(first, name))
        for name in _FIELDS
    }
    sizes = [one.requested for one in event if one.requested is not None]
    exact = [size for size in sizes if size.at_least == size.at_most]
    requested: HumanSize | None = min(exact, key=size_bounds) if exact else next(iter(sizes), None)
    repeats = tuple(one.line for one in event[1:])
    return replace(first, **values, requested=requested, repeats=repeats)


def _refused_programs(messages: Sequence[CompileOutOfMemory]) -> tuple[CompileOutOfMemory, ...]:
    """Return one message for each first sentence: the fullest."""
    programs: defaultdict[object, list[CompileOutOfMemory]] = defaultdict(list)
    for message in messages:
        sizes = message.used, message.capacity, message.exceeded
        programs[message.module, message.instruction, message.used_for, sizes].append(message)
    found = []
    for alike in programs.values():
        whole = max(alike, key=lambda one: len(one.usage) + len(one.parts) + len(one.allocations))
        others = tuple(one.line for one in alike if one is not whole)
        found.append(replace(whole, repeats=others))
    return tuple(found)


def _buffer_statistics(entries: Sequence[BufferLogEntry]) -> tuple[BufferLogEntry, ...]:
    lines: defaultdict[BufferLogEntry, list[int]] = defaultdict(list)
    for entry in entries:
        lines[entry].append(entry.line)
    return tuple(replace(entry, repeats=tuple(again)) for entry, (_, *again) in lines.items())
