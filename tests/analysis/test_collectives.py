"""Each logical collective once, with what the text tells of it."""

from __future__ import annotations

import pytest

from hlo_lens.analysis.collectives import Collective, Collectives, collectives
from tests.analysis.texts import entry_of, table_of

ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""


def _counted(lines: str, header: str = ", num_partitions=8", before: str = "") -> Collectives:
    text = f"HloModule m{header}\n{ADD}{before}\nENTRY main {{\n{lines}\n}}\n"
    return collectives(table_of(text))


def _one(line: str, header: str = ", num_partitions=8") -> Collective:
    (found,) = _counted(f"  x = f32[8,4] parameter(0)\n  ROOT c = {line}", header).collectives
    return found


def test_all_facts_of_one_collective() -> None:
    found = _one(
        "f32[8,4] all-reduce(x), channel_id=3, replica_groups=[2,4]<=[4,2]T(1,0), "
        'use_global_device_ids=true, to_apply=add, metadata={op_name="jit(f)/psum" '
        'source_file="/f.py" source_line=9}'
    )
    assert found == Collective(
        name="c",
        kind="all-reduce",
        computation="main",
        channel_id=3,
        mode="flattened_id",
        groups=((0, 2, 4, 6), (1, 3, 5, 7)),
        group_size=4,
        num_groups=2,
        axes=("axis_0",),
        axis_parts=("axis_0",),
        payload_bytes=128,
        wire_bytes_per_device=192,
        steps=6,
        dynamic_count=1,
        element_type="f32",
        is_async=False,
        op_name="jit(f)/psum",
        source_file="/f.py",
        source_line=9,
    )


