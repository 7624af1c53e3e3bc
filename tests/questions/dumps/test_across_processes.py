"""First difference between the programs of two processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.questions.dumps import processes as home
from hlo_lens.questions.dumps.listing import facts_of
from hlo_lens.questions.dumps.processes import across_processes
from tests.load.test_load import hlo, write

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from hlo_lens.questions.dumps.processes import ProcessDifference

NAME = "module_0001.jit_f.cpu_after_optimizations.txt"


def _difference(folder: Path, one: str, other: str) -> ProcessDifference | None:
    write(folder, {f"rank_0/{NAME}": one, f"rank_1/{NAME}": other})
    modules = hlo_lens.load(folder).modules
    return home.process_difference(across_processes(facts_of(modules)), modules)


def test_equal_programs_have_no_difference(tmp_path: Path) -> None:
    assert _difference(tmp_path, hlo("jit_f"), hlo("jit_f")) is None


def test_edits_are_found_without_comparing_lines(tmp_path: Path) -> None:
    found = _difference(tmp_path, hlo("jit_f"), hlo("jit_f", opcode="abs"))
    assert found is not None
    assert found.diff is not None
    assert found.diff.edits
    assert (found.lines, found.instructions) == (None, 2)


def test_names_are_compared_by_lines(tmp_path: Path) -> None:
    found = _difference(
        tmp_path, hlo("jit_f"), hlo("jit_f").replace("p =", "q =").replace("(p)", "(q)")
    )
    assert found is not None
    assert found.diff is None
    assert found.lines is not None


def test_large_programs_are_compared_by_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home, "_MOST_DIFFED", 1)
    found = _difference(tmp_path, hlo("jit_f"), hlo("jit_f", opcode="abs"))
    assert found is not None
    assert found.diff is None
    assert [line.exact.split()[-1] for line in found.lines or () if line] == ["negate(p)", "abs(p)"]
