"""Sharding annotations inside the programs of two compiles.

Annotations are matched by kind, operation path and shape. GSPMD's annotations and Shardy's do not
correspond one to one, and are not compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from hlo_lens.analysis.comparison.keyed_pairs import pair_items
from hlo_lens.analysis.comparison.side_pair import SidePair
from hlo_lens.model.snapshot.rows import AnnotationFact, EntryFact

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from hlo_lens.model.snapshot.module_snapshot import ModuleSnapshot

    SameShardings = Callable[[str, str], bool]

_OF_GSPMD = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})
_BODY = "shard_map body"

OTHER_SYSTEM = (
    "annotations inside of the program are not compared: the {} has those of GSPMD, the {} those "
    "of Shardy"
)
ONE_SIDE = (
    "annotations inside of the program are not compared: only the {} has the text from before "
    "optimizations, or they were left out of the other's"
)


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
    """

    count: int

    @property
    def change(self) -> str:
        """``added``, ``removed`` or ``resharded``."""
        return "added" if self.base is None else "removed" if self.head is None else "resharded"

    @property
    def kind(self) -> str:
        """The annotation."""
        return self.one.annotation

    @property
    def name(self) -> str | None:
        """Operation path."""
        return self.one.op_name


def _annotations(module: ModuleSnapshot) -> list[AnnotationFact]:
    """Return the annotations that shard values.

    Bodies of shard_map, and shardings that are all manual, do not.
    """
    return [
        fact
        for fact in module.annotations or ()
        if fact.annotation != _BODY and (fact.spec or "manual" not in str(fact.sharding))
    ]


def annotation_problem(base: ModuleSnapshot, head: ModuleSnapshot) -> str:
    """Return why annotations cannot be compared; empty if they can, or there are none."""
    sides = {"base": base, "head": head}
    known = [name for name, module in sides.items() if module.annotations is not None]
    if len(known) == 1:
        return ONE_SIDE.format(known[0]) if _annotations(sides[known[0]]) else ""
    systems = {
        name: {fact.annotation in _OF_GSPMD for fact in _annotations(module)}
        for name, module in sides.items()
    }
    if not systems["base"] or not systems["head"] or systems["base"] & systems["head"]:
        return ""
    return OTHER_SYSTEM.format(*sorted(systems, key=lambda name: True not in systems[name]))


def annotation_diff(
    base: ModuleSnapshot, head: ModuleSnapshot, is_same: SameShardings
) -> tuple[AnnotationRow, ...]:
    """Return the annotations that changed, equal changes once."""
    sides = pair_items(_annotations(base), _annotations(head), _STAGES, _order)
    rows = Counter((b, h) for b, h in sides if not _is_same(b, h, is_same))
    listed = [AnnotationRow(base=b, head=h, count=n) for (b, h), n in rows.items()]
    return tuple(sorted(listed, key=repr))


def _is_same(
    one: AnnotationFact | None, other: AnnotationFact | None, is_same: SameShardings
) -> bool:
    if one is None or other is None:
        return False
    if one.spec is not None and other.spec is not None:
        return one.spec == other.spec  # manual axes are printed by some versions alone
    if one.sharding is None or other.sharding is None or one.sharding == other.sharding:
        return one.sharding == other.sharding
    return is_same(one.sharding, other.sharding)


_STAGES: tuple[Callable[[AnnotationFact], Hashable], ...] = (
    lambda a: (a.annotation, a.op_name, a.shape, a.spec or a.sharding),
    attrgetter("annotation", "op_name", "shape"),
    lambda a: a.op_name and (a.annotation, a.op_name),
    lambda a: (a.annotation, a.shape, a.spec or a.sharding),
)
"""Keys by which annotations are matched, strictest first."""


def _order(fact: AnnotationFact) -> tuple[object, ...]:
    return (fact.source, fact.spec, fact.sharding, fact.shape, fact.op_name)
