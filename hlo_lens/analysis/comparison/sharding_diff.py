"""Shardings of two compiles: values that devices hold in other tiles than before.

Parameters are matched by name, then by number; results by index if both programs have as many, else
from both ends inward. Two shardings are equal if each device holds the same tile, in any spelling.
A value whose sharding only one side knows is compared by its global shape and its device's part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.comparison.annotation_diff import (
    AnnotationRow,
    ShardedPair,
    annotation_diff,
    annotation_problem,
)
from hlo_lens.analysis.comparison.keyed_pairs import pair_items
from hlo_lens.analysis.comparison.sharding_meaning import ShardingMeaning
from hlo_lens.analysis.result import Column, Result, Unit
from hlo_lens.model.snapshot.rows import EntryFact

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from hlo_lens.analysis.result import Row
    from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot

ADDED, REMOVED, RESHARDED, RESHAPED = "added", "removed", "resharded", "reshaped"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow(ShardedPair[EntryFact]):
    """A parameter or output that changed.

    Attributes:
        change: ``added``, ``removed``, ``resharded`` or ``reshaped``.
        count: 1.
    """

    change: str
    count: int = 1

    @property
    def name(self) -> str:
        """Name of a parameter, index of an output."""
        return label_of(self.one)

    @property
    def delta_bytes(self) -> int | None:
        """Increase of the bytes of one device's part; None if not known."""
        base, head = _bytes(self.base), _bytes(self.head)
        return None if base is None or head is None else head - base


def _bytes(entry: EntryFact | None) -> int | None:
    return 0 if entry is None else entry.device_bytes


@dataclass(frozen=True, kw_only=True)
class ShardingDiff(Result):
    """Values whose sharding changed, largest difference first.

    Attributes:
        pairs: Matched parameters and outputs, changed or not.
        entries: Changed parameters and outputs.
        annotations: Changed annotations.
        unknown: Number of values of equal shapes whose sharding only one side knows.
        problem: Why annotations were not compared; empty if they were, or neither side has any.
    """

    KIND: ClassVar[str] = "sharding-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("change", Unit.NONE, "resharded, reshaped, added or removed"),
        Column("kind", Unit.NONE, "parameter, output, or the annotation"),
        Column("name", Unit.NONE, "argument, index of the output, or operation path"),
        Column("base_spec", Unit.NONE, "partition spec in the base, or sharding"),
        Column("head_spec", Unit.NONE, "partition spec in the head, or sharding"),
        Column("base_device_shape", Unit.NONE, "shape of one device's part in the base"),
        Column("head_device_shape", Unit.NONE, "shape of one device's part in the head"),
        Column("delta_bytes", Unit.BYTES_DELTA, "increase of bytes on each device"),
        Column("count", Unit.COUNT, "values or annotations with this change"),
        Column("source", Unit.NONE, "place in the user's program"),
        Column("base_number", Unit.NONE, "parameter number in the base"),
        Column("head_number", Unit.NONE, "parameter number in the head"),
        Column("base_global_shape", Unit.NONE, "global shape in the base"),
        Column("head_global_shape", Unit.NONE, "global shape in the head"),
        Column("base_sharding", Unit.NONE, "sharding in the base"),
        Column("head_sharding", Unit.NONE, "sharding in the head"),
        Column("base_replication_factor", Unit.COUNT, "devices that held each element"),
        Column("head_replication_factor", Unit.COUNT, "devices that hold each element"),
    )
    pairs: tuple[tuple[EntryFact, EntryFact], ...] = field(repr=False)
    entries: tuple[EntryRow, ...]
    annotations: tuple[AnnotationRow, ...]
    unknown: int
    problem: str = ""

    def rows(self) -> Iterator[Row]:
        """Yield parameters and outputs, then annotations."""
        yield from (entry.row(self.COLUMNS) for entry in self.entries)
        yield from (annotation.row(self.COLUMNS) for annotation in self.annotations)

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return len(self.entries) + len(self.annotations)


