"""Sizes, parts and printing of shapes."""

from __future__ import annotations

import pytest

from hlo_lens import Shape
from hlo_lens.shapes.shape import PRIMITIVE_TYPES, Layout, ProgramShape, Tile


@pytest.mark.parametrize(
    ("name", "bits", "size_bytes"),
    [
        ("pred", 1, 1),
        ("s1", 1, 1),
        ("u2", 2, 1),
        ("s4", 4, 1),
        ("f4e2m1fn", 4, 1),
        ("f6e3m2fn", 8, 1),
        ("f8e4m3b11fnuz", 8, 1),
        ("bf16", 16, 2),
        ("f32", 32, 4),
        ("c64", 64, 8),
        ("c128", 128, 16),
        ("token", 0, 0),
    ],
)
def test_primitive_type_has_xlas_widths(name: str, bits: int, size_bytes: int) -> None:
    found = PRIMITIVE_TYPES[name]
    assert (found.bits, found.size_bytes) == (bits, size_bytes)


def test_a_tile_of_no_elements_has_an_unknown_size() -> None:
    shape = Shape.parse("f32[8,8]{1,0:T(0,0)}")
    assert (shape.size_bytes, shape.padded_size_bytes) == (256, None)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("f32[]", 4),
        ("pred[]", 1),
        ("f32[8,16]{1,0}", 512),
        ("f32[0,16]", 0),
        ("s4[3]{0}", 3),
        ("s4[3]{0:E(4)}", 2),
        ("pred[9]{0:E(1)}", 2),
        ("f32[<=8,16]", 512),
        ("f32[?,16]", None),
        ("widget[4]", None),
        ("widget[4]{0:E(2)}", 1),
        ("token[]", 0),
        ("opaque[]", 0),
        ("b(f32[2]{0:S(1)})", 8),
        ("()", 0),
        ("(f32[2], (), (bf16[3], token[]))", 14),
        ("(f32[2], f32[?])", None),
        ("bf16[512,1024]{1,0:T(8,128)(2,1)}", 1048576),
        ("f32[9223372036854775807,9223372036854775807]", 4 * (2**63 - 1) ** 2),
    ],
)
def test_size_counts_elements_alone(text: str, size_bytes: int | None) -> None:
    assert Shape.parse(text).size_bytes == size_bytes


@pytest.mark.parametrize(
    ("text", "padded_size_bytes"),
    [
        ("f32[8,16]{1,0}", 512),
        ("f32[]{:T(128)}", 512),
        ("bf16[]{:T(256)}", 512),
        ("pred[]{:T(512)}", 512),
        ("bf16[512,1024]{1,0:T(8,128)(2,1)}", 1048576),
        ("u32[]{:S(2)}", 4),
        ("f32[3,5]{1,0:T(8,128)}", 8 * 128 * 4),
        ("f32[3,5]{0,1:T(8,128)}", 8 * 128 * 4),
        ("f32[2,9,5]{2,1,0:T(8,128)}", 2 * 16 * 128 * 4),
        ("f32[9,5]{0,1:T(8,128)}", 8 * 128 * 4),
        ("s4[3]{0:T(128)E(4)}", 64),
        ("f32[5]{0:T(4)L(64)}", 256),
        ("f32[5]{0:L(64)}", 20),
        ("f32[10]{0:T(4)SC(0:2,8)}", 32),
        ("f32[5,7]{1,0:T(8,*,16)}", 8 * 48 * 4),
        ("f32[5]{0:T(0)}", None),
        ("f32[?]{0:T(8)}", None),
        ("(f32[]{:T(128)}, (f32[]{:T(128)}))", 1024),
    ],
)
def test_padded_size_rounds_up_to_the_first_tile(text: str, padded_size_bytes: int | None) -> None:
    assert Shape.parse(text).padded_size_bytes == padded_size_bytes


def test_leaves_come_depth_first_with_their_index() -> None:
    shape = Shape.parse("(f32[2], (), (s8[], (pred[])))")
    assert [(index, str(leaf)) for index, leaf in shape.leaves()] == [
        ((0,), "f32[2]"),
        ((2, 0), "s8[]"),
        ((2, 1, 0), "pred[]"),
    ]
    assert list(Shape.parse("f32[]").leaves()) == [((), Shape.parse("f32[]"))]
    assert list(Shape.parse("()").leaves()) == []


def test_with_leaves_keeps_the_nesting() -> None:
    shape = Shape.parse("(f32[2], (), (s8[], (pred[])))")
    fresh = [Shape(element_type=name) for name in ("u1", "u2", "u4")]
    assert str(shape.with_leaves(fresh)) == "(u1[], (), (u2[], (u4[])))"


def test_equal_means_same_content() -> None:
    made = Shape(
        element_type="f32",
        dimensions=(8, 16),
        layout=Layout(minor_to_major=(1, 0), tiles=(Tile(dimensions=(8, 128)),)),
    )
    read = Shape.parse("f32 [8, 16] {1,0 : T(8,128)}")
    assert made == read
    assert hash(made) == hash(read)
    assert made != Shape.parse("f32[8,16]{1,0}")
    assert Shape.parse("f32[8]") != Shape.parse("f32[<=8]")
    assert Shape.parse("f32[8]") != Shape.parse("b(f32[8])")
    assert Shape.parse("()") != Shape.parse("(())")
    assert Shape.parse("f32[]") != "f32[]"


def test_layouts_can_be_left_out_of_the_text() -> None:
    shape = Shape.parse("(f32[8]{0:S(5)}, b(s8[2]{0}))")
    assert shape.to_text(layout=False) == "(f32[8], b(s8[2]))"
    assert repr(shape) == "Shape('(f32[8]{0:S(5)}, b(s8[2]{0}))')"


def test_each_fifth_element_is_numbered() -> None:
    shape = Shape.tuple_of([Shape(element_type="s8")] * 11)
    assert str(shape) == (
        "(s8[], s8[], s8[], s8[], s8[], /*index=5*/s8[], s8[], s8[], s8[], s8[], /*index=10*/s8[])"
    )


def test_deep_tuples_cost_no_stack() -> None:
    text = "(" * 200 + ")" * 200
    shape, twin = Shape.parse(text), Shape.parse(text + " ")
    assert shape == twin
    assert shape is not twin
    assert hash(shape) == hash(twin)
    assert str(shape) == text
    assert repr(shape)
    assert shape.size_bytes == 0


def test_program_shape_prints_as_a_signature() -> None:
    array = Shape.parse("f32[8]{0}")
    assert str(ProgramShape(parameters=(array,), result=array)) == "(f32[8]{0}) -> f32[8]{0}"
    named = ProgramShape(parameters=(array,), parameter_names=("x",), result=array)
    assert str(named) == "(x: f32[8]{0}) -> f32[8]{0}"
