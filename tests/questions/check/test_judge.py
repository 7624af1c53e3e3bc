"""Verdicts: failed, passed, and undecided rules."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from hlo_lens.questions.check.budget import read_budget
from hlo_lens.questions.check.judge import NO_CHANGE_JUDGED, Candidate, Judgement, Sides, judge
from hlo_lens.questions.check.rules import default_rules, short_rule
from hlo_lens.questions.diff.module_diff import module_diff
from hlo_lens.questions.snapshots.facts import (
    CollectivesFacts,
    ModuleFacts,
    PeakFacts,
    RangeFacts,
    SpaceFacts,
)
from tests.snapshots import COLLECTIVE, FACTS, MEMORY, module

if TYPE_CHECKING:
    from hlo_lens.questions.check.rules import Rule
    from hlo_lens.questions.snapshots.module_snapshot import ModuleSnapshot

COLLECTIVES = CollectivesFacts(
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


def test_an_equal_value_passes() -> None:
    judgement = _judge(TEMP, GOOD, GOOD)
    assert _status(judgement) == ("pass", "")
    assert not judgement.is_failed
    assert not judgement.is_undecided


def test_growth_beyond_the_threshold_fails() -> None:
    judgement = _judge(TEMP, _with("memory", temp_bytes=103), GOOD)
    assert _status(judgement) == ("fail", ">+2%")
    assert judgement.is_failed


def test_a_limit_needs_no_baseline() -> None:
    assert _status(_judge("memory.temp_bytes>99", GOOD)) == ("fail", ">99")
    assert _status(_judge("memory.temp_bytes>100", GOOD)) == ("pass", "")


def test_a_limit_fails_whatever_the_baseline() -> None:
    budget = '[[budget]]\nmetric = "memory.temp_bytes"\nmax = 99\nthreshold = "1%"'
    (rule,) = read_budget(budget, "b")
    other = _facts(backend="gpu")
    assert _status(_judge(rule, GOOD, other))[0] == "fail"


ESTIMATED = _with("memory", source="estimate")
UNDECIDED = [
    ("a change without baseline", TEMP, GOOD, None, "there is no --baseline"),
    ("a null", "memory.peak.bytes>9", _with("memory", peak=None), GOOD, "is not known"),
    ("no memory", TEMP, _facts(memory=None), GOOD, "memory is not known"),
    ("a wrong path", "memory.tmp>1", GOOD, GOOD, "no figure is called memory.tmp"),
    ("a null before", "replica_count>+1", GOOD, _facts(replica_count=None), "in the baseline:"),
    ("cut buffer texts", TEMP, _with("memory", is_complete=False), GOOD, "are not complete"),
    ("cut ones before", TEMP, GOOD, _with("memory", is_complete=False), "base are not complete"),
    (
        "an inexact temp",
        TEMP,
        _with("memory", is_exact=False, range=RangeFacts(temp_bytes=(100, 200))),
        GOOD,
        "the value is between 100B and 200B",
    ),
    (
        "an estimate without a bound",
        TEMP,
        _with("memory", source="estimate", is_exact=False, range=None),
        None,
        "the estimate has no bound",
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


def test_gaps_themselves_can_be_counted() -> None:
    assert _status(_judge("coverage.gaps>0", _with("coverage", gaps=1)))[0] == "fail"


@pytest.mark.parametrize("base", [_facts(backend="gpu"), _with("memory", source="estimate")])
def test_force_compares_sides_that_cannot_be_compared(base: ModuleFacts) -> None:
    assert _status(_judge(TEMP, GOOD, base, force=True))[0] == "pass"


def test_an_exact_space_is_decided_where_temp_is_not() -> None:
    head = _with("memory", is_exact=False, range=RangeFacts(temp_bytes=(100, 200)))
    assert _status(_judge("memory.spaces[HBM].temp_bytes>+2%", head, GOOD))[0] == "pass"


ESTIMATE = _with(
    "memory",
    source="estimate",
    is_exact=False,
    range=RangeFacts(temp_bytes=(80, 130), peak_bytes=(140, 190)),
    peak=PeakFacts(bytes=150),
    spaces=(SpaceFacts(color=0, name="HBM", temp_bytes=100, total_bytes=200, peak_bytes=150),),
)


@pytest.mark.parametrize(
    ("metric", "least", "most"),
    [
        ("memory.temp_bytes", 80, 130),
        ("memory.total_bytes", 180, 230),
        ("memory.spaces[HBM].total_bytes", 180, 230),
        ("memory.peak.bytes", 140, 190),
        ("memory.spaces[HBM].peak_bytes", 140, 190),
        ("memory.peak_bytes", 140, 190),
    ],
)
def test_a_limit_inside_the_range_of_an_estimate_is_undecided(
    metric: str, least: int, most: int
) -> None:
    limits = {least - 1: "fail", least: "undecided", most - 1: "undecided", most: "pass"}
    found = {limit: _status(_judge(f"{metric}>{limit}", ESTIMATE))[0] for limit in limits}
    assert found == limits


def test_outputs_of_unknown_tables_are_undecided_and_all_digits_are_printed() -> None:
    bounds = RangeFacts(temp_bytes=(80, 130), output_bytes=(4194336, 4194816))
    head = _with("memory", is_exact=False, source="estimate", range=bounds, output_bytes=4194816)
    status, reason = _status(_judge("memory.output_bytes>4194500", head))
    assert (status, "between 4,194,336B and 4,194,816B" in reason) == ("undecided", True)
    assert _status(_judge("memory.output_bytes>4MiB", head))[0] == "fail"
    assert _status(_judge("memory.total_bytes>180", ESTIMATE))[0] == "undecided"


def test_a_total_inside_its_own_range_is_undecided() -> None:
    bounds = RangeFacts(temp_bytes=(100, 100), total_bytes=(190, 210))
    limits = {189: "fail", 190: "undecided", 209: "undecided", 210: "pass"}
    assert ESTIMATE.memory is not None
    head = dataclasses.replace(ESTIMATE.memory, range=bounds)
    facts = dataclasses.replace(ESTIMATE, memory=head)
    for metric in ("memory.total_bytes", "memory.spaces[HBM].total_bytes"):
        found = {limit: _status(_judge(f"{metric}>{limit}", facts))[0] for limit in limits}
        assert found == limits


def test_equal_programs_have_no_change_whatever_their_estimates_are() -> None:
    assert _status(_judge(TEMP, ESTIMATE, ESTIMATE))[0] == "undecided"
    assert _status(_judge(TEMP, ESTIMATE, ESTIMATE, same=True))[0] == "pass"


def test_totals_with_and_without_generated_code_are_undecided() -> None:
    head = _with("memory", generated_code_bytes=50)
    status, reason = _status(_judge("memory.total>+2%", head, GOOD))
    assert (status, "has the generated code" in reason) == ("undecided", True)
    assert _status(_judge("memory.spaces[HBM].total_bytes>+2%", head, GOOD))[0] == "pass"
    assert _status(_judge("memory.total>+2%", head, head))[0] == "pass"


def test_a_pattern_without_matching_module_does_not_pass() -> None:
    status, reason = _status(_judge("jit_g:memory.temp_bytes>999", GOOD))
    assert (status, reason) == ("undecided", "no module matches 'jit_g'; there is jit_f")


def test_a_module_missing_in_the_baseline_does_not_pass() -> None:
    candidate = Candidate(head=module(facts=GOOD))
    judgement = judge([short_rule(TEMP)], Sides(candidates=[candidate], has_baseline=True))
    assert _status(judgement)[1] == "the baseline has no module of this name and signature"


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


def test_a_verdict_names_the_minimum_that_spared_a_change() -> None:
    budget = '[[budget]]\nmetric = "memory.temp_bytes"\nthreshold = "2%"\nmin_change = "9B"'
    (rule,) = read_budget(budget, "b")
    assert _status(_judge(rule, _with("memory", temp_bytes=108), GOOD)) == (
        "pass",
        "the change is less than 9B",
    )
    assert _status(_judge(rule, _with("memory", temp_bytes=109), GOOD))[0] == "fail"
    assert _status(_judge(rule, _with("memory", temp_bytes=101), GOOD)) == ("pass", "")


def test_a_place_chooses_one_module() -> None:
    grown = _with("memory", temp_bytes=500)
    sides = Sides(
        candidates=[
            Candidate(head=module(facts=GOOD)),
            Candidate(head=module(facts=grown), place=1),
        ],
        has_baseline=False,
    )
    for place, status in ((0, "pass"), (1, "fail"), (2, "undecided")):
        rule = short_rule(f"modules[{place}].memory.temp_bytes>100")
        assert [v.status for v in judge([rule], sides).verdicts] == [status]


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


def test_a_row_of_an_older_snapshot_counts_at_most() -> None:
    row = dataclasses.replace(COLLECTIVE, kind="all-gather", dynamic_count=9, is_at_most=True)
    head = _with("collectives", rows=(row,))
    assert _status(_judge("collectives.dynamic.all-gather>1", head)) == (
        "undecided",
        ">1 is not decided by an upper bound: the value is between 0 and 9",
    )


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
    assert (verdict.base_least, verdict.head_least) == (3, 3)
