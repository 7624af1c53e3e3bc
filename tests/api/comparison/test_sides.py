"""Snapshots compared with dumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.api.comparison.sides import load_sides, snapshot
from hlo_lens.model.snapshot.writing import snapshot_text
from hlo_lens.text.name_pattern import NamePattern
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


def test_an_address_of_one_side_selects_the_module_of_its_program_in_the_other(
    tmp_path: Path,
) -> None:
    text = "HloModule {}\n\nENTRY main {{\n  ROOT x = f32[8]{{0}} parameter(0)\n}}\n"
    files = {
        **{"base/train/module_0001.jit_f": "jit_f", "base/eval/module_0001.jit_f": "jit_f"},
        **{"head/module_0007.jit_f": "jit_f", "head/module_0008.jit_g": "jit_g"},
    }
    for name, title in files.items():
        file = tmp_path / f"{name}.cpu_after_optimizations.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.format(title))
    base, head = tmp_path / "base", tmp_path / "head"

    def chosen(text: str) -> list[list[str]]:
        sides = load_sides(base, head, pattern=NamePattern(text))
        turned = reversed(load_sides(head, base, pattern=NamePattern(text)))
        found, other = (
            [sorted(m.dump.address for m in side.modules if m.dump) for side in both]
            for both in (sides, turned)
        )
        assert found == other
        return found

    address = "train/module_0001.jit_f"
    assert chosen(address) == [[address], ["module_0007.jit_f"]]
    assert chosen("module_0008") == [[], ["module_0008.jit_g"]]
    assert chosen("module_0001") == [["eval/module_0001.jit_f", address], []]
