"""Occupied bytes over a schedule: the union of byte intervals that are in use at each instant.

Values may share bytes: a result written in place begins at the instant at which its operand ends,
and both ends of a live range are inclusive, so sums of sizes count such bytes twice.
Definition: at an instant t, all bytes of an allocation that some value with ``start <= t <= end``
holds. Source of the inclusive ends: xla/hlo/utils/hlo_live_range.cc, ToString.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple


class Occupant(NamedTuple):
    """A value in an allocation: ``size`` bytes from ``offset`` on, from ``start`` to ``end``.

    Both instants are inclusive; ``key`` is the number of the value.
    """

    allocation: int
    offset: int
    size: int
    start: int
    end: int
    key: int


_BY_BYTES = itemgetter(1, 2, 3)
"""Offset, size and start of an occupant."""


def occupied_bytes(occupants: Iterable[Occupant], length: int) -> list[int]:
    """Return the occupied bytes at each instant from 0 to ``length - 1``."""
    change = [0] * (length + 1)
    groups: dict[int, list[Occupant]] = defaultdict(list)
    for occupant in occupants:
        if occupant.size > 0 and occupant.start <= occupant.end and occupant.start < length:
            groups[occupant.allocation].append(occupant)
    for group in groups.values():
        whole = _merged_in_time(group)
        if not _add_disjoint(whole, change, length):
            _add_changes(whole, change, length)
    total = 0
    series = []
    for delta in change[:length]:
        total += delta
        series.append(total)
    return series


def _merged_in_time(group: list[Occupant]) -> list[Occupant]:
    """Return the values of one allocation; successive values of the same bytes are joined."""
    found: list[Occupant] = []
    last = None
    for occupant in sorted(group, key=_BY_BYTES):
        if (
            last is not None
            and occupant.offset == last.offset
            and occupant.size == last.size
            and occupant.start <= last.end + 1
        ):
            last = found[-1] = last._replace(end=max(last.end, occupant.end))
        else:
            last = occupant
            found.append(last)
    return found


def _add_disjoint(group: Sequence[Occupant], change: list[int], length: int) -> bool:
    """Add the changes of occupied bytes, if no two values share bytes at any instant.

    Returns:
        Whether the values are disjoint; if not, nothing was added.
    """
    events = [(o.start, 1, o.offset, o.size) for o in group]
    events += [(o.end + 1, 0, o.offset, o.size) for o in group]
    events.sort()
    starts: list[int] = []
    ends: list[int] = []
    for _, begins, offset, size in events:
        place = bisect.bisect_left(starts, offset)
        if not begins:
            del starts[place], ends[place]
        elif (place and ends[place - 1] > offset) or (
            place < len(starts) and starts[place] < offset + size
        ):
            return False
        else:
            starts.insert(place, offset)
            ends.insert(place, offset + size)
    for instant, begins, _, size in events:
        if instant < length:
            change[instant] += size if begins else -size
    return True


def _add_changes(group: Sequence[Occupant], change: list[int], length: int) -> None:
    """Add the changes of occupied bytes of one allocation at each instant."""
    if len(group) == 1:
        only = group[0]
        change[max(0, only.start)] += only.size
        if only.end + 1 < length:
            change[only.end + 1] -= only.size
        return
    events = [(o.start, 1, i) for i, o in enumerate(group)]
    events += [(o.end + 1, 0, i) for i, o in enumerate(group)]
    events.sort()
    active = _Active() if len(group) < _MANY else _Segments(group)
    for instant, begins, index in events:
        if instant >= length:
            break
        occupant = group[index]
        if begins:
            change[instant] += active.add(occupant.offset, occupant.size, index)
        else:
            change[instant] -= active.remove(occupant.offset, occupant.size, index)


_MANY = 512
"""Values in one allocation from which importing numpy pays off."""


class _Segments:
    """Number of intervals that cover each segment between neighbouring interval ends."""

    def __init__(self, group: Sequence[Occupant]) -> None:
        import numpy as np

        ends = {o.offset for o in group} | {o.offset + o.size for o in group}
        self._edges = np.array(sorted(ends), dtype=np.int64)
        self._sizes = np.diff(self._edges)
        self._counts = np.zeros(len(self._sizes), dtype=np.int32)
        self._starts = np.searchsorted(self._edges, [o.offset for o in group])
        self._stops = np.searchsorted(self._edges, [o.offset + o.size for o in group])

    def add(self, offset: int, size: int, index: int) -> int:
        """Add an interval and return the growth of the union in bytes."""
        del offset, size
        pieces = slice(self._starts[index], self._stops[index])
        counts = self._counts[pieces]
        added = int(self._sizes[pieces][counts == 0].sum())
        counts += 1
        return added

    def remove(self, offset: int, size: int, index: int) -> int:
        """Remove an interval and return the shrinkage of the union in bytes."""
        del offset, size
        pieces = slice(self._starts[index], self._stops[index])
        counts = self._counts[pieces]
        counts -= 1
        return int(self._sizes[pieces][counts == 0].sum())


class _Active:
    """Intervals in use now, sorted by offset, and the size of their union."""

    def __init__(self) -> None:
        self._items: list[tuple[int, int, int]] = []
        self._longest = 0

    def add(self, offset: int, size: int, index: int) -> int:
        """Add an interval and return the growth of the union in bytes."""
        added = size - self._covered(offset, offset + size)
        bisect.insort(self._items, (offset, size, index))
        self._longest = max(self._longest, size)
        return added

    def remove(self, offset: int, size: int, index: int) -> int:
        """Remove an interval and return the shrinkage of the union in bytes."""
        del self._items[bisect.bisect_left(self._items, (offset, size, index))]
        return size - self._covered(offset, offset + size)

    def _covered(self, start: int, end: int) -> int:
        """Return the number of bytes in use between two offsets."""
        first = bisect.bisect_left(self._items, (start - self._longest, 0, 0))
        return covered_bytes(islice(self._items, first, None), start, end)


def covered_bytes(intervals: Iterable[tuple[int, ...]], start: int, end: int) -> int:
    """Return the number of bytes from start to end (exclusive) covered by intervals.

    Args:
        intervals: Tuples that begin with offset and size, by ascending offset.
        start: First byte.
        end: Byte after the last.
    """
    covered, reached = 0, start
    for offset, size, *_ in intervals:
        if offset >= end:
            break
        low, high = max(offset, reached), min(offset + size, end)
        if high > low:
            covered += high - low
            reached = high
    return covered


def owned_bytes(intervals: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each interval (offset, size) its bytes that no earlier one covers.

    They sum to the union. Each segment between neighbouring ends is assigned once: n log n.
    """
    edges = sorted({e for offset, size in intervals for e in (offset, offset + size)})
    place = {edge: position for position, edge in enumerate(edges)}
    free = list(range(len(edges) + 1))
    owned: list[int] = []
    for offset, size in intervals:
        stop = place[offset + size]
        total = 0
        piece = _first_free(free, place[offset])
        while piece < stop:
            total += edges[piece + 1] - edges[piece]
            free[piece] = piece + 1
            piece = _first_free(free, piece + 1)
        owned.append(total)
    return owned


def _first_free(free: list[int], piece: int) -> int:
    """Return the first unassigned segment from one on, and shorten the path to it."""
    found = piece
    while free[found] != found:
        found = free[found]
    while free[piece] != found and piece != found:
        free[piece], piece = found, free[piece]
    return found
