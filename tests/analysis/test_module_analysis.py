"""Tests of the results known of one module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.analysis.module_analysis import ModuleAnalysis
from hlo_lens.model.dump import ModuleDump
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.errors import MissingDumpError

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = Path(__file__).parents[2] / "sample_dumps"


@pytest.fixture
def dump() -> ModuleDump:
    return hlo_lens.load(SAMPLES / "gpu" / "tp_mlp").modules[0]


_PASSES: dict[str, Callable[[ModuleAnalysis], object]] = {
    "hlo_lens.analysis.program.summary.summary": lambda known: known.summary,
    "hlo_lens.analysis.program.entry_signature.entry_signature": lambda known: known.signature,
    "hlo_lens.analysis.collectives.collectives.collectives": lambda known: known.loops,
    "hlo_lens.analysis.sharding.results.sharding_results": lambda known: known.shardings,
    "hlo_lens.analysis.memory.results.memory_results": lambda known: known.memory,
}


@pytest.mark.parametrize("path", _PASSES)
def test_each_pass_runs_once(path: str, dump: ModuleDump, monkeypatch: pytest.MonkeyPatch) -> None:
    home, _, name = path.rpartition(".")
    original = getattr(__import__(home, fromlist=[name]), name)
    calls = []

    def counted(*args: object, **kwargs: object) -> object:
        calls.append(name)
        return original(*args, **kwargs)

    monkeypatch.setattr(path, counted)
    known = ModuleAnalysis(dump)
    assert _PASSES[path](known) is _PASSES[path](known)
    assert known.collectives is known.collectives
    assert calls == [name]


def test_memory_beyond_the_limit_is_not_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = (SAMPLES / "gpu" / "tp_mlp").glob("*after_optimizations.txt")
    alone = hlo_lens.parse_hlo(text.read_text("utf-8"))
    one = hlo_lens.modules_of(alone)[0]
    limit = "hlo_lens.analysis.module_analysis.MOST_ESTIMATED"
    monkeypatch.setattr(limit, len(alone.columns))
    assert ModuleAnalysis(one, limits_estimate=True).memory is not None
    monkeypatch.setattr(limit, len(alone.columns) - 1)
    assert ModuleAnalysis(one).memory is not None
    beyond = ModuleAnalysis(one, limits_estimate=True)
    assert beyond.is_estimate_left_out
    assert beyond.memory is None


def test_passes_on_hlo_need_hlo() -> None:
    known = ModuleAnalysis(ModuleDump(name="buffers_only", kind=DumpKind.HLO))
    assert known.shardings is None
    assert known.memory is None
    with pytest.raises(MissingDumpError, match="buffers_only: no HLO text; XLA writes it with"):
        known.table  # noqa: B018 # raises
