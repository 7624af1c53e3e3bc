"""Order, severity and shares of findings, and the registry of rules."""

from __future__ import annotations

import inspect
import json
import re
import sys
from dataclasses import replace

import pytest

import hlo_lens
from hlo_lens.questions.findings.finding import Finding, Remedy, Saves, SavingBasis, Severity
from hlo_lens.questions.findings.findings import Proof, all_findings, judged, with_proofs
from hlo_lens.questions.findings.rule import PARTS, DumpRule, ModuleRule, all_rules, find_rule
from hlo_lens.text.errors import UnknownNameError
from tests.corpus import ROOT
from tests.questions.findings.programs import analysis_of_text

MIB = 1 << 20
PROGRAM = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[1048576]{0} parameter(0)
  ROOT y = f32[1048576]{0} negate(x)
}
"""
"""A program of 8 MiB."""


def _finding(message: str, saves: Saves, severity: Severity | None = None) -> Finding:
    return Finding(message=message, fix="fix it", saves=saves, severity=severity)


def _judged(*found: Finding) -> list[tuple[str, str]]:
    known = judged(found, analysis_of_text(PROGRAM))
    return [(one.message, str(one.severity)) for one in known]


def test_findings_are_sorted_by_what_they_save() -> None:
    assert _judged(
        _finding("unknown", Saves()),
        _finding("small", Saves.up_to(MIB // 16)),
        _finding("large", Saves.up_to(4 * MIB)),
        _finding("wire", Saves.up_to(sent_bytes=MIB // 4)),
        _finding("broken", Saves(), Severity.ERROR),
        _finding("slow", Saves(), Severity.WARNING),
        _finding("little", Saves.up_to(MIB // 2)),
    ) == [
        ("broken", "error"),
        ("large", "warning"),
        ("wire", "warning"),
        ("slow", "warning"),
        ("little", "warning"),
        ("small", "info"),
        ("unknown", "info"),
    ]


@pytest.mark.parametrize(
    ("saves", "severity"),
    [
        (Saves(bytes=MIB, basis=SavingBasis.COMPILED), "error"),
        (Saves(bytes=MIB, basis=SavingBasis.UP_TO), "warning"),
        (Saves(bytes=MIB // 4, basis=SavingBasis.COMPILED), "warning"),
        (Saves(bytes=MIB // 32, basis=SavingBasis.COMPILED), "info"),
    ],
)
def test_severity_follows_the_share_and_the_basis(saves: Saves, severity: str) -> None:
    assert _judged(_finding("x", saves)) == [("x", severity)]


def test_of_equal_savings_the_surer_is_first() -> None:
    savings = (Saves.up_to(2 * MIB), Saves(bytes=2 * MIB, basis=SavingBasis.COMPILED))
    found = [
        Finding(message=str(k), fix="f", saves=one, severity=Severity.WARNING)
        for k, one in enumerate(savings)
    ]
    assert [one.message for one in judged(found, analysis_of_text(PROGRAM))] == ["1", "0"]


def test_negligible_savings_are_no_findings() -> None:
    assert _judged(_finding("x", Saves.up_to(4 * 1024))) == []
    assert _judged(_finding("x", Saves.up_to(48))) == []


@pytest.mark.parametrize(
    ("limit", "codes"), [(64 * MIB, ["W001"]), (4 * MIB, ["W001", "M007"]), (None, ["W001"])]
)
def test_symptoms_that_fill_the_memory_stand_beside_their_cause_until_it_fits(
    limit: int | None, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    change = Remedy(kind="constraint", target="add a.py:1=P('data')")
    repeated = Finding(
        message="lost", fix="f", saves=Saves.up_to(flops=1), axes=("data",), changes=(change,)
    )
    stacks = Finding(message="saved", fix="f", saves=Saves.up_to(4 * MIB), axes=("data",))
    rules = [
        ModuleRule("W001", lambda _: [repeated], is_root=True),
        ModuleRule("M007", lambda _: [stacks]),
    ]
    monkeypatch.setattr("hlo_lens.questions.findings.findings.all_rules", lambda: rules)
    module = analysis_of_text(PROGRAM).stating(limit_bytes=limit)
    found = all_findings(module)
    assert [one.code for one in found.findings] == codes
    left = {"M007": MIB} if len(codes) > 1 else None
    proof = Proof(bytes=MIB, sent_bytes=None, flops=1, left=left)
    proven = with_proofs(module, found, zip(found.findings, (proof, None), strict=False)).findings
    assert [one.message for one in proven[1:]] == ["saved; with W001 up to 1.00MiB"] * bool(left)
    fitting = zip(found.findings, (replace(proof, left={}, fits=True), None), strict=False)
    (alone,) = with_proofs(module, found, fitting).findings
    assert alone.message == "lost; with the fix it fits"


def test_each_rule_has_a_code_of_its_own_and_a_whole_description() -> None:
    rules = all_rules()
    assert len({rule.code for rule in rules}) == len(rules) >= 3
    for rule in rules:
        assert isinstance(rule, ModuleRule | DumpRule)
        assert rule.text.title[0].isupper()
        assert list(rule.text.parts) == list(PARTS), rule.code
        assert all(rule.text.parts.values())


def _code_of_rules() -> dict[str, str]:
    """Return the code of each rule: what follows the line with its code in the file."""
    files = {inspect.getsource(sys.modules[rule.find.__module__]) for rule in all_rules()}
    parts = [re.split(r"^# ---- ([A-Z]\d+) -+$", text, flags=re.M)[1:] for text in files]
    return {code: text for one in parts for code, text in zip(one[::2], one[1::2], strict=True)}


def test_the_description_of_a_rule_says_when_it_is_an_info() -> None:
    for rule in all_rules():
        if "Severity.INFO" in _code_of_rules()[rule.code]:
            assert "an info" in " ".join(" ".join(rule.text.parts.values()).split()), rule.code


def test_each_rule_has_a_test_of_its_own() -> None:
    files = (ROOT / "tests" / "questions" / "findings" / "rules").glob("test_*.py")
    tests = "".join(one.read_text("utf-8") for one in files)
    for rule in all_rules():
        assert f'"{rule.code}"' in tests or f"{rule.find.__name__}(" in tests, rule.code


def test_a_rule_is_found_by_code_and_by_name() -> None:
    assert find_rule("m001") is find_rule("undonated-argument")
    with pytest.raises(UnknownNameError, match="no rule 'M0001'; did you mean M001"):
        find_rule("M0001")


def test_lint_of_a_sample_is_sorted_and_has_the_keys_of_scripts() -> None:
    found = hlo_lens.lint(ROOT / "sample_dumps" / "cpu" / "wasteful")
    shares = [one.share or 0.0 for one in found]
    assert shares == sorted(shares, reverse=True)
    first = json.loads(json.dumps(found.to_dict()))["modules"][0]["findings"][0]
    keys = "code name severity message fix source_file source_line values evidence suppressed saves"
    assert set(keys.split()) <= set(first)
    assert list(first["saves"])[:2] == ["bytes", "sent_bytes"]


def test_the_handbook_names_the_rules_whose_fix_what_if_can_make() -> None:
    sources = _code_of_rules().items()
    provable = {code for code, text in sources if "Remedy(" in text or " changes=" in text}
    page = (ROOT / "hlo_lens" / "manual" / "lint.md").read_text()
    paragraph = next(part for part in page.split("\n\n") if "can be compiled are" in part)
    assert set(re.findall(r"\b[A-Z]\d{3}\b", paragraph)) == provable
