"""Page of a log: its messages, kind by kind, and counts of all other lines; the same as JSON."""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hlo_lens.buffers.memory_usage import HumanSize
from hlo_lens.logs.compiler_output import (
    LoggedWarnings,
    PrintKind,
    WarningKind,
    logged_warnings,
    peak_buffer_groups,
)
from hlo_lens.logs.log import without_repeats
from hlo_lens.logs.out_of_memory import (
    Bounds,
    DumpShortage,
    MemoryShortage,
    difference,
    memory_shortage,
    missing_bytes,
    size_bounds,
)
from hlo_lens.logs.shardings import drawn_shardings
from hlo_lens.render.result import Column, Result, Row, Unit, columns_of
from hlo_lens.render.table import Section, Table, filled, table_of
from hlo_lens.text.names import shell_word
from hlo_lens.text.units import flops_text, format_bytes, format_count, listed, plural

T = TypeVar("T")

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hlo_lens.logs.compiler_output import BufferLogEntry, PrintedStats
    from hlo_lens.logs.log import LogText
    from hlo_lens.logs.out_of_memory import (
        AllocatorState,
        CompileOutOfMemory,
        FailedAllocation,
        MemoryGroup,
        MemoryPart,
    )
    from hlo_lens.logs.shardings import LoggedSharding, ShardingLog

MEMORY, WARNINGS, SHARDINGS = "memory", "warnings", "shardings"
"""Parts of the report on a log."""


class DumpFacts(NamedTuple):
    """Facts from the dump of the same compile as a log."""

    shortages: tuple[DumpShortage, ...]
    warnings: LoggedWarnings


def log_sections(
    name: str,
    log: LogText,
    parts: Collection[str] = (MEMORY, WARNINGS, SHARDINGS),
    dump: DumpFacts | None = None,
) -> Iterator[Section]:
    """Yield the sections of some parts of a log, an overview first."""
    log = without_repeats(log)
    yield _head(name, log)
    if MEMORY in parts:
        sections = [*_refusal_sections(name, log, dump), *_runtime_sections(name, log)]
        if sections and dump is None:
            following = f"{_NEXT}{shell_word(log.path)}"
            sections[-1] = replace(sections[-1], notes=(*sections[-1].notes, following))
        yield from sections
        for place, stats in _numbered(log.stats):
            yield _stats_section(f"{name}: {stats.kind.value}{place}", stats)
    if WARNINGS in parts and log.warnings:
        yield _warnings_section(name, dump.warnings if dump else logged_warnings(log.warnings))
    if SHARDINGS in parts and log.shardings is not None:
        yield _sharding_section(name, log.shardings)


def log_object(log: LogText, dump: DumpFacts | None = None) -> Mapping[str, object]:
    """Return the JSON object of a log: its messages, kind by kind, and its coverage."""
    log = without_repeats(log)
    shortages = dump.shortages if dump else (None,) * len(log.compile_ooms)
    warnings = dump.warnings if dump else logged_warnings(log.warnings)
    return {
        "compile_out_of_memory": [
            {**_refusal_object(message), "dump": None if facts is None else _object(facts)}
            for message, facts in zip(log.compile_ooms, shortages, strict=True)
        ],
        "failed_allocations": _json(log.failures),
        "allocators": [
            {**_object(state), "pool_bytes": _exact(state.pool)} for state in log.allocators
        ],
        "rematerialization_limits": _json(log.limits),
        "buffer_statistics": [
            {**_object(one), "groups": peak_buffer_groups(one.peak_buffers).objects()}
            for one in log.buffers
        ],
        "warnings": warnings.objects(),
        "compiled_stats": [
            {
                "line": stats.line,
                "of": stats.kind.value,
                "needed_bytes": stats.needed_bytes if stats.kind is PrintKind.MEMORY else None,
                "values": dict(stats.values),
            }
            for stats in log.stats
        ],
        "shardings": None
        if log.shardings is None
        else {
            "drawings": drawn_shardings(log.shardings).objects(),
            "values": [
                {
                    "line": one.line,
                    **dict(zip((c.name for c in _VALUE_COLUMNS), _cells(one), strict=True)),
                }
                for one in log.shardings.values
            ],
            "code_calls": log.shardings.code_calls,
        },
        "coverage": {
            "lines": log.lines,
            "understood_lines": log.understood_lines,
            "passed_lines": log.passed_lines,
            "dump_lines": log.dump_lines,
            "gaps": len(log.gaps),
            "gap_lines": sum(gap.lines for gap in log.gaps),
            "rows": [
                {"line": gap.line, "column": gap.column, "message": gap.message} for gap in log.gaps
            ],
        },
    }


