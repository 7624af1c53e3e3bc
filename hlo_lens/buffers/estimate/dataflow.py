"""Values of a scheduled module: their definitions, buffers and live ranges.

Definitions, all XLA's:

* A *value* is a result that an instruction writes, or the part of it at a shape index. Tuples have
  a value of their own (the table of pointers); bitcast, get-tuple-element, call and the like define
  none and forward their operands' values (hlo_dataflow_analysis.cc). Where two values reach the
  parameter of a loop or the result of a branch, a new value is defined, a *phi*, unless the loop
  carries the value unchanged (phi_graph.cc).
* Values that must share bytes form a *buffer*: the state of a loop, the results of branches,
  operands updated in place, donated parameters and their outputs (hlo_alias_analysis.cc).
* The result of an asynchronous start is a tuple of the operands, the result and contexts; values
  defined in its computation live until the done.
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
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.values import (
    INDEX,
    NODES,
    Dataflow,
    DisjointSets,
    ShapeTree,
    ShapeTrees,
    Values,
    parameter_number,
)
from hlo_lens.buffers.estimate.walk import COMPUTATION, Invocation, Rule, Walk
from hlo_lens.hlo.columns import NOTHING, OPERANDS, OPERANDS_END
from hlo_lens.hlo.module import HloComputation
from hlo_lens.hlo.opcodes import opcode_traits, opcodes_where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hlo_lens.buffers.estimate.values import ShapeTree
    from hlo_lens.buffers.estimate.walk import Invocation
    from hlo_lens.hlo.query import InstructionTable
    from hlo_lens.shapes.shape import Shape


def async_start(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return the operands in the start's result and the results of its computation."""
    called = walk.called(row)
    walk.wrapped[row] = called[0] if called else None
    given = _passed_operands(walk.tree(row), walk.arguments(row))
    _run_wrapped(walk, row, row, walk.arguments(row), given)
    return walk.fill(row, given.get)


def _run_wrapped(
    walk: Walk, row: int, start: int, arguments: list[list[int]], given: dict[int, int]
) -> None:
    computation, tree = walk.wrapped.get(start), walk.tree(row)
    if computation is None:
        return
    wanted = sum(walk.opcodes[inner] == "parameter" for inner in computation.rows)
    if len(arguments) < wanted:
        return
    first = len(walk.values)
    result = walk.enter(computation, arguments).root
    walk.wrapped[start] = None
    walk.async_values[row] = range(first, len(walk.values))
    below = tree.children(0)
    if len(below) > 1 and len(result) == tree.sizes[below[1]]:
        given |= _arrays(tree, below[1], result)


