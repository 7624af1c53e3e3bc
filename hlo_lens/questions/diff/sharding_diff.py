"""Shardings of two compiles: values that devices hold in other tiles than before.

Parameters are matched by name, then by number; results by index if both programs have as many, else
from both ends inward. Two shardings are equal if each device holds the same tile, in any spelling.
Other names of mesh axes are noise: counted, and changes on request.
A value whose sharding only one side knows is compared by its global shape and its device's part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.questions.diff.annotation_diff import (
    RENAMED,
    AnnotationDiff,
    AnnotationRow,
    ShardedPair,
    annotation_diff,
    annotation_problem,
    has_other_axes,
)
from hlo_lens.questions.diff.keyed_pairs import pair_items
from hlo_lens.questions.snapshots.rows import EntryFact
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from hlo_lens.questions.diff.annotation_diff import SameShardings
    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot

    _Sides = tuple[EntryFact | None, EntryFact | None]

ADDED, REMOVED, RESHARDED, RESHAPED = "added", "removed", "resharded", "reshaped"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow(ShardedPair[EntryFact]):
    """A parameter or output that changed.

    Attributes:
        change: ``added``, ``removed``, ``resharded``, ``reshaped`` or ``renamed`` (mesh axes).
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
        renamed: Number of values and annotations with other names of mesh axes, which are ignored.
        problem: Why annotations were not compared; empty if they were, or neither side has any.
    """

    KIND: ClassVar[str] = "sharding-diff"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("change", Unit.NONE, "resharded, reshaped, added, removed or renamed"),
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
    renamed: int = 0
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


def sharding_diff(
    base: ModuleSnapshot, head: ModuleSnapshot, *, with_axis_names: bool = False
) -> ShardingDiff | None:
    """Return the changes of the shardings of a module; None if a side has no HLO text.

    Args:
        base: Before.
        head: After.
        with_axis_names: Whether other names of mesh axes count as changes.
    """
    if base.entries is None or head.entries is None:
        return None
    is_same = cache(_is_equivalent)
    pairs: list[tuple[EntryFact, EntryFact]] = []
    rows: list[EntryRow] = []
    renamed: list[EntryRow] = []
    unknown = 0
    for one, other in _match(base.entries, head.entries):
        if one is None or other is None:
            rows.append(EntryRow(base=one, head=other, change=REMOVED if one else ADDED))
            continue
        pairs.append((one, other))
        if change := _change(one, other, is_same):
            rows.append(EntryRow(base=one, head=other, change=change))
        elif (one.sharding is None) != (other.sharding is None):
            unknown += 1
        elif has_other_axes(one.spec, other.spec):
            renamed.append(EntryRow(base=one, head=other, change=RENAMED))
    problem = annotation_problem(base, head)
    found = AnnotationDiff() if problem else annotation_diff(base, head, is_same)
    rows += renamed if with_axis_names else ()
    rows.sort(key=lambda row: (-abs(row.delta_bytes or 0), row.one.kind, row.name))
    return ShardingDiff(
        pairs=tuple(pairs),
        entries=tuple(rows),
        annotations=(*found.changed, *(found.renamed if with_axis_names else ())),
        problem=problem,
        unknown=unknown,
        renamed=0 if with_axis_names else len(renamed) + sum(row.count for row in found.renamed),
    )


_STAGES: tuple[Callable[[EntryFact], Hashable], ...] = (
    lambda entry: entry.name and (entry.name, entry.index),
    attrgetter("number", "index", "global_shape"),
)
"""Keys by which parameters are matched, strictest first."""


def _is_equivalent(one: str, other: str) -> bool:
    """Return whether each device holds the same tile; False if a text is not readable."""
    try:
        return HloSharding.parse(one).equivalent(HloSharding.parse(other))
    except DumpSyntaxError:
        return False


def _match(base: Sequence[EntryFact], head: Sequence[EntryFact]) -> list[_Sides]:
    """Return the matched values, and those of one side alone with None."""
    mine, yours = ([e for e in side if e.kind == "parameter"] for side in (base, head))
    outputs = ([e for e in side if e.kind == "output"] for side in (base, head))
    return [
        *pair_items(mine, yours, _STAGES, attrgetter("number", "index")),
        *_match_outputs(*outputs),
    ]


def _match_outputs(base: list[EntryFact], head: list[EntryFact]) -> Iterator[_Sides]:
    """Yield outputs matched by place, from both ends if their numbers differ."""
    least = min(len(base), len(head))
    if len(base) == len(head):
        start, end = least, 0
    else:
        start = _alike(base, head, least)
        end = _alike(base[::-1], head[::-1], least - start)
    yield from zip(base[:start], head[:start], strict=True)
    yield from zip(base[len(base) - end :], head[len(head) - end :], strict=True)
    yield from ((one, None) for one in base[start : len(base) - end])
    yield from ((None, one) for one in head[start : len(head) - end])


def _alike(base: list[EntryFact], head: list[EntryFact], most: int) -> int:
    """Return how many values at the start have equal shapes, at most `most`."""
    pairs = zip(base[:most], head[:most], strict=True)
    return sum(1 for _ in takewhile(lambda p: p[0].global_shape == p[1].global_shape, pairs))


def _change(one: EntryFact, other: EntryFact, is_same: SameShardings) -> str:
    """Return the change of a value; empty for none."""
    shapes = (one.global_shape, other.global_shape)
    parts = (one.device_shape, other.device_shape)
    if one.sharding is not None and other.sharding is not None:
        if not (one.sharding == other.sharding or is_same(one.sharding, other.sharding)):
            return RESHARDED
    elif None not in shapes and shapes[0] == shapes[1] and _differ(parts):
        return RESHARDED
    return RESHAPED if _differ(parts if None in shapes else shapes) else ""


def _differ(texts: tuple[str | None, str | None]) -> bool:
    """Return whether two texts are known and differ."""
    return None not in texts and texts[0] != texts[1]
