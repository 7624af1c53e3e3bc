"""Facts of a module: computed once, by what its user states."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import hlo_lens
from hlo_lens.load.fact import fact, plant
from hlo_lens.load.module import ModuleDump
from hlo_lens.program.summary import backend_of_dump, instruction_table
from hlo_lens.questions.memory.results import is_estimate_left_out, memory_results
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.text.dump_kinds import DumpKind
from hlo_lens.text.errors import MissingDumpError

SAMPLES = Path(__file__).parents[1] / "sample_dumps"


@pytest.fixture
def dump() -> ModuleDump:
    return hlo_lens.load(SAMPLES / "gpu" / "tp_mlp").modules[0]


def test_a_fact_is_computed_once_for_each_statement_of_the_user(dump: ModuleDump) -> None:
    calls = []

    @fact
    def counted(module: ModuleDump) -> int:
        calls.append(module)
        return len(calls)

    assert (counted(dump), counted(dump)) == (1, 1)
    stated = dump.stating(mesh=Mesh.of({"model": 8}))
    assert stated.hlo is dump.hlo
    assert (counted(stated), counted(dump)) == (2, 1)
    plant(dump, counted, 7)
    assert (counted(dump), counted(replace(dump))) == (7, 3)


def test_facts_are_neither_compared_nor_pickled() -> None:
    module = ModuleDump(name="m", kind=DumpKind.HLO)
    assert backend_of_dump(module) is None
    assert module.facts
    copy = pickle.loads(pickle.dumps(module))  # made here
    assert copy == module
    assert not copy.facts


def test_memory_beyond_the_limit_is_not_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = (SAMPLES / "gpu" / "tp_mlp").glob("*after_optimizations.txt")
    alone = hlo_lens.parse_hlo(text.read_text("utf-8"))
    one = hlo_lens.modules_of(alone)[0]
    limit = "hlo_lens.questions.memory.results.MOST_ESTIMATED"
    monkeypatch.setattr(limit, len(alone.columns))
    assert memory_results(one.stating(limits_estimate=True)) is not None
    monkeypatch.setattr(limit, len(alone.columns) - 1)
    assert memory_results(one) is not None
    beyond = one.stating(limits_estimate=True)
    assert is_estimate_left_out(beyond)
    assert memory_results(beyond) is None


def test_passes_on_hlo_need_hlo() -> None:
    known = ModuleDump(name="buffers_only", kind=DumpKind.HLO)
    assert sharding_results(known) is None
    assert memory_results(known) is None
    with pytest.raises(MissingDumpError, match="buffers_only: no HLO text; XLA writes it with"):
        instruction_table(known)  # raises
