"""Changes of the collectives of a module, one row for all with equal changes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.questions.collectives.collective import COUNT, WIRE, run_sum
from hlo_lens.questions.diff.pairs import Delta, pair_items, pair_record
from hlo_lens.render.result import Records, Unit, sum_of
from hlo_lens.text.names import last_scopes
from hlo_lens.text.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot


_Sides: TypeAlias = "tuple[Collective | None, Collective | None]"

EXPOSED, HIDDEN = "exposed, was hidden", "hidden, was exposed"


def details_of(base: Collective, head: Collective) -> Iterator[str]:
    """Yield the differences between two matched collectives."""
    if len(base.loops) != len(head.loops):  # with the innermost loop's scope and trip count
        is_into = len(head.loops) > len(base.loops)
        loop = (head if is_into else base).loops[-1].rpartition("/")[2]
        yield f"{'into a loop' if is_into else 'out of a loop'}: {loop}"
    if base.dynamic_count != head.dynamic_count or base.is_at_most != head.is_at_most:
        yield f"times {base.times} -> {head.times}"
    payloads = (base.payload_bytes, head.payload_bytes)
    yield from _differing("payload", *payloads, is_bytes=True)
    yield from _differing("type", base.element_type, head.element_type)
    are_named = base.are_axes_named and head.are_axes_named
    if base.devices != head.devices and not (are_named and base.axis == head.axis):
        is_other = base.axis != head.axis
        yield f"axis {base.axis} -> {head.axis}" if is_other else "other devices in the groups"
    yield from _differing("group size", base.group_size, head.group_size)
    if None not in (base.is_exposed, head.is_exposed) and base.is_exposed != head.is_exposed:
        yield EXPOSED if head.is_exposed else HIDDEN
    yield from _differing("groups", base.num_groups, head.num_groups)
    if payloads[0] == payloads[1]:  # else the bytes on the wire follow from it
        sent = (base.wire_bytes_per_device, head.wire_bytes_per_device)
        yield from _differing("on the wire each time", *sent, is_bytes=True)


def _differing(
    what: str, base: str | int | None, head: str | int | None, *, is_bytes: bool = False
) -> Iterator[str]:
    if base != head:
        texts = [
            "?" if one is None else format_bytes(int(one)) if is_bytes else str(one)
            for one in (base, head)
        ]
        yield f"{what} {' -> '.join(texts)}"


ADDED, REMOVED, MOVED, CHANGED = "added", "removed", "moved", "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow:
    """Collectives with equal changes: one of them before and after, None on a side without."""

    base: Collective | None
    head: Collective | None
    changes: tuple[str, ...]
    change: Annotated[str, "added, removed, moved into or out of loops, or changed"]
    count: Annotated[int, Unit.COUNT, "collectives with this change"]
    kind: Annotated[str, "all-reduce, all-gather, ..."]
    axis: Annotated[str, "mesh axes of the groups of devices"]
    group_size: Annotated[int | None, Unit.COUNT, "devices in each group"]
    payload_bytes: Annotated[int | None, Unit.BYTES, "bytes of the full tensor of one group"]
    times: Annotated[str, "executions of each in one run"]
    delta_wire_bytes: Annotated[
        int | None, Unit.BYTES_DELTA, "increase of bytes on the wire in one run"
    ]
    details: Annotated[str, "changes"]
    source: Annotated[str | None, "place in the user's program"]
    op_name: Annotated[str | None, "operation path"]
    element_type: Annotated[str | None, "element type"]
    base_payload_bytes: Annotated[int | None, Unit.BYTES, "payload in the base"]
    head_payload_bytes: Annotated[int | None, Unit.BYTES, "payload in the head"]
    base_dynamic_count: Annotated[
        int | None, Unit.COUNT, "executions of each in one run of the base"
    ]
    head_dynamic_count: Annotated[
        int | None, Unit.COUNT, "executions of each in one run of the head"
    ]
    base_wire_bytes: Annotated[int | None, Unit.BYTES, "bytes on the wire in one run of the base"]
    head_wire_bytes: Annotated[int | None, Unit.BYTES, "bytes on the wire in one run of the head"]
    base_loops: Annotated[tuple[str, ...] | None, "enclosing loops in the base"]
    head_loops: Annotated[tuple[str, ...] | None, "enclosing loops in the head"]
    base_is_exposed: Annotated[bool | None, "whether work did not cover it in the base"]
    head_is_exposed: Annotated[bool | None, "whether work does not cover it in the head"]
    base_axis: Annotated[str | None, "mesh axes in the base"]
    head_axis: Annotated[str | None, "mesh axes in the head"]
    origin_basis: Annotated[str | None, "way that source and op_name were found"]

    @property
    def is_worse(self) -> bool:
        """Whether it costs more: added, performed more often, more bytes, or newly exposed."""
        if self.base is None or self.head is None:
            return self.base is None
        if EXPOSED in self.changes or (self.delta_wire_bytes or 0) > 0:
            return True
        before, after = self.base.dynamic_count, self.head.dynamic_count
        if before is None or after is None:
            return after is None and before is not None
        return after > before


def _row(base: Collective | None, head: Collective | None, count: int) -> CollectiveRow:
    sides = (base, head)
    changes = () if base is None or head is None else tuple(details_of(base, head))
    change = ADDED if base is None else REMOVED
    if base is not None and head is not None:
        change = MOVED if len(base.loops) != len(head.loops) else CHANGED
    runs = [0 if fact is None else fact.wire_bytes_per_run for fact in sides]
    before, after = (None if size is None else size * count for size in runs)
    return pair_record(
        CollectiveRow,
        base,
        head,
        changes=changes,
        change=change,
        count=count,
        times=" -> ".join(dict.fromkeys(fact.times for fact in sides if fact is not None)),
        base_wire_bytes=before,
        head_wire_bytes=after,
        delta_wire_bytes=None if before is None or after is None else after - before,
        details=", ".join(changes),
    )


@dataclass(frozen=True, kw_only=True)
class CollectiveDiff(Records[CollectiveRow]):
    """Changes of the collectives of one module, largest increase first.

    Kinds have their number in the text (`counts`) and of executions in one run (`dynamic_counts`);
    `wire_bytes` leave each device in one run.
    """

    KIND: ClassVar[str] = "collective-diff"
    changed: tuple[CollectiveRow, ...] = field(repr=False)
    counts: Mapping[str, Delta]
    dynamic_counts: Mapping[str, Delta]
    wire_bytes: Delta
    unchanged: int

    def totals(self) -> Mapping[str, int]:
        """Return the number of changed collectives, and the increase on the wire if known."""
        sums = {"count": sum(row.count for row in self.changed)}
        sent = sum_of(row.delta_wire_bytes for row in self.changed)
        return sums if sent is None else {**sums, "delta_wire_bytes": sent}


def collective_diff(base: ModuleSnapshot, head: ModuleSnapshot) -> CollectiveDiff | None:
    """Return the changes of the collectives of a module; None if a side has no HLO text."""
    if base.collectives is None or head.collectives is None:
        return None
    mine, yours = base.collectives, head.collectives
    paired = pair_items(mine, yours, _STAGES, _order)
    alike: dict[tuple[object, object], list[_Sides]] = {}
    for b, h in paired:
        if b is None or h is None or any(details_of(b, h)):
            alike.setdefault((_figures(b), _figures(h)), []).append((b, h))

    def order(row: CollectiveRow) -> tuple[object, ...]:
        delta = row.delta_wire_bytes
        size = (0, 0) if delta is None else (1, -abs(delta))
        rest = repr((_figures(row.base), _figures(row.head), row.count))
        place = (row.source or "", row.op_name or "")
        return (*size, row.change, row.kind, row.axis, *place, rest)

    counts = [Counter(fact.kind for fact in side) for side in (mine, yours)]
    kinds = dict.fromkeys((*COLLECTIVE_KINDS, *sorted({*counts[0], *counts[1]})))
    return CollectiveDiff(
        changed=tuple(sorted((_row(*same[0], len(same)) for same in alike.values()), key=order)),
        counts={kind: Delta(counts[0][kind], counts[1][kind]) for kind in kinds},
        dynamic_counts={kind: _run_delta(base, head, COUNT, kind) for kind in kinds},
        wire_bytes=_run_delta(base, head, WIRE),
        unchanged=len(paired) - sum(map(len, alike.values())),
    )


_SHOWN = attrgetter(
    *("kind", "axis", "axes", "are_axes_named", "devices", "group_size", "num_groups"),
    *("payload_bytes", "wire_bytes_per_device", "element_type", "dynamic_count", "is_at_most"),
    *("loops", "is_async", "is_exposed", "op_name", "source_file", "source_line"),
    "is_payload_at_most",
)
"""Figures of a collective that rows show; equal changes of equal ones are a row."""


def _figures(fact: Collective | None) -> object:
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


_TRIPS = re.compile(r" x(?:\d+|\?)$")


def _loops(fact: Collective) -> tuple[str, ...]:
    return tuple(_TRIPS.sub("", loop) for loop in fact.loops)


_WHAT = ("kind", "devices", "payload_bytes", "element_type")
_what, _where = attrgetter(*_WHAT), attrgetter("kind", "axis", "group_size")


def _operation(fact: Collective) -> str:
    """Return the last two scopes of the operation path; edits around it change the others."""
    return last_scopes(fact.op_name, 2)


_STAGES: tuple[Callable[[Collective], Hashable], ...] = (
    attrgetter(
        *_WHAT, *("loops", "dynamic_count", "is_at_most", "is_exposed", "op_name", "source")
    ),
    lambda f: (*_what(f), f.loops, f.dynamic_count, f.is_exposed, f.op_name),
    lambda f: (*_what(f), f.loops, f.dynamic_count, f.op_name),
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

_order = attrgetter(
    *("source_line", "payload_bytes", "dynamic_count", "axis", "op_name", "source_file"),
    *("loops", "devices", "element_type", "is_exposed"),
)
