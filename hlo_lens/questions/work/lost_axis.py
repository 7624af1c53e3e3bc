"""Where a mesh axis is lost that divides the inputs: the first value that devices along it share.

An axis divides an input, as ``fsdp`` a batch of tokens. A collective that makes what is computed
from the input equal along the axis loses it; products after it are computed by all devices along
the axis, unless another division takes its place. Of the collectives that repeated products depend
on, the first in the order of execution is where the axis is lost.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from hlo_lens.program.device_values import Marks
from hlo_lens.program.origins import InstructionPlaces, origins
from hlo_lens.program.summary import hlo_text
from hlo_lens.program.value_flow import Value, value_flow
from hlo_lens.questions.sharding.placement import custom_call_target
from hlo_lens.questions.work.work import inputs_of, is_input, marked_values, mesh_axes
from hlo_lens.shapes.named_sharding import axes_of_entry
from hlo_lens.shapes.sharding import (
    IN_SHARDINGS,
    MANUAL_AXES,
    MESHES,
    SHARDING,
    shardy_axes,
    shardy_meshes,
    shardy_shardings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hlo_lens.hlo.metadata import SourceLocation
    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.device_values import Held
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.sharding import HloSharding

_MOST = 256
"""Collectives, and inputs, that are told apart."""

_NEAR = 60
"""Values behind a constraint among which a line is looked for."""

_SHARE = 0.5
"""Least share of the repeated FLOP, of the most that one collective explains."""


class Loss(StrEnum):
    """What loses an axis."""

    OPERATION = "operation"
    CONSTRAINT = "constraint"
    SHARD_MAP = "shard_map"
    INPUT = "input"
    """No input of the program is divided over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostAxis:
    """What loses an axis, and its line; None if not known.

    For `Loss.INPUT`, with the numbers of the parameters that the products depend on.
    """

    loss: Loss
    place: SourceLocation | None = None
    inputs: tuple[int, ...] = ()


class _AxisMarks(Marks):
    """Bit 0 for what depends on an input that the axis divides; one for each collective, input."""

    def __init__(self, axis: str, module: ModuleDump) -> None:
        self._axis, self._module = axis, module
        self._hlo, self._axes = hlo_text(module), mesh_axes(module)
        self._batches = {  # of a device, and whole
            (one.device_shape.dimensions[0], one.global_shape.dimensions[0])
            for one in inputs_of(module)
            if one.spec and one.device_shape and one.global_shape
            if axis in axes_of_entry(one.spec[0])
        }
        self.rows: list[int] = []
        self.inputs: list[int] = []

    def of_parameter(self, number: int, held: Held) -> int:
        if not is_input(self._module, number):
            return 0
        if number not in self.inputs and len(self.inputs) < _MOST:
            self.inputs.append(number)
        own = 2 << _MOST + self.inputs.index(number) if number in self.inputs else 0
        return own | (self._axis not in self._axes.of(held))

    def of_collective(self, row: int, operand: Held, result: Held) -> int:
        if not operand.marks & 1:
            return 0
        is_lost = self._axis in self._axes.of(result) and self._axis not in self._axes.of(operand)
        if not is_lost and not self._joins_batch(row):
            return 0
        if row not in self.rows:
            shape = self._hlo.instruction(row).shape
            leaves = () if shape is None else shape.leaves()
            sizes = (leaf.element_count or 0 for _, leaf in leaves)
            if len(self.rows) == _MOST or max(sizes, default=0) < 64:  # sums of a loss
                return 0
            self.rows.append(row)
        return 2 << self.rows.index(row)

    def _joins_batch(self, row: int) -> bool:
        """Whether a collective makes a batch whole, while the axis divides another dimension.

        Sizes alone tell: near what it reads is the batch of a device, near its result the whole.
        """
        if not self._batches or not self._hlo.opcodes[row].startswith(("all-gather", "all-to-all")):
            return False
        flow = value_flow(self._hlo)
        before = self._sizes(row, flow.sources)
        after = self._sizes(row, lambda value: list(flow.users(value)))
        return any(
            part in before and whole not in before and whole in after
            for part, whole in self._batches
        )

    def _sizes(self, row: int, following: Callable[[Value], Iterable[Value]]) -> set[int | None]:
        shapes = (
            self._hlo.instruction(value.row).shape
            for value, _ in _nearest(Value(row), following, 16)
            if value.row != row
        )
        leaves = (leaf for one in shapes if one and not one.is_tuple for _, leaf in one.leaves())
        return {size for leaf in leaves for size in leaf.dimensions}


