"""Texts of the bench, at a small size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hlo_lens import parse_hlo
from hlo_lens.hlo.opcodes import opcode_traits
from tests.bench_texts import SPECIAL, Growth, grown

if TYPE_CHECKING:
    from pathlib import Path

    from hlo_lens.hlo.module import HloModule


def module_of(growth: Growth, folder: Path) -> HloModule:
    """Return the module of a text of one megabyte."""
    return parse_hlo(grown(replace(growth, megabytes=1), folder).read_bytes())


@pytest.mark.parametrize("growth", SPECIAL, ids=lambda growth: growth.name)
def test_text_is_read_without_gaps_and_names_are_unique(growth: Growth, tmp_path: Path) -> None:
    module = module_of(growth, tmp_path)
    assert not module.gaps
    names = [instruction.name for instruction in module.entry.instructions]
    assert len(set(names)) == len(names) > 500
    assert len({c.name for c in module.computations}) == len(module.computations) > 50


def test_collectives_are_repeated(tmp_path: Path) -> None:
    counts = module_of(SPECIAL[0], tmp_path).opcode_counts()
    assert sum(n for o, n in counts.items() if opcode_traits(o).collective_kind) > 300


def test_each_copy_has_stack_frames_of_its_own(tmp_path: Path) -> None:
    module = module_of(SPECIAL[2], tmp_path)
    last = [i.metadata for i in module.entry.instructions if i.metadata is not None][-1]
    frames = module.stack_frames
    assert last.stack_frame_id is not None
    assert last.stack_frame_id > len(frames.frames) * 0.7
    assert frames.stack(last.stack_frame_id)
