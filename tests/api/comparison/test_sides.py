"""Snapshots compared with dumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.api.comparison.sides import snapshot
from hlo_lens.model.snapshot.writing import snapshot_text
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

BASE = SAMPLES / "pairs" / "tpu" / "base.tar.xz"
TRANSFORMER = SAMPLES / "gpu" / "fsdp_transformer"


def _saved(tmp_path: Path, dump: Path) -> str:
    file = tmp_path / "base.json"
    file.write_text(snapshot_text(snapshot(dump), tool_version="1"), "utf-8")
    return str(file)


def test_a_snapshot_compares_as_its_dump_does(tmp_path: Path) -> None:
    file = _saved(tmp_path, BASE)
    edit = SAMPLES / "pairs" / "tpu" / "f32_upcast.tar.xz"
    (with_dump,) = hlo_lens.diff(BASE, edit).modules
    (with_file,) = hlo_lens.diff(file, edit).modules
    assert with_file.memory == with_dump.memory
    assert with_file.collectives == with_dump.collectives
    assert with_file.shardings == with_dump.shardings
    assert with_file.donations == with_dump.donations
    assert with_file.is_program_equal is False


def test_a_snapshot_against_its_own_dump_is_no_change(tmp_path: Path) -> None:
    for path in (BASE, TRANSFORMER):
        file = _saved(tmp_path, path)
        assert hlo_lens.diff(file, path).identical
        assert hlo_lens.diff(path, file).identical
        assert hlo_lens.diff(file, file).identical
