"""Fenced blocks: all are closed, a lost fence is found, and rewriting keeps the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.console import run
from tests.docs.documents import DOCUMENTS, Block, blocks, prose, rewrite
from tests.docs.python_examples import failures, rewrite_examples

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "# a: B\n\n```console\n$ x\nold\n```\n\nwords\n\n```pycon\n>>> 1 + 1\n3\n```\n"


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "a.md"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda d: d.stem)
def test_every_fence_is_closed(path: Path) -> None:
    assert all(block.text.endswith("\n") for block in blocks(path))


@pytest.mark.parametrize(
    ("text", "line"), [("a\n```\nb\n", 2), ("```console\n$ x\n```console\n$ y\n```\n", 1)]
)
def test_a_lost_fence_is_found(document: Path, text: str, line: int) -> None:
    document.write_text(text, "utf-8")
    with pytest.raises(AssertionError, match=f"a.md:{line}: this fence is not closed"):
        blocks(document)


def test_blocks_have_their_lines(document: Path) -> None:
    assert blocks(document) == (
        Block("console", 3, "$ x\nold\n"),
        Block("pycon", 10, ">>> 1 + 1\n3\n"),
    )


def test_prose_keeps_the_numbers_of_lines(document: Path) -> None:
    assert prose(document).splitlines().index("words") == TEXT.splitlines().index("words")
    assert "old" not in prose(document)


def test_rewriting_replaces_the_text_of_blocks_alone(document: Path) -> None:
    rewrite(document, lambda b: "$ x\nnew\nlonger\n" if b.info == "console" else b.text)
    assert document.read_text("utf-8") == TEXT.replace("old", "new\nlonger")


def test_wrong_output_of_an_example_is_found_and_rewritten(document: Path) -> None:
    assert len(failures(document)) == 1
    rewrite_examples(document)
    assert document.read_text("utf-8") == TEXT.replace("3\n", "2\n")
    assert failures(document) == []


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
