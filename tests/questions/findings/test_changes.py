"""Findings of two compiles: new, gone, kept."""

from __future__ import annotations

from dataclasses import replace

from hlo_lens.questions.diff.page import findings_facts
from hlo_lens.questions.findings.finding import Finding, Severity
from hlo_lens.questions.findings.findings import (
    FindingsBasis,
    Undecided,
    finding_changes,
    module_finding_changes,
)
from hlo_lens.questions.snapshots.figures import ModuleFacts

ONE = Finding(
    code="M003",
    name="replicated-value",
    severity=Severity.WARNING,
    message="w is replicated",
    fix="divide it",
    source_file="/home/me/p/model.py",
    source_line=7,
    values=("w",),
)
OTHER = replace(ONE, values=("b",), message="b is replicated")


def test_equal_findings_are_kept() -> None:
    found = finding_changes([ONE, OTHER], [OTHER, ONE])
    assert (found.new, found.gone, found.kept) == ((), (), 2)


def test_a_finding_that_moved_in_its_file_is_kept() -> None:
    moved = replace(ONE, source_line=9, source_file="/ci/build/p/model.py", message="of 3 MiB")
    assert finding_changes([ONE], [moved]).kept == 1


def test_a_finding_of_a_file_in_a_renamed_folder_is_kept() -> None:
    moved = replace(ONE, source_file="/ci/build/q/model.py", values=("v",))
    assert finding_changes([ONE], [moved]).kept == 1


def test_names_that_differ_in_their_number_are_alike() -> None:
    base, head = replace(ONE, values=("fusion.12",)), replace(ONE, values=("fusion.7.1",))
    found = finding_changes([base, OTHER], [replace(head, source_line=None)])
    assert (found.new, found.gone) == ((), (OTHER,))


def test_one_finding_more_of_a_file_is_new() -> None:
    found = finding_changes([ONE], [ONE, OTHER])
    assert (found.new, found.gone, found.kept) == ((OTHER,), (), 1)
    assert [row[:2] for row in found.rows()] == [("new", "M003")]


def _at(*places: tuple[int, str]) -> list[Finding]:
    """Return findings whose first values differ in a number alone."""
    return [
        replace(ONE, source_line=line, values=(f"all-reduce.{line + len(text)}",), message=text)
        for line, text in places
    ]


def test_of_findings_of_one_file_the_one_with_another_message_or_line_is_new() -> None:
    base = _at((21, "over d, 3 MiB"), (25, "over m, 9 MiB"), (8, "over m, 4 MiB"))
    more = [(21, "over d, 13 MiB"), (25, "over m, 19 MiB"), (8, "over m, 14 MiB")]
    found = finding_changes(base, _at((12, "over m, 6 MiB"), *more))
    assert [one.source_line for one in found.new] == [12]
    found = finding_changes(_at((12, "over m, 6 MiB"), *more), base)
    assert [one.source_line for one in found.gone] == [12]


def test_findings_below_added_lines_are_not_the_new_ones() -> None:
    base = _at((8, "over m"), (21, "over d"), (25, "over m"))
    head = _at((8, "over m"), (12, "two over m"), (16, "over m"), (23, "over d"), (27, "over m"))
    found = finding_changes(base, head)
    assert [one.source_line for one in found.new] == [12, 16]
    assert (found.gone, found.kept) == ((), 3)


def test_another_rule_or_file_is_new_and_the_other_gone() -> None:
    head = replace(ONE, code="M001")
    found = finding_changes([ONE], [head])
    assert (found.new, found.gone) == ((head,), (ONE,))
    assert finding_changes([ONE], [replace(ONE, source_file="q.py")]).kept == 0


def test_suppressed_findings_do_not_count() -> None:
    assert finding_changes([], [replace(ONE, suppressed=True)]).new == ()


def test_rules_that_a_side_does_not_decide_are_named_and_not_compared() -> None:
    open_rule = FindingsBasis(undecided=(Undecided(code=ONE.code, reason="no text"),))
    base = ModuleFacts(findings=(ONE,), findings_basis=FindingsBasis())
    head = ModuleFacts(findings=(), findings_basis=open_rule)
    found = module_finding_changes(base, head)
    assert found is not None
    assert (found.new, found.gone, found.undecided) == ((), (), (ONE.code,))
    assert found.is_one_sided
    text = f"1 rule not decided: {ONE.code}"
    assert [*findings_facts(found)] == [("findings", text)]
    same = module_finding_changes(base, base)
    assert same is not None
    assert (same.kept, same.undecided, same.is_one_sided) == (1, (), False)
