"""Arguments and results of other sizes, simulated: other shardings and element types.

The bytes of the argument, and of the result that it becomes, follow from the request. What XLA
compiles differently inside of the program is bounded, not computed:

* Sharding: consumers may gather the whole value first, in the forward and in the backward pass,
  and change its layout; or compute on the parts, so that further values are divided, at most all
  temporaries. Where a dimension is no longer divided, values computed from it may not be divided
  any more either. What devices send is not bounded: XLA may choose other collectives.
  A result that cannot be computed in parts may be a temporary as a whole before it is cut
  (`result_growth`).
* Element type: the values may be converted where they are read, or once, in a temporary.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from hlo_lens.program.origins import origins
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.sharding.result_growth import result_growth
from hlo_lens.questions.sharding.results import sharding_results
from hlo_lens.questions.what_if.arguments import index_of
from hlo_lens.questions.what_if.dtype import plan_dtype
from hlo_lens.questions.what_if.sharding import plan_sharding
from hlo_lens.questions.what_if.simulation.alias_pairs import parameter_value
from hlo_lens.shapes.sharding import HloSharding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hlo_lens.buffers.estimate.shape_tree import Part
    from hlo_lens.questions.sharding.table import ShardedValue
    from hlo_lens.questions.what_if.edit import Change
    from hlo_lens.questions.what_if.simulation.simulator import Simulator
    from hlo_lens.shapes.shape import Shape

_GATHERED = 4
"""Most copies of a gathered value alive at once: two passes, two layouts each."""

_SENT = 8
"""Most times that a divided value is sent: gathered in two passes, and its gradient summed."""

STEPS = 4096
"""Bytes of alignment that a further temporary may take."""

_DIVIDED = 2
"""Most bytes that are saved inside of the program when a value is divided, in its sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEdit:
    """Arguments and results of other sizes.

    Attributes:
        parts: Value to its new shape and bytes.
        changes: One for each argument and result of the requests.
        saved_bytes: Most bytes of temporaries that may be saved besides.
        added_bytes: Most bytes of temporaries that may be needed besides.
        saved_output_bytes: Most bytes that results of open sharding may save.
        padding_bytes: Most bytes of arguments that another layout may save or add, as (saved,
            added): a TPU's tiles depend on the shape.
        wire_bytes: Bytes that each device sends to gather divided arguments once.
        wire_room: Most bytes that may be sent less, and more, than the program as it is sends.
        notes: What XLA may do.
    """

    parts: Mapping[int, Part] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    saved_bytes: int = 0
    added_bytes: int = 0
    saved_output_bytes: int = 0
    padding_bytes: tuple[int, int] = (0, 0)
    wire_bytes: int = 0
    wire_room: tuple[int, int] = (0, 0)
    notes: tuple[str, ...] = ()


def stored_arrays(simulator: Simulator, shard: Iterable[str], dtype: Iterable[str]) -> StoredEdit:
    """Return the arguments and results that are divided otherwise or stored as other types.

    Args:
        simulator: The program.
        shard: ``PATTERN=P(..)``.
        dtype: ``PATTERN=bf16``.

    Raises:
        UsageError: If a request is malformed.
    """
    return _Stored(simulator).edit(list(shard), list(dtype))


