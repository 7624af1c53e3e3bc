"""Messages of XLA about memory that is not enough, and groups of buffers that could be freed.

Source: see ``grammars/out_of_memory.lark``. Printed sizes are rounded; each stands for a range of
bytes (`HumanSize`). A size printed in bytes is a range of one number. The state of a BFC allocator
may be printed whole or from any of its lines on, and have hundreds of thousands of lines.

Groups are computed from the numbers of a message alone. Freeing one saves at most its bytes, and
less if its buffers are not alive when memory runs out, or share memory with others; a group is
enough only if its smallest size is at least the largest number of missing bytes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypeAlias, TypeVar

from hlo_lens.buffers.memory_usage import HumanSize
from hlo_lens.hlo.metadata import OpMetadata
from hlo_lens.logs.messages import (
    Fields,
    Found,
    Lines,
    MessageRule,
    line_start,
    read_first,
    read_metadata,
    source_of,
)
from hlo_lens.render.result import Records, Unit
from hlo_lens.shapes.shape import element_type, parse_shape
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from hlo_lens.text.source import Source

Bounds: TypeAlias = tuple[int, int]
"""Smallest and largest number of bytes, both inclusive."""


def size_bounds(size: HumanSize) -> Bounds:
    """Return the smallest and largest number of bytes that print as a size."""
    least, most = size.at_least, size.at_most
    return (0, 0) if least is None or most is None else (least, most)


def sum_bounds(sizes: Iterable[HumanSize]) -> Bounds:
    """Return the bounds of the sum of printed sizes."""
    listed = [size_bounds(size) for size in sizes]
    return sum(low for low, _ in listed), sum(high for _, high in listed)


def difference(whole: Bounds, part: Bounds) -> Bounds:
    """Return the range of one size less another, at least 0."""
    return max(0, whole[0] - part[1]), max(0, whole[1] - part[0])


def _most_missing(size: HumanSize | None, limit: HumanSize | None) -> int | None:
    if size is None or limit is None:
        return None
    return difference(size_bounds(size), size_bounds(limit))[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """A line of a memory statement."""

    name: Annotated[str, "use of the memory"]
    size: Annotated[HumanSize | None, "bytes as printed"]
    unpadded: Annotated[HumanSize | None, "bytes of its values, without padding"] = None
    padded: Annotated[HumanSize | None, "the same with padding"] = None
    fragmentation: Annotated[HumanSize | None, "bytes that no value occupies"] = None


_LABEL = re.compile(r"%?([\w.-]+) = (?:.*?[\])}] |\(.*?\) )?([a-z][a-z0-9-]*)\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAllocation:
    """One of the largest allocations of a program; `operator` is its metadata."""

    number: Annotated[int | None, "1 for the largest"] = None
    size: Annotated[HumanSize | None, "bytes as printed, with padding"] = None
    operator: OpMetadata | None = None
    shape: Annotated[str | None, "shape with layout"] = None
    unpadded: Annotated[HumanSize | None, "bytes without padding"] = None
    padding: Annotated[HumanSize | None, "extra bytes due to padding"] = None
    expansion: Annotated[float | None, "size divided by the size without padding"] = None
    label: Annotated[str | None, "instruction text as printed, may be cut off"] = None
    allocation_type: Annotated[str, "kind of memory"] = ""

    @property
    def instruction(self) -> Annotated[str | None, "instruction that needs it"]:
        match = _LABEL.match(self.label or "")
        return None if match is None else match[1]

    @property
    def opcode(self) -> Annotated[str | None, "its opcode"]:
        match = _LABEL.match(self.label or "")
        return None if match is None else match[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOutOfMemory:
    """A program that the TPU compiler refused for lack of memory.

    Attributes:
        memory_space: ``hbm``, ``vmem``, ``smem``, ``sflag``, ...
        used: Bytes that the program needs; for both kinds of cores if printed for each.
        used_for: Meaning of `used`, in the words of the message.
        instruction: The instruction, as HLO text, whose stack did not fit.
        total: Lower bound of the whole usage, with memory reserved by the system.
        output_shared: Bytes of the outputs that are donated arguments.
        requirement: Bytes of the program without arguments and outputs.
        repeats: Lines at which it is printed again.
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
    """An allocation that failed in a running program."""

    requested: Annotated[HumanSize | None, "bytes as printed"]
    free: Annotated[HumanSize | None, "free bytes"] = None
    largest_free: Annotated[HumanSize | None, "bytes of the largest free region"] = None
    device: Annotated[str, "0x0x0_HBM0, an ordinal, or empty"] = ""
    allocator: Annotated[str, "name of the allocator, such as GPU_0_bfc"] = ""
    program: Annotated[str | None, "executable that was loaded or run"] = None
    purpose: Annotated[str, "purpose of the memory: device buffer, program, tensor[2,3]"] = ""
    is_fatal: Annotated[bool, "false if the caller can continue without"] = True
    printed_by: str = field(default="runtime", compare=False)
    """``driver``, ``allocator``, ``runtime`` or ``exception``."""
    line: Annotated[int, "1-based line of the file, of the first"] = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
    repeats: Annotated[tuple[int, ...], "lines of further messages about the same failure"] = field(
        default=(), compare=False
    )

    @property
    def missing_bytes(self) -> Annotated[int | None, Unit.BYTES, "requested less free, at most"]:
        return _most_missing(self.requested, self.free)


