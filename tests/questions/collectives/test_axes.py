"""Mesh axes of the groups of collectives."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.load.devices import device_assignment
from hlo_lens.load.fact import plant
from hlo_lens.questions.collectives.collective import Collective, collectives
from hlo_lens.shapes.mesh import Mesh, TileAssignment
from tests.questions.collectives.texts import ADD, BETWEEN_SLICES
from tests.questions.texts import module_of

MESH = Mesh.of({"data": 2, "model": 4})


def _axes(groups: str, mesh: Mesh | None = MESH, header: str = ", num_partitions=8") -> Collective:
    line = f"f32[8,4] all-reduce(x), channel_id=1, replica_groups={groups}, to_apply=add, "
    text = (
        f"HloModule m{header}\n{ADD}\nENTRY main {{\n  x = f32[8,4] parameter(0)\n"
        f"  ROOT c = {line}use_global_device_ids=true\n}}\n"
    )
    return collectives(module_of(text).stating(mesh=mesh)).collectives[0]


@pytest.mark.parametrize(
    ("groups", "axes", "parts"),
    [
        ("[2,4]<=[8]", ("model",), ("model",)),
        ("{{0,1,2,3},{4,5,6,7}}", ("model",), ("model",)),
        ("[4,2]<=[2,4]T(1,0)", ("data",), ("data",)),
        ("{{0,4},{1,5},{2,6},{3,7}}", ("data",), ("data",)),
        ("[1,8]<=[8]", ("data", "model"), ("data", "model")),
        ("mesh['a'=2,'b'=4] {'b'}", ("model",), ("model",)),
        ("{{0,1},{2,3},{4,5},{6,7}}", ("model",), ("model:(2)2",)),
        ("{{0,2},{1,3},{4,6},{5,7}}", ("model",), ("model:(1)2",)),
        ("{{0,1,4,5},{2,3,6,7}}", ("data", "model"), ("data", "model:(2)2")),
        ("{{1,2},{0,3},{4,5},{6,7}}", ("model",), None),
        ("{{0,5},{1,4},{2,7},{3,6}}", ("data", "model"), None),
        ("[8,1]<=[8]", (), ()),
    ],
)
def test_groups_are_along_axes(
    groups: str, axes: tuple[str, ...], parts: tuple[str, ...] | None
) -> None:
    found = _axes(groups)
    assert (found.axes, found.axis_parts) == (axes, parts)
    assert found.axis.endswith("?") == (parts is None)


def test_axes_are_those_of_the_mesh_in_the_text() -> None:
    shardy = (
        ", num_partitions=8, frontend_attributes={xla.sdy.meshes="
        '{mesh = #sdy.mesh<["x"=4, "y"=2]>}}'
    )
    assert _axes("[4,2]<=[8]", None, shardy).axes == ("y",)


def test_axes_are_those_of_the_mesh_before_optimizations() -> None:
    before = hlo_lens.parse_hlo(
        "HloModule m, num_partitions=8\n\nENTRY main {\n  ROOT x = f32[8] parameter(0), "
        "sharding={mesh['p'=2,'q'=4], [{'q'}]}\n}\n"
    )
    text = (
        f"HloModule m, num_partitions=8\n{ADD}\nENTRY main {{\n  x = f32[2] parameter(0)\n"
        "  ROOT c = f32[2] all-reduce(x), channel_id=1, replica_groups=[2,4]<=[8], to_apply=add, "
        "use_global_device_ids=true\n}\n"
    )
    found = collectives(module_of(text, before))
    assert found.collectives[0].axes == ("q",)
    assert [(str(mesh), mesh.source) for mesh in found.meshes] == [
        ("p=2,q=4 (before_optimizations)", "before_optimizations")
    ]


def test_mesh_of_devices_in_another_order() -> None:
    mesh = Mesh(
        axis_names=("a", "b"),
        axis_sizes=(2, 2),
        device_assignment=TileAssignment(dimensions=(2, 2), device_ids=(3, 1, 0, 2)),
    )
    assert _axes("{{3,0},{1,2}}", mesh, ", num_partitions=4").axes == ("a",)


def test_axes_of_a_mesh_that_is_too_small_are_unknown() -> None:
    found = _axes("[2,4]<=[8]", Mesh.of({"x": 4}))
    assert (found.axes, found.axis_parts, found.axis) == (None, None, "?")


def test_axis_between_slices_is_unknown_where_slices_differ_along_several() -> None:
    mesh = Mesh.of({"pipe": 2, "dcn": 2, "x": 4})
    found = collectives(module_of(BETWEEN_SLICES).stating(mesh=mesh)).collectives
    assert [one.axes for one in found] == [None, None]


TAKING_TURNS = ((100_000, 200_000, 100_001, 200_001, 100_002, 200_002, 100_003, 200_003),)
"""Ids of the devices of two slices that take turns."""


@pytest.mark.parametrize(
    ("axes", "between", "inside"),
    [
        ({"x": 4, "dcn": 2}, "dcn", "x"),
        ({"x": 8}, "x:(4)2", "x:(1)4"),
        ({"x": 2, "y": 2, "dcn": 2}, "dcn", "x,y"),
    ],
)
def test_axes_of_slices_that_take_turns_are_those_of_the_device_assignment(
    axes: dict[str, int], between: str, inside: str
) -> None:
    # groups as libtpu 0.0.51 prints them for such an assignment: of the devices of one slice
    text = BETWEEN_SLICES.replace(
        "  t = token[]",
        "  g = f32[8,4] all-gather(x), channel_id=8, replica_groups={{0,1,2,3}}, dimensions={0}, "
        "use_global_device_ids=true\n"
        "  p = f32[2,4] collective-permute(x), channel_id=9, "
        "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}\n  t = token[]",
    )
    module = module_of(text).stating(mesh=Mesh.of(axes))
    plant(module, device_assignment, TAKING_TURNS)
    found = collectives(module)
    own = {one.name: one for one in found.collectives}
    assert (own["s1"].axis, own["g"].axis) == (between, inside)
    (one,) = found.meshes
    assert one.slices is not None
    assert not one.slices.is_assumed
