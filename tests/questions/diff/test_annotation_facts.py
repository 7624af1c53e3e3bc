"""Sharding annotations as facts: one row for each value, in one wording."""

from __future__ import annotations

from hlo_lens import snapshot
from hlo_lens.questions.snapshots.snapshot_file import Snapshot

_MESHES = r'frontend_attributes={xla.sdy.meshes="{mesh = #sdy.mesh<[\"x\"=2, \"y\"=4]>}"}'


def facts(lines: str, header: str = "") -> list[tuple[str, str | None, str | None, str | None]]:
    text = f"HloModule jit_f, num_partitions=8{header}\n\nENTRY main {{\n{lines}\n}}\n"
    found = snapshot(text)
    assert isinstance(found, Snapshot)
    (module,) = found.modules
    return [(a.annotation, a.shape, a.sharding, a.spec) for a in module.annotations or ()]


def test_operands_that_enter_shard_map_have_their_global_shape() -> None:
    values = r"[<@mesh, [{\"x\"}, {}]>, <@mesh, [{\"y\"}]>]"
    text = (
        "  p = f32[8,16]{1,0} parameter(0)\n  q = f32[64]{0} parameter(1)\n"
        "  ROOT c = (f32[4,16]{1,0}, f32[16]{0}) custom-call(p, q), "
        'custom_call_target="xla.sdy.GlobalToLocalShape", frontend_attributes='
        f'{{xla.sdy.in_shardings="#sdy.sharding_per_value<{values}>"}}'
    )
    assert facts(text, f", {_MESHES}") == [
        (
            "xla.sdy.GlobalToLocalShape",
            "f32[8,16]",
            "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
            "P('x',)",
        ),
        (
            "xla.sdy.GlobalToLocalShape",
            "f32[64]",
            "{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
            "P('y',)",
        ),
    ]


def test_shardings_by_mesh_axes_are_printed_as_tiles() -> None:
    text = (
        "  p = f32[8,16]{1,0} parameter(0)\n"
        '  ROOT c = f32[8,16]{1,0} custom-call(p), custom_call_target="Sharding", '
        "sharding={mesh['x'=2,'y'=4], [{'x'}, {'y'}]}"
    )
    assert facts(text) == [("Sharding", "f32[8,16]", "{devices=[2,4]<=[8]}", "P('x', 'y')")]