def sugared_start(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Find the values of ``slice-start(a, b)``: an async-start whose computation is not printed.

    ``Compiled.as_text()`` prints an async computation of one instruction this way. The parameters
    and the instruction itself take one instant each, scheduled under the name of the start.
    """
    tree = walk.tree(row)
    arguments = walk.arguments(row)
    given = _passed_operands(tree, arguments)
    if _has_result(tree):
        _run_unprinted(walk, call, row, arguments, given)
    else:  # the operands come with an update, as those of a SparseCore do
        walk.unfinished.add(row)
    found = walk.fill(row, given.get)
    walk.join_in_place(row, found, opcode_traits(walk.opcodes[row]).base, (1,))
    walk.sugared.add(row)
    return found


def _has_result(tree: ShapeTree) -> bool:
    """Whether a step of an async operation has a result; that of no operands yet is ``()``."""
    below = tree.children(0)
    return len(below) < 2 or not tree.parts[below[1]].is_tuple or tree.sizes[below[1]] > 1


def _run_unprinted(
    walk: Walk, call: Invocation, row: int, arguments: list[list[int]], given: dict[int, int]
) -> None:
    walk.schedule += [row] * len(arguments)
    called = walk.called(row) if walk.opcodes[row] == "call-start" else []
    first, instant, tree = len(walk.values), len(walk.schedule), walk.tree(row)
    below = tree.children(0)
    result = range(below[1], below[1] + tree.sizes[below[1]]) if len(below) > 1 else range(0)
    defined: dict[int, int] = {}
    if called:
        ran = walk.enter(called[0], arguments).root
        if len(ran) == len(result):
            defined = dict(zip(result, ran, strict=True))
    else:
        # numbered like a computation of its own before this one
        order = (call.computation.place * COMPUTATION - COMPUTATION // 2 + instant) * NODES
        for node in result:
            place = row * NODES + node
            defined[node] = walk.values.add(place, tree.parts[node], order + node, instant, instant)
    walk.use("fusion", walk.operands[row], len(walk.schedule))
    walk.schedule.append(row)
    walk.async_values[row] = range(first, len(walk.values))
    given.update((k, value) for k, value in defined.items() if not tree.parts[k].is_tuple)


def _is_wrapped(walk: Walk, row: int) -> bool:
    """Whether a start is an async-start under the older name: ``((operands), result)``.

    Since 2026 XLA prints async-starts of all-gathers, all-reduces and collective-permutes so. The
    older starts begin with a tuple only if they have several operands, and never in an all-reduce;
    the two are then distinguished by a key of the GPU backend config (observed, jaxlib 0.12).
    """
    tree = walk.tree(row)
    below = tree.children(0)
    if len(below) < 2 or not tree.parts[below[0]].is_tuple:
        return False
    if len(tree.children(below[0])) == 1 or walk.opcodes[row] == "all-reduce-start":
        return True
    return '"communication_domain"' in walk.module.columns.attributes_text(row)


def unless_wrapped(rule: Rule) -> Rule:
    """Return a rule of an older start, for both forms of it."""

    def start(walk: Walk, call: Invocation, row: int) -> list[int]:
        is_wrapped = _is_wrapped(walk, row)
        return sugared_start(walk, call, row) if is_wrapped else rule(walk, call, row)

    return start


def _arrays(tree: ShapeTree, first: int, values: Iterable[int]) -> dict[int, int]:
    return {k: value for k, value in enumerate(values, first) if not tree.parts[k].is_tuple}


def _passed_operands(tree: ShapeTree, arguments: Sequence[list[int]]) -> dict[int, int]:
    given: dict[int, int] = {}
    top = tree.children(0)
    if not top:
        return given
    slots = tree.children(top[0])
    if not tree.parts[top[0]].is_tuple or (len(slots) != len(arguments) == 1):
        slots = [top[0]]
    for slot, argument in zip(slots, arguments, strict=False):
        if tree.sizes[slot] == len(argument):
            given |= _arrays(tree, slot, argument)
    return given


def async_update(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return the values of the step before; operands may be first passed here."""
    _prolong(walk, row)
    places = walk.operands[row]
    if not places:
        return walk.define_all(row)
    source, base = divmod(places[0], NODES)
    before, tree = walk.tree(source), walk.tree(row)
    operand = walk.operand(row, 0)
    if len(operand) < before.sizes[base]:  # a damaged text: its source is not before it
        return walk.lost(row, "async-update before its source")
    given: dict[int, int] = {}
    arguments: list[list[int]] = []
    for number, (old, new) in enumerate(zip(before.children(base), tree.children(0), strict=False)):
        old_parts = before.children(old) or [old]
        new_parts = tree.children(new) or [new]
        if number == 0:
            spans = [(k - base, before.sizes[k]) for k in before.children(old)]
            arguments = [operand[k : k + size] for k, size in spans]
            arguments += [walk.operand(row, k) for k in range(1, len(places))]
            given.update(_passed_operands(tree, arguments))
        if number > 1 and row in walk.aliasing:
            continue  # its own values there share the bytes
        for one, two in zip(old_parts, new_parts, strict=False):
            if before.sizes[one] == tree.sizes[two] and not tree.parts[two].is_tuple:
                given.setdefault(two, operand[one - base])
    start = walk.chain.get(source, source)
    walk.chain[row] = start
    if start in walk.unfinished and _has_result(tree):
        walk.unfinished.discard(start)
        _run_unprinted(walk, call, row, arguments, given)
    else:
        _run_wrapped(walk, row, start, arguments, given)
    return walk.fill(row, given.get)


def _prolong(walk: Walk, row: int) -> None:
    places = walk.operands[row]
    defined = walk.async_values.get(places[0] // NODES) if places else None
    if defined is None:
        return
    walk.async_values[row] = defined
    values, instant = walk.values, len(walk.schedule)
    for value in defined:
        if values.position_ends[value] < instant:
            values.position_ends[value] = instant
            values.last_places[value] = values.places[value]
        values.ends[value] = max(values.ends[value], instant)


def async_done(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return the result in the start or the last update."""
    _prolong(walk, row)
    operand = walk.operand(row, 0)
    parts = walk.tree(row).parts
    places = walk.operands[row]
    if places and operand:
        source, base = divmod(places[0], NODES)
        tree = walk.tree(source)
        below = tree.children(base)
        if len(below) > 1 and tree.sizes[below[1]] == len(parts):
            first = below[1] - base
            return walk.fill(
                row, lambda node: None if parts[node].is_tuple else operand[first + node]
            )
    return walk.define_all(row)


def copy_start(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return a new value, and the operand as the source."""
    operand, source = walk.operand(row, 0), walk.tree(row).at((1,))
    return walk.fill(row, lambda node: operand[0] if operand and node == source else None)


def copy_done(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return the copied value."""
    operand = walk.operand(row, 0)
    return operand[1:2] if len(operand) > 1 else walk.define_all(row)


def two_sided_start(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return the operands and new values for the results."""
    tree = walk.tree(row)
    arguments = walk.arguments(row)
    given = _passed_operands(tree, arguments)
    if walk.opcodes[row] == "collective-permute-start":
        top = tree.children(0)
        if top and tree.parts[top[0]].is_tuple:  # XLA gives this table no value of its own
            given[0] = given[top[0]] = walk.define(row, 0, tree.parts[0])
    return walk.fill(row, given.get)


def send(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return a tuple that holds the operand; that of a recv-done holds its received value."""
    operand, source = walk.operand(row, 0), int(walk.opcodes[row] == "recv-done")
    below = walk.tree(row).children(0)
    if not below or len(operand) <= source:
        return walk.define_all(row)
    return walk.fill(row, {below[0]: operand[source]}.get)


def loop(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Walk a while's condition and body; return a phi per part, or what it carries unchanged."""
    places = {call.role: call.place for call in walk.module.links.calls.of_row(row)}
    condition_place, body_place = (places.get(role, NOTHING) for role in ("condition", "body"))
    initial = walk.operand(row, 0)
    parts = walk.tree(row).parts
    if NOTHING in (condition_place, body_place) or len(initial) != len(parts):
        return walk.lost(row, "while without its computations")
    condition, body = (HloComputation(walk.module, p) for p in (condition_place, body_place))
    if condition.place in walk.done or body.place in walk.done:
        return walk.lost(row, "computation that is called twice")
    states = []
    for computation in (condition, body):
        rows = (row for row in computation.rows if walk.opcodes[row] == "parameter")
        states.append(next((r for r in rows if len(walk.tree(r).parts) == len(parts)), -1))
    if min(states) < 0:
        return walk.lost(row, "while whose computations take another shape")

    def phis(row: int) -> list[int]:
        start = len(walk.schedule)
        return [walk.define_phi(row, node, part, start) for node, part in enumerate(parts)]

    inside_condition = phis(states[0])
    walk.computation(condition, [inside_condition])
    state = phis(states[1])
    ran = walk.computation(body, [state])
    if len(ran.root) != len(parts):
        walk.skips["while whose body returns another shape"] += 1
        ran.root = state
    values, find = walk.values, walk.merged.find
    for value in initial:
        held = find(value)
        values.ends[held] = max(values.ends[held], ran.parameter_instant)
    return _loop_result(walk, row, [initial, inside_condition, state, ran.root])


def _loop_result(walk: Walk, row: int, ways: Sequence[Sequence[int]]) -> list[int]:
    """Return the values of a loop; `ways` are those before it, in its condition, body, after."""
    initial, inside_condition, state, root = ways
    kept = _carried_round(walk, initial, state, root)
    found = []
    for node, part in enumerate(walk.tree(row).parts):
        if kept[node]:
            result = initial[node]
            _merge(walk, result, inside_condition[node])
            _merge(walk, result, state[node])
        else:
            result = walk.define_phi(row, node, part, len(walk.schedule))
            for way in ways:
                walk.joined.union(walk.merged.find(way[node]), result)
        found.append(result)
    return found


def _carried_round(
    walk: Walk, initial: Sequence[int], state: Sequence[int], root: Sequence[int]
) -> list[bool]:
    """Return for each node whether the loop carries the initial value unchanged.

    That is the largest set in which every element of the root is an element's initial value or
    the state of one in the set with the same initial value. Source: phi_graph.cc, Optimize.
    """
    find = walk.merged.find
    begin = [find(value) for value in initial]
    end = [find(value) for value in root]
    node_of = {value: node for node, value in enumerate(state)}
    kept = [True] * len(begin)
    again = True
    while again:
        again = False
        for node, value in enumerate(end):
            if not kept[node]:
                continue
            source = node_of.get(value)
            if source is not None and kept[source]:
                value = begin[source]
            if value != begin[node]:
                kept[node] = False
                again = True
    return kept


def _merge(walk: Walk, kept: int, gone: int) -> None:
    values, merged = walk.values, walk.merged
    one, two = merged.find(kept), merged.find(gone)
    if one == two:
        return
    if values.position_ends[two] > values.position_ends[one]:
        values.position_ends[one] = values.position_ends[two]
        values.last_places[one] = values.last_places[two]
    values.ends[one] = max(values.ends[one], values.ends[two])
    merged.union(one, two)


def conditional(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Walk the branches; return a phi for each of their results."""
    parts = walk.tree(row).parts
    roots = []
    for number, computation in enumerate(walk.called(row)):
        ran = walk.enter(computation, [walk.operand(row, number + 1)])
        if len(ran.root) == len(parts):
            roots.append(ran.root)
        else:
            walk.skips["branch that returns another shape"] += 1
    if not roots:
        return walk.define_all(row)
    find = walk.merged.find
    found = []
    for node, part in enumerate(parts):
        given = {find(root[node]) for root in roots}
        result = walk.define_phi(row, node, part, len(walk.schedule))
        for value in given:
            walk.joined.union(value, result)
        found.append(result)
    return found


def computation_call(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Walk the called computation, and return its result."""
    called = walk.called(row)
    arguments = walk.arguments(row)
    if not called:
        return walk.define_all(row)
    ran = walk.enter(called[0], arguments)
    if len(ran.root) != len(walk.tree(row).parts):
        return walk.lost(row, "call whose computation returns another shape")
    return ran.root


def _parameter(walk: Walk, call: Invocation, row: int) -> list[int]:
    number = parameter_number(walk.module.columns.text(row, OPERANDS, OPERANDS_END))
    if number == 0:
        call.parameter_instant = len(walk.schedule)
    if call.arguments is None:
        parts = walk.tree(row).parts
        found = [walk.define(row, node, part, call.start) for node, part in enumerate(parts)]
        if call.computation.is_entry or call.computation == walk.module.entry:
            walk.parameter_values[number] = found
        return found
    if number < len(call.arguments) and call.arguments[number]:
        return call.arguments[number]
    return walk.lost(row, "parameter without argument")


def _element(walk: Walk, call: Invocation, row: int) -> list[int]:
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
    return walk.lost(row, "get-tuple-element of a missing element")


def _table(walk: Walk, call: Invocation, row: int) -> list[int]:
    tree = walk.tree(row)
    found = [walk.define(row, 0, tree.parts[0])]
    for number in range(len(walk.operands[row])):
        found += walk.operand(row, number)
    if len(found) != len(tree.parts):
        return walk.lost(row, "tuple whose elements differ from its shape")
    return found


def _forward(walk: Walk, call: Invocation, row: int) -> list[int]:
    operand = walk.operand(row, 0)
    if len(operand) == len(walk.tree(row).parts):
        return operand
    return walk.lost(row, "operand of another shape")


def _all_reduce_done(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Return the start's values; of a start in the form of an async-start, its result."""
    if len(walk.operand(row, 0)) == len(walk.tree(row).parts):
        return _forward(walk, call, row)
    return async_done(walk, call, row)


_RULES: Mapping[str, Rule | None] = {
    **dict.fromkeys(opcodes_where(lambda one: one.is_view and one.is_forwarding), _forward),
    "parameter": _parameter,
    "get-tuple-element": _element,
    "tuple": _table,
    "while": loop,
    "conditional": conditional,
    "call": computation_call,
    "async-start": async_start,
    "async-update": async_update,
    "async-done": async_done,
    "copy-start": copy_start,
    "copy-done": copy_done,
    "all-gather-start": unless_wrapped(two_sided_start),
    "collective-permute-start": unless_wrapped(two_sided_start),
    "all-reduce-start": unless_wrapped(lambda walk, _, row: walk.define_all(row)),
    "all-reduce-done": _all_reduce_done,
    "recv-done": send,
    "recv-start": None,
    "send": send,
    "send-done": None,
    "send-start": None,
}
"""Opcode to the rule that finds an instruction's values; None if it defines its whole result."""

_SUGAR: Mapping[str, Rule] = {"start": sugared_start, "update": async_update, "done": async_done}
"""Rules of all other async opcodes, such as ``slice-start``, by ending."""


def dataflow(
    table: InstructionTable,
    measure: Callable[[Shape], int | None],
    color: Callable[[Shape], int] = operator.attrgetter("memory_space"),
    whole: Callable[[Shape], Shape] | None = None,
) -> Dataflow:
    """Return values, buffers and live ranges of a module whose text is in execution order.

    The functions are those of `BackendRules`.
    """
    opcodes = {opcode for opcode, _ in table.opcode_sizes}
    rules = {opcode: rule for opcode in opcodes if (rule := _rule(opcode)) is not None}
    walk = Walk(table, ShapeTrees(table.module, measure, color, whole), rules)
    result = walk.computation(table.module.entry, None).root
    values = walk.values
    walk.output_values = [walk.carried(value) for value in result]
    _join_donated(walk)
    for listed in walk.parameter_values.values():
        for value in listed:
            if value not in walk.donated:
                values.ends[value] = walk.end
    walk.buffers = _merged_buffers(walk)
    walk.buffer_of = {value: k for k, buffer in enumerate(walk.buffers) for value in buffer}
    _normalise_ranges(values, walk.buffers)
    return walk


def _rule(opcode: str) -> Rule | None:
    return _RULES[opcode] if opcode in _RULES else _SUGAR.get(opcode_traits(opcode).phase)


def _join_donated(walk: Walk) -> None:
    find, result = walk.carried, walk.output_values
    root = walk.module.entry.root_row
    tree = walk.tree(root) if root >= 0 else walk.trees.unknown
    row_of = {
        number: walk.values.places[values[0]] // NODES
        for number, values in walk.parameter_values.items()
        if values
    }
    for alias in walk.module.input_output_alias:
        row = row_of.get(alias.parameter_number)
        node = None if row is None else walk.tree(row).at(alias.parameter_index)
        output = tree.at(alias.output_index)
        if row is None or node is None:
            walk.skips["alias of a missing parameter"] += 1
            continue
        value = find(walk.parameter_values[alias.parameter_number][node])
        walk.donated.add(value)
        if output is not None and output < len(result):
            walk.joined.union(value, find(result[output]))


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
