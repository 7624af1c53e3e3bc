"""Errors in replica groups; pairs of source and target; one grammar for all small languages."""

from __future__ import annotations

import pytest

from hlo_lens.grammar.parsers import build_parser
from hlo_lens.shapes.replica_groups import parse_device_list
from hlo_lens.text.errors import DumpSyntaxError

ERRORS = [
    ("", 1, "expected '[', a mesh or '{', found the end"),
    ("x", 1, "expected '[', a mesh or '{', found 'x'"),
    ("{{0,1", 6, "expected '}', found the end"),
    ("{0,1}", 2, "expected '{' or '}', found '0'"),
    ("{{0,x}}", 4, "expected '}', found ','"),
    ("[8]<=[8]", 3, "expected ',', found ']'"),
    ("[2,2,2]<=[8]", 5, "expected ']', found ','"),
    ("[2,4]<=[9]", 9, "expected 2x4 devices, found 9"),
    ("[0,4]<=[8]", 2, "expected a number above 0, found 0"),
    ("[2,4]<=[4,2]T(1)", 15, "expected a permutation of 0 to 0"),
    ("mesh['a'=2] {'c'}", 14, "expected an axis of the mesh (a), found 'c'"),
    ("mesh['a'=2] {'a','a'}", 14, "axes 'a' and 'a' overlap"),
    ("mesh['a'=2]", 12, "expected ', device_ids=' or '{', found the end"),
]


@pytest.mark.parametrize(("text", "column", "message"), ERRORS)
def test_error_names_place_and_alternatives(text: str, column: int, message: str) -> None:
    with pytest.raises(DumpSyntaxError) as caught:
        parse_device_list(text)
    assert (caught.value.line, caught.value.column, caught.value.message) == (1, column, message)


def test_the_small_languages_join_into_one_grammar() -> None:
    names = ("hlo_tokens", "shape", "sharding", "replica_groups")
    parser = build_parser(*names, start=["shape", "sharding", "device_list"])
    for start, text in (
        ("shape", "(f32[2]{0:T(8)}, b(s4[3]))"),
        ("sharding", "{{mesh['x'=2], [{'x'}]}, {devices=[2]<=[2] shard_as 1}}"),
        ("device_list", "mesh['a'=2], device_ids=(1,0) {'a'}"),
    ):
        assert parser.parse(text, start=start) is not None
