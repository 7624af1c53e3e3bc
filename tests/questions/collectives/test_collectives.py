"""Collectives: each logical operation once, with its facts."""

from __future__ import annotations

from dataclasses import asdict

import pytest

import hlo_lens
from hlo_lens.load.devices import device_assignment
from hlo_lens.load.fact import plant
from hlo_lens.questions.collectives.collective import Collective, Collectives, collectives
from hlo_lens.questions.collectives.loop_levels import collectives_by
from hlo_lens.shapes.mesh import Mesh, TileAssignment
from tests.questions.texts import entry_module, module_of

ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""


def _counted(lines: str, header: str = ", num_partitions=8", before: str = "") -> Collectives:
    text = f"HloModule m{header}\n{ADD}{before}\nENTRY main {{\n{lines}\n}}\n"
    return collectives(module_of(text))


def _one(line: str, header: str = ", num_partitions=8") -> Collective:
    (found,) = _counted(f"  x = f32[8,4] parameter(0)\n  ROOT c = {line}", header).collectives
    return found


def test_all_facts_of_one_collective() -> None:
    found = _one(
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
        steps=6,
        dynamic_count=1,
        element_type="f32",
        is_async=False,
        op_name="jit(f)/psum",
        source_file="/f.py",
        source_line=9,
        origin_basis="own",
        has_own_path=True,
        row=found.row,
        start_row=found.row,
        end_row=found.row,
    )
    assert asdict(found) == asdict(wanted)


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
    found = _one(f"f32[8,4] collective-permute(x), {attributes}", header)
    assert found.wire_bytes_per_device == wire


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


def test_async_start_counts_its_collective_once() -> None:
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
    counts = collectives(entry_module("  ROOT x = f32[] parameter(0)")).static_counts()
    assert set(counts.values()) == {0}
    assert len(counts) == 9


# ---- bytes and steps ---------------------------------------------------------------------------

FOUR = "replica_groups={{0,1,2,3},{4,5,6,7}}, channel_id=1"


@pytest.mark.parametrize(
    ("line", "wire", "steps"),
    [
        (f"f32[8,4] all-reduce(x), {FOUR}, use_global_device_ids=true, to_apply=add", 192, 6),
        (f"f32[32,4] all-gather(x), {FOUR}, use_global_device_ids=true, dimensions={{0}}", 384, 3),
        (
            f"f32[2,4] reduce-scatter(x), {FOUR}, use_global_device_ids=true, dimensions={{0}}, "
            "to_apply=add",
            96,
            3,
        ),
        (f"f32[8,4] all-to-all(x), {FOUR}, dimensions={{0}}", 96, 3),
        (f"f32[8,4] ragged-all-to-all(x, o, a, b, d, e), {FOUR}", 96, 3),
        (f"f32[8,4] collective-broadcast(x), {FOUR}", 128, 3),
        ("f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}", 32, 1),
        ("f32[8,4] all-reduce(x), replica_groups={}, to_apply=add", 0, 0),
        ("f32[8,4] collective-permute(x), channel_id=1, source_target_pairs={{0,0},{1,1}}", 0, 0),
        (
            "f32[3] all-reduce(y), replica_groups={{0,1,2,3,4}}, channel_id=1, "
            "use_global_device_ids=true, to_apply=add",
            20,
            8,
        ),
    ],
)
def test_wire_bytes_are_those_of_the_ring(line: str, wire: int, steps: int) -> None:
    found = _one(line)
    assert (found.wire_bytes_per_device, found.steps) == (wire, steps)
    assert found.moves_nothing == (wire == 0)


def test_combined_collective_sums_its_arrays_and_keeps_their_types() -> None:
    found = _one(
        "(f32[8,4], bf16[6]) all-reduce(x, y), replica_groups={{0,1}}, channel_id=1, "
        "use_global_device_ids=true, to_apply=add"
    )
    assert (found.payload_bytes, found.element_type) == (140, "f32,bf16")
    assert found.wire_bytes_per_device == 140


