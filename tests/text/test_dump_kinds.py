"""The table of dump kinds is consistent, and its names exist."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

import pytest

from hlo_lens.load.module import BufferTexts
from hlo_lens.text.dump_kinds import BUFFER_ROWS, ROWS, KindRow, sniff


@pytest.mark.parametrize("row", [row for row in ROWS if row.parser], ids=lambda row: row.kind.name)
def test_parsers_exist(row: KindRow) -> None:
    module, _, function = row.parser.partition(":")
    assert callable(getattr(import_module(module), function))


def test_fields_are_those_of_buffer_texts() -> None:
    known = {field.name for field in fields(BufferTexts)}
    others = {"traces", "instructions"}  # of protos alone; of the text of used values
    assert {row.field for row in BUFFER_ROWS} == known - others


@pytest.mark.parametrize("row", [row for row in ROWS if row.headers], ids=lambda row: row.kind.name)
def test_headers_begin_texts_of_their_kind(row: KindRow) -> None:
    assert {sniff(f"{header}\n") for header in row.headers} == {row.kind}
