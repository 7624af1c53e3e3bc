"""Causes of the changes of a module that are in its arguments: shapes, shardings, order.

A program gives its arguments other shapes with another batch or number of layers, and divides them
in other ways with other PartitionSpecs; no line of the program needs to change.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.line_causes import Cause
from hlo_lens.questions.diff.line_rows import LEAST
from hlo_lens.questions.diff.sharding_diff import ADDED, REMOVED, RESHAPED, RESHARDED, label_of
from hlo_lens.text.units import listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.questions.diff.sharding_diff import EntryRow, ShardingDiff
    from hlo_lens.questions.snapshots.rows import EntryFact

_CHANGES = (ADDED, REMOVED, RESHAPED, RESHARDED)


def argument_causes(shardings: ShardingDiff | None) -> Iterator[Cause]:
    """Yield the changes of arguments, one cause for each kind of change."""
    if shardings is None:
        return
    changed: dict[str, list[EntryRow]] = defaultdict(list)
    for row in shardings.entries:
        if row.one.kind == "parameter":
            changed[row.change].append(row)
    for change in _CHANGES:
        if changed[change]:
            yield _cause(change, changed[change])
    if not changed[ADDED] and not changed[REMOVED]:
        yield from _order(shardings.pairs)


def _cause(change: str, rows: Sequence[EntryRow]) -> Cause:
    first = rows[0]
    before, after = _texts(first)
    values = f" {before} -> {after}" if before and after else ""
    if first.change == RESHARDED and values and first.head and after == first.head.device_shape:
        values += " on each device"
    names = [f"{first.name}{values}", *(row.name for row in rows[1:])]
    sizes = [_delta_bytes(row) for row in rows]
    size = None if None in sizes else sum(one or 0 for one in sizes)
    size = size if size is not None and abs(size) >= LEAST else None
    return Cause(
        sources=(),
        delta_bytes=size,
        delta_bytes_of=None if size is None else "argument_bytes",
        what=f"{plural(len(rows), 'argument')} {change}: {listed(names, 1)}",
    )


def _delta_bytes(row: EntryRow) -> int | None:
    """Return the increase of an argument on each device, with the padding of tiles."""
    sides = (row.base, row.head)
    before, after = (0 if one is None else one.padded_device_bytes for one in sides)
    return row.delta_bytes if before is None or after is None else after - before


def _texts(row: EntryRow) -> tuple[str | None, str | None]:
    """Return the first of spec and shapes that differs on both sides; None if none does."""
    base, head = row.base, row.head
    if base is None or head is None:
        return None, None
    pairs = [(base.global_shape, head.global_shape), (base.device_shape, head.device_shape)]
    if row.change == RESHARDED:  # equal specs, other sizes of mesh axes: the parts differ
        specs, parts = (base.spec, head.spec), (base.sharding, head.sharding)
        pairs = [specs, *reversed(pairs), parts]
    some = ((one, other) for one, other in pairs if one and other and one != other)
    return next(some, (None, None))


def _order(pairs: Sequence[tuple[EntryFact, EntryFact]]) -> Iterator[Cause]:
    """Yield the arguments that have the same names in another order."""
    moved = [
        other
        for one, other in pairs
        if one.kind == "parameter" and one.name and one.name == other.name
        if one.number != other.number
    ]
    if moved:
        names = listed([label_of(one) for one in moved], 1)
        what = f"{plural(len(moved), 'argument')} in another order: {names}"
        yield Cause(sources=(), what=what)
