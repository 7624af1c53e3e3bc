"""Collectives: each logical operation once, with its devices."""

from __future__ import annotations

import time
from dataclasses import asdict

import pytest

from hlo_lens.program.origins import origins
from hlo_lens.program.runs import call_counts
from hlo_lens.questions.collectives.collective import Collective, collectives
from hlo_lens.shapes.mesh import Mesh
from tests.questions.collectives.texts import ADD, BETWEEN_SLICES, counted, one_of, tpu_part
from tests.questions.texts import module_of


def test_all_facts_of_one_collective() -> None:
    found = one_of(
        "f32[8,4] all-reduce(x), channel_id=3, replica_groups=[2,4]<=[4,2]T(1,0), "
        'use_global_device_ids=true, to_apply=add, metadata={op_name="jit(f)/psum" '
        'source_file="/f.py" source_line=9}'
    )
    wanted = Collective(
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
        devices=found.devices,
        payload_bytes=128,
        wire_bytes_per_device=192,
        dynamic_count=1,
        element_type="f32",
        is_async=False,
        op_name="jit(f)/psum",
        source_file="/f.py",
        source_line=9,
        origin_basis="own",
        has_own_path=True,
        parameters=("argument 0",),
        row=found.row,
        start_row=found.row,
        end_row=found.row,
    )
    assert asdict(found) == asdict(wanted)


BOTH = ", replica_count=2, num_partitions=2"
BY_CHANNEL = "cross_replica_and_partition"
ALL_TO_ALL = "f32[8,4] all-to-all(x), dimensions={0}"


@pytest.mark.parametrize(
    ("attributes", "header", "mode", "groups"),
    [
        ("{{0,1}}", ", replica_count=2", "cross_replica", ((0, 1),)),
        ("{}", ", replica_count=3", "cross_replica", ((0, 1, 2),)),
        ("{}", ", replica_count=1000000000000", "cross_replica", None),
        ("{{0,1}}", BOTH, "cross_replica", ((0, 2), (1, 3))),
        ("{{0}}, channel_id=1", ", num_partitions=4", BY_CHANNEL, ((0, 1, 2, 3),)),
        ("{}, channel_id=1", BOTH, BY_CHANNEL, ((0, 1, 2, 3),)),
        ("{{0},{1}}, channel_id=1", BOTH, BY_CHANNEL, ((0, 1), (2, 3))),
        (
            "{{0,3},{1,2}}, channel_id=1, use_global_device_ids=true",
            BOTH,
            "flattened_id",
            ((0, 3), (1, 2)),
        ),
    ],
)
def test_groups_are_of_devices_whatever_the_ids_count(
    attributes: str, header: str, mode: str, groups: tuple[tuple[int, ...], ...] | None
) -> None:
    line = f"f32[8,4] all-reduce(x), replica_groups={attributes}, to_apply=add"
    found = one_of(line, header)
    assert (found.mode, found.groups) == (mode, groups)


def test_partition_ids_are_those_of_every_replica() -> None:
    found = one_of(f"{ALL_TO_ALL}, channel_id=1, replica_groups={{{{0,1}}}}", BOTH)
    assert (found.mode, found.groups) == ("cross_partition", ((0, 1), (2, 3)))


def test_missing_header_number_is_taken_from_shardings() -> None:
    found = counted(
        "  x = f32[8,4] parameter(0), sharding={devices=[4,1]0,1,2,3}\n"
        "  ROOT c = f32[8,4] all-reduce(x), channel_id=2, replica_groups={{0}}, to_apply=add",
        header="",
    )
    assert found.collectives[0].groups == ((0, 1, 2, 3),)


@pytest.mark.parametrize(
    ("attributes", "header", "wire"),
    [
        ("source_target_pairs={{0,1},{1,0}}", ", replica_count=2", 128),
        ("source_target_pairs={{0,1},{1,2}}", ", replica_count=4", 64),
        ("source_target_pairs={{0,1}}", ", replica_count=2, num_partitions=2", 64),
        ("channel_id=1, source_target_pairs={{0,1},{1,0}}", ", replica_count=2", None),
    ],
)
def test_transfers_between_replicas_need_no_number_of_partitions(
    attributes: str, header: str, wire: int | None
) -> None:
    found = one_of(f"f32[8,4] collective-permute(x), {attributes}", header)
    assert found.wire_bytes_per_device == wire


def test_transfers_have_source_and_target() -> None:
    permute = one_of(
        "f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,2}}"
    )
    assert permute.source_target_pairs == ((0, 1), (1, 2))
    assert (permute.groups, permute.group_size, permute.num_groups) == (((0, 1, 2),), 3, 1)
    send = one_of(
        "(f32[8,4], u32[], token[]) send(x, t), channel_id=1, "
        'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,4}}"}'
    )
    assert (send.mode, send.groups, send.is_async) == (None, ((0, 4),), True)


