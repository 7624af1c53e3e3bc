"""Verdicts of rules on modules: each rule passes, fails, or is undecided on each module.

Undecided is never a pass. It means: a number that is not known, or not in the snapshot; a gap in
the text that it was counted in; a module that no pattern matches, or without partner in the
baseline; sides that cannot be compared; a condition that the upper bound of a value breaks and its
lower bound does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_lens.questions.check.contributors import Contributors, contributors
from hlo_lens.questions.check.finding_counts import (
    ROOT as FINDINGS,
    counted_findings,
    counts_changes,
    new_among,
)
from hlo_lens.questions.check.rule_values import rule_value, weakness
from hlo_lens.questions.diff.memory_diff import TOTAL, code_problem, memory_problem
from hlo_lens.questions.diff.module_pairs import plain_name
from hlo_lens.text.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hlo_lens.questions.check.rules import Condition, Rule
    from hlo_lens.questions.diff.module_diff import ModuleDiff
    from hlo_lens.questions.snapshots.facts import FindingFact
    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot

PASS, FAIL, UNDECIDED, UNKNOWN = "pass", "fail", "undecided", "not known"
NO_BASELINE = "the rule is about a change, and there is no --baseline"
NO_CHANGE_JUDGED = "only the limit was judged: there is no --baseline"
UNKNOWN_ALIKE = "not known on either side; the programs are equal"
UNKNOWN_APART = (
    "not known on either side, and the program changed; a budget can name the metrics that count"
)
OTHER_MODULE = "the baseline has another module: names, parameters and results differ"

_SHOWN = 6


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
        base: Value in the baseline; None if there is none.
        head: Value; None if it is not known.
        base_least: Lower bound of `base` if that is not exact; None if it is, or is the least.
        base_most: Upper bound of `base`; None if it is exact, or the most.
        head_least: Lower bound of `head`.
        head_most: Upper bound of `head`.
        reason: Which condition failed, or why the rule is undecided; empty for a pass.
        contributors: Largest parts of the value or its change; None for a rule that did not fail.
        findings: Findings that a rule that failed counts, most saving first.
    """

    status: str
    rule: Rule
    module: str | None
    place: int | None = None
    base: float | None = None
    head: float | None = None
    base_least: float | None = None
    base_most: float | None = None
    head_least: float | None = None
    head_most: float | None = None
    reason: str = ""
    contributors: Contributors | None = None
    findings: tuple[FindingFact, ...] = ()

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
        head=value.number,
        head_least=value.least,
        head_most=value.most,
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
    if counts_changes(rule.metric.steps):
        weak = "" if partner is None else weakness(rule, partner.facts)
        reason = problem or (weak and f"in the baseline: {weak}")
        if reason:
            return replace(verdict, reason=reason)
    if not problem and partner is not None and sides.has_baseline:
        found = rule_value(rule, partner)
        least, most = found.least, found.most
        verdict = replace(verdict, base=found.number, base_least=least, base_most=most)
        reason = found.reason or weakness(rule, partner.facts)
        problem = reason and f"in the baseline: {reason}"
        if found == value and candidate.is_same_program():
            decided = _decided(_without_bounds(verdict, rule), candidate, problem, sides)
            return _with_bounds_of(verdict, decided)
    return _decided(verdict, candidate, problem, sides)


def _decided(verdict: Verdict, candidate: Candidate, problem: str, sides: Sides) -> Verdict:
    """Return the verdict on known values; a broken limit fails whatever the baseline is."""
    rule, base, head = verdict.rule, verdict.base, verdict.head or 0
    limits = [condition for condition in rule.fails if not condition.is_change]
    changes = [condition for condition in rule.fails if condition.is_change]
    judged = rule.fails if base is not None and not problem else limits
    broken = [condition for condition in judged if condition.holds(base, head)]
    open_ones = [
        one
        for one in judged
        if any(one.holds(*two) != (one in broken) for two in _corners(verdict))
    ]
    if open_ones and all(condition in open_ones for condition in broken):
        return replace(verdict, reason=_bound_text(verdict, open_ones))
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
    reason = "" if spared is None else f"the change is less than {spared.least_text}"
    return replace(verdict, status=PASS, reason=reason)


def _findings(
    rule: Rule, candidate: Candidate, broken: Sequence[Condition]
) -> tuple[FindingFact, ...]:
    """Return the findings that break conditions: of conditions on a change the new ones."""
    if rule.metric.root != FINDINGS:
        return ()
    facts = candidate.head.facts
    base = None if candidate.diff is None else candidate.diff.base.facts
    found = counted_findings(rule.metric.steps, facts, base) or ()
    is_change = base is not None and all(condition.is_change for condition in broken)
    return new_among(found, facts, base) if base is not None and is_change else found


def _bound_text(verdict: Verdict, conditions: Sequence[Condition]) -> str:
    """Return why conditions on an upper bound are undecided."""
    sides = (
        ("between {} and {}", verdict.head_least, _or(verdict.head_most, verdict.head)),
        (
            "in the baseline between {} and {}",
            verdict.base_least,
            _or(verdict.base_most, verdict.base),
        ),
    )
    ranges = [
        text.format(*_range_texts(verdict, int(low), int(high or 0)))
        for text, low, high in sides
        if low is not None
    ]
    names = " and ".join(map(str, conditions))
    what = "an upper bound" if verdict.head_most is verdict.base_most is None else "an estimate"
    return f"{names} is not decided by {what}: the value is {', '.join(ranges)}"


def _range_texts(verdict: Verdict, low: int, high: int) -> tuple[str, str]:
    """Return both ends of a range; all digits of bytes that would look equal."""
    if verdict.rule.metric.is_bytes and format_bytes(low) != format_bytes(high):
        return format_bytes(low), format_bytes(high)
    unit = "B" if verdict.rule.metric.is_bytes else ""
    return f"{format_count(low)}{unit}", f"{format_count(high)}{unit}"


def _corners(verdict: Verdict) -> Iterator[tuple[float | None, float]]:
    """Yield the pairs of values between which the true ones of base and head are."""
    base, head = verdict.base, verdict.head or 0
    least = _or(verdict.base_least, base), _or(verdict.head_least, head) or 0
    if verdict.head_most is verdict.base_most is None:  # an upper bound on either side, or exact
        yield least
        return
    most = _or(verdict.base_most, base), _or(verdict.head_most, head) or 0
    yield from ((least[0], most[1]), (most[0], least[1]), least, most)


def _or(bound: float | None, number: float | None) -> float | None:
    return number if bound is None else bound


def _without_bounds(verdict: Verdict, rule: Rule) -> Verdict:
    """Return a verdict on a change of a program that is equal on both sides, known or not."""
    if not all(condition.is_change for condition in rule.fails):
        return verdict
    return replace(verdict, base_least=None, base_most=None, head_least=None, head_most=None)


def _with_bounds_of(known: Verdict, decided: Verdict) -> Verdict:
    """Return a verdict with the bounds of its values as they are known."""
    return replace(
        decided,
        base_least=known.base_least,
        base_most=known.base_most,
        head_least=known.head_least,
        head_most=known.head_most,
    )


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
