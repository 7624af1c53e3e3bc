"""Memory that other shardings could save: donation of arguments, replicated values.

Donation: XLA lets an output have a parameter's buffer where the program says so:
``input_output_alias`` names both, ``buffer_donor`` leaves the output to XLA, which takes one of as
many bytes in the same memory space (optimize_input_output_buffer_alias.cc). JAX names both where
shape, element type, layout and sharding of an argument and a result are the same
(jax/_src/interpreters/mlir.py, _set_up_aliases, of jax 0.10.2). This pass compares the same: global
shapes where both are known, else those of one device. Where JAX leaves the sharding of a result to
XLA, no text has it: an output of the same shape and type may then have the memory.

Replication: a mesh axis is free for a value that is not divided along it. If the axis, of n
devices, divides a dimension of one device's part evenly, dividing it leaves each device 1/n of its
bytes; the rest is saved, at the cost of communication where the whole value is needed. An output
that has, or could have, the memory of an argument is not counted again. Bytes saved count the
padding of a TPU's tiles, with the layout of the value: XLA may choose another one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeAlias

from hlo_lens.hlo.opcodes import opcode_traits
from hlo_lens.load.fact import fact
from hlo_lens.program.signature import entry_signature, updated_arguments
from hlo_lens.program.summary import instruction_table, num_devices
from hlo_lens.program.value_flow import Value
from hlo_lens.questions.sharding.placement import (
    ModuleShardings,
    ShardingTable,
    index_text,
    module_shardings,
    sharded_row,
    sharding_table,
)
from hlo_lens.render.result import Column, Records, Result, Row, Unit, columns_of
from hlo_lens.shapes.named_sharding import ShardingKind, axes_of_entry
from hlo_lens.shapes.shape import smaller_tiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.load.module import ModuleDump
    from hlo_lens.program.origins import Origins
    from hlo_lens.questions.sharding.annotations import ShardingAnnotations
    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape, ShapeIndex


def _picking(names: str) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that picks columns, or their cells, of the table of values, by name."""
    return itemgetter(*map(ShardingTable.place_of, names.split()))


_OF_DONATED = _picking("number index name device_shape device_bytes")
_OF_REPLICATED = _picking(
    "kind number index name device_shape spec device_bytes replication_factor"
)


class DonationStatus(StrEnum):
    """Outcome for an argument's memory."""

    ALIASED = "aliased"
    UNUSED = "donated, not used"
    LOST = "alias lost"
    DONATABLE = "could be donated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Donation:
    """One argument that is donated, or could be; an empty `output` is the whole result."""

    value: ShardedValue
    status: Annotated[DonationStatus, "aliased, donated but not used, lost, or could be donated"]
    output: Annotated[str | None, "output that has its memory, or could"]
    reason: Annotated[str, "why it is not aliased"] = ""


@dataclass(frozen=True, kw_only=True)
class Donations(Result):
    """Arguments that are not aliased, largest first, then aliased ones by number."""

    KIND: ClassVar[str] = "donation"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        columns_of(Donation)[0],
        *_OF_DONATED(ShardingTable.COLUMNS),
        *columns_of(Donation)[1:],
    )
    RECORDS: ClassVar[str] = "donations"
    donations: tuple[Donation, ...]

    def rows(self) -> Iterator[Row]:
        for one in self.donations:
            yield (one.status.value, *_OF_DONATED(sharded_row(one.value)), one.output, one.reason)

    def of(self, status: DonationStatus) -> tuple[Donation, ...]:
        return tuple(donation for donation in self.donations if donation.status is status)


