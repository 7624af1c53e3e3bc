"""Bytes on the wire, overlap, and instants of collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens.load.fact import plant
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.collectives.loop_levels import SchedulePlace, schedule_places
from hlo_lens.questions.collectives.page import collectives_text
from hlo_lens.questions.memory.results import memory_results
from tests.questions.collectives.texts import ADD, counted, one_of, tpu_part
from tests.questions.texts import module_of

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump


@pytest.mark.parametrize(
    ("line", "payload_bytes"),
    [
        ("f32[8,4] all-reduce(x), replica_groups={{0,1}}, to_apply=add", 128),
        ("(f32[8,4], f32[2]) all-reduce(x, y), replica_groups={{0,1}}, to_apply=add", 136),
        ("((f32[8,4]), f32[8,4]) all-reduce-start(x), replica_groups={{0,1}}, to_apply=add", 128),
        ("(f32[8,4], f32[2]) all-reduce-start(x, y), replica_groups={{0,1}}, to_apply=add", 136),
        ("f32[16,4] all-gather(x), replica_groups={{0,1}}, dimensions={0}", 256),
        ("(f32[8,4], f32[16,4]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}", 256),
        ("f32[4,4] reduce-scatter(x), replica_groups={{0,1}}, dimensions={0}, to_apply=add", 128),
        (
            "((f32[8,4]), f32[4,4]) reduce-scatter-start(x), replica_groups={{0,1}}, "
            "dimensions={0}, to_apply=add",
            128,
        ),
        ("f32[8,4] all-to-all(x), replica_groups={{0,1}}, dimensions={0}", 128),
        ("(f32[8,4], f32[8,4]) all-to-all(x, x), replica_groups={{0,1}}", 256),
        ("f32[8,4] collective-permute(x), source_target_pairs={{0,1}}", 128),
        (
            "(f32[8,4], f32[8,4], u32[], u32[]) collective-permute-start(x), "
            "source_target_pairs={{0,1}}",
            128,
        ),
        ("f32[8,4] collective-broadcast(x), replica_groups={{0,1}}", 128),
        ("f32[2,4] ragged-all-to-all(x, o, a, b, d, e), replica_groups={{0,1}}", 128),
        ("(f32[8,4], u32[], token[]) send(x, t), channel_id=1", 128),
        ("(f32[8,4], u32[], token[]) recv(t), channel_id=1", 128),
    ],
)
def test_payload_is_the_full_tensor_of_one_group(line: str, payload_bytes: int) -> None:
    assert one_of(line).payload_bytes == payload_bytes


def test_reduce_scatter_of_unknown_group_has_no_payload() -> None:
    groups = "channel_id=1, replica_groups={{0}}"
    found = one_of(
        f"f32[4,4] reduce-scatter(x), {groups}, dimensions={{0}}, to_apply=add", header=""
    )
    assert (found.groups, found.group_size, found.payload_bytes) == (None, None, None)


FOUR = "replica_groups={{0,1,2,3},{4,5,6,7}}, channel_id=1"


@pytest.mark.parametrize(
    ("line", "wire"),
    [
        (f"f32[8,4] all-reduce(x), {FOUR}, use_global_device_ids=true, to_apply=add", 192),
        (f"f32[32,4] all-gather(x), {FOUR}, use_global_device_ids=true, dimensions={{0}}", 384),
        (
            f"f32[2,4] reduce-scatter(x), {FOUR}, use_global_device_ids=true, dimensions={{0}}, "
            "to_apply=add",
            96,
        ),
        (f"f32[8,4] all-to-all(x), {FOUR}, dimensions={{0}}", 96),
        (f"f32[8,4] ragged-all-to-all(x, o, a, b, d, e), {FOUR}", 96),
        (f"f32[8,4] collective-broadcast(x), {FOUR}", 128),
        ("f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}", 32),
        ("f32[8,4] all-reduce(x), replica_groups={}, to_apply=add", 0),
        ("f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={{0,0},{1,1}}", 0),
        (
            "f32[3] all-reduce(y), replica_groups={{0,1,2,3,4}}, channel_id=1, "
            "use_global_device_ids=true, to_apply=add",
            20,
        ),
    ],
)
def test_wire_bytes_are_those_of_the_ring(line: str, wire: int) -> None:
    found = one_of(line)
    assert found.wire_bytes_per_device == wire
    assert found.moves_nothing == (wire == 0)
    assert (found.axis == "-", found.is_exposed is False) == (wire == 0,) * 2


SCHEDULED = ", is_scheduled=true, num_partitions=2"


HIDING = """
  x = f32[8,4] parameter(0)
  w = f32[4,16] parameter(1)
  s = f32[8,4] all-reduce-start(x), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=add
  t = (f32[8,4]) tuple(x)
  g = f32[8,4] get-tuple-element(t), index=0
  m = f32[8,16] dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  n = f32[8,16] negate(m)
  d = f32[8,4] all-reduce-done(s)
  ROOT r = (f32[8,4], f32[8,16]) tuple(d, n)"""


_LINES = HIDING.splitlines()
EARLY = "\n".join([*_LINES[:4], _LINES[-2], *_LINES[4:-2], _LINES[-1]])
"""The same with the end right behind the start."""


def test_instructions_between_start_and_done_overlap() -> None:
    (found,) = counted(HIDING, SCHEDULED).collectives
    assert (found.is_async, found.is_exposed) == (True, False)
    assert found.overlap_instructions == 2
    assert found.overlap_flops == 2 * 8 * 16 * 4
    dot, negate = (8 * 4 + 4 * 16 + 8 * 16) * 4, 2 * 8 * 16 * 4
    assert found.overlap_bytes == dot + negate
    assert found.covered_ratio == 1


COUNTER = """
  x = f32[8,4] parameter(0)
  i = s32[] parameter(1)
  s = f32[8,4] all-reduce-start(x), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=add
  n = s32[] negate(i)
  d = f32[8,4] all-reduce-done(s)
  ROOT r = (f32[8,4], s32[]) tuple(d, n)"""


def test_loop_counter_does_not_hide_a_transfer() -> None:
    (found,) = counted(COUNTER, SCHEDULED).collectives
    assert (found.overlap_instructions, found.overlap_bytes) == (1, 8)
    assert (found.wire_bytes_per_device, found.covered_ratio) == (128, 4 / 128)
    assert found.is_exposed is True
    assert found.uncovered_bytes_per_run == 124


SHARED = """
  x = f32[8,4] parameter(0)
  w = f32[16,4] parameter(1)
  s = f32[8,4] all-reduce-start(x), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=add
  t = f32[8,4] all-reduce-start(x), channel_id=2, replica_groups=SECOND, \
