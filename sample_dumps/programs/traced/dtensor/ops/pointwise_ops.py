"""Operators on each element."""

from __future__ import annotations

from programs.traced.dtensor.placement import PARTIAL, REPLICATE, Matrix, Placement


def add_rule(left: Placement, right: Placement) -> tuple[tuple[Placement, ...], Placement]:
    """Returns the sharding of a sum: that of both, or replicated."""
    if left == right:
        return (left, right), left
    return (REPLICATE, REPLICATE), REPLICATE


def relu_rule(operand: Placement) -> tuple[tuple[Placement, ...], Placement]:
    """Returns the sharding of the positive part, which partial sums do not have."""
    place = REPLICATE if operand == PARTIAL else operand
    return (place,), place


def add(left: Matrix, right: Matrix) -> Matrix:
    """Returns the sum on one device."""
    pairs = zip(left, right, strict=True)
    return [[a + b for a, b in zip(x, y, strict=True)] for x, y in pairs]


def relu(operand: Matrix) -> Matrix:
    """Returns the positive part on one device."""
    return [[max(cell, 0.0) for cell in row] for row in operand]
