"""State of a BFC allocator when an allocation failed, printed whole or from any of its lines on.

Source: see ``grammars/out_of_memory.lark``. A state may have hundreds of thousands of lines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.buffers.human_size import HumanSize
from hlo_lens.logs.messages import Fields, Found, Lines, MessageRule, line_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.text.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorBin:
    """A bin of a BFC allocator: chunks from `least_bytes` up to the next bin's.

    Attributes:
        least_bytes: Smallest chunk that belongs here.
        chunks: Number of chunks.
        chunks_in_use: Number of its chunks in use.
        allocated: Bytes of all its chunks.
        in_use: Bytes of the chunks in use.
        requested: Bytes that their owners requested.
    """

    least_bytes: int
    chunks: int
    chunks_in_use: int
    allocated: HumanSize
    in_use: HumanSize
    requested: HumanSize | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorState:
    """State of a BFC allocator when an allocation failed.

    Attributes:
        name: Such as ``GPU_0_bfc``; empty if not printed.
        bins: Bins by size, smallest first.
        used_chunks: Size in bytes and number of chunks in use, as in the summary.
        free_chunks: The same of free chunks, counted from the list of all chunks; None without one.
        chunks_in_use: Sum of the chunks in use, as printed.
        pool: Bytes that the allocator has taken from the device.
        stats: Names and numbers, or sizes as printed since 2026: ``Limit``, ``InUse``,
            ``MaxInUse``, ``NumAllocs``, ...
        line: 1-based line of the file where it begins.
        lines: Number of its lines.
        is_complete: Whether it is complete, as far as is known.
    """

    name: str = ""
    bins: tuple[AllocatorBin, ...] = ()
    used_chunks: tuple[tuple[int, int], ...] = ()
    free_chunks: tuple[tuple[int, int], ...] | None = None
    chunks_in_use: HumanSize | None = None
    pool: HumanSize | None = None
    stats: tuple[tuple[str, int | HumanSize], ...] = ()
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)
    is_complete: bool = field(default=True, compare=False)

    def size(self, name: str) -> HumanSize | None:
        """Return the bytes of the statistics by name; None if they are not printed."""
        value = dict(self.stats).get(name)
        return HumanSize(f"{value}B") if isinstance(value, int) else value


_LINE = MessageRule("state_line")
_FIRST_STATS = ("Limit", "InUse")
_LAST_STATS = {"LargestFreeBlock", "MaxAllocSize"}


def read_allocator(source: Source, place: int) -> Found[AllocatorState] | None:
    """Return the allocator state on the line of an offset and below; None if there is none."""
    start = _first_line(source.text, place)
    lines = Lines(source, _LINE, start)
    bins: dict[int, AllocatorBin] = {}
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
            bins[int(fields["LEAST"])] = _bin(fields)
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
        bins=tuple(bins.values()),
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
    while start and (before := _LINE.read_line(text, line_start(text, start - 1))) is not None:
        if "STAT" in before and _stat_name(before) not in _FIRST_STATS:
            break
        start = line_start(text, start - 1)
    return start


def _begins_another(
    fields: Fields,
    bins: Mapping[int, AllocatorBin],
    stats: Mapping[str, int | HumanSize],
    single: Fields,
) -> bool:
    """Whether a line repeats a field that the state has already."""
    if "ALLOCATOR_NAME" in fields:
        return bool(bins or stats or "ALLOCATOR_NAME" in single)
    return int(fields.get("LEAST", -1)) in bins or _stat_name(fields) in stats


def _stat_name(fields: Fields) -> str:
    return fields.get("STAT", "").lstrip("| ")


def _number(text: str) -> int | HumanSize:
    """Return a number of bytes or of allocations, or the size printed for it since 2026."""
    return int(text) if text.isdecimal() else HumanSize(text)


def _bin(fields: Fields) -> AllocatorBin:
    return AllocatorBin(
        least_bytes=int(fields["LEAST"]),
        chunks=int(fields["CHUNKS"]),
        chunks_in_use=int(fields["CHUNKS_IN_USE"]),
        allocated=HumanSize(fields["ALLOCATED"]),
        in_use=HumanSize(fields["IN_USE"]),
        requested=fields.size("ASKED"),
    )
