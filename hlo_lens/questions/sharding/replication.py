"""Values held by several devices, and the bytes saved by dividing them over a free mesh axis.

A mesh axis is free for a value that is not divided along it: all devices along it hold the same. If
the axis, of n devices, divides a dimension of one device's part evenly, dividing that dimension
over it too leaves each device 1/n of its bytes; the rest is saved, at the cost of communication
where the whole value is needed. An output in a donated argument's memory is not counted again, nor
one that could have the memory of an argument: it is the argument, updated, and divided with it.
Bytes saved count the padding of a TPU's tiles, with the layout of the value: XLA may choose another
one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.sharding.donation import memory_pairs
from hlo_lens.render.result import Column, Records, Result, Row, Unit
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.tiling import smaller_tiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.program.origins import Origins
    from hlo_lens.questions.sharding.placement import ShardedValue, ShardingTable
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape, ShapeIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Bytes saved by dividing a value over one more axis; fields are columns of its result."""

    value: ShardedValue
    axis: str
    axis_size: int
    dimension: int
    dimensions: tuple[int, ...]
    saved_bytes: int


class AxisSaving(NamedTuple):
    """Saving of one axis if it divided all values it can divide."""

    axis: Annotated[str, "mesh axis along which all devices hold the same"]
    values: Annotated[int, Unit.COUNT, "values that it could divide"]
    device_bytes: Annotated[int, Unit.BYTES, "bytes of them on each device"]
    saved_bytes: Annotated[
        int, Unit.BYTES, "bytes of each device that dividing all would save, padding included"
    ]


@dataclass(frozen=True, kw_only=True)
class AxisSavings(Records[AxisSaving]):
    """Savings of each axis, largest first.

    Savings of two axes do not add up: they divide the same values.
    """

    KIND: ClassVar[str] = "replicated-by-axis"
    axes: tuple[AxisSaving, ...]


@dataclass(frozen=True, kw_only=True)
class ReplicatedBytes(Result):
    """Savings by value and axis, largest first.

    Attributes:
        savings: One for each value and free axis that divides one of its dimensions.
        replicated: Values that several devices hold the same part of, without outputs that have,
            or could have, the memory of one of them.
        no_axes: Number of these whose axes are unknown, so that savings are unknown too.
    """

    KIND: ClassVar[str] = "replicated-bytes"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("kind", Unit.NONE, "parameter or output"),
        Column("number", Unit.NONE, "parameter number"),
        Column("index", Unit.NONE, "shape index of the leaf"),
        Column("name", Unit.NONE, "argument name, or the instruction that computes the value"),
        Column("device_shape", Unit.NONE, "shape of one device's part"),
        Column("spec", Unit.NONE, "partition spec now"),
        Column("device_bytes", Unit.BYTES, "bytes of one device's part"),
        Column("replication_factor", Unit.COUNT, "devices that hold each element"),
        Column("axis", Unit.NONE, "mesh axis along which all hold the same"),
        Column("axis_size", Unit.COUNT, "devices along it"),
        Column("dimension", Unit.NONE, "dimension that saves most, of equal ones the longest"),
        Column("dimensions", Unit.NONE, "all dimensions that it divides"),
        Column(
            "saved_bytes",
            Unit.BYTES,
            "bytes of each device that dividing it would save, padding included",
        ),
    )
    RECORDS: ClassVar[str] = "savings"
    savings: tuple[Saving, ...]
    replicated: tuple[ShardedValue, ...]
    no_axes: int

    def rows(self) -> Iterator[Row]:
        """Yield savings, largest first."""
        for saving in self.savings:
            value = saving.value
            yield (
                value.value.kind,
                value.value.number,
                value.value.index,
                value.value.name,
                None if value.device_shape is None else value.device_shape.to_text(layout=False),
                value.spec_text,
                value.device_bytes,
                value.replication_factor,
                saving.axis,
                saving.axis_size,
                saving.dimension,
                saving.dimensions,
                saving.saved_bytes,
            )

    @cached_property
    def by_axis(self) -> AxisSavings:
        """Savings of each axis."""
        found: dict[str, tuple[int, int, int]] = {}
        for saving in self.savings:
            count, size, saved = found.get(saving.axis, (0, 0, 0))
            size += saving.value.device_bytes or 0
            found[saving.axis] = (count + 1, size, saved + saving.saved_bytes)
        sums = (AxisSaving(axis, *cells) for axis, cells in found.items())
        return AxisSavings(axes=tuple(sorted(sums, key=lambda one: (-one.saved_bytes, one.axis))))


def replicated_bytes(table: ShardingTable) -> ReplicatedBytes:
    """Return the replicated values and the bytes that each free axis would save."""
    found = [v for v in table.values if (v.replication_factor or 1) > 1 and v.device_bytes]
    parameters = [value for value in found if value.value.kind == "parameter"]
    outputs = [v for v in found if v.value.kind == "output" and v.value.aliased_with is None]
    if outputs:
        free = [value for value in parameters if value.value.aliased_with is None]
        updated = {output.value.index for _, output in memory_pairs(free, table)}
        outputs = [output for output in outputs if output.value.index not in updated]
    replicated = (*parameters, *outputs)
    savings = [saving for value in replicated for saving in _savings(value)]
    savings.sort(key=lambda s: (-s.saved_bytes, s.value.value.name or "", s.axis))
    return ReplicatedBytes(
        savings=tuple(savings),
        replicated=replicated,
        no_axes=sum(value.mesh is None for value in replicated),
    )


