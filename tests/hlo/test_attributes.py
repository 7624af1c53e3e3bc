"""Attributes of an instruction."""

from __future__ import annotations

import pytest

from tests.hlo_texts import one

KEPT = [
    ("dimensions", "{0,1}"),
    ("slice", "{[0:3:1], [1:4:2]}"),
    ("window", "{size=3x3 stride=2x2 pad=1_1x1_1 rhs_reversal=0x1}"),
    ("dim_labels", "b01f_01io->b01f"),
    ("padding", "3_1x-1_0_2"),
    ("slice_sizes", "{{128,32}, {1}}"),
    ("source_target_pairs", "{{0,1},{1,0}}"),
    ("literal", "s32[2]{0} {1, 2}"),
    ("outfeed_shape", "(u32[3]{0}, pred[])"),
    ("operand_layout_constraints", "{f32[2]{0}, f32[]}"),
    ("output_to_operand_aliasing", "{{0}: (1, {}), {1}: (0, {0})}"),
    ("domain", '{kind="sharding", entry={maximal device=0}, exit={maximal device=1}}'),
    ("sharding", "{devices=[2,1]0,1}"),
    ("sharding", "{{replicated}, {devices=[2]<=[2]}}"),
    ("sharding", "{mesh['x'=4,'y'=2], [{'x'}, {'y', ?}], replicated={}}"),
    ("frontend_attributes", '{a="b",c={d = 1 : i32}}'),
    ("statistics", "{visualizing_index=1,stat-1=33,stat-2=44}"),
    ("result_accuracy", "{tolerance={atol=0.1,rtol=0,ulps=3}}"),
    ("origin", '{({"a"}, ({"b" {0}}, {}))}'),
    ("metadata", '{op_name="}{)(,ROOT x = f32[] add(a"}'),
    ("metadata", "{op_name='a' source_line=3}"),
    ("backend_config", '{"a":{"b":[1,"}"]}}'),
    ("backend_config", "{uplo = 76 : ui8}"),
    ("backend_config", "{it's a+b*c<d>e!@#$^&|;:.}"),
    ("backend_config", r'"{\"alpha\":1}"'),
    ("algorithm", "dot_bf16_bf16_f32_x6"),
    ("epsilon", "0.001"),
    ("channel_id", "_"),
    ("control-predecessors", "{%p, %q}"),
    ("parameter_replication", "{true,false}"),
    ("of_next_year", '{a=[1,2] "x"}'),
    ("of_next_year", "Some.Word-1"),
    ("of_next_year", "[1, 2](3, {4})"),
    ("of_next_year", "'single, quoted'"),
]


@pytest.mark.parametrize(("name", "value"), KEPT)
def test_attribute_is_kept_as_written(name: str, value: str) -> None:
    instruction = one(f"r = f32[8] add(p, q), first=1, {name}={value}, last=2")
    assert instruction.attribute_list == (("first", "1"), (name, value), ("last", "2"))
    assert instruction.attribute(name) == value
    assert instruction.attribute("missing") is None


def test_first_value_of_a_repeated_attribute_counts() -> None:
    instruction = one(
        'r = ((f32[8]), f32[8], u32[]) custom-call-start(p), custom_call_target="x", '
        'frontend_attributes={a="1"}, calls=f, frontend_attributes={a="2"}'
    )
    assert instruction.attributes["frontend_attributes"] == '{a="1"}'
    assert instruction.frontend_attributes == {"a": "1"}
    assert [name for name, _ in instruction.attribute_list].count("frontend_attributes") == 2


def test_attribute_name_inside_a_string_is_no_attribute() -> None:
    instruction = one('r = f32[8] add(p, q), metadata={op_name="x, sharding={replicated}"}')
    assert instruction.attribute("sharding") is None
    assert instruction.sharding is None


def test_frontend_attributes_are_unquoted() -> None:
    instruction = one(
        r'r = f32[8] add(p, q), frontend_attributes={plain="v",inner="<[\"x\"]>",raw={n = 1 : i32}}'
    )
    assert instruction.frontend_attributes == {
        "plain": "v",
        "inner": '<["x"]>',
        "raw": "{n = 1 : i32}",
    }


def test_unescaped_quotes_of_old_dumps_stay_in_the_value() -> None:
    instruction = one(
        'r = f32[8] add(p, q), frontend_attributes={a="#m<["x"=2]>",b="2"}, channel_id=3'
    )
    assert instruction.frontend_attributes == {"a": '#m<["x"=2]>', "b": "2"}
    assert instruction.channel_id == 3


def test_control_predecessors_are_names() -> None:
    assert one("r = f32[8] add(p, q), control-predecessors={%p, q}").control_predecessors == (
        "p",
        "q",
    )
    assert one("r = f32[8] add(p, q)").control_predecessors == ()


def test_control_predecessors_may_be_compact() -> None:
    instruction = one("r = f32[8] add(p, q), control-predecessors={%p#0, %q#1#2}")
    assert instruction.control_predecessors == ("p", "q")


def test_masked_channel_is_none() -> None:
    assert one("r = f32[8] all-reduce(p), channel_id=7").channel_id == 7
    assert one("r = f32[8] all-reduce(p), channel_id=_").channel_id is None
    assert one("r = f32[8] all-reduce(p)").channel_id is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("{replicated}", 8),
        ("{devices=[2]0,1}", 4),
        ("{devices=[4]<=[4]}", 2),
        ("{mesh['x'=8], [{'x'}]}", 1),
    ],
)
def test_sharding_is_parsed_in_each_form(text: str, size: int) -> None:
    instruction = one(f"r = f32[8] add(p, q), sharding={text}")
    assert instruction.sharding is not None
    assert instruction.shape is not None
    assert instruction.sharding.shard_shape(instruction.shape).dimensions == (size,)


def test_sharding_is_none_if_not_printed() -> None:
    assert one("r = f32[8] add(p, q)").sharding is None
