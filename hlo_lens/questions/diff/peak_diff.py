"""Values that differ at the peak of one memory space between two compiles.

Values are grouped by origin and shape. Each byte held at the peak belongs to one group, so that the
differences of all groups sum to the difference of the peaks; with the bytes that are never held
(`FREE`) they sum to the difference of the totals. Without live ranges the groups hold all allocated
bytes, each counted for the largest value at its address, and others in the group `NO_VALUE`.

Groups are matched by category, operation path, source line and shape; then without the line number,
which an edit further up moves; then without the place; then by the last scope of the path; then
without the shape, so that an array that became larger, or of another type, is one row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import ClassVar

from hlo_lens.questions.diff.keyed_pairs import pair_items
from hlo_lens.questions.diff.portable_sources import last_scopes
from hlo_lens.questions.diff.side_pair import Delta, SidePair
from hlo_lens.questions.snapshots.rows import AliveGroup, SpacePeak
from hlo_lens.render.result import Column, Result, Row, Unit

FREE = "[fragmentation]"

_LINE = re.compile(r":\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRow(SidePair[AliveGroup]):
    """Values of one origin at the peaks of both sides."""

    @property
    def delta_bytes(self) -> int:
        """Bytes of the head minus those of the base."""
        return _size(self.head) - _size(self.base)

    @property
    def change(self) -> str:
        """``new``, ``gone``, ``grown``, ``shrunk`` or ``=``."""
        if self.base is None:
            return "new"
        if self.head is None:
            return "gone"
        if self.delta_bytes:
            return "grown" if self.delta_bytes > 0 else "shrunk"
        return "="

    @property
    def shape(self) -> str:
        """Shape and number: ``bf16[64,32768] x 9``, with an arrow between if they differ."""
        texts = [shape_text(group) for group in (self.base, self.head) if group is not None]
        return " -> ".join(dict.fromkeys(texts))

    @property
    def source(self) -> str | None:
        """Place in the program of the head, or of the base if they are gone."""
        return self.one.source


def shape_text(group: AliveGroup) -> str:
    """Return the shape, and the number of values if there are several."""
    return group.shape if group.values == 1 else f"{group.shape} x {group.values}"


def _size(group: AliveGroup | None) -> int:
    return 0 if group is None else group.size_bytes


@dataclass(frozen=True, kw_only=True)
class PeakDiff(Result):
    """Differences of one memory space between two compiles, largest first.

    Attributes:
        color: Number of the space.
        space: Its name.
        is_peak: Whether values alive at the peak are compared; else all allocated values.
        base: Peak in the base; None if the space is empty there.
        head: Peak in the head.
        changed: Groups that differ.
        unchanged_groups: Number of groups that are equal on both sides.
        rest: Label to the other allocated bytes; empty if they are not known.
    """

    KIND: ClassVar[str] = "memory-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("space", Unit.NONE, "memory space"),
        Column("delta_bytes", Unit.BYTES_DELTA, "bytes of the head minus those of the base"),
        Column("base_bytes", Unit.BYTES, "bytes at the base's peak"),
        Column("head_bytes", Unit.BYTES, "bytes at the head's peak"),
        Column("change", Unit.NONE, "new, gone, grown or shrunk"),
        Column("source", Unit.NONE, "place in the user's program"),
        Column("shape", Unit.NONE, "shape and number of values"),
        Column("op_name", Unit.NONE, "operation path, or name of the argument"),
        Column("category", Unit.NONE, "purpose of their allocations"),
        Column("opcode", Unit.NONE, "opcode that makes them"),
        Column("base_values", Unit.COUNT, "values in the base"),
        Column("head_values", Unit.COUNT, "values in the head"),
        Column("base_shape", Unit.NONE, "shape in the base"),
        Column("head_shape", Unit.NONE, "shape in the head"),
        Column("base_source", Unit.NONE, "place in the base's program"),
        Column("head_source", Unit.NONE, "place in the head's program"),
        Column("origin_basis", Unit.NONE, "way that source and op_name were found"),
    )
    color: int
    space: str
    is_peak: bool
    base: SpacePeak | None
    head: SpacePeak | None
    changed: tuple[PeakRow, ...] = field(repr=False)
    unchanged_groups: int
    rest: Mapping[str, Delta] = field(default_factory=dict)

    @property
    def delta_bytes(self) -> int:
        """Difference of the peaks: the sum over all groups."""
        return (self.head.bytes if self.head else 0) - (self.base.bytes if self.base else 0)

    @property
    def most_bytes(self) -> int:
        """Bytes of the larger of the two peaks."""
        return max(one.bytes for one in (self.base, self.head) if one is not None)

    def rows(self) -> Iterator[Row]:
        """Yield the rows, largest difference first."""
        cells = [*self._groups(), *self._others()]
        yield from sorted(cells, key=lambda row: -abs(row[1]) if isinstance(row[1], int) else 0)

    def _others(self) -> Iterator[Row]:
        """Yield the other bytes that differ."""
        empty = (None,) * (len(self.COLUMNS) - 8)
        for label, delta in self.rest.items():
            if delta.delta:
                change = "grown" if delta.delta > 0 else "shrunk"
                sizes = (delta.delta, delta.base, delta.head)
                yield (self.space, *sizes, change, None, None, label, *empty)

    def _groups(self) -> Iterator[Row]:
        for row in self.changed:
            one = row.one
            yield (
                *(self.space, row.delta_bytes, *row.cells("size_bytes"), row.change, row.source),
                *(row.shape, one.op_name, one.category, one.opcode, *row.cells("values", 0)),
                *(*row.cells("shape"), *row.cells("source"), one.origin_basis),
            )

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return len(self.changed) + sum(bool(delta.delta) for delta in self.rest.values())

    def totals(self) -> Mapping[str, int]:
        """Return the difference of all allocations, or of the peaks if the rest is not known."""
        others = sum(delta.delta or 0 for delta in self.rest.values())
        return {"delta_bytes": self.delta_bytes + others}

    @property
    def has_moved(self) -> bool:
        """Whether the peak is at another instruction of the program."""
        if self.base is None or self.head is None or not self.is_peak:
            return False
        return _moment(self.base) != _moment(self.head)


def _moment(peak: SpacePeak) -> tuple[str | None, ...]:
    """Return the place of a peak, without line number and enclosing scopes."""
    return last_scopes(peak.op_name), _LINE.sub("", peak.source or ""), peak.opcode


def peak_diff(
    base: SpacePeak | None, head: SpacePeak | None, *, rest: Mapping[str, Delta] | None = None
) -> PeakDiff:
    """Return the differences of two peaks; None is the peak of an empty space.

    Args:
        base: Before.
        head: After.
        rest: Label to the other allocated bytes; None if they are not known.
    """
    known = head or base
    if known is None:
        raise AssertionError("one side has a peak")
    groups = (base.groups if base else (), head.groups if head else ())
    rows = [PeakRow(base=b, head=h) for b, h in pair_items(*groups, _STAGES, _order)]
    changed = sorted((row for row in rows if row.delta_bytes), key=_row_order)
    return PeakDiff(
        color=known.color,
        space=known.name,
        is_peak=known.is_peak,
        base=base,
        head=head,
        changed=tuple(changed),
        unchanged_groups=len(rows) - len(changed),
        rest=rest or {},
    )


def _row_order(row: PeakRow) -> tuple[object, ...]:
    one = row.one
    return (-abs(row.delta_bytes), one.op_name or "", one.source or "", row.shape, one.category)


def _file(group: AliveGroup) -> str:
    return _LINE.sub("", group.source or "")


def _scope(group: AliveGroup) -> str | None:
    """Return the last scope of the path; None without scope or source."""
    return last_scopes(group.op_name) or None if group.source else None


def _loop(group: AliveGroup) -> str | None:
    """Return the path of the loop that stores values of each iteration; None for other values."""
    if group.origin_basis != "loop body":
        return None
    return (group.op_name or "").rpartition("/while/body/")[0] or None


def _dims(shape: str) -> str:
    """Return a shape without its element type."""
    return shape[shape.find("[") :]


_STAGES: tuple[Callable[[AliveGroup], Hashable], ...] = (
    attrgetter("category", "op_name", "source", "opcode", "shape"),
    attrgetter("category", "op_name", "source", "shape"),
    lambda g: (g.category, g.op_name, _file(g), g.shape),
    attrgetter("category", "op_name", "shape"),
    lambda g: _scope(g) and (g.category, _scope(g), g.source, g.shape),
    lambda g: _scope(g) and (g.category, _scope(g), _file(g), g.shape),
    lambda g: g.op_name and (g.op_name, g.shape),
    lambda g: g.op_name and (g.category, g.op_name, _file(g), _dims(g.shape)),
    lambda g: g.op_name and (g.category, g.op_name, _file(g), g.shape.count(",")),
    lambda g: _loop(g) and (g.category, _loop(g), g.shape.count(",")),
)
"""Keys by which groups are matched, strictest first."""


def _order(group: AliveGroup) -> tuple[object, ...]:
    line = (group.source or "").rpartition(":")[2]
    number = int(line) if line.isdecimal() else None
    return (number, group.size_bytes, group.shape, group.category, group.opcode, group.source)
