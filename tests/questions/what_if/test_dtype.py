"""Element types of stored arguments, edited in the text."""

from __future__ import annotations

import pytest

from hlo_lens import parse_hlo
from hlo_lens.questions.what_if.stored_types import edit_donation, edit_dtype
from hlo_lens.text.errors import UsageError
from tests.questions.what_if.programs import GSPMD, ONE_DEVICE, SHARDY, edited


def test_conversions_at_the_border() -> None:
    module = edited(ONE_DEVICE, edit_dtype(parse_hlo(ONE_DEVICE), ["state['w'][0].mu=bfloat16"]))
    parameter = module.entry.parameters[0]
    assert parameter.shape_text == "bf16[8,16]{1,0}"
    users = module.links.users_of(parameter.row)
    (convert,) = (module.instruction(row) for row, _ in users)
    assert (convert.name, convert.opcode, convert.shape_text) == (
        "a.1",
        "convert",
        "f32[8,16]{1,0}",
    )
    root = module.entry.root
    assert root is not None
    assert root.shape_text.startswith("(bf16[8,16]{1,0}, f32[8,16]{1,0}")
    made = root.producer(0)
    assert made is not None
    assert (made[0].opcode, made[0].operand_names) == ("convert", ("add.1",))
    layout = module.entry_computation_layout
    assert layout is not None
    assert [shape.element_type for shape in layout.parameters] == ["bf16", "f32", "f32", "f32"]
    assert [shape.element_type for shape in layout.result.tuple_shapes] == ["bf16", *["f32"] * 3]


def test_the_result_with_the_memory_is_what_an_argument_becomes() -> None:
    header = "HloModule jit_step, input_output_alias={ {1}: (0, {}, may-alias) }"
    text = ONE_DEVICE.replace("HloModule jit_step", header)
    (change,) = edit_dtype(parse_hlo(text), ["state['w'][0].mu=bf16"]).changes
    assert change.effect == "f32 is stored as bf16; so is result{1}, which it becomes"


@pytest.mark.parametrize("text", [SHARDY, GSPMD])
def test_a_result_of_stated_sharding(text: str) -> None:
    module = edited(text, edit_dtype(parse_hlo(text), ["p=bf16"]))
    root = module.entry.root
    assert root is not None
    made = root.producer(0)
    assert made is not None
    assert made[0].shape_text == "bf16[8,64]{1,0}"
    assert made[0].opcode == ("custom-call" if text is SHARDY else "convert")
    types = {one.opcode: one.shape_text.partition("[")[0] for one in module.entry.instructions}
    assert types["reshape"] == ("bf16" if text is SHARDY else "f32")
    assert types["negate"] == types["dot"] == "f32"


def test_a_program_whose_signature_is_printed() -> None:
    signature = "%main.1 (a: f32[8,16], b: f32[8,16], c: f32[16,8], /*index=3*/d: f32[4]) -> ("
    text = ONE_DEVICE.replace("%main.1", signature + "f32[8,16], f32[8,16], f32[128], f32[])")
    module = edited(text, edit_dtype(parse_hlo(text), ["d=f16", "state['w'][0].nu=f64"]))
    assert module.entry.signature_text == (
        "(a: f32[8,16], b: f64[8,16], c: f32[16,8], /*index=3*/d: f16[4]) -> "
        "(f32[8,16], f64[8,16], f32[128], f32[])"
    )


def test_an_argument_that_is_the_result() -> None:
    text = "HloModule m\n\nENTRY %e {\n  ROOT %a = f32[2]{0} parameter(0)\n}\n"
    module = edited(text, edit_dtype(parse_hlo(text), ["a=bf16"]))
    opcodes = [(one.opcode, one.shape_text, one.is_root) for one in module.entry.instructions]
    assert opcodes == [
        ("parameter", "bf16[2]{0}", False),
        ("convert", "f32[2]{0}", False),
        ("convert", "bf16[2]{0}", True),
    ]


def test_donation_stays() -> None:
    donated = edit_donation(parse_hlo(ONE_DEVICE), donate=["state"]).text_of(parse_hlo(ONE_DEVICE))
    module = edited(donated, edit_dtype(parse_hlo(donated), ["state=bf16"]))
    again = edit_donation(module, donate=["state"])
    assert [change.why_not for change in again.changes] == [
        "already donated; result{0} has its memory",
        "already donated; result{1} has its memory",
    ]


def test_reasons() -> None:
    text = ONE_DEVICE.replace("f32[4]", "s32[4]")
    edit = edit_dtype(parse_hlo(text), ["d=bf16", "c=f32", "y=f32"])
    assert [change.why_not for change in edit.changes][:2] == [
        "s32 is not stored as bf16",
        "it is f32 already",
    ]
    assert not edit.applies
    with pytest.raises(UsageError, match="not a type of arguments"):
        edit_dtype(parse_hlo(text), ["c=real"])


def test_argument_with_the_sharding_of_the_result_becomes_it() -> None:
    text = (
        "HloModule jit_f, entry_computation_layout={(f32[8,64]{1,0}, f32[8,64]{1,0})->(f32[8,64]"
        "{1,0})}, allow_spmd_sharding_propagation_to_output={false}, num_partitions=8\n\n"
        "ENTRY %main.1 {\n"
        "  %a.1 = f32[8,64]{1,0} parameter(0), sharding={devices=[2,1,4]<=[8] "
        'last_tile_dim_replicate}, metadata={op_name="a"}\n'
        "  %b.1 = f32[8,64]{1,0} parameter(1), sharding={devices=[1,8]<=[8]}, "
        'metadata={op_name="b"}\n'
        "  %c.1 = f32[8,64]{1,0} add(%a.1, %b.1)\n"
        "  ROOT %t.1 = (f32[8,64]{1,0}) tuple(%c.1), sharding={{devices=[1,8]<=[8]}}\n}\n"
    )
    for name, result in (("a", "f32"), ("b", "bf16")):
        module = edited(text, edit_dtype(parse_hlo(text), [f"{name}=bf16"]))
        assert module.entry.root is not None
        assert module.entry.root.shape_text.startswith(f"({result}[")
