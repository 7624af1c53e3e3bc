"""Runs an operator: asks its sharding rule, redistributes arguments, computes on each device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from programs.traced.dtensor.ops import RULES
from programs.traced.dtensor.redistribute import redistribute_local_tensor
from programs.traced.dtensor.sharding_prop import propagate

if TYPE_CHECKING:
    from programs.traced.dtensor.api import DTensor
    from programs.traced.dtensor.placement import Matrix, Placement


def operator_dispatch(name: str, *args: DTensor) -> tuple[list[Matrix], Placement]:
    """Returns what each device has of an operator's result, and its placement."""
    wanted, result = propagate(name, tuple(arg.placement for arg in args))
    parts = redistribute_local_args(args, wanted)
    kernel = RULES[name][1]
    return [kernel(*local) for local in zip(*parts, strict=True)], result


def redistribute_local_args(
    args: tuple[DTensor, ...], wanted: tuple[Placement, ...]
) -> list[list[Matrix]]:
    """Returns what each device has of each argument, placed as the rule wants it."""
    pairs = zip(args, wanted, strict=True)
    return [
        arg.parts
        if arg.placement == place
        else redistribute_local_tensor(arg.parts, arg.placement, place)
        for arg, place in pairs
    ]
