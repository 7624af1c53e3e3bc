"""Shardings by form."""

from __future__ import annotations

import pytest

from hlo_lens.questions.sharding.annotations import sharding_forms
from tests.questions.texts import LOOP, entry_module, module_of


def test_forms_are_counted_with_an_example() -> None:
    result = sharding_forms(module_of(LOOP))
    assert result.forms == (
        ("replicated", 2, 1, "{replicated}", "b"),
        ("v2-iota", 1, 1, "{devices=[4,1]<=[4]}", "w"),
    )
    assert result.unsharded == 15


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("{replicated}", "replicated"),
        ("{manual}", "manual"),
        ("{maximal device=1}", "maximal"),
        ("{devices=[2,2]0,1,2,3}", "v1-list"),
        ("{devices=[2,1,2]<=[4] last_tile_dims={replicated}}", "v2-iota"),
        ("{mesh['a'=2,'b'=2], [{'a'}, {'b'}]}", "v3-named"),
        ('{devices=[2,2]<=[4] metadata={op_name="f{x}"}}', "v2-iota"),
    ],
)
def test_each_spelling_has_its_form(text: str, form: str) -> None:
    line = f'  ROOT x = f32[4,4]{{1,0}} parameter(0), sharding={text}, metadata={{op_name="x"}}'
    assert [(row[0], row[3]) for row in sharding_forms(entry_module(line)).forms] == [(form, text)]


def test_tuple_sharding_is_one_form() -> None:
    module = entry_module(
        "  x = f32[4] parameter(0)\n"
        "  ROOT t = (f32[4], f32[4]) tuple(x, x), sharding={{replicated}, {devices=[2]<=[2]}}"
    )
    assert [row[:2] for row in sharding_forms(module).forms] == [("tuple", 1)]


def test_sharding_inside_a_string_is_none() -> None:
    module = entry_module(
        '  ROOT x = f32[4] parameter(0), metadata={op_name="f, sharding={replicated}"}'
    )
    assert sharding_forms(module).forms == ()


def test_sharding_after_a_string_is_found() -> None:
    module = entry_module(
        "  x = f32[4] parameter(0)\n"
        '  ROOT y = f32[4] custom-call(x), custom_call_target="Sharding", sharding={replicated}'
    )
    assert [row[:2] for row in sharding_forms(module).forms] == [("replicated", 1)]
