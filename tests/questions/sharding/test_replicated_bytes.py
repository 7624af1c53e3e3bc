"""Values held by several devices, and savings by mesh axis."""

from __future__ import annotations

import pytest

from hlo_lens.questions.sharding.savings import ways_to_divide
from hlo_lens.shapes.shape import Shape
from tests.questions.sharding.programs import AFTER, BEFORE, results_of


def test_only_axes_that_divide_a_dimension_save() -> None:
    found = results_of(AFTER, BEFORE).replicated
    savings = [(s.value.value.name, s.axis, s.dimensions, s.saved_bytes) for s in found.savings]
    assert ("x", "model", (1,), 6 * 64 * 4 * 3 // 4) in savings  # 6 rows have no 4 equal parts
    assert ("x", "data", (0, 1), 6 * 64 * 4 // 2) in savings
    assert [s for s in savings if s[0] == "w"] == [("w", "data", (0, 1), 8 * 16 * 4 // 2)]


def test_longest_dimension_is_named_first() -> None:
    found = results_of(AFTER, BEFORE).replicated
    assert {s.dimension for s in found.savings if s.value.value.name == "x"} == {1}


def test_savings_by_axis() -> None:
    found = results_of(AFTER, BEFORE).replicated
    model, data = found.by_axis.axes
    assert data[0] == "data"
    assert model == ("model", 1, 1536, 1152)  # x, of which the output is the updated one


@pytest.mark.parametrize(
    ("whole", "parts", "ways"),
    [
        ("f32[8,16]{1,0}", 8, ["f32[8,2]{1,0}", "f32[1,16]{1,0}"]),
        ("f32[64,16]{1,0:T(8,128)}", 8, ["f32[8,16]{1,0:T(8,128)}", "f32[64,2]{1,0:T(8,128)}"]),
        (
            "bf16[16,256]{1,0:T(8,128)(2,1)}",
            16,
            ["bf16[1,256]{1,0:T(2,128)(2,1)}", "bf16[16,16]{1,0:T(8,128)(2,1)}"],
        ),
        ("f32[12,100]{1,0:T(8,128)}", 4, ["f32[3,100]{1,0:T(4,128)}", "f32[12,25]{1,0:T(8,128)}"]),
        ("f32[1600]{0:T(1024)}", 8, ["f32[200]{0:T(256)}"]),
        ("bf16[1600]{0:T(1024)(128)(2,1)}", 16, ["bf16[100]{0:T(256)(128)(2,1)}"]),
        ("s32[8]{0:T(1)}", 8, ["s32[1]{0:T(1)}"]),
        ("f32[6,10]{1,0}", 4, []),
    ],
)
def test_smallest_parts_come_first(whole: str, parts: int, ways: list[str]) -> None:
    assert [str(one.part) for one in ways_to_divide(Shape.parse(whole), parts)] == ways


def test_padding_is_saved_too() -> None:
    text = AFTER.replace("f32[8,16]{1,0}", "f32[8,16]{1,0:T(8,128)}")
    assert text != AFTER
    found = results_of(text, BEFORE).replicated
    saving = next(one for one in found.savings if one.value.value.name == "w")
    assert (saving.dimension, saving.saved_bytes) == (0, 4 * 128 * 4)
