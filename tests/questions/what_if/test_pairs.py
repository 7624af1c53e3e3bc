"""Pairs of compiles; an edited program compiles as the one written with the change."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hlo_lens.load.devices import CPU
from hlo_lens.load.programs import modules_of
from hlo_lens.questions.what_if.combinations import changes_of
from hlo_lens.questions.what_if.compiling import Means, source_program
from hlo_lens.questions.what_if.recompiling import (
    Base,
    Compiler,
    Figures,
    changed_module,
    variant_of,
)
from tests.questions.what_if.pairs import EQUAL, Compile, Pair, pairs, truths, verdict

if TYPE_CHECKING:
    from pathlib import Path


def test_pairs_have_own_names_and_enough_programs() -> None:
    known = pairs()
    assert len({pair.name for pair in known}) == len(known) >= 80
    assert len({pair.before.program for pair in known}) >= 12
    assert {pair.device for pair in known} == {"cpu", "v5e", "v5p", "h100"}
    kinds = Counter(pair.kind for pair in known)
    assert {"donation", "sharding", "dtype", "mesh", "target", "flag"} <= {*kinds}
    assert all(pair.before != pair.after for pair in known)


STATED = {
    "donate": ["state"],
    "specs": {"params.w3": "P('data','model')", "mu.w3": "P('data','model')"},
    "dtypes": dict.fromkeys(("mu.w1", "mu.w2", "mu.w3"), "bfloat16"),
}
ASKED = (
    ("donate", "state"),
    ("shard", "**/w3=P('data','model')"),
    ("dtype", "state['opt'].mu=bf16"),
)
"""The same changes as a variant of `scan` states them, and as what-if is asked for them."""


def together(*, is_shardy: bool) -> Pair:
    """Return a pair with several changes, and another mesh where the text names it."""
    sizes = {"data": 4, "model": 2} if is_shardy else {"data": 2, "model": 4}
    before = Compile(program="scan", is_shardy=is_shardy)
    return Pair(
        name="together",
        kind="together",
        device="cpu",
        before=before,
        after=replace(before, variant={**STATED, "mesh": sizes}),
        edits=(("mesh", ",".join(f"{name}={size}" for name, size in sizes.items())), *ASKED),
    )


@pytest.mark.parametrize("is_shardy", [True, False], ids=["Shardy", "GSPMD"])
def test_changes_give_the_figures_of_the_program_written_with_them(
    is_shardy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jaxlib._jax", reason="no jaxlib, or one without this module")
    monkeypatch.setenv("HLO_LENS_CACHE", str(tmp_path / "cache"))
    (truth,) = truths([together(is_shardy=is_shardy)], sys.executable, tmp_path / "pairs")
    assert not truth.error
    assert truth.before != truth.after
    (dump,) = modules_of(truth.dump)
    base = Base(dump=dump, program=source_program(dump), target=CPU, own=Figures())
    changes = changes_of(truth.pair.asked)
    made = verdict(truth, changed_module(base, variant_of(base, changes), Compiler(Means())))
    assert made.state == EQUAL, made.text
