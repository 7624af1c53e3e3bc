"""The shardings of two compiles: values that lie on the devices in another way than before.

Parameters are matched by name, then by number; results by index where both programs have as many,
else from both ends inward; annotations by kind, operation path and shape. Two shardings are equal
if each device holds the same tile (`HloSharding.equivalent`), in whatever spelling. A value whose
sharding only one side's texts tell is compared by the shapes of whole and part alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.comparison.keyed_pairs import pair_items
from hlo_lens.analysis.result import Column, Result, Unit
from hlo_lens.model.shapes.sharding import HloSharding
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from hlo_lens.analysis.result import Row
    from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot
    from hlo_lens.model.snapshot.rows import AnnotationFact, EntryFact

ADDED, REMOVED, RESHARDED, RESHAPED = "added", "removed", "resharded", "reshaped"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    """A parameter or output on both sides.

    Attributes:
        base: In the base; None where it is new.
        head: In the head; None where it is gone.
        change: ``added``, ``removed``, ``resharded`` or ``reshaped``.
    """

    base: EntryFact | None
    head: EntryFact | None
    change: str

    @property
    def delta_bytes(self) -> int | None:
        """Bytes of one device's part, more than before; None if not known."""
        base, head = _bytes(self.base), _bytes(self.head)
        return None if base is None or head is None else head - base


def _bytes(entry: EntryFact | None) -> int | None:
    return 0 if entry is None else entry.device_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationRow:
    """Annotations inside of the program that changed alike.

    Attributes:
        base: In the base; None where it is new.
        head: In the head; None where it is gone.
        count: How many there are.
    """

    base: AnnotationFact | None
    head: AnnotationFact | None
    count: int


