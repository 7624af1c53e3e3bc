"""Values of a scheduled module: their definitions, buffers and live ranges.

Definitions, all XLA's:

* A *value* is a result that an instruction writes, or the part of it at a shape index. Tuples have
  a value of their own (the table of pointers); bitcast, get-tuple-element, call and the like define
  none and forward their operands' values (hlo_dataflow_analysis.cc). Where two values reach the
  parameter of a loop or the result of a branch, a new value is defined, a *phi*, unless the loop
  carries the value unchanged (phi_graph.cc).
* Values that must share bytes form a *buffer*: the state of a loop, the results of branches,
  operands updated in place, donated parameters and their outputs (hlo_alias_analysis.cc).
* *Instants* number the instructions in execution order, flattened: computations of calls, loops
  (condition, then body), branches and async operations appear once, before the instruction that
  calls them. A value lives from the instant that defines it (a parameter: from the start of its
  computation) to its last use or position, both ends inclusive; the result of a computation lives
  to the end of that computation, and entry parameters that are not donated to the end of the
  program (hlo_live_range.cc).

Sources: xla/hlo/analysis/hlo_dataflow_analysis.cc, hlo_alias_analysis.cc, alias_info.cc,
xla/hlo/utils/hlo_live_range.cc, as of August 2026.

Limits: a computation that is called twice (XLA clones such before it assigns buffers) is read once.
The get-tuple-elements that a compact text omits are assumed to follow the tuple directly.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING

from hlo_lens.analysis.buffer_assignment import async_operations, control_flow, forwarding
from hlo_lens.analysis.buffer_assignment.shape_tree import NODES, ShapeTrees
from hlo_lens.analysis.buffer_assignment.values import Dataflow, DisjointSets
from hlo_lens.analysis.buffer_assignment.walk import Walk
from hlo_lens.model.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hlo_lens.analysis.buffer_assignment.values import Values
    from hlo_lens.analysis.buffer_assignment.walk import Rule
    from hlo_lens.model.hlo.query import InstructionTable
    from hlo_lens.model.shapes.shape import Shape

_RULES: Mapping[str, Rule | None] = {
    "parameter": forwarding.parameter,
    "get-tuple-element": forwarding.element,
    "tuple": forwarding.table,
    "bitcast": forwarding.forward,
    "opt-barrier": forwarding.forward,
    "domain": forwarding.forward,
    "add-dependency": forwarding.forward,
    "copy": forwarding.copy,
    "while": control_flow.loop,
    "conditional": control_flow.conditional,
    "call": control_flow.computation_call,
    "async-start": async_operations.async_start,
    "async-update": async_operations.async_update,
    "async-done": async_operations.async_done,
    "copy-start": async_operations.copy_start,
    "copy-done": async_operations.copy_done,
    "all-gather-start": async_operations.two_sided_start,
    "collective-permute-start": async_operations.two_sided_start,
    "all-reduce-start": None,
    "all-reduce-done": forwarding.forward,
    "recv-done": async_operations.recv_done,
    "recv-start": None,
    "send": async_operations.send,
    "send-done": None,
    "send-start": None,
}
"""Opcode to the rule that finds an instruction's values; None if it defines its whole result."""

_SUGAR: Mapping[str, Rule] = {
    "start": async_operations.sugared_start,
    "update": async_operations.async_update,
    "done": async_operations.async_done,
}
"""Rules of all other async opcodes, such as ``slice-start``, by ending."""


def dataflow(
    table: InstructionTable,
    measure: Callable[[Shape], int | None],
    color: Callable[[Shape], int] = operator.attrgetter("memory_space"),
) -> Dataflow:
    """Return values, buffers and live ranges of a module.

    Args:
        table: A module whose text is in execution order and that has an entry.
        measure: Bytes of an array, or of the table of a tuple; None if unknown.
        color: Memory space of an array or a table.
    """
    opcodes = {opcode for opcode, _ in table.opcode_sizes}
    rules = {opcode: rule for opcode in opcodes if (rule := _rule(opcode)) is not None}
    walk = Walk(table, ShapeTrees(table.module, measure, color), rules)
    result = walk.computation(table.module.entry, None).root
    values, find = walk.values, walk.merged.find
    donated = _join_donated(walk, result)
    end = len(walk.schedule)
    for listed in walk.parameters.values():
        for value in listed:
            if value not in donated:
                values.ends[value] = end
    buffers = _merged_buffers(walk)
    _normalise_ranges(values, buffers)
    return Dataflow(
        table=table,
        trees=walk.trees,
        values=values,
        buffers=buffers,
        buffer_of={value: k for k, buffer in enumerate(buffers) for value in buffer},
        value_lists=walk.value_lists,
        operands=walk.operands,
        schedule=walk.schedule,
        output_values=[find(value) for value in result],
        parameter_values=walk.parameters,
        donated=frozenset(donated),
        carried=find,
        numbers=walk.numbers,
        bodies=walk.fusions,
        skipped=tuple(f"{what} ({count} times)" for what, count in walk.skipped.items()),
    )


def _rule(opcode: str) -> Rule | None:
    """Return the rule of an opcode; None if it defines its whole result."""
    return _RULES[opcode] if opcode in _RULES else _SUGAR.get(opcode_traits(opcode).phase)


def _join_donated(walk: Walk, result: Sequence[int]) -> set[int]:
    """Join donated parameters and their outputs; return the parameters' values.

    Args:
        walk: The finished walk over the module.
        result: Values of the entry's result.
    """
    donated: set[int] = set()
    find = walk.merged.find
    root = walk.module.entry.root_row
    tree = walk.tree(root) if root >= 0 else walk.trees.unknown
    row_of = {
        number: walk.values.places[values[0]] // NODES
        for number, values in walk.parameters.items()
        if values
    }
    for alias in walk.module.input_output_alias:
        row = row_of.get(alias.parameter_number)
        node = None if row is None else walk.tree(row).at(alias.parameter_index)
        output = tree.at(alias.output_index)
        if row is None or node is None:
            walk.skip("alias of a missing parameter")
            continue
        value = find(walk.parameters[alias.parameter_number][node])
        donated.add(value)
        if output is not None and output < len(result):
            walk.joined.union(value, find(result[output]))
    return donated


def _merged_buffers(walk: Walk) -> list[list[int]]:
    """Return the buffers; values in a buffer, and buffers, are in the order of their values."""
    find = walk.merged.find
    joined = DisjointSets()
    canonical = [find(value) for value in range(len(walk.values))]
    for value in range(len(walk.values)):
        other = walk.joined.find(value)
        if other != value:
            joined.union(canonical[value], canonical[other])
    groups: dict[int, list[int]] = {}
    for value, held in enumerate(canonical):
        if held == value:
            groups.setdefault(joined.find(value), []).append(value)
    orders = walk.values.orders
    buffers = list(groups.values())
    for group in buffers:
        if len(group) > 1:
            group.sort(key=orders.__getitem__)
    buffers.sort(key=lambda group: orders[group[0]])
    return buffers


def _normalise_ranges(values: Values, buffers: Iterable[list[int]]) -> None:
    """Clip the live ranges of a buffer's values: each ends where the next begins.

    Source: HloLiveRange::NormalizeAliasedBuffers. Both include that instant.
    """
    starts, ends, orders = values.starts, values.ends, values.orders
    for group in buffers:
        if len(group) == 1:
            continue
        chain = sorted(group, key=lambda v: (starts[v], ends[v], orders[v]))
        for first, second in itertools.pairwise(chain):
            end = ends[first]
            ends[second] = max(end, ends[second])
            ends[first] = min(end, starts[second])
