"""HeapSimulatorTrace: in which order XLA's heap simulation took and gave back memory.

Only protos have it. Source: xla/service/heap_simulator/heap_simulator.cc (FillDebugTrace).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class HeapEventKind(Enum):
    """What happens to a value; numbers are those of the proto."""

    ALLOC = 0
    FREE = 1
    SHARE_WITH = 2


class HeapEvent(NamedTuple):
    """One step of the simulation.

    Attributes:
        kind: What happens.
        value: The value: instruction and index, ``add.2{}``.
        size_bytes: Its bytes.
        canonical: Of SHARE_WITH the value whose memory it has.
    """

    kind: HeapEventKind
    value: str
    size_bytes: int
    canonical: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapTrace:
    """The simulation of one allocation.

    Attributes:
        allocation: Index of the allocation, as it was then: CPU and GPU number them anew later.
        events: In order.
        is_whole_module: Whether one simulation was made for all computations.
    """

    allocation: int
    events: tuple[HeapEvent, ...]
    is_whole_module: bool = True
