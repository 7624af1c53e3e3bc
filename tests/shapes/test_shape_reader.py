"""Reading shapes: every form, every error, and that the fast way equals the grammar."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from hlo_lens.shapes import shape as shape_reader
from hlo_lens.shapes.shape import Layout, Shape, SplitConfig, Tile, parse_shape
from hlo_lens.text.errors import DumpSyntaxError

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
    assert parse_shape(text) == shape_reader.SHAPES.parse_with_lark(text)


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
    assert parse_shape(text) == shape_reader.SHAPES.parse_with_lark(text)


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
        index_primitive_type="u32",
        pointer_primitive_type="u64",
        split_configs=(SplitConfig(dimension=0, split_indices=(2, 4)),),
        physical_shape=Shape(element_type="u8", dimensions=(2,)),
        dynamic_shape_metadata_prefix_bytes=9,
        dim_level_types=("D", "C"),
        other_properties=("Zz(1)",),
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
    ("f32[8]{1,0}", 1, 7, "expected a layout of 1 dimensions, found one of 2"),
    ("f32[8,2]{:T(8)}", 1, 9, "expected a layout of 2 dimensions, found one of 0"),
    ("f32[8,2]\n  {0,0}", 2, 3, "expected a layout that names each of 0 to 1 once"),
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
    (
        "f32[8]{0:P(f32[2]{0:P(f32[1])})}",
        1,
        10,
        "a physical shape cannot have a physical shape",
    ),
    ("(" * 201 + ")" * 201, 1, 201, "tuples are nested deeper than 200"),
    ("(" * 100_000, 1, 201, "tuples are nested deeper than 200"),
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
    assert parse_shape(text) == shape_reader.SHAPES.parse_with_lark(text)


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
            index_primitive_type=draw(st.sampled_from([None, "u32"])),
            split_configs=tuple(draw(st.lists(SPLITS, max_size=2))),
            dynamic_shape_metadata_prefix_bytes=draw(st.sampled_from([0, 64])),
            dim_level_types=draw(st.sampled_from([(), ("D", "C+"), ("H~",)])),
            other_properties=draw(st.sampled_from([(), ("Z(1,(2))",), ("New",)])),
        )
    return Shape(
        element_type=draw(TYPES),
        dimensions=tuple(size for size, _ in sizes),
        dynamic_dimensions=tuple(size is None or dynamic for size, dynamic in sizes),
        layout=None if layout == Layout() else layout,
        is_buffer=draw(st.booleans()),
    )


SHAPES = st.recursive(
    arrays(), lambda inner: st.lists(inner, max_size=7).map(Shape.tuple_of), max_leaves=20
)