@dataclass(frozen=True, slots=True, kw_only=True)
class RematerializationLimit:
    """A program that rematerialization did not make as small as XLA wanted."""

    wanted: Annotated[HumanSize, "bytes that XLA aimed at"]
    reached: Annotated[HumanSize, "bytes after rematerialization"]
    original: Annotated[HumanSize | None, "bytes before rematerialization"] = None
    line: Annotated[int, "1-based line of the file"] = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)

    @property
    def missing_bytes(self) -> Annotated[int | None, Unit.BYTES, "reached less wanted, at most"]:
        return _most_missing(self.reached, self.wanted)


_REFUSALS = {
    rule: MessageRule(rule)
    for rule in (
        *("stack_overflow", "stack_without_room", "ran_out"),
        *("too_many_temporaries", "would_exceed", "cores_exceed"),
    )
}
_REFUSAL_LINE = MessageRule("refusal_line")
_NEXT = re.compile(
    r"Ran out of memory |would exceed memory \(|RESOURCE_EXHAUSTED|Resource exhausted"
)
_TAG = re.compile(r"shape = '([^']*)'|space=(\w+)|tag = '([^\n]*)'\]$")
_SECTIONS = ("TOTAL", "OUTPUT", "REQUIREMENT", "LARGEST")
_LISTED = len(_SECTIONS) - 1
_USAGE = ("reserved", "program", "arguments")
_ALLOCATION_FIELDS = frozenset(
    ("NUMBERED", "OPERATOR", "SHAPE", "UNPADDED", "PADDING", "LABEL", "ALLOCATION_TYPE", "RULE")
)


def read_refusal(source: Source, place: int) -> Found[CompileOutOfMemory] | None:
    """Return the refusal of a program whose first words are at an offset; None if it is none."""
    sentence = read_first(_REFUSALS, source.text, place)
    if sentence is None:
        return None
    name, fields, end = sentence
    values = _sentence_values(name, fields)
    lines = Lines(source, _REFUSAL_LINE, end, _NEXT)
    if name != "would_exceed":
        values |= _table_values(lines)
    message = CompileOutOfMemory(**values, is_complete=not lines.gaps)  # type: ignore[arg-type] # by name
    return Found(message, place, lines.end, lines.gaps)


def _table_values(lines: Lines) -> dict[str, object]:
    values: dict[str, object] = {}
    usage: list[MemoryPart] = []
    parts: list[MemoryPart] = []
    allocations: list[tuple[int, Fields]] = []
    rank, is_closed = -1, True
    for fields, start in lines:
        section = next((k for k, name in enumerate(_SECTIONS) if name in fields), -1)
        if 0 <= section <= rank:
            break  # another message
        rank = max(rank, section)
        if "PART" in fields:
            (usage if fields["PART"] in _USAGE else parts).append(_part(fields))
        elif _ALLOCATION_FIELDS.isdisjoint(fields):
            values |= _line_values(fields)
        elif "RULE" not in fields or not is_closed:
            begins = "NUMBERED" in fields or (rank == _LISTED and is_closed)
            if begins or not allocations:
                allocations.append((start, Fields()))
            allocations[-1][1].update(fields)
            is_closed = "RULE" in fields or "ALLOCATION_TYPE" in fields
    if rank == _LISTED:
        allocations = _whole_allocations(lines, allocations)
    listed = tuple(_allocation(fields) for _, fields in allocations)
    return values | {"usage": tuple(usage), "parts": tuple(parts), "allocations": listed}


