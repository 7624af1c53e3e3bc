"""Allocations of reducers, comparators and the like, which run on a stack of each thread.

Sources: GatherComputationsByAllocationType (xla/service/buffer_assignment.cc),
CallContext::kEmbedded (call_graph.cc), as of August 2026.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hlo_lens.analysis.buffer_assignment.allocations import Allocation

if TYPE_CHECKING:
    from hlo_lens.analysis.buffer_assignment.shape_tree import Part
    from hlo_lens.analysis.buffer_assignment.values import Dataflow

_EMBEDDING = frozenset(
    {
        "all-reduce",
        "custom-call",
        "map",
        "reduce",
        "reduce-scatter",
        "reduce-window",
        "scan",
        "scatter",
        "select-and-scatter",
        "sort",
        "topk",
    }
)
"""Opcodes whose computations run for one element at a time, on a stack of each thread."""

_CALLED = re.compile(
    r"\b(?:to_apply|select|scatter|called_computations|calls|condition|body|branch_computations|"
    r"true_computation|false_computation)=(?:\{([^}]*)\}|([^\s,}]+))"
)

_NO_VALUES = frozenset({"bitcast", "call", "conditional", "get-tuple-element", "while"})
"""Opcodes that define no value of their own, but for control flow's rare tables."""


def thread_local_allocations(flow: Dataflow) -> list[Allocation]:
    """Return an allocation for each value of a reducer, comparator and the like.

    And of what those call; those of fusions are left out.
    """
    opcodes = flow.table.opcodes
    names: dict[str, None] = {}
    for row in flow.table.rows_of(_EMBEDDING | {f"{opcode}-start" for opcode in _EMBEDDING}):
        names.update(dict.fromkeys(_called(flow, row)))
    found: list[Allocation] = []
    waiting = list(names)
    for name in waiting:
        computation = flow.table.module.computation(name)
        for row in () if computation is None else computation.rows:
            if opcodes[row] == "fusion":
                continue
            for called in _called(flow, row):
                if called not in names:
                    names[called] = None
                    waiting.append(called)
        for row in () if computation is None else computation.rows:
            kind = "constant" if opcodes[row] == "constant" else "thread-local"
            parts = _defined_parts(flow, row)
            found += [Allocation(p.size_bytes, p.color, kind, row=row) for p in parts]
    return found


def _called(flow: Dataflow, row: int) -> list[str]:
    """Return the names of the computations that an instruction calls."""
    text = flow.table.module.columns.attributes_text(row)
    lists = [match[1] or match[2] for match in _CALLED.finditer(text)]
    return [name.strip().removeprefix("%") for names in lists for name in names.split(",")]


def _defined_parts(flow: Dataflow, row: int) -> list[Part]:
    """Return the parts of a thread-local result that lie in no operand's and no callee's bytes."""
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
        own = tree.children(0)[2:3]  # operands and results are others' values
        return [p for node, p in enumerate(parts) if p.is_tuple or (own and node >= own[0])]
    if "output_to_operand_aliasing=" in flow.table.module.columns.attributes_text(row):
        return [part for part in parts if part.is_tuple]
    return parts
