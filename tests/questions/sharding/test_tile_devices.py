"""Devices that hold each tile; values divided alike share a division."""

from __future__ import annotations

from hlo_lens.questions.sharding.shard import tile_devices
from tests.questions.texts import module_of

TEXT = """HloModule m, num_partitions=4

ENTRY main {
  a = f32[8,6] parameter(0), sharding={devices=[2,2]<=[4]}
  b = f32[8,6] parameter(1), sharding={devices=[2,2]<=[4]}
  c = f32[8,6] parameter(2), sharding={replicated}
  ROOT t = (f32[8,6]) tuple(a)
}
"""


def test_values_divided_alike_share_a_division() -> None:
    found = tile_devices(module_of(TEXT))
    assert found.numbers == (0, 0, 1, None)
    first, second = found.divisions
    assert (first.sizes, first.counts) == ((8, 6), (2, 2))
    assert first.tiles == (((0, 0), (0,)), ((0, 1), (1,)), ((1, 0), (2,)), ((1, 1), (3,)))
    assert second.counts == (1, 1)
