"""Missing bytes of a program that does not fit, and groups of buffers that could be freed.

Computed from the numbers of a message alone. Freeing a group saves at most its bytes, and less if
its buffers are not alive when memory runs out, or share memory with others. Sizes in messages are
rounded, so each is a range of bytes; a group is enough only if its smallest size is at least the
largest number of missing bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.buffers.human_size import HumanSize
    from hlo_lens.hlo.metadata import OpMetadata
    from hlo_lens.logs.log import PeakBuffer
    from hlo_lens.logs.out_of_memory import CompileOutOfMemory, ProgramAllocation

_LAYOUT = re.compile(r"\{[^{}]*\}|/\*index=\d+\*/")

Bounds: TypeAlias = tuple[int, int]
"""Smallest and largest number of bytes, both inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGroup:
    """Bytes that one measure could free; other fields are columns of `MemoryShortage`.

    Attributes:
        kind: ``padding``, ``fragmentation``, ``arguments``, ``outputs``, ``buffers``.
        size: Sum of their bytes.
        padding: Padding in these bytes; None if it is not known.
    """

    kind: str
    what: str
    buffers: int | None = None
    size: Bounds
    padding: Bounds | None = None
    op_name: str | None = None
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryShortage(Result):
    """Groups by size, largest first; groups overlap, so there is no total.

    Attributes:
        missing: Bytes that do not fit; None if they are not known.
        groups: The groups.
    """

    KIND: ClassVar[str] = "memory-shortage"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("kind", Unit.NONE, "kind of measure"),
        Column("what", Unit.NONE, "name of the group"),
        Column("buffers", Unit.COUNT, "number of buffers"),
        Column("at_least_bytes", Unit.BYTES, "smallest number that rounds to the printed one"),
        Column("at_most_bytes", Unit.BYTES, "largest number that rounds to the printed one"),
        Column("padding_bytes", Unit.BYTES, "padding in these bytes, at most"),
        Column("is_enough", Unit.NONE, "whether the group is as large as the missing bytes"),
        Column("op_name", Unit.NONE, "operation path"),
        Column("source", Unit.NONE, "line of the program"),
    )
    missing: Bounds | None
    groups: tuple[MemoryGroup, ...]

    def rows(self) -> Iterator[Row]:
        """Yield a row for each group."""
        for group in self.groups:
            yield (
                group.kind,
                group.what,
                group.buffers,
                *group.size,
                None if group.padding is None else group.padding[1],
                self.is_enough(group.size),
                group.op_name,
                group.source,
            )

    def is_enough(self, size: Bounds) -> str | None:
        """Return ``yes``, ``no`` or ``perhaps``; None if the missing bytes are not known."""
        if self.missing is None:
            return None
        if size[0] >= self.missing[1]:
            return "yes"
        return "no" if size[1] < self.missing[0] else "perhaps"


def memory_shortage(message: CompileOutOfMemory) -> MemoryShortage:
    """Return the missing bytes and the groups of a message of the TPU compiler."""
    groups = [*_overheads(message), *_interface(message), *_buffers(message.allocations)]
    return MemoryShortage(missing=missing_bytes(message), groups=tuple(sorted(groups, key=_order)))


def peak_buffer_groups(
    buffers: Sequence[PeakBuffer], missing: Bounds | None = None
) -> MemoryShortage:
    """Return the largest buffers at a peak, equal ones as one group."""
    found: dict[tuple[object, ...], list[PeakBuffer]] = {}
    for buffer in buffers:
        op_name = None if buffer.operator is None else buffer.operator.op_name
        key = (buffer.is_entry_parameter, buffer.label, buffer.shape_text, op_name)
        found.setdefault(key, []).append(buffer)
    groups = []
    for same in found.values():
        first = same[0]
        label = "parameter" if first.is_entry_parameter else first.label or "value"
        operator = first.operator
        groups.append(
            MemoryGroup(
                kind="arguments" if first.is_entry_parameter else "buffers",
                what=f"{label} {first.shape_text or ''}".strip(),
                buffers=len(same),
                size=sum_bounds(buffer.size for buffer in same),
                op_name=None if operator is None else operator.op_name,
                source=source_of(operator),
            )
        )
    return MemoryShortage(missing=missing, groups=tuple(sorted(groups, key=_order)))


