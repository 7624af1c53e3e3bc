"""Overlap of collectives: the work between start and end, and the share of the transfer it covers.

Counted are the instructions between start and end in a scheduled computation that do work
(`instruction_work`): no views, no starts and ends of other asynchronous operations, no collectives.
A transfer is covered as far as this work lasts as long as it (`transfer_time`). Work that several
transfers of the same groups of devices overlap covers each part of them once: they share links, and
the one that started first is sent first. Communication does not cover communication.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from hlo_lens.program.flops import NO_WORK, WorkFinder
from hlo_lens.questions.collectives.transfer_time import transfer_time, work_time

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from hlo_lens.hlo.instruction import HloInstruction
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.program.runs import CallCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One asynchronous transfer.

    Attributes:
        start: The instruction that starts it with its operands.
        done: The instruction that ends it, in the same computation.
        size_bytes: Bytes to send each time; None if unknown.
        link: Equal for transfers that share links.
    """

    start: HloInstruction
    done: HloInstruction
    size_bytes: int | None
    link: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Work between start and end.

    Attributes:
        instructions: Number of instructions that work.
        flops: Their multiplications and additions; None if not known.
        size_bytes: Bytes that they read and write; None if not known.
        covered_ratio: Largest share of the transfer that they cover, 0 to 1; None if not known.
    """

    instructions: int
    flops: int | None
    size_bytes: int | None
    covered_ratio: float | None


EXPOSED = Overlap(instructions=0, flops=0, size_bytes=0, covered_ratio=0.0)


def overlaps(
    table: InstructionTable, calls: CallCounts, transfers: Mapping[int, Transfer]
) -> dict[int, Overlap]:
    """Return the overlap of each transfer of a scheduled module, by its key.

    Args:
        table: Table of the module.
        calls: Trip counts of its loops.
        transfers: The transfers by any number.
    """
    homes: dict[int, dict[int, Transfer]] = {}
    for key, transfer in transfers.items():
        homes.setdefault(transfer.start.computation.place, {})[key] = transfer
    finder = WorkFinder(table, calls)
    found: dict[int, Overlap] = {}
    for place, inside in homes.items():
        found |= _Schedule(table, finder, place, inside).overlaps()
    return found


class _Schedule:
    """The instructions of one computation from its first start to its last end."""

    def __init__(
        self,
        table: InstructionTable,
        finder: WorkFinder,
        place: int,
        transfers: Mapping[int, Transfer],
    ) -> None:
        self._transfers = transfers
        rows = table.module.computations[place].rows
        self._starts = {key: bisect_left(rows, one.start.row) for key, one in transfers.items()}
        self._ends = {key: bisect_left(rows, one.done.row) for key, one in transfers.items()}
        self._first = min(self._starts.values())
        last = max(self._ends.values())
        is_open = self._open_positions(last)
        self._work = [
            finder.of(rows[place]) if is_open[place - self._first] else NO_WORK
            for place in range(self._first, last)
        ]

    def _open_positions(self, last: int) -> Sequence[bool]:
        """Return for each position whether it is inside a transfer."""
        steps = [0] * max(last - self._first + 1, 0)
        for key, start in self._starts.items():
            end = self._ends[key]
            if start < end:
                steps[start - self._first] += 1
                steps[end - self._first] -= 1
        return [depth > 0 for depth in accumulate(steps)]

    def overlaps(self) -> dict[int, Overlap]:
        """Return the overlap of each transfer."""
        counts = self._sums([work != NO_WORK for work in self._work])
        sizes = self._sums([work.size_bytes or 0 for work in self._work])
        flops = self._sums([work.flops or 0 for work in self._work])
        no_size = self._sums([work.size_bytes is None for work in self._work])
        no_flops = self._sums([work.flops is None for work in self._work])
        covered = self._covered()
        found = {}
        for key in self._transfers:
            start, end = self._starts[key] - self._first + 1, self._ends[key] - self._first
            if end < start:  # in damaged text the end may come first
                start = end = 0

            def total(sums: Sequence[int], start: int = start, end: int = end) -> int:
                return sums[end] - sums[start]

            found[key] = Overlap(
                instructions=total(counts),
                flops=None if total(no_flops) else total(flops),
                size_bytes=None if total(no_size) else total(sizes),
                covered_ratio=covered[key],
            )
        return found

    def _sums(self, numbers: Sequence[int]) -> Sequence[int]:
        """Return the sums of the first numbers: none, one, two, ..."""
        return list(accumulate(numbers, initial=0))

    def _covered(self) -> dict[int, float | None]:
        """Return the largest share of each transfer that work covers; None if not known."""
        begun = _by_position(self._starts)
        ended = _by_position(self._ends)
        queues: dict[Hashable, deque[int]] = {}
        left: dict[int, float] = {}
        is_unknown: set[int] = set()
        is_open: set[int] = set()
        for place, work in enumerate(self._work, start=self._first):
            for key in ended.get(place, ()):
                is_open.discard(key)
            if is_open and work != NO_WORK:
                time = work_time(work)
                if not time.is_whole:
                    is_unknown |= is_open
                for queue in queues.values():
                    _spend(time.known, queue, left, is_open)
            for key in begun.get(place, ()):
                left[key] = transfer_time(self._transfers[key].size_bytes or 0)
                queues.setdefault(self._transfers[key].link, deque()).append(key)
                is_open.add(key)
        return {key: self._ratio(key, left, is_unknown) for key in self._transfers}

    def _ratio(self, key: int, left: Mapping[int, float], is_unknown: set[int]) -> float | None:
        size = self._transfers[key].size_bytes
        if size is None:
            return None
        whole, rest = transfer_time(size), left.get(key, 0.0)
        if not whole:
            return None
        return None if rest and key in is_unknown else (whole - rest) / whole


def _by_position(places: Mapping[int, int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for key, place in places.items():
        found.setdefault(place, []).append(key)
    return found


def _spend(time: float, queue: deque[int], left: dict[int, float], is_open: set[int]) -> None:
    """Take the time of work from the transfers of a queue, first started first."""
    while time and queue:
        key = queue[0]
        if key in is_open:
            spent = min(time, left[key])
            left[key] -= spent
            time -= spent
            if left[key]:
                return
        queue.popleft()