def _savings(value: ShardedValue) -> Iterator[Saving]:
    """Yield the saving of each free axis for a value, if there is any."""
    shape = value.device_shape
    size = None if shape is None else shape.padded_size_bytes
    if value.mesh is None or shape is None or size is None:
        return
    for axis, parts in free_axes(value, value.mesh).items():
        found = ways_to_divide(shape, parts)
        saved = size - (found[0].part.padded_size_bytes or 0) if found else 0
        if saved > 0:
            yield Saving(
                value=value,
                axis=axis,
                axis_size=parts,
                dimension=found[0].dimension,
                dimensions=tuple(sorted(one.dimension for one in found)),
                saved_bytes=saved,
            )


class Division(NamedTuple):
    """An array divided evenly in one dimension."""

    dimension: int
    part: Shape


def ways_to_divide(shape: Shape, parts: int) -> list[Division]:
    """Return the ways to divide an array, the smallest parts first, then the longest dimension."""
    found = [
        Division(dimension, _part(shape, dimension, parts))
        for dimension, length in enumerate(shape.dimensions)
        if length and length % parts == 0
    ]
    lengths = shape.dimensions
    found.sort(key=lambda one: (one.part.padded_size_bytes or 0, -(lengths[one.dimension] or 0)))
    return found


def _part(shape: Shape, dimension: int, parts: int) -> Shape:
    """Return a part of an array that is divided in a dimension, with the layout of the whole."""
    lengths = list(shape.dimensions)
    lengths[dimension] = (lengths[dimension] or 0) // parts
    layout = shape.layout
    if layout is not None and layout.tiles:
        sizes = [lengths[place] or 0 for place in layout.minor_to_major]
        layout = replace(layout, tiles=smaller_tiles(layout.tiles, sizes))
    return replace(shape, dimensions=tuple(lengths), layout=layout)


def free_axes(value: ShardedValue, mesh: Mesh) -> dict[str, int]:
    """Return the axes, and their sizes, along which all devices hold the same of a value."""
    if value.spec is None or value.sharding is None:
        return {}
    if value.sharding.kind not in (ShardingKind.REPLICATED, ShardingKind.TILED):
        return {}
    used = {
        axis for e in value.spec if e is not None for axis in ((e,) if isinstance(e, str) else e)
    }
    named = value.sharding.named
    if named is not None:
        used |= {axis.axis for axis in (*named.manual_axes, *named.unreduced_axes)}
    pairs = zip(mesh.axis_names, mesh.axis_sizes, strict=True)
    return {name: size for name, size in pairs if size > 1 and name not in used}


_MANUAL = ("shard_map", "shmap_body", "xmap")
"""Parts of the operation paths of programs for one device, which are not partitioned."""

_MOST_STEPS = 500
_RUNNERS = frozenset({"fusion", "call"})
_COPIES = frozenset({"copy", "convert", "transpose", "bitcast"})
"""Opcodes whose result is operand 0 in another form, where the dimensions remain the same."""


def result_growth(module: HloModule, origins: Origins, index: ShapeIndex) -> int:
    """Return the most bytes of temporaries that dividing a result may add; 0 if none.

    Args:
        module: The partitioned module.
        origins: Its origins.
        index: Shape index of the result.
    """
    steps, root = origins.steps, module.entry.root_row
    first = steps.definition(Value(root, index))
    if _is_argument(module, first):
        return 0
    size = steps.size(first)
    if {one.row for one in steps.users(first)} - {root}:
        return size + _operands_size(module, origins, first)
    is_manual = any(one in module.columns.source.text for one in _MANUAL)
    growth = 0
    waiting = [first]
    seen: set[Value] = set()
    while waiting:
        value = steps.definition(waiting.pop())
        if value in seen or _is_argument(module, value):
            continue
        seen.add(value)
        path = origins.places.op_name(value.row)
        is_in_body = path is None or any(one in path for one in _MANUAL)
        sources = _divided_sources(module, origins, value, is_manual=is_manual and is_in_body)
        if sources is None or len(seen) > _MOST_STEPS:
            growth += max(size, steps.size(value)) + _operands_size(module, origins, value)
        else:
            waiting += sources
    return growth


def _operands_size(module: HloModule, origins: Origins, value: Value) -> int:
    """Return the bytes of the operands of a product, which are cut; 0 of other instructions."""
    if not opcode_traits(module.opcodes[value.row]).is_contraction:
        return 0
    steps = origins.steps
    return sum(steps.size(steps.definition(one)) for one in steps.operands(value.row))


def _divided_sources(
    module: HloModule, origins: Origins, value: Value, *, is_manual: bool
) -> list[Value] | None:
    """Return the values that are divided as a value is; None if it cannot be divided."""
    steps, opcode = origins.steps, module.opcodes[value.row]
    traits = opcode_traits(opcode)
    operands = steps.operands(value.row)
    if opcode in _RUNNERS:
        inside = steps.root(value.row, "calls", "to_apply")
        return None if inside is None else [Value(inside, value.element)]
    is_convert = is_manual and opcode == "convert"
    if opcode in _COPIES and not is_convert and _has_same_dimensions(module, value.row):
        return operands
    if traits.is_sourceless:
        return []
    if is_manual:
        return None
    if opcode == "broadcast":
        return []
    return operands if traits.is_elementwise else None


def _has_same_dimensions(module: HloModule, row: int) -> bool:
    instruction = module.instruction(row)
    shape, operand = instruction.shape, instruction.operand_shape(0)
    if shape is None or operand is None:
        return False
    old, new = (sorted(map(str, one.dimensions)) for one in (operand, shape))
    return [one for one in old if one != "1"] == [one for one in new if one != "1"]


def _is_argument(module: HloModule, value: Value) -> bool:
    """Return whether a value is an argument of the program."""
    is_parameter = module.opcodes[value.row] == "parameter"
    return is_parameter and module.links.owners[value.row] == module.entry.place