def _refusal_object(message: CompileOutOfMemory) -> Mapping[str, object]:
    return {
        **_object(message),
        "allocations": [
            {**_object(one), "instruction": one.instruction, "opcode": one.opcode}
            for one in message.allocations
        ],
        "missing": _range(missing_bytes(message)),
        "groups": memory_shortage(message).objects(),
    }


def _json(value: object) -> object:
    if isinstance(value, HumanSize):
        return {"text": value.text, **(_range((value.at_least, value.at_most)) or {})}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Result):
        return value.objects()
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value)
    if isinstance(value, (tuple, list)):
        return [_json(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _object(record: object) -> dict[str, object]:
    return {one.name: _json(getattr(record, one.name)) for one in fields(record)}  # type: ignore[arg-type] # a record is a dataclass


def _range(bounds: tuple[int | None, int | None] | None) -> Mapping[str, int | None] | None:
    names = ("at_least_bytes", "at_most_bytes")
    return None if bounds is None else dict(zip(names, bounds, strict=True))


def _exact(size: HumanSize | None) -> int | None:
    """Return the bytes of a size that was printed exactly; None if it is rounded."""
    return None if size is None or size.at_least != size.at_most else size.at_least


_TIMES = Column("times", Unit.COUNT, "number of equal messages")


def _columns(**meanings: str) -> tuple[Column, ...]:
    return tuple(Column(name, Unit.NONE, meaning) for name, meaning in meanings.items())


def _message_table(
    name: str,
    title: str,
    messages: Sequence[Any],
    *,
    shown: Sequence[str],
    if_filled: Sequence[str] = (),
    is_data_only: bool = False,
) -> Table:
    """Return the table of messages, equal ones as one row."""
    kind: type = type(messages[0])
    columns = columns_of(kind)
    rows: list[Row] = []
    for message, count in Counter(messages).items():
        values = (getattr(message, column.name) for column in columns)
        texts = (_size_text(one) if isinstance(one, HumanSize) else one for one in values)
        rows.append((count, *texts))
    return table_of(
        name,
        title,
        (_TIMES, *columns),
        rows,
        shown=shown,
        if_filled=if_filled,
        is_data_only=is_data_only,
    )


def _line_text(line: int, repeats: Sequence[int]) -> str:
    again = f", again {plural(len(repeats), 'time')}: " if repeats else ""
    return f"{line}{again}{listed([str(one) for one in repeats], 4) if repeats else ''}"


def bounds_text(bounds: Bounds) -> str:
    """Return a range of bytes as its middle and the distance of its ends."""
    least, most = bounds
    middle = (least + most + 1) // 2
    spread = f" ± {format_bytes(most - middle)}" if most > middle else ""
    return f"{format_bytes(middle)}{spread}"


def _size_text(size: HumanSize | None) -> str | None:
    if size is None:
        return None
    least, most = size_bounds(size)
    return format_bytes(least) if least == most else size.text


def _numbered(messages: Sequence[T]) -> Iterator[tuple[str, T]]:
    for number, message in enumerate(messages, 1):
        yield f", {number} of {len(messages)}" if len(messages) > 1 else "", message


def _head(name: str, log: LogText) -> Section:
    gaps = sum(gap.lines for gap in log.gaps)
    dumps = f", {format_count(log.dump_lines)} of dumps" if log.dump_lines else ""
    facts = [
        ("file", log.path),
        (
            "lines",
            f"{format_count(log.lines)}: {format_count(log.understood_lines)} understood, "
            f"{format_count(gaps)} in gaps, {format_count(log.passed_lines)} skipped{dumps}",
        ),
    ]
    facts.append(("found", "; ".join(_contents(log)) or "nothing"))
    return Section(title=f"{name}: log", facts=tuple(facts), notes=gap_notes(log.gaps, True))


def _contents(log: LogText) -> Iterator[str]:
    fatal = [failure for failure in log.failures if failure.is_fatal]
    values = () if log.shardings is None else log.shardings.values
    boxes = () if log.shardings is None else log.shardings.boxes
    too_large = "program too large for its memory", "programs too large for their memory"
    for count, one, many in (
        (len(log.compile_ooms), *too_large),
        (len(fatal), "failed allocation", "failed allocations"),
        (len(log.failures) - len(fatal), "attempt that may fail", "attempts that may fail"),
        (len(log.allocators), "allocator state", "allocator states"),
        (len(log.limits), "limit of rematerialization", "limits of rematerialization"),
        (len(log.warnings), "compiler warning", "compiler warnings"),
        (len(log.stats), "print of a compiled program", "prints of compiled programs"),
        (len(log.buffers), "block of buffer statistics", "blocks of buffer statistics"),
        (len(values), "sharding or mesh", "shardings and meshes"),
        (len(boxes), "drawing", "drawings"),
    ):
        if count:
            yield f"{format_count(count)} {one if count == 1 else many}"


def gap_notes(gaps: Sequence[object], is_complete: bool) -> tuple[str, ...]:
    """Return notes on lines that could not be read, and on missing ones."""
    notes = []
    if gaps:
        first = str(gaps[0]).partition("\n")[0]
        notes.append(f"{plural(len(gaps), 'line')} that could not be read, the first: {first}")
    if not is_complete:
        notes.append("the text is incomplete")
    return tuple(notes)


_NEXT = (
    "next, with a dump of the program (hlo-lens help dumping): its values at the peak, their "
    "lines, and what dividing and donating saves: hlo-lens report DUMP --log "
)
_OF_MESSAGE = (
    "freeing a group saves less if its buffers are not alive when memory runs out, or share memory "
    "with others; the message does not show this"
)
_OF_DUMP = (
    "replicated along an axis: bytes saved by dividing over it too. Buffers are those alive at the "
    "peak; freeing some saves less if as much is alive at another instant"
)
_REMEDIES = {
    "arguments": "arguments are largest: donate those that results replace, divide them over more "
    "devices, or keep them in a smaller type",
    "buffers": "temporaries are largest: jax.checkpoint around layers, a smaller batch, or a "
    "sharding constraint where they are made",
    "fragmentation": "fragmentation is largest: fewer large values at once leave fewer gaps",
    "outputs": "outputs are largest: donate the arguments that they replace, or divide them",
    "padding": "padding is largest: last dimensions that are small are padded; join or transpose "
    "them",
}
"""What to try first, by the kind of the largest group."""


_OF_KERNELS = "kernels and what XLA prefetches for them use it: smaller blocks of the kernel"
_TRY = "try first"


def _refusal_sections(name: str, log: LogText, dump: DumpFacts | None) -> Iterator[Section]:
    for number, (place, message) in enumerate(_numbered(log.compile_ooms)):
        notes = [] if message.is_complete else ["the message is not complete"]
        shortage = memory_shortage(message)
        yield Section(
            title=f"{name}: out of {message.memory_space} at compile time{place}",
            facts=tuple(_refusal_facts(message, shortage.groups)),
            tables=(_shortage_table(shortage, _OF_MESSAGE),) if shortage.groups else (),
            notes=tuple(notes),
        )
        if dump is not None:
            yield _dump_section(f"{name}: facts from the dump{place}", dump.shortages[number])


def _dump_section(title: str, facts: DumpShortage) -> Section:
    if facts.module is None or facts.groups is None:
        names = f" ({listed(facts.candidates, 4)})" if facts.candidates else ""
        count = plural(len(facts.candidates), "module")
        fact = f"not known: {count}{names} of the dump may be that of the message"
        return Section(title=title, facts=(("module", fact),))
    verdict = {True: ", as in the message", False: ", other than in the message", None: ""}
    needed = format_bytes(facts.needed_bytes or 0)
    return Section(
        title=title,
        facts=(
            ("module", facts.module),
            ("needs", f"{needed} of arguments, outputs and temporaries{verdict[facts.agrees]}"),
        ),
        tables=(_shortage_table(facts.groups, _OF_DUMP),) if facts.groups.groups else (),
        notes=facts.notes,
    )


def _refusal_facts(
    message: CompileOutOfMemory, groups: Sequence[MemoryGroup]
) -> Iterator[tuple[str, str]]:
    """Yield what does not fit, by how much, what the memory is for, and what to try first."""
    missing = missing_bytes(message)
    used = " + ".join(_size_text(size) or "" for size in message.used) or "not known"
    limit = "" if message.capacity is None else f" of {_size_text(message.capacity)}"
    purpose = f", for {message.used_for}" if message.used_for else ""
    excess = "" if missing is None else f": {bounds_text(missing)} too much"
    yield "does not fit", f"{used}{limit} {message.memory_space}{excess}{purpose}"
    yield "line", _line_text(message.line, message.repeats)
    if message.module is not None:
        yield "module", message.module
    if message.instruction is not None:
        yield "instruction", message.instruction
    if message.usage:
        yield "needs", _parts_text(message.usage)
    if message.parts:
        yield "program" if message.requirement else "allocation", _parts_text(message.parts)
    if message.output is not None:
        shared = message.output_shared
        rest = "" if shared is None else f", {_size_text(shared)} of it in donated arguments"
        yield "outputs", f"{_size_text(message.output)}{rest}"
    if message.memory_space not in ("hbm", ""):
        yield _TRY, _OF_KERNELS
    elif groups or message.usage or "temporaries" in message.used_for:
        yield _TRY, _REMEDIES[groups[0].kind if groups else "buffers"]


def _parts_text(parts: Sequence[MemoryPart]) -> str:
    texts = []
    for part in sorted(parts, key=lambda part: -_most(part.size)):
        more = []
        if part.padded is not None and part.unpadded is not None:
            padding = difference(size_bounds(part.padded), size_bounds(part.unpadded))
            more += [f"{bounds_text(padding)} padding"] if padding[0] else []
        if part.fragmentation is not None and size_bounds(part.fragmentation)[1]:
            more.append(f"{_size_text(part.fragmentation)} fragmentation")
        of_it = f" ({', '.join(more)})" if more else ""
        texts.append(f"{part.name} {_size_text(part.size) or '?'}{of_it}")
    return ", ".join(texts)


def _shortage_table(shortage: MemoryShortage, note: str) -> Table:
    optional = ("padding_bytes", "is_enough", "op_name", "source")
    shown = filled(shortage.COLUMNS, list(shortage.rows()), optional)
    table = Table.of(
        shortage,
        title="Remedies, and the most bytes that each alone would free",
        shown=("what", "buffers", "at_most_bytes", *shown),
        notes=(note,),
    )
    return replace(table, kept=("at_most_bytes", "is_enough", "source"))


def _runtime_sections(name: str, log: LogText) -> Iterator[Section]:
    facts, tables = [*_runtime_facts(log)], [*_runtime_tables(log)]
    entries = list(_numbered(log.buffers))
    notes: tuple[str, ...] = ()
    if tables and len(entries) == 1:  # of the failed allocation
        (_, entry), entries = entries[0], []
        facts += _buffer_facts(entry)
        tables += _buffer_tables(entry)
        notes = gap_notes((), entry.is_complete)
    if tables:
        title = f"{name}: out of memory"
        yield Section(title=title, facts=tuple(facts), tables=tuple(tables), notes=notes)
    for place, entry in entries:
        yield Section(
            title=f"{name}: {'out of memory' if entry.is_oom else 'buffer statistics'}{place}",
            facts=(("line", _line_text(entry.line, entry.repeats)), *_buffer_facts(entry)),
            tables=tuple(_buffer_tables(entry)),
            notes=gap_notes((), entry.is_complete),
        )
    for place, state in _numbered(log.allocators):
        yield Section(
            title=f"{name}: allocator {state.name}".rstrip() + place,
            facts=tuple(_allocator_facts(state, _request_of(state, log.failures))),
            tables=tuple(_allocator_tables(state)),
            notes=() if state.is_complete else (_incomplete_note(state),),
        )


def _runtime_facts(log: LogText) -> Iterator[tuple[str, str]]:
    """Yield what does not fit: the failed allocation, or the number of them."""
    fatal = [failure for failure in log.failures if failure.is_fatal]
    tries = len(log.failures) - len(fatal)
    if len(fatal) == 1:
        yield "does not fit", _failure_text(fatal[0])
        yield "line", _line_text(fatal[0].line, fatal[0].repeats)
    elif fatal:
        printed = sum(1 + len(failure.repeats) for failure in fatal)
        again = f", printed {format_count(printed)} times" if printed > len(fatal) else ""
        yield "failed", f"{plural(len(fatal), 'allocation')}{again}"
    if tries:
        yield "attempts", f"{plural(tries, 'attempt')} that may fail"
    if len(log.limits) == 1:
        (limit,) = log.limits
        missing = difference(size_bounds(limit.reached), size_bounds(limit.wanted))
        yield (
            "too large",
            f"{_size_text(limit.reached)} after rematerialization, XLA wanted "
            f"{_size_text(limit.wanted)}: {bounds_text(missing)} too much (line {limit.line})",
        )
    elif log.limits:
        yield "too large", f"{plural(len(log.limits), 'program')} after rematerialization"


def _failure_text(failure: FailedAllocation) -> str:
    use = " ".join(word for word in (failure.purpose, failure.program) if word)
    free, largest = _size_text(failure.free), _size_text(failure.largest_free)
    missing = failure.missing_bytes
    return "".join(
        (
            f"{_size_text(failure.requested) or 'an amount that is not printed'} requested",
            f" for {use}" if use else "",
            f" of {failure.allocator}" if failure.allocator else "",
            f" on device {failure.device.removeprefix('device:')}" if failure.device else "",
            f", {free} free" if free else "",
            f" (largest piece {largest})" if largest else "",
            f": at most {format_bytes(missing)} too much" if missing else "",
        )
    )


def _runtime_tables(log: LogText) -> Iterator[Table]:
    if log.failures:
        yield _message_table(
            "failed-allocations",
            "Failed allocations",
            log.failures,
            shown=("line", "times", "requested"),
            if_filled=(
                *("repeats", "free", "largest_free", "missing_bytes", "purpose", "program"),
                *("allocator", "device"),
            ),
            is_data_only=len(log.failures) == 1 and log.failures[0].is_fatal,
        )
    if log.limits:
        yield _message_table(
            "rematerialization-limits",
            "Programs that rematerialization did not make small enough",
            log.limits,
            shown=("line", "wanted", "reached", "original", "missing_bytes"),
            is_data_only=len(log.limits) == 1,
        )


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
    state: AllocatorState, request: FailedAllocation | None
) -> Iterator[tuple[str, str]]:
    yield "line", str(state.line)
    limit, in_use, most = map(state.size, ("Limit", "InUse", "MaxInUse"))
    used = in_use or state.chunks_in_use
    if limit is not None:
        yield "limit", str(_size_text(limit))
    if used is not None:
        peak = "" if most is None else f", at most {_size_text(most)} so far"
        yield "in use", f"{_size_text(used)}{peak}"
    if limit is None or used is None:
        return
    free = difference(size_bounds(limit), size_bounds(used))
    largest = unclaimed = None
    if state.free_chunks is not None and state.is_complete:
        largest = max((size for size, _ in state.free_chunks), default=0)
    if state.pool is not None:
        unclaimed = difference(size_bounds(limit), size_bounds(state.pool))
    details = [] if largest is None else [f"largest free chunk {format_bytes(largest)}"]
    if unclaimed is not None and unclaimed[0] > 0:
        details.append(f"{bounds_text(unclaimed)} not yet taken from the device")
    yield "free", " ".join((bounds_text(free), *([f"({'; '.join(details)})"] if details else [])))
    if request is not None and request.requested is not None:
        requested = size_bounds(request.requested)
        pieces = None if largest is None else max(largest, unclaimed[1] if unclaimed else 0)
        yield "verdict", f"{bounds_text(requested)} requested, {_verdict(requested, free, pieces)}"


def _verdict(requested: Bounds, free: Bounds, pieces: int | None) -> str:
    """Return whether free memory is too small, or in pieces of at most some bytes."""
    least, most = requested
    if least > free[1]:
        return f"{bounds_text((least - free[1], most - free[0]))} more than is free"
    if pieces is not None and least > pieces:
        return "less than is free, but in smaller pieces (fragmentation)"
    if most > free[0]:
        return "about as much as is free"
    return "less than is free; the text does not show the cause"


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


def _incomplete_note(state: AllocatorState) -> str:
    listed = sum(size * count for size, count in state.used_chunks)
    if listed and state.chunks_in_use is not None and not state.chunks_in_use.matches(listed):
        whole = _size_text(state.chunks_in_use)
        return f"the text is incomplete: its chunks sum to {format_bytes(listed)} of {whole} in use"
    return "the text is incomplete"


_SUMS = {
    "parameter": "arguments",
    "maybe_live_out": "outputs",
    "preallocated_temp": "temporaries",
    "constant": "constants",
}


_KINDS = {"parameter": "arguments", "maybe_live_out": "outputs", "preallocated_temp": "buffers"}


def _most(size: HumanSize | None) -> int:
    return 0 if size is None else size_bounds(size)[1]


def _buffer_facts(entry: BufferLogEntry) -> Iterator[tuple[str, str]]:
    stats = entry.stats
    if stats is not None:
        sizes = ((meaning, getattr(stats, field)) for field, meaning in _SUMS.items())
        parts = [f"{meaning} {size.text}" for meaning, size in sizes if size is not None]
        whole = "" if stats.total is None else f"; {stats.total.text} in all"
        yield "needs", f"{', '.join(parts)}{whole}"
        unused = stats.preallocated_temp_fragmentation
        if unused is not None and size_bounds(unused)[0]:
            yield "never in use", f"{unused.text} of the temporaries"
        largest = max(_KINDS, key=lambda name: _most(getattr(stats, name)))
        if _most(getattr(stats, largest)):
            yield _TRY, f"of this program's memory, {_REMEDIES[_KINDS[largest]]}"


def _buffer_tables(entry: BufferLogEntry) -> Iterator[Table]:
    if entry.peak_buffers:
        yield Table.of(
            peak_buffer_groups(entry.peak_buffers),
            title="Largest values at the peak, equal ones together",
            shown=("what", "buffers", "at_most_bytes", "op_name", "source"),
        )


def _stats_section(title: str, stats: PrintedStats) -> Section:
    facts = [("line", str(stats.line))]
    if stats.needed_bytes is not None:
        facts.append(("memory", f"{format_bytes(stats.needed_bytes)} needed on each device"))
    flops = stats.value("flops")
    if flops is not None and math.isfinite(flops) and flops >= 0:
        work = f"{flops_text(int(flops))} as XLA counts them, bodies of loops once"
        facts.append(("work", work))
    columns = _columns(name="name as printed", value="bytes, operations or a share, by the name")
    table = table_of("printed-stats", "Numbers as printed", columns, list(stats.values))
    return Section(title=title, facts=tuple(facts), tables=(table,))


_FIGURES = ("size_bytes", "limit_bytes", "seconds", "limit_seconds")
_WARNING_NOTES = {
    WarningKind.FULL_REMATERIALIZATION: (
        "full rematerialization: every device gathers the whole value, then keeps its part; a "
        "sharding constraint in between, one axis at a time, may avoid it"
    ),
    WarningKind.LARGE_ARGUMENTS: (
        "arguments exceed the limit: arguments and outputs alone are larger than the memory "
        "that XLA's scheduler plans with"
    ),
}


def _warnings_section(name: str, result: LoggedWarnings) -> Section:
    wanted = ["about", "op_name", "source", "from_sharding", "to_sharding", *_FIGURES]
    if result.is_joined:
        is_all_found = all(warning.instruction for warning in result.warnings)
        wanted = ["instruction", "source", "full_bytes", "how", "from_sharding", "to_sharding"]
        wanted = [*([] if is_all_found else ["about"]), *wanted, *_FIGURES]
    shown = filled(result.COLUMNS, list(result.rows()), wanted)
    title = "Warnings, equal ones together"
    table = Table.of(result, title=title, shown=("line", "times", "warning", *shown))
    return Section(
        title=f"{name}: compiler warnings",
        facts=tuple(_warning_facts(result)),
        tables=(replace(table, kept=("warning", "about")),),
        notes=tuple(_warning_notes(result)),
    )


def _warning_facts(result: LoggedWarnings) -> Iterator[tuple[str, str]]:
    for kind in dict.fromkeys(one.warning for one in result.warnings):
        alike = [one for one in result.warnings if one.warning == kind]
        sizes = [one.size_bytes for one in alike if one.size_bytes is not None]
        is_sum = kind == WarningKind.UNUSED_DONATION.value and len(sizes) == len(alike)
        size = f", {format_bytes(sum(sizes))}" if is_sum else ""
        yield kind, plural(sum(one.times for one in alike), "warning") + size
    if result.is_joined:
        sure = sum(one.module is not None for one in result.warnings)
        yield "joined", f"{sure} of {len(result.warnings)} with the dump"


def _warning_notes(result: LoggedWarnings) -> Iterator[str]:
    messages = [one.message for one in result.warnings]
    kinds = {message.kind for message in messages}
    notes = iter(_WARNING_NOTES.items())
    first, note = next(notes)
    if first in kinds:
        yield note
    donations = [one for one in messages if one.kind is WarningKind.UNUSED_DONATION]
    for reason in dict.fromkeys(one.reason for one in donations if one.reason):
        yield f"unused donation: {reason}"
    if any(not one.reason for one in donations):
        yield "unused donation: the memory is not reused; the log has no reason"
    yield from (note for kind, note in notes if kind in kinds)
    if not result.is_joined and messages:
        yield "instructions in a dump of the same program: hlo-lens report DUMP --log LOG"


def _sharding_section(name: str, log: ShardingLog) -> Section:
    meshes = Counter(
        (mesh, value.axis_types)
        for value in (one.value for one in log.values)
        if (mesh := value.mesh) is not None
    )
    facts = []
    for (mesh, types), count in meshes.most_common():
        axes = ", ".join(f"{axis}={size}" for axis, size in mesh.sizes.items())
        of = f"{axes}{f' ({types})' if types else ''}, {plural(mesh.size, 'device')}"
        facts.append(("mesh", f"{of}, {plural(count, 'time')}"))
    drawn = drawn_shardings(log)
    tables = []
    if drawn.drawings:
        agreed = sum(drawing.agrees_with is not None for drawing in drawn.drawings)
        words = f"{agreed} of {len(drawn.drawings)} agree with a sharding of the log"
        facts.append(("drawings", words))
        is_named = all(drawing.spec is not None for drawing in drawn.drawings)
        sharding = () if is_named else ("sharding",)
        title = "Drawings: which devices hold which part"
        shown = ("line", "boxes", "label", *sharding, "spec", "agrees_with", "sharding_text")
        tables.append(Table.of(drawn, title=title, shown=shown))
    if log.values:
        columns = (*_columns(line="1-based line of the first"), _TIMES, *_VALUE_COLUMNS)
        times = Counter(one.value for one in log.values)
        firsts = {one.value: one for one in reversed(log.values)}
        rows = [
            (firsts[value].line, count, *_cells(firsts[value])) for value, count in times.items()
        ]
        title = "All shardings and meshes, equal ones together"
        tables.append(table_of("logged-shardings", title, columns, rows))
    calls = log.code_calls
    return Section(
        title=f"{name}: shardings",
        facts=tuple(facts),
        tables=tuple(tables),
        notes=(f"{plural(calls, 'call')} in source code skipped",) if calls else (),
    )


_VALUE_COLUMNS = _columns(
    kind="class of the value",
    label="words before it on its line",
    value="sharding or mesh",
    sharding="in XLA's notation",
)


def _cells(one: LoggedSharding) -> tuple[str | None, ...]:
    sharding = one.value.sharding()
    notation = None if sharding is None else sharding.text
    return one.value.kind, one.label, one.value.words, notation
