"""DTensor: a matrix that is spread over devices."""

from __future__ import annotations

from dataclasses import dataclass

from programs.traced.dtensor import dispatch
from programs.traced.dtensor.collectives import mesh_broadcast, mesh_scatter
from programs.traced.dtensor.placement import REPLICATE, Matrix, Placement
from programs.traced.dtensor.redistribute import redistribute_local_tensor


@dataclass
class DTensor:
    """What each device has, and how these parts make the whole."""

    parts: list[Matrix]
    placement: Placement

    def matmul(self, other: DTensor) -> DTensor:
        """Returns the product."""
        return DTensor(*dispatch.operator_dispatch("matmul", self, other))

    def add(self, other: DTensor) -> DTensor:
        """Returns the sum."""
        return DTensor(*dispatch.operator_dispatch("add", self, other))

    def relu(self) -> DTensor:
        """Returns the positive part."""
        return DTensor(*dispatch.operator_dispatch("relu", self))

    def full_tensor(self) -> Matrix:
        """Returns the whole matrix."""
        return redistribute_local_tensor(self.parts, self.placement, REPLICATE)[0]


def distribute_tensor(whole: Matrix, devices: int, placement: Placement) -> DTensor:
    """Returns a matrix spread over devices."""
    if placement.kind == "shard":
        return DTensor(mesh_scatter(whole, devices, placement.dim), placement)
    return DTensor(mesh_broadcast(whole, devices), placement)
