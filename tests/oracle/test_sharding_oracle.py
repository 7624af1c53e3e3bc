"""Shardings, replica groups and shapes against XLA's own parser and printer, and against jax."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from hlo_lens.shapes.mesh import AxisRef, Mesh, TileAssignment
from hlo_lens.shapes.named_sharding import DimensionSharding, NamedSharding, ShardingKind
from hlo_lens.shapes.replica_groups import (
    MeshAxesReplicaGroupList,
    ReplicaGroups,
    parse_device_list,
)
from hlo_lens.shapes.shape import parse_shape
from hlo_lens.shapes.sharding import HloSharding
from tests.oracle import xla

if TYPE_CHECKING:
    from hlo_lens.shapes.named_sharding import PartitionSpec

pytest.importorskip("jaxlib._hlo", reason="jaxlib is not installed, or its binding has moved")

EXAMPLES = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

DEVICE_ORDERS = ["none", "iota", "list"]


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    """Return a mesh of up to 4 axes, its devices in some order."""
    sizes = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    names = tuple("abcd"[: len(sizes)])
    order = draw(st.sampled_from(DEVICE_ORDERS))
    count = math.prod(sizes)
    assignment = None
    if order == "list" and count > 1:
        ids = tuple(draw(st.permutations(range(count))))
        assume(ids != tuple(range(count)))
        assignment = TileAssignment(dimensions=sizes, device_ids=ids)
    if order == "iota" and count > 1:
        first = draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
        made = TileAssignment(
            dimensions=sizes, reshape_dims=(first, count // first), transpose_perm=(1, 0)
        ).canonical()
        assignment = made if made.reshape_dims else None
    return Mesh(axis_names=names, axis_sizes=sizes, device_assignment=assignment)


@st.composite
def axes_of(draw: st.DrawFn, mesh: Mesh) -> list[AxisRef]:
    """Return axes and sub-axes of a mesh that do not overlap, in any order."""
    axes = []
    for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True):
        pre_size = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        left = size // pre_size
        part = draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0]))
        if part == 1 or part == size:
            axes.append(AxisRef(axis=name))
        else:
            axes.append(AxisRef(axis=name, pre_size=pre_size, size=part))
    return draw(st.permutations(axes))[: draw(st.integers(0, len(axes)))]


@st.composite
def named_shardings(draw: st.DrawFn) -> NamedSharding:
    """Return a sharding of up to 3 dimensions by mesh axes, some for other uses."""
    mesh = draw(meshes())
    axes = draw(axes_of(mesh))
    rank = draw(st.integers(1, 3))
    dims: list[list[AxisRef]] = [[] for _ in range(rank)]
    others: list[list[AxisRef]] = [[], [], []]
    for axis in axes:
        # An axis of size 1 can have a use, but with a second use XLA's answer follows no rule.
        uses = others if mesh.axis_size(axis) > 1 else []
        draw(st.sampled_from([*dims, *dims, *uses])).append(axis)
    for group in others:  # XLA wants these in mesh order
        group.sort(key=lambda axis: mesh.axis_names.index(axis.axis))
    return NamedSharding(
        mesh=mesh,
        dim_shardings=tuple(DimensionSharding(axes=tuple(dim)) for dim in dims),
        replicated_axes=tuple(others[0]),
        unreduced_axes=tuple(others[1]),
        manual_axes=tuple(others[2]),
    )


@st.composite
def tiled_shardings(draw: st.DrawFn) -> HloSharding:
    """Return a sharding in V1 or V2 form, with or without subgroups."""
    dimensions = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    count = math.prod(dimensions)
    assume(count > 1)
    if draw(st.booleans()):
        tiles = TileAssignment(
            dimensions=dimensions, device_ids=tuple(draw(st.permutations(range(count))))
        )
    else:
        order = tuple(draw(st.permutations(range(len(dimensions)))))
        view = tuple(draw(st.permutations(dimensions)))
        if len(view) == 1:  # XLA reads a permutation only where there is something to permute
            order = view = ()
        tiles = TileAssignment(dimensions=dimensions, reshape_dims=view, transpose_perm=order)
    kinds = [ShardingKind.REPLICATED, ShardingKind.MANUAL, ShardingKind.UNREDUCED]
    subgroups = draw(st.lists(st.sampled_from(kinds), max_size=len(dimensions) - 1))
    return HloSharding.tiled(tiles, tuple(subgroups))


def written(sharding: HloSharding) -> str:
    """Return a tiled sharding with all its dimensions, which its normal text may leave out."""
    kinds = ", ".join(kind.value for kind in sharding.subgroup_types)
    last = f" last_tile_dims={{{kinds}}}" if kinds else ""
    return f"{{devices={sharding.tile_assignment}{last}}}"


@EXAMPLES
@given(named_shardings())
def test_mesh_axes_become_the_devices_that_xla_finds(named: NamedSharding) -> None:
    text = xla.v2_text(str(named))
    ours = HloSharding.parse(str(named))
    assert ours.equivalent(HloSharding.parse(text))
    if named.mesh.device_assignment is None:  # else XLA may write the same devices otherwise
        assert str(ours.to_v2()) == text


@pytest.mark.parametrize("use", ["replicated", "manual", "unreduced"])
def test_one_device_has_the_use_of_its_axis_as_in_xla(use: str) -> None:
    text = f"{{mesh['a'=1,'b'=1], [{{}}], {use}={{'a'}}}}"
    assert str(HloSharding.parse(text).to_v2()) == xla.v2_text(text)


@EXAMPLES
@given(named_shardings())
def test_named_shardings_print_as_in_xla(named: NamedSharding) -> None:
    printed = str(xla.sharding(str(named)))
    assert HloSharding.parse(printed).equivalent(HloSharding.parse(str(named)))
    if any(dim.axes for dim in named.dim_shardings):
        assert printed == str(named)


@EXAMPLES
@given(tiled_shardings())
def test_devices_are_those_of_xla(sharding: HloSharding) -> None:
    text = written(sharding)
    printed = str(xla.sharding(text))
    assert HloSharding.parse(text).equivalent(HloSharding.parse(printed))
    if "devices=" not in printed:
        return
    dimensions, devices, kinds = xla.tiles(text)
    theirs = HloSharding.parse(printed)
    assert theirs.tile_assignment is not None
    assert theirs.tile_assignment.dimensions == dimensions
    assert theirs.devices() == devices
    assert tuple(kind.value for kind in theirs.subgroup_types) == kinds


@EXAMPLES
@given(tiled_shardings())
def test_iota_is_made_canonical_as_in_xla(sharding: HloSharding) -> None:
    assume(not sharding.subgroup_types)
    assert str(xla.sharding(written(sharding))) == str(sharding)


@st.composite
def sizes_and_specs(draw: st.DrawFn) -> tuple[dict[str, int], PartitionSpec, int]:
    """Return sizes by axis name, a partition spec over them, and a rank it fits."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 2, 3, 4]), min_size=1, max_size=4))
    mesh = dict(zip("abcd", sizes, strict=False))
    rank = draw(st.integers(1, 4))
    entries: list[tuple[str, ...]] = [() for _ in range(rank)]
    for name in draw(st.permutations(list(mesh))):
        place = draw(st.integers(-1, rank - 1))
        if place >= 0:
            entries[place] = (*entries[place], name)
    return mesh, tuple(e[0] if len(e) == 1 else e or None for e in entries), rank


