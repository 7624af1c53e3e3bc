"""Instants of collectives, and the work between their start and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.load.fact import plant
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.schedule_places import SchedulePlace, schedule_places
from hlo_lens.questions.memory.results import memory_results
from tests.questions.texts import module_of

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump

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


def _places(module: ModuleDump) -> dict[str, SchedulePlace]:
    pairs = zip(collectives(module).collectives, schedule_places(module), strict=True)
    return {one.name: place for one, place in pairs}


def test_work_between_start_and_end_is_listed_without_views() -> None:
    assert _places(module_of(TEXT))["start"] == SchedulePlace(1, 4, ("work",))


def test_a_collective_in_a_fusion_has_the_instant_of_the_fusion() -> None:
    assert _places(module_of(TEXT))["inside"] == SchedulePlace(5, 5, ())


def test_instants_are_not_known_without_a_schedule() -> None:
    module = module_of(TEXT)
    plant(module, memory_results, None)
    assert _places(module)["start"] == SchedulePlace(None, None, ("work",))


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
    module = module_of(SPARSE_CORE)
    (one,), (place,) = collectives(module).collectives, schedule_places(module)
    memory = memory_results(module)
    assert memory is not None
    schedule = memory.layout.schedule or ()
    assert place == SchedulePlace(schedule.index("update"), schedule.index("done"), ("beside",))
    assert (one.started_by, one.ended_by, one.overlap_bytes) == ("start", "done", 3 * 64 * 4)
