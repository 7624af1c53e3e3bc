"""Several changes of one program."""

from __future__ import annotations

from hlo_lens import parse_hlo
from hlo_lens.questions.what_if.program_changes import EditRequest, edit_program
from tests.questions.what_if.programs import GSPMD, SHARDY


def test_changes_follow_each_other() -> None:
    request = EditRequest(
        mesh="data=4,model=2",
        donate=("p",),
        shard=("p=P('model')",),
        dtype=("p=bf16",),
        constraint=("drop f.py:7",),
    )
    found = edit_program(parse_hlo(SHARDY), request, parse_hlo)
    assert [(change.kind, change.target) for change in found.changes] == [
        ("mesh", "data=4,model=2"),
        ("donate", "p['w']"),
        ("shard", "p['w']"),
        ("dtype", "p['w']"),
        ("constraint", "f.py:7"),
    ]
    assert [change.request for change in found.changes] == [
        "data=4,model=2",
        "p",
        "p=P('model')",
        "p=bf16",
        "drop f.py:7",
    ]
    assert all(change.applies for change in found.changes)
    assert not found.module.gaps
    assert found.module.header["input_output_alias"] == "{ {0}: (0, {}, may-alias) }"
    (call,) = (one for one in found.module.entry.instructions if one.opcode == "custom-call")
    assert call.shape_text == "bf16[8,64]{1,0}"
    assert call.frontend_attributes["xla.sdy.sharding"] == (
        '#sdy.sharding_per_value<[<@mesh, [{"model"}, {}]>]>'
    )
    assert found.module.entry.parameters[0].shape_text == "bf16[8,64]{1,0}"


def test_nothing_to_change() -> None:
    module = parse_hlo(SHARDY)
    found = edit_program(module, EditRequest(donate=("y",)), parse_hlo)
    assert found.module is module
    assert not found.applies


def test_pairs_that_no_longer_agree_are_made_again() -> None:
    request = EditRequest(donate=("p",), shard=("p=P('data')", "result{0}=P('model')"))
    found = edit_program(parse_hlo(SHARDY), request, parse_hlo)
    assert found.changes[0].effect == "result{0} has its memory"
    assert "input_output_alias" not in found.module.header
    assert found.module.header["buffer_donor"] == "{ (0, {}) }"
    assert found.changes[-1].effect == (
        "donated before; now XLA may use its memory for any result (buffer_donor)"
    )


def test_mesh_of_as_many_devices_names_the_axes_of_a_text_without_names() -> None:
    request = EditRequest(mesh="data=2,model=4", shard=("x=P(None, 'model')",))
    found = edit_program(parse_hlo(GSPMD), request, parse_hlo)
    assert [change.applies for change in found.changes] == [True, True]
    alone = edit_program(parse_hlo(GSPMD), EditRequest(shard=request.shard), parse_hlo)
    assert "name them with --mesh" in alone.changes[0].why_not
    other = EditRequest(mesh="data=4,model=4")
    assert not edit_program(parse_hlo(GSPMD), other, parse_hlo).applies
