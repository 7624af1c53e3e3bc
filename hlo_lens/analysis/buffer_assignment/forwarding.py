"""Rules for instructions that forward their operands' values: parameters, tuples, bitcasts, ...

Source: xla/hlo/analysis/hlo_dataflow_analysis.cc, as of August 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.buffer_assignment.fused_bodies import INDEX, parameter_number
from hlo_lens.analysis.buffer_assignment.shape_tree import NODES
from hlo_lens.model.hlo.columns import OPERANDS, OPERANDS_END

if TYPE_CHECKING:
    from hlo_lens.analysis.buffer_assignment.walk import Invocation, Walk


def parameter(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return the caller's argument; in an entry, new values that live from its start."""
    number = parameter_number(walk.module.columns.text(row, OPERANDS, OPERANDS_END))
    if number == 0:
        call.parameter_instant = len(walk.schedule)
    if call.arguments is None:
        parts = walk.tree(row).parts
        found = [walk.define(row, node, part, call.start) for node, part in enumerate(parts)]
        if call.computation.is_entry or call.computation == walk.module.entry:
            walk.parameters[number] = found
        return found
    if number < len(call.arguments) and call.arguments[number]:
        return call.arguments[number]
    walk.skip("parameter without argument")
    return walk.define_all(row)


def element(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return the values of a tuple's element."""
    operand = walk.operand(row, 0)
    places = walk.operands[row]
    match = INDEX.search(walk.module.columns.attributes_text(row))
    if operand and match:
        source, base = divmod(places[0], NODES)
        tree = walk.tree(source)
        below = tree.children(base)
        number = int(match[1])
        if number < len(below):
            start = below[number] - base
            return operand[start : start + tree.sizes[below[number]]]
    walk.skip("get-tuple-element of a missing element")
    return walk.define_all(row)


def table(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return a tuple's table, which is new, and the values of its elements."""
    tree = walk.tree(row)
    found = [walk.define(row, 0, tree.parts[0])]
    for number in range(len(walk.operands[row])):
        found += walk.operand(row, number)
    if len(found) != len(tree.parts):
        walk.skip("tuple whose elements differ from its shape")
        return walk.define_all(row)
    return found


def forward(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return the operand's values."""
    operand = walk.operand(row, 0)
    if len(operand) == len(walk.tree(row).parts):
        return operand
    walk.skip("operand of another shape")
    return walk.define_all(row)


def copy(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return a new value; of a tuple, only its table is copied."""
    operand = walk.operand(row, 0)
    parts = walk.tree(row).parts
    if len(parts) > 1 and len(operand) == len(parts):
        return [walk.define(row, 0, parts[0]), *operand[1:]]
    return walk.define_all(row)