@dataclass(frozen=True, kw_only=True)
class ShardingDiff(Result):
    """Values that lie on the devices in another way, the largest difference first.

    Attributes:
        pairs: Parameters and outputs that belong together, changed or not.
        entries: Parameters and outputs that changed.
        annotations: Annotations that changed.
        unknown: Values whose sharding only one side tells, and whose shapes do not differ.
        problem: Why annotations were not compared; empty where they were, or neither side has any.
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
        Column("delta_bytes", Unit.BYTES_DELTA, "bytes on each device, more than before"),
        Column("count", Unit.COUNT, "how many changed alike"),
        Column("source", Unit.NONE, "place in the user's program"),
        Column("base_number", Unit.NONE, "parameter number in the base"),
        Column("head_number", Unit.NONE, "parameter number in the head"),
        Column("base_global_shape", Unit.NONE, "shape of the whole in the base"),
        Column("head_global_shape", Unit.NONE, "shape of the whole in the head"),
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
        for entry in self.entries:
            yield _entry_cells(entry)
        for annotation in self.annotations:
            yield _annotation_cells(annotation)

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return len(self.entries) + len(self.annotations)


def label_of(entry: EntryFact) -> str:
    """Return what people call a parameter or output."""
    if entry.kind == "output":
        return entry.index or "the result"
    return f"{entry.name or entry.number}{entry.index}"


def spec_of(fact: EntryFact | AnnotationFact | None) -> str | None:
    """Return the spec of a value, else its sharding."""
    if fact is None:
        return None
    return fact.spec if fact.spec is not None else fact.sharding


def _entry_cells(row: EntryRow) -> Row:
    base, head = row.base, row.head
    one = head or base
    return (
        row.change,
        None if one is None else one.kind,
        None if one is None else label_of(one),
        spec_of(base),
        spec_of(head),
        None if base is None else base.device_shape,
        None if head is None else head.device_shape,
        row.delta_bytes,
        1,
        None,
        None if base is None else base.number,
        None if head is None else head.number,
        None if base is None else base.global_shape,
        None if head is None else head.global_shape,
        None if base is None else base.sharding,
        None if head is None else head.sharding,
        None if base is None else base.replication_factor,
        None if head is None else head.replication_factor,
    )


def _annotation_cells(row: AnnotationRow) -> Row:
    base, head = row.base, row.head
    one = head or base
    change = ADDED if base is None else REMOVED if head is None else RESHARDED
    return (
        change,
        None if one is None else one.annotation,
        None if one is None else one.op_name,
        spec_of(base),
        spec_of(head),
        None,
        None,
        None,
        row.count,
        None if one is None else one.source,
        None,
        None,
        None if base is None else base.shape,
        None if head is None else head.shape,
        None if base is None else base.sharding,
        None if head is None else head.sharding,
        None,
        None,
    )


def sharding_diff(base: ModuleSnapshot, head: ModuleSnapshot) -> ShardingDiff | None:
    """Return what changed in the shardings of a module; None where a side has no HLO text."""
    if base.entries is None or head.entries is None:
        return None
    meaning = _Meaning()
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
    rows.sort(key=_row_order)
    problem = _annotations_problem(base, head)
    sides = [_sayings(module) for module in (base, head)]
    return ShardingDiff(
        pairs=tuple(pairs),
        entries=tuple(rows),
        annotations=() if problem else _annotations(sides[0], sides[1], meaning),
        problem=problem,
        unknown=unknown,
    )


def _row_order(row: EntryRow) -> tuple[object, ...]:
    one = row.head or row.base
    size = -abs(row.delta_bytes or 0)
    return (size, "" if one is None else one.kind, "" if one is None else label_of(one))


# ---- parameters and outputs --------------------------------------------------------------------


def _match(
    base: Sequence[EntryFact], head: Sequence[EntryFact]
) -> tuple[list[tuple[EntryFact, EntryFact]], list[EntryFact], list[EntryFact]]:
    """Return the values that belong together, and those of one side alone."""
    mine, yours = _of_kind(base, "parameter"), _of_kind(head, "parameter")
    found = pair_items(mine, yours, (_by_name, _by_number), _order)
    outputs, gone, new = _match_outputs(_of_kind(base, "output"), _of_kind(head, "output"))
    pairs = [(one, other) for one, other, _ in found.pairs] + outputs
    return pairs, [*found.removed, *gone], [*found.added, *new]


def _of_kind(entries: Sequence[EntryFact], kind: str) -> list[EntryFact]:
    return [entry for entry in entries if entry.kind == kind]


def _by_name(entry: EntryFact) -> Hashable:
    return (entry.name, entry.index) if entry.name else None


def _by_number(entry: EntryFact) -> Hashable:
    return (entry.number, entry.index, entry.global_shape)


def _order(entry: EntryFact) -> tuple[object, ...]:
    return (entry.number, entry.index)


def _match_outputs(
    base: list[EntryFact], head: list[EntryFact]
) -> tuple[list[tuple[EntryFact, EntryFact]], list[EntryFact], list[EntryFact]]:
    """Return outputs by place; where there are more of one side, equal ones from both ends."""
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


def _change(one: EntryFact, other: EntryFact, meaning: _Meaning) -> str:
    """Return what changed of a value; empty for nothing."""
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


class _Meaning:
    """Compares shardings; each pair of texts once."""

    def __init__(self) -> None:
        self._same: dict[tuple[str, str], bool] = {}

    def is_same(self, one: str, other: str) -> bool:
        """Return whether two texts mean the same; texts that cannot be read if they are equal."""
        if one == other:
            return True
        known = self._same.get((one, other))
        if known is None:
            try:
                known = HloSharding.parse(one).equivalent(HloSharding.parse(other))
            except DumpSyntaxError:
                known = False
            self._same[one, other] = known
        return known


# ---- annotations -------------------------------------------------------------------------------


_WORDS_OF_GSPMD = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})
_BODY = "shard_map body"


OTHER_WORDS = (
    "annotations inside of the program are not compared: the {} has them in GSPMD's words, the {} "
    "in Shardy's"
)
ONE_SIDE = (
    "annotations inside of the program are not compared: only the {} has the text from before "
    "optimizations, or they were left out of the other's"
)


def _sayings(module: ModuleSnapshot) -> list[AnnotationFact]:
    """Return what a program says of how values lie.

    Bodies of shard_map, and what lies on them alone (``manual``), say nothing of that.
    """
    facts = module.annotations or ()
    return [
        f for f in facts if f.annotation != _BODY and (f.spec or "manual" not in str(f.sharding))
    ]


def _annotations_problem(base: ModuleSnapshot, head: ModuleSnapshot) -> str:
    """Return why annotations cannot be compared; empty where they can, or there are none.

    GSPMD's words and Shardy's do not correspond one to one.
    """
    sides = {"base": base, "head": head}
    known = [name for name, module in sides.items() if module.annotations is not None]
    if len(known) == 1:
        return ONE_SIDE.format(known[0]) if _sayings(sides[known[0]]) else ""
    words = {
        name: {fact.annotation in _WORDS_OF_GSPMD for fact in _sayings(module)}
        for name, module in sides.items()
    }
    if not words["base"] or not words["head"] or words["base"] & words["head"]:
        return ""
    return OTHER_WORDS.format(*sorted(words, key=lambda name: True not in words[name]))


def _annotations(
    base: Sequence[AnnotationFact], head: Sequence[AnnotationFact], meaning: _Meaning
) -> tuple[AnnotationRow, ...]:
    """Return the annotations that changed, equal changes once."""
    found = pair_items(base, head, _ANNOTATION_STAGES, _annotation_order)
    rows: Counter[tuple[AnnotationFact | None, AnnotationFact | None]] = Counter()
    for one, other, _ in found.pairs:
        if not _says_same(one, other, meaning):
            rows[one, other] += 1
    rows.update((one, None) for one in found.removed)
    rows.update((None, one) for one in found.added)
    listed = [AnnotationRow(base=b, head=h, count=n) for (b, h), n in rows.items()]
    return tuple(sorted(listed, key=repr))


def _says_same(one: AnnotationFact, other: AnnotationFact, meaning: _Meaning) -> bool:
    if one.spec is not None and other.spec is not None:
        return one.spec == other.spec  # manual axes are printed by some versions alone
    if one.sharding is None or other.sharding is None:
        return one.sharding == other.sharding
    return meaning.is_same(one.sharding, other.sharding)


def _by_annotation(fact: AnnotationFact) -> Hashable:
    return (fact.annotation, fact.op_name, fact.shape, fact.spec or fact.sharding)


def _by_path_and_shape(fact: AnnotationFact) -> Hashable:
    return (fact.annotation, fact.op_name, fact.shape)


def _by_path(fact: AnnotationFact) -> Hashable:
    return (fact.annotation, fact.op_name) if fact.op_name else None


def _by_meaning(fact: AnnotationFact) -> Hashable:
    return (fact.annotation, fact.shape, fact.spec or fact.sharding)


_ANNOTATION_STAGES = (_by_annotation, _by_path_and_shape, _by_path, _by_meaning)


def _annotation_order(fact: AnnotationFact) -> tuple[object, ...]:
    return (fact.source, fact.spec, fact.sharding, fact.shape, fact.op_name)
