"""BufferAssignmentProto to the text that XLA prints of it, and to its heap traces.

A proto has the place of each value, but no phis and no other positions: used values with positions
and uses are in texts only. Mirrors xla/service/buffer_assignment.cc
(BufferAllocation::ToString), as of August 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hlo_lens.buffers.assignment import HeapEvent, HeapEventKind, HeapTrace
from hlo_lens.load.proto.values import ShapePrinter, numbers, words

_TUPLE = 13


class BufferPrinter:
    """Prints the buffer assignment of a module.

    Args:
        assignment: A BufferAssignmentProto.
        module: Its HloModuleProto.
    """

    def __init__(self, assignment: Any, module: Any) -> None:
        self._assignment = assignment
        self._shapes = ShapePrinter()
        self._instructions = {
            instruction.id: instruction
            for computation in module.computations
            for instruction in computation.instructions
        }
        self._by_name = {one.name: one for one in self._instructions.values()}
        self._buffers = {buffer.id: buffer for buffer in assignment.logical_buffers}
        self._parameters, self._root = _entry(module)

    def text(self) -> str:
        """Return the text; raises ValueError if a value or instruction is missing."""
        lines = ["BufferAssignment:"]
        root_buffer = self._root_buffer()
        for allocation in self._assignment.buffer_allocations:
            lines.append(self._allocation(allocation, root_buffer))
            placed = sorted(allocation.assigned, key=lambda one: one.logical_buffer_id)
            lines += [self._value(one) for one in placed]
        return "\n".join([*lines, ""])

    def traces(self) -> tuple[HeapTrace, ...]:
        """Return the heap traces."""
        return tuple(
            HeapTrace(
                allocation=trace.buffer_allocation_index,
                events=tuple(self._event(event) for event in trace.events),
                is_whole_module=trace.whole_module_simulation,
            )
            for trace in self._assignment.heap_simulator_traces
        )

    def _event(self, event: Any) -> HeapEvent:
        buffer = self._buffer(event.buffer_id)
        kind = HeapEventKind(event.kind) if event.kind in (0, 1, 2) else HeapEventKind.ALLOC
        canonical = None
        if kind is HeapEventKind.SHARE_WITH:
            canonical = self._name(self._buffer(event.share_with_canonical_id))
        return HeapEvent(kind, self._name(buffer), buffer.size, canonical)

    def _buffer(self, number: int) -> Any:
        found = self._buffers.get(number)
        if found is None:
            raise ValueError(f"value {number} is assigned, but missing")
        return found

    def _defined_by(self, buffer: Any) -> Any:
        place = buffer.defined_at
        found = self._by_name.get(place.instruction_name) if place.instruction_name else None
        found = found or self._instructions.get(place.instruction_id)
        if found is None:
            raise ValueError(f"value {buffer.id} has no instruction")
        return found

    def _name(self, buffer: Any) -> str:
        """Return a value's name as in live ranges, always with its index."""
        instruction = self._defined_by(buffer)
        return f"{words(instruction.name)}{numbers(buffer.defined_at.shape_index)}"

    def _value(self, placed: Any) -> str:
        buffer = self._buffer(placed.logical_buffer_id)
        instruction = self._defined_by(buffer)
        index = buffer.defined_at.shape_index
        shape = _part(instruction.shape, index)
        is_tuple = instruction.shape.element_type == _TUPLE
        name = f"{words(instruction.name)}{numbers(index) if is_tuple else ''}"
        return (
            f" value: <{buffer.id} {name} @{buffer.color}> "
            f"(size={placed.size},offset={placed.offset}): {self._shapes.text(shape)}"
        )

    def _root_buffer(self) -> int | None:
        """Return the value that is the entry's whole result; None if the proto has none."""
        if self._root is None:
            return None
        places = [(b.defined_at, b.id) for b in self._assignment.logical_buffers]
        places += [(a.location, a.source_buffer_id) for a in self._assignment.buffer_aliases]
        for place, number in places:
            if place.instruction_id == self._root.id and not place.shape_index:
                return int(number)
        return None

    def _allocation(self, one: Any, root_buffer: int | None) -> str:
        items = [f"allocation {one.index}: size {one.size}"]
        if one.color:
            items.append(f"color {one.color}")
        if one.is_entry_computation_parameter:
            items += list(self._parameter(one))
        holds_root = any(placed.logical_buffer_id == root_buffer for placed in one.assigned)
        if holds_root and self._root is not None:
            text = self._shapes.text(self._root.shape, layout=False)
            items.append(f"output shape is |{text}|")
        flags = (
            ("constant", one.is_constant),
            ("thread-local", one.is_thread_local),
            ("maybe-live-out", one.maybe_live_out),
        )
        items += [name for name, is_set in flags if is_set]
        if not one.is_entry_computation_parameter and not any(is_set for _, is_set in flags):
            items.append("preallocated-temp")
        return f"{', '.join(items)}:"

    def _parameter(self, one: Any) -> Iterator[str]:
        yield f"parameter {one.parameter_number}"
        instruction = self._parameters.get(one.parameter_number)
        index = one.parameter_shape_index
        if instruction is None:
            yield f"shape |<unknown shape>| at ShapeIndex {numbers(index)}"
            return
        text = self._shapes.text(_part(instruction.shape, index), layout=False)
        yield f"shape |{text}| at ShapeIndex {numbers(index)}"


def _entry(module: Any) -> tuple[dict[int, Any], Any]:
    """Return the parameters of the entry by number, and its root."""
    for computation in module.computations:
        if computation.id == module.entry_computation_id:
            listed = (i for i in computation.instructions if i.opcode == b"parameter")
            found = {i.parameter_number: i for i in listed}
            root = next((i for i in computation.instructions if i.id == computation.root_id), None)
            return found, root
    return {}, None


def _part(shape: Any, index: Any) -> Any:
    """Return a part of a shape; raises ValueError if there is no such part."""
    for place in index:
        if not 0 <= place < len(shape.tuple_shapes):
            raise ValueError(f"a value at index {numbers(index)} of a shape that has no such part")
        shape = shape.tuple_shapes[place]
    return shape
