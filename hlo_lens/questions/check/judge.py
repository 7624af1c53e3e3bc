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
from hlo_lens.questions.check.metric import ALL, DEFAULT, ROOT as FINDINGS, Value, counted_findings
from hlo_lens.questions.check.rules import rule_value, weakness
from hlo_lens.questions.collectives.collective import axis_text
from hlo_lens.questions.diff.memory import FREE, code_problem, memory_problem, shape_text
from hlo_lens.questions.findings.findings import module_finding_changes
from hlo_lens.questions.memory.layout import DEFAULT_SPACE
from hlo_lens.render.result import Records, Unit
from hlo_lens.text.names import plain_name
from hlo_lens.text.units import MARGIN, Amount, Kind, format_bytes, format_count, format_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.questions.check.metric import Metric
    from hlo_lens.questions.check.rules import Condition, Rule
    from hlo_lens.questions.collectives.collective import Collective
    from hlo_lens.questions.diff.collectives import CollectiveRow
    from hlo_lens.questions.diff.memory import PeakRow
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
    """A module to which rules are applied: its index in the head, and changes against its partner.

    `is_same_program` returns whether the partner's program is known to be the same.
    """

    head: ModuleSnapshot
    diff: ModuleDiff | None = None
    place: int = 0
    is_same_program: Callable[[], bool] = bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Verdict of one rule on one module.

    The status is ``pass``, ``fail``, ``undecided``, or ``not known`` for a default rule whose value
    is known on neither side of one program. Without a module that matches the rule, name and place
    are None. The reason is the condition that failed, or why the rule is undecided.
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
        return self.status == FAIL and not self.rule.is_informational

    @property
    def is_undecided(self) -> bool:
        return self.status == UNDECIDED and not self.rule.is_informational

    @property
    def limit(self) -> str:
        return " or ".join(map(str, self.rule.fails))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Verdicts of all rules, in the order of the rules, then of the modules."""

    verdicts: tuple[Verdict, ...]

    @property
    def is_failed(self) -> bool:
        return any(verdict.is_failure for verdict in self.verdicts)

    @property
    def is_undecided(self) -> bool:
        """Whether any such rule is undecided, or no rule is decided at all."""
        decided = any(verdict.status in (PASS, FAIL) for verdict in self.verdicts)
        return not decided or any(verdict.is_undecided for verdict in self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Modules to which rules are applied, and the names of those that only the baseline has.

    If forced, sides are compared that cannot be compared.
    """

    candidates: Sequence[Candidate]
    has_baseline: bool
    gone: Sequence[str] = ()
    is_forced: bool = False


def judge(rules: Sequence[Rule], sides: Sides) -> Judgement:
    """Return the verdicts of all rules."""
    return Judgement(verdicts=tuple(v for rule in rules for v in _of_rule(rule, sides)))


def _of_rule(rule: Rule, sides: Sides) -> Iterator[Verdict]:
    pattern = rule.module
    chosen = [c for c in sides.candidates if pattern is None or pattern.found_in(c.head.name)]
    if not chosen:
        names = [candidate.head.name for candidate in sides.candidates]
        there = ", ".join(dict.fromkeys(names[:_SHOWN])) or "none"
        wanted = "to judge" if pattern is None else f"matches {pattern.text!r}"
        reason = f"no module {wanted}; there is {there}"
        yield Verdict(status=UNDECIDED, rule=rule, module=None, reason=reason)
        return
    for candidate in chosen:
        yield _of_module(rule, candidate, sides)
    for name in sides.gone if any(condition.is_change for condition in rule.fails) else ():
        if pattern is None or pattern.found_in(name):
            reason = "only the baseline has this module"
            yield Verdict(status=UNDECIDED, rule=rule, module=name, reason=reason)


def _of_module(rule: Rule, candidate: Candidate, sides: Sides) -> Verdict:
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
    weak = "" if partner is None else weakness(rule, partner.facts)
    if rule.metric.counts_changes and (problem or weak):
        return replace(verdict, reason=problem or f"in the baseline: {weak}")
    if not problem and partner is not None and sides.has_baseline:
        found = rule_value(rule, partner)
        verdict = replace(verdict, base=found)
        reason = found.reason or weak
        problem = reason and f"in the baseline: {reason}"
    return _decided(verdict, candidate, problem, sides)


def _decided(verdict: Verdict, candidate: Candidate, problem: str, sides: Sides) -> Verdict:
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
    return replace(verdict, status=PASS)


def _findings(rule: Rule, candidate: Candidate, broken: Sequence[Condition]) -> tuple[Finding, ...]:
    facts = candidate.head.facts
    base = None if candidate.diff is None else candidate.diff.base.facts
    counted = counted_findings(rule.metric, facts, base) if rule.metric.root == FINDINGS else ()
    if isinstance(counted, str):
        return ()
    if base is None or not all(condition.is_change for condition in broken):
        return counted
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
    names, metric = " and ".join(map(str, conditions)), verdict.rule.metric
    ranges = []
    for where, value in (("", verdict.head), ("in the baseline ", verdict.base)):
        if value.end is not None:
            ends = sorted((int(value.end), int(value.number or 0)))
            texts = [format_bytes(end) if metric.is_bytes else format_count(end) for end in ends]
            if texts[0] == texts[1]:
                texts = [f"{format_count(end)}B" for end in ends]
            ranges.append(f"{where}between {texts[0]} and {texts[1]}")
    if not ranges:
        return (
            f"{names} is not decided by an estimate: the value is "
            f"{metric.amount_text(verdict.head)}, within {format_ratio(MARGIN)} of it"
        )
    is_upper = Kind.AT_MOST in (verdict.base.kind, verdict.head.kind)
    bound = f"{'an upper' if is_upper else 'a lower'} bound"
    return f"{names} is not decided by {bound}: the value is {', '.join(ranges)}"


