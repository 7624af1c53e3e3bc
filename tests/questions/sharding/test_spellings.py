"""One sharding in all spellings."""

from __future__ import annotations

from hypothesis import given

from hlo_lens import HloSharding
from hlo_lens.questions.sharding.shard import sharding_spellings
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.shapes.named_sharding import ShardingKind
from tests.questions.sharding.tilings import tiled


@given(tiled())
def test_all_spellings_mean_the_same(sharding: HloSharding) -> None:
    found = sharding_spellings(sharding)
    for text in (found.v1, found.v2, found.v3):
        assert text is None or HloSharding.parse(text).equivalent(sharding)
    if found.spec is not None and not set(sharding.subgroup_types) - {ShardingKind.REPLICATED}:
        assert found.mesh is not None
        again = HloSharding.from_partition_spec(
            found.mesh, found.spec, rank=len(sharding.tile_counts)
        )
        assert again.equivalent(sharding)


def test_spellings_over_a_given_mesh() -> None:
    found = sharding_spellings(
        HloSharding.parse("{devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}"),
        Mesh.of({"x": 4, "y": 2}),
        rank=2,
    )
    assert list(found.rows()) == [
        ("v1", "{devices=[2,1,4]0,2,4,6,1,3,5,7 last_tile_dim_replicate}"),
        ("v2", "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}"),
        ("v3", "{mesh['x'=4,'y'=2], [{'y'}, {}]}"),
        ("spec", "P('y', None)"),
    ]


def test_sub_axes_have_no_partition_spec_but_v3() -> None:
    found = sharding_spellings(HloSharding.parse("{devices=[2,2]<=[4]}"), Mesh.of({"x": 4}))
    assert (found.v3, found.spec) == ("{mesh['x'=4], [{'x':(1)2}, {'x':(2)2}]}", None)


def test_devices_in_no_iota_order_have_no_v2() -> None:
    found = sharding_spellings(HloSharding.parse("{devices=[2,2]3,1,2,0}"))
    assert found.v2 is None
    assert found.v3 == (
        "{mesh['axis_0'=2,'axis_1'=2], device_ids=(3,1,2,0), [{'axis_0'}, {'axis_1'}]}"
    )