def _whole_allocations(
    lines: Lines, allocations: Sequence[tuple[int, Fields]]
) -> list[tuple[int, Fields]]:
    """Return the allocations of a list; those that are cut off are gaps."""
    text = lines.source.text
    whole: list[tuple[int, Fields]] = []
    ends = [*(start for start, _ in allocations), lines.end][1:]
    for (start, fields), end in zip(allocations, ends, strict=True):
        count = text.count("\n", start, max(start, end - 1)) + 1
        is_open = lines.end >= len(text) and not text.endswith("\n") and end == lines.end
        if "ALLOCATION_TYPE" in fields and ("RULE" in fields or not is_open):
            whole.append((start, fields))
        else:
            lines.gap(start, "the allocation is not complete", count)
    return whole


def _sentence_values(name: str, fields: Fields) -> dict[str, object]:
    used = tuple(size for key in ("USED", "SPARSE_USED") if (size := fields.size(key)) is not None)
    values: dict[str, object] = {
        "memory_space": fields.get("SPACE", "").lower(),
        "used": used,
        "capacity": fields.size("CAPACITY"),
        "exceeded": fields.size("EXCEEDED"),
    }
    match name:
        case "too_many_temporaries":
            values |= {"used_for": fields["USED_FOR"], "module": fields.get("MODULE")}
        case "stack_overflow" | "stack_without_room":
            owner = fields.get("STACK_OWNER") or fields["REST"]
            values |= {"used_for": "the stack of one instruction", "instruction": owner}
        case "cores_exceed":
            values |= {"memory_space": "hbm", "used_for": "TensorCore and SparseCore"}
        case "would_exceed":
            shape = space = purpose = ""
            for match in _TAG.finditer(fields.get("ALLOCATION_TAG", "")):
                shape, space, purpose = match[1] or shape, match[2] or space, match[3] or purpose
            owner = fields.get("REST", "")
            values |= {
                "memory_space": space,
                "used_for": purpose or "one allocation",
                "instruction": None if owner in ("", "<no-hlo-instruction>") else owner,
                "parts": (MemoryPart(name=shape or "one allocation", size=used[0]),),
            }
    return values


def _line_values(fields: Fields) -> dict[str, object]:
    names = ("CAPACITY", "EXCEEDED", "TOTAL", "OUTPUT", "OUTPUT_SHARED", "REQUIREMENT")
    values: dict[str, object] = {
        name.lower(): fields.size(name) for name in names if name in fields
    }
    return values | {"used": (fields.size("USED"),)} if "USED" in fields else values


def _part(fields: Fields) -> MemoryPart:
    return MemoryPart(
        name=fields["PART"],
        size=fields.size("PART_SIZE"),
        unpadded=fields.size("PART_UNPADDED"),
        padded=fields.size("PART_PADDED"),
        fragmentation=fields.size("FRAGMENTATION"),
    )


def _allocation(fields: Fields) -> ProgramAllocation:
    operator = fields.text("OPERATOR")
    if operator is None:
        metadata = None
    elif "=" not in operator.partition('"')[0]:  # messages of 2026 may print a path alone
        metadata = OpMetadata(op_name=operator) if operator else read_metadata("{}")
    else:
        metadata = read_metadata(f"{{{operator}}}")
    return ProgramAllocation(
        number=int(fields["NUMBERED"].partition(".")[0]) if "NUMBERED" in fields else None,
        size=fields.size("SIZE"),
        operator=metadata,
        shape=fields.text("SHAPE"),
        unpadded=fields.size("UNPADDED"),
        padding=fields.size("PADDING"),
        expansion=float(fields["EXPANSION"]) if "EXPANSION" in fields else None,
        label=fields.text("LABEL"),
        allocation_type=fields.text("ALLOCATION_TYPE") or "",
    )


_FAILURES = {  # rule to the part of the system that prints it, exceptions apart
    "out_of_memory": "runtime",
    "failed_request": "driver",
    "failed_bytes": "driver",
    "tensor_failed": "runtime",
    "not_possible": "runtime",
    "allocator_failed": "allocator",
    "nameless_failed": "allocator",
}
_FAILURE_RULES = {name: MessageRule(name) for name in _FAILURES}
_PURPOSE = re.compile(
    r"Error (?:allocating (device buffer)|loading (program)(?: '([^'\n]*)')?): *\Z"
)
_EXCEPTION = re.compile(r"[\w.]{0,100}(?:Error|Exception|exception)\b[^\n]*\Z")
_BEFORE = 200
"""Characters before a failure in which the purpose of the memory is looked for."""


