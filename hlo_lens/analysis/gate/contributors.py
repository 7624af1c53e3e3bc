"""Who is behind a number: what makes its change, else what makes the number itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.analysis.comparison.peak_diff import PeakRow
    from hlo_lens.analysis.gate.judge import Candidate, Verdict
    from hlo_lens.analysis.result import Row
    from hlo_lens.model.snapshot.rows import AliveGroup, CollectiveFact

_MOST = 5
_LEAST = 1000
"""What is less than this part of the largest contributor is not worth a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contributor:
    """Something that a number is made of.

    Attributes:
        what: What it is: shapes and number of values, or a collective.
        size_bytes: Its bytes, or how many more they are than before; None where it has none.
        source: Place in the user's program.
        op_name: Operation path.
        change: How it changed; empty where nothing is compared.
    """

    what: str
    size_bytes: int | None
    source: str | None
    op_name: str | None
    change: str = ""


@dataclass(frozen=True, kw_only=True)
class Contributors(Result):
    """What is behind one number, the largest first."""

    KIND: ClassVar[str] = "contributors"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("delta_bytes", Unit.BYTES_DELTA, "bytes, more than before where that is known"),
        Column("change", Unit.NONE, "how it changed"),
        Column("source", Unit.NONE, "place in the user's program"),
        Column("what", Unit.NONE, "values or collectives"),
        Column("op_name", Unit.NONE, "operation path"),
    )
    contributors: tuple[Contributor, ...]

    def rows(self) -> Iterator[Row]:
        """Yield the contributors."""
        for one in self.contributors:
            yield one.size_bytes, one.change, one.source, one.what, one.op_name


def contributors(verdict: Verdict) -> Contributors:
    """Return what is behind the number of a rule, at most five; none for other numbers."""
    candidate, root = verdict.candidate, verdict.rule.metric.root
    found: list[Contributor] = []
    if candidate is not None and root == "memory":
        found = _of_memory(candidate, has_base=verdict.base is not None)
    elif candidate is not None and root == "collectives":
        found = _of_collectives(candidate, verdict)
    largest = max((abs(one.size_bytes or 0) for one in found), default=0)
    worth = [one for one in found if abs(one.size_bytes or 0) * _LEAST >= largest]
    return Contributors(contributors=tuple(worth[:_MOST]))


def _of_memory(candidate: Candidate, *, has_base: bool) -> list[Contributor]:
    """Return what grew at the peaks, else what is alive at them."""
    memory = None if candidate.diff is None else candidate.diff.memory
    if has_base and memory is not None:
        rows = [row for peak in memory.peaks for row in peak.changed if row.delta_bytes > 0]
        rows.sort(key=lambda row: -row.delta_bytes)
        lost = candidate.diff.donations if candidate.diff is not None else None
        names = [] if lost is None else [row for row in lost.rows() if row[0] == "lost"]
        donated = [
            Contributor(
                what=f"{row[1]} {row[3]}",
                size_bytes=row[2] if isinstance(row[2], int) else None,
                source=None,
                op_name=None,
                change="donation lost",
            )
            for row in names
        ]
        if rows or donated:
            return [*donated, *map(_grown, rows)]
    groups = [group for peak in candidate.head.peaks for group in peak.groups]
    return [_alive(group) for group in sorted(groups, key=lambda g: -g.size_bytes)]


def _grown(row: PeakRow) -> Contributor:
    return Contributor(
        what=row.shape,
        size_bytes=row.delta_bytes,
        source=row.source,
        op_name=row.one.op_name,
        change=row.change,
    )


def _alive(group: AliveGroup) -> Contributor:
    from hlo_lens.analysis.comparison.peak_diff import shape_text

    return Contributor(
        what=shape_text(group),
        size_bytes=group.size_bytes,
        source=group.source,
        op_name=group.op_name,
        change=group.category,
    )


def _of_collectives(candidate: Candidate, verdict: Verdict) -> list[Contributor]:
    """Return the collectives that became more, else those that count."""
    diff = None if candidate.diff is None else candidate.diff.collectives
    kinds = _kinds(verdict)
    if verdict.base is not None and diff is not None:
        rows = [
            row for row in diff.changed if row.is_worse and (not kinds or row.one.kind in kinds)
        ]
        if rows:
            return [
                Contributor(
                    what=f"{row.count} {row.one.kind} {row.one.axis}",
                    size_bytes=row.delta_wire_bytes,
                    source=row.one.source,
                    op_name=row.one.op_name,
                    change=", ".join((row.change, *map(str, row.details))),
                )
                for row in rows
            ]
    facts = [f for f in candidate.head.collectives or () if not kinds or f.kind in kinds]
    facts.sort(key=lambda fact: -(fact.wire_bytes_per_run or 0))
    return [_fact(fact) for fact in facts]


def _kinds(verdict: Verdict) -> frozenset[str]:
    """Return the kinds of collectives that a metric is about; none for all."""
    from hlo_lens.model.hlo.opcodes import COLLECTIVE_KINDS

    text = verdict.rule.metric.text
    steps = [step.name for step in verdict.rule.metric.steps]
    named = {kind for kind in COLLECTIVE_KINDS if kind in steps or f"kind={kind}" in text}
    return frozenset(named)


def _fact(fact: CollectiveFact) -> Contributor:
    times = "x?" if fact.dynamic_count is None else f"x{fact.dynamic_count}"
    return Contributor(
        what=f"{fact.kind} {fact.axis} {times}",
        size_bytes=fact.wire_bytes_per_run,
        source=fact.source,
        op_name=fact.op_name,
    )
