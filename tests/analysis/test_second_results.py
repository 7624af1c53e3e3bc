"""Results that a second process makes for an analysis: the same ones, each asked for once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hlo_lens.analysis import module_analysis
from hlo_lens.analysis.findings.module_findings import begin_findings, rule_findings
from hlo_lens.analysis.module_analysis import ModuleAnalysis
from hlo_lens.api.modules import modules_of
from hlo_lens.processes import second_process
from hlo_lens.report.program.page import module_object
from tests.corpus import ROOT

SAMPLES = ["cpu/wasteful", "tpu/wasteful", "gpu/shard_map_collectives", "cpu/fsdp_transformer"]


pytestmark = pytest.mark.filterwarnings("ignore:os.fork")  # of JAX, which other tests import


def made_by(_: ModuleAnalysis) -> int:
    return os.getpid()


def failing(_: ModuleAnalysis) -> int:
    raise ValueError


def analysis(sample: str = "cpu/wasteful") -> ModuleAnalysis:
    return ModuleAnalysis(modules_of(Path(ROOT, "sample_dumps", sample))[0])


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every module be worth a second process, whatever threads the tests have started."""
    monkeypatch.setattr(module_analysis, "_MOST_ALONE", 0)
    monkeypatch.setattr(second_process, "is_fork_safe", lambda: True)
    monkeypatch.setattr(second_process, "cores", lambda: 2)


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("sample", SAMPLES)
def test_findings_and_report_are_those_of_one_process(sample: str) -> None:
    alone, known = analysis(sample), analysis(sample)
    begin_findings(known)
    assert rule_findings(known) == rule_findings(alone)
    assert known.collectives == alone.collectives
    assert known.flops == alone.flops
    again = analysis(sample)
    begin_findings(again)
    assert repr(module_object(again)["findings"]) == repr(module_object(alone)["findings"])


@pytest.mark.usefixtures("two")
def test_a_result_that_was_begun_is_made_by_another_process_once() -> None:
    known = analysis()
    known.begin(made_by)
    found = known.once(made_by)
    assert found != os.getpid()
    assert known.once(made_by) == found
    known.begin(failing)  # only one process
    with pytest.raises(ValueError):  # noqa: PT011 # as raised here, not in the other process
        known.once(failing)


@pytest.mark.usefixtures("two")
def test_where_the_other_process_fails_the_result_is_made_here() -> None:
    known = analysis()
    known.begin(made_by, failing)
    assert known.once(made_by) == os.getpid()


def test_nothing_is_begun_for_a_small_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_analysis, "start_second", lambda _: pytest.fail("started"))
    known = analysis()
    known.begin(made_by)
    assert known.once(made_by) == os.getpid()
