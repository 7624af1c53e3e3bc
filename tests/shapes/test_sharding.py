"""Shardings: their meaning, their texts, partition specs."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from hlo_lens.shapes.mesh import AxisRef, Mesh, TileAssignment
from hlo_lens.shapes.named_sharding import (
    DimensionSharding,
    NamedSharding,
    ShardingKind,
    partition_spec_text,
    read_partition_spec,
)
from hlo_lens.shapes.shape import Shape
from hlo_lens.shapes.sharding import HloSharding, parse_sharding
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.shapes.named_sharding import PartitionSpec


X4Y2 = Mesh(axis_names=("x", "y"), axis_sizes=(4, 2))
IN_X4Y2 = "mesh['x'=4,'y'=2]"


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("{devices=[4,2]0,1,2,3,4,5,6,7}", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("{devices=[2,2]3,1,2,0}", (3, 1, 2, 0)),
        ("{devices=[4,2]<=[8]}", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("{devices=[4,2]<=[2,4]T(1,0)}", (0, 4, 1, 5, 2, 6, 3, 7)),
        ("{devices=[2,2,2]<=[2,2,2]T(2,0,1)}", (0, 2, 4, 6, 1, 3, 5, 7)),
        ("{maximal device=3}", (3,)),
        ("{replicated}", ()),
        ("{mesh['x'=4], replicated}", (0, 1, 2, 3)),
        (f"{{{IN_X4Y2}, [{{'y'}}]}}", (0, 2, 4, 6, 1, 3, 5, 7)),
    ],
)
def test_devices_are_row_major(text: str, devices: tuple[int, ...]) -> None:
    assert HloSharding.parse(text).devices() == devices


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("{devices=[4,2]<=[2,4]T(1,0)}", "{devices=[4,2]0,4,1,5,2,6,3,7}"),
        ("{devices=[2,2,2]<=[2,2,2]T(2,0,1)}", "{devices=[2,2,2]<=[4,2]T(1,0)}"),
        ("{devices=[1,8]<=[8] last_tile_dim_replicate}", "{replicated}"),
        ("{devices=[1,8]<=[8] last_tile_dims={manual}}", "{manual}"),
        ("{devices=[1,4]<=[4] last_tile_dims={unreduced}}", "{unreduced}"),
        ("{devices=[1]<=[1]}", "{replicated}"),
        ("{devices=[2,1]<=[2] last_tile_dim_replicate}", "{devices=[2]<=[2]}"),
        (
            "{devices=[2,2]0,1,2,3 last_tile_dim_replicate}",
            "{devices=[2,2]1,0,3,2 last_tile_dim_replicate}",
        ),
        (
            "{devices=[1,2,2]<=[4] last_tile_dims={replicated, manual}}",
            "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}",
        ),
        (
            "{devices=[2,2,2]<=[8] last_tile_dims={replicated, replicated}}",
            "{devices=[2,4]<=[8] last_tile_dim_replicate}",
        ),
        ("{replicated shard_as 1}", '{replicated metadata={op_name="a"}}'),
        ("{unreduced=sum}", "{unreduced}"),
        ("{{replicated}, {manual}}", "{{mesh['x'=2], replicated}, {mesh['x'=2], manual}}"),
    ],
)
def test_spellings_of_one_meaning_are_equivalent(left: str, right: str) -> None:
    assert HloSharding.parse(left).equivalent(HloSharding.parse(right))
    assert HloSharding.parse(right).equivalent(HloSharding.parse(left))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("{devices=[4,2]<=[8]}", "{devices=[4,2]<=[2,4]T(1,0)}"),
        ("{devices=[4,2]<=[8]}", "{devices=[2,4]<=[8]}"),
        ("{devices=[2]<=[2]}", "{devices=[1,2]<=[2]}"),
        ("{devices=[2]<=[2]}", "{replicated}"),
        ("{maximal device=0}", "{maximal device=1}"),
        ("{manual}", "{replicated}"),
        ("{unreduced=max}", "{unreduced}"),
        ("{devices=[2,2]<=[4] last_tile_dims={manual}}", "{devices=[2,2]<=[4]}"),
        (
            "{devices=[2,2]<=[4] last_tile_dims={manual}}",
            "{devices=[2,2]<=[4] last_tile_dim_replicate}",
        ),
        ("{{replicated}}", "{replicated}"),
        ("{{replicated}, {manual}}", "{{replicated}}"),
    ],
)
def test_different_meanings_are_not_equivalent(left: str, right: str) -> None:
    assert not HloSharding.parse(left).equivalent(HloSharding.parse(right))
    assert not HloSharding.parse(right).equivalent(HloSharding.parse(left))


def test_device_holds_the_tile_at_its_place() -> None:
    sharding = HloSharding.parse("{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}")
    assert [sharding.tile_of(device) for device in range(8)] == [(0, 0), (1, 0)] * 4
    listed = HloSharding.parse("{devices=[2,2]3,1,2,0}")
    assert [listed.tile_of(device) for device in range(4)] == [(1, 1), (0, 1), (1, 0), (0, 0)]
    assert HloSharding.parse("{replicated}").tile_of(5) == ()
    assert HloSharding.parse("{maximal device=3}").tile_of(3) == ()
    assert HloSharding.parse("{mesh['x'=4], replicated}").tile_of(3) == ()


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("{devices=[2]<=[2]}", 2),
        ("{devices=[2]<=[2]}", -1),
        ("{devices=[2]1,0}", 2),
        ("{maximal device=3}", 0),
        ("{mesh['x'=4], replicated}", 4),
    ],
)
def test_device_that_holds_nothing_is_refused(text: str, device: int) -> None:
    with pytest.raises(UnknownNameError, match=f"device {device} is not in"):
        HloSharding.parse(text).tile_of(device)


@pytest.mark.parametrize(
    ("sharding", "shape", "shard"),
    [
        ("{devices=[4,1]<=[4]}", "f32[8,16]{1,0}", "f32[2,16]{1,0}"),
        ("{devices=[4]<=[4]}", "f32[10]", "f32[3]"),
        ("{devices=[4]<=[4]}", "f32[5]", "f32[2]"),
        ("{devices=[8]<=[8]}", "f32[5]", "f32[1]"),
        ("{devices=[4]<=[4]}", "f32[0]", "f32[0]"),
        ("{devices=[2]<=[2]}", "f32[<=9]", "f32[<=5]"),
        ("{devices=[2,2]<=[4]}", "f32[?,9]", "f32[?,5]"),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "s8[6,6]", "s8[3,6]"),
        ("{mesh['x'=4], [{'x'}]}", "f32[8,16]", "f32[2,16]"),
        ("{replicated}", "f32[8]", "f32[8]"),
        ("{manual}", "f32[8]", "f32[8]"),
        ("{maximal device=1}", "f32[8]", "f32[8]"),
        ("{devices=[2]<=[2]}", "token[]", "token[]"),
        ("{{devices=[2]<=[2]}, {replicated}}", "(f32[4], s8[4])", "(f32[2], s8[4])"),
        ("{{devices=[2]<=[2]}, {replicated}}", "((f32[4]), s8[4])", "((f32[2]), s8[4])"),
        ("{devices=[2]<=[2]}", "(f32[4], (s8[6]))", "(f32[2], (s8[3]))"),
        ("{{replicated}}", "()", "()"),
        ("{}", "()", "()"),
    ],
)
def test_shard_is_the_shape_divided_and_rounded_up(sharding: str, shape: str, shard: str) -> None:
    assert str(HloSharding.parse(sharding).shard_shape(Shape.parse(shape))) == shard


@pytest.mark.parametrize(
    ("sharding", "shape"),
    [
        ("{devices=[2,2]<=[4]}", "f32[8]"),
        ("{devices=[2]<=[2]}", "f32[8,8]"),
        ("{mesh['x'=2,'y'=2], [{'x'}, {'y'}]}", "f32[8]"),
        ("{{replicated}}", "(f32[8], f32[8])"),
        ("{{replicated}, {replicated}}", "f32[8]"),
    ],
)
def test_sharding_of_another_rank_does_not_fit(sharding: str, shape: str) -> None:
    with pytest.raises(DumpMismatchError):
        HloSharding.parse(sharding).shard_shape(Shape.parse(shape))


@pytest.mark.parametrize(
    ("sharding", "sizes", "shard"),
    [
        ("{devices=[4,2]<=[8]}", (16, 32), (4, 16)),
        ("{devices=[4,2]<=[8]}", [17, 31], (5, 16)),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", (7, 3), (4, 3)),
        ("{mesh['x'=2,'y'=4], [{'y'}]}", (8, 5), (2, 5)),
        ("{replicated}", (8,), (8,)),
        ("{replicated}", (), ()),
    ],
)
def test_shard_shape_of_sizes_is_sizes(
    sharding: str, sizes: Sequence[int], shard: tuple[int, ...]
) -> None:
    parsed = HloSharding.parse(sharding)
    assert parsed.shard_shape(sizes) == shard
    assert parsed.shard_shape(Shape(element_type="s8", dimensions=tuple(sizes))).dimensions == shard


@pytest.mark.parametrize(
    ("text", "num_devices", "is_replicated"),
    [
        ("{replicated}", None, True),
        ("{manual}", None, False),
        ("{maximal device=7}", 1, False),
        ("{devices=[1,8]<=[8] last_tile_dim_replicate}", 8, True),
        ("{devices=[4,2]<=[8]}", 8, False),
        ("{mesh['x'=8], replicated}", 8, True),
        ("{mesh[], replicated}", None, True),
        ("{{replicated}, {devices=[2]<=[2]}}", 2, False),
        ("{{replicated}, {replicated}}", None, True),
        ("{}", None, True),
    ],
)
def test_number_of_devices_is_told_where_it_is_printed(
    text: str, num_devices: int | None, is_replicated: bool
) -> None:
    sharding = HloSharding.parse(text)
    assert (sharding.num_devices, sharding.is_replicated) == (num_devices, is_replicated)


@pytest.mark.parametrize(
    ("text", "mesh", "spec"),
    [
        ("{replicated}", {"x": 4, "y": 2}, ()),
        ("{devices=[4,2]<=[8]}", {"x": 4, "y": 2}, ("x", "y")),
        ("{devices=[8]<=[8]}", {"x": 4, "y": 2}, (("x", "y"),)),
        ("{devices=[8,1]<=[4,2]T(1,0)}", {"x": 4, "y": 2}, (("y", "x"),)),
        (
            "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
            {"x": 4, "y": 2},
            (None, "y"),
        ),
        ("{devices=[4,1]<=[4]}", {"x": 4, "y": 1}, ("x",)),
        ("{devices=[4,2]<=[8] last_tile_dims={manual}}", {"x": 4, "y": 2}, ("x",)),
        ("{mesh['x'=4,'y'=1], [{}, {'y'}, {}]}", {"x": 4, "y": 1}, (None, "y")),
        ("{mesh['a'=4,'b'=2], [{'b'}]}", {"x": 4, "y": 2}, ("y",)),
        ("{mesh['a'=4,'b'=2], [{'b'}]}", None, ("b",)),
        ("{maximal device=0}", {"x": 1}, ()),
        ("{maximal device=0}", {"x": 2}, None),
        ("{manual}", {"x": 2}, None),
        ("{unknown}", {"x": 2}, None),
        ("{unreduced}", {"x": 2}, None),
        ("{{replicated}}", {"x": 2}, None),
        ("{devices=[2,4]<=[8] last_tile_dim_replicate}", {"x": 4, "y": 2}, None),
        ("{devices=[4,2]<=[2,4]T(1,0)}", {"x": 4, "y": 2}, None),
        ("{devices=[2]1,0}", {"x": 2}, None),
        ("{devices=[4]0,1,3,2}", {"x": 2, "y": 2}, None),
        ("{devices=[2]<=[2]}", {"x": 4}, None),
        ("{devices=[2]<=[2]}", None, None),
        ("{mesh['x'=4], [{'x':(2)2}]}", None, None),
        (
            "{devices=[1,2,2]<=[4] last_tile_dims={manual, replicated}}",
            {"x": 2, "y": 2},
            None,
        ),
    ],
)
def test_partition_spec_is_as_jax_finds_it(
    text: str, mesh: dict[str, int] | None, spec: PartitionSpec | None
) -> None:
    assert HloSharding.parse(text).to_partition_spec(mesh) == spec


def test_mesh_with_its_own_device_order_is_looked_through() -> None:
    mesh = Mesh(
        axis_names=("x", "y"),
        axis_sizes=(2, 2),
        device_assignment=TileAssignment(dimensions=(2, 2), device_ids=(3, 2, 1, 0)),
    )
    sharding = HloSharding.from_partition_spec(mesh, (None, "y"))
    assert str(sharding) == "{devices=[1,2,2]3,1,2,0 last_tile_dim_replicate}"
    assert sharding.to_partition_spec(mesh) == (None, "y")


def test_any_object_with_a_shape_is_a_mesh() -> None:
    mesh = SimpleNamespace(shape={"x": 4, "y": 2})
    sharding = HloSharding.from_partition_spec(mesh, ("y", ("x",)))
    assert str(sharding) == "{devices=[2,4]<=[4,2]T(1,0)}"
    assert sharding.to_partition_spec(mesh) == ("y", "x")


def test_partition_spec_is_filled_up_to_the_rank() -> None:
    sharding = HloSharding.from_partition_spec(X4Y2, ("x",), rank=3)
    assert str(sharding) == "{devices=[4,1,1,2]<=[8] last_tile_dim_replicate}"
    assert HloSharding.from_partition_spec(X4Y2, (), rank=3).is_replicated


def test_partition_spec_must_use_axes_of_the_mesh_once() -> None:
    with pytest.raises(UnknownNameError, match="no axis 'z'"):
        HloSharding.from_partition_spec(X4Y2, ("z",))
    with pytest.raises(UsageError, match="overlap"):
        HloSharding.from_partition_spec(X4Y2, ("x", "x"))


def test_sub_axes_that_do_not_divide_are_refused() -> None:
    def named(*axes: AxisRef) -> NamedSharding:
        return NamedSharding(mesh=X4Y2, dim_shardings=(DimensionSharding(axes=axes),))

    with pytest.raises(UsageError, match="does not divide an axis of size 4"):
        named(AxisRef(axis="x", pre_size=1, size=3)).to_tiles()
    with pytest.raises(UsageError, match="overlap"):
        named(AxisRef(axis="x", pre_size=1, size=2), AxisRef(axis="x")).to_tiles()


def test_parts_of_one_axis_may_not_cut_across_each_other() -> None:
    mesh = Mesh(axis_names=("x",), axis_sizes=(12,))
    with pytest.raises(UsageError, match="sub-axes of 'x' overlap"):
        mesh.split([AxisRef(axis="x", pre_size=1, size=2), AxisRef(axis="x", pre_size=3, size=4)])


@st.composite
def meshes_and_specs(draw: st.DrawFn) -> tuple[Mesh, PartitionSpec]:
    """Return a mesh of up to 4 axes larger than 1, and a spec that uses some of them."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    names = tuple("abcd"[: len(sizes)])
    used = draw(st.permutations(names))[: draw(st.integers(0, len(names)))]
    entries: list[tuple[str, ...]] = [() for _ in range(draw(st.integers(1, 3)))]
    for name in used:
        place = draw(st.integers(0, len(entries) - 1))
        entries[place] = (*entries[place], name)
    while entries and not entries[-1]:
        entries.pop()
    spec = tuple(entry[0] if len(entry) == 1 else entry or None for entry in entries)
    return Mesh(axis_names=names, axis_sizes=tuple(sizes)), spec