def test_groups_of_one_device_move_nothing() -> None:
    found = _one(
        "f32[8,4] all-reduce(x), channel_id=1, replica_groups=[8,1]<=[8], "
        "use_global_device_ids=true, to_apply=add"
    )
    assert (found.moves_nothing, found.wire_bytes_per_device, found.axes) == (True, 0, ())
    assert (found.axis, found.is_exposed) == ("-", False)


def test_all_reduce_of_all_partitions_that_looks_like_groups_of_one() -> None:
    found = _one(
        "f32[8,4] all-reduce(x), channel_id=2, replica_groups={{0}}, to_apply=add",
        ", num_partitions=4",
    )
    assert (found.moves_nothing, found.wire_bytes_per_device) == (False, 192)


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


# ---- mesh axes ---------------------------------------------------------------------------------

MESH = Mesh.of({"data": 2, "model": 4})


def _axes(groups: str, mesh: Mesh | None = MESH, header: str = ", num_partitions=8") -> Collective:
    line = f"f32[8,4] all-reduce(x), channel_id=1, replica_groups={groups}, to_apply=add, "
    text = (
        f"HloModule m{header}\n{ADD}\nENTRY main {{\n  x = f32[8,4] parameter(0)\n"
        f"  ROOT c = {line}use_global_device_ids=true\n}}\n"
    )
    return collectives(module_of(text).stating(mesh=mesh)).collectives[0]


@pytest.mark.parametrize(
    ("groups", "axes", "parts"),
    [
        ("[2,4]<=[8]", ("model",), ("model",)),
        ("{{0,1,2,3},{4,5,6,7}}", ("model",), ("model",)),
        ("[4,2]<=[2,4]T(1,0)", ("data",), ("data",)),
        ("{{0,4},{1,5},{2,6},{3,7}}", ("data",), ("data",)),
        ("[1,8]<=[8]", ("data", "model"), ("data", "model")),
        ("mesh['a'=2,'b'=4] {'b'}", ("model",), ("model",)),
        ("{{0,1},{2,3},{4,5},{6,7}}", ("model",), ("model:(2)2",)),
        ("{{0,2},{1,3},{4,6},{5,7}}", ("model",), ("model:(1)2",)),
        ("{{0,1,4,5},{2,3,6,7}}", ("data", "model"), ("data", "model:(2)2")),
        ("{{1,2},{0,3},{4,5},{6,7}}", ("model",), None),
        ("{{0,5},{1,4},{2,7},{3,6}}", ("data", "model"), None),
        ("[8,1]<=[8]", (), ()),
    ],
)
def test_groups_are_along_axes(
    groups: str, axes: tuple[str, ...], parts: tuple[str, ...] | None
) -> None:
    found = _axes(groups)
    assert (found.axes, found.axis_parts) == (axes, parts)
    assert found.axis.endswith("?") == (parts is None)


def test_axes_are_those_of_the_mesh_in_the_text() -> None:
    shardy = (
        ", num_partitions=8, frontend_attributes={xla.sdy.meshes="
        '{mesh = #sdy.mesh<["x"=4, "y"=2]>}}'
    )
    assert _axes("[4,2]<=[8]", None, shardy).axes == ("y",)


def test_axes_are_those_of_the_mesh_before_optimizations() -> None:
    before = hlo_lens.parse_hlo(
        "HloModule m, num_partitions=8\n\nENTRY main {\n  ROOT x = f32[8] parameter(0), "
        "sharding={mesh['p'=2,'q'=4], [{'q'}]}\n}\n"
    )
    text = (
        f"HloModule m, num_partitions=8\n{ADD}\nENTRY main {{\n  x = f32[2] parameter(0)\n"
        "  ROOT c = f32[2] all-reduce(x), channel_id=1, replica_groups=[2,4]<=[8], to_apply=add, "
        "use_global_device_ids=true\n}\n"
    )
    found = collectives(module_of(text, before))
    assert found.collectives[0].axes == ("q",)
    assert [(str(mesh), mesh.source) for mesh in found.meshes] == [
        ("p=2,q=4 (before_optimizations)", "before_optimizations")
    ]


