"""Snapshot files as they are written."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from hlo_lens import load, snapshot
from hlo_lens.questions.snapshots.program import packed_program
from hlo_lens.questions.snapshots.snapshot_file import read_snapshot, snapshot_text
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

TRANSFORMER = SAMPLES / "gpu" / "fsdp_transformer"


def _text(path: Path) -> str:
    return snapshot_text(snapshot(path), tool_version="1")


def test_two_saves_are_equal_byte_for_byte_from_any_folder(tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "dump"
    shutil.copytree(TRANSFORMER, other)
    for file in other.glob("*optimizations.txt"):  # compiled in a checkout elsewhere
        text = file.read_text().replace('"/', '"/home/me/')
        file.write_text(text)
    assert _text(TRANSFORMER) == _text(other)


def test_a_file_is_small_and_has_no_paths_of_the_machine() -> None:
    text = _text(TRANSFORMER)
    assert len(text) < 80_000
    assert text.isascii()
    assert str(SAMPLES) not in text


def test_a_program_over_the_limit_is_left_out_with_the_reason() -> None:
    (module,) = load(SAMPLES / "pairs" / "tpu" / "step.tar.xz").modules
    whole = packed_program(module)
    assert whole.hlo is not None
    alone = packed_program(module, most=len(whole.packed or "") - 1)
    assert (alone.hlo, alone.before) == (None, module.before)
    none = packed_program(module, most=100)
    assert none.packed is None
    assert none.reason.endswith("more than 100B")


def test_a_snapshot_that_was_read_is_written_unchanged() -> None:
    text = _text(TRANSFORMER)
    read = read_snapshot(json.loads(text), "x")
    assert snapshot_text(read, tool_version="1") == text


def test_thousands_of_parameters_take_a_short_line_each() -> None:
    lines = ["HloModule jit_f", "", "ENTRY main {"]
    lines += [
        f"  p{n} = f32[256,1024]{{1,0}} parameter({n}), "
        f"sharding={{devices=[4,2]<=[8]}}, metadata={{op_name=\"params['block_{n}']['w']\"}}"
        for n in range(2000)
    ]
    names = ", ".join(f"p{n}" for n in range(2000))
    shapes = ", ".join(["f32[256,1024]{1,0}"] * 2000)
    lines += [f"  ROOT t = ({shapes}) tuple({names})", "}"]
    kept = snapshot("\n".join(lines) + "\n")
    assert len(snapshot_text(kept, tool_version="1")) < 2000 * 90
    read = read_snapshot(json.loads(snapshot_text(kept, tool_version="1")), "x")
    assert read.modules[0].entries == kept.modules[0].entries
