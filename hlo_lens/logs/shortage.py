"""Missing bytes of a program that does not fit, and groups of buffers that could be freed.

Computed from the numbers of a message alone. Freeing a group saves at most its bytes, and less if
its buffers are not alive when memory runs out, or share memory with others. Sizes in messages are
rounded, so each is a range of bytes; a group is enough only if its smallest size is at least the
largest number of missing bytes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from hlo_lens.logs.messages import source_of
from hlo_lens.logs.out_of_memory import Bounds, difference, size_bounds, sum_bounds
from hlo_lens.render.result import Records, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hlo_lens.logs.buffer_statistics import PeakBuffer
    from hlo_lens.logs.out_of_memory import CompileOutOfMemory, ProgramAllocation


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
        """Return a group of some size."""
        least, most = size
        others |= {"at_least_bytes": least, "at_most_bytes": most}
        return cls(kind=kind, what=what, buffers=buffers, **others)


@dataclass(frozen=True, kw_only=True)
class MemoryShortage(Records[MemoryGroup]):
    """Groups by size, largest first; groups overlap, so there is no total.

    Attributes:
        groups: The groups.
        missing: Bytes that do not fit; None if they are not known.
    """

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
    """Yield the padding and the fragmentation of the parts of a program."""
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
    """Yield the listed allocations, equal ones as one group."""

    def key(one: ProgramAllocation) -> tuple[object, ...]:
        return one.allocation_type, one.opcode, one.shape

    for same in _alike([one for one in allocations if one.size is not None], key):
        first = same[0]
        paddings = [a.padding for a in same if a.padding is not None]
        words = (first.opcode or first.label or "", _LAYOUT.sub("", first.shape or ""))
        what = " ".join(word for word in words if word) or first.allocation_type
        group = _group("buffers", what, same)
        yield replace(group, padding_bytes=sum_bounds(paddings)[1] if paddings else None)


def peak_buffer_groups(buffers: Sequence[PeakBuffer]) -> MemoryShortage:
    """Return the largest buffers at a peak, equal ones as one group."""
    groups = []
    for same in _alike(buffers, lambda one: (one.is_entry_parameter, one.label, one.shape)):
        first = same[0]
        kind = "arguments" if first.is_entry_parameter else "buffers"
        groups.append(_group(kind, f"{first.opcode or 'value'} {first.shape or ''}".strip(), same))
    return shortage_of(groups)


B = TypeVar("B", "ProgramAllocation", "PeakBuffer")


def _alike(buffers: Sequence[B], key: Callable[[B], tuple[object, ...]]) -> list[list[B]]:
    """Return buffers with equal keys and operations together, in the order of the first of each."""
    alike: dict[object, list[B]] = defaultdict(list)
    for one in buffers:
        alike[key(one), None if one.operator is None else one.operator.op_name].append(one)
    return list(alike.values())


def _group(kind: str, what: str, same: Sequence[ProgramAllocation | PeakBuffer]) -> MemoryGroup:
    """Return the group of equal buffers."""
    operator, sizes = same[0].operator, [one.size for one in same if one.size is not None]
    op_name = None if operator is None else operator.op_name
    source = source_of(operator)
    return MemoryGroup.of(kind, what, sum_bounds(sizes), len(same), op_name=op_name, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpShortage:
    """Facts of a dump on the message of its compile.

    Attributes:
        module: Name of the module of the message; None if none or several match.
        candidates: Names of the modules that may match.
        needed_bytes: Bytes of its arguments, outputs and temporaries, shared memory counted once.
        agrees: Whether it needs the bytes in the message; None if the message has none.
        groups: Groups that could be freed; None without a module.
        notes: Facts that are not known, and the reason.
    """

    module: str | None = None
    candidates: tuple[str, ...] = ()
    needed_bytes: int | None = None
    agrees: bool | None = None
    groups: MemoryShortage | None = None
    notes: tuple[str, ...] = ()
