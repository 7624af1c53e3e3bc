"""Memory messages of running programs: failed allocations, allocators, limits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hlo_lens.logs.oom_message import Bounds, size_bounds
from hlo_lens.logs.tables import BOUNDS, bounds_text, size_text
from hlo_lens.render.result import Column, Row, Unit
from hlo_lens.render.table import Section, Table, table_of
from hlo_lens.text.units import format_bytes, format_count, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.buffers.human_size import HumanSize
    from hlo_lens.logs.log import LogText
    from hlo_lens.logs.out_of_memory import AllocatorState, FailedAllocation, RematerializationLimit


_NO_DUMP = (
    "a message does not show which values a program holds; next, with a dump of the program "
    "(hlo-lens help dumping): hlo-lens report DUMP --log LOG"
)


def runtime_section(name: str, log: LogText, *, has_dump: bool) -> Section:
    """Return the section on failed allocations and on programs that remain too large."""
    fatal = sum(failure.is_fatal for failure in log.failures)
    facts, tables = [], []
    if log.failures:
        tables.append(_failures_table(log.failures))
        tries = len(log.failures) - fatal
        rest = f"; {plural(tries, 'attempt')} that may fail" if tries else ""
        printed = sum(1 + len(failure.repeats) for failure in log.failures if failure.is_fatal)
        again = f", printed {format_count(printed)} times" if printed > fatal else ""
        facts.append(("failed", f"{plural(fatal, 'allocation')}{again}{rest}"))
    if log.limits:
        tables.append(_limits_table(log.limits))
        facts.append(("too large", f"{plural(len(log.limits), 'program')} after rematerialization"))
    return Section(
        title=f"{name}: out of memory",
        facts=tuple(facts),
        tables=tuple(tables),
        notes=() if has_dump else (_NO_DUMP,),
    )


def _failures_table(failures: Sequence[FailedAllocation]) -> Table:
    rows: list[Row] = [
        (
            failure.line,
            ", ".join(map(str, failure.repeats)) or None,
            times,
            size_text(failure.requested),
            *(size_bounds(failure.requested) if failure.requested else (None, None)),
            size_text(failure.free),
            size_text(failure.largest_free),
            _missing(failure),
            failure.purpose or None,
            failure.program,
            failure.allocator or failure.device or None,
            failure.is_fatal,
        )
        for failure, times in Counter(failures).items()
    ]
    return table_of(
        "failed-allocations",
        "Failed allocations",
        (
            Column("line", Unit.NONE, "1-based line of the file, of the first"),
            Column("again", Unit.NONE, "lines of further messages about the same failure"),
            Column("times", Unit.COUNT, "number of equal failures"),
            Column("requested", Unit.NONE, "bytes as printed"),
            *BOUNDS,
            Column("free", Unit.NONE, "free bytes"),
            Column("largest_free", Unit.NONE, "bytes of the largest free region"),
            Column("missing_bytes", Unit.BYTES, "requested less free bytes, at most"),
            Column("for", Unit.NONE, "purpose of the memory"),
            Column("program", Unit.NONE, "executable"),
            Column("where", Unit.NONE, "allocator or device"),
            Column("is_failure", Unit.NONE, "false if the caller can continue without"),
        ),
        rows,
        shown=("line", "times", "requested"),
        if_filled=("again", "free", "largest_free", "missing_bytes", "for", "program", "where"),
    )


def _missing(failure: FailedAllocation) -> int | None:
    """Return the most bytes that were missing; None if not known."""
    if failure.free is None or failure.requested is None:
        return None
    return _excess(failure.requested, failure.free)


def _excess(size: HumanSize, limit: HumanSize) -> int:
    """Return the most bytes by which a size exceeds another."""
    return max(0, size_bounds(size)[1] - size_bounds(limit)[0])


def _limits_table(limits: Sequence[RematerializationLimit]) -> Table:
    rows: list[Row] = [
        (
            limit.line,
            size_text(limit.wanted),
            size_text(limit.reached),
            size_text(limit.original),
            _excess(limit.reached, limit.wanted),
        )
        for limit in limits
    ]
    return table_of(
        "rematerialization-limits",
        "Programs that rematerialization did not make small enough",
        (
            Column("line", Unit.NONE, "1-based line of the file"),
            Column("wanted", Unit.NONE, "bytes that XLA aimed at"),
            Column("reached", Unit.NONE, "bytes after rematerialization"),
            Column("original", Unit.NONE, "bytes before rematerialization"),
            Column("missing_bytes", Unit.BYTES, "reached less wanted, at most"),
        ),
        rows,
    )


# ---- allocators --------------------------------------------------------------------------------


def allocator_section(
    title: str, state: AllocatorState, failures: Sequence[FailedAllocation]
) -> Section:
    """Return the section on the state of an allocator.

    Args:
        title: Its title.
        state: The state.
        failures: All failures of the log, among them the cause of this state.
    """
    asked = _request_of(state, failures)
    notes = [] if state.is_complete else [_incomplete_note(state)]
    return Section(
        title=title,
        facts=tuple(_allocator_facts(state, asked)),
        tables=tuple(_allocator_tables(state)),
        notes=tuple(notes),
    )


def _incomplete_note(state: AllocatorState) -> str:
    listed = sum(size * count for size, count in state.used_chunks)
    if listed and state.chunks_in_use is not None and not state.chunks_in_use.matches(listed):
        whole = size_text(state.chunks_in_use)
        return f"the text is incomplete: its chunks sum to {format_bytes(listed)} of {whole} in use"
    return "the text is incomplete"


def _request_of(
    state: AllocatorState, failures: Sequence[FailedAllocation]
) -> FailedAllocation | None:
    """Return the failure of a state: the last before it, else the first after it.

    Failures of an allocator of the same name come first. TensorFlow prints them after the state.
    """
    fatal = [f for f in failures if f.is_fatal]
    named = [f for f in fatal if f.allocator and f.allocator == state.name] or fatal
    before = [f for f in named if f.line <= state.line]
    return before[-1] if before else next(iter(named), None)


def _allocator_facts(
    state: AllocatorState, asked: FailedAllocation | None
) -> Iterator[tuple[str, str]]:
    yield "line", str(state.line)
    limit, in_use, most = map(state.size, ("Limit", "InUse", "MaxInUse"))
    used = in_use or state.chunks_in_use
    if limit is not None:
        yield "limit", str(size_text(limit))
    if used is not None:
        peak = "" if most is None else f", at most {size_text(most)} so far"
        yield "in use", f"{size_text(used)}{peak}"
    if limit is None or used is None:
        return
    free = _difference(limit, used)
    largest = _largest_free(state)
    unclaimed = None if state.pool is None else _difference(limit, state.pool)
    details = [] if largest is None else [f"largest free chunk {bounds_text(largest)}"]
    if unclaimed is not None and unclaimed[0] > 0:
        details.append(f"{bounds_text(unclaimed)} not yet taken from the device")
    yield "free", " ".join((bounds_text(free), *([f"({'; '.join(details)})"] if details else [])))
    if asked is not None and asked.requested is not None:
        yield "verdict", _verdict(size_bounds(asked.requested), free, largest, unclaimed)


def _largest_free(state: AllocatorState) -> Bounds | None:
    """Return the bytes of the largest free chunk; None if they are not known."""
    if state.free_chunks is None or not state.is_complete:
        return None
    largest = max((size for size, _ in state.free_chunks), default=0)
    return largest, largest


def _difference(whole: HumanSize, part: HumanSize) -> Bounds:
    """Return the range of one size less another, at least 0."""
    (least, most), (smallest, largest) = size_bounds(whole), size_bounds(part)
    return max(0, least - largest), max(0, most - smallest)


def _verdict(
    requested: Bounds, free: Bounds, largest: Bounds | None, unclaimed: Bounds | None
) -> str:
    """Return whether free memory is too small, or too fragmented."""
    least, most = requested
    wanted = bounds_text(requested)
    if least > free[1]:
        missing = bounds_text((least - free[1], most - free[0]))
        return f"{wanted} requested, {missing} more than is free"
    if largest is not None and least > max(largest[1], 0 if unclaimed is None else unclaimed[1]):
        return f"{wanted} requested, less than is free, but in smaller pieces (fragmentation)"
    if most > free[0]:
        return f"{wanted} requested, about as much as is free"
    return f"{wanted} requested, less than is free; the text does not show the cause"


def _allocator_tables(state: AllocatorState) -> Iterator[Table]:
    if state.used_chunks:
        chunks = sorted(state.used_chunks, key=lambda chunk: (-chunk[0] * chunk[1], -chunk[0]))
        rows: list[Row] = [(size, count, size * count) for size, count in chunks]
        yield table_of(
            "allocator-chunks",
            "Chunks in use by size, largest total first",
            (
                Column("chunk_bytes", Unit.BYTES, "size of each"),
                Column("chunks", Unit.COUNT, "number of chunks"),
                Column("total_bytes", Unit.BYTES, "sum of their sizes"),
            ),
            rows,
            totals={"total_bytes": sum(size * count for size, count in state.used_chunks)},
        )
    bins: list[Row] = [
        (b.least_bytes, b.chunks, b.chunks_in_use, b.allocated.text, b.in_use.text)
        for b in state.bins
        if b.chunks
    ]
    if bins:
        yield table_of(
            "allocator-bins",
            f"Bins that hold chunks ({format_count(len(bins))} of {format_count(len(state.bins))})",
            (
                Column("least_bytes", Unit.BYTES, "smallest chunk of the bin"),
                Column("chunks", Unit.COUNT, "chunks"),
                Column("in_use", Unit.COUNT, "chunks in use"),
                Column("allocated", Unit.NONE, "bytes of all chunks, as printed"),
                Column("used", Unit.NONE, "bytes of those in use, as printed"),
            ),
            bins,
        )
