"""Saved activations removed, simulated: values of a source line are computed again when needed.

A saved activation is a temporary of the line that instructions of the backward pass read (their
operation has ``transpose(`` in its name). It ends with its last use before, and a copy of its size
lives from the first use in the backward pass on. Of a value that a loop stacks over its iterations,
only one iteration's part is computed again at a time.

Limits: the operands of the computation are taken as available, and XLA's other choices as the same.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.analysis.buffer_assignment.shape_tree import NODES, Part
from hlo_lens.analysis.buffer_assignment.value_edit import AddedValue
from hlo_lens.analysis.program_edits.edit import Change
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hlo_lens.analysis.simulation.simulator import Simulator
    from hlo_lens.model.hlo.metadata import SourceLocation

_LEAST = 1024
"""Bytes of the smallest value that counts as a saved activation."""

_BACKWARD = "transpose("


@dataclass(frozen=True, slots=True, kw_only=True)
class RematEdit:
    """Saved activations that are computed again.

    Attributes:
        parts: Value to its new size.
        ends: Value to its new last instant.
        added: The values computed again.
        changes: One for each place.
        saved_bytes: Bytes of the values between both passes.
        flops: Arithmetic of products that is done again in one run; None if not known.
    """

    parts: Mapping[int, Part] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    added: tuple[AddedValue, ...] = ()
    changes: tuple[Change, ...] = ()
    saved_bytes: int = 0
    flops: int | None = 0


def simulated_remat(simulator: Simulator, places: Sequence[str]) -> RematEdit:
    """Return the saved activations of source lines, computed again in the backward pass.

    Args:
        simulator: The program.
        places: ``FILE:LINE``, or ``FILE``; the end of a path is enough.
    """
    if not places:
        return RematEdit()
    return _Saved(simulator).edit(places)


class _Saved:
    """Saved activations of one program."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._flow = simulator.flow
        self._module = simulator.known.module
        self._origins = simulator.known.origins
        self._parts: dict[int, Part] = {}
        self._ends: dict[int, int] = {}
        self._added: list[AddedValue] = []
        self._saved_bytes = 0
        self._forward: dict[int, int] = defaultdict(int)
        self._backward: dict[int, list[int]] = defaultdict(list)

    def edit(self, places: Sequence[str]) -> RematEdit:
        self._note_uses()
        changes = [self._change(place) for place in places]
        flops = self._flops([one.target for one in changes if one.applies])
        return RematEdit(
            parts=self._parts,
            ends=self._ends,
            added=tuple(self._added),
            changes=tuple(changes),
            saved_bytes=self._saved_bytes,
            flops=flops,
        )

    def _is_backward(self, row: int) -> bool:
        return _BACKWARD in (self._module.instruction(row).op_name or "")

    def _note_uses(self) -> None:
        """Note for each buffer its last use in the forward pass, and those in the backward pass."""
        flow = self._flow
        backward = {row: self._is_backward(row) for row in set(flow.schedule)}
        for instant, row in enumerate(flow.schedule):
            for place in flow.operands.get(row, ()):
                for value in flow.values_at(place)[:1]:
                    buffer = flow.buffer_of[value]
                    if backward[row]:
                        self._backward[buffer].append(instant)
                    elif flow.table.opcodes[row] not in ("tuple", "while", "get-tuple-element"):
                        self._forward[buffer] = instant

    def _change(self, place: str) -> Change:
        flow = self._flow
        held = {flow.buffer_of[one] for one in flow.output_values}
        held |= {
            flow.buffer_of[flow.carried(one)]
            for listed in flow.parameter_values.values()
            for one in listed
        }
        found = []
        for buffer, members in enumerate(flow.buffers):
            part = flow.values.parts[members[0]]
            is_small = part.is_tuple or part.size_bytes < _LEAST
            if is_small or buffer in held or not self._backward.get(buffer):
                continue
            if self._is_of(members, place):
                found.append(self._remove(buffer, members))
        saved = [size for size in found if size]
        if not saved:
            why = f"the backward pass reads no temporary of {place}"
            return Change.refused("remat", place, why).for_request(place)
        self._saved_bytes += sum(saved)
        effect = f"{plural(len(saved), 'saved value')}, {format_bytes(sum(saved))}, computed again"
        return Change(kind="remat", target=place, effect=effect, request=place)

    def _is_of(self, members: Iterable[int], place: str) -> bool:
        """Whether a forward instruction of a line makes a value of a buffer."""
        for value in members:
            row = self._flow.values.places[value] // NODES
            if self._is_backward(row):
                continue
            if _is_at(self._origins.place(row), place):
                return True
        return False

    def _remove(self, buffer: int, members: Sequence[int]) -> int:
        """Remove a buffer between both passes; return its bytes, 0 if it stays."""
        values = self._flow.values
        first, last = min(self._backward[buffer]), max(values.ends[one] for one in members)
        part = values.parts[members[0]]
        shape = part.shape
        if len(members) > 1:
            count = shape.dimensions[0] if shape.rank > 1 else None
            if not count or count < 2:
                return 0
            slice_ = dataclasses.replace(part, size_bytes=part.size_bytes // count)
            for one in members:
                self._parts[one] = dataclasses.replace(values.parts[one], size_bytes=0)
            self._added.append(AddedValue(part=slice_, start=first, end=last))
            return part.size_bytes - slice_.size_bytes
        forward = max(self._forward.get(buffer, 0), values.starts[members[0]])
        if forward >= first:
            return 0
        self._ends[members[0]] = forward
        self._added.append(AddedValue(part=part, start=first, end=last))
        return part.size_bytes

    def _flops(self, places: Sequence[str]) -> int | None:
        """Return the arithmetic of the forward products of some lines in one run."""
        total = 0
        rows = {self._module.columns.name(row): row for row in range(len(self._module.columns))}
        for product in self._simulator.known.flops.products:
            row = rows.get(product.name)
            if row is None or self._is_backward(row):
                continue
            if any(_is_at(self._origins.place(row), place) for place in places):
                if product.run_flops is None:
                    return None
                total += product.run_flops
        return total


def _is_at(found: SourceLocation | None, place: str) -> bool:
    """Whether a place of an instruction is in a file, or on a line of it."""
    if found is None or found.line is None:
        return False
    for text in (f"{found.file}:{found.line}", found.file):
        if text == place or text.endswith(f"/{place}"):
            return True
    return False
