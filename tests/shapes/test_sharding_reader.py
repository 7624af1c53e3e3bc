"""Reading shardings: every form and every error."""

from __future__ import annotations

import pytest

from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.sharding import HloSharding, ShardGroup, parse_sharding
from hlo_lens.text.errors import DumpSyntaxError

FORMS = [
    ("{replicated}", "replicated", ShardingKind.REPLICATED),
    ("{maximal device=3}", "maximal", ShardingKind.MAXIMAL),
    ("{maximal device=-1}", "maximal", ShardingKind.MAXIMAL),
    ("{manual}", "manual", ShardingKind.MANUAL),
    ("{unknown}", "unknown", ShardingKind.UNKNOWN),
    ("{unreduced}", "unreduced", ShardingKind.UNREDUCED),
    ("{unreduced=max}", "unreduced", ShardingKind.UNREDUCED),
    ("{}", "tuple", ShardingKind.TUPLE),
    ("{{replicated}}", "tuple", ShardingKind.TUPLE),
    ("{{replicated}, {devices=[2]<=[2]}}", "tuple", ShardingKind.TUPLE),
    ("{devices=[4,2]0,1,2,3,4,5,6,7}", "v1-list", ShardingKind.TILED),
    ("{devices=[2]0,1 last_tile_dim_replicate}", "v1-list", ShardingKind.REPLICATED),
    ("{devices=[4,2]<=[8]}", "v2-iota", ShardingKind.TILED),
    ("{devices=[4,2]<=[2,4]T(1,0)}", "v2-iota", ShardingKind.TILED),
    (
        "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
        "v2-iota",
        ShardingKind.TILED,
    ),
    (
        "{devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}",
        "v2-iota",
        ShardingKind.TILED,
    ),
    ("{replicated shard_as 1}", "replicated", ShardingKind.REPLICATED),
    ("{devices=[2]<=[2] shard_like 3}", "v2-iota", ShardingKind.TILED),
    ("{mesh['x'=4,'y'=2], [{'x'}, {'y'}]}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=4,'y'=2], [{'x', ?}, {}], replicated={'y'}}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=4,'y'=2], [{'x':(2)2}, {}]}", "v3-named", ShardingKind.TILED),
    (
        "{mesh['x'=4,'y'=2], device_ids=(7,6,5,4,3,2,1,0), [{'x'}, {'y'}]}",
        "v3-named",
        ShardingKind.TILED,
    ),
    ("{mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)), [{'x'}]}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=8], replicated}", "v3-named", ShardingKind.REPLICATED),
    ("{mesh['x'=8], []}", "v3-named", ShardingKind.REPLICATED),
    ("{mesh[], replicated}", "v3-named", ShardingKind.REPLICATED),
    ("{mesh['x'=8], unreduced}", "v3-named", ShardingKind.UNREDUCED),
    ("{mesh['x'=8], unreduced=max}", "v3-named", ShardingKind.UNREDUCED),
    ("{mesh['x'=8], manual}", "v3-named", ShardingKind.MANUAL),
    ("{mesh['x'=4,'y'=2], [{'x'}], unreduced={'y'}}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=4,'y'=2], [{'x'}], unreduced=max{'y'}}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=4,'y'=2], [{'x'}], manual={'y'}}", "v3-named", ShardingKind.TILED),
    ("{maximal_mesh[device_id=3]}", "v3-named", ShardingKind.MAXIMAL),
    ("{@mesh<x=4,y=2>, [{x}]}", "v3-named", ShardingKind.TILED),
    ("{single_device[device_id=3]}", "v3-named", ShardingKind.MAXIMAL),
    ("{@maximal_mesh<device_id=0>}", "v3-named", ShardingKind.MAXIMAL),
    ("{@maximal_mesh<device_ids=[5]>, []}", "v3-named", ShardingKind.MAXIMAL),
    ("{mesh[a=2,b=4], [{}, {b, ?}]}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=2] [{'x'}]}", "v3-named", ShardingKind.TILED),
    ("{mesh['a.b'=2,'<x> def'=4], [{'<x> def':(2)2, 'a.b'}]}", "v3-named", ShardingKind.TILED),
]


@pytest.mark.parametrize(("text", "form", "kind"), FORMS)
def test_every_form_is_read_and_kept(text: str, form: str, kind: ShardingKind) -> None:
    sharding = parse_sharding(text)
    assert (sharding.form, sharding.kind) == (form, kind)
    assert str(sharding) == sharding.text == text


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        ('{replicated metadata={op_name="a"}}', 'op_name="a"'),
        (
            '{devices=[2]<=[2] metadata={{op_name="a"},{op_name="}"}}}',
            '{op_name="a"},{op_name="}"}',
        ),
        ("{manual shard_like 2 metadata={op_name='q'}}", "op_name='q'"),
        ("{mesh['x'=4], [{'x'}], metadata={{op_name=\"a\\\"b\"}}}", '{op_name="a\\"b"}'),
        ('{replicated, metadata={{op_name="a"}}}', '{op_name="a"}'),
        ('{maximal device=1, metadata={{op_name="a"}}}', '{op_name="a"}'),
        ('{unreduced=max, metadata={{op_name="a"}}}', '{op_name="a"}'),
    ],
)
def test_metadata_is_kept_as_text(text: str, metadata: str) -> None:
    sharding = parse_sharding(text)
    assert sharding.metadata == metadata
    assert sharding.text == text


@pytest.mark.parametrize(
    ("text", "reduction"),
    [
        ("{unreduced}", None),
        ("{unreduced=max}", "max"),
        ("{mesh['x'=4,'y'=2], [{'x'}], unreduced=min{'y'}}", "min"),
        ('{unreduced metadata={op_type="sdy::reduction_op" op_name="MAX"}}', "max"),
    ],
)
def test_reduction_is_read_from_either_place(text: str, reduction: str | None) -> None:
    assert parse_sharding(text).reduction == reduction