def lost_axis(module: ModuleDump, axis: str, products: Mapping[int, int]) -> LostAxis | None:
    """Return where an axis is lost for products that should be divided over it; None if not known.

    Args:
        module: The module.
        axis: Name of a mesh axis.
        products: Their rows, each with its weight: the FLOP that it repeats.
    """
    marks = _AxisMarks(axis, module)
    values = marked_values(module, marks)
    if values is None:
        return None
    explained = [0] * len(marks.rows)
    every = 0
    for product, weight in products.items():
        bits = values.read[product].marks if product in values.read else 0
        every |= bits
        for number in range(len(explained)):
            if bits >> number + 1 & 1:
                explained[number] += weight
    if not every & 1:
        mapped = _shard_map_around(module, axis, products)
        if mapped is not None:
            return LostAxis(loss=Loss.SHARD_MAP, place=mapped)
        used = [n for k, n in enumerate(marks.inputs) if every >> _MOST + 1 + k & 1]
        return LostAxis(loss=Loss.INPUT, inputs=tuple(used))
    least = _SHARE * max(explained, default=0)
    row = next((r for r, n in zip(marks.rows, explained, strict=True) if n and n >= least), None)
    if row is None:
        return None
    place = _made_at(module, row)
    stated = None if place is None else _annotation(module, axis, place)
    return stated or LostAxis(loss=Loss.OPERATION, place=place)


def _made_at(module: ModuleDump, row: int) -> SourceLocation | None:
    known, hlo = origins(module), hlo_text(module)
    place = known.place(row)
    near: Iterator[tuple[Value, int]] = iter(())
    if (hlo.instruction(row).op_name or "").endswith("/while"):
        near = _nearest(Value(row), value_flow(hlo).sources, _NEAR)
    made = (known.place(value.row) for value, _ in near)
    return next((one for one in made if one not in (None, place)), place)


def _shard_map_around(
    module: ModuleDump, axis: str, products: Mapping[int, int]
) -> SourceLocation | None:
    """Return the line of the shard_map over an axis whose body has most of the products.

    Its specs decide what devices along the axis compute, whatever the sharding of the inputs is.
    """
    before = module.before
    if before is None:
        return None
    places, lines = InstructionPlaces(before), set()
    for row in before.columns.rows_with_attribute_text("custom_call_target="):
        instruction = before.instruction(row)
        target, said = custom_call_target(instruction), instruction.frontend_attributes
        is_manual = axis in shardy_axes(said.get(MANUAL_AXES, ""))
        if target == "SPMDFullToShardShape" or (
            target == "xla.sdy.GlobalToLocalShape" and is_manual
        ):
            lines.add(places.innermost(row))
    inside: Counter[SourceLocation] = Counter()
    known = origins(module)
    for row, weight in products.items():
        for place in lines.intersection(known.stack(known.of_row(row))):
            if place is not None:
                inside[place] += weight
    most = sum(products.values())
    return next((place for place, flops in inside.most_common(1) if flops > _SHARE * most), None)


