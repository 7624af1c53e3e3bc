"""Saved activations removed, simulated: values of a source line are computed again when needed.

A saved activation is a temporary of the line that lives at the peak, is read later, and is none of
the backward pass itself (whose operations have ``transpose(`` in their names). It ends with its
last use before the peak, and a copy of its size lives from its next use on. Of a value that a loop
writes or reads by iteration, only one iteration's part is computed again at a time.

Limits: the operands of the computation are taken as available, and XLA's other choices as the same.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.shape_tree import NODES, Part
from hlo_lens.buffers.estimate.value_edit import AddedValue
from hlo_lens.program.flops import flops
from hlo_lens.program.origins import origins
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.what_if.edit import Change
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.questions.what_if.simulation.simulator import Simulator

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
        flops: Arithmetic of products that is done again in one run; None if not known.
    """

    parts: Mapping[int, Part] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    added: tuple[AddedValue, ...] = ()
    changes: tuple[Change, ...] = ()
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
        self._module = hlo_text(simulator.known)
        self._origins = origins(simulator.known)
        self._parts: dict[int, Part] = {}
        self._ends: dict[int, int] = {}
        self._added: list[AddedValue] = []
        self._turn = simulator.own.peak_instant
        self._before: dict[int, int] = {}
        self._later: dict[int, list[int]] = defaultdict(list)

    def edit(self, places: Sequence[str]) -> RematEdit:
        self._note_uses()
        changes = [self._change(place) for place in places]
        flops = self._flops([one.target for one in changes if one.applies])
        return RematEdit(
            parts=self._parts,
            ends=self._ends,
            added=tuple(self._added),
            changes=tuple(changes),
            flops=flops,
        )

    def _is_backward(self, row: int) -> bool:
        return _BACKWARD in (self._module.instruction(row).op_name or "")

    def _note_uses(self) -> None:
        """Note for each buffer its last use before the peak, and those at the peak and later."""
        flow = self._flow
        for instant, row in enumerate(flow.schedule):
            for place in flow.operands.get(row, ()):
                for value in flow.values_at(place)[:1]:
                    buffer = flow.buffer_of[value]
                    if instant < self._turn:
                        self._before[buffer] = instant
                    else:
                        self._later[buffer].append(instant)

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
            is_early = min(flow.values.starts[one] for one in members) < self._turn
            is_read = max(self._later.get(buffer, (0,))) > self._turn
            if is_small or buffer in held or not (is_early and is_read):
                continue
            if self._is_of(members, place):
                found.append(self._remove(buffer, members))
        saved = [size for size in found if size]
        if not saved:
            why = f"no temporary of {place} lives at the peak and is read later"
            return Change.refused("remat", place, why).for_request(place)
        effect = f"{plural(len(saved), 'saved value')}, {format_bytes(sum(saved))}, computed again"
        return Change(kind="remat", target=place, effect=effect, request=place)

    def _is_of(self, members: Iterable[int], place: str) -> bool:
        """Whether a value of a buffer comes from a line."""
        rows = [self._flow.values.places[value] // NODES for value in members]
        is_gradient = all(map(self._is_backward, rows))
        return not is_gradient and any(_is_at(self._origins.of_row(r).place, place) for r in rows)

    def _remove(self, buffer: int, members: Sequence[int]) -> int:
        """Remove a buffer at the peak; return the bytes that this saves, 0 if it stays."""
        values = self._flow.values
        first, last = self._later[buffer][0], max(values.ends[one] for one in members)
        part = values.parts[members[0]]
        made = dataclasses.replace(part, size_bytes=part.size_bytes // self._parts_of(buffer))
        before = max(self._before.get(buffer, 0), values.starts[members[0]])
        if len(members) == 1 and before < first:
            self._ends[members[0]] = before
        elif len(members) > 1 and made.size_bytes < part.size_bytes:
            for one in members:
                self._parts[one] = dataclasses.replace(values.parts[one], size_bytes=0)
        else:
            return 0
        self._added.append(AddedValue(part=made, start=first, end=last))
        return part.size_bytes

    def _parts_of(self, buffer: int) -> int:
        """Return in how many parts a buffer is read later: a part for each iteration of a loop."""
        flow = self._flow
        shape = flow.values.parts[flow.buffers[buffer][0]].shape
        entry = set(flow.table.module.entry.rows)
        is_in_loop = any(flow.schedule[at] not in entry for at in self._later[buffer])
        count = shape.dimensions[0] if shape.rank > 1 else None
        return count if is_in_loop and count else 1

    def _flops(self, places: Sequence[str]) -> int | None:
        """Return the arithmetic of the forward products of some lines in one run."""
        total = 0
        rows = {self._module.columns.name(row): row for row in range(len(self._module.columns))}
        for product in flops(self._simulator.known).products:
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
