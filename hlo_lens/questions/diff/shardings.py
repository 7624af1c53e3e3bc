"""Shardings of two compiles: values that devices hold in other tiles than before.

Parameters are matched by path, by a path of which one part has another name, then by number.
Results are those in the memory of matched parameters, those of one path, as JAX wrote it into the
lowered program, then those of one index if both programs have as many, else those of one shape.
Two shardings are equal if each device holds the same tile, in any spelling.
Other names of mesh axes are noise: counted, and changes on request.
A value whose sharding only one side knows is compared by its global shape and its device's part.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

from hlo_lens.questions.diff.pairs import pair_items, pair_record
from hlo_lens.render.result import Records, Unit
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from hlo_lens.questions.sharding.annotations import Annotation
    from hlo_lens.questions.snapshots.figures import EntryFact
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot

    SameShardings = Callable[[str, str], bool]

ADDED, REMOVED, RESHARDED, RESHAPED = "added", "removed", "resharded", "reshaped"
RENAMED = "renamed"

_Entries: TypeAlias = "tuple[EntryFact | None, EntryFact | None]"
_Annotations: TypeAlias = "tuple[Annotation | None, Annotation | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingRow:
    """A parameter, output or annotations whose sharding changed."""

    change: Annotated[str, "resharded, reshaped, added, removed or renamed"]
    kind: Annotated[str, "parameter, output, or the annotation"]
    name: Annotated[str | None, "argument, index of the output, or operation path"]
    base_spec: Annotated[str | None, "partition spec in the base, or sharding"]
    head_spec: Annotated[str | None, "partition spec in the head, or sharding"]
    base_device_shape: Annotated[str | None, "shape of one device's part in the base"]
    head_device_shape: Annotated[str | None, "shape of one device's part in the head"]
    delta_bytes: Annotated[int | None, Unit.BYTES_DELTA, "increase of bytes on each device"]
    count: Annotated[int, Unit.COUNT, "values or annotations with this change"]
    source: Annotated[str | None, "place in the user's program"]
    base_number: Annotated[int | None, "parameter number in the base"]
    head_number: Annotated[int | None, "parameter number in the head"]
    base_global_shape: Annotated[str | None, "global shape in the base"]
    head_global_shape: Annotated[str | None, "global shape in the head"]
    base_sharding: Annotated[str | None, "sharding in the base"]
    head_sharding: Annotated[str | None, "sharding in the head"]
    base_replication_factor: Annotated[int | None, Unit.COUNT, "devices that held each element"]
    head_replication_factor: Annotated[int | None, Unit.COUNT, "devices that hold each element"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow(ShardingRow):
    """A parameter or output that changed, before and after; None where it is not there."""

    base: EntryFact | None
    head: EntryFact | None


@dataclass(frozen=True, kw_only=True)
class ShardingDiff(Records[ShardingRow]):
    """Values whose sharding changed, largest difference first: entry values, then annotations.

    Attributes:
        pairs: Matched parameters and outputs, changed or not.
        entries: Changed parameters and outputs.
        annotations: Changed annotations, equal changes once.
        unknown: Number of values of equal shapes whose sharding only one side knows.
        renamed: Number of values and annotations with other names of mesh axes, which are ignored.
        problem: Why annotations were not compared; empty if they were, or neither side has any.
    """

    KIND: ClassVar[str] = "sharding-diff"
    pairs: tuple[tuple[EntryFact, EntryFact], ...] = field(repr=False)
    entries: tuple[EntryRow, ...]
    annotations: tuple[ShardingRow, ...]
    unknown: int
    renamed: int = 0
    problem: str = ""

    @property
    def records(self) -> Sequence[ShardingRow]:
        return (*self.entries, *self.annotations)


def label_of(entry: EntryFact) -> str:
    """Return the name of a parameter, the name or the index of an output."""
    if entry.kind == "output":
        return entry.name or entry.index or "the result"
    return f"{entry.name or entry.number}{entry.index}"


def sharding_diff(base: ModuleSnapshot, head: ModuleSnapshot) -> ShardingDiff | None:
    """Return the changes of the shardings of a module; None if a side has no HLO text."""
    if base.entries is None or head.entries is None:
        return None
    is_same = cache(_is_equivalent)
    pairs: list[tuple[EntryFact, EntryFact]] = []
    rows: list[EntryRow] = []
    renamed = unknown = 0
    for one, other in _match(base.entries, head.entries):
        if one is None or other is None:
            rows.append(_entry_row(one, other, REMOVED if one else ADDED))
            continue
        pairs.append((one, other))
        if change := _change(one, other, is_same):
            rows.append(_entry_row(one, other, change))
        elif (one.sharding is None) != (other.sharding is None):
            unknown += 1
        else:
            renamed += _has_other_axes(one, other)
    problem = annotation_problem(base, head)
    changed, respelled = ((), 0) if problem else _annotation_rows(base, head, is_same)
    rows.sort(key=lambda row: (-abs(row.delta_bytes or 0), row.kind, row.name or ""))
    return ShardingDiff(
        pairs=tuple(pairs),
        entries=tuple(rows),
        annotations=changed,
        problem=problem,
        unknown=unknown,
        renamed=renamed + respelled,
    )


def _entry_row(base: EntryFact | None, head: EntryFact | None, change: str) -> EntryRow:
    before, after = (0 if entry is None else entry.device_bytes for entry in (base, head))
    entry = head or base
    assert entry is not None
    return pair_record(
        EntryRow,
        base,
        head,
        change=change,
        name=label_of(entry),
        base_spec=_spec_of(base),
        head_spec=_spec_of(head),
        delta_bytes=None if before is None or after is None else after - before,
        count=1,
    )


def _spec_of(fact: EntryFact | Annotation | None) -> str | None:
    if fact is None:
        return None
    return fact.spec if fact.spec is not None else fact.sharding


def _has_other_axes(base: EntryFact | Annotation, head: EntryFact | Annotation) -> bool:
    return base.spec is not None and head.spec is not None and base.spec != head.spec


def _is_equivalent(one: str, other: str) -> bool:
    try:
        return HloSharding.parse(one).equivalent(HloSharding.parse(other))
    except DumpSyntaxError:
        return False


_COMPONENT = re.compile(r"\['(?P<key>[^']*)'\]|\[(?P<index>[^\]']*)\]|\.?(?P<name>[^.\[\]]+)")


def components(name: str | None) -> tuple[str, ...]:
    """Return the parts of the path of an argument.

    >>> components("state[1].mu['layers']['up']")
    ('state', '1', 'mu', 'layers', 'up')
    """
    return tuple(match[match.lastgroup or 0] for match in _COMPONENT.finditer(name or ""))


def renamed_component(base: str | None, head: str | None) -> tuple[str, str] | None:
    """Return the only part of a path that differs, not the first: the variable of the argument."""
    mine, yours = components(base), components(head)
    if len(mine) != len(yours) or mine[:1] != yours[:1]:
        return None
    differ = [(one, other) for one, other in zip(mine, yours, strict=True) if one != other]
    return differ[0] if len(differ) == 1 else None


_Values: TypeAlias = "Sequence[EntryFact]"
_Matched: TypeAlias = "Iterable[tuple[EntryFact, EntryFact]]"
_PLACE = attrgetter("number", "index")


def _match(base: _Values, head: _Values) -> list[_Entries]:
    mine, yours = ([e for e in side if e.kind == "parameter"] for side in (base, head))
    pairs = [*_of_one_path(mine, yours)]
    pairs += [*_renamed(*_unpaired(pairs, mine, yours))]
    key = attrgetter("number", "index", "global_shape")
    arguments = [*pairs, *pair_items(*_unpaired(pairs, mine, yours), (key,), _PLACE)]
    mine, yours = ([e for e in side if e.kind == "output"] for side in (base, head))
    by_index = {entry.index: entry for entry in mine}, {entry.index: entry for entry in yours}
    indices = ((b.aliased_with, h.aliased_with) for b, h in arguments if b and h)
    aliased = ((by_index[0].get(one or ""), by_index[1].get(other or "")) for one, other in indices)
    results = [*_of_one_path(mine, yours)]
    used = {id(one) for pair in results for one in pair}
    results += [(b, h) for b, h in aliased if b and h and not used & {id(b), id(h)}]
    results += [*_renamed(*_unpaired(results, mine, yours))]
    stages = [attrgetter("index", "global_shape"), attrgetter("global_shape")]
    if len(mine) == len(yours):
        stages = [attrgetter("index")]
    return [*arguments, *results, *pair_items(*_unpaired(results, mine, yours), stages, _PLACE)]


def _unpaired(
    pairs: _Matched, base: _Values, head: _Values
) -> tuple[list[EntryFact], list[EntryFact]]:
    known = {id(one) for pair in pairs for one in pair}
    mine, yours = ([one for one in side if id(one) not in known] for side in (base, head))
    return mine, yours


def _of_one_path(base: _Values, head: _Values) -> _Matched:
    named = (lambda entry: entry.name and (entry.name, entry.index),)
    pairs = pair_items(base, head, named, _PLACE)
    return ((b, h) for b, h in pairs if b is not None and h is not None)


def _renamed(base: _Values, head: _Values) -> _Matched:
    """Yield values of equal shape of whose path one part, not the first, has another name.

    Most pairs decide which name became which.
    """
    left: dict[object, list[tuple[str, EntryFact]]] = defaultdict(list)
    for one in base:
        for key, part in _without_one_part(one):
            left[key].append((part, one))
    found: dict[tuple[str, str], list[tuple[EntryFact, EntryFact]]] = defaultdict(list)
    for other in head:
        for key, part in _without_one_part(other):
            for before, one in left.get(key, ()):
                found[before, part].append((one, other))
    used = set[int]()
    for _, renamed in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        for one, other in renamed:
            if not used & {id(one), id(other)}:
                used |= {id(one), id(other)}
                yield one, other


def _without_one_part(entry: EntryFact) -> Iterator[tuple[object, str]]:
    parts = components(entry.name)
    for place in range(1, len(parts)):
        rest = (*parts[:place], *parts[place + 1 :])
        yield (place, rest, entry.index if not entry.name else "", entry.global_shape), parts[place]


def _change(one: EntryFact, other: EntryFact, is_same: SameShardings) -> str:
    shapes = (one.global_shape, other.global_shape)
    parts = (one.device_shape, other.device_shape)
    if one.sharding is not None and other.sharding is not None:
        if one.sharding != other.sharding and not is_same(one.sharding, other.sharding):
            return RESHARDED
    elif None not in shapes and shapes[0] == shapes[1] and _differ(parts):
        return RESHARDED
    return RESHAPED if _differ(parts if None in shapes else shapes) else ""


def _differ(texts: tuple[str | None, str | None]) -> bool:
    return None not in texts and texts[0] != texts[1]


_CONSTRAINT, _LEAVING = "constraint", "shard_map result"
_KINDS = {
    "Sharding": _CONSTRAINT,
    "SPMDFullToShardShape": _CONSTRAINT,
    "xla.sdy.GlobalToLocalShape": _CONSTRAINT,
    "SPMDShardToFullShape": _LEAVING,
    "xla.sdy.LocalToGlobalShape": _LEAVING,
}
"""Annotations that GSPMD and Shardy both have, under names of their own."""

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


def _annotation_rows(
    base: ModuleSnapshot, head: ModuleSnapshot, is_same: SameShardings
) -> tuple[tuple[ShardingRow, ...], int]:
    sides = pair_items(_annotations(base), _annotations(head), _ANNOTATION_STAGES, _order)
    alike = [(b, h) for b, h in sides if b and h and _is_same(b, h, is_same)]
    known = {_value(one) for one, _ in alike}, {_value(other) for _, other in alike}
    changed: Counter[_Annotations] = Counter()
    for one, other in sides:
        if one is not None and other is not None:
            changed[one, other] += not _is_same(one, other, is_same)
        else:
            repeats = (one and _value(one) in known[0]) or (other and _value(other) in known[1])
            changed[one, other] += not repeats
    rows = tuple(
        pair_record(
            ShardingRow,
            one,
            other,
            change=RESHARDED if one and other else REMOVED if one else ADDED,
            kind=annotation.annotation,
            name=annotation.op_name,
            base_spec=_spec_of(one),
            head_spec=_spec_of(other),
            count=count,
        )
        for (one, other), count in sorted(changed.items(), key=repr)
        if count and (annotation := other or one) is not None
    )
    return rows, sum(_has_other_axes(b, h) for b, h in alike)


def _value(fact: Annotation) -> tuple[str | None, ...]:
    return _kind(fact), fact.shape, fact.sharding or fact.spec, fact.source


def _is_same(one: Annotation, other: Annotation, is_same: SameShardings) -> bool:
    """Return whether two annotations mean the same.

    Some versions print manual axes and others do not: then the specs count.
    """
    sides = one.sharding, other.sharding
    if sides[0] is None or sides[1] is None:
        return one.spec == other.spec and sides[0] == sides[1]
    if sides[0] == sides[1] or is_same(sides[0], sides[1]):
        return True
    is_tiled = all("manual" not in text and text[:1] != "#" for text in (sides[0], sides[1]))
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


_order = attrgetter("source", "spec", "sharding", "shape", "op_name")


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
        return sum(row.device_bytes or 0 for row in self.entries if row.change == change)

    def names_of(self, change: str) -> list[str]:
        return [str(row.name) for row in self.entries if row.change == change]


def donation_diff(pairs: Sequence[tuple[EntryFact, EntryFact]]) -> DonationDiff:
    """Return the matched parameters that lost or gained an alias."""
    rows: list[tuple[tuple[object, ...], DonationRow]] = []
    for base, head in pairs:
        is_gained = base.aliased_with is None
        if base.kind != "parameter" or is_gained == (head.aliased_with is None):
            continue
        before, size = (
            entry.device_bytes if entry.padded_device_bytes is None else entry.padded_device_bytes
            for entry in (base, head)
        )
        row = DonationRow(
            change="gained" if is_gained else "lost",
            name=head.name or base.name,
            device_bytes=size,
            device_shape=head.device_shape,
            base_output=base.aliased_with,
            head_output=head.aliased_with,
            base_donation=base.donation,
            head_donation=head.donation,
        )
        rows.append(((is_gained, -max(before or 0, size or 0), head.name or ""), row))
    rows.sort(key=lambda pair: pair[0])
    return DonationDiff(entries=tuple(row for _, row in rows))