def read_failure(source: Source, place: int) -> Found[FailedAllocation] | None:
    """Return the failed allocation whose first words are at an offset; None if it is none."""
    sentence = read_first(_FAILURE_RULES, source.text, place)
    if sentence is None:
        return None
    name, fields, end = sentence
    before = source.text[max(place - _BEFORE, 0) : place]
    purpose = _PURPOSE.search(before)
    program, use = fields.get("EXECUTABLE"), ""
    if purpose is not None:
        program, use = purpose[3] or program, purpose[1] or purpose[2]
    requested = fields.size("REQUESTED")
    device = fields.get("DEVICE_ORDINAL") or fields.get("DEVICE", "").strip("; ()")
    if name == "tensor_failed":
        requested = _tensor_size(fields)
        use = use if requested is not None else f"tensor{fields['TENSOR_DIMENSIONS']}"
        device = fields.get("TENSOR_DEVICE", "").rpartition("/")[2]
    failure = FailedAllocation(
        requested=requested,
        free=fields.size("FREE"),
        largest_free=fields.size("LARGEST_FREE"),
        device=device,
        allocator=fields.get("ALLOCATOR_NAME", ""),
        program=program or None,
        purpose=use,
        is_fatal="is not a failure" not in fields.get("REQUESTED_BY", ""),
        printed_by="exception" if _EXCEPTION.search(before) else _FAILURES[name],
    )
    return Found(failure, place, end)


def _tensor_size(fields: Fields) -> HumanSize | None:
    """Return the bytes of a tensor; None if its type is not printed (before 2018), or unknown."""
    dtype = element_type({"float": "float32"}.get(name := fields.get("TENSOR_TYPE", ""), name))
    try:
        shape = None if dtype is None else parse_shape(f"{dtype}{fields['TENSOR_DIMENSIONS']}")
    except DumpSyntaxError:
        return None
    return None if shape is None or shape.size_bytes is None else HumanSize(f"{shape.size_bytes}B")


_LIMIT = MessageRule("rematerialization_limit")


