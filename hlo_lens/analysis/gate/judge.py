"""Whether a compile keeps the rules: each rule on each module passes, fails, or is undecided.

Undecided is never a pass: a number that is not known or not in the report, a gap in the text that
it was counted in, a module that no pattern matches or that has no partner in the baseline, and
sides that cannot be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.analysis.comparison.memory_diff import memory_problem
from hlo_lens.analysis.comparison.module_pairs import plain_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.analysis.comparison.module_diff import ModuleDiff
    from hlo_lens.analysis.gate.budget import Rule
    from hlo_lens.model.snapshot.facts import ModuleSnapshot

PASS, FAIL, UNDECIDED, UNKNOWN = "pass", "fail", "undecided", "not known"
NO_BASELINE = "it is about a change, and there is no --baseline"
NO_CHANGE_JUDGED = "the limit alone: there is no --baseline"
UNKNOWN_ALIKE = "known on neither side, of one program"
UNKNOWN_APART = (
    "known on neither side, and the program changed; a budget of your own says what counts"
)
OTHER_MODULE = "the baseline has another module: names, parameters and results differ"

_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A module that rules are applied to.

    Attributes:
        head: What is judged.
        report: Its whole object in the report.
        base_report: That of its partner in the baseline; None where it has none.
        diff: What changed; None where it has no partner.
        place: Which module of the head it is, from 0.
        is_same_program: Says whether its partner's program is known to be the same.
    """

    head: ModuleSnapshot
    report: Callable[[], Mapping[str, object]]
    base_report: Callable[[], Mapping[str, object]] | None = None
    diff: ModuleDiff | None = None
    place: int = 0
    is_same_program: Callable[[], bool] = bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one rule on one module.

    Attributes:
        status: ``pass``, ``fail``, ``undecided``; ``not known`` where a rule that nobody wrote has
            nothing to look at on either side, and the program is the same.
        rule: The rule.
        module: Name of the module; None where the rule found none.
        base: Value in the baseline; None where there is none.
        head: Value; None where it is not known.
        reason: Which condition failed, or why nothing can be said; empty for a pass.
        candidate: The module.
    """

    status: str
    rule: Rule
    module: str | None
    base: float | None = None
    head: float | None = None
    reason: str = ""
    candidate: Candidate | None = None

    @property
    def is_failure(self) -> bool:
        """Whether it makes the gate fail."""
        return self.status == FAIL and not self.rule.is_informational

    @property
    def is_undecided(self) -> bool:
        """Whether it keeps the gate from being decided."""
        return self.status == UNDECIDED and not self.rule.is_informational

    @property
    def limit(self) -> str:
        """When it fails, as people write it."""
        return " or ".join(map(str, self.rule.fails))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What became of all rules.

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
        """Whether any such rule could not be decided, or none was decided at all."""
        decided = any(verdict.status in (PASS, FAIL) for verdict in self.verdicts)
        return not decided or any(verdict.is_undecided for verdict in self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """What rules are applied to.

    Attributes:
        candidates: Modules of the head.
        has_baseline: Whether there is anything to compare with.
        gone: Names of modules that only the baseline has.
        is_forced: Whether to compare what cannot be compared.
    """

    candidates: Sequence[Candidate]
    has_baseline: bool
    gone: Sequence[str] = ()
    is_forced: bool = False


def judge(rules: Sequence[Rule], sides: Sides) -> Judgement:
    """Return what became of each rule."""
    return Judgement(verdicts=tuple(v for rule in rules for v in _of_rule(rule, sides)))


def _of_rule(rule: Rule, sides: Sides) -> Iterator[Verdict]:
    pattern, place = rule.module, rule.metric.place
    chosen = [c for c in sides.candidates if pattern is None or pattern.search(c.head.name)]
    if place is not None:
        chosen = [candidate for candidate in chosen if candidate.place == place]
    gone = [name for name in sides.gone if pattern is None or pattern.search(name)]
    if not chosen:
        names = [candidate.head.name for candidate in sides.candidates]
        there = ", ".join(dict.fromkeys(names[:_SHOWN])) or "none"
        wanted = "" if pattern is None else f" matches {pattern.pattern!r}"
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
    """Return what became of a rule on one module."""
    name = candidate.head.name

    def undecided(reason: str, head: float | None = None) -> Verdict:
        return Verdict(
            status=UNDECIDED,
            rule=rule,
            module=name,
            head=head,
            reason=reason,
            candidate=candidate,
        )

    report = candidate.report()
    value = rule.metric.value(report)
    if value.number is None:
        if rule.is_optional and _is_unknown_in_base(rule, candidate):
            if candidate.is_same_program():
                return Verdict(status=UNKNOWN, rule=rule, module=name, reason=UNKNOWN_ALIKE)
            return undecided(UNKNOWN_APART)
        return undecided(value.reason)
    weak = weakness(rule, report)
    if weak:
        return undecided(weak, value.number)
    base: float | None = None
    problem = _problem(rule, candidate, sides)
    if not problem and candidate.base_report is not None and sides.has_baseline:
        found = rule.metric.value(candidate.base_report())
        base, problem = found.number, found.reason and f"in the baseline: {found.reason}"
        problem = problem or _weak_base(rule, candidate.base_report())
    return _decided(rule, candidate, base, value.number, problem, sides)


def _decided(
    rule: Rule,
    candidate: Candidate,
    base: float | None,
    head: float,
    problem: str,
    sides: Sides,
) -> Verdict:
    """Return the verdict on known values; a limit that is broken fails whatever the baseline."""

    def verdict(status: str, reason: str) -> Verdict:
        return Verdict(
            status=status,
            rule=rule,
            module=candidate.head.name,
            base=base,
            head=head,
            reason=reason,
            candidate=candidate,
        )

    limits = [condition for condition in rule.fails if not condition.is_change]
    broken = [condition for condition in limits if condition.holds(None, head)]
    changes = [condition for condition in rule.fails if condition.is_change]
    if base is not None and not problem:
        broken += [condition for condition in changes if condition.holds(base, head)]
    if broken:
        return verdict(FAIL, ", ".join(map(str, broken)))
    if changes and not sides.has_baseline:
        return verdict(PASS, NO_CHANGE_JUDGED) if limits else verdict(UNDECIDED, NO_BASELINE)
    if changes and problem:
        return verdict(UNDECIDED, problem)
    spared = next((condition for condition in changes if condition.is_spared(base, head)), None)
    return verdict(PASS, "" if spared is None else f"it is less than {spared.least_text}")


def _is_unknown_in_base(rule: Rule, candidate: Candidate) -> bool:
    if candidate.base_report is None:
        return False
    return rule.metric.value(candidate.base_report()).number is None


def _problem(rule: Rule, candidate: Candidate, sides: Sides) -> str:
    """Return why a module cannot be compared with the baseline; empty where it can."""
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
    return memory_problem(diff.base, diff.head) if rule.metric.root == "memory" else ""


def _is_one_signature(diff: ModuleDiff) -> bool:
    return diff.base.signature is not None and diff.base.signature == diff.head.signature


def _weak_base(rule: Rule, report: Mapping[str, object]) -> str:
    weak = weakness(rule, report)
    return f"in the baseline: {weak}" if weak else ""


def weakness(rule: Rule, report: Mapping[str, object]) -> str:
    """Return why a number cannot be relied on although it is there; empty where it can.

    Args:
        rule: What is looked at.
        report: The module's object in the report.
    """
    root = rule.metric.root
    if root == "coverage":
        return ""
    memory = report.get("memory")
    if root == "memory" and isinstance(memory, dict):
        return _memory_weakness(rule, memory, report)
    gaps = _gaps(report)
    if gaps:
        return gaps
    collectives = report.get("collectives")
    if root == "collectives" and isinstance(collectives, dict):
        unknown = collectives.get("unknown_opcodes")
        if isinstance(unknown, dict) and unknown:
            names = ", ".join(sorted(map(str, unknown)))
            return f"opcodes named like collectives are not known, and not counted: {names}"
    return ""


def _gaps(report: Mapping[str, object]) -> str:
    coverage = report.get("coverage")
    if not isinstance(coverage, dict):
        return ""
    if coverage.get("gaps"):
        return f"{coverage['gaps']} places of the HLO text could not be read"
    if coverage.get("is_truncated"):
        return "the HLO text ends too early"
    if coverage.get("undefined"):
        names = coverage.get("undefined_names")
        first = names[0] if isinstance(names, (list, tuple)) and names else "?"
        return f"the HLO text lacks parts that it uses ({coverage['undefined']}), such as {first}"
    return ""


def _memory_weakness(rule: Rule, memory: Mapping[str, object], report: Mapping[str, object]) -> str:
    if memory.get("is_complete") is False:
        return "the buffer texts are not complete"
    if memory.get("source") == "estimate" and (gaps := _gaps(report)):
        return gaps
    is_temp = rule.metric.steps[-1].name in ("temp", "temp_bytes") and len(rule.metric.steps) == 2
    if is_temp and memory.get("temp_is_exact") is False:
        least, most = _range(memory)
        return (
            f"with this libtpu it is between {least} and {most}; "
            "memory.spaces[HBM].temp_bytes is exact"
        )
    return ""


def _range(memory: Mapping[str, object]) -> tuple[object, object]:
    found = memory.get("temp_range")
    if isinstance(found, (list, tuple)) and len(found) == 2:
        return found[0], found[1]
    return "?", "?"
