"""JSON objects of a module's shardings; scripts rely on their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.sharding.table import ShardingTable, sharded_row
from hlo_lens.report.render.envelope import module_head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.sharding.results import ShardingResults
    from hlo_lens.model.dump import ModuleDump

_KEYS = """
    num_devices meshes values replicated replicated_by_axis donation annotations
"""


def sharding_rows(results: ShardingResults | None) -> list[Mapping[str, object]]:
    """Return the objects of parameters and outputs, which ``kind`` tells apart."""
    if results is None:
        return []
    names = [column.name for column in ShardingTable.COLUMNS]
    found: list[Mapping[str, object]] = []
    for value in results.table.values:  # each made here, and once
        row: dict[str, object] = dict(zip(names, sharded_row(value), strict=True))
        row["partition_spec"] = None if value.spec is None else list(value.spec)
        found.append(row)
    return found


def sharding_object(dump: ModuleDump, results: ShardingResults | None) -> Mapping[str, object]:
    """Return the object of a module; all its keys, null where there is no HLO text."""
    if results is None:
        return {**module_head(dump), **dict.fromkeys(_KEYS.split())}
    return {
        **module_head(dump),
        "num_devices": results.table.num_devices,
        "meshes": [
            {
                "axes": dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True)),
                "device_ids": None if mesh.device_assignment is None else list(mesh.device_ids),
            }
            for mesh in results.table.meshes
        ],
        "values": sharding_rows(results),
        "replicated": results.replicated.objects(),
        "replicated_by_axis": results.replicated.by_axis.objects(),
        "donation": results.donations.objects(),
        "annotations": results.annotations.objects(),
    }
