"""XLA's order of the instructions of a computation, by which it numbers values and breaks ties.

Source: HloComputation::MakeInstructionPostOrder (xla/hlo/ir/hlo_computation.cc), as of August 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.analysis.buffer_assignment.shape_tree import NODES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMPUTATION = 1 << 32
"""Numbers that a computation has for its instructions."""


def post_order(
    rows: Sequence[int],
    operands: Mapping[int, Sequence[int]],
    controls: Mapping[int, Sequence[int]],
) -> list[int]:
    """Return the rows of a computation, operands first, the first operand's first.

    Control predecessors come before operands, the last one first.

    Args:
        rows: The rows in text order.
        operands: Row to the places of its operands.
        controls: Row to its control predecessors, where it has any.
    """
    used = {place // NODES for row in rows for place in operands[row]}
    used.update(row for before in controls.values() for row in before)
    order: dict[int, None] = {}
    visiting: set[int] = set()
    for root in rows:
        if root in used:
            continue
        stack = [root]
        while stack:
            row = stack[-1]
            if row in order:
                stack.pop()
            elif row in visiting:
                stack.pop()
                order[row] = None
            else:
                visiting.add(row)
                stack.extend(place // NODES for place in reversed(operands[row]))
                stack.extend(controls.get(row, ()))
    order.update(dict.fromkeys(rows))  # what is left stands in a circle of operands
    return list(order)
