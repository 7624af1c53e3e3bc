"""Texts that repeat a compile, such as ``compiled.as_text()`` next to a dump, counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.check import check
from hlo_lens.questions.check.judge import FAIL
from hlo_lens.questions.diff.sides import snapshot
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

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


def test_an_added_program_with_the_text_of_its_executable_is_one(tmp_path: Path) -> None:
    _compiled(tmp_path / "base" / "a")
    _compiled(tmp_path / "head" / "a")
    _compiled(tmp_path / "head" / "b", name="jit_other")
    found = hlo_lens.diff(tmp_path / "base", tmp_path / "head")
    assert [one.name for one in found.added] == ["jit_other"]
    assert len(found.modules) == 1
    turned = hlo_lens.diff(tmp_path / "head", tmp_path / "base")
    assert [one.name for one in turned.removed] == ["jit_other"]


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


def test_a_text_alone_is_paired_with_the_text_of_the_same_kind(tmp_path: Path) -> None:
    _compiled(tmp_path / "base")
    _compiled(tmp_path / "head")
    for file in (tmp_path / "base").glob("module*"):
        file.unlink()
    found = hlo_lens.diff(tmp_path / "base", tmp_path / "head")
    assert found.identical
    assert list(map(len, found.copies)) == [0, 1]
