"""Memory of a program at other sizes of one dimension, from dumps at two sizes or more.

The total is a line through the nearest two dumps. That is an estimate: the peak is the largest of
many instants that grow at different rates, tiles are padded, and XLA chooses other loops and
layouts at other sizes. The interval has these parts, set by the cases of the handbook: a small
share of the nearest dump; a share of the bytes that grow between it and the size; where three dumps
show another growth, that too; the padding of arguments and results; and the values in VMEM and
other fast memory, which XLA moves to the default space when they no longer fit there. A program
whose memory grows does not take less at a larger size, and never less than its arguments and
results without padding, which grow in a line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.questions.diff.memory import PeakDiff
    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot

_SHARE = 0.2
"""Share of the growth by which an estimate may err in either direction."""

_LINEAR_SHARE = 0.05
"""The same where three dumps are on one line."""

_NOISE = 0.02
"""Share of the nearest total that padding, fragmentation and schedules change."""

_SAME_GROWTH = 0.01
_HOST = 5
_MOST = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedTotal:
    """Memory of a program at one size.

    Attributes:
        size: The size.
        total_bytes: Bytes of one device that must fit.
        entry_bytes: Of these, arguments and results.
        padding_bytes: Of these, the padding of tiles, which grows in steps.
        fast_bytes: Peaks of VMEM and other memory of the device beside the default space.
        path: The dump.
    """

    size: int
    total_bytes: int
    entry_bytes: int = 0
    padding_bytes: int = 0
    fast_bytes: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Memory at one size: an estimate and its interval."""

    size: int
    low_bytes: int
    estimate_bytes: int
    high_bytes: int

    def holds(self, total_bytes: int) -> bool:
        """Whether a total is in the interval."""
        return self.low_bytes <= total_bytes <= self.high_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A dump that the others predict.

    Attributes:
        predicted: Prediction from the first two dumps.
        actual: The dump.
    """

    predicted: Prediction
    actual: SizedTotal

    @property
    def error(self) -> float:
        """Predicted minus actual, as a share of the actual."""
        actual = self.actual.total_bytes
        return (self.predicted.estimate_bytes - actual) / actual if actual else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueGrowth:
    """Values of one origin at the peaks of the smallest and the largest dump.

    Its fields are columns of `Scaling`; bytes per unit are those between the two dumps.
    """

    bytes_per_unit: float
    small_bytes: int | None
    large_bytes: int | None
    shape: str
    source: str | None
    op_name: str | None
    category: str


@dataclass(frozen=True, kw_only=True)
class Scaling(Result):
    """Growth of a program's memory with one of its sizes.

    Attributes:
        name: Name of the module.
        unit: Name of the size, such as ``batch``.
        dumps: Memory of each dump, by size.
        values: Values that differ between the smallest and the largest, most growth first.
        step: Number that the sizes are multiples of: the devices that the dimension is divided
            over; 1 if not known.
        limit_bytes: Memory of one device; None without a limit.
        limit_source: Source of that number.
        checks: Dumps after the first two, as the first two predict them.
        is_moved: Whether the peaks of smallest and largest are at different instructions.
    """

    KIND: ClassVar[str] = "scaling"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("bytes_per_unit", Unit.BYTES_DELTA, "bytes that each unit adds"),
        Column("small_bytes", Unit.BYTES, "bytes at the peak of the smallest dump"),
        Column("large_bytes", Unit.BYTES, "bytes at the peak of the largest dump"),
        Column("shape", Unit.NONE, "shape and number of values"),
        Column("source", Unit.NONE, "place in the user's program"),
        Column("op_name", Unit.NONE, "operation path, or name of the argument"),
        Column("category", Unit.NONE, "purpose of their allocations"),
    )
    RECORDS: ClassVar[str] = "values"
    name: str
    unit: str
    dumps: tuple[SizedTotal, ...]
    values: tuple[ValueGrowth, ...] = field(repr=False)
    step: int = 1
    limit_bytes: int | None = None
    limit_source: str = ""
    checks: tuple[Check, ...] = ()
    is_moved: bool = False

    def rows(self) -> Iterator[Row]:
        """Yield the values."""
        for one in self.values:
            growth = round(one.bytes_per_unit)
            yield (
                *(growth, one.small_bytes, one.large_bytes, one.shape),
                *(one.source, one.op_name, one.category),
            )

    @property
    def bytes_per_unit(self) -> float:
        """Bytes that each unit adds beyond the largest dump."""
        return _slope(*self.dumps[-2:])

    @property
    def fixed_bytes(self) -> int:
        """Bytes that do not grow, by the line beyond the largest dump."""
        last = self.dumps[-1]
        return round(last.total_bytes - self.bytes_per_unit * last.size)

    def at(self, size: int) -> Prediction:
        """Return the memory at a size."""
        return predicted(self.dumps, size)

    @property
    def largest(self) -> int | None:
        """Largest size that fits by the estimate; None if unknown or without end."""
        return self._largest(lambda one: one.estimate_bytes)

    @property
    def largest_range(self) -> tuple[int | None, int | None]:
        """Largest sizes that fit by the upper and by the lower end of the interval."""
        return (
            self._largest(lambda one: one.high_bytes),
            self._largest(lambda one: one.low_bytes),
        )

    def _largest(self, bytes_of: Callable[[Prediction], int]) -> int | None:
        limit, step = self.limit_bytes, self.step
        if limit is None or self.bytes_per_unit <= 0 or bytes_of(self.at(step * _MOST)) <= limit:
            return None
        low, high = 0, _MOST  # low fits, high does not
        while high - low > 1:
            middle = (low + high) // 2
            if bytes_of(self.at(middle * step)) <= limit:
                low = middle
            else:
                high = middle
        return low * step


def _slope(one: SizedTotal, other: SizedTotal) -> float:
    return (other.total_bytes - one.total_bytes) / (other.size - one.size)


def predicted(totals: Sequence[SizedTotal], size: int) -> Prediction:
    """Return the memory at a size from dumps at two or more sizes, in ascending order."""
    for one in totals:
        if one.size == size:
            known = one.total_bytes
            return Prediction(size=size, low_bytes=known, estimate_bytes=known, high_bytes=known)
    one, other = _segment(totals, size)
    near = min((one, other), key=lambda total: abs(total.size - size))
    growths = [_slope(*pair) for pair in pairwise(totals)]
    slope, distance = _slope(one, other), size - near.size
    entry = near.entry_bytes + _entry_slope(one, other) * distance
    estimate = max(near.total_bytes + slope * distance, entry)
    is_linear = len(totals) > 2 and max(growths) - min(growths) <= _SAME_GROWTH * abs(slope)
    noise = _NOISE * near.total_bytes
    margin = (_LINEAR_SHARE if is_linear else _SHARE) * abs(slope * distance) + noise
    padding = max(total.padding_bytes / total.size for total in totals) * size
    ends = [near.total_bytes + growth * distance for growth in (*growths, slope)]
    low, high = min(ends) - margin - near.fast_bytes - padding, max(ends) + margin
    if size > totals[-1].size:
        high += max(total.fast_bytes / total.size for total in totals) * size
        low = max(low, near.total_bytes - noise)
    elif size < totals[0].size:
        high = near.total_bytes + noise if near.fast_bytes or slope < 0 else high
        low = 0 if near.fast_bytes else low
    return Prediction(
        size=size,
        low_bytes=max(0, math.floor(min(max(low, entry - padding - noise), estimate))),
        estimate_bytes=max(0, round(estimate)),
        high_bytes=math.ceil(max(high, estimate)),
    )


def _segment(totals: Sequence[SizedTotal], size: int) -> tuple[SizedTotal, SizedTotal]:
    """Return the dumps on both sides of a size, else the two nearest."""
    for pair in pairwise(totals):
        if size <= pair[1].size:
            return pair
    return totals[-2], totals[-1]


def _entry_slope(one: SizedTotal, other: SizedTotal) -> float:
    return (other.entry_bytes - one.entry_bytes) / (other.size - one.size)


def sized_total(module: ModuleSnapshot, size: int, path: str = "") -> SizedTotal | None:
    """Return the memory of a module at a size; None if its memory is not known."""
    memory = module.facts.memory
    if memory is None or memory.total_bytes is None:
        return None
    fast = sum(
        space.peak_bytes if space.peak_bytes is not None else space.total_bytes or 0
        for space in memory.spaces
        if space.color not in (DEFAULT_SPACE, _HOST)
    )
    entry = (memory.argument_bytes or 0) + (memory.output_bytes or 0) - (memory.alias_bytes or 0)
    return SizedTotal(
        size=size,
        total_bytes=memory.total_bytes,
        entry_bytes=entry,
        padding_bytes=_padding(module),
        fast_bytes=fast,
        path=path,
    )


def _padding(module: ModuleSnapshot) -> int:
    """Return the bytes of tiles beyond the elements of arguments and of results of their own."""
    return sum(
        max(0, (one.padded_device_bytes or 0) - (one.device_bytes or 0))
        for one in module.entries or ()
        if one.kind == "parameter" or one.aliased_with is None
    )


def value_growth(peak: PeakDiff, sizes: tuple[int, int]) -> tuple[ValueGrowth, ...]:
    """Return the values that differ between two peaks, with the bytes that each unit adds."""
    units = sizes[1] - sizes[0]
    found = [
        ValueGrowth(
            bytes_per_unit=row.delta_bytes / units,
            small_bytes=None if row.base is None else row.base.size_bytes,
            large_bytes=None if row.head is None else row.head.size_bytes,
            shape=row.shape,
            source=row.source,
            op_name=row.one.op_name,
            category=row.one.category,
        )
        for row in peak.changed
    ]
    return tuple(sorted(found, key=lambda one: -one.bytes_per_unit))
