"""C016: arrays that are cut along a divided dimension, as in `test_planted_wastes`."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hlo_lens
from hlo_lens.questions.findings.rules.cut_dimension import cut_dimension
from hlo_lens.text.errors import MissingDumpError
from tests.corpus import SAMPLES


def _module(name: str) -> hlo_lens.ModuleDump:
    (module,) = hlo_lens.load(SAMPLES / "plants" / "gpu" / f"{name}.tar.xz").modules
    return module


def test_all_that_a_split_sends_is_one_finding() -> None:
    (found,) = cut_dimension(_module("fused"))
    assert found.message == (
        "split along a dimension that model divides: its pieces are sent by 12 collectives"
    )
    assert found.saves.sent_bytes == 10 << 20


def test_a_rolled_array_is_none_and_without_the_program_it_is_undecided() -> None:
    assert list(cut_dimension(_module("rolled_clean"))) == []
    with pytest.raises(MissingDumpError, match="before optimizations"):
        list(cut_dimension(replace(_module("fused"), before_text=None)))