@EXAMPLES
@given(sizes_and_specs())
def test_partition_spec_gives_the_sharding_that_jax_makes(
    case: tuple[dict[str, int], PartitionSpec, int],
) -> None:
    mesh, spec, rank = case
    text = xla.jax_sharding_text(mesh, spec, rank)
    ours = HloSharding.from_partition_spec(mesh, spec, rank=rank)
    assert str(ours) == text
    assert ours.equivalent(HloSharding.parse(text))


@EXAMPLES
@given(sizes_and_specs())
def test_sharding_gives_the_partition_spec_that_jax_finds(
    case: tuple[dict[str, int], PartitionSpec, int],
) -> None:
    mesh, spec, rank = case
    text = xla.jax_sharding_text(mesh, spec, rank)
    assert HloSharding.parse(text).to_partition_spec(mesh) == xla.jax_partition_spec(text, mesh)


@EXAMPLES
@given(tiled_shardings(), st.data())
def test_sharding_of_any_devices_gives_what_jax_finds(
    sharding: HloSharding, data: st.DataObject
) -> None:
    assume(set(sharding.subgroup_types) <= {ShardingKind.REPLICATED})
    sizes: list[int] = []
    left = sharding.num_devices or 1
    while left > 1:
        sizes.append(data.draw(st.sampled_from([n for n in range(2, left + 1) if left % n == 0])))
        left //= sizes[-1]
    mesh = {f"m{number}": size for number, size in enumerate(sizes)}
    text = str(xla.sharding(written(sharding)))
    theirs = xla.jax_partition_spec(text, mesh)
    ours = HloSharding.parse(text).to_partition_spec(mesh)
    if ours != theirs:  # jax does not look whether the axes it found give these devices
        assert ours is None
        again = HloSharding.from_partition_spec(mesh, theirs or ())  # type: ignore[arg-type]
        assert not again.equivalent(HloSharding.parse(text))


@EXAMPLES
@given(st.data())
def test_groups_along_mesh_axes_are_those_of_xla(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    found = MeshAxesReplicaGroupList(mesh=mesh, axes=tuple(data.draw(axes_of(mesh))))
    groups = found.flattened_replica_groups()
    assume(len(groups[0]) != 1)  # XLA refuses such groups
    assert parse_device_list(str(found)).flattened_replica_groups() == groups
    assert str(ReplicaGroups(groups=groups)) == xla.groups_text(str(found), mesh.size)


@EXAMPLES
@given(tiled_shardings())
def test_iota_groups_are_those_of_xla(sharding: HloSharding) -> None:
    tiles = sharding.tile_assignment
    assert tiles is not None
    assume(tiles.device_ids is None)
    view = TileAssignment(
        dimensions=(tiles.dimensions[0], tiles.size // tiles.dimensions[0]),
        reshape_dims=tiles.reshape_dims,
        transpose_perm=tiles.transpose_perm,
    )
    groups = parse_device_list(str(view)).flattened_replica_groups()
    assert str(ReplicaGroups(groups=groups)) == xla.groups_text(str(view), tiles.size)


@pytest.mark.parametrize(
    "text",
    [
        "f32[8,16]{1,0:T(8,128)(2,1)}",
        "f32[8,16]{0,1:L(1024)}",
        "f32[8,16]{1,0:#(u32)*(u64)}",
        "f32[8,16]{1,0:E(4)S(5)}",
        "f32[8,16]{1,0:T(8)SC(0:2,4)(1:8)M(1024)}",
        "f32[8]{0:T(*,8)}",
        "f32[8]{0:L(1)E(0)S(0)}",
        "f32[8]{0:}",
        "f32[]{:T(128)}",
        "f32[<=8,?]{1,0}",
        "b(f32[2]{0:S(1)})",
        "(token[], opaque[], (), (f32[],f32[],f32[],f32[],f32[],f32[],(f32[],f32[])))",
    ],
)
def test_shapes_print_as_in_xla(text: str) -> None:
    assert str(parse_shape(text)) == xla.shape_text(text)