def donations(table: ShardingTable, before: HloModule | None = None) -> Donations:
    """Return the outcome for each donated argument, and the arguments that could be donated.

    `before` is the text from before optimizations, which has the requested aliases.
    """
    aliases = () if before is None else before.input_output_alias
    requested: dict[tuple[int | None, str], str] = {
        (one.parameter_number, index_text(one.parameter_index)): index_text(one.output_index)
        for one in aliases
    }
    outcomes: list[Donation] = []
    waiting: list[ShardedValue] = []
    outputs = cache(lambda: table.outputs)  # many, and rarely needed
    for value in table.parameters:
        entry = value.value
        output = requested.get((entry.number, entry.index))
        status, reason = DonationStatus.ALIASED, ""
        if entry.aliased_with is not None:
            output = entry.aliased_with
        elif entry.donation == "donor":
            status, reason = DonationStatus.UNUSED, _why_not(value, outputs(), table.num_devices)
            output = None
        elif output is not None:
            status, reason = DonationStatus.LOST, f"requested for {output}, not in XLA's text"
        else:
            waiting.append(value)
            continue
        outcomes.append(Donation(value=value, status=status, output=output, reason=reason))
    for value, free in memory_pairs(waiting, table) if waiting else ():
        is_known = table.num_devices == 1 or _are_known(value, free)
        same = "type and sharding" if is_known else "and type, sharding not known"
        reason = f"not donated; same shape{',' * is_known} {same}"
        status, output = DonationStatus.DONATABLE, free.value.index
        outcomes.append(Donation(value=value, status=status, output=output, reason=reason))
    aliased = [one for one in outcomes if one.status is DonationStatus.ALIASED]
    others = [one for one in outcomes if one.status is not DonationStatus.ALIASED]
    others.sort(key=lambda one: -(one.value.device_bytes or 0))
    return Donations(donations=(*others, *aliased))


class Resharded(NamedTuple):
    """An argument, and the result that replaces it and is divided in another way."""

    argument: ShardedValue
    result: ShardedValue

    @property
    def is_result_whole(self) -> bool:
        """Whether the result has the larger parts: it should be divided as the argument is."""
        return (self.result.device_bytes or 0) > (self.argument.device_bytes or 0)


def resharded(
    table: ShardingTable, updates: Mapping[str, Collection[int | None]]
) -> list[Resharded]:
    """Return the arguments whose results are divided in another way, so that none has its memory.

    A result replaces an argument of its shape and element type that it is computed from: the only
    one, whose memory JAX may have given to another result, or one that has no result; or one that
    is donated and has no other result. `updates` has the numbers of the parameters that each output
    is an update of, by shape index.
    """
    arguments = [one for one in table.parameters if one.device_bytes]
    free = [one for one in arguments if one.value.aliased_with is None]
    pairs: list[Resharded] = []
    later: list[ShardedValue] = []
    for result in table.outputs:
        if result.value.aliased_with is not None or result.sharding is None:
            continue
        sources = updates.get(result.value.index, ())
        sized = [one for one in arguments if one.value.number in sources]
        alike = [one for one in sized if _same_sizes(one, result)]
        if len(alike) > 1:
            alike = [one for one in alike if one in free]
        if any(_difference(one, result) is None for one in alike):
            continue
        found = next((one for one in alike if _is_resharded(one, result)), None)
        if found is None:
            later.append(result)
        else:
            arguments.remove(found)
            free = [one for one in free if one is not found]
            pairs.append(Resharded(found, result))
    for result in later:
        donors = (one for one in free if one.value.donation == "donor")
        found = next((one for one in donors if _is_resharded(one, result)), None)
        if found is not None:
            free.remove(found)
            pairs.append(Resharded(found, result))
    return pairs


def _is_resharded(parameter: ShardedValue, output: ShardedValue) -> bool:
    if parameter.spec is None or output.spec is None or not _same_sizes(parameter, output):
        return False
    return (_difference(parameter, output) or ("",))[0] == "sharding"