@given(meshes_and_specs())
def test_partition_spec_survives_the_round_trip(given_: tuple[Mesh, PartitionSpec]) -> None:
    mesh, spec = given_
    sharding = HloSharding.from_partition_spec(mesh, spec)
    again = HloSharding.parse(str(sharding))
    found = again.to_partition_spec(mesh)
    assert found is not None
    # Neighbouring axes of equal size differ by their stride, so the same spec comes back.
    assert found == spec
    assert HloSharding.from_partition_spec(mesh, found).equivalent(sharding)


@st.composite
def assignments(draw: st.DrawFn) -> TileAssignment:
    """Return an iota of up to 4 dimensions, viewed in any way."""
    view = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(view))))
    size = math.prod(view)
    first = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    return TileAssignment(
        dimensions=(first, size // first),
        reshape_dims=tuple(view),
        transpose_perm=tuple(order),
    )


@given(assignments())
def test_canonical_iota_is_the_same_array(tiles: TileAssignment) -> None:
    assert tiles.canonical().devices() == tiles.devices()
    assert tiles.canonical().canonical() == tiles.canonical()
    assert sorted(tiles.devices()) == list(range(tiles.size))


@given(assignments())
def test_index_of_inverts_devices(tiles: TileAssignment) -> None:
    listed = TileAssignment(dimensions=tiles.dimensions, device_ids=tiles.devices())
    for position, device in enumerate(tiles.devices()):
        index = divmod(position, tiles.dimensions[1])
        assert tiles.index_of(device) == listed.index_of(device) == index


@given(assignments(), st.data())
def test_rearranged_iota_equals_rearranged_list(tiles: TileAssignment, data: st.DataObject) -> None:
    parts: list[int] = []
    left = tiles.size
    while left > 1:
        parts.append(data.draw(st.sampled_from([n for n in range(2, left + 1) if left % n == 0])))
        left //= parts[-1]
    order = data.draw(st.permutations(range(len(parts))))
    listed = TileAssignment(dimensions=tiles.dimensions, device_ids=tiles.devices())
    fast = tiles.rearranged(parts, order, (tiles.size,))
    assert fast.devices() == listed.rearranged(parts, order, (tiles.size,)).devices()


@pytest.mark.parametrize(
    ("text", "devices", "factor"),
    [
        ("{replicated}", 8, 8),
        ("{replicated}", None, None),
        ("{maximal device=3}", 8, 1),
        ("{devices=[4,2]<=[8]}", 8, 1),
        ("{devices=[4,2]<=[8] last_tile_dim_replicate}", 8, 2),
        ("{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}", 8, 2),
        ("{devices=[2,4]<=[8] last_tile_dims={unreduced}}", 8, 1),
        ("{manual}", 8, None),
        ("{mesh['x'=4,'y'=2], [{'y'}]}", None, 4),
    ],
)
def test_replication_factor(text: str, devices: int | None, factor: int | None) -> None:
    assert HloSharding.parse(text).replication_factor(devices) == factor


FORMS = [
    ("{replicated}", "replicated", ShardingKind.REPLICATED),
    ("{maximal device=3}", "maximal", ShardingKind.MAXIMAL),
    ("{maximal device=-1}", "maximal", ShardingKind.MAXIMAL),
    ("{manual}", "manual", ShardingKind.MANUAL),
    ("{unknown}", "unknown", ShardingKind.UNKNOWN),
    ("{unreduced}", "unreduced", ShardingKind.UNREDUCED),
    ("{unreduced=max}", "unreduced", ShardingKind.UNREDUCED),
    ("{}", "tuple", ShardingKind.TUPLE),
    ("{{replicated}}", "tuple", ShardingKind.TUPLE),
    ("{{replicated}, {devices=[2]<=[2]}}", "tuple", ShardingKind.TUPLE),
    ("{devices=[4,2]0,1,2,3,4,5,6,7}", "v1-list", ShardingKind.TILED),
    ("{devices=[2]0,1 last_tile_dim_replicate}", "v1-list", ShardingKind.REPLICATED),
    ("{devices=[4,2]<=[8]}", "v2-iota", ShardingKind.TILED),
    ("{devices=[4,2]<=[2,4]T(1,0)}", "v2-iota", ShardingKind.TILED),
    (
        "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
        "v2-iota",
        ShardingKind.TILED,
    ),
    (
        "{devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}",
        "v2-iota",
        ShardingKind.TILED,
    ),
    ("{replicated shard_as 1}", "replicated", ShardingKind.REPLICATED),
    ("{devices=[2]<=[2] shard_like 3}", "v2-iota", ShardingKind.TILED),
    ("{mesh['x'=4,'y'=2], [{'x'}, {'y'}]}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=4,'y'=2], [{'x', ?}, {}], replicated={'y'}}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=4,'y'=2], [{'x':(2)2}, {}]}", "v3-named", ShardingKind.TILED),
    (
        "{mesh['x'=4,'y'=2], device_ids=(7,6,5,4,3,2,1,0), [{'x'}, {'y'}]}",
        "v3-named",
        ShardingKind.TILED,
    ),
    ("{mesh['x'=4,'y'=2], device_ids=([2,4]T(1,0)), [{'x'}]}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=8], replicated}", "v3-named", ShardingKind.REPLICATED),
    ("{mesh['x'=8], []}", "v3-named", ShardingKind.REPLICATED),
    ("{mesh[], replicated}", "v3-named", ShardingKind.REPLICATED),
    ("{mesh['x'=8], unreduced}", "v3-named", ShardingKind.UNREDUCED),
    ("{mesh['x'=8], unreduced=max}", "v3-named", ShardingKind.UNREDUCED),
    ("{mesh['x'=8], manual}", "v3-named", ShardingKind.MANUAL),
    ("{mesh['x'=4,'y'=2], [{'x'}], unreduced={'y'}}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=4,'y'=2], [{'x'}], unreduced=max{'y'}}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=4,'y'=2], [{'x'}], manual={'y'}}", "v3-named", ShardingKind.TILED),
    ("{maximal_mesh[device_id=3]}", "v3-named", ShardingKind.MAXIMAL),
    ("{@mesh<x=4,y=2>, [{x}]}", "v3-named", ShardingKind.TILED),
    ("{single_device[device_id=3]}", "v3-named", ShardingKind.MAXIMAL),
    ("{@maximal_mesh<device_id=0>}", "v3-named", ShardingKind.MAXIMAL),
    ("{@maximal_mesh<device_ids=[5]>, []}", "v3-named", ShardingKind.MAXIMAL),
    ("{mesh[a=2,b=4], [{}, {b, ?}]}", "v3-named", ShardingKind.TILED),
    ("{mesh['x'=2] [{'x'}]}", "v3-named", ShardingKind.TILED),
    ("{mesh['a.b'=2,'<x> def'=4], [{'<x> def':(2)2, 'a.b'}]}", "v3-named", ShardingKind.TILED),
]


@pytest.mark.parametrize(("text", "form", "kind"), FORMS)
def test_every_form_is_read_and_kept(text: str, form: str, kind: ShardingKind) -> None:
    sharding = parse_sharding(text)
    assert (sharding.form, sharding.kind) == (form, kind)
    assert str(sharding) == sharding.text == text


@pytest.mark.parametrize(
    ("text", "reduction"),
    [
        ("{unreduced}", None),
        ("{unreduced=max}", "max"),
        ("{mesh['x'=4,'y'=2], [{'x'}], unreduced=min{'y'}}", "min"),
        ('{unreduced metadata={op_type="sdy::reduction_op" op_name="MAX"}}', "max"),
    ],
)
def test_reduction_is_read_from_either_place(text: str, reduction: str | None) -> None:
    assert parse_sharding(text).reduction == reduction


def test_parts_may_come_in_any_order() -> None:
    sharding = parse_sharding("{shard_as 1 last_tile_dim_replicate devices=[2,2]<=[4]}")
    assert sharding.shard_group == "shard_as 1"
    assert sharding == parse_sharding("{devices=[2,2]<=[4] last_tile_dim_replicate shard_as 1}")


def test_tuple_has_one_element_for_each_leaf() -> None:
    text = "{{replicated}, {manual}, {manual}, {manual}, {manual}, /*index=5*/{devices=[2]<=[2]}}"
    sharding = parse_sharding(text)
    assert [str(element) for element in sharding.elements] == ["{replicated}"] + [
        "{manual}"
    ] * 4 + ["{devices=[2]<=[2]}"]
    assert str(HloSharding(kind=ShardingKind.TUPLE, elements=sharding.elements)) == text


ERRORS = [
    ("", 1, "expected a sharding or '{', found the end"),
    ("replicated", 1, "expected a sharding or '{', found 'replicated'"),
    ("{", 2, "expected a sharding or '}', found the end"),
    ("{{}}", 2, "expected a sharding or '}', found '{'"),
    (
        "{foo}",
        2,
        "expected a kind of sharding, 'shard_as' or 'shard_like', 'metadata=' or 'replicated=', "
        "'unreduced=' or 'manual=', found 'foo'",
    ),
    ("{replicated} x", 14, "expected the end of the text, found 'x'"),
    ("{replicated manual}", 1, "a part of the sharding occurs twice"),
    (
        "{devices=[2]<=[2] manual}",
        1,
        "expected one of a kind of sharding, a device and 'devices='",
    ),
    ("{shard_as 1}", 1, "expected one of a kind of sharding, a device and 'devices='"),
    (
        "{manual last_tile_dim_replicate}",
        1,
        "expected 'devices=' before its last dimensions",
    ),
    (
        "{devices=[2]<=[2] last_tile_dims={manual, replicated}}",
        1,
        "2 kinds of subgroups for 1 dimensions",
    ),
    (
        "{devices=[4,2]<=[8], last_tile_dim_replicate}",
        20,
        "expected a kind of sharding, 'shard_as' or 'shard_like', 'metadata=' or 'T(', found ','",
    ),
    ("{devices=[3]0,1}", 13, "expected 3 devices, found 2"),
    ("{devices=[2,2]<=[3]}", 18, "expected 2x2 devices, found 3"),
    ("{devices=[2,2]<=[4]T(1,0)}", 22, "expected a permutation of 0 to 0"),
    ("{devices=[2,2]<=[2,2]T(0,0)}", 24, "expected a permutation of 0 to 1"),
    ("{devices=[0]<=[0]}", 2, "expected at least one device and at most 1048576, found 0"),
    (
        "{devices=[9999999]<=[9999999]}",
        2,
        "expected at least one device and at most 1048576, found 9999999",
    ),
    ("{devices=[2,-1]0,1}", 13, "expected a number, found '-1'"),
    (
        "{mesh['x'=4]}",
        13,
        "expected a kind of sharding, 'metadata=', 'replicated=', 'unreduced=' or 'manual=' or "
        "', device_ids=', found '}'",
    ),
    ("{mesh['x'=0], []}", 11, "expected a number above 0, found 0"),
    ("{mesh['x'=9999999], []}", 2, "more than 1048576 devices"),
    ("{mesh['x'=2,'x'=2], []}", 2, "two axes of the mesh have one name"),
    ("{mesh['x'=4], device_ids=(0,1), []}", 27, "expected 4 devices, found 2"),
    ("{mesh['x'=4], [{'z'}]}", 17, "expected an axis of the mesh (x), found 'z'"),
    ("{mesh['x'=4], [{'7'}]}", 17, "expected an axis of the mesh (x), found '7'"),
    ("{mesh['x'=4], [{'x':(3)2}]}", 17, "sub-axis (3)2 does not divide an axis of size 4"),
    ("{mesh['x'=4], [{'x'}, {'x'}]}", 1, "axes 'x' and 'x' overlap"),
    ("{mesh['x'=4], [{'x'}], [{'x'}]}", 1, "a part of the sharding occurs twice"),
    ("{replicated={'x'}}", 1, "expected a mesh before its axes"),
    ("{replicated, [{'x'}]}", 14, "expected 'metadata=', found '['"),
]


@pytest.mark.parametrize(("text", "column", "message"), ERRORS)
def test_error_names_place_and_alternatives(text: str, column: int, message: str) -> None:
    with pytest.raises(DumpSyntaxError) as caught:
        parse_sharding(text)
    assert (caught.value.line, caught.value.column, caught.value.message) == (1, column, message)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", ["1if x else y", "0in x", "'\\d'"])
def test_text_that_python_warns_of_is_refused_without_a_warning(text: str) -> None:
    with pytest.raises(UsageError, match="not a partition spec"):
        read_partition_spec(text)


@pytest.mark.parametrize("axis", ["</script><b>", "a b", "it's", '"q"', "None", "a,b", "(x)"])
def test_quoted_axes_may_have_any_name(axis: str) -> None:
    spec = (("data", axis), None)
    assert read_partition_spec(partition_spec_text(spec)) == spec
