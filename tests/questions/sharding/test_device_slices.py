"""Slices of a value on each device."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from hlo_lens import HloSharding, Shape
from hlo_lens.questions.sharding.shard import device_slices
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.text.errors import DumpMismatchError, UsageError
from tests.questions.sharding.tilings import tiled


def slices(text: str, shape: str, devices: int | None = None) -> list[tuple[int | None, str]]:
    """Return the slice of each device."""
    ids = None if devices is None else range(devices)
    found = device_slices(HloSharding.parse(text), Shape.parse(shape), devices=ids)
    return [part[:2] for part in found.slices]


def test_rows_by_four() -> None:
    assert slices("{devices=[4,1]<=[4]}", "f32[20,16]") == [
        (0, "[0:5, 0:16]"),
        (1, "[5:10, 0:16]"),
        (2, "[10:15, 0:16]"),
        (3, "[15:20, 0:16]"),
    ]


@pytest.mark.parametrize(
    ("size", "count", "lengths"),
    [(10, 4, [3, 3, 3, 1]), (5, 4, [2, 2, 1, 0]), (2, 4, [1, 1, 0, 0]), (0, 2, [0, 0])],
)
def test_last_tiles_are_short_or_empty(size: int, count: int, lengths: list[int]) -> None:
    found = device_slices(
        HloSharding.parse(f"{{devices=[{count}]<=[{count}]}}"), Shape.parse(f"f32[{size}]")
    )
    assert [part.end[0] - part.start[0] for part in found.slices] == lengths
    assert [part.size_bytes for part in found.slices] == [4 * length for length in lengths]
    assert found.is_uneven == (size % count != 0)
    assert found.shard_shape.dimensions == (max(lengths),)


def test_replicas_hold_the_same() -> None:
    text = "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}"
    assert slices(text, "f32[8,2]")[:3] == [(0, "[0:4, 0:2]"), (1, "[4:8, 0:2]"), (2, "[0:4, 0:2]")]
    found = device_slices(HloSharding.parse(text), Shape.parse("f32[8,2]"))
    assert found.replication_factor == 4


def test_replicated_is_on_the_devices_of_the_mesh() -> None:
    assert slices("{replicated}", "f32[2]") == [(None, "[0:2]")]
    assert slices("{replicated}", "f32[2]", 2) == [(0, "[0:2]"), (1, "[0:2]")]


def test_maximal_is_on_one_device() -> None:
    assert slices("{maximal device=3}", "f32[]", 4) == [(3, "[]")]


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


def test_wrong_rank_is_refused() -> None:
    with pytest.raises(DumpMismatchError, match="for 2 dimensions"):
        slices("{devices=[4,1]<=[4]}", "f32[20]")


@pytest.mark.parametrize(
    ("text", "shape"),
    [("{{replicated}}", "f32[2]"), ("{replicated}", "(f32[2])"), ("{devices=[2]<=[2]}", "f32[?]")],
)
def test_tuples_and_unknown_sizes_are_refused(text: str, shape: str) -> None:
    with pytest.raises(UsageError):
        slices(text, shape)


@given(tiled(), st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_each_element_is_on_as_many_devices_as_the_replication_factor(
    sharding: HloSharding, sizes: list[int]
) -> None:
    rank = len(sharding.tile_counts)
    shape = Shape.parse(f"f32[{','.join(map(str, sizes[:rank]))}]")
    found = device_slices(sharding, shape, devices=sharding.devices())
    held = sum(part.size_bytes or 0 for part in found.slices)
    groups = math.prod(
        size
        for kind, size in zip(
            sharding.subgroup_types,
            sharding.tile_assignment.dimensions[rank:],  # type: ignore[union-attr] # it is tiled
            strict=True,
        )
        if kind is not ShardingKind.REPLICATED
    )
    if sharding.kind is ShardingKind.TILED and found.replication_factor is not None:
        assert held == (shape.size_bytes or 0) * found.replication_factor * groups
