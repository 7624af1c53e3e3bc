"""Another mesh, edited in the text."""

from __future__ import annotations

import pytest

from hlo_lens import parse_hlo
from hlo_lens.questions.what_if.meshes import edit_mesh
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.text.errors import UsageError
from tests.questions.what_if.programs import GSPMD, ONE_DEVICE, SHARDY, edited

MESHES = [Mesh.of({"data": 2, "model": 4})]

NAMED = """HloModule jit_f, num_partitions=8

ENTRY %main.1 {
  %x.1 = f32[16,8]{1,0} parameter(0), sharding={mesh['data'=2,'model'=4], [{'data'}, {}]}
  ROOT %r.1 = f32[16,8]{1,0} negate(%x.1), sharding={mesh['data'=2,'model'=4], [{}, {'model'}]}
}
"""


def resized(text: str, request: str) -> str:
    module = parse_hlo(text)
    return edit_mesh(module, request, meshes=MESHES).text_of(module)


def refusal(text: str, request: str) -> str:
    edit = edit_mesh(parse_hlo(text), request)
    assert not edit.replacements
    (change,) = edit.changes
    assert change.applies is False
    return change.why_not


def test_shardy_keeps_its_shardings_and_gets_other_meshes() -> None:
    edit = edit_mesh(parse_hlo(SHARDY), "data=8,model=2")
    module = edited(SHARDY, edit)
    assert module.num_partitions == 16
    text = module.columns.source.text
    assert '{mesh = #sdy.mesh<["data"=8, "model"=2]>}' in text
    assert all(one.attribute("sharding") is None for one in module.instructions)
    assert text.count("xla.sdy.sharding=") == SHARDY.count("xla.sdy.sharding=")
    assert edit.changes[0].effect == (
        "mesh['data'=8,'model'=2] for mesh['data'=2,'model'=4]: 16 devices instead of 8"
    )


def test_shardings_by_device_number_are_translated_with_a_given_mesh() -> None:
    module = edited(GSPMD, edit_mesh(parse_hlo(GSPMD), "data=4", meshes=MESHES))
    shardings = [one.sharding and one.sharding.text for one in module.entry.instructions]
    assert shardings == [
        "{devices=[1,4,4]<=[4,4]T(1,0) last_tile_dim_replicate}",
        "{devices=[4,1,4]<=[16] last_tile_dim_replicate}",
        None,
        "{devices=[1,4,4]<=[4,4]T(1,0) last_tile_dim_replicate}",
        None,
        "{devices=[4,4]<=[16]}",
        "{{devices=[1,4,4]<=[4,4]T(1,0) last_tile_dim_replicate}, {replicated}}",
    ]


@pytest.mark.parametrize("text", [GSPMD, NAMED])
def test_mesh_and_back_is_the_text_again(text: str) -> None:
    changed = resized(text, "data=4,model=2")
    assert changed != text
    module = parse_hlo(changed)
    meshes = [Mesh.of({"data": 4, "model": 2})]
    assert edit_mesh(module, "data=2,model=4", meshes=meshes).text_of(module) == text


def test_shardings_that_name_axes_with_sizes() -> None:
    assert resized(NAMED, "model=8").count("mesh['data'=2,'model'=8]") == 2


def test_one_device_is_not_partitioned() -> None:
    assert "num_partitions" not in resized(SHARDY, "data=1,model=1").splitlines()[0]


def test_reasons() -> None:
    assert refusal(GSPMD, "data=4").startswith("the text numbers devices and names no mesh axes")
    assert refusal(ONE_DEVICE, "data=4").startswith("the text numbers devices")
    assert refusal(SHARDY, "x=4") == "no axis x in mesh['data'=2,'model'=4]"
    assert refusal(SHARDY, "data=3") == "dimension 0 of x, 16, does not divide by 3"
    assert refusal(SHARDY.replace("num_", "replica_count=2, num_"), "data=4") == (
        "the program has 2 replicas"
    )
    two = SHARDY.replace('"model"=4]>}', '"model"=4]>, m2 = #sdy.mesh<["z"=8]>}')
    assert refusal(two, "data=4").startswith("it has several meshes")
    part = SHARDY.replace(r"{\"model\"}", r"{\"model\":(1)2}", 1)
    assert refusal(part, "model=8") == "a sharding has a part of axis model"
    with pytest.raises(UsageError, match="not a mesh"):
        edit_mesh(parse_hlo(SHARDY), "data")


def test_a_body_of_one_device_is_named_by_its_line() -> None:
    text = SHARDY.replace('"Sharding"', '"xla.sdy.GlobalToLocalShape"')
    reason = "con.1 (/u/f.py:7) has shapes or groups for the devices of this mesh"
    assert refusal(text, "data=4") == reason
    text = SHARDY.replace("negate(%w.1)", "all-reduce(%w.1), replica_groups={{0,1}}")
    assert "neg.1 (/u/f.py:5)" in refusal(text, "data=4")


def test_own_mesh_changes_nothing() -> None:
    edit = edit_mesh(parse_hlo(SHARDY), "data=2")
    assert [change.effect for change in edit.changes] == ["it is the program's own mesh"]
    assert edit.applies
    assert not edit.replacements