def test_reduction_is_printed_where_the_text_is_not_kept() -> None:
    text = "{mesh['x'=4,'y'=2], [{'x'}], unreduced=min{'y'}}"
    assert str(parse_sharding(f"{{{text}}}").elements[0]) == text
    assert str(parse_sharding(text).to_v2()) == (
        "{devices=[4,2]<=[8] last_tile_dims={unreduced} "
        'metadata={op_type="sdy::reduction_op" op_name="MIN"}}'
    )


def test_parts_may_come_in_any_order() -> None:
    sharding = parse_sharding("{shard_as 1 last_tile_dim_replicate devices=[2,2]<=[4]}")
    assert sharding.shard_group == ShardGroup(keyword="shard_as", group_id=1)
    assert sharding == parse_sharding("{devices=[2,2]<=[4] last_tile_dim_replicate shard_as 1}")


def test_tuple_has_one_element_for_each_leaf() -> None:
    text = "{{replicated}, {manual}, {manual}, {manual}, {manual}, /*index=5*/{devices=[2]<=[2]}}"
    sharding = parse_sharding(text)
    assert [str(element) for element in sharding.elements] == ["{replicated}"] + [
        "{manual}"
    ] * 4 + ["{devices=[2]<=[2]}"]
    assert str(HloSharding(kind=ShardingKind.TUPLE, elements=sharding.elements)) == text


def test_axis_may_be_named_by_its_number() -> None:
    assert parse_sharding("{mesh['x'=4,'y'=2], [{'1'}]}") == parse_sharding(
        "{mesh['x'=4,'y'=2], [{'y'}]}"
    )


def test_trivial_device_order_is_no_order() -> None:
    assert parse_sharding("{mesh['x'=4], device_ids=([4]), [{'x'}]}") == parse_sharding(
        "{mesh['x'=4], [{'x'}]}"
    )


ERRORS = [
    ("", 1, "expected a sharding or '{', found the end"),
    ("replicated", 1, "expected a sharding or '{', found 'replicated'"),
    ("{", 2, "expected a sharding or '}', found the end"),
    ("{{}}", 2, "expected a sharding or '}', found '{'"),
    (
        "{foo}",
        2,
        "expected a kind of sharding, 'devices=', 'last_tile_dim_replicate' or "
        "'last_tile_dims=', found 'foo'",
    ),
    ("{replicated} x", 14, "expected the end of the text, found 'x'"),
    ("{replicated manual}", 1, "a part of the sharding occurs twice"),
    (
        "{devices=[2]<=[2] manual}",
        1,
        "expected one of a kind of sharding, a device and 'devices='",
    ),
    ("{shard_as 1}", 1, "expected one of a kind of sharding, a device and 'devices='"),
    (
        "{manual last_tile_dim_replicate}",
        1,
        "expected 'devices=' before its last dimensions",
    ),
    (
        "{devices=[2]<=[2] last_tile_dims={manual, replicated}}",
        1,
        "2 kinds of subgroups for 1 dimensions",
    ),
    (
        "{devices=[4,2]<=[8], last_tile_dim_replicate}",
        20,
        "expected a kind of sharding, 'devices=', 'last_tile_dim_replicate' or "
        "'last_tile_dims=', found ','",
    ),
    ("{devices=[3]0,1}", 13, "expected 3 devices, found 2"),
    ("{devices=[2,2]<=[3]}", 18, "expected 2x2 devices, found 3"),
    ("{devices=[2,2]<=[4]T(1,0)}", 22, "expected a permutation of 1 dimensions, found one of 2"),
    ("{devices=[2,2]<=[2,2]T(0,0)}", 24, "expected a permutation of 0 to 1"),
    ("{devices=[0]<=[0]}", 2, "expected at least one device"),
    ("{devices=[9999999]<=[9999999]}", 2, "more than 1048576 devices"),
    ("{devices=[2,-1]0,1}", 13, "expected a number, found '-1'"),
    (
        "{mesh['x'=4]}",
        13,
        "expected a kind of sharding, 'metadata=', 'replicated=', 'unreduced=' or 'manual=' or "
        "', device_ids=', found '}'",
    ),
    ("{mesh['x'=0], []}", 11, "expected a number above 0, found 0"),
    ("{mesh['x'=9999999], []}", 2, "more than 1048576 devices"),
    ("{mesh['x'=2,'x'=2], []}", 2, "two axes of the mesh have one name"),
    ("{mesh['x'=4], device_ids=(0,1), []}", 27, "expected 4 devices, found 2"),
    ("{mesh['x'=4], [{'z'}]}", 17, "expected an axis of the mesh (x), found 'z'"),
    ("{mesh['x'=4], [{'7'}]}", 17, "expected an axis of the mesh (x), found '7'"),
    ("{mesh['x'=4], [{'x':(3)2}]}", 17, "sub-axis (3)2 does not divide an axis of size 4"),
    ("{mesh['x'=4], [{'x'}, {'x'}]}", 1, "axes 'x' and 'x' overlap"),
    ("{mesh['x'=4], [{'x'}], [{'x'}]}", 1, "a part of the sharding occurs twice"),
    ("{replicated={'x'}}", 1, "expected a mesh before its axes"),
    ("{replicated, [{'x'}]}", 14, "expected 'metadata=', found '['"),
]


@pytest.mark.parametrize(("text", "column", "message"), ERRORS)
def test_error_names_place_and_alternatives(text: str, column: int, message: str) -> None:
    with pytest.raises(DumpSyntaxError) as caught:
        parse_sharding(text)
    assert (caught.value.line, caught.value.column, caught.value.message) == (1, column, message)