def missing_bytes(message: CompileOutOfMemory) -> Bounds | None:
    """Return the bytes beyond the capacity; None if they are not known."""
    bounds: list[Bounds] = []
    if message.exceeded is not None:
        bounds.append(size_bounds(message.exceeded))
    if message.used and message.capacity is not None:
        used, capacity = sum_bounds(message.used), size_bounds(message.capacity)
        bounds.append((max(0, used[0] - capacity[1]), used[1] - capacity[0]))
    if not bounds:
        return None
    least, most = max(low for low, _ in bounds), min(high for _, high in bounds)
    return (least, most) if least <= most else bounds[0]


def size_bounds(size: HumanSize) -> Bounds:
    """Return the smallest and largest number of bytes that print as a size."""
    least, most = size.at_least, size.at_most
    return (0, 0) if least is None or most is None else (least, most)


def sum_bounds(sizes: Iterable[HumanSize]) -> Bounds:
    """Return the bounds of the sum of printed sizes."""
    listed = [size_bounds(size) for size in sizes]
    return sum(low for low, _ in listed), sum(high for _, high in listed)


def _order(group: MemoryGroup) -> tuple[int, str, str]:
    return -group.size[1], group.kind, group.what


def _overheads(message: CompileOutOfMemory) -> Iterator[MemoryGroup]:
    """Yield the padding and the fragmentation of the parts of a program."""
    told = False
    for part in message.parts:
        if part.padded is not None and part.unpadded is not None:
            told = True
            padded, unpadded = size_bounds(part.padded), size_bounds(part.unpadded)
            size = (max(0, padded[0] - unpadded[1]), max(0, padded[1] - unpadded[0]))
            if padded[0] > unpadded[1]:
                yield MemoryGroup(kind="padding", what=f"padding of all {part.name}", size=size)
        if part.fragmentation is not None:
            size = size_bounds(part.fragmentation)
            if size[1]:
                what = f"fragmentation of {part.name}"
                yield MemoryGroup(kind="fragmentation", what=what, size=size)
    padded_ones = [a.padding for a in message.allocations if a.padding is not None]
    if padded_ones and not told:
        yield MemoryGroup(
            kind="padding",
            what="padding of the allocations listed",
            buffers=len(padded_ones),
            size=sum_bounds(padded_ones),
        )


def _interface(message: CompileOutOfMemory) -> Iterator[MemoryGroup]:
    """Yield the arguments, and the outputs that share no memory with an argument."""
    for part in message.usage:
        if part.name == "arguments" and part.size is not None and size_bounds(part.size)[1]:
            yield MemoryGroup(kind="arguments", what="all arguments", size=size_bounds(part.size))
    if message.output is not None:
        whole = size_bounds(message.output)
        shared = (0, 0) if message.output_shared is None else size_bounds(message.output_shared)
        size = (max(0, whole[0] - shared[1]), max(0, whole[1] - shared[0]))
        if size[0]:
            what = "outputs that share no memory with arguments"
            yield MemoryGroup(kind="outputs", what=what, size=size)


def _buffers(allocations: Sequence[ProgramAllocation]) -> Iterator[MemoryGroup]:
    """Yield the listed allocations, equal ones as one group."""
    found: dict[tuple[object, ...], list[ProgramAllocation]] = {}
    for allocation in allocations:
        if allocation.size is None:
            continue
        op_name = None if allocation.operator is None else allocation.operator.op_name
        key = (allocation.allocation_type, allocation.opcode, allocation.shape_text, op_name)
        found.setdefault(key, []).append(allocation)
    for same in found.values():
        first = same[0]
        paddings = [a.padding for a in same if a.padding is not None]
        words = (first.opcode or first.label or "", _LAYOUT.sub("", first.shape_text or ""))
        yield MemoryGroup(
            kind="buffers",
            what=" ".join(word for word in words if word) or first.allocation_type,
            buffers=len(same),
            size=sum_bounds(a.size for a in same if a.size is not None),
            padding=sum_bounds(paddings) if paddings else None,
            op_name=None if first.operator is None else first.operator.op_name,
            source=source_of(first.operator),
        )


def source_of(metadata: OpMetadata | None) -> str | None:
    """Return file and line in metadata."""
    if metadata is None or metadata.source_file is None:
        return None
    line = "" if metadata.source_line is None else f":{metadata.source_line}"
    return f"{metadata.source_file}{line}"
