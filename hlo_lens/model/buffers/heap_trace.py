"""HeapSimulatorTrace: allocations and frees of XLA's heap simulation, in order.

It is in protos only. Source: xla/service/heap_simulator/heap_simulator.cc (FillDebugTrace).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class HeapEventKind(Enum):
    """Kind of an event; numbers are those of the proto."""

    ALLOC = 0
    FREE = 1
    SHARE_WITH = 2


class HeapEvent(NamedTuple):
    """One step of the simulation.

    Attributes:
        kind: Its kind.
        value: The value: instruction and index, ``add.2{}``.
        size_bytes: Its bytes.
        canonical: For SHARE_WITH, the value whose memory it shares.
    """

    kind: HeapEventKind
    value: str
    size_bytes: int
    canonical: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapTrace:
    """The simulation of one allocation.

    Attributes:
        allocation: Index of the allocation in the simulation; CPU and GPU renumber them later.
        events: In order.
        is_whole_module: Whether one simulation covers all computations.
    """

    allocation: int
    events: tuple[HeapEvent, ...]
    is_whole_module: bool = True
