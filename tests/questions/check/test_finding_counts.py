"""Rules on the number of findings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import hlo_lens
from hlo_lens.questions.check.metric import Metric, finding_count
from hlo_lens.questions.findings.finding import Finding, Severity
from hlo_lens.questions.snapshots.figures import ModuleFacts
from tests.corpus import ROOT

ONE = Finding(code="M001", name="n", severity=Severity.WARNING, message="m", fix="f")
FACTS = ModuleFacts(
    findings=(
        ONE,
        replace(ONE, code="M003", severity=Severity.INFO),
        replace(ONE, code="C001", suppressed=True),
    )
)


def _count(text: str, base: ModuleFacts | None = None) -> float | None:
    return finding_count(Metric.parse(text), FACTS, base).number


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("findings", 2),
        ("findings.all", 2),
        ("findings.M001", 1),
        ("findings.M", 2),
        ("findings.C001", 0),
        ("findings.warning", 1),
        ("findings.error", 0),
    ],
)
def test_counts(text: str, count: int) -> None:
    assert _count(text) == count


def test_new_and_gone_findings_need_a_baseline() -> None:
    assert _count("findings.new") is None
    base = ModuleFacts(findings=(ONE, replace(ONE, code="X001")))
    assert (_count("findings.new", base), _count("findings.gone", base)) == (1, 1)


def test_findings_are_not_known_without_a_text() -> None:
    assert finding_count(Metric.parse("findings.M001"), ModuleFacts()).number is None


def test_check_counts_new_findings() -> None:
    dump = ROOT / "sample_dumps" / "cpu"
    rules = ["findings.new>0", "findings.M001>0"]
    same = hlo_lens.check(dump / "wasteful", baseline=dump / "wasteful", rules=rules[:1])
    assert [v.status for v in same.judgement.verdicts] == ["pass"]
    alone = hlo_lens.check(dump / "wasteful", rules=rules)
    assert [v.status for v in alone.judgement.verdicts] == ["undecided", "fail"]


def test_new_findings_are_undecided_against_a_baseline_of_another_backend() -> None:
    samples = ROOT / "sample_dumps"
    found = hlo_lens.check(
        samples / "cpu" / "wasteful",
        baseline=samples / "gpu" / "wasteful",
        rules=["findings.new>0"],
    )
    (verdict,) = found.judgement.verdicts
    assert verdict.status == "undecided"
    assert "backend gpu -> cpu" in verdict.reason


def test_a_broken_rule_has_the_findings_that_it_counts() -> None:
    dump = ROOT / "sample_dumps" / "cpu" / "wasteful"
    found = hlo_lens.check(dump, rules=["findings.warning>0", "findings.all>99"])
    failed, passed = found.judgement.verdicts
    assert [one.code for one in failed.findings] == ["M003", "M003", "M001"]
    assert (failed.head.number, passed.findings) == (3, ())
    data: Any = found.report().to_dict()["rules"]
    assert [one["code"] for one in data[0]["findings"]] == ["M003", "M003", "M001"]


def test_new_findings_are_named_with_their_lines() -> None:
    """In text and in annotations, by `check` and by `diff`."""
    base, head = _with_and_without("M001", "M002")
    rules = ["findings.new>0", "findings.warning>+0"]
    checked = hlo_lens.check(head, baseline=base, rules=rules)
    assert [[one.code for one in v.findings] for v in checked.judgement.verdicts] == [
        ["M001", "M002"],
        ["M001"],
    ]
    text = " ".join(str(checked.report()).split())
    assert "findings.new of jit_wasteful_step M001 warning saves up to 4.00MiB (7%); " in text
    assert (
        "programs/wasteful.py:100: argument params (2 of 3 arrays, 4.00MiB) is not donated" in text
    )
    notes = [(one.level, one.title, one.source) for one in checked.annotations()]
    assert notes == [
        ("error", "M001 undonated-argument", "programs/wasteful.py:100"),
        ("error", "M002 unused-donation", "programs/wasteful.py:100"),
    ]
    message = checked.annotations()[0].message
    assert message.startswith(
        "argument params (2 of 3 arrays, 4.00MiB) is not donated (saves up to"
    )
    assert "findings.new of jit_wasteful_step: 2, fails if >0" in message


def _with_and_without(*codes: str) -> tuple[hlo_lens.Snapshot, hlo_lens.Snapshot]:
    """Return a snapshot without findings of some rules, and the snapshot itself."""
    head = hlo_lens.snapshot(ROOT / "sample_dumps" / "cpu" / "wasteful")
    (module,) = head.modules
    findings = tuple(one for one in module.facts.findings or () if one.code not in codes)
    facts = replace(module.facts, findings=findings)
    return replace(head, modules=(replace(module, facts=facts),)), head
