"""Verdicts of rules on modules: each rule passes, fails, or is undecided on each module.

Undecided is never a pass. It means: a number that is not known, or not in the snapshot; a gap in
the text that it was counted in; a module that no pattern matches, or without partner in the
baseline; sides that cannot be compared; a condition that one bound of a value breaks and the other
does not; a limit that an estimate is near to. A change between two estimates is judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

from hlo_lens.hlo.opcodes import COLLECTIVE_KINDS
from hlo_lens.questions.check.metric import (
    DEFAULT,
    ROOT as FINDINGS,
    Value,
    counted_findings,
)
from hlo_lens.questions.check.rules import rule_value, weakness
from hlo_lens.questions.collectives.collective import axis_text
from hlo_lens.questions.diff.memory import FREE, TOTAL, code_problem, memory_problem, shape_text
from hlo_lens.questions.findings.changes import module_finding_changes
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.names import plain_name
from hlo_lens.text.units import (
    MARGIN,
    Amount,
    Kind,
    bounded_int,
    format_bytes,
    format_count,
    format_ratio,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from hlo_lens.questions.check.metric import Metric
    from hlo_lens.questions.check.rules import Condition, Rule
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.diff.collectives import CollectiveRow
    from hlo_lens.questions.diff.memory import PeakDiff, PeakRow
    from hlo_lens.questions.diff.module_diff import ModuleDiff
    from hlo_lens.questions.findings.finding import Finding
    from hlo_lens.questions.snapshots.figures import AliveGroup
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot


PASS, FAIL, UNDECIDED, UNKNOWN = "pass", "fail", "undecided", "not known"
NO_BASELINE = "the rule is about a change, and there is no --baseline"
NO_CHANGE_JUDGED = "only the limit was judged: there is no --baseline"
UNKNOWN_ALIKE = "not known on either side; the programs are equal"
UNKNOWN_APART = (
    "not known on either side, and the program changed; a budget can name the metrics that count"
)
OTHER_MODULE = "the baseline has another module: names, parameters and results differ"

_SHOWN = 6
_NONE = Value()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A module to which rules are applied.

    Attributes:
        head: The module.
        diff: Its changes against its partner in the baseline; None without partner.
        place: Its index in the head.
        is_same_program: Returns whether its partner's program is known to be the same.
    """

    head: ModuleSnapshot
    diff: ModuleDiff | None = None
    place: int = 0
    is_same_program: Callable[[], bool] = bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Verdict of one rule on one module.

    Attributes:
        status: ``pass``, ``fail``, ``undecided``; ``not known`` for a default rule whose value is
            known on neither side of one program.
        rule: The rule.
        module: Name of the module; None if no module matches the rule.
        place: Index of the module in the head; None if it is not there.
        base: Value in the baseline.
        head: Value.
        reason: Which condition failed, or why the rule is undecided; empty for a pass.
        contributors: Largest parts of the value or its change; None for a rule that did not fail.
        findings: Findings that a rule that failed counts, gravest first.
    """

    status: str
    rule: Rule
    module: str | None
    place: int | None = None
    base: Value = _NONE
    head: Value = _NONE
    reason: str = ""
    contributors: Contributors | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def is_failure(self) -> bool:
        """Whether the gate fails for it."""
        return self.status == FAIL and not self.rule.is_informational

    @property
    def is_undecided(self) -> bool:
        """Whether the gate is undecided for it."""
        return self.status == UNDECIDED and not self.rule.is_informational

    @property
    def limit(self) -> str:
        """Conditions of failure, as written in rules."""
        return " or ".join(map(str, self.rule.fails))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Verdicts of all rules.

    Attributes:
        verdicts: In the order of the rules, then of the modules.
    """

    verdicts: tuple[Verdict, ...]

    @property
    def is_failed(self) -> bool:
        """Whether any rule failed that is not informational."""
        return any(verdict.is_failure for verdict in self.verdicts)

    @property
    def is_undecided(self) -> bool:
        """Whether any such rule is undecided, or no rule is decided at all."""
        decided = any(verdict.status in (PASS, FAIL) for verdict in self.verdicts)
        return not decided or any(verdict.is_undecided for verdict in self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Modules to which rules are applied.

    Attributes:
        candidates: Modules of the head.
        has_baseline: Whether there is a baseline.
        gone: Names of modules that only the baseline has.
        is_forced: Whether to compare sides that cannot be compared.
    """

    candidates: Sequence[Candidate]
    has_baseline: bool
    gone: Sequence[str] = ()
    is_forced: bool = False


def judge(rules: Sequence[Rule], sides: Sides) -> Judgement:
    """Return the verdicts of all rules."""
    return Judgement(verdicts=tuple(v for rule in rules for v in _of_rule(rule, sides)))


def _of_rule(rule: Rule, sides: Sides) -> Iterator[Verdict]:
    pattern, place = rule.module, rule.metric.place
    chosen = [c for c in sides.candidates if pattern is None or pattern.found_in(c.head.name)]
    if place is not None:
        chosen = [candidate for candidate in chosen if candidate.place == place]
    gone = [name for name in sides.gone if pattern is None or pattern.found_in(name)]
    if not chosen:
        names = [candidate.head.name for candidate in sides.candidates]
        there = ", ".join(dict.fromkeys(names[:_SHOWN])) or "none"
        wanted = "" if pattern is None else f" matches {pattern.text!r}"
        wanted += "" if place is None else f" is at place {place}"
        reason = f"no module{wanted or ' to judge'}; there is {there}"
        yield Verdict(status=UNDECIDED, rule=rule, module=None, reason=reason)
        return
    for candidate in chosen:
        yield _of_module(rule, candidate, sides)
    if place is None and any(condition.is_change for condition in rule.fails):
        for name in gone:
            reason = "only the baseline has this module"
            yield Verdict(status=UNDECIDED, rule=rule, module=name, reason=reason)


def _of_module(rule: Rule, candidate: Candidate, sides: Sides) -> Verdict:
    """Return the verdict of a rule on one module."""
    partner = None if candidate.diff is None else candidate.diff.base
    value = rule_value(rule, candidate.head, partner)
    verdict = Verdict(
        status=UNDECIDED,
        rule=rule,
        module=candidate.head.name,
        place=candidate.place,
        head=value,
        reason=value.reason or weakness(rule, candidate.head.facts),
    )
    if value.number is None and rule.is_optional and partner is not None:
        if rule_value(rule, partner).number is not None:
            return verdict
        if candidate.is_same_program():
            return replace(verdict, status=UNKNOWN, reason=UNKNOWN_ALIKE)
        return replace(verdict, reason=UNKNOWN_APART)
    if verdict.reason:
        return verdict
    problem = _problem(rule, candidate, sides)
    if rule.metric.counts_changes:
        weak = "" if partner is None else weakness(rule, partner.facts)
        reason = problem or (weak and f"in the baseline: {weak}")
        if reason:
            return replace(verdict, reason=reason)
    if not problem and partner is not None and sides.has_baseline:
        found = rule_value(rule, partner)
        verdict = replace(verdict, base=found)
        reason = found.reason or weakness(rule, partner.facts)
        problem = reason and f"in the baseline: {reason}"
    return _decided(verdict, candidate, problem, sides)


def _decided(verdict: Verdict, candidate: Candidate, problem: str, sides: Sides) -> Verdict:
    """Return the verdict on known values; a broken limit fails whatever the baseline is."""
    rule, base, head = verdict.rule, verdict.base.number, verdict.head.number or 0
    limits = [condition for condition in rule.fails if not condition.is_change]
    changes = [condition for condition in rule.fails if condition.is_change]
    judged = rule.fails if base is not None and not problem else limits
    broken = [condition for condition in judged if condition.holds(base, head)]
    unsure = [condition for condition in judged if _is_unsure(condition, verdict, candidate)]
    if unsure and all(condition in unsure for condition in broken):
        return replace(verdict, reason=_unsure_text(verdict, unsure))
    if broken:
        diff = None if base is None else candidate.diff
        found = contributors(rule.metric, candidate.head, diff)
        reason = ", ".join(map(str, broken))
        counted = _findings(rule, candidate, broken)
        return replace(verdict, status=FAIL, reason=reason, contributors=found, findings=counted)
    if changes and not sides.has_baseline:
        status, reason = (PASS, NO_CHANGE_JUDGED) if limits else (UNDECIDED, NO_BASELINE)
        return replace(verdict, status=status, reason=reason)
    if changes and problem:
        return replace(verdict, reason=problem)
    spared = next((condition for condition in changes if condition.is_spared(base, head)), None)
    reason = "" if spared is None else f"the change is less than {spared.least.text}"
    return replace(verdict, status=PASS, reason=reason)


def _findings(rule: Rule, candidate: Candidate, broken: Sequence[Condition]) -> tuple[Finding, ...]:
    """Return the findings that break conditions: of conditions on a change the new ones."""
    facts = candidate.head.facts
    base = None if candidate.diff is None else candidate.diff.base.facts
    counted = counted_findings(rule.metric, facts, base) if rule.metric.root == FINDINGS else None
    if counted is None or base is None or not all(condition.is_change for condition in broken):
        return counted or ()
    changes = module_finding_changes(base, facts)
    new = set() if changes is None else {id(one) for one in changes.new}
    return tuple(one for one in counted if id(one) in new)


def _is_unsure(condition: Condition, verdict: Verdict, candidate: Candidate) -> bool:
    """Return whether a condition depends on where in their bounds the true values are."""
    base, head = verdict.base, verdict.head
    number = head.number or 0
    if not condition.is_change and Amount(number, head.kind).is_near(
        float(condition.amount.number)
    ):
        return True
    base_end = base.number if base.end is None else base.end
    head_end = number if head.end is None else head.end
    corners = [(base_end, head_end)]  # upper bounds of both sides are of the same branches
    if Kind.AT_LEAST in (base.kind, head.kind):
        corners += [(base.number, head_end), (base_end, number)]
    holds = condition.holds(base.number, number)
    if all(condition.holds(*corner) == holds for corner in corners):
        return False
    return not (condition.is_change and base == head and candidate.is_same_program())


def _unsure_text(verdict: Verdict, conditions: Sequence[Condition]) -> str:
    """Return why conditions on a bound or an estimate are undecided."""
    names = " and ".join(map(str, conditions))
    sides = (("", verdict.head), ("in the baseline ", verdict.base))
    ranges = [
        f"{where}between {low} and {high}"
        for where, value in sides
        if value.end is not None
        for low, high in [_range_texts(verdict, *sorted((int(value.end), int(value.number or 0))))]
    ]
    if not ranges:
        return (
            f"{names} is not decided by an estimate: the value is "
            f"{verdict.rule.metric.amount_text(verdict.head)}, within {format_ratio(MARGIN)} of it"
        )
    is_upper = Kind.AT_MOST in (verdict.base.kind, verdict.head.kind)
    bound = f"{'an upper' if is_upper else 'a lower'} bound"
    return f"{names} is not decided by {bound}: the value is {', '.join(ranges)}"


def _range_texts(verdict: Verdict, low: int, high: int) -> tuple[str, str]:
    """Return both ends of a range; all digits of bytes that would look equal."""
    if verdict.rule.metric.is_bytes and format_bytes(low) != format_bytes(high):
        return format_bytes(low), format_bytes(high)
    unit = "B" if verdict.rule.metric.is_bytes else ""
    return f"{format_count(low)}{unit}", f"{format_count(high)}{unit}"


def _problem(rule: Rule, candidate: Candidate, sides: Sides) -> str:
    """Return why a module cannot be compared with the baseline; empty if it can."""
    if not sides.has_baseline:
        return NO_BASELINE
    diff = candidate.diff
    if diff is None:
        return "the baseline has no module of this name and signature"
    if sides.is_forced:
        return ""
    apart = list(diff.differences)
    if plain_name(diff.base.name) != plain_name(diff.head.name) and not _is_one_signature(diff):
        apart.append(OTHER_MODULE)
    if apart:
        return f"cannot be compared without --force: {'; '.join(apart)}"
    if rule.metric.root != "memory":
        return ""
    problem = memory_problem(diff.base, diff.head)
    if not problem and rule.metric.field_path(diff.head.facts) == f"memory.{TOTAL}":
        return code_problem(diff.base, diff.head)
    return problem


def _is_one_signature(diff: ModuleDiff) -> bool:
    return diff.base.signature is not None and diff.base.signature == diff.head.signature


# ---- contributors --------------------------------------------------------------------------------


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
            f"{row.count} {row.kind} {axis_text(row.axis)}",
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
    what = f"{fact.kind} {axis_text(fact.axis)} {times}"
    return _part(fact, what, fact.wire_bytes_per_run, is_at_most=fact.is_at_most)
