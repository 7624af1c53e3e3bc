"""The collectives of two compiles: added, removed, moved into or out of loops, changed.

Collectives are a multiset: each is matched with one of the other side that agrees in kind, devices,
payload, loops and origin, then in fewer and fewer of these. What is left over was added or removed.
Equal changes stand in one row with their number. Operation paths (of loops too), source lines,
channels and whether a collective is asynchronous are no change by themselves; that nothing runs
beside it is. Moved is what more or fewer loops stand around; from a loop to another of the same
depth cannot be told from a loop that has another path.

Bytes are those of one run of the program, each collective as often as its loops run it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.comparison.collective_details import EXPOSED, arrow, details_of, times_text
from hlo_lens.analysis.comparison.collective_matching import pair_collectives
from hlo_lens.analysis.comparison.delta import Delta
from hlo_lens.analysis.result import Column, Result, Unit
from hlo_lens.model.hlo.opcodes import COLLECTIVE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.comparison.collective_details import Detail
    from hlo_lens.analysis.result import Row
    from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot
    from hlo_lens.model.snapshot.rows import CollectiveFact

ADDED, REMOVED, MOVED, CHANGED = "added", "removed", "moved", "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow:
    """Collectives that changed alike.

    Attributes:
        base: One of them in the base; None where they were added.
        head: The same in the head; None where they were removed.
        count: How many there are.
    """

    base: CollectiveFact | None
    head: CollectiveFact | None
    count: int

    @property
    def one(self) -> CollectiveFact:
        """That of the head, or of the base where they were removed."""
        found = self.head or self.base
        if found is None:
            message = "a row has a collective"
            raise AssertionError(message)
        return found

    @property
    def change(self) -> str:
        """``added``, ``removed``, ``moved`` (into or out of loops) or ``changed``."""
        if self.base is None:
            return ADDED
        if self.head is None:
            return REMOVED
        return MOVED if len(self.base.loops) != len(self.head.loops) else CHANGED

    @property
    def details(self) -> tuple[Detail, ...]:
        """What changed; empty for what was added or removed."""
        if self.base is None or self.head is None:
            return ()
        return tuple(details_of(self.base, self.head))

    @property
    def base_wire_bytes(self) -> int | None:
        """Bytes on the wire of one run in the base; None if not known."""
        return _wire(self.base, self.count)

    @property
    def head_wire_bytes(self) -> int | None:
        """The same in the head."""
        return _wire(self.head, self.count)

    @property
    def delta_wire_bytes(self) -> int | None:
        """Their difference; None if either is not known."""
        base, head = self.base_wire_bytes, self.head_wire_bytes
        return None if base is None or head is None else head - base

    @property
    def is_worse(self) -> bool:
        """Whether it costs more: more of it, more often, more bytes, or nothing beside it."""
        if self.base is None or self.head is None:
            return self.base is None
        if any(d.what == EXPOSED for d in self.details) or (self.delta_wire_bytes or 0) > 0:
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
    """What changed in the collectives of one module, what adds the most first.

    Attributes:
        counts: Kind to how many there are in the text.
        dynamic_counts: Kind to how often one run performs them; None if not known for each.
        wire_bytes: Bytes that leave each device in one run.
        changed: What differs.
        unchanged: How many collectives are the same.
    """

    KIND: ClassVar[str] = "collective-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("change", Unit.NONE, "added, removed, moved into or out of loops, or changed"),
        Column("count", Unit.COUNT, "how many changed alike"),
        Column("kind", Unit.NONE, "all-reduce, all-gather, ..."),
        Column("axis", Unit.NONE, "mesh axes of the groups of devices"),
        Column("group_size", Unit.COUNT, "devices in each group"),
        Column("payload_bytes", Unit.BYTES, "bytes of the full tensor of one group"),
        Column("times", Unit.NONE, "how often one run performs each"),
        Column(
            "delta_wire_bytes", Unit.BYTES_DELTA, "bytes on the wire of one run, more than before"
        ),
        Column("details", Unit.NONE, "what changed"),
        Column("source", Unit.NONE, "place in the user's program"),
        Column("op_name", Unit.NONE, "operation path"),
        Column("element_type", Unit.NONE, "element type"),
        Column("base_payload_bytes", Unit.BYTES, "payload in the base"),
        Column("head_payload_bytes", Unit.BYTES, "payload in the head"),
        Column("base_dynamic_count", Unit.COUNT, "how often one run of the base performs each"),
        Column("head_dynamic_count", Unit.COUNT, "how often one run of the head performs each"),
        Column("base_wire_bytes", Unit.BYTES, "bytes on the wire of one run of the base"),
        Column("head_wire_bytes", Unit.BYTES, "bytes on the wire of one run of the head"),
        Column("base_loops", Unit.NONE, "loops around it in the base"),
        Column("head_loops", Unit.NONE, "loops around it in the head"),
        Column("base_is_exposed", Unit.NONE, "whether nothing ran meanwhile in the base"),
        Column("head_is_exposed", Unit.NONE, "whether nothing runs meanwhile in the head"),
        Column("base_axis", Unit.NONE, "mesh axes in the base"),
        Column("head_axis", Unit.NONE, "mesh axes in the head"),
    )
    counts: Mapping[str, Delta]
    dynamic_counts: Mapping[str, Delta]
    wire_bytes: Delta
    changed: tuple[CollectiveRow, ...] = field(repr=False)
    unchanged: int

    def rows(self) -> Iterator[Row]:
        """Yield what differs."""
        for row in self.changed:
            yield _cells(row)

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return len(self.changed)

    def totals(self) -> Mapping[str, int]:
        """Return how many collectives changed, and the difference on the wire if it is known."""
        found = {"count": sum(row.count for row in self.changed)}
        deltas = [row.delta_wire_bytes for row in self.changed]
        known = [delta for delta in deltas if delta is not None]
        if len(known) == len(deltas):
            found["delta_wire_bytes"] = sum(known)
        return found


def _cells(row: CollectiveRow) -> Row:
    base, head, one = row.base, row.head, row.one
    return (
        row.change,
        row.count,
        one.kind,
        one.axis,
        one.group_size,
        one.payload_bytes,
        arrow(times_text(base), times_text(head)),
        row.delta_wire_bytes,
        ", ".join(map(str, row.details)),
        one.source,
        one.op_name,
        one.element_type,
        None if base is None else base.payload_bytes,
        None if head is None else head.payload_bytes,
        None if base is None else base.dynamic_count,
        None if head is None else head.dynamic_count,
        row.base_wire_bytes,
        row.head_wire_bytes,
        None if base is None else base.loops,
        None if head is None else head.loops,
        None if base is None else base.is_exposed,
        None if head is None else head.is_exposed,
        None if base is None else base.axis,
        None if head is None else head.axis,
    )


def collective_diff(base: ModuleSnapshot, head: ModuleSnapshot) -> CollectiveDiff | None:
    """Return what changed in the collectives of a module; None where a side has no HLO text."""
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
