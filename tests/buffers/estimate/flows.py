"""Values of small modules, and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.dataflow import dataflow
from hlo_lens.buffers.estimate.values import NODES

if TYPE_CHECKING:
    from hlo_lens.buffers.estimate.values import Dataflow
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.shapes.shape import Shape


def size_of(shape: Shape) -> int | None:
    return 8 * len(shape.tuple_shapes) if shape.is_tuple else shape.size_bytes


def flow_of(table: InstructionTable) -> Dataflow:
    return dataflow(table, size_of)


def name_of(flow: Dataflow, value: int) -> str:
    row, node = divmod(flow.values.places[value], NODES)
    index = ",".join(map(str, flow.tree(row).index(node)))
    return f"{flow.table.module.columns.name(row)}{{{index}}}"
