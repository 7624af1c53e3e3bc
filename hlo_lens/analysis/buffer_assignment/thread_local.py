"""Allocations of reducers, comparators and the like, which use the stack of each thread.

Sources: GatherComputationsByAllocationType (xla/service/buffer_assignment.cc),
CallContext::kEmbedded (call_graph.cc), as of August 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.buffer_assignment.allocations import Allocation
from hlo_lens.model.hlo.columns import NOTHING
from hlo_lens.model.hlo.opcodes import OPCODES

if TYPE_CHECKING:
    from hlo_lens.analysis.buffer_assignment.shape_tree import Part
    from hlo_lens.analysis.buffer_assignment.values import Dataflow
    from hlo_lens.model.hlo.opcodes import OpcodeTraits

_NO_VALUES = frozenset({"bitcast", "call", "conditional", "get-tuple-element", "while"})
"""Opcodes that define no value of their own, except rare tables of control flow."""


def thread_local_allocations(flow: Dataflow) -> list[Allocation]:
    """Return an allocation for each value of a reducer, comparator and the like.

    Includes computations that these call, except those of fusions.
    """
    module, opcodes = flow.table.module, flow.table.opcodes
    calls = module.links.calls
    embedding = flow.table.rows_where(_is_embedding)
    places = dict.fromkeys(call.place for row in embedding for call in calls.of_row(row))
    places.pop(NOTHING, None)
    found: list[Allocation] = []
    waiting = list(places)
    for place in waiting:
        rows = module.computations[place].rows
        for call in calls.of_rows(rows):
            if call.place not in places and call.place != NOTHING and opcodes[call.row] != "fusion":
                places[call.place] = None
                waiting.append(call.place)
        for row in rows:
            kind = "constant" if opcodes[row] == "constant" else "thread-local"
            parts = _defined_parts(flow, row)
            found += [Allocation(p.size_bytes, p.color, kind, row=row) for p in parts]
    return found


def _is_embedding(opcode: OpcodeTraits) -> bool:
    """Return whether an opcode, or what it starts, runs a computation for one element at a time."""
    return not opcode.is_end and OPCODES.get(opcode.base, opcode).is_applier


def _defined_parts(flow: Dataflow, row: int) -> list[Part]:
    """Return the parts of a thread-local result with bytes of their own."""
    opcode = flow.table.opcodes[row]
    if opcode in _NO_VALUES:
        return []
    tree = flow.tree(row)
    parts = tree.parts
    if opcode == "tuple":
        return parts[:1]
    if opcode == "async-done":
        return [part for part in parts if part.is_tuple]
    if opcode in ("async-start", "async-update"):
        own = tree.children(0)[2:3]  # operands and results are not its own
        return [p for node, p in enumerate(parts) if p.is_tuple or (own and node >= own[0])]
    if "output_to_operand_aliasing=" in flow.table.module.columns.attributes_text(row):
        return [part for part in parts if part.is_tuple]
    return parts
