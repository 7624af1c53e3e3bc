"""Collectives that print the same attributes share what follows from them, and no others."""

from __future__ import annotations

from dataclasses import asdict

from hlo_lens.questions.collectives.collective import collectives
from tests.questions.texts import module_of

TEXT = """HloModule m, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

two {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[8,4] parameter(0)
  p = f32[8,4] all-reduce(x), channel_id=1, replica_groups={{0,1},{2,3}}, GLOBAL, to_apply=add, PATH
  q = f32[8,4] all-reduce(p), channel_id=2, replica_groups={{0,1},{2,3}}, GLOBAL, to_apply=two, PATH
  r = f32[8,4] all-reduce(q), replica_groups={{0,1},{2,3}}, to_apply=add, PATH
  s = f32[8,4] all-reduce(r), channel_id=3, replica_groups={{0,2},{1,3}}, GLOBAL, to_apply=add, PATH
  t = f32[4] all-reduce(x), channel_id=4, replica_groups={{0,1},{2,3}}, GLOBAL, to_apply=add, PATH
  u = f32[8,4] all-reduce(x), replica_groups={{0,1}}, metadata={op_name="u, channel_id=5, a"}
  ROOT v = f32[8,4] all-reduce(x), replica_groups={{0,1}}, metadata={op_name="u, channel_id=6, a"}
}
""".replace("GLOBAL", "use_global_device_ids=true").replace("PATH", 'metadata={op_name="f/psum"}')


def test_only_collectives_that_print_the_same_share_their_attributes() -> None:
    found = {one.name: one for one in collectives(module_of(TEXT)).collectives}
    assert [one.channel_id for one in found.values()] == [1, 2, None, 3, 4, None, None]
    first, second = found["p"], found["q"]
    rows = dict.fromkeys(("row", "start_row", "end_row"), second.row)
    assert asdict(second) == {**asdict(first), "name": "q", "channel_id": 2, **rows}
    assert (first.mode, found["r"].mode) == ("flattened_id", "cross_replica")
    assert (first.groups, found["s"].groups) == (((0, 1), (2, 3)), ((0, 2), (1, 3)))
    assert (first.payload_bytes, found["t"].payload_bytes) == (128, 16)
    assert {one.op_name for one in found.values()} == {
        "f/psum",
        "u, channel_id=5, a",
        "u, channel_id=6, a",
    }
