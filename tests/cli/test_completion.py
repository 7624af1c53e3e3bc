"""Completion of names in a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.shell_completion import BashComplete

from hlo_lens.cli import completion as names, main
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

DUMP = str(SAMPLES / "tpu" / "tp_mlp")


def completed(*words: str) -> list[str]:
    shell = BashComplete(main, {}, "hlo-lens", "_HLO_LENS_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_instructions_of_a_dump_complete_at() -> None:
    found = completed("memory", DUMP, "--at", "copy-start.1")
    assert "copy-start.12" in found
    assert all(name.startswith("copy-start.1") for name in found)
    assert completed("memory", DUMP, "--at", "%copy-start.1") == found
    file = f"{DUMP}/module_0000.jit_train_step.cl_1003875606.after_optimizations.txt"
    assert completed("memory", file, "--at", "copy-start.1") == found


def test_collectives_alone_complete_why() -> None:
    found = completed("collectives", DUMP, "--why", "")
    assert "all-reduce.11" in found
    assert not any(name.startswith(("fusion", "copy")) for name in found)


def test_subjects_complete_track() -> None:
    found = completed("passes", DUMP, "--track", "al")
    assert {"alias", "all-gather", "all-reduce.11"} <= set(found)


def test_modules_and_topics_complete() -> None:
    assert completed("report", DUMP, "--module", "jit") == ["jit_train_step"]
    assert completed("help", "mem") == ["memory"]
    assert completed("mem") == ["memory"]


@pytest.mark.parametrize("path", ["/dev/zero", "missing", "-"])
def test_what_is_no_file_has_no_completion(path: str) -> None:
    assert completed("memory", path, "--at", "a") == []
    assert completed("report", path, "--module", "a") == []
    assert completed("memory", "--at", "a") == []


def test_large_dumps_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "HloModule m\n\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n"
    file = tmp_path / "m.txt"
    file.write_text(text, "utf-8")
    assert completed("memory", str(tmp_path), "--at", "") == ["p"]
    assert completed("report", str(file), "--module", "") == ["m"]
    monkeypatch.setattr(names, "MOST_BYTES", len(text) - 1)
    assert completed("memory", str(tmp_path), "--at", "") == []
    assert completed("report", str(file), "--module", "") == []
