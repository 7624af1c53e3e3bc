"""Files in folders of other names on the two sides of a comparison."""

from __future__ import annotations

from dataclasses import replace

from hlo_lens.questions.diff.pairs import renamed_files, renamed_source, with_folders_of
from tests.questions.diff.test_line_diff import BASE, causes
from tests.snapshots import collective, group, module, peak


def test_files_of_one_name_in_one_folder_of_each_side_are_the_same() -> None:
    found = renamed_files(["a/train.py", "a/x.py", "lib/ops.py"], ["b/train.py", "lib/ops.py"])
    assert found == {"a/train.py": "b/train.py"}
    assert renamed_files(["a/model.py"], ["b/model.py", "c/model.py"]) == {}
    assert renamed_files(["a/model.py"], ["a/model.py", "c/model.py"]) == {}
    assert renamed_files(["a/__init__.py"], ["b/__init__.py"]) == {}


def test_lines_of_sources_follow_their_file() -> None:
    files = {"a/train.py": "b/train.py"}
    assert renamed_source("a/train.py:7", files) == "b/train.py:7"
    assert renamed_source("a/train.py", files) == "b/train.py"
    assert renamed_source("c/train.py:7", files) == "c/train.py:7"
    assert renamed_source(None, files) is None


def test_a_rewritten_line_of_a_renamed_folder_is_no_new_line() -> None:
    head = BASE.replace("/home/me/p/", "/home/me/q/").replace("tanh(", "negate(")
    ((places, what),) = causes(BASE, head)
    assert places == ("q/t.py:3",)
    assert what == "opcode tanh -> negate (1)"


def test_values_and_collectives_of_a_renamed_folder_are_no_change() -> None:
    mine = collective(source_file="p/train.py", wire_bytes_per_device=1)
    yours = replace(mine, source_file="q/train.py", payload_bytes=1023)
    held = [peak(group(source=f"{folder}/train.py:3")) for folder in ("p", "q")]
    base = module(collectives=(mine,), peaks=(held[0],))
    head = module(collectives=(yours,), peaks=(held[1],))
    found = with_folders_of(base, head)
    assert found.peaks[0].groups == head.peaks[0].groups
    assert found.collectives is not None
    assert found.collectives[0].source_file == "q/train.py"
    assert with_folders_of(base, base) is base
