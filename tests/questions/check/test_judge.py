"""Verdicts: failed, passed, and undecided rules."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from hlo_lens.questions.check.judge import NO_CHANGE_JUDGED, Candidate, Judgement, Sides, judge
from hlo_lens.questions.check.rules import default_rules, read_budget, short_rule
from hlo_lens.questions.collectives.collective import CollectiveTotals
from hlo_lens.questions.diff.module_diff import module_diff
from hlo_lens.questions.memory.statement import MemoryStatement, PeakFacts, SpaceFacts
from hlo_lens.text.units import Kind
from tests.snapshots import COLLECTIVE, FACTS, MEMORY, module

if TYPE_CHECKING:
    from hlo_lens.questions.check.rules import Rule
    from hlo_lens.questions.snapshots.figures import ModuleFacts
    from hlo_lens.questions.snapshots.snapshot_file import ModuleSnapshot

COLLECTIVES = CollectiveTotals(
    static={"all-gather": 2}, dynamic={"all-gather": 2}, wire_bytes_per_device=10
)
GOOD = dataclasses.replace(FACTS, memory=MEMORY, collectives=COLLECTIVES)
TEMP = "memory.temp_bytes>+2%"


def _facts(**changes: object) -> ModuleFacts:
    return dataclasses.replace(GOOD, **changes)  # type: ignore[arg-type] # fields by name


def _with(section: str, **changes: object) -> ModuleFacts:
    return _facts(**{section: dataclasses.replace(getattr(GOOD, section), **changes)})


def _judge(
    rule: str | Rule,
    head: ModuleFacts,
    base: ModuleFacts | None = None,
    *,
    force: bool = False,
    gone: tuple[str, ...] = (),
    same: bool = False,
) -> Judgement:
    given = short_rule(rule) if isinstance(rule, str) else rule
    candidate = Candidate(head=module(facts=head))
    if base is not None:
        diff = module_diff(module(facts=base), module(facts=head), is_forced=force)
        candidate = Candidate(head=module(facts=head), diff=diff, is_same_program=lambda: same)
    sides = Sides(candidates=[candidate], has_baseline=base is not None, is_forced=force, gone=gone)
    return judge([given], sides)


def _status(judgement: Judgement) -> tuple[str, str]:
    verdict = judgement.verdicts[-1]
    return verdict.status, verdict.reason


@pytest.mark.parametrize(
    ("rule", "head", "base", "verdict"),
    [
        (TEMP, GOOD, GOOD, ("pass", "")),
        (TEMP, _with("memory", temp_bytes=103), GOOD, ("fail", ">+2%")),
        ("memory.temp_bytes>99", GOOD, None, ("fail", ">99")),
        ("memory.temp_bytes>100", GOOD, None, ("pass", "")),
        ("coverage.gaps>0", _with("coverage", gaps=1), None, ("fail", ">0")),
    ],
)
def test_values_that_are_known_decide(
    rule: str, head: ModuleFacts, base: ModuleFacts | None, verdict: tuple[str, str]
) -> None:
    judgement = _judge(rule, head, base)
    assert _status(judgement) == verdict
    assert (judgement.is_failed, judgement.is_undecided) == (verdict[0] == "fail", False)


def test_a_limit_fails_whatever_the_baseline() -> None:
    budget = '[[budget]]\nmetric = "memory.temp_bytes"\nmax = 99\nthreshold = "1%"'
    (rule,) = read_budget(budget, "b")
    other = _facts(backend="gpu")
    assert _status(_judge(rule, GOOD, other))[0] == "fail"


ESTIMATED = _with(
    "memory",
    source="estimate",
    is_exact=False,
    peak=PeakFacts(bytes=100),
    spaces=(SpaceFacts(color=0, name="HBM", temp_bytes=100, total_bytes=100, peak_bytes=100),),
)
OLD_TPU = _with("memory", is_exact=False, spaces=(SpaceFacts(color=0, name="HBM", temp_bytes=100),))
UNDECIDED = [
    ("a change without baseline", TEMP, GOOD, None, "there is no --baseline"),
    ("a null", "memory.peak.bytes>9", _with("memory", peak=None), GOOD, "is not known"),
    ("no memory", TEMP, _facts(memory=None), GOOD, "memory is not known"),
    ("a wrong path", "memory.tmp>1", GOOD, GOOD, "no figure is called memory.tmp"),
    ("a null before", "replica_count>+1", GOOD, _facts(replica_count=None), "in the baseline:"),
    ("cut buffer texts", TEMP, _with("memory", is_complete=False), GOOD, "are not complete"),
    ("cut ones before", TEMP, GOOD, _with("memory", is_complete=False), "base are not complete"),
    (
        "a lower bound",
        TEMP,
        OLD_TPU,
        GOOD,
        "by a lower bound: the value is between 100B and 32.0KiB",
    ),
    (
        "an estimate near its limit",
        "memory.temp_bytes>115",
        ESTIMATED,
        None,
        ">115 is not decided by an estimate: the value is ~ 100B, within 15% of it",
    ),
    (
        "a gap",
        "collectives.static.all-gather>9",
        _with("coverage", gaps=1),
        None,
        "1 place of the HLO text could not be read",
    ),
    ("a cut text", "instructions>99", _with("coverage", is_truncated=True), None, "ends too early"),
    (
        "a strange collective",
        "collectives.static.all-gather>9",
        _with("collectives", unknown_opcodes={"all-foo": 1}),
        None,
        "all-foo",
    ),
    ("another backend", TEMP, GOOD, _facts(backend="gpu"), "backend gpu -> cpu"),
    ("other partitions", TEMP, GOOD, _facts(evident_partitions=4), "partitions 4 -> 8"),
    ("one partition", TEMP, GOOD, _facts(evident_partitions=None), "1 (none printed) -> 8"),
    (
        "an estimate before",
        TEMP,
        GOOD,
        _with("memory", source="estimate"),
        "the memory of the base is an estimate",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "head", "base", "reason"),
    [case[1:] for case in UNDECIDED],
    ids=[case[0] for case in UNDECIDED],
)
def test_rules_that_cannot_be_decided_do_not_pass(
    rule: str,
    head: ModuleFacts,
    base: ModuleFacts | None,
    reason: str,
) -> None:
    judgement = _judge(rule, head, base)
    status, told = _status(judgement)
    assert status == "undecided"
    assert reason in told
    assert judgement.is_undecided


def test_a_gap_in_the_hlo_text_does_not_affect_assigned_memory() -> None:
    assert _status(_judge("memory.temp_bytes>999", _with("coverage", gaps=1)))[0] == "pass"
    estimated = dataclasses.replace(ESTIMATED, coverage=_with("coverage", gaps=1).coverage)
    assert _status(_judge("memory.temp_bytes>999", estimated))[0] == "undecided"


@pytest.mark.parametrize("base", [_facts(backend="gpu"), _with("memory", source="estimate")])
def test_force_compares_sides_that_cannot_be_compared(base: ModuleFacts) -> None:
    assert _status(_judge(TEMP, GOOD, base, force=True))[0] == "pass"


def test_a_lower_bound_decides_limits_below_it_and_above_its_other_end() -> None:
    limits = {99: "fail", 100: "undecided", 32767: "undecided", 32768: "pass"}
    found = {limit: _status(_judge(f"memory.temp_bytes>{limit}", OLD_TPU))[0] for limit in limits}
    assert found == limits


@pytest.mark.parametrize(
    "metric",
    [
        "memory.temp_bytes",
        "memory.total_bytes",
        "memory.spaces[HBM].total_bytes",
        "memory.peak.bytes",
        "memory.spaces[HBM].peak_bytes",
        "memory.peak_bytes",
    ],
)
def test_an_estimate_decides_limits_that_it_is_not_near(metric: str) -> None:
    head = dataclasses.replace(ESTIMATED, memory=_memory(total_bytes=100))
    limits = {86: "fail", 87: "undecided", 100: "undecided", 117: "undecided", 118: "pass"}
    found = {limit: _judge(f"{metric}>{limit}", head) for limit in limits}
    assert {limit: _status(one)[0] for limit, one in found.items()} == limits
    assert {one.verdicts[0].head.kind for one in found.values()} == {Kind.ESTIMATE}


def _memory(**changes: object) -> MemoryStatement:
    assert ESTIMATED.memory is not None
    return dataclasses.replace(ESTIMATED.memory, **changes)  # type: ignore[arg-type] # by name


def test_a_change_between_two_estimates_is_judged_and_marked() -> None:
    grown = dataclasses.replace(ESTIMATED, memory=_memory(temp_bytes=103))
    judgement = _judge(TEMP, grown, ESTIMATED)
    assert _status(judgement) == ("fail", ">+2%")
    (verdict,) = judgement.verdicts
    assert (verdict.base.kind, verdict.head.kind) == (Kind.ESTIMATE, Kind.ESTIMATE)
    assert _status(_judge(TEMP, ESTIMATED, ESTIMATED)) == ("pass", "")


def test_equal_programs_have_no_change_whatever_their_bounds_are() -> None:
    assert _status(_judge(TEMP, OLD_TPU, OLD_TPU))[0] == "undecided"
    assert _status(_judge(TEMP, OLD_TPU, OLD_TPU, same=True))[0] == "pass"


def test_totals_with_and_without_generated_code_are_undecided() -> None:
    head = _with("memory", generated_code_bytes=50)
    status, reason = _status(_judge("memory.total>+2%", head, GOOD))
    assert (status, "has the generated code" in reason) == ("undecided", True)
    assert _status(_judge("memory.spaces[HBM].total_bytes>+2%", head, GOOD))[0] == "pass"
    assert _status(_judge("memory.total>+2%", head, head))[0] == "pass"


def test_a_pattern_without_matching_module_does_not_pass() -> None:
    status, reason = _status(_judge("jit_g:memory.temp_bytes>999", GOOD))
    assert (status, reason) == ("undecided", "no module matches 'jit_g'; there is jit_f")


def test_a_module_missing_in_the_head_does_not_pass() -> None:
    judgement = _judge(TEMP, GOOD, GOOD, gone=("jit_g",))
    assert _status(judgement) == ("undecided", "only the baseline has this module")
    assert _judge("memory.temp_bytes>999", GOOD, GOOD, gone=("jit_g",)).is_undecided is False


def test_an_informational_rule_neither_fails_nor_hinders() -> None:
    text = '[[budget]]\nmetric = "memory.{}"\nmax = 1\ninformational = true'
    (fails,) = read_budget(text.format("temp_bytes"), "b")
    (unknown,) = read_budget(text.format("nope"), "b")
    passes = short_rule("memory.temp_bytes>999")
    sides = Sides(candidates=[Candidate(head=module(facts=GOOD))], has_baseline=False)
    judgement = judge([fails, unknown, passes], sides)
    assert [v.status for v in judgement.verdicts] == ["fail", "undecided", "pass"]
    assert (judgement.is_failed, judgement.is_undecided) == (False, False)


def test_default_rules_skip_figures_unknown_on_both_sides_of_one_program() -> None:
    unknown = _with("collectives", dynamic={"all-gather": None}, wire_bytes_per_device=None)
    verdicts = [
        _judge(rule, unknown, unknown, same=True).verdicts[0].status for rule in default_rules()
    ]
    assert verdicts == ["pass", "pass", "pass", "not known", "pass", "not known"]
    judgement = _judge(default_rules()[3], unknown, unknown, same=True)
    assert judgement.is_undecided  # nothing was decided at all


def test_figures_unknown_on_both_sides_of_a_changed_program_do_not_pass() -> None:
    unknown = _facts(memory=None)
    status, reason = _status(_judge(default_rules()[0], unknown, unknown))
    assert (status, reason[:24]) == ("undecided", "not known on either side")


def test_a_verdict_without_baseline_says_that_only_the_limit_was_judged() -> None:
    (rule,) = read_budget('[[budget]]\nmetric = "memory.temp_bytes"\nmax = 999\nthreshold = 0', "b")
    assert _status(_judge(rule, GOOD)) == ("pass", NO_CHANGE_JUDGED)


def test_changes_below_the_minimum_pass() -> None:
    budget = '[[budget]]\nmetric = "memory.temp_bytes"\nthreshold = "2%"\nmin_change = "9B"'
    (rule,) = read_budget(budget, "b")
    assert _status(_judge(rule, _with("memory", temp_bytes=108), GOOD)) == ("pass", "")
    assert _status(_judge(rule, _with("memory", temp_bytes=109), GOOD))[0] == "fail"


def _apart(base: ModuleSnapshot, head: ModuleSnapshot) -> tuple[str, str]:
    candidate = Candidate(
        head=head,
        diff=module_diff(base, head, subjects=("collectives",)),
    )
    rule = short_rule(TEMP)
    return _status(judge([rule], Sides(candidates=[candidate], has_baseline=True)))


def test_modules_of_another_name_and_signature_do_not_pass() -> None:
    base = module("jit_f", signature="8", facts=GOOD)
    assert _apart(base, module("jit_g", signature="16", facts=GOOD))[0] == "undecided"
    assert _apart(base, module("jit_g", signature=None, facts=GOOD))[0] == "undecided"
    assert _apart(base, module("jit_g", signature="8", facts=GOOD))[0] == "pass"
    assert _apart(base, module("jit_f", signature="16", facts=GOOD))[0] == "pass"


def test_an_estimate_is_not_compared_even_if_the_diff_leaves_memory_out() -> None:
    assert "is an estimate" in _apart(module(facts=GOOD), module(facts=ESTIMATED))[1]


def test_default_rules_do_not_skip_figures_unknown_in_the_head_alone() -> None:
    unknown = _with("collectives", wire_bytes_per_device=None)
    assert _status(_judge(default_rules()[3], unknown, GOOD))[0] == "undecided"


def _branches(*counts: int) -> ModuleFacts:
    """Return facts with all-gathers in the two branches of a conditional, and one outside."""
    rows = tuple(
        dataclasses.replace(
            COLLECTIVE,
            kind="all-gather",
            dynamic_count=count,
            is_at_most=True,
            branches=(f"0:{number}/2",),
        )
        for number, count in enumerate(counts)
    )
    outside = dataclasses.replace(COLLECTIVE, kind="all-gather", branches=())
    return _with("collectives", rows=(*rows, outside))


@pytest.mark.parametrize(
    ("rule", "head", "status"),
    [
        ("collectives.dynamic.all-gather>9", _branches(2, 9), "undecided"),
        ("collectives.dynamic.all-gather>10", _branches(2, 9), "pass"),
        ("collectives.dynamic.all-gather>2", _branches(2, 9), "fail"),
        ("collectives.dynamic.all-gather<4", _branches(2, 9), "undecided"),
        ("collectives.dynamic.*>9", _branches(2, 9), "undecided"),
        ("collectives.wire_bytes>4608", _branches(2, 9), "undecided"),
        ("collectives.rows[kind=all-gather].dynamic_count>9", _branches(2, 9), "undecided"),
        ("collectives.rows.dynamic_count>0", _branches(2, 9), "undecided"),
        ("collectives.static.all-gather>1", _branches(2, 9), "fail"),
        ("collectives.dynamic.all-gather>9", _branches(9, 9), "fail"),
        ("flops>9", _facts(flops=10, flops_at_least=8, flops_is_at_most=True), "undecided"),
        ("flops>7", _facts(flops=10, flops_at_least=8, flops_is_at_most=True), "fail"),
    ],
)
def test_a_limit_that_only_an_upper_bound_breaks_is_undecided(
    rule: str, head: ModuleFacts, status: str
) -> None:
    assert _status(_judge(rule, head))[0] == status


@pytest.mark.parametrize(
    ("base", "head", "status"),
    [((2, 9), (2, 9), "pass"), ((2, 9), (2, 10), "undecided"), ((2, 9), (3, 10), "fail")],
)
def test_bounds_are_compared_with_bounds(
    base: tuple[int, int], head: tuple[int, int], status: str
) -> None:
    rule = "collectives.dynamic.all-gather>+0"
    assert _status(_judge(rule, _branches(*head), _branches(*base)))[0] == status


def test_the_values_of_a_program_that_did_not_change_stay_bounds() -> None:
    facts = _branches(2, 9)
    found = _judge("collectives.dynamic.all-gather>+0", facts, facts, same=True)
    (verdict,) = found.verdicts
    assert verdict.status == "pass"
    assert (verdict.base.end, verdict.head.end) == (3, 3)
