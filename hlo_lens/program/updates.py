"""Arguments that results are updates of: computed from them element by element, or in part."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import opcodes_where
from hlo_lens.load.fact import fact
from hlo_lens.program.signature import braces
from hlo_lens.program.summary import hlo_text
from hlo_lens.program.value_flow import COPIES, TUPLES, Route, Value, value_flow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.value_flow import ValueFlow

_MOST_STEPS = 1000
"""Most values that are followed back from one result."""

_PASSED = Route(TUPLES | COPIES)
_FIRST = opcodes_where(lambda traits: traits.is_formatting or traits.is_update) | {"custom-call"}
"""Opcodes whose result has elements of operand 0."""

_COMPUTED = opcodes_where(lambda traits: traits.is_elementwise) | {"concatenate"}
_NO_UPDATE = "broadcast"

_STORED = {"dynamic-update-slice": 1, "scatter": 2, "pad": 0}
"""Opcodes that put an operand into another value, and its position."""


@fact
def updated_arguments(module: ModuleDump) -> dict[str, frozenset[int]]:
    """Return the numbers of the parameters that each result is an update of, by its shape index.

    An update is computed from the parameter through elementwise operations, slices, copies, loops
    and calls, and through no product, sum or gather: new weights from old ones, a cache from the
    cache before. It is followed in the text from before optimizations where there is one.
    """
    text = module.before or hlo_text(module)
    root = text.entry.root
    if root is None or root.shape is None:
        return {}
    parts = len(root.shape.tuple_shapes)
    indices = [(k,) for k in range(parts)] if root.shape.is_tuple else [()]
    return {
        braces(index) if index else "": frozenset(_sources(text, Value(root.row, index)))
        for index in indices
    }


class _Step(NamedTuple):
    """A value, and the rows of the calls by which it was entered, the innermost last."""

    value: Value
    calls: tuple[int, ...] = ()


def _sources(module: HloModule, result: Value) -> Iterator[int]:
    """Yield the numbers of the parameters that a result is an update of."""
    flow = value_flow(module)
    entry = {one.row: one.parameter_number for one in module.entry.parameters}
    waiting, seen = [_Step(result)], {_Step(result)}
    while waiting and len(seen) <= _MOST_STEPS:
        step = waiting.pop()
        number = entry.get(step.value.row)
        if number is not None:
            yield number
        new = [one for one in _before(flow, step) if one not in seen]
        seen.update(new)
        waiting += new


def _before(flow: ValueFlow, step: _Step) -> list[_Step]:
    """Return the values whose elements a value has, or is computed from one by one."""
    (row, element), calls = step
    opcode, links = flow.opcodes[row], flow.module.links
    found: list[Value | None] = []
    if opcode == "while":
        found = [flow.operand(row, 0, element), flow.result(step.value, "body")]
    elif opcode in ("call", "fusion", "conditional"):
        roots = (links.root(call) for call in links.calls.of_row(row))
        found = [Value(root, element) for root in roots if root != NOTHING]
        calls = (*calls, row)
    elif opcode == "parameter":
        callers = links.calls.of_computation(links.owners[row])
        call = next((one for one in callers if one.row in calls[-1:]), next(iter(callers), None))
        calls = calls[:-1] if call is not None and call.row in calls[-1:] else calls
        is_loop = call is not None and flow.opcodes[call.row] == "while"
        if call is not None:
            found = [Value(call.row, element) if is_loop else flow.argument(step.value, call)]
    elif opcode in _FIRST:
        positions = {0, _STORED.get(opcode, 0)} if opcode != _NO_UPDATE else ()
        found = [flow.operand(row, position) for position in positions]
    elif opcode in _COMPUTED:
        found = [*flow.operands(row)]
    else:
        found = [flow.before(step.value, _PASSED)]
    return [_Step(one, calls) for one in found if one is not None]
