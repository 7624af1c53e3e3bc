"""Shardings of two compiles: values that devices hold in other tiles than before.

Parameters are matched by name, then by number; results by index if both programs have as many, else
from both ends inward. Two shardings are equal if each device holds the same tile, in any spelling.
Other names of mesh axes are noise: counted, and changes on request.
A value whose sharding only one side knows is compared by its global shape and its device's part.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, TypeAlias, TypeVar

from hlo_lens.questions.diff.pairs import SidePair, pair_items
from hlo_lens.questions.sharding.annotations import Annotation
from hlo_lens.questions.snapshots.figures import EntryFact
from hlo_lens.render.result import Column, Records, Result, Row, Unit
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot

    _Sides = tuple[EntryFact | None, EntryFact | None]

ADDED, REMOVED, RESHARDED, RESHAPED = "added", "removed", "resharded", "reshaped"


S = TypeVar("S", EntryFact, Annotation)


class ShardedPair(SidePair[S]):
    """A sharded item before and after."""

    @property
    def base_spec(self) -> str | None:
        """Partition spec in the base, else the sharding."""
        return _spec_of(self.base)

    @property
    def head_spec(self) -> str | None:
        """Partition spec in the head, else the sharding."""
        return _spec_of(self.head)


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


if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot

    SameShardings = Callable[[str, str], bool]

_CONSTRAINT, _LEAVING = "constraint", "shard_map result"
_KINDS = {
    "Sharding": _CONSTRAINT,
    "SPMDFullToShardShape": _CONSTRAINT,
    "xla.sdy.GlobalToLocalShape": _CONSTRAINT,
    "SPMDShardToFullShape": _LEAVING,
    "xla.sdy.LocalToGlobalShape": _LEAVING,
}
"""Annotations that GSPMD and Shardy both have, under names of their own."""

RENAMED = "renamed"

_ENTERING = frozenset({"SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape"})
_BODY = "shard_map body"

OTHER_SYSTEM = (
    "annotations inside of the program are not compared: the {} has those of GSPMD, the {} those "
    "of Shardy"
)
ONE_SIDE = (
    "annotations inside of the program are not compared: only the {} has the text from before "
    "optimizations, or they were left out of the other's"
)


_Annotations: TypeAlias = "tuple[Annotation | None, Annotation | None]"


def _spec_of(fact: EntryFact | Annotation | None) -> str | None:
    if fact is None:
        return None
    return fact.spec if fact.spec is not None else fact.sharding


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationRow(ShardedPair[Annotation]):
    """Annotations with equal changes.

    Attributes:
        count: Number of annotations.
        is_renamed: Whether only the names of mesh axes differ.
    """

    count: int
    is_renamed: bool = False

    @property
    def change(self) -> str:
        """``added``, ``removed``, ``resharded`` or ``renamed`` (mesh axes)."""
        if self.base is None or self.head is None:
            return "added" if self.base is None else "removed"
        return RENAMED if self.is_renamed else "resharded"

    @property
    def kind(self) -> str:
        """The annotation."""
        return self.one.annotation

    @property
    def name(self) -> str | None:
        """Operation path."""
        return self.one.op_name


def _kind(fact: Annotation) -> str:
    return _KINDS.get(fact.annotation, fact.annotation)


def _annotations(module: ModuleSnapshot) -> list[Annotation]:
    """Return the annotations that shard values.

    Bodies of shard_map, and shardings that are all manual, do not; neither do partly manual ones of
    values that enter shard_map, whose constraint is an annotation of its own.
    """
    return [
        fact
        for fact in module.annotations or ()
        if fact.annotation != _BODY
        and not ("manual" in str(fact.sharding) and (not fact.spec or fact.annotation in _ENTERING))
    ]


def annotation_problem(base: ModuleSnapshot, head: ModuleSnapshot) -> str:
    """Return why annotations cannot be compared; empty if they can, or there are none."""
    sides = {"base": base, "head": head}
    known = [name for name, module in sides.items() if module.annotations is not None]
    if len(known) == 1:
        return ONE_SIDE.format(known[0]) if _annotations(sides[known[0]]) else ""
    systems = {
        name: {fact.annotation in _KINDS for fact in _annotations(module)}
        for name, module in sides.items()
    }
    if not systems["base"] or not systems["head"] or systems["base"] & systems["head"]:
        return ""
    return OTHER_SYSTEM.format(*sorted(systems, key=lambda name: True not in systems[name]))


class AnnotationDiff(NamedTuple):
    """Annotations that differ.

    Attributes:
        changed: Those that changed, equal changes once.
        renamed: Those with other names of mesh axes and the same tiles.
    """

    changed: tuple[AnnotationRow, ...] = ()
    renamed: tuple[AnnotationRow, ...] = ()


def annotation_diff(
    base: ModuleSnapshot, head: ModuleSnapshot, is_same: SameShardings
) -> AnnotationDiff:
    """Return the annotations that changed."""
    sides = pair_items(_annotations(base), _annotations(head), _ANNOTATION_STAGES, _order)
    alike = [s for s in sides if s[0] and s[1] and _is_same(s[0], s[1], is_same)]
    known = {_value(one) for one, _ in alike if one}, {_value(other) for _, other in alike if other}
    changed: Counter[_Annotations] = Counter()
    for one, other in sides:
        if one is None or other is None:
            repeats = (one and _value(one) in known[0]) or (other and _value(other) in known[1])
            changed[one, other] += not repeats
        elif not _is_same(one, other, is_same):
            changed[one, other] += 1
    renamed: Counter[_Annotations] = Counter(
        (b, h) for b, h in alike if b and h and has_other_axes(b.spec, h.spec)
    )
    return AnnotationDiff(_rows(+changed), _rows(renamed, is_renamed=True))


def has_other_axes(base: str | None, head: str | None) -> bool:
    """Return whether specs of equal shardings are known and name other axes."""
    return base is not None and head is not None and base != head


def _rows(found: Counter[_Annotations], *, is_renamed: bool = False) -> tuple[AnnotationRow, ...]:
    listed = [
        AnnotationRow(base=b, head=h, count=n, is_renamed=is_renamed) for (b, h), n in found.items()
    ]
    return tuple(sorted(listed, key=repr))


def _value(fact: Annotation) -> tuple[str | None, ...]:
    """Return the meaning of an annotation without its number and operation path."""
    return _kind(fact), fact.shape, fact.sharding or fact.spec, fact.source


def _is_same(one: Annotation, other: Annotation, is_same: SameShardings) -> bool:
    """Return whether two annotations mean the same.

    Some versions print manual axes and others do not: then the specs count.
    """
    if one.sharding is None or other.sharding is None:
        return one.spec == other.spec and one.sharding == other.sharding
    if one.sharding == other.sharding or is_same(one.sharding, other.sharding):
        return True
    is_tiled = all(
        "manual" not in s and not s.startswith("#") for s in (one.sharding, other.sharding)
    )
    return not is_tiled and one.spec is not None and one.spec == other.spec


_ANNOTATION_STAGES: tuple[Callable[[Annotation], Hashable], ...] = (
    lambda a: (*_value(a), a.op_name),
    lambda a: (_kind(a), a.shape, a.sharding or a.spec, a.op_name),
    _value,
    lambda a: (_kind(a), a.shape, a.sharding or a.spec),
    lambda a: (_kind(a), a.op_name, a.shape),
    lambda a: a.source and (_kind(a), a.source, a.shape),
    lambda a: a.op_name and (_kind(a), a.op_name),
)
"""Keys by which annotations are matched, strictest first."""


def _order(fact: Annotation) -> tuple[object, ...]:
    return (fact.source, fact.spec, fact.sharding, fact.shape, fact.op_name)


@dataclass(frozen=True, slots=True)
class DonationRow:
    """A parameter whose memory a result reuses on one side only."""

    change: Annotated[str, "lost or gained: reuse of the argument's memory by a result"]
    name: Annotated[str | None, "argument"]
    device_bytes: Annotated[int | None, Unit.BYTES, "bytes of one device's part"]
    device_shape: Annotated[str | None, "shape of one device's part"]
    base_output: Annotated[str | None, "result that reuses its memory in the base"]
    head_output: Annotated[str | None, "result that reuses its memory in the head"]
    base_donation: Annotated[str | None, "kind of donation in the base"]
    head_donation: Annotated[str | None, "kind of donation in the head"]


@dataclass(frozen=True, kw_only=True)
class DonationDiff(Records[DonationRow]):
    """Parameters whose memory a result reuses on one side only: lost ones, then by size."""

    KIND: ClassVar[str] = "donation-diff"
    entries: tuple[DonationRow, ...]

    def bytes_of(self, change: str) -> int:
        """Return the known bytes of all parameters with one change."""
        return sum(row.device_bytes or 0 for row in self.entries if row.change == change)

    def names_of(self, change: str) -> list[str]:
        """Return the names of the parameters with one change."""
        return [str(row.name) for row in self.entries if row.change == change]


def donation_diff(pairs: Sequence[tuple[EntryFact, EntryFact]]) -> DonationDiff:
    """Return the matched parameters that lost or gained an alias."""

    def size(entry: EntryFact) -> int | None:
        padded = entry.padded_device_bytes
        return entry.device_bytes if padded is None else padded

    differ = [
        (one, other)
        for one, other in pairs
        if one.kind == "parameter" and (one.aliased_with is None) != (other.aliased_with is None)
    ]
    differ.sort(
        key=lambda pair: (
            pair[0].aliased_with is None,
            -max(size(pair[0]) or 0, size(pair[1]) or 0),
            pair[1].name or "",
        )
    )
    rows = [
        DonationRow(
            "gained" if base.aliased_with is None else "lost",
            head.name or base.name,
            size(head),
            head.device_shape,
            base.aliased_with,
            head.aliased_with,
            base.donation,
            head.donation,
        )
        for base, head in differ
    ]
    return DonationDiff(entries=tuple(rows))
