"""Shapes: their sizes, equality, and texts."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hlo_lens.shapes.shape import (
    PRIMITIVE_TYPES,
    SHAPES,
    Layout,
    ProgramShape,
    Shape,
    SplitConfig,
    Tile,
    parse_shape,
)
from hlo_lens.text.errors import DumpSyntaxError


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


AS_PRINTED = [
    "f32[]",
    "token[]",
    "opaque[]",
    "f32[8,16]",
    "f32[8,16]{1,0}",
    "f32[<=8,16]",
    "f32[?,16]{1,0}",
    "f32[9223372036854775807]",
    "f32[]{:T(128)}",
    "bf16[512,1024]{1,0:T(8,128)(2,1)}",
    "bf16[512,1024]{1,0:T(8,128)(2,1)S(1)}",
    "f32[8]{0:T(*,8)}",
    "f32[8]{0:T()}",
    "f32[8,16]{1,0:D(D,C+)T(8)L(1024)#(u32)*(u64)E(4)S(5)SC(0:2,4)(1:8)M(1024)}",
    "f32[8]{0:P(u8[64]{0:T(8)})}",
    "f32[8]{0:S(5)X}",
    "f32[8]{0:Q(1,(2))@new(a)(b)}",
    "widget7[3]",
    "()",
    "(())",
    "(f32[2], ())",
    "b(f32[2]{0:S(1)})",
    "(f32[2]{0}, (b(s8[]), token[]), s32[], s32[], s32[], /*index=5*/pred[4]{0})",
]


@pytest.mark.parametrize("text", AS_PRINTED)
def test_what_xla_prints_is_printed_again(text: str) -> None:
    assert str(parse_shape(text)) == text
    assert parse_shape(text) == SHAPES.parse_with_lark(text)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("f32[8,16]{1,0:}", "f32[8,16]{1,0}"),
        ("f32[]{:}", "f32[]"),
        (" f32 [ 8 , 16 ] { 1 , 0 } ", "f32[8,16]{1,0}"),
        ("f32[8]{0:S(0)E(0)L(1)}", "f32[8]{0}"),
        ("f32[8]{0:S(1)E(4)}", "f32[8]{0:E(4)S(1)}"),
        ("f32[8]{0:S(1)S(2)}", "f32[8]{0:S(1)}"),
        ("(f32[2],s8[])", "(f32[2], s8[])"),
        ("( f32[2] ,\n\ts8[] )", "(f32[2], s8[])"),
        ("(/*index=0*/f32[2], /*x*//*y*/ s8[])", "(f32[2], s8[])"),
        ("b( f32[2] )", "b(f32[2])"),
        ("f32[/*rows*/2]", "f32[2]"),
        ("(f32[2]) // comment", "(f32[2])"),
    ],
)
def test_what_xla_accepts_is_read(text: str, printed: str) -> None:
    assert str(parse_shape(text)) == printed
    assert parse_shape(text) == SHAPES.parse_with_lark(text)


def test_every_layout_property_is_kept() -> None:
    shape = parse_shape(
        "f32[8,16]{1,0:D(D,C)T(8,*)(2,1)L(1024)#(u32)*(u64)E(4)S(5)SC(0:2,4)P(u8[2])M(9)Zz(1)}"
    )
    assert shape.layout == Layout(
        minor_to_major=(1, 0),
        tiles=(Tile(dimensions=(8, None)), Tile(dimensions=(2, 1))),
        memory_space=5,
        element_size_in_bits=4,
        tail_padding_alignment_in_elements=1024,
        split_configs=(SplitConfig(dimension=0, split_indices=(2, 4)),),
        other_properties=("D(D,C)", "#(u32)", "*(u64)", "P(u8[2])", "M(9)", "Zz(1)"),
    )


ERRORS = [
    ("", 1, 1, "expected a shape or '(', found the end"),
    ("f32", 1, 1, "expected a shape or '(', found 'f32'"),
    ("F32[8]", 1, 1, "expected a shape or '(', found 'F32'"),
    ("f32[-1]", 1, 5, "expected a number, '<=', '?' or ']', found '-1'"),
    ("f32[8,,2]", 1, 7, "expected a number, '<=' or '?', found ','"),
    ("f32[8x2]", 1, 5, "expected a number, '<=', '?' or ']', found '8x2'"),
    ("f32[8", 1, 6, "expected ',' or ']', found the end"),
    ("f32[]{}", 1, 6, "expected a layout or the end of the text, found '{'"),
    ("f32[8]{1,0}", 1, 7, "expected a layout of 1 dimensions, each of them once"),
    ("f32[8,2]{:T(8)}", 1, 9, "expected a layout of 2 dimensions, each of them once"),
    ("f32[8,2]\n  {0,0}", 2, 3, "expected a layout of 2 dimensions, each of them once"),
    ("f32[8]{0:T(8,x)}", 1, 14, "expected a number or '*', found 'x'"),
    ("f32[8]{0:S(-1)}", 1, 12, "expected a number, found '-1'"),
    ("f32[8]{0:}}", 1, 11, "expected the end of the text, found '}'"),
    ("f32[8] x", 1, 8, "expected a layout or the end of the text, found 'x'"),
    ("f32[2],f32[3]", 1, 7, "expected the end of the text, found ','"),
    (
        "f32[9223372036854775808]",
        1,
        5,
        "number too large, the largest is 9223372036854775807",
    ),
    ("f32[" + "9" * 5000 + "]", 1, 5, "number too large, the largest is 9223372036854775807"),
    ("(f32[2],)", 1, 9, "expected a shape or '(', found ')'"),
    ("(f32[2] f32[3])", 1, 9, "expected a layout, ',' or ')', found 'f32'"),
    ("(f32[2], f32[3]", 1, 16, "expected ',' or ')', found the end"),
    ("(f32[2]), f32[3]", 1, 9, "expected the end of the text, found ','"),
    ("(f32[2]))", 1, 9, "expected the end of the text, found ')'"),
    ("(f32[2], f32[-3])", 1, 14, "expected a number, '<=', '?' or ']', found '-3'"),
    ("(,f32[2])", 1, 2, "expected a shape, '(' or ')', found ','"),
    ("b((f32[2]))", 1, 3, "expected a shape, found '('"),
    ("(" * 201 + ")" * 201, 1, 1, "tuples are nested deeper than 200"),
    ("(" * 100_000, 1, 1, "tuples are nested deeper than 200"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), ERRORS)
def test_error_names_place_and_alternatives(
    text: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(DumpSyntaxError) as caught:
        parse_shape(text)
    assert (caught.value.line, caught.value.column, caught.value.message) == (
        line,
        column,
        message,
    )


def test_tuples_may_be_nested_200_deep_around_tiled_arrays() -> None:
    text = "(" * 200 + "f32[8]{0:T(8)(2)}" + ")" * 200
    assert str(parse_shape(text)) == text
    assert parse_shape(text) == SHAPES.parse_with_lark(text)


NUMBERS = st.integers(0, 2**63 - 1) | st.integers(0, 9)
TILES = st.builds(Tile, dimensions=st.lists(st.integers(0, 300) | st.none(), max_size=3).map(tuple))
SPLITS = st.builds(
    SplitConfig,
    dimension=st.integers(0, 4),
    split_indices=st.lists(NUMBERS, min_size=1, max_size=3).map(tuple),
)
TYPES = st.sampled_from(["f32", "bf16", "pred", "s4", "f8e4m3b11fnuz", "token", "newtype9"])


@st.composite
def arrays(draw: st.DrawFn) -> Shape:
    """Return an array or a buffer of any rank, type and layout."""
    sizes = draw(st.lists(st.tuples(NUMBERS | st.none(), st.booleans()), max_size=4))
    rank = len(sizes)
    layout = None
    if draw(st.booleans()):
        layout = Layout(
            minor_to_major=tuple(draw(st.permutations(range(rank)))),
            tiles=tuple(draw(st.lists(TILES, max_size=2))),
            memory_space=draw(st.integers(0, 6)),
            element_size_in_bits=draw(st.sampled_from([0, 1, 4])),
            tail_padding_alignment_in_elements=draw(st.sampled_from([1, 1024])),
            split_configs=tuple(draw(st.lists(SPLITS, max_size=2))),
            other_properties=draw(
                st.sampled_from([(), ("D(D,C+)", "M(64)", "Z(1,(2))"), ("New",)])
            ),
        )
    return Shape(
        element_type=draw(TYPES),
        dimensions=tuple(size for size, _ in sizes),
        dynamic_dimensions=tuple(size is None or dynamic for size, dynamic in sizes),
        layout=None if layout == Layout() else layout,
        is_buffer=draw(st.booleans()),
    )


ANY_SHAPE = st.recursive(
    arrays(), lambda inner: st.lists(inner, max_size=7).map(Shape.tuple_of), max_leaves=20
)


@given(ANY_SHAPE)
def test_printed_shapes_are_read_back(shape: Shape) -> None:
    assert parse_shape(str(shape)) == SHAPES.parse_with_lark(str(shape)) == shape
