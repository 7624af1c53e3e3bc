"""How a matrix lies over the devices of a mesh of one axis."""

from __future__ import annotations

from dataclasses import dataclass

Matrix = list[list[float]]


@dataclass(frozen=True)
class Placement:
    """Kind ``shard`` (over a dimension), ``replicate`` or ``partial`` (to be summed)."""

    kind: str
    dim: int = 0


REPLICATE = Placement("replicate")
PARTIAL = Placement("partial")
ROWS = Placement("shard", 0)
COLUMNS = Placement("shard", 1)
