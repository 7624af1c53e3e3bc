"""The table of dump kinds is consistent, and its names exist."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module

import pytest

from hlo_lens.load.module import BufferTexts
from hlo_lens.questions.dumps.doctor import DUMP_FLAGS
from hlo_lens.text.dump_kinds import BUFFER_ROWS, ROWS, DumpKind, KindRow, part_of, sniff


def test_every_kind_has_one_row() -> None:
    assert sorted(row.kind.name for row in ROWS) == sorted(DumpKind.__members__)


def test_parts_are_of_one_kind_each() -> None:
    parts = [row.part for row in ROWS if row.part is not None]
    assert len(parts) == len(set(parts))
    assert part_of(DumpKind.LIVE_RANGE) == "live-range"
    assert part_of(DumpKind.LOG) is None
    assert part_of(None) is None


@pytest.mark.parametrize("row", [row for row in ROWS if row.parser], ids=lambda row: row.kind.name)
def test_parsers_exist(row: KindRow) -> None:
    module, _, function = row.parser.partition(":")
    assert callable(getattr(import_module(module), function))


def test_kinds_without_parser_have_an_error_message() -> None:
    assert [row.kind for row in ROWS if bool(row.parser) == bool(row.refusal)] == []


def test_fields_are_those_of_buffer_texts() -> None:
    known = {field.name for field in fields(BufferTexts)}
    others = {"traces", "instructions"}  # of protos alone; of the text of used values
    assert {row.field for row in BUFFER_ROWS} == known - others


@pytest.mark.parametrize("row", [row for row in ROWS if row.headers], ids=lambda row: row.kind.name)
def test_headers_begin_texts_of_their_kind(row: KindRow) -> None:
    assert {sniff(f"{header}\n") for header in row.headers} == {row.kind}


def test_flags_are_those_that_doctor_knows() -> None:
    flags = {row.flag.removeprefix("--").partition("=")[0] for row in ROWS if row.flag}
    assert flags <= set(DUMP_FLAGS)