def _problem(rule: Rule, candidate: Candidate, sides: Sides) -> str:
    if not sides.has_baseline:
        return NO_BASELINE
    diff = candidate.diff
    if diff is None:
        return "the baseline has no module of this name and signature"
    if sides.is_forced:
        return ""
    apart = list(diff.differences)
    signatures = diff.base.signature, diff.head.signature
    if plain_name(diff.base.name) != plain_name(diff.head.name) and (
        signatures[0] is None or signatures[0] != signatures[1]
    ):
        apart.append(OTHER_MODULE)
    if apart:
        return f"cannot be compared without --force: {'; '.join(apart)}"
    if rule.metric.root != "memory":
        return ""
    problem = memory_problem(diff.base, diff.head)
    if not problem and rule.metric.is_of_module and rule.metric.figure == "total":
        return code_problem(diff.base, diff.head)
    return problem


_FIGURES = ("argument", "temp", "constant")

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
    if metric.root == "memory" and metric.figure != "fragmentation":
        found = _of_memory(metric, head, diff)
    elif metric.root == "collectives":
        found = _of_collectives(metric, head, diff)
    largest = max((abs(one.delta_bytes or 0) for one in found), default=0)
    kept = [one for one in found if abs(one.delta_bytes or 0) * _LEAST >= largest]
    return Contributors(contributors=tuple(kept[:_MOST]))


def _counts(metric: Metric, category: str) -> bool:
    return metric.figure not in _FIGURES or category == metric.figure


def _colors(metric: Metric, names: Mapping[int, str]) -> frozenset[int]:
    chosen = [s.lower() for step in metric.steps if step.name == "spaces" for s in step.selectors]
    if not chosen:
        return frozenset({DEFAULT_SPACE})
    return frozenset(
        color
        for color, name in names.items()
        if {name.lower(), str(color), ALL} & {*chosen}
        or (color == DEFAULT_SPACE and {"hbm", DEFAULT} & {*chosen})
    )


def _of_memory(metric: Metric, head: ModuleSnapshot, diff: ModuleDiff | None) -> list[Contributor]:
    if diff is not None and diff.memory is not None:
        colors = _colors(metric, {peak.color: peak.space for peak in diff.memory.peaks})
        grown = []
        for peak in diff.memory.peaks:
            for row in peak.entries if peak.color in colors else ():
                # at another peak the base may have values at other times that are new here
                is_moved = row.change == "new" and peak.has_moved
                change = f"{row.change} at the peak, which moved" if is_moved else row.change
                if row.delta_bytes > 0 and row.op_name != FREE:
                    if _counts(metric, row.category or ""):
                        grown.append(_part(row, row.shape or "", row.delta_bytes, change))
                elif row.delta_bytes > 0 and metric.figure == "total":
                    grown.append(Contributor(what=FREE, delta_bytes=row.delta_bytes, change=change))
        grown.sort(key=lambda one: -(one.delta_bytes or 0))
        donations = () if diff.donations is None else diff.donations.entries
        donated = [
            Contributor(
                what=f"{row.name} {row.device_shape}",
                delta_bytes=row.device_bytes,
                change="donation lost",
            )
            for row in donations
            if row.change == "lost" and _counts(metric, "output")
        ]
        if grown or donated:
            return [*donated, *grown]
    colors = _colors(metric, {peak.color: peak.name for peak in head.peaks})
    held = (group for peak in head.peaks if peak.color in colors for group in peak.groups)
    groups = [group for group in held if _counts(metric, group.category)]
    groups.sort(key=lambda group: -group.size_bytes)
    return [_part(group, shape_text(group), group.size_bytes, group.category) for group in groups]


def _part(
    of: AliveGroup | Collective | PeakRow | CollectiveRow,
    what: str,
    size: int | None,
    change: str | None = None,
    *,
    is_at_most: bool = False,
) -> Contributor:
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
    metric: Metric, head: ModuleSnapshot, diff: ModuleDiff | None
) -> list[Contributor]:
    steps = [step.name for step in metric.steps]
    named = {kind for kind in COLLECTIVE_KINDS if kind in steps or f"kind={kind}" in metric.text}
    kinds = named or {*COLLECTIVE_KINDS}
    changed = () if diff is None or diff.collectives is None else diff.collectives.changed
    worse = [
        _part(
            row,
            f"{row.count} {row.kind} {axis_text(row.axis)}",
            row.delta_wire_bytes,
            ", ".join((row.change, *row.changes)),
            is_at_most=any(one.is_at_most for one in (row.base, row.head) if one is not None),
        )
        for row in changed
        if row.is_worse and row.kind in kinds
    ]
    facts = [fact for fact in head.collectives or () if fact.kind in kinds]
    facts.sort(key=lambda fact: -(fact.wire_bytes_per_run or 0))
    return worse or [
        _part(
            fact,
            f"{fact.kind} {axis_text(fact.axis)} x{fact.times}",
            fact.wire_bytes_per_run,
            is_at_most=fact.is_at_most,
        )
        for fact in facts
    ]
