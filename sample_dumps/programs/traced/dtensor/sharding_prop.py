"""Which placements an operator wants, and which its result has."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from programs.traced.dtensor.ops import RULES

if TYPE_CHECKING:
    from programs.traced.dtensor.placement import Placement


@functools.cache
def propagate(
    name: str, placements: tuple[Placement, ...]
) -> tuple[tuple[Placement, ...], Placement]:
    """Returns the placements of arguments and result; a rule is asked once."""
    return RULES[name][0](*placements)