use_global_device_ids=true, to_apply=add
  n = f32[4,4] slice(w), slice={[0:4], [0:4]}
  m = f32[4,5] custom-call(n), custom_call_target="TARGET"
  d = f32[8,4] all-reduce-done(s)
  e = f32[8,4] all-reduce-done(t)
  ROOT r = (f32[8,4], f32[8,4], f32[4,4]) tuple(d, e, n)"""


def test_work_covers_one_of_two_transfers_over_the_same_links() -> None:
    text = SHARED.replace("TARGET", "TopK").replace("SECOND", "{{0,1}}")
    first, second = counted(text, SCHEDULED).collectives
    assert first.overlap_bytes == second.overlap_bytes == 128 + (16 + 20) * 4
    assert (first.covered_ratio, second.covered_ratio) == (1, 8 / 128)


def test_work_covers_transfers_over_other_links_at_once() -> None:
    text = SHARED.replace("TARGET", "TopK").replace("SECOND", "{{0,1},{2,3}}")
    found = counted(text, SCHEDULED.replace("=2", "=4")).collectives
    assert [one.covered_ratio for one in found] == [1, 1]


def test_kernel_of_unknown_work_leaves_the_verdict_open() -> None:
    text = SHARED.replace("TARGET", "kernel").replace("SECOND", "{{0,1}}")
    first, second = counted(text, SCHEDULED).collectives
    assert (first.is_exposed, first.overlap_flops) == (False, None)
    assert (second.covered_ratio, second.is_exposed) == (None, None)


def test_nothing_between_start_and_done_is_exposed() -> None:
    (found,) = counted(EARLY, SCHEDULED).collectives
    assert (found.is_async, found.overlap_instructions, found.is_exposed) == (True, 0, True)


def test_overlap_of_an_unscheduled_module_is_unknown() -> None:
    (found,) = counted(HIDING, ", num_partitions=2").collectives
    assert (found.overlap_instructions, found.is_exposed) == (None, None)


def test_tpu_collective_is_hidden_by_the_fusions_up_to_its_end() -> None:
    parts = [
        tpu_part("start", 1, 30),
        tpu_part("async_collective_fusion.7", 2, 30),
        tpu_part("end", 3, 30),
    ]
    found = counted(
        """
  x = f32[8,4] parameter(0)
  a = f32[16,4] fusion(x), kind=kCustom, calls=start
  b = f32[16,4] fusion(a), kind=kOutput, calls=async_collective_fusion.7
  n = f32[16,4] negate(x)
  c = f32[16,4] fusion(b), kind=kCustom, calls=end
  ROOT m = f32[16,4] negate(c)""",
        SCHEDULED,
        before="".join(parts),
    )
    (one,) = found.collectives
    assert (one.name, one.is_async, found.clones) == ("g1", True, 2)
    assert (one.started_by, one.overlap_instructions, one.dynamic_count) == ("a", 2, 1)
    assert (one.overlap_bytes, one.is_exposed) == (256 + 128 + 256, False)


@pytest.mark.parametrize(
    ("work", "words"), [(True, "none of 1 surely exposed"), (False, "1 of 1 exposed")]
)
def test_what_work_may_hide_is_not_counted_as_exposed(work: bool, words: str) -> None:
    lines = HIDING if work else EARLY
    module = module_of(f"HloModule m{SCHEDULED}\n{ADD}\nENTRY main {{\n{lines}\n}}\n")
    assert collectives_text(module).endswith(f"per device, {words}")


PLACED = """HloModule m, is_scheduled=true, num_partitions=2

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


def test_a_collective_has_the_instants_of_start_and_end() -> None:
    assert _places(module_of(PLACED))["start"] == SchedulePlace(1, 4)


def test_a_collective_in_a_fusion_has_the_instant_of_the_fusion() -> None:
    assert _places(module_of(PLACED))["inside"] == SchedulePlace(5, 5)


def test_instants_are_not_known_without_a_schedule() -> None:
    module = module_of(PLACED)
    plant(module, memory_results, None)
    assert _places(module)["start"] == SchedulePlace(None, None)


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
    assert place == SchedulePlace(schedule.index("update"), schedule.index("done"))
    assert (one.started_by, one.ended_by, one.overlap_bytes) == ("start", "done", 3 * 64 * 4)
