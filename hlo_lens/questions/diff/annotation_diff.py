"""Sharding annotations inside the programs of two compiles.

Annotations are matched by kind, operation path, shape and sharding. Kinds of one meaning that
versions of JAX print differently count as one kind. How often a source line prints one annotation
is no change: a loop that is unrolled repeats it, a block that is no longer recomputed prints it
once less. Shardings are equal if each device holds the same tile; other names of mesh axes are
noise, and counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from hlo_lens.questions.diff.keyed_pairs import pair_items
from hlo_lens.questions.diff.side_pair import SidePair
from hlo_lens.questions.snapshots.rows import AnnotationFact, EntryFact

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot

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


_Sides: TypeAlias = "tuple[AnnotationFact | None, AnnotationFact | None]"

S = TypeVar("S", EntryFact, AnnotationFact)


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


def _spec_of(fact: EntryFact | AnnotationFact | None) -> str | None:
    if fact is None:
        return None
    return fact.spec if fact.spec is not None else fact.sharding


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationRow(ShardedPair[AnnotationFact]):
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


def _kind(fact: AnnotationFact) -> str:
    return _KINDS.get(fact.annotation, fact.annotation)


def _annotations(module: ModuleSnapshot) -> list[AnnotationFact]:
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
    sides = pair_items(_annotations(base), _annotations(head), _STAGES, _order)
    alike = [s for s in sides if s[0] and s[1] and _is_same(s[0], s[1], is_same)]
    known = {_value(one) for one, _ in alike if one}, {_value(other) for _, other in alike if other}
    changed: Counter[_Sides] = Counter()
    for one, other in sides:
        if one is None or other is None:
            repeats = (one and _value(one) in known[0]) or (other and _value(other) in known[1])
            changed[one, other] += not repeats
        elif not _is_same(one, other, is_same):
            changed[one, other] += 1
    renamed: Counter[_Sides] = Counter(
        (b, h) for b, h in alike if b and h and has_other_axes(b.spec, h.spec)
    )
    return AnnotationDiff(_rows(+changed), _rows(renamed, is_renamed=True))


def has_other_axes(base: str | None, head: str | None) -> bool:
    """Return whether specs of equal shardings are known and name other axes."""
    return base is not None and head is not None and base != head


def _rows(found: Counter[_Sides], *, is_renamed: bool = False) -> tuple[AnnotationRow, ...]:
    listed = [
        AnnotationRow(base=b, head=h, count=n, is_renamed=is_renamed) for (b, h), n in found.items()
    ]
    return tuple(sorted(listed, key=repr))


def _value(fact: AnnotationFact) -> tuple[str | None, ...]:
    """Return the meaning of an annotation without its number and operation path."""
    return _kind(fact), fact.shape, fact.sharding or fact.spec, fact.source


def _is_same(one: AnnotationFact, other: AnnotationFact, is_same: SameShardings) -> bool:
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


_STAGES: tuple[Callable[[AnnotationFact], Hashable], ...] = (
    lambda a: (*_value(a), a.op_name),
    lambda a: (_kind(a), a.shape, a.sharding or a.spec, a.op_name),
    _value,
    lambda a: (_kind(a), a.shape, a.sharding or a.spec),
    lambda a: (_kind(a), a.op_name, a.shape),
    lambda a: a.source and (_kind(a), a.source, a.shape),
    lambda a: a.op_name and (_kind(a), a.op_name),
)
"""Keys by which annotations are matched, strictest first."""


def _order(fact: AnnotationFact) -> tuple[object, ...]:
    return (fact.source, fact.spec, fact.sharding, fact.shape, fact.op_name)
