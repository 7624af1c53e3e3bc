"""Parameters and outputs of the entry."""

from __future__ import annotations

from hlo_lens.load.programs import modules_of
from hlo_lens.program.signature import MOST_LEAVES, EntrySignature, entry_signature
from tests.questions.texts import LOOP, entry_module, module_of


def test_parameter_has_name_layout_sharding_and_donation() -> None:
    result = entry_signature(module_of(LOOP))
    assert result.parameter_count == 3
    names = [column.name for column in EntrySignature.COLUMNS]
    assert dict(zip(names, next(result.rows()), strict=True)) == {
        "kind": "parameter",
        "number": 0,
        "index": "",
        "name": "params['w']",
        "shape": "f32[8,16]",
        "layout": "{1,0}",
        "size_bytes": 512,
        "padded_size_bytes": 512,
        "sharding": "{devices=[4,1]<=[4]}",
        "donation": "must-alias",
        "aliased_with": "{1}",
    }
    assert [(v.name, v.donation) for v in result.parameters[1:]] == [("b", "donor"), ("n", None)]


def test_output_has_the_parameter_that_shares_its_buffer() -> None:
    result = entry_signature(module_of(LOOP))
    found = [(v.index, v.name, v.size_bytes, v.aliased_with) for v in result.outputs]
    assert found == [("{0}", "loop", 4, None), ("{1}", "loop", 512, "0")]


def test_output_of_a_tuple_is_named_by_its_operand() -> None:
    module = entry_module(
        """
  x = f32[4]{0} parameter(0)
  y = f32[4]{0} negate(x)
  ROOT t = (f32[4]{0}, f32[4]{0}) tuple(y, x), sharding={{devices=[2]<=[2]}, {replicated}}"""
    )
    found = [(v.name, v.sharding) for v in entry_signature(module).outputs]
    assert found == [("y", "{devices=[2]<=[2]}"), ("x", "{replicated}")]


def test_tuple_parameter_has_a_row_for_each_leaf() -> None:
    module = entry_module(
        "  ROOT p = (f32[4]{0}, (s32[], bf16[2]{0})) parameter(0)",
        ", input_output_alias={ {1,1}: (0, {1,1}) }",
    )
    result = entry_signature(module)
    assert result.parameter_count == 1
    found = [(v.number, v.index, v.size_bytes, v.aliased_with) for v in result.parameters]
    assert found == [(0, "{0}", 16, None), (0, "{1,0}", 4, None), (0, "{1,1}", 4, "{1,1}")]
    assert [v.aliased_with for v in result.outputs] == [None, None, "0{1,1}"]


def test_tuple_with_too_many_leaves_is_one_row() -> None:
    count = MOST_LEAVES + 1
    module = entry_module(f"  ROOT p = ({', '.join(['s8[2]'] * count)}) parameter(0)")
    result = entry_signature(module)
    found = [(v.index, v.size_bytes) for v in (*result.parameters, *result.outputs)]
    assert found == [("", 2 * count), ("", 2 * count)]


def test_parameters_are_sorted_by_number_with_layouts_of_the_header() -> None:
    module = entry_module(
        """
  b = bf16[100]{0} parameter(1)
  a = bf16[10]{0} parameter(0)
  ROOT t = (bf16[100]{0}) tuple(b)""",
        ", entry_computation_layout="
        "{(bf16[10]{0:T(128)(2,1)}, bf16[100]{0:T(128)(2,1)})->(bf16[100]{0:T(128)(2,1)})}",
    )
    result = entry_signature(module)
    found = [(v.name, v.size_bytes, v.padded_size_bytes) for v in result.parameters]
    assert found == [("a", 20, 256), ("b", 200, 256)]
    assert result.parameters[0].layout == "{0:T(128)(2,1)}"


def test_unknown_size_is_none() -> None:
    result = entry_signature(entry_module("  ROOT x = f32[?]{0} parameter(0)"))
    assert [v.size_bytes for v in (*result.parameters, *result.outputs)] == [None, None]


def test_module_without_computations_has_no_signature() -> None:
    result = entry_signature(modules_of("HloModule nothing\n")[0])
    assert (result.parameter_count, list(result.rows())) == (None, [])
    assert not result.is_complete
