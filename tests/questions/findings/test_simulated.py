"""Savings of findings by simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.questions.findings.finding import SavingBasis, Severity
from hlo_lens.questions.findings.module_findings import rule_findings
from hlo_lens.questions.findings.simulated import simulated_findings
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump


def _analysis(name: str) -> ModuleDump:
    (module,) = hlo_lens.load(SAMPLES / name).modules
    return module


def test_a_donation_without_a_copy_saves_what_the_simulation_says() -> None:
    known = _analysis("cpu/wasteful")
    before = rule_findings(known)
    after = simulated_findings(known, before)
    (bound,) = [one for one in before.findings if one.code == "M001"]
    (one,) = [one for one in after.findings if one.code == "M001"]
    assert bound.saves.basis is SavingBasis.AT_MOST
    assert one.saves.basis is SavingBasis.SIMULATED
    assert one.saves.low == one.saves.bytes == one.saves.high
    assert 0 < (one.saves.bytes or 0) <= (bound.saves.bytes or 0)


def test_a_fix_that_may_save_nothing_keeps_its_bound() -> None:
    found = simulated_findings(known := _analysis("cpu/wasteful"), rule_findings(known))
    (one,) = [one for one in found.findings if one.values == ("embedding",)]
    assert one.saves.basis is SavingBasis.AT_MOST
    assert one.evidence[0].startswith("simulated: must fit 12.00MiB less, with bounds of ")
    assert one.saves.own_bytes == 12 << 20


def test_shardings_are_no_error_and_of_a_divided_batch_an_info() -> None:
    modules = hlo_lens.load(SAMPLES / "cpu" / "tp_mlp").modules
    known = next(one for one in modules if one.before is not None)
    found = [one for one in rule_findings(known).findings if one.code == "M003"]
    assert found
    assert {one.severity for one in found} == {Severity.INFO}


def test_findings_that_cannot_be_simulated_are_kept() -> None:
    known = _analysis("cpu/wasteful")
    before = rule_findings(known)
    after = simulated_findings(known, before)
    assert sorted(one.message for one in after.findings) == sorted(
        one.message for one in before.findings
    )