def read_limit(source: Source, place: int) -> Found[RematerializationLimit] | None:
    """Return the limit of rematerialization at an offset; None if it is none."""
    sentence = _LIMIT.read(source.text, place)
    if sentence is None:
        return None
    fields, end = sentence
    wanted, reached = fields.size("WANTED"), fields.size("REACHED")
    if wanted is None or reached is None:
        return None
    limit = RematerializationLimit(wanted=wanted, reached=reached, original=fields.size("ORIGINAL"))
    return Found(limit, place, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorState:
    """State of a BFC allocator when an allocation failed.

    Attributes:
        used_chunks: Size in bytes and number of chunks in use, as in the summary.
        free_chunks: The same of free chunks, counted from the list of all chunks; None without one.
        chunks_in_use: Sum of the chunks in use, as printed.
        pool: Bytes that the allocator has taken from the device.
        stats: Names and numbers, or sizes as printed since 2026: ``Limit``, ``InUse``,
            ``MaxInUse``, ``NumAllocs``, ...
    """

    name: str = ""
    used_chunks: tuple[tuple[int, int], ...] = ()
    free_chunks: tuple[tuple[int, int], ...] | None = None
    chunks_in_use: HumanSize | None = None
    pool: HumanSize | None = None
    stats: tuple[tuple[str, int | HumanSize], ...] = ()
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
    is_complete: bool = field(default=True, compare=False)

    def size(self, name: str) -> HumanSize | None:
        value = dict(self.stats).get(name)
        return HumanSize(f"{value}B") if isinstance(value, int) else value


_STATE_LINE = MessageRule("state_line")
_FIRST_STATS = ("Limit", "InUse")
_LAST_STATS = {"LargestFreeBlock", "MaxAllocSize"}


def read_allocator(source: Source, place: int) -> Found[AllocatorState] | None:
    """Return the allocator state on the line of an offset and below; None if there is none."""
    start = _first_line(source.text, place)
    lines = Lines(source, _STATE_LINE, start)
    bins = set[str]()
    used: list[tuple[int, int]] = []
    free: Counter[int] | None = None
    stats: dict[str, int | HumanSize] = {}
    single = Fields()
    for fields, _ in lines:
        if _begins_another(fields, bins, stats, single):
            break
        if "STAT" in fields:
            stats[_stat_name(fields)] = _number(fields["STAT_VALUE"])
        elif "CHUNK_STATE" in fields:
            free = Counter() if free is None else free
            free[int(fields["CHUNK_SIZE"])] += fields["CHUNK_STATE"].startswith("Free")
        elif "LEAST" in fields:
            bins.add(fields["LEAST"])
        elif "COUNT" in fields:
            used.append((int(fields["EACH"]), int(fields["COUNT"])))
        else:
            single.update(fields)
    if not (bins or used or stats or free or "SUM" in single):
        return Found(None, start, lines.end) if lines.end > place else None
    pool, total = _number(single.get("POOL", "0B")), single.size("SUM")
    begins = "ALLOCATOR_NAME" in single or bool(bins)  # else chunks may be missing above
    is_whole = total is not None and total.matches(sum(size * count for size, count in used))
    state = AllocatorState(
        name=single.get("ALLOCATOR_NAME", ""),
        used_chunks=tuple(used),
        free_chunks=tuple(sorted((+free).items())) if free is not None and begins else None,
        chunks_in_use=total,
        pool=HumanSize(f"{pool}B") if isinstance(pool, int) else pool if "POOL" in single else None,
        stats=tuple(stats.items()),
        is_complete=is_whole and not lines.gaps and not _LAST_STATS.isdisjoint(stats),
    )
    return Found(state, start, lines.end, lines.gaps)


def _first_line(text: str, place: int) -> int:
    """Return the start of the first line of the state with a line at an offset."""
    start = line_start(text, place)
    while (
        start and (before := _STATE_LINE.read_line(text, line_start(text, start - 1))) is not None
    ):
        if "STAT" in before and _stat_name(before) not in _FIRST_STATS:
            break
        start = line_start(text, start - 1)
    return start


def _begins_another(
    fields: Fields,
    bins: Collection[str],
    stats: Mapping[str, int | HumanSize],
    single: Fields,
) -> bool:
    if "ALLOCATOR_NAME" in fields:
        return bool(bins or stats or "ALLOCATOR_NAME" in single)
    return fields.get("LEAST") in bins or _stat_name(fields) in stats


def _stat_name(fields: Fields) -> str:
    return fields.get("STAT", "").lstrip("| ")


def _number(text: str) -> int | HumanSize:
    """Return a number of bytes or of allocations, or the size printed for it since 2026."""
    return int(text) if text.isdecimal() else HumanSize(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGroup:
    """Bytes that one measure could free.

    Kinds are ``padding``, ``fragmentation``, ``arguments``, ``outputs`` and ``buffers``; of a dump
    also ``replicated`` and ``donation``.
    """

    kind: Annotated[str, "kind of measure"]
    what: Annotated[str, "name of the group"]
    buffers: Annotated[int | None, Unit.COUNT, "number of buffers"] = None
    at_least_bytes: Annotated[int, Unit.BYTES, "smallest number that rounds to the printed one"]
    at_most_bytes: Annotated[int, Unit.BYTES, "largest number that rounds to the printed one"]
    padding_bytes: Annotated[int | None, Unit.BYTES, "padding in these bytes, at most"] = None
    is_enough: Annotated[str | None, "whether the group is as large as the missing bytes"] = None
    op_name: Annotated[str | None, "operation path"] = None
    source: Annotated[str | None, "line of the program"] = None

    @classmethod
    def of(
        cls, kind: str, what: str, size: Bounds, buffers: int | None = None, **others: Any
    ) -> MemoryGroup:
        least, most = size
        others |= {"at_least_bytes": least, "at_most_bytes": most}
        return cls(kind=kind, what=what, buffers=buffers, **others)


@dataclass(frozen=True, kw_only=True)
class MemoryShortage(Records[MemoryGroup]):
    """Groups by size, largest first; groups overlap, so there is no total."""

    KIND: ClassVar[str] = "memory-shortage"
    groups: tuple[MemoryGroup, ...]
    missing: Bounds | None


def shortage_of(groups: Iterable[MemoryGroup], missing: Bounds | None = None) -> MemoryShortage:
    """Return groups, largest first, with the verdict on each: ``yes``, ``no`` or ``perhaps``."""

    def verdict(group: MemoryGroup) -> str | None:
        if missing is None:
            return None
        if group.at_least_bytes >= missing[1]:
            return "yes"
        return "no" if group.at_most_bytes < missing[0] else "perhaps"

    judged = [replace(group, is_enough=verdict(group)) for group in groups]
    judged.sort(key=lambda group: (-group.at_most_bytes, group.kind, group.what))
    return MemoryShortage(missing=missing, groups=tuple(judged))


def memory_shortage(message: CompileOutOfMemory) -> MemoryShortage:
    """Return the missing bytes and the groups of a message of the TPU compiler."""
    groups = [*_overheads(message), *_interface(message), *_allocations(message.allocations)]
    return shortage_of(groups, missing_bytes(message))


def missing_bytes(message: CompileOutOfMemory) -> Bounds | None:
    """Return the bytes beyond the capacity; None if they are not known."""
    bounds: list[Bounds] = []
    if message.exceeded is not None:
        bounds.append(size_bounds(message.exceeded))
    if message.used and message.capacity is not None:
        bounds.append(difference(sum_bounds(message.used), size_bounds(message.capacity)))
    if not bounds:
        return None
    least, most = max(low for low, _ in bounds), min(high for _, high in bounds)
    return (least, most) if least <= most else bounds[0]


def _overheads(message: CompileOutOfMemory) -> Iterator[MemoryGroup]:
    is_padding_printed = False
    for part in message.parts:
        if part.padded is not None and part.unpadded is not None:
            is_padding_printed = True
            size = difference(size_bounds(part.padded), size_bounds(part.unpadded))
            if size[0]:
                yield MemoryGroup.of("padding", f"padding of all {part.name}", size)
        if part.fragmentation is not None:
            size = size_bounds(part.fragmentation)
            if size[1]:
                yield MemoryGroup.of("fragmentation", f"fragmentation of {part.name}", size)
    paddings = [a.padding for a in message.allocations if a.padding is not None]
    if paddings and not is_padding_printed:
        what = "padding of the allocations listed"
        yield MemoryGroup.of("padding", what, sum_bounds(paddings), len(paddings))


def _interface(message: CompileOutOfMemory) -> Iterator[MemoryGroup]:
    """Yield the arguments, and the outputs that share no memory with an argument."""
    for part in message.usage:
        if part.name == "arguments" and part.size is not None and size_bounds(part.size)[1]:
            yield MemoryGroup.of("arguments", "all arguments", size_bounds(part.size))
    if message.output is not None:
        shared = (0, 0) if message.output_shared is None else size_bounds(message.output_shared)
        size = difference(size_bounds(message.output), shared)
        if size[0]:
            yield MemoryGroup.of("outputs", "outputs that share no memory with arguments", size)


_LAYOUT = re.compile(r"\{[^{}]*\}|/\*index=\d+\*/")


def _allocations(allocations: Sequence[ProgramAllocation]) -> Iterator[MemoryGroup]:

    def key(one: ProgramAllocation) -> tuple[object, ...]:
        return one.allocation_type, one.opcode, one.shape

    for same in alike([one for one in allocations if one.size is not None], key):
        first = same[0]
        paddings = [a.padding for a in same if a.padding is not None]
        words = (first.opcode or first.label or "", _LAYOUT.sub("", first.shape or ""))
        what = " ".join(word for word in words if word) or first.allocation_type
        group = group_of("buffers", what, same)
        yield replace(group, padding_bytes=sum_bounds(paddings)[1] if paddings else None)


class _Buffer(Protocol):
    @property
    def size(self) -> HumanSize | None: ...
    @property
    def operator(self) -> OpMetadata | None: ...


B = TypeVar("B", bound=_Buffer)


def alike(buffers: Sequence[B], key: Callable[[B], tuple[object, ...]]) -> list[list[B]]:
    """Return buffers with equal keys and operations together, in the order of the first of each."""
    found: dict[object, list[B]] = defaultdict(list)
    for one in buffers:
        found[key(one), None if one.operator is None else one.operator.op_name].append(one)
    return list(found.values())


def group_of(kind: str, what: str, same: Sequence[_Buffer]) -> MemoryGroup:
    """Return the group of equal buffers."""
    operator, sizes = same[0].operator, [one.size for one in same if one.size is not None]
    op_name = None if operator is None else operator.op_name
    source = source_of(operator)
    return MemoryGroup.of(kind, what, sum_bounds(sizes), len(same), op_name=op_name, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpShortage:
    """Facts of a dump on the message of its compile."""

    module: str | None = None
    candidates: tuple[str, ...] = ()
    needed_bytes: int | None = None
    agrees: bool | None = None
    groups: MemoryShortage | None = None
    notes: tuple[str, ...] = ()
