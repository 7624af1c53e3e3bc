"""Fenced blocks: all are closed, and a lost fence is found; pipelines are run as a shell does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.console import run
from tests.docs.documents import DOCUMENTS, blocks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda d: d.stem)
def test_every_fence_is_closed(path: Path) -> None:
    assert all(block.text.endswith("\n") for block in blocks(path))


@pytest.mark.parametrize(
    ("text", "line"), [("a\n```\nb\n", 2), ("```console\n$ x\n```console\n$ y\n```\n", 1)]
)
def test_a_lost_fence_is_found(tmp_path: Path, text: str, line: int) -> None:
    document = tmp_path / "a.md"
    document.write_text(text, "utf-8")
    with pytest.raises(AssertionError, match=f"a.md:{line}: this fence is not closed"):
        blocks(document)


def test_pipelines_are_run() -> None:
    whole = run("hlo-lens report sample_dumps/cpu/tp_mlp --full -n 1", columns=80)
    lines = whole.splitlines(keepends=True)
    cut = run("hlo-lens report sample_dumps/cpu/tp_mlp --full -n 1 | head -4 | tail -2", columns=80)
    assert cut == "".join(lines[2:4])
    assert run("hlo-lens report nowhere > /dev/null; echo $?", columns=80) == "3\n"
    assert "nowhere" in run("hlo-lens report nowhere 2>&1", columns=80)
    head = run("hlo-lens report sample_dumps/cpu/tp_mlp --full -n 1 | sed '/^$/q'", columns=80)
    assert head == whole[: whole.index("\n\n") + 2]
    table = run(
        "hlo-lens report sample_dumps/cpu/tp_mlp --full -n 1 | sed -n '/^Memory/,/^temp/p'",
        columns=80,
    )
    assert table.startswith("Memory of one device")
    assert table.splitlines()[-1].startswith("temp_bytes")
