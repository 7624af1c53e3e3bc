"""Savings of findings, proven by compiling."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.findings.finding import SavingBasis, Severity
from hlo_lens.questions.plans import proof as proof
from hlo_lens.questions.what_if.recompiling import changed_module
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from hlo_lens.questions.what_if.recompiling import Base, Compiler, Recompiled, Variant

pytest.importorskip("jax", reason="jax is not installed")

pytestmark = pytest.mark.usefixtures("compiles")

WASTEFUL = SAMPLES / "cpu" / "wasteful"


def test_a_donation_is_compiled_and_its_saving_is_the_difference() -> None:
    found = hlo_lens.lint(WASTEFUL, select=["M001"], prove=True, minutes=5)
    (one,) = found.findings
    assert one.saves.basis is SavingBasis.COMPILED
    assert one.evidence[0].startswith("compiled again with the fix: must fit 4.00MiB less")
    (bound,) = hlo_lens.lint(WASTEFUL, select=["M001"]).findings
    assert one.saves.bytes == pytest.approx(bound.saves.bytes, rel=0.1)


def test_without_time_nothing_is_proven() -> None:
    found = hlo_lens.lint(WASTEFUL, select=["M001"], prove=True, minutes=1e-6)
    (one,) = found.findings
    assert one.saves.basis is not SavingBasis.COMPILED
    assert one.evidence[0].startswith("not proven: ")


def test_a_dump_without_a_program_keeps_its_findings() -> None:
    text = next(WASTEFUL.glob("*cpu_after_optimizations.txt"))
    found = hlo_lens.lint(text.read_text("utf-8"), select=["M001"], prove=True)
    assert all(one.saves.basis is not SavingBasis.COMPILED for one in found)


def test_another_interpreter_compiles() -> None:
    with pytest.raises(hlo_lens.HloLensError, match="no-python: cannot be run"):
        hlo_lens.lint(WASTEFUL, select=["M001"], prove=True, python="no-python")


def test_a_target_is_for_dumps_that_do_not_name_their_device() -> None:
    path = SAMPLES / "gpu" / "wasteful"
    (unnamed,) = hlo_lens.lint(path, select=["M001"], prove=True).findings
    assert unnamed.evidence[0].startswith("not proven: the dump does not name its device")
    (named,) = hlo_lens.lint(path, select=["M001"], prove=True, target="h100_sxm:1x1x8").findings
    assert "name one with --target" not in named.evidence[0]


def test_a_fix_that_saves_nothing_is_no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def unchanged(base: Base, variant: Variant, pool: Compiler) -> Recompiled:
        return replace(changed_module(base, variant, pool), predicted=base.figures)

    (helpful,) = hlo_lens.lint(WASTEFUL, select=["M001"], prove=True, minutes=5).findings
    assert not helpful.fix.startswith("does not help")
    monkeypatch.setattr(proof, "changed_module", unchanged)
    (one,) = hlo_lens.lint(WASTEFUL, select=["M001"], prove=True, minutes=5).findings
    assert one.fix == f"does not help: nothing changes ({helpful.fix})"
    assert one.severity is Severity.INFO