def test_transfer_without_pairs_is_of_unknown_groups() -> None:
    found = one_of("(f32[8,4], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true")
    assert (found.groups, found.group_size, found.source_target_pairs) == (None, None, None)
    assert (found.is_host_transfer, found.crosses_slices) == (True, False)
    assert (found.payload_bytes, found.wire_bytes_per_device) == (128, 0)
    empty = one_of("f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={}")
    assert (empty.groups, empty.group_size, empty.num_groups) == ((), None, 0)


def test_start_and_done_areone_of() -> None:
    found = counted(
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


def test_async_start_counts_its_collective_once() -> None:
    found = counted(
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
    found = counted(
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
    found = counted(
        """
  x = f32[8,4] parameter(0)
  s = f32[8,4] all-reduce-start(x), replica_groups={}, to_apply=add, \
backend_config={"collective_backend_config":{"is_sync":true}}
  ROOT d = f32[8,4] all-reduce-done(s)"""
    )
    assert [c.is_async for c in found.collectives] == [False]


def test_tpu_parts_without_their_start_are_counted_once() -> None:
    parts = [tpu_part("async_collective_fusion", 1, 30), tpu_part("end", 2, 30)]
    found = counted("  ROOT x = f32[8,4] parameter(0)", before="".join(parts))
    assert [c.name for c in found.collectives] == ["g1"]


def test_opcode_that_sounds_like_a_collective_is_noted_notcounted() -> None:
    found = counted("  x = f32[8,4] parameter(0)\n  ROOT y = f32[8,4] all-scatter(x)")
    assert found.collectives == ()
    assert found.unknown_opcodes == (("all-scatter", 1),)


def test_all_reduce_fused_with_its_slice_counts_as_reduce_scatter() -> None:
    text = f"""HloModule m, num_partitions=4
{ADD}
all-reduce-scatter.3 {{
  p = f32[8,4] parameter(0)
  r = f32[8,4] all-reduce(p), channel_id=1, replica_groups={{{{0,1,2,3}}}}, \
use_global_device_ids=true, to_apply=add
  i = s32[] constant(0)
  ROOT s = f32[2,4] dynamic-slice(r, i, i), dynamic_slice_sizes={{2,4}}
}}

ENTRY main {{
  x = f32[8,4] parameter(0)
  ROOT f = f32[2,4] fusion(x), kind=kCustom, calls=all-reduce-scatter.3, \
metadata={{op_name="jit(f)/dot_general"}}
}}
"""
    (found,) = collectives(module_of(text)).collectives
    assert (found.kind, found.performed_as) == ("reduce-scatter", "reduce-scatter")
    assert (found.wire_bytes_per_device, found.dynamic_count) == (96, 1)
    assert found.op_name == "jit(f)/dot_general"


def test_shift_of_padding_is_part_of_a_reduce_scatter() -> None:
    text = f"""HloModule m, num_partitions=2
{ADD}
all-reduce-scatter {{
  p = f32[6,4] parameter(0)
  zero = f32[] constant(0)
  w = f32[8,4] pad(p, zero), padding=0_2x0_0
  r = f32[8,4] all-reduce(w), channel_id=1, replica_groups={{{{0,1}}}}, \
use_global_device_ids=true, to_apply=add
  i = s32[] constant(0)
  ROOT s = f32[4,4] dynamic-slice(r, i, i), dynamic_slice_sizes={{4,4}}
}}

ENTRY main {{
  x = f32[6,4] parameter(0)
  f = f32[4,4] fusion(x), kind=kCustom, calls=all-reduce-scatter
  s = f32[1,4] slice(f), slice={{[3:4], [0:4]}}
  c = f32[1,4] collective-permute(s), channel_id=2, source_target_pairs={{{{0,1}}}}META
  ROOT e = f32[5,4] concatenate(c, f), dimensions={{0}}
}}
"""
    joined = collectives(module_of(text.replace("META", "")))
    (found,) = joined.collectives
    assert (found.kind, found.payload_bytes, joined.clones) == ("reduce-scatter", 96, 1)
    assert found.wire_bytes_per_device == 128 // 2 + 16 // 2
    own = text.replace("META", ', metadata={op_name="jit(f)/ppermute"}')
    kinds = [one.kind for one in collectives(module_of(own)).collectives]
    assert kinds == ["reduce-scatter", "collective-permute"]


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ('custom_call_target="mpi_allreduce_ffi"', "all-reduce"),
        ('custom_call_target="mpi_xla_alltoall"', "all-to-all"),
        (
            'custom_call_target="tpu_custom_call", '
            'backend_config={"custom_call_config":{"has_communication":true}}',
            "custom-call",
        ),
        ('custom_call_target="tpu_custom_call", backend_config={"custom_call_config":{}}', None),
        ('custom_call_target="lapack_sgeqrf_ffi"', None),
    ],
)
def test_custom_calls_that_communicate_arecounted(attributes: str, kind: str | None) -> None:
    found = counted(f"  x = f32[8] parameter(0)\n  ROOT c = f32[8] custom-call(x), {attributes}")
    assert [c.kind for c in found.collectives] == ([] if kind is None else [kind])
    assert all(c.wire_bytes_per_device is None for c in found.collectives)
    assert found.wire_bytes_per_device == (0 if kind is None else None)


def test_send_and_recv_between_slices_are_one_operation() -> None:
    result = collectives(module_of(BETWEEN_SLICES).stating(mesh=Mesh.of({"dcn": 2, "x": 4})))
    one, two = result.collectives
    assert [(c.name, c.kind, c.ended_by) for c in (one, two)] == [
        ("s1", "all-gather", "e1"),
        ("s2", "all-gather", "e2"),
    ]
    assert (one.payload_bytes, one.wire_bytes_per_device, one.axes) == (128, 32, ("dcn",))
    assert result.static_counts()["send"] == result.static_counts()["recv"] == 0
    assert result.clones == 2
    assert one.overlap_instructions == 1


def test_ragged_all_to_all_between_slices_is_one_operation_with_its_sizes() -> None:
    sends = "".join(
        f"""
  {name} = ({shape}, u32[], token[]) send({operand}, t), channel_id={channel}, \
is_host_transfer=true, ACROSS"rag"}}
  {name}_done = token[] send-done({name}), channel_id={channel}, is_host_transfer=true"""
        for channel, (name, operand, shape) in enumerate(
            [("offsets", "o", "s32[2]"), ("data", "x", "bf16[64]"), ("counts", "o", "s32[2]")], 1
        )
    )
    text = f"""HloModule m, is_scheduled=true, num_partitions=4

ENTRY main {{
  x = bf16[64] parameter(0)
  o = s32[2] parameter(1)
  t = token[] after-all()
  r = (bf16[128], u32[], token[]) recv(t), channel_id=9, is_host_transfer=true, ACROSS"rag"}}{sends}
  e = (bf16[128], token[]) recv-done(r), channel_id=9, is_host_transfer=true
  ROOT f = bf16[128] get-tuple-element(e), index=0
}}
"""
    across = (
        'frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",'
        '_xla_megascale_transfer_type="RAGGED_ALL_TO_ALL",_xla_host_transfer_rendezvous='
    )
    result = collectives(
        module_of(text.replace("ACROSS", across)).stating(mesh=Mesh.of({"dcn": 2, "x": 4}))
    )
    (found,) = result.collectives
    assert (found.name, found.kind, found.ended_by) == ("data", "ragged-all-to-all", "e")
    assert (found.payload_bytes, found.wire_bytes_per_device) == (256, 128 + 2 * 8)
    assert found.is_at_most
    assert result.clones == 3


def test_recv_between_slices_without_its_send_is_kept() -> None:
    text = BETWEEN_SLICES.replace(
        '{_xla_host_transfer_handler_name="xla_megascale_runtime",', "{", 1
    )
    kinds = [c.kind for c in collectives(module_of(text)).collectives]
    assert sorted(kinds) == ["all-gather", "recv", "send"]


PRINTED = """HloModule m, num_partitions=4

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


def test_twenty_thousand_collectives_take_few_times_as_long_as_their_text() -> None:
    """Half a second, where the text takes a tenth; whole dataclasses of them took twice that."""
    groups = "replica_groups=[2,4]<=[8], use_global_device_ids=true"
    chain = "\n".join(
        f"  c{n + 1} = f32[1024,8] all-reduce(c{n}), channel_id={n + 1}, {groups}, "
        f'to_apply=add, metadata={{op_name="jit(f)/{n % 50}/psum" '
        f'source_file="/f.py" source_line={n % 200 + 1}}}'
        for n in range(20_000)
    )
    lines = f"  c0 = f32[1024,8] parameter(0)\n{chain}\n  ROOT r = f32[1024,8] negate(c20000)"
    header = "HloModule m, num_partitions=8, is_scheduled=true"
    text = f"{header}\n{ADD}\nENTRY main {{\n{lines}\n}}\n"
    ratios = []
    for _ in range(3):
        begin = time.process_time()
        module = module_of(text)
        origins(module)
        call_counts(module)
        read = time.process_time()
        assert len(collectives(module).collectives) == 20_000
        ratios.append((time.process_time() - read) / (read - begin))
    assert min(ratios) < 6
