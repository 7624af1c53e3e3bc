"""Chunks of a heap and their live ranges, from allocating and freeing values in execution order.

A result that may be written over an operand whose live range ends there shares its chunk, and so
do all values of one buffer.

Source: heap_simulator/heap_simulator.cc, HeapSimulator::RunComputation, as of August 2026.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.packing import Chunk
from hlo_lens.buffers.estimate.shape_tree import NODES
from hlo_lens.buffers.estimate.time_trees import Interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hlo_lens.buffers.estimate.buffer_sharing import BufferSharing
    from hlo_lens.buffers.estimate.values import Dataflow


class HeapSimulation:
    """Allocates and frees in execution order.

    Args:
        flow: Values, buffers and live ranges.
        sharing: Which results may be written over operands.
        buffers: Buffers of the heap.
        sizes: Bytes of each buffer of the module.
    """

    def __init__(
        self,
        flow: Dataflow,
        sharing: BufferSharing,
        buffers: Iterable[int],
        sizes: Sequence[int],
    ) -> None:
        self._flow = flow
        self._sharing = sharing
        self._sizes = sizes
        values = flow.values
        starts, ends, orders = values.starts, values.ends, values.orders
        members = [value for buffer in buffers for value in flow.buffers[buffer]]
        members.sort(key=lambda v: (starts[v], ends[v], orders[v]))
        self._members = members
        self._chunk_of: dict[int, Chunk] = {}
        self._interval_at: dict[int, int] = {}
        self._chunks: list[Chunk] = []
        self._empty: list[int] = []
        self._event = 0

    def run(self) -> tuple[list[Chunk], list[int], int]:
        """Return the chunks, the values of size 0, and the number of events."""
        values = self._flow.values
        starts, ends = values.starts, values.ends
        defined: dict[int, list[int]] = defaultdict(list)
        freed: dict[int, list[int]] = defaultdict(list)
        for value in self._members:
            defined[starts[value]].append(value)
            freed[ends[value]].append(value)
        first_of: dict[int, int] = {}
        buffer_of, buffers = self._flow.buffer_of, self._flow.buffers
        for instant in sorted({*defined, *freed}):
            ending = freed[instant]
            for value in defined[instant]:
                buffer = buffer_of[value]
                first = first_of.get(buffer)
                if first is not None:
                    self._share(value, first)
                elif len(buffers[buffer]) == 1 and self._share_operand(value, ending):
                    continue
                else:
                    self._allocate(value, self._sizes[buffer])
                    first_of[buffer] = value
            for value in ending:
                self._free(value)
        return self._chunks, self._empty, self._event

    def _allocate(self, value: int, size: int) -> None:
        if size == 0:
            self._empty.append(value)
            return
        chunk = Chunk(size, self._flow.values.orders[value], [])
        self._chunks.append(chunk)
        self._hold(value, chunk)

    def _hold(self, value: int, chunk: Chunk) -> None:
        self._chunk_of[value] = chunk
        self._interval_at[value] = len(chunk.intervals)
        chunk.intervals.append(Interval(self._event, self._event))
        chunk.keys.append(value)
        self._event += 1

    def _share(self, value: int, other: int) -> None:
        chunk = self._chunk_of.get(other)
        if chunk is None:
            self._empty.append(value)
        else:
            self._hold(value, chunk)

    def _free(self, value: int) -> None:
        chunk = self._chunk_of.get(value)
        if chunk is None:
            return
        at = self._interval_at[value]
        chunk.intervals[at] = Interval(chunk.intervals[at].start, self._event)
        self._event += 1

    def _share_operand(self, value: int, ending: list[int]) -> bool:
        """Put a value into the chunk of an operand that ends here, if allowed; return whether."""
        flow = self._flow
        places = flow.values.places
        row, node = divmod(places[value], NODES)
        if not ending or not self._sharing.is_possible(row):
            return False
        for place in flow.operands.get(row, ()):
            if place % NODES:
                continue  # an implied get-tuple-element: the defining instruction is no operand
            listed = flow.value_lists.get(place // NODES)
            if not listed:
                continue
            operand = flow.carried(listed[0])
            if operand not in ending or len(flow.buffers[flow.buffer_of[operand]]) > 1:
                continue
            if self._sharing.may_share(places[operand], row, node):
                self._free(operand)
                ending.remove(operand)
                self._share(value, operand)
                return True
        return False
