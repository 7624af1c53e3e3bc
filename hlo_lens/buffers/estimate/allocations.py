"""Allocations of a module, and the layout rules of a backend.

Reducers, comparators and the like use the stack of each thread, by allocations of their own.

Sources: GatherComputationsByAllocationType (xla/service/buffer_assignment.cc),
CallContext::kEmbedded (call_graph.cc), as of August 2026.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.packing import Chunk, pack
from hlo_lens.hlo.columns import NOTHING
from hlo_lens.hlo.opcodes import OPCODES, OpcodeTraits, opcode_traits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hlo_lens.buffers.estimate.shape_tree import Part
    from hlo_lens.buffers.estimate.values import Dataflow


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


def thread_local_allocations(flow: Dataflow) -> list[Allocation]:
    """Return an allocation for each value of a reducer, comparator or other embedded computation.

    Includes computations that these call, except those of fusions.
    """
    module, opcodes = flow.table.module, flow.table.opcodes
    calls = module.links.calls
    embedding = flow.table.rows_where(_is_embedding)
    places = dict.fromkeys(call.place for row in embedding for call in calls.of_row(row))
    places.pop(NOTHING, None)
    found: list[Allocation] = []
    waiting = list(places)
    for place in waiting:
        rows = module.computations[place].rows
        for call in calls.of_rows(rows):
            if call.place not in places and call.place != NOTHING and opcodes[call.row] != "fusion":
                places[call.place] = None
                waiting.append(call.place)
        for row in rows:
            kind = "constant" if opcodes[row] == "constant" else "thread-local"
            parts = _defined_parts(flow, row)
            found += [Allocation(p.size_bytes, p.color, kind, row=row) for p in parts]
    return found


def _is_embedding(opcode: OpcodeTraits) -> bool:
    """Return whether an opcode, or what it starts, runs a computation for one element at a time."""
    return not opcode.is_end and OPCODES.get(opcode.base, opcode).is_applier


def _defined_parts(flow: Dataflow, row: int) -> list[Part]:
    """Return the parts of a thread-local result with bytes of their own."""
    opcode = flow.table.opcodes[row]
    if opcode_traits(opcode).is_valueless:
        return []
    tree = flow.tree(row)
    parts = tree.parts
    if opcode == "tuple":
        return parts[:1]
    if opcode == "async-done":
        return [part for part in parts if part.is_tuple]
    if opcode in ("async-start", "async-update"):
        own = tree.children(0)[2:3]  # operands and results are not its own
        return [p for node, p in enumerate(parts) if p.is_tuple or (own and node >= own[0])]
    if "output_to_operand_aliasing=" in flow.table.module.columns.attributes_text(row):
        return [part for part in parts if part.is_tuple]
    return parts
