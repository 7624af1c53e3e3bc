"""Differences between two matched collectives."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.questions.collectives.collective import COUNT, WIRE, Collective, run_sum
from hlo_lens.questions.diff.pairs import Delta, SidePair, pair_items
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.text.names import last_scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot


EXPOSED, HIDDEN = "exposed, was hidden", "hidden, was exposed"
INTO, OUT_OF = "into a loop", "out of a loop"


class Detail(NamedTuple):
    """One difference between two matched collectives.

    Attributes:
        what: Name of the value that differs, or a text without values.
        base: Value in the base; None with a text.
        head: Value in the head; None with a text.
        is_bytes: Whether the values are bytes.
    """

    what: str
    base: str | int | None = None
    head: str | int | None = None
    is_bytes: bool = False

    def __str__(self) -> str:
        if self.base is None is self.head:
            return self.what
        one, other = ("?" if value is None else value for value in (self.base, self.head))
        return f"{self.what} {one} -> {other}"


def details_of(base: Collective, head: Collective) -> Iterator[Detail]:
    """Yield the differences between two matched collectives."""
    if len(base.loops) != len(head.loops):  # with the innermost loop's scope and trip count
        is_into = len(head.loops) > len(base.loops)
        loop = (head if is_into else base).loops[-1]
        yield Detail(f"{INTO if is_into else OUT_OF}: {loop.rpartition('/')[2]}")
    if base.dynamic_count != head.dynamic_count or base.is_at_most != head.is_at_most:
        yield Detail("times", times_text(base), times_text(head))
    if base.payload_bytes != head.payload_bytes:
        yield Detail("payload", base.payload_bytes, head.payload_bytes, is_bytes=True)
    if base.element_type != head.element_type:
        yield Detail("type", base.element_type, head.element_type)
    if not _is_same_axis(base, head):
        yield (
            Detail("axis", base.axis, head.axis)
            if base.axis != head.axis
            else Detail("other devices in the groups")
        )
    if base.group_size != head.group_size:
        yield Detail("group size", base.group_size, head.group_size)
    if base.is_exposed is False and head.is_exposed:
        yield Detail(EXPOSED)
    elif base.is_exposed and head.is_exposed is False:
        yield Detail(HIDDEN)
    yield from _rest(base, head)


def _rest(base: Collective, head: Collective) -> Iterator[Detail]:
    """Yield differences that the others do not imply."""
    if base.num_groups != head.num_groups:
        yield Detail("groups", base.num_groups, head.num_groups)
    if base.payload_bytes != head.payload_bytes:
        return  # bytes on the wire follow from it
    if base.wire_bytes_per_device != head.wire_bytes_per_device:
        one, other = base.wire_bytes_per_device, head.wire_bytes_per_device
        yield Detail("on the wire each time", one, other, is_bytes=True)


def _is_same_axis(base: Collective, head: Collective) -> bool:
    """Return whether groups are the same devices, or along axes of one name."""
    if base.devices == head.devices:
        return True
    return base.axis == head.axis and base.are_axes_named and head.are_axes_named


def arrow(one: str | None, other: str | None) -> str:
    """Return two texts with an arrow between them, or one if they are equal.

    >>> arrow("1", "48"), arrow("2", "2"), arrow(None, "2")
    ('1 -> 48', '2', '2')
    """
    texts = [text for text in (one, other) if text is not None]
    return " -> ".join(dict.fromkeys(texts))


def times_text(fact: Collective | None) -> str | None:
    """Return the executions of a collective in one run as text."""
    return None if fact is None else fact.times


ADDED, REMOVED, MOVED, CHANGED = "added", "removed", "moved", "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow(SidePair[Collective]):
    """Collectives with equal changes.

    Attributes:
        count: Number of collectives.
    """

    count: int

    @property
    def change(self) -> str:
        """``added``, ``removed``, ``moved`` (into or out of loops) or ``changed``."""
        if self.base is None:
            return ADDED
        if self.head is None:
            return REMOVED
        return MOVED if len(self.base.loops) != len(self.head.loops) else CHANGED

    @property
    def changes(self) -> tuple[Detail, ...]:
        """Changes one by one; empty for collectives added or removed."""
        if self.base is None or self.head is None:
            return ()
        return tuple(details_of(self.base, self.head))

    @property
    def details(self) -> str:
        """The changes as one text."""
        return ", ".join(map(str, self.changes))

    @property
    def times(self) -> str:
        """Executions in one run, with an arrow if they changed."""
        return arrow(times_text(self.base), times_text(self.head))

    @property
    def base_wire_bytes(self) -> int | None:
        """Bytes on the wire in one run of the base; None if not known."""
        return _wire(self.base, self.count)

    @property
    def head_wire_bytes(self) -> int | None:
        """Bytes on the wire in one run of the head; None if not known."""
        return _wire(self.head, self.count)

    @property
    def delta_wire_bytes(self) -> int | None:
        """Their difference; None if either is not known."""
        base, head = self.base_wire_bytes, self.head_wire_bytes
        return None if base is None or head is None else head - base

    @property
    def is_worse(self) -> bool:
        """Whether it costs more: added, performed more often, more bytes, or newly exposed."""
        if self.base is None or self.head is None:
            return self.base is None
        if any(d.what == EXPOSED for d in self.changes) or (self.delta_wire_bytes or 0) > 0:
            return True
        before, after = self.base.dynamic_count, self.head.dynamic_count
        if before is None or after is None:
            return after is None and before is not None
        return after > before


def _wire(fact: Collective | None, count: int) -> int | None:
    if fact is None:
        return 0
    size = fact.wire_bytes_per_run
    return None if size is None else size * count


@dataclass(frozen=True, kw_only=True)
class CollectiveDiff(Result):
    """Changes of the collectives of one module, largest increase first.

    Attributes:
        counts: Kind to collectives in the text.
        dynamic_counts: Kind to executions in one run; None if one is not known.
        wire_bytes: Bytes that leave each device in one run.
        changed: Changed collectives.
        unchanged: Number of the others.
    """

    KIND: ClassVar[str] = "collective-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("change", Unit.NONE, "added, removed, moved into or out of loops, or changed"),
        Column("count", Unit.COUNT, "collectives with this change"),
        Column("kind", Unit.NONE, "all-reduce, all-gather, ..."),
        Column("axis", Unit.NONE, "mesh axes of the groups of devices"),
        Column("group_size", Unit.COUNT, "devices in each group"),
        Column("payload_bytes", Unit.BYTES, "bytes of the full tensor of one group"),
        Column("times", Unit.NONE, "executions of each in one run"),
        Column("delta_wire_bytes", Unit.BYTES_DELTA, "increase of bytes on the wire in one run"),
        Column("details", Unit.NONE, "changes"),
        Column("source", Unit.NONE, "place in the user's program"),
        Column("op_name", Unit.NONE, "operation path"),
        Column("element_type", Unit.NONE, "element type"),
        Column("base_payload_bytes", Unit.BYTES, "payload in the base"),
        Column("head_payload_bytes", Unit.BYTES, "payload in the head"),
        Column("base_dynamic_count", Unit.COUNT, "executions of each in one run of the base"),
        Column("head_dynamic_count", Unit.COUNT, "executions of each in one run of the head"),
        Column("base_wire_bytes", Unit.BYTES, "bytes on the wire in one run of the base"),
        Column("head_wire_bytes", Unit.BYTES, "bytes on the wire in one run of the head"),
        Column("base_loops", Unit.NONE, "enclosing loops in the base"),
        Column("head_loops", Unit.NONE, "enclosing loops in the head"),
        Column("base_is_exposed", Unit.NONE, "whether work did not cover it in the base"),
        Column("head_is_exposed", Unit.NONE, "whether work does not cover it in the head"),
        Column("base_axis", Unit.NONE, "mesh axes in the base"),
        Column("head_axis", Unit.NONE, "mesh axes in the head"),
        Column("origin_basis", Unit.NONE, "way that source and op_name were found"),
    )
    RECORDS: ClassVar[str] = "changed"
    counts: Mapping[str, Delta]
    dynamic_counts: Mapping[str, Delta]
    wire_bytes: Delta
    changed: tuple[CollectiveRow, ...] = field(repr=False)
    unchanged: int

    def rows(self) -> Iterator[Row]:
        """Yield the changed collectives."""
        return (row.row(self.COLUMNS) for row in self.changed)

    def totals(self) -> Mapping[str, int]:
        """Return the number of changed collectives, and the increase on the wire if known."""
        found = {"count": sum(row.count for row in self.changed)}
        deltas = [row.delta_wire_bytes for row in self.changed]
        known = [delta for delta in deltas if delta is not None]
        if len(known) == len(deltas):
            found["delta_wire_bytes"] = sum(known)
        return found


def collective_diff(base: ModuleSnapshot, head: ModuleSnapshot) -> CollectiveDiff | None:
    """Return the changes of the collectives of a module; None if a side has no HLO text."""
    if base.collectives is None or head.collectives is None:
        return None
    mine, yours = base.collectives, head.collectives
    paired = pair_items(mine, yours, _STAGES, _order)
    rows: dict[tuple[object, object], list[tuple[Collective | None, Collective | None]]] = {}
    for b, h in paired:
        if b is None or h is None or any(details_of(b, h)):
            rows.setdefault((_figures(b), _figures(h)), []).append((b, h))
    changed = [CollectiveRow(base=r[0][0], head=r[0][1], count=len(r)) for r in rows.values()]
    counts = [Counter(fact.kind for fact in side) for side in (mine, yours)]
    kinds = dict.fromkeys((*COLLECTIVE_KINDS, *sorted({*counts[0], *counts[1]})))
    return CollectiveDiff(
        counts={kind: Delta(counts[0][kind], counts[1][kind]) for kind in kinds},
        dynamic_counts={kind: _run_delta(base, head, COUNT, kind) for kind in kinds},
        wire_bytes=_run_delta(base, head, WIRE),
        changed=tuple(sorted(changed, key=_row_order)),
        unchanged=len(paired) - sum(map(len, rows.values())),
    )


def _row_order(row: CollectiveRow) -> tuple[object, ...]:
    delta, one = row.delta_wire_bytes, row.one
    size = (0, 0) if delta is None else (1, -abs(delta))
    rest = repr((_figures(row.base), _figures(row.head), row.count))
    return (*size, row.change, one.kind, one.axis, one.source or "", one.op_name or "", rest)


_SHOWN = attrgetter(
    *("kind", "axis", "axes", "are_axes_named", "devices", "group_size", "num_groups"),
    *("payload_bytes", "wire_bytes_per_device", "element_type", "dynamic_count", "is_at_most"),
    *("loops", "is_async", "is_exposed", "op_name", "source_file", "source_line"),
    "is_payload_at_most",
)


def _figures(fact: Collective | None) -> object:
    """Return the figures of a collective that rows show; equal changes of equal ones are a row."""
    return None if fact is None else _SHOWN(fact)


def _run_delta(
    base: ModuleSnapshot, head: ModuleSnapshot, figure: str, kind: str | None = None
) -> Delta:
    """Return a figure of one run of both sides, of all kinds or of one; none of a cut text."""
    sides = [
        None
        if side.is_truncated
        else run_sum((fact for fact in side.collectives or () if kind in (None, fact.kind)), figure)
        for side in (base, head)
    ]
    one, other = (None if bounds is None else bounds.most for bounds in sides)
    are_at_most = [bounds is not None and bounds.is_at_most for bounds in sides]
    return Delta(one, other, is_at_most=any(are_at_most))


# ---- matching ----------------------------------------------------------------------------------

_TIMES = re.compile(r" x(?:\d+|\?)$")


def _loops(fact: Collective) -> tuple[str, ...]:
    """Return the enclosing loops, without trip counts."""
    return tuple(_TIMES.sub("", loop) for loop in fact.loops)


def _times(fact: Collective) -> tuple[object, ...]:
    return (fact.loops, fact.dynamic_count)


def _what(fact: Collective) -> tuple[object, ...]:
    return (fact.kind, fact.devices, fact.payload_bytes, fact.element_type)


def _where(fact: Collective) -> tuple[object, ...]:
    return (fact.kind, fact.axis, fact.group_size)


def _operation(fact: Collective) -> str:
    """Return the last two scopes of the operation path; edits around it change the others."""
    return last_scopes(fact.op_name, 2)


_STAGES: tuple[Callable[[Collective], Hashable], ...] = (
    lambda f: (*_what(f), *_times(f), f.is_at_most, f.is_exposed, f.op_name, f.source),
    lambda f: (*_what(f), *_times(f), f.is_exposed, f.op_name),
    lambda f: (*_what(f), *_times(f), f.op_name),
    lambda f: (*_what(f), _loops(f), f.op_name),
    lambda f: (*_where(f), _loops(f), f.op_name),
    lambda f: (*_what(f), _operation(f)),
    # a collective that moves into another scope keeps the last scope of its path
    lambda f: last_scopes(f.op_name) and (*_what(f), last_scopes(f.op_name), f.source_file),
    lambda f: (*_what(f), len(f.loops), f.dynamic_count),
    lambda f: (*_where(f), f.payload_bytes, len(f.loops)),
    lambda f: f.op_name and (f.kind, f.op_name, f.source_file),
    lambda f: f.op_name and (*_where(f), _operation(f), f.source_file),
)
"""Keys by which collectives are matched, strictest first."""


def _order(fact: Collective) -> tuple[object, ...]:
    return (
        fact.source_line,
        fact.payload_bytes,
        fact.dynamic_count,
        fact.axis,
        fact.op_name,
        fact.source_file,
        " ".join(fact.loops),
        fact.devices,
        fact.element_type,
        fact.is_exposed,
    )
