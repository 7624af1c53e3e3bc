"""Buffer texts that lost a line or a digit: no figure changes unnoticed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.memory.layout import layout_of_dump
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.text.errors import HloLensError
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.questions.memory.statement import MemoryStatement


STEM = "module_0000.jit_train_step.cpu_after_optimizations"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for end in ("", "-buffer-assignment", "-live-range"):
        shutil.copy(SAMPLES / "cpu" / "tp_mlp" / f"{STEM}{end}.txt", tmp_path)
    return tmp_path


def facts_of(folder: Path) -> MemoryStatement:
    memory = memory_results(hlo_lens.load(folder).modules[0])
    assert memory is not None
    return memory.statement


@pytest.mark.parametrize("kind", ["live-range", "buffer-assignment"])
def test_a_lost_line_changes_no_figure_unnoticed(folder: Path, kind: str) -> None:
    whole = facts_of(folder)
    assert whole.is_complete
    file = folder / f"{STEM}-{kind}.txt"
    lines = file.read_text().splitlines(keepends=True)
    for place in range(1, len(lines), 7):
        file.write_text("".join(lines[:place] + lines[place + 1 :]))
        try:
            found = facts_of(folder)
        except HloLensError:
            continue
        assert found == whole or not found.is_complete, lines[place]


@pytest.mark.parametrize("start", ["param", "wrapped_multiply{}", "constant.29.clone{}"])
def test_a_value_without_its_range_makes_the_ranges_incomplete(folder: Path, start: str) -> None:
    file = folder / f"{STEM}-live-range.txt"
    lines = file.read_text().splitlines(keepends=True)
    ranges = [k for k, line in enumerate(lines) if line.startswith(f"    {start}") and "{" in line]
    file.write_text("".join(lines[: ranges[0]] + lines[ranges[0] + 1 :]))
    assert not facts_of(folder).is_complete


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("size=16777216,offset=0", "size=16777212,offset=0"),
        ("offset=251691136", "offset=951691136"),
    ],
)
def test_a_size_that_does_not_fit_is_noticed(folder: Path, old: str, new: str) -> None:
    file = folder / f"{STEM}-buffer-assignment.txt"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    assert not facts_of(folder).is_complete


TEXT = """BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[1024]| at ShapeIndex {}, maybe-live-out:
 value: <1 w @0> (size=4096,offset=0): f32[1024]{0}
 value: <2 result @0> (size=4096,offset=0): f32[256]{0}
allocation 1: size 2048, preallocated-temp:
 value: <3 a @0> (size=1024,offset=0): f32[256]{0}
 value: <4 b @0> (size=1024,offset=1024): f32[256]{0}

Total bytes used: 6144 (6.0KiB)
"""


def test_a_result_in_the_place_of_a_larger_argument_has_its_size() -> None:
    assert layout_of_dump(hlo_lens.parse_buffer_assignment(TEXT)).misfits == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<1 w @0> (size=4096,offset=0): f32[1024]", "<1 w @0> (size=4096,offset=0): f32[256]"),
        ("<4 b @0> (size=1024", "<4 b @0> (size=512"),
        ("<3 a @0> (size=1024", "<3 a @0> (size=1536"),
        ("<2 result @0> (size=4096", "<2 result @0> (size=3096"),
    ],
)
def test_a_larger_value_alone_in_its_place_does_not_fit(old: str, new: str) -> None:
    assert old in TEXT
    layout = layout_of_dump(hlo_lens.parse_buffer_assignment(TEXT.replace(old, new)))
    assert layout.misfits
    assert not layout.is_complete