def memory_pairs(
    parameters: Sequence[ShardedValue], table: ShardingTable
) -> Iterator[tuple[ShardedValue, ShardedValue]]:
    """Yield parameters with outputs that could have their memory, each output once.

    Outputs that are aliased already are left out; equal shardings are preferred to unknown ones.
    """
    known: _Outputs = {}  # by type and sizes, then by placement: many agree
    unknown: _Outputs = {}
    for place, output in enumerate(table.outputs):
        if output.value.aliased_with is None:
            alike = (unknown if output.sharding is None else known).setdefault(_kind(output), {})
            alike.setdefault(_placement(output), deque()).append((place, output))
    waiting = [value for value in parameters if value.device_bytes]
    fits: dict[tuple[object, object], bool] = {}
    for free, needs_known in ((known, True), (unknown, False), (known, False)):
        later = []
        for value in waiting:
            placed, alike = _placement(value), free.get(_kind(value), {})
            fitting = []
            for other, same in alike.items() if not needs_known or value.sharding else ():
                if (placed, other) not in fits:
                    first = same[0][1]
                    is_alike = _same_sizes(value, first) and not _difference(value, first)
                    fits[placed, other] = is_alike
                if fits[placed, other]:
                    fitting.append((same[0][0], other))
            if not fitting:
                later.append(value)
                continue
            _, other = min(fitting, key=itemgetter(0))
            yield value, alike[other].popleft()[1]
            if not alike[other]:
                del alike[other]
        waiting = later


_Outputs: TypeAlias = "dict[object, dict[object, deque[tuple[int, ShardedValue]]]]"


def _kind(value: ShardedValue) -> object:
    shape = value.device_shape or value.global_shape
    return None if shape is None else (shape.element_type, shape.dimensions)


def _placement(value: ShardedValue) -> object:
    sharding = value.sharding
    text = None if sharding is None else sharding.text or id(sharding)
    return value.global_shape, value.device_shape, text


def _are_known(parameter: ShardedValue, output: ShardedValue) -> bool:
    return parameter.sharding is not None and output.sharding is not None


def _same_sizes(parameter: ShardedValue, output: ShardedValue) -> bool:
    for one, other in (
        (parameter.global_shape, output.global_shape),
        (parameter.device_shape, output.device_shape),
    ):
        if one is not None and other is not None:
            return one.dimensions == other.dimensions
    return False


def _difference(parameter: ShardedValue, output: ShardedValue) -> tuple[str, str, str] | None:
    """Return the first difference to an output of equal dimensions, with both values, or None."""
    one = parameter.device_shape or parameter.global_shape
    other = output.device_shape or output.global_shape
    if one is None or other is None:
        return "shape", str(one or "?"), str(other or "?")
    if one.element_type != other.element_type:
        return "element type", one.element_type, other.element_type
    mine, yours = parameter.sharding, output.sharding
    is_alike = mine is None or yours is None or mine.text == yours.text or mine.equivalent(yours)
    if one.dimensions != other.dimensions or not is_alike:
        first, second = (
            str(v.sharding or v.device_shape) if v.spec_text is None else v.spec_text
            for v in (parameter, output)
        )
        return "sharding", first, second
    if one.memory_space != other.memory_space:
        return "memory space", f"S({one.memory_space})", f"S({other.memory_space})"
    if one.layout is not None and other.layout is not None and one.layout != other.layout:
        return "layout", str(one.layout), str(other.layout)
    return None


def _why_not(parameter: ShardedValue, outputs: Sequence[ShardedValue], num_devices: int) -> str:
    alike = [output for output in outputs if _same_sizes(parameter, output)]
    if not alike:
        return "no output has its shape"
    fitting = [output for output in alike if _difference(parameter, output) is None]
    for output in fitting:
        if output.value.aliased_with is None:
            is_known = _are_known(parameter, output) or num_devices == 1
            what = "fits" if is_known else "has its shape and type"
            return f"{_output(output)} {what}, but XLA did not use it"
    if fitting:
        places = ", ".join(f"{o.value.index} by parameter {o.value.aliased_with}" for o in fitting)
        return f"all outputs of its shape are taken: {places}"
    nearest = alike[0]
    what, mine, yours = _difference(parameter, nearest) or ("", "", "")
    return f"{what} differs: {mine}, in {_output(nearest)} {yours}"


