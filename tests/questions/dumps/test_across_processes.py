"""First difference between the programs of two processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.questions.dumps import processes as home
from hlo_lens.questions.dumps.listing import facts_of
from tests.load.test_load import hlo, write

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NAME = "module_0001.jit_f.cpu_after_optimizations.txt"


def _difference(folder: Path, one: str, other: str) -> list[str]:
    write(folder, {f"rank_0/{NAME}": one, f"rank_1/{NAME}": other})
    modules = hlo_lens.load(folder).modules
    return list(home.difference_lines(home.across_processes(facts_of(modules)), modules))


def test_equal_programs_have_no_difference(tmp_path: Path) -> None:
    assert _difference(tmp_path, hlo("jit_f"), hlo("jit_f")) == []


def test_large_programs_are_compared_by_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _difference(tmp_path, hlo("jit_f"), hlo("jit_f", opcode="abs"))
    assert "1 changed of 2 instructions" in found[1]
    monkeypatch.setattr(home, "_MOST_DIFFED", 1)
    found = _difference(tmp_path, hlo("jit_f"), hlo("jit_f", opcode="abs"))
    assert [line.split()[-1] for line in found[1:3]] == ["negate(p)", "abs(p)"]
