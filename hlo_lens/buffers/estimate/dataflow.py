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

from hlo_lens.buffers.estimate import operations as async_operations, operations as control_flow
from hlo_lens.buffers.estimate.values import (
    INDEX,
    NODES,
    Dataflow,
    DisjointSets,
    ShapeTrees,
    Values,
    parameter_number,
)
from hlo_lens.buffers.estimate.walk import Invocation, Rule, Walk
from hlo_lens.hlo.columns import OPERANDS, OPERANDS_END
from hlo_lens.hlo.opcodes import opcode_traits, opcodes_where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.shapes.shape import Shape


def _parameter(walk: Walk, call: Invocation, row: int) -> list[int]:
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


def _element(walk: Walk, call: Invocation, row: int) -> list[int]:
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


def _table(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return a tuple's table, which is new, and the values of its elements."""
    tree = walk.tree(row)
    found = [walk.define(row, 0, tree.parts[0])]
    for number in range(len(walk.operands[row])):
        found += walk.operand(row, number)
    if len(found) != len(tree.parts):
        walk.skip("tuple whose elements differ from its shape")
        return walk.define_all(row)
    return found


def _forward(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return the operand's values."""
    operand = walk.operand(row, 0)
    if len(operand) == len(walk.tree(row).parts):
        return operand
    walk.skip("operand of another shape")
    return walk.define_all(row)


def _all_reduce_done(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return the start's values; of a start in the form of an async-start, its result."""
    if len(walk.operand(row, 0)) == len(walk.tree(row).parts):
        return _forward(walk, call, row)
    return async_operations.async_done(walk, call, row)


def _copy(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return a new value; of a tuple, only its table is copied."""
    operand = walk.operand(row, 0)
    parts = walk.tree(row).parts
    if len(parts) > 1 and len(operand) == len(parts):
        return [walk.define(row, 0, parts[0]), *operand[1:]]
    return walk.define_all(row)


_RULES: Mapping[str, Rule | None] = {
    **dict.fromkeys(opcodes_where(lambda one: one.is_view and one.is_forwarding), _forward),
    "parameter": _parameter,
    "get-tuple-element": _element,
    "tuple": _table,
    "copy": _copy,
    "while": control_flow.loop,
    "conditional": control_flow.conditional,
    "call": control_flow.computation_call,
    "async-start": async_operations.async_start,
    "async-update": async_operations.async_update,
    "async-done": async_operations.async_done,
    "copy-start": async_operations.copy_start,
    "copy-done": async_operations.copy_done,
    "all-gather-start": async_operations.unless_wrapped(async_operations.two_sided_start),
    "collective-permute-start": async_operations.unless_wrapped(async_operations.two_sided_start),
    "all-reduce-start": async_operations.unless_wrapped(None),
    "all-reduce-done": _all_reduce_done,
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
    whole: Callable[[Shape], Shape] | None = None,
) -> Dataflow:
    """Return values, buffers and live ranges of a module.

    Args:
        table: A module whose text is in execution order and that has an entry.
        measure: Bytes of an array, or of the table of a tuple; None if unknown.
        color: Memory space of an array or a table.
        whole: Shape of a result that is no element of a tuple, from the printed one.
    """
    opcodes = {opcode for opcode, _ in table.opcode_sizes}
    rules = {opcode: rule for opcode in opcodes if (rule := _rule(opcode)) is not None}
    walk = Walk(table, ShapeTrees(table.module, measure, color, whole), rules)
    result = walk.computation(table.module.entry, None).root
    find, values = walk.merged.find, walk.values
    outputs = [find(value) for value in result]
    donated = _join_donated(walk, outputs)
    for listed in walk.parameters.values():
        for value in listed:
            if value not in donated:
                values.ends[value] = len(walk.schedule)
    buffers = _merged_buffers(walk)
    _normalise_ranges(values, buffers)
    return Dataflow(
        table=walk.table,
        trees=walk.trees,
        values=values,
        buffers=buffers,
        buffer_of={value: k for k, buffer in enumerate(buffers) for value in buffer},
        value_lists=walk.value_lists,
        operands=walk.operands,
        schedule=walk.schedule,
        output_values=outputs,
        parameter_values=walk.parameters,
        donated=frozenset(donated),
        carried=find,
        numbers=walk.numbers,
        bodies=walk.fusions,
        skipped=tuple(f"{what} ({count} times)" for what, count in walk.skipped.items()),
    )


def _rule(opcode: str) -> Rule | None:
    return _RULES[opcode] if opcode in _RULES else _SUGAR.get(opcode_traits(opcode).phase)


def _join_donated(walk: Walk, result: Sequence[int]) -> set[int]:
    """Join donated parameters and their outputs; return the parameters' values."""
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
