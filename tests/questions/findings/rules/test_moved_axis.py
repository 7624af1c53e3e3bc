"""C017: constraints that move an axis for nothing, as in `test_planted_wastes`."""

from __future__ import annotations

import hlo_lens
from hlo_lens.questions.findings.rules.moved_axis import moved_axis
from tests.corpus import SAMPLES


def _module(name: str) -> hlo_lens.ModuleDump:
    (module,) = hlo_lens.load(SAMPLES / "plants" / "tpu" / f"{name}.tar.xz").modules
    return module


def test_the_constraint_that_moves_an_axis_away_is_to_be_dropped() -> None:
    (found,) = moved_axis(_module("resharded"))
    assert found.message.startswith("the sharding constraint moves model from dimension 1 to 2, ")
    assert [one.target for one in found.changes] == [f"drop wastes.py:{found.source_line}"]


def test_an_axis_that_leaves_the_batch_is_found_without_a_way_back() -> None:
    (found,) = moved_axis(_module("turned"))
    assert "moves data from dimension 0 to 1, away from the batch" in found.message