def test_mesh_of_devices_in_another_order() -> None:
    mesh = Mesh(
        axis_names=("a", "b"),
        axis_sizes=(2, 2),
        device_assignment=TileAssignment(dimensions=(2, 2), device_ids=(3, 1, 0, 2)),
    )
    assert _axes("{{3,0},{1,2}}", mesh, ", num_partitions=4").axes == ("a",)


def test_axes_of_a_mesh_that_is_too_small_are_unknown() -> None:
    found = _axes("[2,4]<=[8]", Mesh.of({"x": 4}))
    assert (found.axes, found.axis_parts, found.axis) == (None, None, "?")


@pytest.mark.parametrize(
    ("pairs", "transfer"),
    [
        ("{{0,1},{1,2},{2,3},{3,0},{4,5},{5,6},{6,7},{7,4}}", "shift +1 around model"),
        ("{{1,0},{2,1},{3,2},{0,3},{5,4},{6,5},{7,6},{4,7}}", "shift -1 around model"),
        ("{{0,1},{1,2},{2,3},{4,5},{5,6},{6,7}}", "shift +1 along model"),
        ("{{0,4},{1,5}}", "shift +1 along data"),
        ("{{0,1},{1,0},{2,2}}", "cycle of 2"),
        ("{{0,5},{5,6},{1,2}}", "chain of 2, chain of 3"),
        ("{{0,0}}", "moves nothing"),
    ],
)
def test_transfers_are_shifts_or_cycles(pairs: str, transfer: str) -> None:
    text = (
        "HloModule m, num_partitions=8\n\nENTRY main {\n  x = f32[8] parameter(0)\n"
        f"  ROOT c = f32[8] collective-permute(x), channel_id=1, source_target_pairs={pairs}\n}}\n"
    )
    (found,) = collectives(module_of(text).stating(mesh=MESH)).collectives
    assert found.transfer == transfer


# ---- runs --------------------------------------------------------------------------------------


def test_dynamic_count_is_weighted_by_loops_calls_and_conditionals() -> None:
    found = {c.name: c for c in collectives(module_of(NESTED)).collectives}
    counts = {name: (c.dynamic_count, c.is_at_most, c.loop_path) for name, c in found.items()}
    assert counts == {
        "once": (1, False, ()),
        "called": (2, False, ()),
        "outer": (5, False, ("loop",)),
        "inner": (15, False, ("loop", "loop.1")),
        "checked": (20, False, ("loop", "loop.1")),
        "taken": (5, True, ("loop",)),
        "never": (0, False, ("loop.0",)),
        "unknown": (None, False, ("loop.u",)),
    }


BRANCHES = """HloModule m, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

small {
  x = f32[8] parameter(0)
  ROOT one = f32[8] all-reduce(x), channel_id=1, GROUPS, to_apply=add
}

large {
  x = f32[8] parameter(0)
  two = f32[8] all-reduce(x), channel_id=2, GROUPS, to_apply=add
  ROOT three = f32[8] all-reduce(two), channel_id=3, GROUPS, to_apply=add
}

ENTRY main {
  p = pred[] parameter(0)
  x = f32[8] parameter(1)
  ROOT r = f32[8] conditional(p, x, x), true_computation=small, false_computation=large
}
""".replace("GROUPS", "replica_groups={{0,1,2,3}}, use_global_device_ids=true")


@pytest.mark.parametrize(
    ("third", "runs", "wire"),
    [("all-reduce(two), ", (1, 2), (48, 96)), ("negate(two) //", (1, 1), (48, 48))],
)
def test_largest_branch_of_a_conditional_counts(
    third: str, runs: tuple[int, int], wire: tuple[int, int]
) -> None:
    found = collectives(module_of(BRANCHES.replace("all-reduce(two), ", third)))
    assert found.dynamic_bounds()["all-reduce"] == runs
    assert found.wire_bounds == wire
    (group,) = collectives_by(found.collectives, "kind").groups
    assert (group.dynamic_count, group.wire_bytes_per_run) == (runs[1], wire[1])
    assert group.dynamic_is_at_most is group.wire_bytes_is_at_most is (runs == (1, 2))
    assert group.times == ("<=2" if runs == (1, 2) else "1")


