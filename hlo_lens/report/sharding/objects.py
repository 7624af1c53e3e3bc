"""Shardings of a module as JSON objects, whose names scripts rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.sharding.table import ShardingTable, sharded_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hlo_lens.analysis.result import Result
    from hlo_lens.analysis.sharding.results import ShardingResults
    from hlo_lens.model.dump import ModuleDump


def sharding_rows(results: ShardingResults | None) -> list[Mapping[str, object]]:
    """Return the objects of parameters and outputs; their ``kind`` says which."""
    if results is None:
        return []
    names = [column.name for column in ShardingTable.COLUMNS]
    return [
        {
            **dict(zip(names, sharded_row(value), strict=True)),
            "partition_spec": None if value.spec is None else list(value.spec),
        }
        for value in results.table.values
    ]


def _objects(result: Result) -> list[Mapping[str, object]]:
    names = [column.name for column in result.COLUMNS]
    return [dict(zip(names, row, strict=True)) for row in result.rows()]


def sharding_object(dump: ModuleDump, results: ShardingResults | None) -> Mapping[str, object]:
    """Return the object of a module; all its keys, null where there is no HLO text."""
    found: dict[str, object] = {
        "name": dump.name,
        "stage": dump.stage,
        "files": list(dump.files),
        "num_devices": None,
        "meshes": None,
        "values": None,
        "replicated": None,
        "replicated_by_axis": None,
        "donation": None,
        "annotations": None,
    }
    if results is None:
        return found
    by_axis = results.replicated.by_axis()
    return {
        **found,
        "num_devices": results.table.num_devices,
        "meshes": [
            {
                "axes": dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True)),
                "device_ids": None if mesh.device_assignment is None else list(mesh.device_ids),
            }
            for mesh in results.table.meshes
        ],
        "values": sharding_rows(results),
        "replicated": _objects(results.replicated),
        "replicated_by_axis": [
            {"axis": axis, "values": count, "device_bytes": size, "saved_bytes": saved}
            for axis, (count, size, saved) in by_axis.items()
        ],
        "donation": _objects(results.donations),
        "annotations": _objects(results.annotations),
    }