def label_of(entry: EntryFact) -> str:
    """Return the name of a parameter, or the index of an output."""
    if entry.kind == "output":
        return entry.index or "the result"
    return f"{entry.name or entry.number}{entry.index}"


def sharding_diff(base: ModuleSnapshot, head: ModuleSnapshot) -> ShardingDiff | None:
    """Return the changes of the shardings of a module; None if a side has no HLO text."""
    if base.entries is None or head.entries is None:
        return None
    meaning = ShardingMeaning()
    pairs, removed, added = _match(base.entries, head.entries)
    rows: list[EntryRow] = []
    unknown = 0
    for one, other in pairs:
        change = _change(one, other, meaning)
        if change:
            rows.append(EntryRow(base=one, head=other, change=change))
        elif (one.sharding is None) != (other.sharding is None):
            unknown += 1
    rows += [EntryRow(base=one, head=None, change=REMOVED) for one in removed]
    rows += [EntryRow(base=None, head=one, change=ADDED) for one in added]
    rows.sort(key=lambda row: (-abs(row.delta_bytes or 0), row.one.kind, row.name))
    problem = annotation_problem(base, head)
    return ShardingDiff(
        pairs=tuple(pairs),
        entries=tuple(rows),
        annotations=() if problem else annotation_diff(base, head, meaning),
        problem=problem,
        unknown=unknown,
    )


_STAGES: tuple[Callable[[EntryFact], Hashable], ...] = (
    lambda entry: entry.name and (entry.name, entry.index),
    attrgetter("number", "index", "global_shape"),
)
"""Keys by which parameters are matched, strictest first."""


def _match(
    base: Sequence[EntryFact], head: Sequence[EntryFact]
) -> tuple[list[tuple[EntryFact, EntryFact]], list[EntryFact], list[EntryFact]]:
    """Return the matched values, and those of one side alone."""
    mine, yours = _of_kind(base, "parameter"), _of_kind(head, "parameter")
    found = pair_items(mine, yours, _STAGES, attrgetter("number", "index"))
    outputs, gone, new = _match_outputs(_of_kind(base, "output"), _of_kind(head, "output"))
    pairs = [(one, other) for one, other, _ in found.pairs] + outputs
    return pairs, [*found.removed, *gone], [*found.added, *new]


def _of_kind(entries: Sequence[EntryFact], kind: str) -> list[EntryFact]:
    return [entry for entry in entries if entry.kind == kind]


def _match_outputs(
    base: list[EntryFact], head: list[EntryFact]
) -> tuple[list[tuple[EntryFact, EntryFact]], list[EntryFact], list[EntryFact]]:
    """Return outputs matched by place, from both ends if their numbers differ."""
    if len(base) == len(head):
        return list(zip(base, head, strict=True)), [], []
    least = min(len(base), len(head))
    start = 0
    while start < least and base[start].global_shape == head[start].global_shape:
        start += 1
    end = 0
    while end < least - start and base[-1 - end].global_shape == head[-1 - end].global_shape:
        end += 1
    pairs = list(zip(base[:start], head[:start], strict=True))
    if end:
        pairs += list(zip(base[-end:], head[-end:], strict=True))
    return pairs, base[start : len(base) - end], head[start : len(head) - end]


def _change(one: EntryFact, other: EntryFact, meaning: ShardingMeaning) -> str:
    """Return the change of a value; empty for none."""
    shapes = (one.global_shape, other.global_shape)
    parts = (one.device_shape, other.device_shape)
    if one.sharding is not None and other.sharding is not None:
        if not meaning.is_same(one.sharding, other.sharding):
            return RESHARDED
    elif (
        None not in shapes and shapes[0] == shapes[1] and None not in parts and parts[0] != parts[1]
    ):
        return RESHARDED
    if None not in shapes:
        return RESHAPED if shapes[0] != shapes[1] else ""
    return RESHAPED if None not in parts and parts[0] != parts[1] else ""