@pytest.mark.parametrize(
    ("line", "payload_bytes"),
    [
        ("f32[8,4] all-reduce(x), replica_groups={{0,1}}, to_apply=add", 128),
        ("(f32[8,4], f32[2]) all-reduce(x, y), replica_groups={{0,1}}, to_apply=add", 136),
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
    assert _one(line).payload_bytes == payload_bytes


def test_reduce_scatter_of_unknown_group_has_no_payload() -> None:
    groups = "channel_id=1, replica_groups={{0}}"
    found = _one(f"f32[4,4] reduce-scatter(x), {groups}, dimensions={{0}}, to_apply=add", header="")
    assert (found.groups, found.group_size, found.payload_bytes) == (None, None, None)


@pytest.mark.parametrize(
    ("attributes", "header", "mode", "groups"),
    [
        ("replica_groups={{0,1}}", ", replica_count=2", "cross_replica", ((0, 1),)),
        ("replica_groups={}", ", replica_count=3", "cross_replica", ((0, 1, 2),)),
        (
            "replica_groups={{0,1}}",
            ", replica_count=2, num_partitions=2",
            "cross_replica",
            ((0, 2), (1, 3)),
        ),
        (
            "channel_id=1, replica_groups={{0}}",
            ", num_partitions=4",
            "cross_replica_and_partition",
            ((0, 1, 2, 3),),
        ),
        (
            "channel_id=1, replica_groups={}",
            ", replica_count=2, num_partitions=2",
            "cross_replica_and_partition",
            ((0, 1, 2, 3),),
        ),
        (
            "channel_id=1, replica_groups={{0},{1}}",
            ", replica_count=2, num_partitions=2",
            "cross_replica_and_partition",
            ((0, 1), (2, 3)),
        ),
        (
            "channel_id=1, replica_groups={{0,3},{1,2}}, use_global_device_ids=true",
            ", replica_count=2, num_partitions=2",
            "flattened_id",
            ((0, 3), (1, 2)),
        ),
    ],
)
def test_groups_are_of_devices_whatever_the_ids_count(
    attributes: str, header: str, mode: str, groups: tuple[tuple[int, ...], ...]
) -> None:
    found = _one(f"f32[8,4] all-reduce(x), {attributes}, to_apply=add", header)
    assert (found.mode, found.groups) == (mode, groups)


def test_groups_of_more_ids_than_there_are_devices_are_not_expanded() -> None:
    line = "f32[8,4] all-reduce(x), replica_groups={}, to_apply=add"
    found = _one(line, ", replica_count=1000000000000")
    assert (found.groups, found.payload_bytes) == (None, 128)


def test_partition_ids_are_those_of_every_replica() -> None:
    line = "f32[8,4] all-to-all(x), channel_id=1, replica_groups={{0,1}}, dimensions={0}"
    found = _one(line, ", replica_count=2, num_partitions=2")
    assert (found.mode, found.groups) == ("cross_partition", ((0, 1), (2, 3)))


def test_missing_header_number_is_taken_from_shardings() -> None:
    found = _counted(
        "  x = f32[8,4] parameter(0), sharding={devices=[4,1]0,1,2,3}\n"
        "  ROOT c = f32[8,4] all-reduce(x), channel_id=2, replica_groups={{0}}, to_apply=add",
        header="",
    )
    assert found.collectives[0].groups == ((0, 1, 2, 3),)


def test_transfers_have_source_and_target() -> None:
    permute = _one(
        "f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2}}"
    )
    assert permute.source_target_pairs == ((0, 1), (1, 2))
    assert (permute.groups, permute.group_size, permute.num_groups) == (((0, 1, 2),), 3, 1)
    send = _one(
        "(f32[8,4], u32[], token[]) send(x, t), channel_id=1, "
        'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,4}}"}'
    )
    assert (send.mode, send.groups, send.is_async) == (None, ((0, 4),), True)


def test_transfer_without_pairs_is_of_unknown_groups() -> None:
    found = _one("(f32[8,4], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true")
    assert (found.groups, found.group_size, found.source_target_pairs) == (None, None, None)
    empty = _one("f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={}")
    assert (empty.groups, empty.group_size, empty.num_groups) == ((), None, 0)


def test_start_and_done_are_one() -> None:
    found = _counted(
        """
  x = f32[8,4] parameter(0)
  s = f32[8,4] all-reduce-start(x), replica_groups={}, to_apply=add
  d = f32[8,4] all-reduce-done(s)
  k = ((f32[8,4]), f32[1,4]) reduce-scatter-start(d), replica_groups={}, dimensions={0}, \
to_apply=add
  u = ((f32[8,4]), f32[1,4]) reduce-scatter-update(k)
  e = f32[1,4] reduce-scatter-done(u)
  t = token[] after-all()
  n = (f32[1,4], u32[], token[]) send(e, t), channel_id=1
  o = token[] send-done(n), channel_id=1
  r = (f32[1,4], u32[], token[]) recv(o), channel_id=1
  ROOT q = (f32[1,4], token[]) recv-done(r), channel_id=1"""
    )
    counts = {kind: count for kind, count in found.static_counts().items() if count}
    assert counts == {"all-reduce": 1, "reduce-scatter": 1, "send": 1, "recv": 1}
    assert [c.is_async for c in found.collectives] == [True, True, True, True]


WRAPPED = """
inner {
  p = f32[8,4] parameter(0)
  ROOT r = f32[8,4] all-reduce(p), replica_groups={}, to_apply=add
}

wrapped {
  q = f32[8,4] parameter(0)
  ROOT f = f32[8,4] fusion(q), kind=kCustom, calls=inner
}
"""


def test_async_start_counts_what_it_calls_once() -> None:
    found = _counted(
        """
  x = f32[8,4] parameter(0)
  s = ((f32[8,4]), f32[8,4]) async-start(x), calls=wrapped
  ROOT d = f32[8,4] async-done(s)""",
        before=WRAPPED,
    )
    assert [(c.name, c.computation, c.is_async) for c in found.collectives] == [
        ("r", "inner", True)
    ]


def test_sugar_that_prints_its_computation_too_is_counted_there() -> None:
    found = _counted(
        """
  x = f32[8,4] parameter(0)
  s = ((f32[8,4]), f32[8,4]) all-to-all-start(x), calls=wrapped, replica_groups={}
  ROOT d = f32[8,4] all-to-all-done(s), calls=wrapped""",
        before=WRAPPED.replace(
            "all-reduce(p), replica_groups={}, to_apply=add", "negate(p)"
        ).replace(
            "fusion(q), kind=kCustom, calls=inner",
            "all-to-all(q), replica_groups={}, dimensions={0}",
        ),
    )
    assert [c.name for c in found.collectives] == ["f"]
    assert found.clones == 1


def test_sync_mark_of_the_gpu_compiler_is_obeyed() -> None:
    found = _counted(
        """
  x = f32[8,4] parameter(0)
  s = f32[8,4] all-reduce-start(x), replica_groups={}, to_apply=add, \
backend_config={"collective_backend_config":{"is_sync":true}}
  ROOT d = f32[8,4] all-reduce-done(s)"""
    )
    assert [c.is_async for c in found.collectives] == [False]


TPU_PART = """
{name} {{
  p = f32[8,4] parameter(0)
  g{number} = f32[16,4] all-gather(p), channel_id={channel}, replica_groups={{}}, dimensions={{0}}
  ROOT t = f32[16,4] {root}
}}
"""


def _tpu_part(name: str, number: int, channel: int) -> str:
    target = {"start": "AsyncCollectiveStart", "end": "AsyncCollectiveDone"}.get(name)
    root = (
        f'custom-call(g{number}), custom_call_target="{target}"' if target else f"negate(g{number})"
    )
    return TPU_PART.format(name=name, number=number, channel=channel, root=root)


def test_tpu_parts_of_one_collective_are_counted_at_the_start() -> None:
    parts = [
        _tpu_part("start", 1, 30),
        _tpu_part("async_collective_fusion.7", 2, 30),
        _tpu_part("end", 3, 30),
    ]
    found = _counted("  ROOT x = f32[8,4] parameter(0)", before="".join(parts))
    assert [(c.name, c.is_async) for c in found.collectives] == [("g1", True)]
    assert found.clones == 2


def test_tpu_parts_without_their_start_are_counted_once() -> None:
    parts = [_tpu_part("async_collective_fusion", 1, 30), _tpu_part("end", 2, 30)]
    found = _counted("  ROOT x = f32[8,4] parameter(0)", before="".join(parts))
    assert [c.name for c in found.collectives] == ["g1"]


def test_opcode_that_sounds_like_a_collective_is_noted_not_counted() -> None:
    found = _counted("  x = f32[8,4] parameter(0)\n  ROOT y = f32[8,4] all-scatter(x)")
    assert found.collectives == ()
    assert found.unknown_opcodes == (("all-scatter", 1),)


def test_every_kind_has_a_count() -> None:
    counts = collectives(entry_of("  ROOT x = f32[] parameter(0)")).static_counts()
    assert set(counts.values()) == {0}
    assert len(counts) == 9