def _output(value: ShardedValue) -> str:
    return f"output {value.value.index}" if value.value.index else "the result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Bytes saved by dividing a value over one more axis."""

    value: ShardedValue
    axis: Annotated[str, "mesh axis along which all hold the same"]
    axis_size: Annotated[int, Unit.COUNT, "devices along it"]
    dimension: Annotated[int, "dimension that saves most, of equal ones the longest"]
    dimensions: Annotated[tuple[int, ...], "all dimensions that it divides"]
    saved_bytes: Annotated[
        int, Unit.BYTES, "bytes of each device that dividing it would save, padding included"
    ]


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
        *_OF_REPLICATED(ShardingTable.COLUMNS),
        *columns_of(Saving),
    )
    RECORDS: ClassVar[str] = "savings"
    savings: tuple[Saving, ...]
    replicated: tuple[ShardedValue, ...]
    no_axes: int

    def rows(self) -> Iterator[Row]:
        cells = attrgetter(*(column.name for column in columns_of(Saving)))
        return ((*_OF_REPLICATED(sharded_row(one.value)), *cells(one)) for one in self.savings)

    @cached_property
    def by_axis(self) -> AxisSavings:
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
    """Return the ways to divide an array, the smallest parts first, then the longest dimension.

    Parts have the layout of the whole.
    """
    found = []
    lengths = [length or 0 for length in shape.dimensions]
    for dimension, length in enumerate(lengths):
        if not length or length % parts:
            continue
        sizes = (*shape.dimensions[:dimension], length // parts, *shape.dimensions[dimension + 1 :])
        layout = shape.layout
        if layout is not None and layout.tiles:
            minor = [sizes[place] or 0 for place in layout.minor_to_major]
            layout = replace(layout, tiles=smaller_tiles(layout.tiles, minor))
        part = replace(shape, dimensions=sizes, layout=layout)
        found.append(Division(dimension, part))
    found.sort(key=lambda one: (one.part.padded_size_bytes or 0, -lengths[one.dimension]))
    return found


def free_axes(value: ShardedValue, mesh: Mesh) -> dict[str, int]:
    """Return the axes, and their sizes, along which all devices hold the same of a value."""
    if value.spec is None or value.sharding is None:
        return {}
    if value.sharding.kind not in (ShardingKind.REPLICATED, ShardingKind.TILED):
        return {}
    used = {axis for entry in value.spec if entry for axis in axes_of_entry(entry)}
    named = value.sharding.named
    if named is not None:
        used |= {axis.axis for axis in (*named.manual_axes, *named.unreduced_axes)}
    return {name: size for name, size in mesh.sizes.items() if size > 1 and name not in used}


_MANUAL = ("shard_map", "shmap_body", "xmap")
"""Parts of the operation paths of programs for one device, which are not partitioned."""

_MOST_STEPS = 500
_RUNNERS = frozenset({"fusion", "call"})
_COPIES = frozenset({"copy", "convert", "transpose", "bitcast"})
"""Opcodes whose result is operand 0 in another form, where the dimensions remain the same."""


def result_growth(module: HloModule, origins: Origins, index: ShapeIndex) -> int:
    """Return the most bytes of temporaries that dividing a result may add; 0 if none.

    `index` is the shape index of the result of a partitioned module.
    """
    steps, root = origins.steps, module.entry.root_row

    def is_argument(value: Value) -> bool:
        is_parameter = module.opcodes[value.row] == "parameter"
        return is_parameter and module.links.owners[value.row] == module.entry.place

    def operands_size(value: Value) -> int:  # of a product, which are cut
        is_product = opcode_traits(module.opcodes[value.row]).is_contraction
        operands = steps.operands(value.row) if is_product else []
        return sum(steps.size(steps.definition(one)) for one in operands)

    first = steps.definition(Value(root, index))
    if is_argument(first):
        return 0
    size = steps.size(first)
    if {one.row for one in steps.users(first)} - {root}:
        return size + operands_size(first)
    is_manual = any(one in module.columns.source.text for one in _MANUAL)
    growth = 0
    waiting = [first]
    seen: set[Value] = set()
    while waiting:
        value = steps.definition(waiting.pop())
        if value in seen or is_argument(value):
            continue
        seen.add(value)
        path = origins.places.op_name(value.row)
        is_in_body = path is None or any(one in path for one in _MANUAL)
        sources = _divided_sources(module, origins, value, is_manual=is_manual and is_in_body)
        if sources is None or len(seen) > _MOST_STEPS:
            growth += max(size, steps.size(value)) + operands_size(value)
        else:
            waiting += sources
    return growth


def _divided_sources(
    module: HloModule, origins: Origins, value: Value, *, is_manual: bool
) -> list[Value] | None:
    """Return the values that are divided as a value is; None if it cannot be divided."""
    steps, opcode = origins.steps, module.opcodes[value.row]
    operands = steps.operands(value.row)
    if opcode in _RUNNERS:
        inside = steps.root(value.row, "calls", "to_apply")
        return None if inside is None else [Value(inside, value.element)]
    if opcode in _COPIES and not (is_manual and opcode == "convert"):
        instruction = module.instruction(value.row)
        old, new = (
            None if one is None else sorted(str(size) for size in one.dimensions if size != 1)
            for one in (instruction.operand_shape(0), instruction.shape)
        )
        if old is not None and old == new:
            return operands
    traits = opcode_traits(opcode)
    if traits.is_sourceless or (opcode == "broadcast" and not is_manual):
        return []
    return operands if traits.is_elementwise and not is_manual else None


@dataclass(frozen=True, kw_only=True)
class ShardingResults:
    """Results of the sharding passes on one module; `donations` and `annotations` run when read.

    Attributes:
        found: Sources of shardings and meshes.
        replicated: Values held by several devices.
        mesh: Mesh named by the user.
    """

    found: ModuleShardings
    table: ShardingTable
    replicated: ReplicatedBytes
    mesh: Mesh | None

    @property
    def is_complete(self) -> bool:
        """Whether the table has all parameters and outputs: the text has the whole entry."""
        return self.found.own.signature.is_complete

    @cached_property
    def donations(self) -> Donations:
        before = self.found.before
        return donations(self.table, None if before is None else before.module)

    @cached_property
    def annotations(self) -> ShardingAnnotations:
        from hlo_lens.questions.sharding.annotations import sharding_annotations

        return sharding_annotations((self.found.before or self.found.own).table, self.mesh)


@fact
def sharding_results(module: ModuleDump) -> ShardingResults | None:
    """Return the results of the sharding passes; None without HLO text.

    The text from before optimizations gives shapes and shardings of the whole program, which a
    program of one device does not need.
    """
    if module.hlo is None:
        return None
    reads_before = not module.given.is_quick or num_devices(module) > 1
    mesh = module.given.mesh
    found = module_shardings(
        module.hlo,
        module.before if reads_before else None,
        mesh,
        lowered=module.lowered_meshes if reads_before else (),
        known=(instruction_table(module), entry_signature(module)),
    )
    table = sharding_table(found)
    return ShardingResults(found=found, table=table, replicated=replicated_bytes(table), mesh=mesh)


@fact
def resharded_arguments(module: ModuleDump) -> list[Resharded]:
    """Return the arguments whose results are divided in another way."""
    shardings = sharding_results(module)
    if shardings is None or not shardings.is_complete or num_devices(module) < 2:
        return []
    numbers = {one.value.number for one in shardings.table.parameters} - {None}
    indices = (one.value.index for one in shardings.table.outputs)
    may_be = resharded(shardings.table, dict.fromkeys(indices, numbers))
    return resharded(shardings.table, updated_arguments(module)) if may_be else []