def test_sums_of_unknown_counts_are_unknown() -> None:
    found = collectives(module_of(NESTED))
    assert found.dynamic_counts()["all-reduce"] is None
    assert found.dynamic_counts()["all-gather"] == 0
    assert found.wire_bytes_per_device is None


def _loop(name: str, body: str, trips: int | None, condition: str = "") -> str:
    bound = "m = s32[] get-tuple-element(s), index=1" if trips is None else ""
    limit = "m" if trips is None else "n"
    return f"""
{name}_body {{
  s = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] get-tuple-element(s), index=1
  x = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
{body}
  ROOT out = (s32[], s32[], f32[4]) tuple(next, k, y)
}}

{name}_cond {{
  s = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  {bound}
  n = s32[] constant({trips or 0})
{condition}
  ROOT less = pred[] compare(i, {limit}), direction=LT
}}
"""


def _psum(name: str, of: str) -> str:
    return (
        f"  {name} = f32[4] all-reduce({of}), channel_id=1, replica_groups={{{{0,1}}}}, "
        "use_global_device_ids=true, to_apply=add"
    )


def _while(name: str, loop: str) -> str:
    return f"  {name} = (s32[], s32[], f32[4]) while(init), condition={loop}_cond, body={loop}_body"


CHECK = f"  c = f32[4] get-tuple-element(s), index=2\n{_psum('checked', 'c')}"
INNER = f"{_psum('inner', 'x')}\n  y = f32[4] copy(inner)"
NEVER = f"{_psum('never', 'x')}\n  y = f32[4] copy(never)"
OPEN = f"{_psum('unknown', 'x')}\n  y = f32[4] copy(unknown)"
OUTER = f"""{_psum("outer", "x")}
  zero = s32[] constant(0)
  init = (s32[], s32[], f32[4]) tuple(zero, k, outer)
{_while("loop.1", "inner")}
  z = f32[4] get-tuple-element(loop.1), index=2
  p = pred[] constant(true)
  y = f32[4] conditional(p, z, z), true_computation=then, false_computation=otherwise"""
NESTED = f"""HloModule m, num_partitions=2
{ADD}
helper {{
  h = f32[4] parameter(0)
  ROOT {_psum("called", "h").strip()}
}}

then {{
  h = f32[4] parameter(0)
  ROOT {_psum("taken", "h").strip()}
}}

otherwise {{
  ROOT h = f32[4] parameter(0)
}}
{_loop("inner", INNER, 3, CHECK)}
{_loop("outer", OUTER, 5)}
{_loop("zero", NEVER, 0)}
{_loop("open", OPEN, None)}
ENTRY main {{
  x = f32[4] parameter(0)
  m = s32[] parameter(1)
{_psum("once", "x")}
  a = f32[4] call(once), to_apply=helper
  b = f32[4] call(a), to_apply=helper
  zero = s32[] constant(0)
  init = (s32[], s32[], f32[4]) tuple(zero, m, b)
{_while("loop", "outer")}
{_while("loop.0", "zero")}
{_while("loop.u", "open")}
  ROOT r = f32[4] get-tuple-element(loop.u), index=2
}}
"""


# ---- overlap -----------------------------------------------------------------------------------

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


def test_instructions_between_start_and_done_overlap() -> None:
    (found,) = _counted(HIDING, SCHEDULED).collectives
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
    (found,) = _counted(COUNTER, SCHEDULED).collectives
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
    first, second = _counted(text, SCHEDULED).collectives
    assert first.overlap_bytes == second.overlap_bytes == 128 + (16 + 20) * 4
    assert (first.covered_ratio, second.covered_ratio) == (1, 8 / 128)


def test_work_covers_transfers_over_other_links_at_once() -> None:
    text = SHARED.replace("TARGET", "TopK").replace("SECOND", "{{0,1},{2,3}}")
    found = _counted(text, SCHEDULED.replace("=2", "=4")).collectives
    assert [one.covered_ratio for one in found] == [1, 1]


def test_kernel_of_unknown_work_leaves_the_verdict_open() -> None:
    text = SHARED.replace("TARGET", "kernel").replace("SECOND", "{{0,1}}")
    first, second = _counted(text, SCHEDULED).collectives
    assert (first.is_exposed, first.overlap_flops) == (False, None)
    assert (second.covered_ratio, second.is_exposed) == (None, None)


