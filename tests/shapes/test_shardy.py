"""Shardy's attributes, as jax 0.7 to 0.10 writes them into frontend_attributes."""

from __future__ import annotations

import pytest

from hlo_lens.shapes.mesh import Mesh
from hlo_lens.shapes.sharding import shardy_axes, shardy_meshes, shardy_shardings
from hlo_lens.text.errors import UsageError

MESHES = {
    "mesh": Mesh.of({"x": 4, "y": 2}),
    "one": Mesh.maximal(3),
}


@pytest.mark.parametrize("size", [0, 10**9, "9" * 5000])
def test_a_mesh_of_no_devices_or_of_too_many_is_none(size: int | str) -> None:
    text = f'{{m = #sdy.mesh<["x"={size}]>, n = #sdy.mesh<["x"=2]>}}'
    assert list(shardy_meshes(text)) == ["n"]
    assert shardy_shardings(f'#sdy.sharding<mesh<["x"={size}]>, [{{"x"}}]>', {}) == (None,)
    if not size:
        with pytest.raises(UsageError, match="at least one device each"):
            Mesh.of({"x": 0})


def test_meshes_are_read_by_name() -> None:
    text = '{one = #sdy.mesh<[], device_ids=[3]>, mesh = #sdy.mesh<["x"=4, "y"=2]>}'
    assert shardy_meshes(text) == MESHES


def test_quotes_may_be_escaped() -> None:
    assert shardy_meshes('"{mesh = #sdy.mesh<[\\"x\\"=4, \\"y\\"=2]>}"')["mesh"] == MESHES["mesh"]
    (found,) = shardy_shardings("#sdy.sharding<@mesh, [{\\22x\\22}]>", MESHES)
    assert str(found) == "{mesh['x'=4,'y'=2], [{'x'}]}"


def test_devices_in_another_order_are_kept() -> None:
    mesh = shardy_meshes('{m = #sdy.mesh<["a"=4], device_ids=[3, 2, 1, 0]>}')["m"]
    assert mesh.device_ids == (3, 2, 1, 0)


@pytest.mark.parametrize(
    ("dims", "v3"),
    [
        ("[]", "[]"),
        ('[{"x"}, {}]', "[{'x'}, {}]"),
        ('[{"x", "y"}, {?}]', "[{'x', 'y'}, {?}]"),
        ('[{"y", ?}p1, {}p0]', "[{'y', ?}, {}]"),
        ('[{"x":(2)2}]', "[{'x':(2)2}]"),
        ('[{}], replicated={"x"}', "[{}], replicated={'x'}"),
        ('[{}], unreduced={"y"}', "[{}], unreduced={'y'}"),
    ],
)
def test_shardings_are_those_of_v3(dims: str, v3: str) -> None:
    (found,) = shardy_shardings(f"#sdy.sharding<@mesh, {dims}>", MESHES)
    assert str(found) == f"{{mesh['x'=4,'y'=2], {v3}}}"


def test_one_value_or_many() -> None:
    text = '#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@one, []>, <mesh<["z"=2]>, [{"z"}]>]>'
    assert [str(s) for s in shardy_shardings(text, MESHES)] == [
        "{mesh['x'=4,'y'=2], [{'x'}]}",
        "{maximal_mesh[device_id=3]}",
        "{mesh['z'=2], [{'z'}]}",
    ]


@pytest.mark.parametrize("text", ["<@other, [{}]>", '<@mesh, [{"q"}]>', '<@mesh, [{"x"}, {"x"}]>'])
def test_what_the_mesh_does_not_have_is_unknown(text: str) -> None:
    assert shardy_shardings(f"#sdy.sharding{text}", MESHES) == (None,)


def test_manual_axes() -> None:
    assert shardy_axes('#sdy<manual_axes{"x", "y"}>') == ("x", "y")
