"""Changes of the values of a walked module: sizes, ranges, copies, further temporaries.

They change the dataflow, not the text: instants stay as they are.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hlo_lens.buffers.estimate.shape_tree import NODES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.buffers.estimate.shape_tree import Part
    from hlo_lens.buffers.estimate.values import Values
    from hlo_lens.buffers.estimate.walk import Walk


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedValue:
    """A temporary that the text does not have.

    Attributes:
        part: Its shape and bytes.
        start: First instant at which it lives.
        end: Last instant, inclusive.
    """

    part: Part
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueEdit:
    """Changes of values.

    Attributes:
        parts: Value to its new shape and bytes.
        ends: Value to its new last instant.
        copied_results: Node of the entry's result to the instant at which it is copied: the copy
            is returned, the value itself is a temporary.
        copied_parameters: Value of an entry parameter to the instant at which it is copied: all
            instructions read the copy.
        dropped: Value of a copy that is not made to the value that it copies.
        added: Further temporaries.
    """

    parts: Mapping[int, Part] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    copied_results: Mapping[int, int] = field(default_factory=dict)
    copied_parameters: Mapping[int, int] = field(default_factory=dict)
    dropped: Mapping[int, int] = field(default_factory=dict)
    added: tuple[AddedValue, ...] = ()


class EditedValues:
    """Values, results, parameters and schedule of a walk with an edit.

    A copy has an instant of its own, before the instruction that ran at its instant.

    Args:
        walk: The walk.
        values: A copy of its values, which is changed.
        outputs: Values of the entry's result.
        edit: The changes.

    Attributes:
        outputs: Values of the entry's result, copies included.
        parameters: Entry parameter number to values at each node.
        schedule: Rows in execution order; copies have the row of the parameter or the ROOT.
    """

    def __init__(self, walk: Walk, values: Values, outputs: Sequence[int], edit: ValueEdit) -> None:
        self._walk, self._values = walk, values
        self._row = max(walk.module.entry.root_row, 0)
        self._added = 0
        self.outputs, self.parameters = list(outputs), dict(walk.parameters)
        for value, part in edit.parts.items():
            values.parts[value] = part
        for value, end in edit.ends.items():
            values.ends[value] = end
        for copy, value in edit.dropped.items():
            self._drop(copy, value)
        copies = [(at, 0, value) for value, at in edit.copied_parameters.items()]
        copies += [(at, 1, node) for node, at in edit.copied_results.items()]
        copies.sort(key=lambda copy: copy[:2])
        self._instants = [at for at, _, _ in copies]
        values.starts[:] = map(self._shifted, values.starts)
        values.ends[:] = map(self._shifted, values.ends)
        self.schedule = list(walk.schedule)
        for count, (at, is_result, key) in enumerate(copies):
            row = self._row if is_result else values.places[key] // NODES
            self.schedule.insert(at + count, row)
        for count, (at, is_result, key) in enumerate(copies):
            (self._copy_result if is_result else self._copy_parameter)(key, at + count)
        for one in edit.added:
            self._add(one.part, self._shifted(one.start), self._shifted(one.end))

    def _shifted(self, instant: int) -> int:
        """Return an instant among those of the copies."""
        return instant + bisect.bisect_right(self._instants, instant)

    def _drop(self, copy: int, value: int) -> None:
        """Let instructions that read a copy read the value itself."""
        values = self._values
        values.parts[copy] = replace(values.parts[copy], size_bytes=0)
        values.ends[value] = max(values.ends[value], values.ends[copy])
        values.last_places[value] = values.last_places[copy]
        self.outputs = [value if one == copy else one for one in self.outputs]

    def _add(self, part: Part, start: int, end: int) -> int:
        """Add a value behind all others of the entry's ROOT."""
        self._added += 1
        order = self._walk.numbers.get(self._row, 0) * NODES + NODES // 2 + self._added
        return self._values.add(self._row * NODES, part, order, start, end)

    def _copy_result(self, node: int, instant: int) -> None:
        """Return a copy of a result; the value itself ends there, unless returned elsewhere too."""
        values, value = self._values, self.outputs[node]
        self.outputs[node] = self._add(values.parts[value], instant, len(self.schedule))
        if value not in self.outputs:
            values.ends[value] = max(instant, values.starts[value])

    def _copy_parameter(self, value: int, instant: int) -> None:
        """Make the value a copy of the parameter, and add another value for the parameter."""
        values = self._values
        made = values.add(
            values.places[value], values.parts[value], values.orders[value], 0, instant
        )
        values.starts[value] = instant
        values.ends[value] = max(instant, values.ends[value])
        for number, listed in self.parameters.items():
            if value in listed:
                self.parameters[number] = [made if one == value else one for one in listed]
