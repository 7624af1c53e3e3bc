"""Messages about one event of which a log has several: of allocator, runtime and exception.

A failed allocation is printed by the driver, by the allocator, by the runtime (PJRT or TensorFlow)
and once more with the exception, in this order; an exception is printed again by each handler. So a
message of the same size is of the same event if its printer comes later in this order, or if both
are exceptions. Allocators round sizes up to 256 bytes.

XLA's alarms for slow operations are printed when the time limit is reached, and again with the
duration at the end: both are one warning, the first has no instruction if its text is cut.

Programs that the compiler refused and buffer statistics are printed by the compiler and with the
exception: equal ones are one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hlo_lens.logs.log import WarningKind
from hlo_lens.logs.oom_message import size_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.buffers.human_size import HumanSize
    from hlo_lens.logs.log import BufferLog, BufferLogEntry, CompilerWarning, LogText
    from hlo_lens.logs.out_of_memory import CompileOutOfMemory, FailedAllocation

_ROUNDING = 255
"""Most bytes by which a BFC allocator rounds a size up."""

_EVENTS_SEARCHED = 64
"""Latest events that a message may be of."""

_EXCEPTION = "exception"
_PRINTERS = ("driver", "allocator", "runtime", _EXCEPTION)


def without_repeats(log: LogText) -> LogText:
    """Return a log with one message for each event; the lines of the others are its `repeats`."""
    return replace(
        log,
        compile_ooms=_refused_programs(log.compile_ooms),
        failures=_failed_allocations(log.failures),
        warnings=_alarms(log.warnings),
        buffers=None if log.buffers is None else _buffer_statistics(log.buffers),
    )


# ---- failed allocations --------------------------------------------------------------------------


@dataclass(slots=True)
class _Event:
    """Messages about one failed allocation, in text order."""

    messages: list[FailedAllocation] = field(default_factory=list)

    def takes(self, message: FailedAllocation) -> bool:
        """Whether a later message is about this event too."""
        last = self.messages[-1]
        if not (last.is_fatal and message.is_fatal):
            return False
        before, after = _PRINTERS.index(last.printed_by), _PRINTERS.index(message.printed_by)
        if after < before or (after == before and message.printed_by != _EXCEPTION):
            return False
        named = {one.allocator for one in (*self.messages, message)} - {""}
        return len(named) <= 1 and _agree(last.requested, message.requested)

    def merged(self) -> FailedAllocation:
        """Return one message with the fields of all, and the size that was requested."""
        first = self.messages[0]
        values: dict[str, Any] = {
            name: next((value for one in self.messages if (value := getattr(one, name))), default)
            for name, default in _FIELDS.items()
        }
        known = [one.requested for one in self.messages if one.requested is not None]
        exact = [size for size in known if _is_exact(size)]
        requested = min(exact, key=size_bounds) if exact else next(iter(known), None)
        repeats = tuple(one.line for one in self.messages[1:])
        return replace(first, **values, requested=requested, repeats=repeats)


_FIELDS = {
    "free": None,
    "largest_free": None,
    "device": "",
    "allocator": "",
    "program": None,
    "purpose": "",
}


def _failed_allocations(messages: Sequence[FailedAllocation]) -> tuple[FailedAllocation, ...]:
    events: list[_Event] = []
    for message in messages:
        latest = reversed(events[-_EVENTS_SEARCHED:])
        event = next((event for event in latest if event.takes(message)), None)
        if event is None:
            event = _Event()
            events.append(event)
        event.messages.append(message)
    return tuple(event.merged() for event in events)


def _agree(one: HumanSize | None, other: HumanSize | None) -> bool:
    """Whether two printed sizes may be of one request."""
    if one is None or other is None:
        return True
    (least, most), (smallest, largest) = size_bounds(one), size_bounds(other)
    return least <= largest + _ROUNDING and smallest <= most + _ROUNDING


def _is_exact(size: HumanSize) -> bool:
    least, most = size_bounds(size)
    return least == most


# ---- alarms --------------------------------------------------------------------------------------


def _alarms(warnings: Sequence[CompilerWarning]) -> tuple[CompilerWarning, ...]:
    """Return the warnings, alarms with the duration that a later one of the same alarm has."""
    kept: list[CompilerWarning] = []
    begun: list[int] = []
    for warning in warnings:
        if warning.duration_seconds is not None:
            of = next((k for k in begun if _is_alarm_of(kept[k], warning)), None)
            if of is not None:
                begun.remove(of)
                kept[of] = replace(kept[of], duration_seconds=warning.duration_seconds)
                continue
        elif warning.kind in _ALARMS:
            begun = [*begun[-_EVENTS_SEARCHED:], len(kept)]
        kept.append(warning)
    return tuple(kept)


_ALARMS = (WarningKind.SLOW_COMPILE, WarningKind.CONSTANT_FOLDING, WarningKind.SLOW_KERNEL)


def _is_alarm_of(first: CompilerWarning, last: CompilerWarning) -> bool:
    """Whether a warning with a duration is the end of an alarm."""
    whole = replace(first, duration_seconds=last.duration_seconds)
    return last in (whole, replace(whole, instruction=None))


# ---- messages with tables ------------------------------------------------------------------------


def _refused_programs(messages: Sequence[CompileOutOfMemory]) -> tuple[CompileOutOfMemory, ...]:
    """Return one message for each program; the fullest of those with equal first sentences."""
    kept: list[CompileOutOfMemory] = []
    for message in messages:
        for k, other in enumerate(kept):
            if message == other or message == _sentence(other):
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
    return replace(
        message,
        total=None,
        usage=(),
        output=None,
        output_shared=None,
        requirement=None,
        parts=(),
        allocations=(),
    )


def _buffer_statistics(log: BufferLog) -> BufferLog:
    kept: list[BufferLogEntry] = []
    for entry in log.entries:
        same = next((k for k, other in enumerate(kept) if other == entry), None)
        if same is None:
            kept.append(entry)
        else:
            kept[same] = replace(kept[same], repeats=(*kept[same].repeats, entry.line))
    return replace(log, entries=tuple(kept))
