"""Facts of modules: the figures of JSON, snapshots and rules are the same."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.check.metric import Metric
from hlo_lens.questions.snapshots.module_snapshot import module_facts
from hlo_lens.render.result import facts_object
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DUMPS = [SAMPLES / "tpu" / "tp_mlp", SAMPLES / "gpu" / "fsdp_transformer"]


def _numbers(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield path and number of each figure that is in no list."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _numbers(part, (*path, name))
    elif isinstance(value, (int, float)):
        yield path, value


@pytest.mark.parametrize("dump", DUMPS, ids=["tpu", "gpu"])
def test_each_figure_of_the_facts_is_in_json_in_the_snapshot_and_in_reach_of_rules(
    dump: Path,
) -> None:
    (module,) = hlo_lens.load(dump).modules
    facts = module_facts(module)
    (kept,) = hlo_lens.snapshot(dump).modules
    reports = hlo_lens.report_on(dump).to_dict()["modules"]
    assert isinstance(reports, list)
    (reported,) = reports
    figures = list(_numbers(facts_object(facts)))
    assert len(figures) > 60
    for path, number in figures:
        found: object = reported
        for name in path:
            assert isinstance(found, dict)
            found = found[name]
        assert found == number
        assert Metric.parse(".".join(path)).value(kept.facts).number == number


def test_without_hlo_text_memory_alone_is_known(tmp_path: Path) -> None:
    (file,) = DUMPS[1].glob("*after_optimizations-buffer-assignment.txt")
    (module,) = hlo_lens.load(shutil.copy(file, tmp_path)).modules
    facts = module_facts(module)
    assert facts.memory is not None
    known = {name for name, value in facts_object(facts).items() if value is not None}
    assert known <= {"stage", "backend", "memory"}
