"""Messages about one event of which a log has several: of allocator, runtime and exception.

A failed allocation is printed by the driver, by the allocator, by the runtime (PJRT or TensorFlow)
and once more with the exception, in this order; an exception is printed again by each handler. So a
message of the same size is of the same event if its printer comes later in this order, or if both
are exceptions. Allocators round sizes up to 256 bytes.

Programs that the compiler refused and buffer statistics are printed by the compiler and with the
exception: equal ones are one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hlo_lens.logs.compiler_warnings import without_ended_alarms
from hlo_lens.logs.shortage import size_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.buffers.human_size import HumanSize
    from hlo_lens.logs.buffer_statistics import BufferLog, BufferLogEntry
    from hlo_lens.logs.log import LogText
    from hlo_lens.logs.out_of_memory import CompileOutOfMemory, FailedAllocation

_ROUNDING = 255
"""Most bytes by which a BFC allocator rounds a size up."""

_LATEST = 64
"""Latest events that a message may be of."""

_PRINTERS = ("driver", "allocator", "runtime", "exception")
_FIELDS = ("free", "largest_free", "device", "allocator", "program", "purpose")


def without_repeats(log: LogText) -> LogText:
    """Return a log with one message for each event; the lines of the others are its `repeats`."""
    return replace(
        log,
        compile_ooms=_refused_programs(log.compile_ooms),
        failures=_failed_allocations(log.failures),
        warnings=without_ended_alarms(log.warnings),
        buffers=None if log.buffers is None else _buffer_statistics(log.buffers),
    )


def _failed_allocations(messages: Sequence[FailedAllocation]) -> tuple[FailedAllocation, ...]:
    events: list[list[FailedAllocation]] = []
    for message in messages:
        for event in reversed(events[-_LATEST:]):
            if _is_of(event, message):
                event.append(message)
                break
        else:
            events.append([message])
    return tuple(map(_merged, events))


def _is_of(event: Sequence[FailedAllocation], message: FailedAllocation) -> bool:
    """Whether a later message is about an event too."""
    last = event[-1]
    if not (last.is_fatal and message.is_fatal):
        return False
    before, after = _PRINTERS.index(last.printed_by), _PRINTERS.index(message.printed_by)
    if after < before or (after == before and message.printed_by != "exception"):
        return False
    if len({one.allocator for one in (*event, message)} - {""}) > 1:
        return False
    if last.requested is None or message.requested is None:
        return True
    (least, most), (smallest, largest) = map(size_bounds, (last.requested, message.requested))
    return least <= largest + _ROUNDING and smallest <= most + _ROUNDING


def _merged(event: Sequence[FailedAllocation]) -> FailedAllocation:
    """Return one message with the fields of all, and the size that was requested."""
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
    """Return one message for each program; the fullest of those with equal first sentences."""
    kept: list[CompileOutOfMemory] = []
    for message in messages:
        for k, other in enumerate(kept):
            if message in (other, _sentence(other)):
                kept[k] = replace(other, repeats=(*other.repeats, message.line))
                break
            if other == _sentence(message):
                kept[k] = replace(message, repeats=(other.line, *other.repeats))
                break
        else:
            kept.append(message)
    return tuple(kept)


def _sentence(message: CompileOutOfMemory) -> CompileOutOfMemory:
    """Return a message without its tables."""
    sums = dict.fromkeys(("total", "output", "output_shared", "requirement"))
    return replace(message, **sums, usage=(), parts=(), allocations=())  # type: ignore[arg-type] # by name


def _buffer_statistics(log: BufferLog) -> BufferLog:
    kept: list[BufferLogEntry] = []
    for entry in log.entries:
        for k, other in enumerate(kept):
            if other == entry:
                kept[k] = replace(other, repeats=(*other.repeats, entry.line))
                break
        else:
            kept.append(entry)
    return replace(log, entries=tuple(kept))