def test_arithmetic_of_a_ragged_dot_beside_a_collective_is_unknown() -> None:
    ragged = HIDING.replace(
        "dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "ragged-dot(g, w, x)"
    )
    (found,) = _counted(ragged, SCHEDULED).collectives
    assert (found.overlap_instructions, found.overlap_flops) == (2, None)


def test_nothing_between_start_and_done_is_exposed() -> None:
    lines = HIDING.splitlines()
    early = [*lines[:4], lines[-2], *lines[4:-2], lines[-1]]
    (found,) = _counted("\n".join(early), SCHEDULED).collectives
    assert (found.is_async, found.overlap_instructions, found.is_exposed) == (True, 0, True)


def test_overlap_of_an_unscheduled_module_is_unknown() -> None:
    (found,) = _counted(HIDING, ", num_partitions=2").collectives
    assert (found.overlap_instructions, found.is_exposed) == (None, None)


def test_synchronous_collective_is_exposed() -> None:
    line = "f32[8,4] all-gather(x), replica_groups={{0,1}}, dimensions={0}"
    found = _one(line, SCHEDULED + ", replica_count=2")
    assert (found.is_async, found.overlap_instructions, found.overlap_flops) == (False, 0, 0)


def test_tpu_collective_is_hidden_by_the_fusions_up_to_its_end() -> None:
    parts = [
        _tpu_part("start", 1, 30),
        _tpu_part("async_collective_fusion.7", 2, 30),
        _tpu_part("end", 3, 30),
    ]
    found = _counted(
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
    assert (one.started_by, one.overlap_instructions, one.dynamic_count) == ("a", 2, 1)
    assert (one.overlap_bytes, one.is_exposed) == (256 + 128 + 256, False)


# ---- custom calls, transfers, data movement ----------------------------------------------------


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
def test_custom_calls_that_communicate_are_counted(attributes: str, kind: str | None) -> None:
    found = _counted(f"  x = f32[8] parameter(0)\n  ROOT c = f32[8] custom-call(x), {attributes}")
    assert [c.kind for c in found.collectives] == ([] if kind is None else [kind])
    assert all(c.wire_bytes_per_device is None for c in found.collectives)
    assert found.wire_bytes_per_device == (0 if kind is None else None)


def test_host_transfer_moves_nothing_between_devices() -> None:
    found = _one("(f32[8,4], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true")
    assert (found.is_host_transfer, found.crosses_slices) == (True, False)
    assert (found.payload_bytes, found.wire_bytes_per_device) == (128, 0)


def test_transfer_by_the_multi_slice_runtime_crosses_slices() -> None:
    lines = """
  x = f32[8,4] parameter(0)
  t = token[] after-all()
  s = (f32[8,4], u32[], token[]) send(x, t), channel_id=2, is_host_transfer=true, \
frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",\
_xla_megascale_transfer_type="ALL_REDUCE"}
  ROOT e = token[] send-done(s), channel_id=2, is_host_transfer=true"""
    text = f"HloModule m, num_partitions=4\n\nENTRY main {{\n{lines}\n}}\n"
    (found,) = collectives(module_of(text).stating(mesh=Mesh.of({"dcn": 2, "x": 4}))).collectives
    assert (found.crosses_slices, found.performed_as) == (True, "all-reduce")
    assert (found.axes, found.wire_bytes_per_device) == (("dcn",), 128)


BETWEEN_SLICES = """HloModule m, is_scheduled=true, num_partitions=4

ENTRY main {
  x = f32[2,4] parameter(0)
  y = f32[8,4] parameter(1)
  t = token[] after-all()
  r2 = (f32[8,4], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true, ACROSS"two"}
  s1 = (f32[2,4], u32[], token[]) send(x, t), channel_id=2, is_host_transfer=true, ACROSS"one"}
  s2 = (f32[8,4], u32[], token[]) send(y, t), channel_id=3, is_host_transfer=true, ACROSS"two"}
  r1 = (f32[8,4], u32[], token[]) recv(t), channel_id=4, is_host_transfer=true, ACROSS"one"}
  d1 = token[] send-done(s1), channel_id=2, is_host_transfer=true
  n = f32[8,4] negate(y)
  e1 = (f32[8,4], token[]) recv-done(r1), channel_id=4, is_host_transfer=true
  d2 = token[] send-done(s2), channel_id=3, is_host_transfer=true
  e2 = (f32[8,4], token[]) recv-done(r2), channel_id=1, is_host_transfer=true
  ROOT f = f32[8,4] get-tuple-element(e2), index=0
}
""".replace(
    "ACROSS",
    'frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",'
    '_xla_megascale_transfer_type="ALL_GATHER",_xla_host_transfer_rendezvous=',
)


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
    assert (found.payload_bytes, found.wire_bytes_per_device, found.steps) == (256, 128 + 2 * 8, 1)
    assert found.is_at_most
    assert result.clones == 3


def test_axis_between_slices_is_unknown_where_slices_differ_along_several() -> None:
    mesh = Mesh.of({"pipe": 2, "dcn": 2, "x": 4})
    found = collectives(module_of(BETWEEN_SLICES).stating(mesh=mesh)).collectives
    assert [one.axes for one in found] == [None, None]


TAKING_TURNS = ((100_000, 200_000, 100_001, 200_001, 100_002, 200_002, 100_003, 200_003),)
"""Ids of the devices of two slices that take turns."""


@pytest.mark.parametrize(
    ("axes", "between", "inside", "shift"),
    [
        ({"x": 4, "dcn": 2}, "dcn", "x", "shift +1 around x"),
        ({"x": 8}, "x:(4)2", "x:(1)4", "shift +2 around x"),
        ({"x": 2, "y": 2, "dcn": 2}, "dcn", "x,y", None),
    ],
)
def test_axes_of_slices_that_take_turns_are_those_of_the_device_assignment(
    axes: dict[str, int], between: str, inside: str, shift: str | None
) -> None:
    # groups as libtpu 0.0.51 prints them for such an assignment: of the devices of one slice
    text = BETWEEN_SLICES.replace(
        "  t = token[]",
        "  g = f32[8,4] all-gather(x), channel_id=8, replica_groups={{0,1,2,3}}, dimensions={0}, "
        "use_global_device_ids=true\n"
        "  p = f32[2,4] collective-permute(x), channel_id=9, "
        "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}\n  t = token[]",
    )
    module = module_of(text).stating(mesh=Mesh.of(axes))
    plant(module, device_assignment, TAKING_TURNS)
    found = collectives(module)
    own = {one.name: one for one in found.collectives}
    assert (own["s1"].axis, own["g"].axis) == (between, inside)
    assert own["p"].transfer == (shift or "cycle of 4")
    (one,) = found.meshes
    assert one.slices is not None
    assert not one.slices.is_assumed


def test_slices_without_a_device_assignment_are_taken_to_be_in_order() -> None:
    found = collectives(module_of(BETWEEN_SLICES).stating(mesh=Mesh.of({"dcn": 2, "x": 4})))
    slices = found.meshes[0].slices
    assert slices is not None
    assert (slices.devices, slices.is_assumed) == (((0, 1, 2, 3), (4, 5, 6, 7)), True)


def test_axis_between_slices_is_unknown_where_the_assignment_is_of_other_devices() -> None:
    module = module_of(BETWEEN_SLICES).stating(mesh=Mesh.of({"dcn": 2, "x": 4}))
    ids = tuple(range(8))
    plant(module, device_assignment, (ids,))
    found = collectives(module)
    assert {one.axes for one in found.collectives} == {None}


def test_recv_between_slices_without_its_send_is_kept() -> None:
    text = BETWEEN_SLICES.replace(
        '{_xla_host_transfer_handler_name="xla_megascale_runtime",', "{", 1
    )
    kinds = [c.kind for c in collectives(module_of(text)).collectives]
    assert sorted(kinds) == ["all-gather", "recv", "send"]


def test_copies_to_the_host_are_shown_apart() -> None:
    found = _counted(
        """
  x = f32[8,4]{1,0} parameter(0)
  s = (f32[8,4]{1,0:S(5)}, f32[8,4]{1,0}, u32[]) copy-start(x)
  d = f32[8,4]{1,0:S(5)} copy-done(s)
  i = s32[] constant(0)
  e = f32[1,4]{1,0} dynamic-slice(d, i, i), dynamic_slice_sizes={1,4}
  ROOT k = f32[1,4]{1,0} copy(e)"""
    )
    assert found.collectives == ()
    assert [(c.name, c.direction, c.size_bytes, c.is_async) for c in found.movement.copies] == [
        ("s", "to host", 128, True),
        ("e", "to device", 16, False),
    ]


# ---- groups ------------------------------------------------------------------------------------


def test_groups_of_collectives_sum_bytes_of_one_run() -> None:
    found = collectives(module_of(NESTED)).collectives
    by_loop = {g.group: g for g in collectives_by(found, "loop").groups}
    assert by_loop["[not in a loop]"].static_count == 2
    assert by_loop["[not in a loop]"].wire_bytes_per_run == 3 * 16
    assert by_loop["loop"].times == "<=10"
    assert by_loop["loop.u"].wire_bytes_per_run is None
    assert by_loop["loop.u"].times == "x?"
    (by_kind,) = collectives_by(found, "kind", is_dynamic=False).groups
    assert (by_kind.static_count, by_kind.wire_bytes_per_device, by_kind.times) == (
        8,
        8 * 16,
        "<=48 + x?",
    )


COMBINED = """HloModule m, is_scheduled=true, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[96] parameter(0)
  y = f32[32] parameter(1), metadata={op_name="params['y']"}
  m = f32[96] negate(x), metadata={op_name="jit(f)/neg" source_file="f.py" source_line=3}
  both = (f32[96], f32[32]) all-reduce(m, y), replica_groups={{0,1,2,3}}, channel_id=1, \
use_global_device_ids=true, to_apply=add, metadata={op_name="jit(f)/(neg:dot)" \
source_file="f.py" source_line=3}
  first = f32[96] get-tuple-element(both), index=0
  second = f32[32] get-tuple-element(both), index=1, metadata={op_name="jit(f)/dot" \
source_file="f.py" source_line=5}
  alone = f32[96] all-reduce(first), replica_groups={{0,1,2,3}}, channel_id=2, \
use_global_device_ids=true, to_apply=add
  ROOT t = (f32[96], f32[32]) tuple(alone, second)
}
"""


def test_combined_collective_shares_its_bytes_over_the_lines_of_its_members() -> None:
    found = collectives(module_of(COMBINED))
    both, alone = found.collectives
    assert [(m.source_line, m.op_name, m.payload_bytes) for m in both.members] == [
        (3, "jit(f)/neg", 384),
        (5, "jit(f)/dot", 128),
    ]
    assert [m.origin_basis for m in both.members] == ["operand", "own"]
    assert (alone.source, alone.origin_basis) == ("f.py:3", "operand")
    groups = {g.group: g for g in collectives_by(found.collectives, "source").groups}
    assert {k: g.wire_bytes_per_run for k, g in groups.items()} == {
        "f.py:3": 2 * 576,
        "f.py:5": 192,
    }
    assert {k: g.static_count for k, g in groups.items()} == {"f.py:3": 2, "f.py:5": 0}
    whole = sum(c.wire_bytes_per_run or 0 for c in found.collectives)
    assert sum(g.wire_bytes_per_run or 0 for g in groups.values()) == whole


def test_gather_of_an_argument_has_the_line_of_its_consumer_and_the_name() -> None:
    found = _counted(
        """
  w = f32[8,4] parameter(0), metadata={op_name="params['w']"}
  g = f32[32,4] all-gather(w), replica_groups={{0,1,2,3}}, dimensions={0}
  ROOT d = f32[32,4] tanh(g), metadata={op_name="jit(f)/tanh" source_file="f.py" source_line=8}""",
        ", num_partitions=4",
    ).collectives[0]
    assert (found.source, found.origin_basis, found.argument) == ("f.py:8", "user", "params['w']")
    assert found.own_op_name is None
