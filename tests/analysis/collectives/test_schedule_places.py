"""Instants of collectives, and the work between their start and end."""

from __future__ import annotations

from hlo_lens.analysis.collectives.collectives import collectives
from hlo_lens.analysis.collectives.schedule_places import SchedulePlace, schedule_places
from hlo_lens.analysis.program.call_counts import CallCounts
from tests.analysis.texts import table_of

TEXT = """HloModule m, is_scheduled=true, num_partitions=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

fused {
  q = f32[64] parameter(0)
  ROOT inside = f32[64] all-reduce(q), replica_groups={{0,1}}, channel_id=2, to_apply=add
}

ENTRY main {
  p = f32[64] parameter(0)
  start = f32[64] all-reduce-start(p), replica_groups={{0,1}}, channel_id=1, to_apply=add
  view = f32[8,8] bitcast(p)
  work = f32[64] multiply(p, p)
  done = f32[64] all-reduce-done(start)
  fusion = f32[64] fusion(work), kind=kLoop, calls=fused
  ROOT sum = f32[64] add(done, fusion)
}
"""
SCHEDULE = ["p", "start", "view", "work", "done", "fusion", "sum"]


def _places(schedule: list[str]) -> dict[str, SchedulePlace]:
    table = table_of(TEXT)
    found = collectives(table).collectives
    places = schedule_places(table, CallCounts(table), found, schedule)
    return {one.name: place for one, place in zip(found, places, strict=True)}


def test_work_between_start_and_end_is_listed_without_views() -> None:
    assert _places(SCHEDULE)["start"] == SchedulePlace(1, 4, ("work",))


def test_a_collective_in_a_fusion_has_the_instant_of_the_fusion() -> None:
    assert _places(SCHEDULE)["inside"] == SchedulePlace(5, 5, ())


def test_instants_are_not_known_without_a_schedule() -> None:
    assert _places([])["start"] == SchedulePlace(None, None, ("work",))


SPARSE_CORE = """HloModule m, is_scheduled=true, num_partitions=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

sent {
  q = f32[64] parameter(0)
  ROOT inside = f32[64] all-reduce(q), replica_groups={{0,1}}, channel_id=1, to_apply=add
}

ENTRY main {
  p = f32[64] parameter(0)
  start = ((), (), (s32[4])) async-start(), async_execution_thread="sparsecore", calls=sent
  before = f32[64] multiply(p, p)
  update = ((f32[64]), f32[64], (s32[4])) async-update(start, before)
  beside = f32[64] add(p, p)
  done = f32[64] async-done(update)
  ROOT sum = f32[64] add(done, beside)
}
"""


def test_a_transfer_begins_where_it_gets_its_operands() -> None:
    table = table_of(SPARSE_CORE)
    found = collectives(table).collectives
    schedule = ["p", "start", "before", "update", "beside", "done", "sum"]
    (one,), (place,) = found, schedule_places(table, CallCounts(table), found, schedule)
    assert place == SchedulePlace(3, 5, ("beside",))
    assert (one.started_by, one.ended_by, one.overlap_bytes) == ("start", "done", 3 * 64 * 4)
