"""Comparisons that decide whether a while loop runs once more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.scalar_values import Linear, Scalars, Scope, Unknown, of_operands

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_STEPS = 100
"""Instructions from a condition's result to its comparisons; damaged texts may have circles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A comparison of two scalars that decides whether the body runs once more."""

    left: Linear
    direction: str
    right: Linear
    bounds: tuple[int, int]


def comparisons(root: int, scalars: Scalars, inside: Scope) -> Sequence[Comparison] | Unknown:
    """Return the comparisons that must all be true for a condition to be."""
    found: list[Comparison] = []
    still = [(root, inside)]
    for _ in range(_MOST_STEPS):
        if not still:
            return found
        row, scope = still.pop()
        if scalars.opcodes[row] == "compare":
            test = _comparison(row, scalars, scope)
            if isinstance(test, Unknown):
                return test
            found.append(test)
        else:
            below = _below(row, scalars, scope)
            if not below:
                opcode = scalars.opcodes[row]
                return Unknown(f"the condition is {scalars.name(row)} ({opcode}), no comparison")
            still += below
    return Unknown("the condition is too long")


def _below(row: int, scalars: Scalars, scope: Scope) -> Sequence[tuple[int, Scope]]:
    """Return the instructions whose conjunction is the result of one; none if not known."""
    opcode, links = scalars.opcodes[row], scalars.module.links
    called = links.calls.of_row(row) if opcode in ("fusion", "call") else []
    result = links.root(called[0]) if called else NOTHING
    if result != NOTHING:
        return [(result, of_operands(scalars, row, scope))]
    is_passed_on = opcode_traits(opcode).is_forwarding or opcode in ("convert", "copy-done")
    places = (0, 1) if opcode == "and" else (0,) if is_passed_on else ()
    sides = dict.fromkeys(links.operand(row, place)[0] for place in places)
    return [] if NOTHING in sides else [(side, scope) for side in sides]


def _comparison(row: int, scalars: Scalars, scope: Scope) -> Comparison | Unknown:
    bounds = scalars.operand_bounds(row, 0) or scalars.operand_bounds(row, 1)
    if bounds is None:
        return Unknown(f"{scalars.name(row)} compares what is no integer")
    left = scalars.operand(row, 0, (), scope, 0)
    right = scalars.operand(row, 1, (), scope, 0)
    if isinstance(left, Unknown):
        return left
    if isinstance(right, Unknown):
        return right
    direction = scalars.module.instruction(row).attribute("direction") or ""
    return Comparison(left=left, direction=direction, right=right, bounds=bounds)
