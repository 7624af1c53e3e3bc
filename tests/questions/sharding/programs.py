"""A module before and after partitioning, and results on such texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.load.module import ModuleDump, already_read
from hlo_lens.questions.sharding.savings import ShardingResults, sharding_results
from hlo_lens.text.dump_kinds import DumpKind

if TYPE_CHECKING:
    from hlo_lens.shapes.mesh import Mesh

SDY = 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["data"=2, "model"=4]>}}'
ON_MODEL = 'frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\\"model\\"}]>"}'
V2_MODEL = "sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"

BEFORE = f"""HloModule jit_f, num_partitions=8, {SDY}

ENTRY main {{
  w = f32[8,64]{{1,0}} parameter(0), {V2_MODEL}, {ON_MODEL}, metadata={{op_name="w"}}
  x = f32[6,64]{{1,0}} parameter(1), sharding={{replicated}}, metadata={{op_name="x"}}
  y = f32[8,64]{{1,0}} negate(w)
  ROOT t = (f32[8,64]{{1,0}}, f32[6,64]{{1,0}}) tuple(y, x), \
sharding={{{{replicated}}, {{replicated}}}}
}}
"""

AFTER = """HloModule jit_f, is_scheduled=true, num_partitions=8

ENTRY main_spmd {
  w = f32[8,16]{1,0} parameter(0), metadata={op_name="w"}
  x = f32[6,64]{1,0} parameter(1), metadata={op_name="x"}
  y = f32[8,16]{1,0} negate(w)
  ROOT t = (f32[8,16]{1,0}, f32[6,64]{1,0}) tuple(y, x)
}
"""


def results_of(after: str, before: str | None = None, mesh: Mesh | None = None) -> ShardingResults:
    dump = ModuleDump(
        name="m",
        kind=DumpKind.HLO,
        module_text=already_read(hlo_lens.parse_hlo(after)),
        before_text=None if before is None else already_read(hlo_lens.parse_hlo(before)),
    )
    results = sharding_results(dump.stating(mesh=mesh))
    assert results is not None
    return results


def brief(results: ShardingResults) -> list[tuple[object, ...]]:
    """Return name, global and device sizes, spec, source and copies of each value."""
    return [
        (
            value.value.name,
            value.global_shape.dimensions if value.global_shape else None,
            value.device_shape.dimensions if value.device_shape else None,
            value.spec,
            value.source,
            value.replication_factor,
        )
        for value in results.table.values
    ]
