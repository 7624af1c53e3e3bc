"""Sharding constraints, dropped from the text and added to it."""

from __future__ import annotations

import pytest

from hlo_lens import parse_hlo
from hlo_lens.questions.what_if.shardings import edit_constraint
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.text.errors import UsageError
from tests.questions.what_if.programs import GSPMD, SHARDY, edited

MESHES = [Mesh.of({"data": 2, "model": 4})]

CHAIN = """HloModule jit_f, num_partitions=8

body (x: f32[8]) -> f32[8] {
  x = f32[8]{0} parameter(0)
  a = f32[8]{0} custom-call(x), custom_call_target="Sharding", metadata={source_file="f.py" source_line=3}
  ROOT b = f32[8]{0} custom-call(a), custom_call_target="Sharding", metadata={source_file="f.py" source_line=3}
}

ENTRY main (p: f32[8]) -> f32[8] {
  p = f32[8]{0} parameter(0)
  ROOT c = f32[8]{0} call(p), to_apply=body
}
"""  # noqa: E501

GRADIENT = """HloModule jit_f, num_partitions=8

ENTRY main (p: f32[8]) -> (f32[8], f32[8]) {
  p = f32[8]{0} parameter(0)
  a = f32[8]{0} tanh(p), metadata={op_name="jit(f)/tanh" source_file="f.py" source_line=3}
  s = f32[8]{0} multiply(a, a), metadata={op_name="jit(f)/mul" source_file="f.py" source_line=3}
  b = f32[8]{0} sine(a), metadata={op_name="jit(f)/sin" source_file="f.py" source_line=4}
  g = f32[8]{0} cosine(b), metadata={op_name="transpose(f)/g" source_file="f.py" source_line=4}
  t = f32[8]{0} multiply(g, s), metadata={op_name="transpose(f)/mul" source_file="f.py" source_line=3}
  ROOT r = (f32[8]{0}, f32[8]{0}) tuple(b, t)
}
"""  # noqa: E501


@pytest.mark.parametrize("text", [SHARDY, GSPMD])
def test_dropped_at_its_line(text: str) -> None:
    edit = edit_constraint(parse_hlo(text), ["drop f.py:7"])
    module = edited(text, edit)
    assert module.entry.instruction("con.1") is None
    assert module.entry.root is not None
    assert module.entry.root.operand_names[1] == "dot.1"
    assert [(change.target, change.effect) for change in edit.changes] == [("f.py:7", "1 dropped")]


@pytest.mark.parametrize("text", [SHARDY, GSPMD])
def test_added_where_the_value_leaves_its_line(text: str) -> None:
    request = "add u/f.py:6=P('data', 'model')"
    module = edited(text, edit_constraint(parse_hlo(text), [request], meshes=MESHES))
    old = module.entry.instruction("con.1")
    assert old is not None
    made = old.producer(0)
    assert made is not None
    assert made[0].operand_names == ("dot.1",)
    new, known = dict(made[0].attributes), dict(old.attributes)
    del known["metadata"]
    assert new == known


def test_a_chain_that_is_the_result() -> None:
    module = edited(CHAIN, edit_constraint(parse_hlo(CHAIN), ["drop f.py:3"]))
    (body, _) = module.computations
    assert [(one.name, one.is_root) for one in body.instructions] == [("x", True)]


def test_gradients_are_constrained_too() -> None:
    request = "add f.py:3=P('data')"
    edit = edit_constraint(parse_hlo(GRADIENT), [request], meshes=MESHES)
    assert edit.changes[0].effect == (
        "1 of P('data',) over mesh['data'=2,'model'=4] added and 1 of gradients"
    )
    operands = {one.name: one.operand_names for one in edited(GRADIENT, edit).entry.instructions}
    assert operands["s"] == ("a", "a")
    assert operands["b"] == ("a.edited.1",)
    assert operands["t"] == ("g.edited.1", "s")


def test_added_and_dropped_is_the_text_again() -> None:
    added = edit_constraint(parse_hlo(GRADIENT), ["add f.py:4=P('data')"], meshes=MESHES)
    text = added.text_of(parse_hlo(GRADIENT))
    call = '{source_file="f.py" source_line=9}'
    marked = text.replace(
        "sharding={devices=[2,4]<=[8] last_tile_dim_replicate}", f"metadata={call}"
    )
    again = edit_constraint(parse_hlo(marked), ["drop f.py:9"]).text_of(parse_hlo(marked))
    assert again == GRADIENT


def test_reasons() -> None:
    for request, reason in (
        ("drop f.py:6", "there is no sharding constraint; there are at /u/f.py:7"),
        ("drop g.py:7", "there is no sharding constraint; there are at /u/f.py:7"),
        ("add f.py:99=P('data')", "no array is computed at this line"),
        ("add f.py:6=P('z')", "no axis z in mesh['data'=2,'model'=4]"),
        ("add f.py:6=P(None, None, 'data')", "is for 3 dimensions, it has 2"),
    ):
        (change,) = edit_constraint(parse_hlo(SHARDY), [request]).changes
        assert not change.applies
        assert reason in change.why_not
    shard_map = SHARDY.replace('"sharding_constraint"', '"jit(f)/shard_map"')
    (change,) = edit_constraint(parse_hlo(shard_map), ["drop f.py:7"]).changes
    assert change.why_not == "it belongs to a shard_map"
    for bad in ("f.py:7", "add f.py:7", "drop f.py:7=P()", "drop f.py"):
        with pytest.raises(UsageError, match="not a constraint"):
            edit_constraint(parse_hlo(SHARDY), [bad])
