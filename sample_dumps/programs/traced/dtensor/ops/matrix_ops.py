"""Matrix products."""

from __future__ import annotations

from programs.traced.dtensor.placement import COLUMNS, PARTIAL, REPLICATE, ROWS, Matrix, Placement


def matmul_rule(left: Placement, right: Placement) -> tuple[tuple[Placement, ...], Placement]:
    """Returns the sharding of a product: by columns of the right, or summed over devices."""
    if right == COLUMNS:
        return (REPLICATE, COLUMNS), COLUMNS
    if (left, right) == (COLUMNS, ROWS):
        return (COLUMNS, ROWS), PARTIAL
    return (REPLICATE, REPLICATE), REPLICATE


def matmul(left: Matrix, right: Matrix) -> Matrix:
    """Returns the product on one device."""
    columns = list(zip(*right, strict=True))
    return [[sum(a * b for a, b in zip(row, c, strict=True)) for c in columns] for row in left]
