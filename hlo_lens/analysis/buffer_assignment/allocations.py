"""Allocations of a module, and the layout rules of a backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.analysis.buffer_assignment.packing import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hlo_lens.analysis.buffer_assignment.packing import Chunk


@dataclass(slots=True, eq=False)
class Allocation:
    """A contiguous block of memory.

    Attributes:
        size: Bytes.
        color: Memory space.
        kind: ``parameter``, ``constant``, ``output``, ``tuple``, ``heap`` or ``thread-local``.
        values: The values in it, with their offsets.
        is_output: Whether a value in it may be (part of) the result.
        is_reusable: Whether other values may be put into it.
        parameter: Number of the entry parameter and node of its shape; None for others.
        row: The instruction of a thread-local computation whose result it holds; else -1.
    """

    size: int
    color: int
    kind: str
    values: list[tuple[int, int]] = field(default_factory=list)
    is_output: bool = False
    is_reusable: bool = False
    parameter: tuple[int, int] | None = None
    row: int = -1

    @property
    def is_temp(self) -> bool:
        """Whether XLA preallocates it: neither parameter, constant nor output."""
        return not self.is_output and self.kind in ("heap", "tuple", "output")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class HeapLayout:
    """The allocations of a module with the offsets of their values.

    Attributes:
        allocations: Parameters, constants and outputs, then one per memory space for temporaries.
        temporaries: Memory space to the position of its temporary allocation.
    """

    allocations: list[Allocation]
    temporaries: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRules:
    """Layout rules of one backend.

    Attributes:
        alignment: Every offset in a heap, and every temporary allocation, is a multiple of it.
        alignments: The same, for memory spaces with another alignment.
        pack: Lays out the heap of one memory space.
        reuses_outputs: Whether a temporary may reuse any free output or donated parameter; that of
            an operand it always may.
    """

    alignment: int
    alignments: Mapping[int, int] = field(default_factory=dict)
    pack: Callable[[Sequence[Chunk], int, int], int] = pack
    reuses_outputs: bool = True

    def align(self, size: int, color: int) -> int:
        """Return a size rounded up to the alignment of a memory space."""
        step = self.alignments.get(color, self.alignment)
        return -(-size // step) * step
