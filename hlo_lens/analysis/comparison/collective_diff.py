"""Collectives of two compiles: added, removed, moved into or out of loops, changed.

Each collective is matched with one of the other side that agrees in kind, devices, payload, loops
and origin, then in fewer and fewer of these; those left over were added or removed. Equal changes
are one row with their number. Operation paths (of loops too), source lines, channels and whether a
collective is asynchronous are no change by themselves; becoming exposed is. Moved means that the
number of enclosing loops changed; a move to another loop of the same depth looks like a loop with
another path, and is no change.

Bytes are those of one run of the program.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.comparison.collective_details import EXPOSED, arrow, details_of, times_text
from hlo_lens.analysis.comparison.collective_matching import pair_collectives
from hlo_lens.analysis.comparison.delta import Delta
from hlo_lens.analysis.comparison.side_pair import SidePair
from hlo_lens.analysis.result import Column, Result, Unit
from hlo_lens.model.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.model.snapshot.rows import CollectiveFact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.comparison.collective_details import Detail
    from hlo_lens.analysis.result import Row
    from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot

ADDED, REMOVED, MOVED, CHANGED = "added", "removed", "moved", "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow(SidePair[CollectiveFact]):
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


def _wire(fact: CollectiveFact | None, count: int) -> int | None:
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
        Column("base_is_exposed", Unit.NONE, "whether no instruction ran meanwhile in the base"),
        Column("head_is_exposed", Unit.NONE, "whether no instruction runs meanwhile in the head"),
        Column("base_axis", Unit.NONE, "mesh axes in the base"),
        Column("head_axis", Unit.NONE, "mesh axes in the head"),
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
    paired = pair_collectives(base.collectives, head.collectives)
    rows: Counter[tuple[CollectiveFact | None, CollectiveFact | None]] = Counter()
    unchanged = 0
    for one, other, _ in paired.pairs:
        if any(True for _ in details_of(one, other)):
            rows[one, other] += 1
        else:
            unchanged += 1
    rows.update((one, None) for one in paired.removed)
    rows.update((None, other) for other in paired.added)
    changed = [CollectiveRow(base=b, head=h, count=n) for (b, h), n in rows.items()]
    changed.sort(key=_row_order)
    return CollectiveDiff(
        counts=_counts(base.collectives, head.collectives),
        dynamic_counts=_dynamic_counts(base.collectives, head.collectives),
        wire_bytes=Delta(base=_total(base.collectives), head=_total(head.collectives)),
        changed=tuple(changed),
        unchanged=unchanged,
    )


def _row_order(row: CollectiveRow) -> tuple[object, ...]:
    delta, one = row.delta_wire_bytes, row.one
    size = (0, 0) if delta is None else (1, -abs(delta))
    return (*size, row.change, one.kind, one.axis, one.source or "", one.op_name or "", repr(row))


def _kinds(facts: Iterable[CollectiveFact]) -> dict[str, None]:
    return dict.fromkeys((*COLLECTIVE_KINDS, *sorted({fact.kind for fact in facts})))


def _counts(base: Sequence[CollectiveFact], head: Sequence[CollectiveFact]) -> dict[str, Delta]:
    mine, yours = Counter(f.kind for f in base), Counter(f.kind for f in head)
    return {k: Delta(base=mine[k], head=yours[k]) for k in _kinds((*base, *head))}


def _dynamic_counts(
    base: Sequence[CollectiveFact], head: Sequence[CollectiveFact]
) -> dict[str, Delta]:
    return {
        kind: Delta(base=_runs(base, kind), head=_runs(head, kind))
        for kind in _kinds((*base, *head))
    }


def _runs(facts: Sequence[CollectiveFact], kind: str) -> int | None:
    return _sum(fact.dynamic_count for fact in facts if fact.kind == kind)


def _total(facts: Sequence[CollectiveFact]) -> int | None:
    return _sum(fact.wire_bytes_per_run for fact in facts)


def _sum(parts: Iterable[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total
