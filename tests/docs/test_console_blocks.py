"""Outputs in README and handbook are those of the program; ``make docs`` rewrites them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.corpus import WRITE
from tests.docs.console import run
from tests.docs.documents import DOCUMENTS, README, Block, blocks, has_block, rewrite

if TYPE_CHECKING:
    from pathlib import Path

README_COLUMNS = 100
TOPIC_COLUMNS = 78  # a terminal of 80 columns, and the margin of a rendered block

WITH_OUTPUT = [d for d in DOCUMENTS if has_block(d, "console")]


def _printed(document: Path, block: Block) -> str:
    command, _, _ = block.text.partition("\n")
    assert command.startswith("$ "), f"{document.name}:{block.line}: begins with no command"
    columns = README_COLUMNS if document == README else TOPIC_COLUMNS
    return f"{command}\n{run(command.removeprefix('$ '), columns=columns)}"


@pytest.mark.parametrize("document", WITH_OUTPUT, ids=lambda d: d.stem)
def test_outputs_are_what_the_program_prints(document: Path) -> None:
    if WRITE:
        rewrite(document, lambda b: _printed(document, b) if b.info == "console" else b.text)
    for block in blocks(document):
        if block.info == "console":
            assert _printed(document, block) == block.text


def test_documents_show_output() -> None:
    assert len(WITH_OUTPUT) >= 10