class _Stored:
    """New parts of values of one program."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._flow = simulator.flow
        self._arrays = simulator.arrays
        self._parts: dict[int, Part] = {}
        self._saved = self._added = self._open = self._wire = 0
        self._unsent = self._sent = self._unpadded = self._padded = 0
        self._whole = self._parted = 1

    def edit(self, shard: list[str], dtype: list[str]) -> StoredEdit:
        """Return the edit of both kinds of requests."""
        changes: list[Change] = []
        notes = []
        if shard:
            changes += self._sharded(shard)
            notes.append("XLA may gather a divided value again, or divide what it computes from it")
        if dtype:
            changes += self._retyped(dtype)
            notes.append("XLA converts the values where they are read, or once, into a temporary")
        return StoredEdit(
            parts=self._parts,
            changes=tuple(changes),
            saved_bytes=max(self._saved, self._temporaries() * (self._parted - 1) // self._parted),
            added_bytes=self._added + (self._whole - 1) * self._temporaries(),
            saved_output_bytes=self._open,
            padding_bytes=(self._unpadded, self._padded),
            wire_bytes=self._wire,
            wire_room=(self._unsent, self._sent),
            notes=tuple(notes) if self._parts else (),
        )

    # ---- shardings -----------------------------------------------------------------------------

    def _sharded(self, requests: list[str]) -> list[Change]:
        simulator, arrays = self._simulator, self._arrays
        shardings = sharding_results(simulator.known)
        meshes = () if shardings is None else shardings.table.meshes
        lowered = simulator.known.lowered_meshes
        plan = plan_sharding(arrays, requests, meshes=(*simulator.meshes, *meshes, *lowered))
        for one in plan.values:
            value = (arrays.results if one.is_result else arrays.arguments)[one.place]
            held = self._value(value)
            if held is None or value.global_shape is None:
                continue
            rank = value.global_shape.rank
            sharding = HloSharding.from_partition_spec(
                one.sharding.mesh, one.sharding.spec, rank=rank
            )
            dimensions = sharding.shard_shape(value.global_shape).dimensions
            old, new = self._resize(held, dimensions=dimensions)
            if one.is_result:
                self._added += STEPS
                self._saved += STEPS
                known = simulator.known
                self._added += result_growth(hlo_text(known), origins(known), index_of(value))
            else:
                self._whole = max(self._whole, _undivided(value, sharding))
                self._parted *= max(1, old // new) if new else 1
                gathered = self._widest(held, max(old, new))
                self._added += _GATHERED * gathered
                self._saved += _DIVIDED * gathered
                self._wire += abs(old - new)
                unpadded = self._parts[held].shape.size_bytes
                self._open_results(value, old - min(new, unpadded or new))
        return list(plan.changes)

    def _temporaries(self) -> int:
        return self._simulator.own.figures["temp_bytes"]

    def _widest(self, value: int, size: int) -> int:
        """Return the bytes of a value as the widest type that the program stores it in."""
        values = self._flow.values
        shape = values.parts[value].shape
        count, own = shape.element_count, values.parts[value].size_bytes
        if not count or not own:
            return size
        alike = [
            part.size_bytes
            for part in set(values.parts)
            if not part.is_tuple and part.shape.element_count == count
        ]
        return size * max([own, *alike]) // own

    def _open_results(self, argument: ShardedValue, saved: int) -> None:
        """Count results that XLA may divide as it divides an argument."""
        arrays = self._arrays
        shape = argument.global_shape
        if shape is None or not shape.size_bytes:
            return
        for place in arrays.open_results:
            result = arrays.results[place].global_shape
            if result is not None and result.element_count == shape.element_count:
                self._open += max(0, saved) * (result.size_bytes or 0) // shape.size_bytes

    # ---- element types -------------------------------------------------------------------------

    def _retyped(self, requests: list[str]) -> list[Change]:
        arrays = self._arrays
        plan = plan_dtype(arrays, requests)
        for one in plan.values:
            held = self._value(arrays.arguments[one.place])
            if held is None:
                continue
            old, new = self._resize(held, element_type=one.new)
            self._added += max(old, new) + STEPS
            self._saved += min(old, new) + STEPS
            self._unsent += _SENT * max(0, old - new)
            self._sent += _SENT * max(0, new - old)
            if one.result is not None:
                made = self._value(arrays.results[one.result])
                if made is not None:
                    self._resize(made, element_type=one.new)
        return list(plan.changes)

    # ---- values --------------------------------------------------------------------------------

    def _value(self, stored: ShardedValue) -> int | None:
        """Return the value of an argument or result."""
        flow = self._flow
        if stored.value.kind == "parameter":
            found = parameter_value(flow, stored.value.number or 0, index_of(stored))
            return None if found is None else flow.carried(found)
        node = flow.tree(flow.table.module.entry.root_row).at(index_of(stored))
        return None if node is None else flow.output_values[node]

    def _resize(
        self,
        value: int,
        *,
        dimensions: tuple[int | None, ...] | None = None,
        element_type: str | None = None,
    ) -> tuple[int, int]:
        """Give a value, and those of its size in its buffer, other dimensions or another type.

        Returns:
            Its bytes before and after.
        """
        flow = self._flow
        part = self._parts.get(value, flow.values.parts[value])
        shape = part.shape
        if dimensions is not None:
            is_bitcast = len(dimensions) != shape.rank  # the layout is that of another rank
            layout = None if is_bitcast else shape.layout
            shape = dataclasses.replace(shape, dimensions=dimensions, layout=layout)
        if element_type is not None:
            shape = dataclasses.replace(shape, element_type=element_type)
        size = self._measured(shape, part)
        made = dataclasses.replace(part, shape=shape, size_bytes=size, text=str(shape))
        before = part.size_bytes
        for one in flow.buffers[flow.buffer_of[value]]:
            if self._parts.get(one, flow.values.parts[one]).size_bytes == before:
                self._parts[one] = made
        self._parts[value] = made
        if self._simulator.rules.backend == "tpu":
            self._unpadded += max(0, size - (shape.size_bytes or size))
            self._padded += max(0, before - size) if shape.rank < 2 else 0
        return before, size

    def _measured(self, shape: Shape, old: Part) -> int:
        """Return the bytes of a shape on the backend; those of the old one if not known."""
        size = self._simulator.rules.measure(shape)
        return old.size_bytes if size is None else size


def _undivided(value: ShardedValue, sharding: HloSharding) -> int:
    """Return the number of parts of the dimensions that are divided less now."""
    if value.sharding is None or value.global_shape is None:
        return 1
    old = value.sharding.tile_counts
    pairs = zip(old, sharding.tile_counts, strict=False)
    return prod(max(1, before // after) for before, after in pairs if after)
