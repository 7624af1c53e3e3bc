"""Pairs of compiles are enough, and one of them is compiled."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.what_if.pairs import Pair, pairs, truths
from tests.what_if.recompiled import EQUAL, verdicts

if TYPE_CHECKING:
    from pathlib import Path


def test_pairs_have_own_names_and_enough_programs() -> None:
    found = pairs()
    assert len({pair.name for pair in found}) == len(found) >= 80
    assert len({pair.before.program for pair in found}) >= 12
    assert {pair.device for pair in found} == {"cpu", "v5e", "v5p", "h100"}
    kinds = Counter(pair.kind for pair in found)
    assert {"donation", "sharding", "dtype", "mesh", "target", "flag"} <= {*kinds}
    assert all(pair.before != pair.after for pair in found)


def _pair(name: str) -> Pair:
    return next(pair for pair in pairs() if pair.name.startswith(name) and pair.device == "cpu")


def test_donation_gives_the_figures_of_the_program_that_donates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jaxlib._jax", reason="no jaxlib, or one without this module")
    monkeypatch.setenv("HLO_LENS_CACHE", str(tmp_path / "cache"))
    (truth,) = truths([_pair("adam donate")], sys.executable, tmp_path / "pairs")
    assert not truth.error
    assert truth.before["alias"] == 0 < truth.after["alias"]
    (verdict,) = verdicts([truth], sys.executable)
    assert verdict.state == EQUAL, verdict.text
