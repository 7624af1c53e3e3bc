"""Contributors to a metric: the largest parts of its change, else of its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.questions.check.metric import DEFAULT
from hlo_lens.questions.diff.memory import FREE, shape_text
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from hlo_lens.questions.check.metric import Metric
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.diff.collectives import CollectiveRow
    from hlo_lens.questions.diff.memory import PeakDiff, PeakRow
    from hlo_lens.questions.diff.module_diff import ModuleDiff
    from hlo_lens.questions.snapshots.figures import AliveGroup
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot

_FIGURES = ("argument", "temp", "constant")
"""Figures that count memory of one use."""

_MOST = 5
_LEAST = 1000
"""Contributors smaller than this fraction of the largest are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contributor:
    """One part of a value; its fields are the columns of `Contributors`.

    For values at the peak, `change` is what they are for.
    """

    delta_bytes: Annotated[int | None, Unit.BYTES_DELTA, "increase in bytes, else bytes"]
    change: Annotated[str | None, "how it changed"] = None
    source: Annotated[str | None, "place in the user's program"] = None
    what: Annotated[str, "values or collectives"]
    op_name: Annotated[str | None, "operation path"] = None
    origin_basis: Annotated[str | None, "way that source and op_name were found"] = None
    is_at_most: Annotated[bool, "whether delta_bytes is an upper bound"] = False


@dataclass(frozen=True, kw_only=True)
class Contributors(Records[Contributor]):
    """Contributors to one metric, largest first."""

    KIND: ClassVar[str] = "contributors"
    contributors: tuple[Contributor, ...]


def contributors(metric: Metric, head: ModuleSnapshot, diff: ModuleDiff | None) -> Contributors:
    """Return at most five contributors to a metric of memory or collectives; none to others.

    None to fragmentation, which is memory that no value holds.
    """
    found: list[Contributor] = []
    if metric.root == "memory" and not _figure(metric).startswith("fragmentation"):
        found = _of_memory(metric, head, diff)
    elif metric.root == "collectives":
        found = _of_collectives(head, diff, _kinds(metric))
    largest = max((abs(one.delta_bytes or 0) for one in found), default=0)
    kept = [one for one in found if abs(one.delta_bytes or 0) * _LEAST >= largest]
    return Contributors(contributors=tuple(kept[:_MOST]))


def _figure(metric: Metric) -> str:
    """Return the name of the figure that a metric ends with."""
    return metric.steps[-1].name.lower()


def _counts(metric: Metric, category: str) -> bool:
    """Return whether a metric counts memory of some use."""
    figure = _figure(metric).removesuffix("_bytes")
    return figure not in _FIGURES or category == figure


def _colors(metric: Metric, names: Mapping[int, str]) -> frozenset[int]:
    """Return the memory spaces that a metric counts: those that it names, else the default one."""
    named = {name.lower(): color for color, name in names.items()}
    named.setdefault("hbm", DEFAULT_SPACE)
    named.setdefault(DEFAULT, DEFAULT_SPACE)
    for step in metric.steps:
        if step.name == "spaces":
            found = [s.lower() for s in step.selectors]
            colors = {named.get(s, bounded_int(s) if s.isdecimal() else None) for s in found} - {
                None
            }
            return frozenset(color for color in names if not colors or color in colors)
        if step.name.lower() in named:
            return frozenset({named[step.name.lower()]})
    return frozenset({DEFAULT_SPACE})


def _of_memory(metric: Metric, head: ModuleSnapshot, diff: ModuleDiff | None) -> list[Contributor]:
    """Return lost donations and values that grew at the peaks, else all values at the peaks."""
    if diff is not None and diff.memory is not None:
        found = diff.memory.peaks
        colors = _colors(metric, {peak.color: peak.space for peak in found})
        peaks = [peak for peak in found if peak.color in colors]
        grown = [
            _part(row, row.shape or "", row.delta_bytes, _change(row, peak))
            for peak in peaks
            for row in peak.changed
            if row.delta_bytes > 0 and _counts(metric, row.category or "")
        ]
        if "total" in metric.steps[-1].name:
            grown += [
                Contributor(what=FREE, delta_bytes=row.delta_bytes, change=row.change)
                for peak in peaks
                for row in peak.entries
                if row.op_name == FREE and row.delta_bytes > 0
            ]
        grown.sort(key=lambda one: -(one.delta_bytes or 0))
        donated = [*_lost_donations(diff)] if _counts(metric, "output") else []
        if grown or donated:
            return [*donated, *grown]
    colors = _colors(metric, {peak.color: peak.name for peak in head.peaks})
    held = (group for peak in head.peaks if peak.color in colors for group in peak.groups)
    groups = [group for group in held if _counts(metric, group.category)]
    groups.sort(key=lambda group: -group.size_bytes)
    return [_part(group, shape_text(group), group.size_bytes, group.category) for group in groups]


def _change(row: PeakRow, peak: PeakDiff) -> str:
    """Return how values changed; at another peak the base may have new ones at other times."""
    is_moved = row.change == "new" and peak.has_moved
    return f"{row.change} at the peak, which moved" if is_moved else row.change


def _lost_donations(diff: ModuleDiff) -> Iterator[Contributor]:
    """Yield the arguments whose memory a result no longer reuses."""
    for row in () if diff.donations is None else diff.donations.objects():
        if row["change"] == "lost":
            size = row["device_bytes"]
            yield Contributor(
                what=f"{row['name']} {row['device_shape']}",
                delta_bytes=size if isinstance(size, int) else None,
                change="donation lost",
            )


def _part(
    of: AliveGroup | Collective | PeakRow | CollectiveRow,
    what: str,
    size: int | None,
    change: str | None = None,
    *,
    is_at_most: bool = False,
) -> Contributor:
    """Return a contributor with the place and path of values or a collective."""
    return Contributor(
        what=what,
        delta_bytes=size,
        source=of.source,
        op_name=of.op_name,
        change=change,
        origin_basis=of.origin_basis,
        is_at_most=is_at_most and size is not None,
    )


def _of_collectives(
    head: ModuleSnapshot, diff: ModuleDiff | None, kinds: Collection[str]
) -> list[Contributor]:
    """Return the collectives of some kinds that cost more than before, else all of them."""
    changed = () if diff is None or diff.collectives is None else diff.collectives.changed
    worse = [
        _part(
            row,
            f"{row.count} {row.kind} {row.axis}",
            row.delta_wire_bytes,
            ", ".join((row.change, *map(str, row.changes))),
            is_at_most=any(one.is_at_most for one in (row.base, row.head) if one is not None),
        )
        for row in changed
        if row.is_worse and row.kind in kinds
    ]
    facts = [fact for fact in head.collectives or () if fact.kind in kinds]
    facts.sort(key=lambda fact: -(fact.wire_bytes_per_run or 0))
    return worse or [_fact(fact) for fact in facts]


def _kinds(metric: Metric) -> frozenset[str]:
    """Return the kinds of collectives that a metric counts."""
    steps = [step.name for step in metric.steps]
    named = {kind for kind in COLLECTIVE_KINDS if kind in steps or f"kind={kind}" in metric.text}
    return frozenset(named or COLLECTIVE_KINDS)


def _fact(fact: Collective) -> Contributor:
    times = "x?" if fact.dynamic_count is None else f"x{fact.dynamic_count}"
    what = f"{fact.kind} {fact.axis} {times}"
    return _part(fact, what, fact.wire_bytes_per_run, is_at_most=fact.is_at_most)
