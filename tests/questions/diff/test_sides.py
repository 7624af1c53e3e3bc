"""Sides of a comparison: snapshots, second processes, and texts that repeat a compile."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.check import check
from hlo_lens.questions.check.judge import FAIL
from hlo_lens.questions.diff import sides
from hlo_lens.questions.diff.sides import load_sides, snapshot
from hlo_lens.questions.snapshots.snapshot_file import snapshot_text
from hlo_lens.text.names import NamePattern
from hlo_lens.text.processes import SecondProcess
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable
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
        both_sides = load_sides(base, head, pattern=NamePattern(text))
        turned = reversed(load_sides(head, base, pattern=NamePattern(text)))
        found, other = (
            [sorted(m.dump.address for m in side.modules if m.dump) for side in both]
            for both in (both_sides, turned)
        )
        assert found == other
        return found

    address = "train/module_0001.jit_f"
    assert chosen(address) == [[address], ["module_0007.jit_f"]]
    assert chosen("module_0008") == [[], ["module_0008.jit_g"]]
    assert chosen("module_0001") == [["eval/module_0001.jit_f", address], []]


def _diff_text(base: Path, head: Path) -> str:
    return f"{hlo_lens.diff(base, head).to_dict()}"


class _InThisProcess(SecondProcess["sides.LoadedSide"]):
    """The function, run in this process, with its result as it comes through the pipe."""

    def __init__(self, function: Callable[[], sides.LoadedSide]) -> None:
        self._data = pickle.dumps(function())

    def result(self) -> sides.LoadedSide | None:
        found: sides.LoadedSide = pickle.loads(self._data)
        return found

    def end(self) -> None:
        pass


def test_a_side_from_another_process_compares_as_from_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = (BASE, SAMPLES / "pairs" / "tpu" / "f32_upcast.tar.xz")
    alone = _diff_text(*pair)
    monkeypatch.setattr(sides, "_LONG", 1)
    monkeypatch.setattr(sides, "start_second", _InThisProcess)
    assert _diff_text(*pair) == alone


@pytest.mark.skipif(sys.platform != "linux", reason="fork is used on Linux only")
@pytest.mark.filterwarnings("ignore:os.fork")  # of JAX, if another test has imported it
def test_a_side_whose_process_dies_is_loaded_in_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    edit = SAMPLES / "pairs" / "tpu" / "f32_upcast.tar.xz"
    alone = _diff_text(BASE, edit)
    monkeypatch.setattr(sides, "_LONG", 1)
    monkeypatch.setattr(sides, "start_second", lambda _: SecondProcess(lambda: 1 / 0))
    assert _diff_text(BASE, edit) == alone


def test_a_pipe_and_a_small_side_are_loaded_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "start_second", pytest.fail)
    small = SAMPLES / "cpu_jax_0_4_30" / "tp_mlp"
    assert hlo_lens.diff(small, small).identical
    assert hlo_lens.diff(small, hlo_lens.load(SAMPLES / "tpu" / "wasteful")).modules


WASTEFUL = SAMPLES / "tpu" / "wasteful"
FLAGS = '"flag_configs":[]'
OF_CODE = f'"retry_config":{{"retry_count":"0"}},{FLAGS}'
"""What the text of an executable has more than the dump of the same compile."""


def _compiled(folder: Path, *, edited: bool = False, name: str = "jit_wasteful_step") -> None:
    """Write the files of a compile, and the text of its executable next to them."""
    folder.mkdir(parents=True)
    (file,) = (one for one in WASTEFUL.iterdir() if one.name.endswith("after_optimizations.txt"))
    text = file.read_text().replace("HloModule jit_wasteful_step", f"HloModule {name}")
    assert name in text
    if edited:
        assert " subtract(" in text
        text = text.replace(" subtract(", " add(")
    assert FLAGS in text
    (folder / file.name.replace("jit_wasteful_step", name)).write_text(text)
    (folder / "as_text.txt").write_text(text.replace(FLAGS, OF_CODE, 1))


def test_a_changed_program_with_the_text_of_its_executable_is_one_pair(tmp_path: Path) -> None:
    _compiled(tmp_path / "base")
    _compiled(tmp_path / "head", edited=True)
    found = hlo_lens.diff(tmp_path / "base", tmp_path / "head")
    assert [one.head.name for one in found.modules] == ["jit_wasteful_step"]
    assert not found.modules[0].identical
    assert list(map(len, found.copies)) == [1, 1]
    assert found.to_dict()["modules_copied"] == 2


@pytest.mark.parametrize("has_baseline", [False, True])
def test_rules_judge_a_compile_once(tmp_path: Path, has_baseline: bool) -> None:
    _compiled(tmp_path / "base")
    _compiled(tmp_path / "head", edited=True)
    baseline = tmp_path / "base" if has_baseline else None
    found = check(tmp_path / "head", baseline=baseline, rules=["memory.total_bytes>1KiB"])
    assert [one.status for one in found.judgement.verdicts] == [FAIL]


def test_a_snapshot_has_a_compile_once_and_pairs_with_its_dump(tmp_path: Path) -> None:
    _compiled(tmp_path / "base")
    _compiled(tmp_path / "head", edited=True)
    saved = snapshot(tmp_path / "base")
    assert [one.name for one in saved.modules] == ["jit_wasteful_step"]
    found = hlo_lens.diff(saved, tmp_path / "head")
    assert (len(found.modules), found.added, found.removed) == (1, (), ())