def _annotation(module: ModuleDump, axis: str, place: SourceLocation) -> LostAxis | None:
    """Return the constraint or specs without an axis that are nearest to a line.

    The partitioner gathers a value before it is computed where it is wanted whole later, or only
    where the value is used.
    """
    before = module.before
    if before is None:
        return None
    flow, places = value_flow(before), InstructionPlaces(before)
    meshes = shardy_meshes(before.frontend_attributes.get(MESHES, ""))
    nearest, found = _NEAR, None
    for row in before.columns.rows_with_attribute_text("custom_call_target="):
        instruction = before.instruction(row)
        for number, axes in enumerate(_stated_axes(instruction, module, meshes)):
            operand = flow.operand(row, number)
            if axes is None or axis in axes or operand is None:
                continue
            before_it, after_it = flow.definition(operand), Value(row)
            for start, following in (
                (before_it, flow.sources),
                (after_it, lambda value: list(flow.users(value))),
            ):
                for value, steps in _nearest(start, following, nearest):
                    if places.innermost(value.row) == place:
                        nearest, found = steps, instruction
                        break
    if found is None:
        return None
    is_constraint = custom_call_target(found) == "Sharding"
    return LostAxis(
        loss=Loss.CONSTRAINT if is_constraint else Loss.SHARD_MAP,
        place=places.innermost(found.row),
    )


def is_stated_for_features(module: ModuleDump, axis: str) -> bool:
    """Return whether a constraint divides the last dimension of a computed value over an axis."""
    before = module.before
    if before is None:
        return False
    meshes = shardy_meshes(before.frontend_attributes.get(MESHES, ""))
    flow = value_flow(before)
    for row in before.columns.rows_with_attribute_text('custom_call_target="Sharding"'):
        instruction = before.instruction(row)
        said = instruction.frontend_attributes.get(SHARDING, "")
        listed = shardy_shardings(said, meshes) if said else [instruction.sharding]
        spec = next((_spec(one, module) for one in listed), None)
        rank = 0 if instruction.shape is None else instruction.shape.rank
        if spec is None or rank <= 1 or len(spec) < rank or axis not in spec[-1]:
            continue
        source = flow.operand(row, 0)
        while source is not None and before.opcodes[flow.definition(source).row] in _PARTS:
            source = flow.operand(flow.definition(source).row, 0)
        if source is None or before.opcodes[flow.definition(source).row] != "parameter":
            return True
    return False


_PARTS = frozenset({"dynamic-slice", "slice", "reshape", "convert", "copy", "transpose"})
"""Opcodes of a part of an argument, or its conversion."""


def _spec(sharding: HloSharding | None, module: ModuleDump) -> list[tuple[str, ...]] | None:
    mesh = mesh_axes(module).mesh
    if sharding is not None and sharding.named is not None:
        return [tuple(a.axis for a in dim.axes) for dim in sharding.named.dim_shardings]
    spec = None if sharding is None or mesh is None else sharding.to_partition_spec(mesh)
    return None if spec is None else [axes_of_entry(entry) for entry in spec]


def _nearest(
    start: Value, following: Callable[[Value], Iterable[Value]], most: int
) -> Iterator[tuple[Value, int]]:
    """Yield a value and those after it, the nearest first, until `most` are seen; with how many."""
    waiting, seen = deque([start]), {start}
    while waiting and len(seen) < most:
        value = waiting.popleft()
        yield value, len(seen)
        fresh = [one for one in following(value) if one not in seen]
        seen.update(fresh)
        waiting += fresh


def _stated_axes(
    instruction: HloInstruction, module: ModuleDump, meshes: Mapping[str, Mesh]
) -> list[set[str] | None]:
    """Return the axes that constraint or specs of a shard_map name, for each operand.

    None where dimensions are open, so that the partitioner may add axes.
    """
    target, said = custom_call_target(instruction), instruction.frontend_attributes
    if target == "xla.sdy.GlobalToLocalShape":
        manual = set(shardy_axes(said.get(MANUAL_AXES, "")))  # the partitioner has the others
        listed = shardy_shardings(said.get(IN_SHARDINGS, ""), meshes)
        return [
            None if axes is None else axes | (set(mesh_axes(module).sizes) - manual)
            for axes in (_named(one, module) for one in listed)
        ]
    if target != "Sharding":
        return []
    if SHARDING in said:
        listed = shardy_shardings(said[SHARDING], meshes)
        is_open = "?" in said[SHARDING]
        return [None if is_open else _named(one, module) for one in listed]
    return [_named(instruction.sharding, module)]


def _named(sharding: HloSharding | None, module: ModuleDump) -> set[str] | None:
    spec = _spec(sharding, module)
    return None if spec is None else {axis for axes in spec for axis in axes}
