"""Forms of attribute values, which are those of the grammar."""

from __future__ import annotations

import pytest

from hlo_lens.hlo.attributes import forms

VALUES = {
    "dimensions": ("{1, 0}", "{1,}"),
    "channel_id": ("_", "x"),
    "is_stable": ("true", "yes"),
    "custom_call_target": ('"x"', "x"),
    "control-predecessors": ("{%a, b#1}", "{1}"),
    "source_target_pairs": ("{{0,1}, {1,0}}", "{0,1}"),
    "slice": ("{[0:8], [0:8:2]}", "{[0:8}"),
    "window": ("{size=3x3 pad=1_1x0_0}", "{size=3x}"),
    "padding": ("0_1x-2_3_1", "1"),
    "to_apply": ("%add.1", "{1}"),
    "branch_computations": ("{%a, %b}", "{%a %b}"),
    "input_output_alias": ("{ {0}: (0, {}, may-alias), {1,0}: (2, {3}) }", "{0: 1}"),
    "output_to_operand_aliasing": ("{{}: (0, {})}", "{"),
    "metadata": ('{op_name="a" source_line=3}', "{op_name=x y}"),
    "backend_config": ('{"a":{"b":"}"}}', "x"),
    "operand_layout_constraints": ("{f32[8]{0}, (f32[2], s32[])}", "{x}"),
    "allow_spmd_sharding_propagation_to_output": ("{true,false}", "{1}"),
    "frontend_attributes": ('{a="b"c"}', "{a=1}"),
}


@pytest.mark.parametrize(("name", "right", "wrong"), [(n, *v) for n, v in VALUES.items()])
def test_each_value_has_the_form_of_the_grammar(name: str, right: str, wrong: str) -> None:
    form = forms()[name].pattern
    assert form.fullmatch(right)
    assert not form.fullmatch(wrong)


def test_attributes_without_a_form_are_known() -> None:
    assert {"sharding", "replica_groups", "literal", "origin", "debug_attributes"} <= set(forms())
