"""Savings of findings, proven by compiling."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.questions.findings.finding import Saves, SavingBasis, Severity, savings_text
from hlo_lens.questions.findings.findings import Proof, module_findings, with_proofs
from hlo_lens.text.errors import MissingPackageError
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.questions.findings.finding import Finding

pytest.importorskip("jax", reason="jax is not installed")

COMPILING = "hlo_lens.questions.what_if.compiling"
WASTEFUL = SAMPLES / "cpu" / "wasteful"


@pytest.mark.usefixtures("compiles")
def test_a_donation_is_compiled_and_its_saving_is_the_difference() -> None:
    found = hlo_lens.lint(WASTEFUL, select=["M001"], prove=True, minutes=5)
    (one,) = found.findings
    assert one.saves.basis is SavingBasis.COMPILED
    assert one.evidence[0].startswith("compiled again with the fix: must fit 4.00MiB less")
    (row,) = hlo_lens.what_if(WASTEFUL, donate="params").modules
    assert row.predicted is not None
    assert row.base.total_bytes is not None
    assert one.saves.bytes == row.base.total_bytes - (row.predicted.total_bytes or 0)


def test_a_proof_in_the_cache_is_used_by_all_who_print_findings(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hlo_lens.lint(WASTEFUL, select=["M001"]).findings[0].saves.basis is SavingBasis.UP_TO
    proven = hlo_lens.lint(WASTEFUL, select=["M001"], prove=1).findings
    monkeypatch.setattr(f"{COMPILING}.run_process", None)
    (module,) = hlo_lens.load(WASTEFUL).modules
    bases = {one.code: one.saves.basis for one in module_findings(module).findings}
    assert bases["M001"] is SavingBasis.COMPILED
    assert bases["M003"] is SavingBasis.ABOUT
    assert hlo_lens.lint(WASTEFUL, select=["M001"], prove=1).findings == proven  # not the next
    for file in (cache / "proofs").iterdir():
        file.write_text(file.read_text("utf-8")[:9], "utf-8")
    (again,) = hlo_lens.load(WASTEFUL).modules
    assert SavingBasis.COMPILED not in {one.saves.basis for one in module_findings(again).findings}


def test_command_compiles_three_fixes_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int | None] = []

    def missing(*_: object, most: int | None, **__: object) -> None:
        asked.append(most)
        raise MissingPackageError("no jax")

    monkeypatch.setattr("hlo_lens.questions.plans.lint.proven_findings", missing)

    def run(*options: str) -> int:
        environment = {"HLO_LENS_PROVE": ""}
        return (
            CliRunner().invoke(main, ["lint", str(WASTEFUL), *options], env=environment).exit_code
        )

    assert [run(), run("--no-prove"), run("--prove", "5"), run("--prove")] == [0, 0, 3, 3]
    assert asked == [3, 5, None]
    assert run("--prove", "x") == 2


@pytest.mark.usefixtures("cache")
def test_without_time_nothing_is_proven() -> None:
    found = hlo_lens.lint(WASTEFUL, select=["M001"], prove=True, minutes=1e-6)
    (one,) = found.findings
    assert one.saves.basis is not SavingBasis.COMPILED
    assert one.evidence[0].startswith("not proven: ")


def test_a_dump_without_a_program_keeps_its_findings() -> None:
    text = next(WASTEFUL.glob("*cpu_after_optimizations.txt"))
    found = hlo_lens.lint(text.read_text("utf-8"), select=["M001"], prove=True)
    assert all(one.saves.basis is not SavingBasis.COMPILED for one in found)


@pytest.mark.usefixtures("cache")
def test_another_interpreter_compiles() -> None:
    with pytest.raises(hlo_lens.HloLensError, match="no-python: cannot be run"):
        hlo_lens.lint(WASTEFUL, select=["M001"], prove=True, python="no-python")


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("target", [None, "h100_sxm:1x1x8"])
def test_the_packages_of_the_target_must_be_there(
    target: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = SAMPLES / "gpu" / "wasteful"
    for place in (COMPILING, "hlo_lens.questions.plans.lint"):
        monkeypatch.setattr(f"{place}.toolchain_of", lambda _: "jaxlib 1")
    with pytest.raises(MissingPackageError, match="the CUDA plugin is not installed"):
        hlo_lens.lint(path, select=["M001"], prove=True, target=target, python="none")


def test_a_fix_that_saves_nothing_is_no_advice() -> None:
    (module,) = hlo_lens.load(WASTEFUL).modules
    found = module_findings(module)
    donation = next(one for one in found.findings if one.code == "M001")

    def after(saved: int, sent: int) -> Finding:
        made = Proof(bytes=saved, sent_bytes=sent, flops=0)
        proven = with_proofs(module, found, [(one, made) for one in (donation,)])
        return proven.findings[0]

    nothing, trade, costly = after(0, -(1 << 30)), after(1 << 24, -1024), after(1 << 20, -(1 << 30))
    assert nothing.fix == "not known: compiled with donate params, sent in a run 1.00GiB more"
    assert (nothing.severity, nothing.saves, nothing.changes) == (Severity.INFO, Saves(), ())
    assert (trade.fix, trade.severity) == (donation.fix, Severity.ERROR)
    assert (costly.fix, costly.severity) == (donation.fix, Severity.INFO)
    text = savings_text(trade.saves, trade.share)
    assert text == "saves 16.00MiB (27%), sends 1.0KiB more [compiled]"
    unpromised = replace(donation, saves=Saves())
    useless = Proof(bytes=-1, sent_bytes=0, flops=0)
    assert with_proofs(module, found, [(unpromised, useless)]).findings == ()
