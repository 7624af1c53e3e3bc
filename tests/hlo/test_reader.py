"""The reader of a module: caches, and methods of the grammar reader."""

from __future__ import annotations

import pytest

from hlo_lens.hlo.grammar import HloGrammarReader
from hlo_lens.hlo.reader import HloTextReader
from hlo_lens.shapes.shape_reader import REMEMBERED_LENGTH
from hlo_lens.text.errors import DumpSyntaxError

LONG = f"({', '.join(['f32[2]{0}'] * (REMEMBERED_LENGTH // 10))})"


@pytest.mark.parametrize("text", ["f32[2]{0}", LONG], ids=["short", "long"])
def test_a_shape_is_parsed_once(text: str) -> None:
    reader = HloTextReader()
    assert reader.shape(text) is reader.shape(text)


def test_both_readers_give_equal_parts() -> None:
    one, other = HloTextReader(), HloGrammarReader()
    for text in ("f32[2,4]{1,0:T(8,128)}", "(s32[], pred[3])"):
        assert one.shape(text) == other.shape(text)
    for text in ("{replicated}", "{devices=[2,1]<=[2]}", "{mesh['x'=2], [{'x'}]}"):
        assert one.sharding(text) == other.sharding(text)
    for text in ("{{0,1}}", "[1,2]<=[2]", "mesh['x'=2] {'x'}"):
        assert one.device_list(text) == other.device_list(text)
    layout = "{(f32[2]{0})->f32[2]{0}}"
    assert one.program_shape(layout) == other.program_shape(layout)


@pytest.mark.parametrize("reader", [HloTextReader(), HloGrammarReader()])
def test_malformed_parts_are_errors(reader: HloTextReader) -> None:
    for parse in (reader.shape, reader.sharding, reader.device_list, reader.program_shape):
        with pytest.raises(DumpSyntaxError):
            parse("}{")
