"""Rules for loops, branches and calls: values that enter their computations and leave them.

Where two values reach a loop's parameter or a branch's result, that is a phi, unless the loop
carries the value unchanged. All values that reach a phi share its bytes.

Sources: xla/hlo/analysis/hlo_dataflow_analysis.cc, phi_graph.cc, hlo_alias_analysis.cc, as of
August 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.computation import HloComputation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.buffers.estimate.shape_tree import Part
    from hlo_lens.buffers.estimate.walk import Invocation, Walk


def loop(walk: Walk, call: Invocation, row: int) -> list[int]:
    """Walk a while's condition and body, and return its phis."""
    places = {call.role: call.place for call in walk.module.links.calls.of_row(row)}
    condition_place, body_place = (places.get(role, NOTHING) for role in ("condition", "body"))
    initial = walk.operand(row, 0)
    parts = walk.tree(row).parts
    if NOTHING in (condition_place, body_place) or len(initial) != len(parts):
        walk.skip("while without its computations")
        return walk.define_all(row)
    condition, body = (HloComputation(walk.module, p) for p in (condition_place, body_place))
    if condition.place in walk.done or body.place in walk.done:
        walk.skip("computation that is called twice")
        return walk.define_all(row)
    rows = [_loop_parameter(walk, computation, len(parts)) for computation in (condition, body)]
    if min(rows) < 0:
        walk.skip("while whose computations take another shape")
        return walk.define_all(row)
    inside_condition = _loop_state(walk, rows[0], parts)
    walk.computation(condition, [inside_condition])
    state = _loop_state(walk, rows[1], parts)
    ran = walk.computation(body, [state])
    if len(ran.root) != len(parts):
        walk.skip("while whose body returns another shape")
        ran.root = state
    values, find = walk.values, walk.merged.find
    for value in initial:
        held = find(value)
        values.ends[held] = max(values.ends[held], ran.parameter_instant)
    return _loop_result(walk, row, [initial, inside_condition, state, ran.root])


def _loop_result(walk: Walk, row: int, ways: Sequence[Sequence[int]]) -> list[int]:
    """Return the result of a loop: per part a phi, or the value that it carries unchanged.

    `ways` are the values of each node before the loop, in its condition, in its body, and after.
    """
    initial, _, state, root = ways
    kept = _carried_round(walk, initial, state, root)
    found = []
    for node, part in enumerate(walk.tree(row).parts):
        if kept[node]:
            for way in ways[1:3]:
                _merge(walk, initial[node], way[node])
            found.append(initial[node])
            continue
        result = walk.define_phi(row, node, part, len(walk.schedule))
        for way in ways:
            walk.joined.union(walk.merged.find(way[node]), result)
        found.append(result)
    return found


def _loop_parameter(walk: Walk, computation: HloComputation, nodes: int) -> int:
    """Return the row of a loop's parameter with so many nodes, or -1."""
    rows = (row for row in computation.rows if walk.opcodes[row] == "parameter")
    return next((row for row in rows if len(walk.tree(row).parts) == nodes), -1)


def _loop_state(walk: Walk, row: int, parts: Sequence[Part]) -> list[int]:
    start = len(walk.schedule)
    return [walk.define_phi(row, node, part, start) for node, part in enumerate(parts)]


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
    """Walk the branches; return their common results, and a phi where they differ."""
    parts = walk.tree(row).parts
    roots = []
    for number, computation in enumerate(walk.called(row)):
        ran = walk.enter(computation, [walk.operand(row, number + 1)])
        if len(ran.root) == len(parts):
            roots.append(ran.root)
        else:
            walk.skip("branch that returns another shape")
    if not roots:
        return walk.define_all(row)
    find = walk.merged.find
    found = []
    for node, part in enumerate(parts):
        given = {find(root[node]) for root in roots}
        if len(given) == 1:
            found.append(given.pop())
            continue
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
        walk.skip("call whose computation returns another shape")
        return walk.define_all(row)
    return ran.root
