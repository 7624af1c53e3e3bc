"""HLO text in the dialects of five years."""

from __future__ import annotations

import pytest

from hlo_lens.hlo.text import HloOperand
from tests.hlo_texts import E1, E2, E2_LONG, E3, E4, E5, one, read


@pytest.mark.parametrize(
    ("text", "name", "computations", "instructions", "root"),
    [
        (E1, "train__3.11", 2, 11, "tuple"),
        (E2, "jit_f", 2, 10, "all-gather-done"),
        (E2_LONG, "jit_g", 1, 3, "all-to-all-done"),
        (E3, "jit_h", 1, 3, "add.1"),
        (E4, "jit_k", 2, 8, "all-to-all.1"),
        (E5, "jit_n", 3, 12, "copy"),
    ],
    ids=["E1", "E2", "E2_LONG", "E3", "E4", "E5"],
)
def test_every_dialect_is_read_whole(
    text: str, name: str, computations: int, instructions: int, root: str
) -> None:
    module = read(text)
    assert (module.name, len(module.computations)) == (name, computations)
    assert module.instruction_count == instructions
    assert module.entry.root is not None
    assert module.entry.root.name == root
    assert not module.is_truncated


def test_2022_dump_scatters_its_parameters() -> None:
    parameters = read(E1).entry.parameters
    assert [(p.parameter_number, p.name) for p in parameters] == [
        (0, "param"),
        (1, "param.1"),
        (2, "param.2"),
    ]


def test_a_computation_and_an_instruction_may_have_one_name() -> None:
    module = read(E1)
    summing = module.computation("sum")
    assert summing is not None
    assert summing.root is not None
    assert summing.root.name == "sum"
    assert [i.name for i in summing.callers] == ["all-reduce"]


def test_name_after_the_closing_brace_is_a_comment() -> None:
    module = read(E2)
    assert [c.name for c in module.computations] == ["fused_computation", "main.5_spmd"]
    assert all(c.attributes_text == "" for c in module.computations)


def test_long_style_keeps_the_signature() -> None:
    assert read(E3).entry.signature_text == "(param: f32[2,8]) -> f32[8,8]"
    assert read(E2).entry.signature_text == ""


def test_operand_shapes_are_kept_beside_the_names() -> None:
    done = read(E2_LONG).entry.root
    assert done is not None
    assert done.operands == (
        HloOperand(name="all-to-all-start", shape_text="((c64[4,8]{1,0}), c64[4,8]{1,0})"),
    )


def test_mesh_groups_hold_their_device_ids() -> None:
    last = read(E4).entry.root
    assert last is not None
    assert last.attributes["replica_groups"] == (
        "mesh['axis_0'=2,'axis_1'=4], device_ids=([2,2,2]T(0,2,1)) {'axis_1':(2)2}"
    )
    assert list(last.attributes) == ["channel_id", "replica_groups", "metadata"]
    assert last.device_list is not None
    assert last.device_list.flattened_replica_groups() == ((0, 2), (1, 3), (4, 6), (5, 7))


def test_compact_operands_name_the_tuple_and_the_index() -> None:
    last = read(E5).entry.root
    assert last is not None
    assert last.operand_names == ("while.1",)
    assert last.operands == (HloOperand(name="while.1", index=(1,)),)


def test_compact_index_may_go_several_levels_down() -> None:
    last = one("r = f32[8] add(%p#0#12, q#3)")
    assert last.operands == (
        HloOperand(name="p", index=(0, 12)),
        HloOperand(name="q", index=(3,)),
    )


def test_compact_operand_may_print_the_shape_of_the_element() -> None:
    last = one("r = f32[8] add(f32[8]{0} %p#1, f32[8]{0} %q#0#1)")
    assert last.operands == (
        HloOperand(name="p", index=(1,), shape_text="f32[8]{0}"),
        HloOperand(name="q", index=(0, 1), shape_text="f32[8]{0}"),
    )
