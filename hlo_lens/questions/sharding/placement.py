"""Placement of parameters and outputs: global shape, shape on one device, and sharding.

A sharding comes from the texts of the dump (`module_shardings`: its text, and the text before
optimizations) and counts only if it divides the global shape into the device's shape: a program may
leave the sharding of results to XLA, and then the text before optimizations has the requested
sharding, not the actual one.

Where no text has the sharding of a value, its shapes give the number of tiles of each dimension; if
the axes of a known mesh can divide it in exactly one way, that is the sharding (``shapes``).

An output without a sharding in any text, and without a global shape, that has the buffer of a
parameter gets that parameter's placement (``alias``): JAX names both in ``input_output_alias`` only
if they agree (jax/_src/interpreters/mlir.py, _set_up_aliases). Not so where the header leaves the
shardings of outputs to XLA, which finds aliases by the bytes of one device.

Global shapes that no text has are tiles times the device's shape: an upper bound where a dimension
is divided, since the last tile may be short.

A text from after partitioning has the shapes of one device, and at most the shardings of the
entry's parameters, which XLA omits since libtpu 0.0.50 and jax 0.12. The text from before
optimizations has global shapes, the shardings of parameters and results, and the mesh axes, as V3
shardings (jax 0.12) or as Shardy's attributes (jax 0.7 to 0.10).

Sources: xla/service/spmd/spmd_partitioner.cc (the entry is renamed ``X_spmd``), as of August 2026;
seen in the dumps of jax 0.4.13 to 0.12.0.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeAlias

from hlo_lens.hlo.query import InstructionTable, evident_partitions, tabulate
from hlo_lens.program.signature import EntrySignature, EntryValue, braces, signature_of
from hlo_lens.questions.sharding.mesh_axes import named_meshes
from hlo_lens.render.result import Records, Unit
from hlo_lens.shapes.named_sharding import ShardingKind, partition_spec_text
from hlo_lens.shapes.sharding import (
    MESHES,
    OUT_SHARDINGS,
    SHARDING,
    SHARDINGS_BEGIN,
    TUPLE_ARGS_SHARDINGS,
    TUPLE_RESULTS_SHARDINGS,
    HloSharding,
    shardy_meshes,
    shardy_shardings,
)
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError, UsageError
from hlo_lens.text.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import FrameworkValue, HloInstruction, HloModule
    from hlo_lens.program.signature import EntryValue
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.named_sharding import PartitionSpec
    from hlo_lens.shapes.shape import Shape, ShapeIndex


Key: TypeAlias = tuple[str, int, str]
"""``parameter`` or ``output``, number of the parameter, shape index of the leaf."""

_SHARDING_TARGETS = {
    "Sharding",
    "SPMDShardToFullShape",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.LocalToGlobalShape",
}
"""Custom calls whose sharding is that of the global value they return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryText:
    """The entry of one text of a module.

    Attributes:
        shardings: By value: ``sharding=`` of the custom call that returns it.
        shardy: By value: sharding in Shardy's attribute.
        told: By value: sharding known to the framework, if it compiled the module.
    """

    module: HloModule
    table: InstructionTable
    signature: EntrySignature
    shardings: dict[Key, HloSharding]
    shardy: dict[Key, HloSharding]
    told: dict[Key, FrameworkValue] = field(default_factory=dict)

    def items(self) -> Iterator[tuple[Key, EntryValue]]:
        """Yield parameters and outputs with their keys.

        A parameter without a printed number is numbered by position.
        """
        for place, value in enumerate(self.signature.parameters):
            number = -1 - place if value.number is None else value.number
            yield ("parameter", number, value.index), value
        for value in self.signature.outputs:
            yield ("output", 0, value.index), value

    def sharding(self, key: Key, value: EntryValue | None) -> HloSharding | None:
        """Return the ``sharding=`` of a value; None if there is none or it cannot be read."""
        text = None if value is None else value.sharding
        if text is not None:
            try:
                return self.module.reader.sharding(text)
            except DumpSyntaxError:
                pass
        return self.shardings.get(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleShardings:
    """The texts of a module and its meshes.

    `before` is the text from before optimizations, None if it has other parameters or results;
    `is_per_device` says whether shapes of `own` are those of one device; `num_devices` counts
    partitions, of all slices if only `before` has them; specs are over the first fitting of
    `meshes`, of the user alone if `is_given`.
    """

    own: EntryText
    before: EntryText | None
    is_per_device: bool
    num_devices: int
    meshes: tuple[Mesh, ...]
    is_given: bool = False


def module_shardings(
    module: HloModule,
    before: HloModule | None,
    given: Mesh | None = None,
    *,
    lowered: Sequence[Mesh] = (),
    known: tuple[InstructionTable, EntrySignature] | None = None,
) -> ModuleShardings:
    """Return the sources of a module's shardings; `before` is its text from before optimizations.

    A mesh that is `given` precedes those of the texts; those of the program as `lowered` follow.
    `known` has table and signature of the module, if they exist already.
    """
    own = _entry_text(module, known)
    other = None if before is None else _entry_text(before)
    if other is not None and dict(other.items()).keys() != dict(own.items()).keys():
        other = None
    texts = [module, *([] if before is None else [before])]
    found = dict.fromkeys(mesh for text in texts for mesh in named_meshes(text))
    found.update(dict.fromkeys(lowered))
    partitions = evident_partitions(own.table) or 1  # what is not printed is 1
    if other is not None and partitions < other.module.num_partitions:
        partitions = other.module.num_partitions  # a text of one slice of several
    for mesh in lowered if partitions > 1 else ():
        if mesh.size > partitions and mesh.size % partitions == 0:
            partitions = mesh.size  # of several slices too
    return ModuleShardings(
        own=own,
        before=other,
        is_per_device=is_per_device(own.table),
        num_devices=partitions,
        meshes=tuple(found) if given is None else (given,),
        is_given=given is not None,
    )


def is_per_device(table: InstructionTable) -> bool:
    """Return whether a text is from after partitioning, so that its shapes are of one device.

    A program of one partition is both. The partitioner renames the entry to ``X_spmd``; a scheduled
    program has been partitioned, and so has one whose entry has collectives outside shard_map.
    """
    module = table.module
    if not module.computations or module.is_scheduled:
        return True
    if module.entry.name.endswith("_spmd") or (evident_partitions(table) or 1) == 1:
        return True
    collectives = table.rows_where(lambda traits: traits.collective_kind is not None)
    return any(row in module.entry.rows for row in collectives)


def _entry_text(
    module: HloModule, known: tuple[InstructionTable, EntrySignature] | None = None
) -> EntryText:
    if known is None:
        table = tabulate(module)
        known = table, signature_of(table)
    table, signature = known
    calls = map(table.instruction, table.rows_of({"custom-call"}))
    is_annotated = any(custom_call_target(call) in _SHARDING_TARGETS for call in calls)
    shardings = {
        key: sharding
        for key, source, place in (_output_sources(module) if is_annotated else ())
        if (sharding := _sharding_of_source(source, place)) is not None
    }
    has_shardy = module.computations and SHARDINGS_BEGIN in module.columns.source.text
    listed: list[tuple[str, int | None, FrameworkValue]] = []
    if module.framework is not None:
        listed += (("parameter", one.number, one) for one in module.framework.arguments)
        listed += (("output", 0, one) for one in module.framework.outputs)
    return EntryText(
        module=module,
        table=table,
        signature=signature,
        shardings=shardings,
        shardy=dict(_shardy_shardings(module)) if has_shardy else {},
        told={(k, n, index_text(v.index)): v for k, n, v in listed if n is not None},
    )


def index_text(index: ShapeIndex) -> str:
    """Return a shape index as XLA prints it; empty for the whole value."""
    return braces(index) if index else ""


def _output_sources(module: HloModule) -> Iterator[tuple[Key, HloInstruction, int]]:
    """Yield for each output the instruction that computes it, and the shape index of the result."""
    root = module.entry.root
    if root is None:
        return
    outputs: list[tuple[str, str, tuple[int, ...]]] = [("", root.name, ())]
    if root.opcode == "tuple":
        operands = enumerate(root.operands)
        outputs = [(f"{{{number}}}", one.name, one.index) for number, one in operands]
    for output, name, index in outputs:
        source, place = module.entry.instruction(name), index[0] if index else 0
        if source is not None and source.opcode == "get-tuple-element" and source.operand_names:
            place = source.tuple_index or 0
            source = module.entry.instruction(source.operand_names[0])
        if source is not None:
            yield ("output", 0, output), source, place


def _sharding_of_source(source: HloInstruction, place: int) -> HloSharding | None:
    """Return the ``sharding=`` of a custom call that annotates a sharding."""
    if source.opcode != "custom-call" or custom_call_target(source) not in _SHARDING_TARGETS:
        return None
    try:
        sharding = source.sharding
    except DumpSyntaxError:
        return None
    if sharding is None or not sharding.elements:
        return sharding
    return next(iter(sharding.elements[place : place + 1]), None)


def custom_call_target(instruction: HloInstruction) -> str:
    """Return the target of a custom call without quotes; empty for other instructions."""
    text = instruction.attribute("custom_call_target")
    return instruction.computation.module.reader.string(text) if text else ""


def _shardy_shardings(module: HloModule) -> Iterator[tuple[Key, HloSharding]]:
    """Yield the shardings of entry parameters and outputs in Shardy's attributes.

    Those of arguments or results that are passed as one tuple are attributes of the module.
    """
    of_module = module.frontend_attributes
    meshes = shardy_meshes(of_module.get(MESHES, ""))

    @functools.cache
    def read(text: str | None) -> tuple[HloSharding | None, ...]:
        return () if text is None else shardy_shardings(text, meshes)

    found: list[tuple[Key, HloSharding | None]] = []
    for number, parameter in enumerate(module.entry.parameters):
        own = parameter.parameter_number
        key = ("parameter", -1 - number if own is None else own, "")
        found += [(key, one) for one in read(parameter.frontend_attributes.get(SHARDING))[:1]]
    for key, source, place in _output_sources(module):
        attributes = source.frontend_attributes
        text = attributes.get(SHARDING) or attributes.get(OUT_SHARDINGS)
        found += [(key, one) for one in read(text)[place : place + 1]]
    for name, direction in (
        (TUPLE_ARGS_SHARDINGS, "parameter"),
        (TUPLE_RESULTS_SHARDINGS, "output"),
    ):
        known = itertools.takewhile(lambda one: one is not None, read(of_module.get(name)))
        found += [((direction, 0, f"{{{place}}}"), one) for place, one in enumerate(known)]
    return ((key, sharding) for key, sharding in found if sharding is not None)


SHAPES = "shapes"
"""Source of a sharding inferred from the shapes alone."""

ARGUMENTS = "arguments"
"""Source of a sharding that the framework reports for its arguments and results."""

ALIAS = "alias"
"""Source of an output's sharding taken from the parameter whose buffer it shares."""

_LEFT_TO_XLA = "allow_spmd_sharding_propagation_to_output"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedValue:
    """Placement of one parameter or output, or of a leaf of one; None where unknown.

    Attributes:
        value: Name, donation and layout, as in the text of the dump.
        is_upper_bound: Whether the global shape was computed and may be smaller.
        source: Source of the sharding: ``arguments``, ``text``, ``before_optimizations``,
            ``shapes``, ``alias`` or None.
        spec: The sharding over `mesh`; None where there is no mesh or no spec.
        replication_factor: Number of devices that hold each element.
        cells: Cells of the placement in the table, computed once for equal placements.
    """

    value: EntryValue
    global_shape: Shape | None
    device_shape: Shape | None
    is_upper_bound: bool = False
    sharding: HloSharding | None = None
    source: str | None = None
    spec: PartitionSpec | None = None
    mesh: Mesh | None = None
    replication_factor: int | None = None
    cells: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    @property
    def global_bytes(self) -> int | None:
        return None if self.global_shape is None else self.global_shape.size_bytes

    @property
    def device_bytes(self) -> int | None:
        return None if self.device_shape is None else self.device_shape.size_bytes

    @property
    def padded_device_bytes(self) -> int | None:
        return None if self.device_shape is None else self.device_shape.padded_size_bytes

    @property
    def is_in_host_memory(self) -> bool:
        """Whether its layout is of host memory, which is the device's on CPU."""
        return self.device_shape is not None and self.device_shape.is_in_host_memory

    @property
    def spec_text(self) -> str | None:
        """The spec as JAX prints it."""
        return None if self.spec is None else partition_spec_text(self.spec)


_Said: TypeAlias = tuple[HloSharding | None, ...]
"""Shardings of a value, the most reliable first; their sources are `_SOURCES`."""

_SOURCES = (ARGUMENTS, "text", "before_optimizations", "text", "before_optimizations")


def _placed(found: ModuleShardings) -> list[ShardedValue]:
    """Return the placement of each parameter and output, in the order of the signature."""
    own, before = found.own, found.before
    others = {} if before is None else dict(before.items())
    over_mesh, equal = functools.cache(_spec_over), functools.cache(HloSharding.equivalent)

    def spec(said: _Said, sharding: HloSharding) -> tuple[PartitionSpec | None, Mesh | None]:
        # an equivalent spelling with axis names comes first: it has axes of size 1 too
        for other in said if not found.is_given else ():
            if other is not None and other.named is not None and equal(other, sharding):
                own_spec = other.to_partition_spec()
                if own_spec is not None:
                    return own_spec, other.named.mesh
        return over_mesh(sharding, found.meshes)

    known: dict[tuple[object, ...], ShardedValue] = {}  # many values are placed alike
    placed = []
    for key, value in own.items():
        other, told = others.get(key), own.told.get(key)
        said = (
            None if told is None else told.sharding,
            own.sharding(key, value),
            None if before is None else before.sharding(key, other),
            own.shardy.get(key),
            None if before is None else before.shardy.get(key),
        )
        shapes = [None if one is None else (one.shape, one.layout) for one in (value, other)]
        like = (*shapes, None if told is None else told.shape, *map(id, said))
        if like not in known:
            one = _placement(found, value, other, told, said)
            if one.sharding is not None:
                text, mesh = spec(said, one.sharding)
                one = dataclasses.replace(one, spec=text, mesh=mesh)
            known[like] = dataclasses.replace(one, cells=_cells(one))
        placed.append(dataclasses.replace(known[like], value=value))
    if "true" not in own.module.header.get(_LEFT_TO_XLA, ""):
        _place_as_their_parameters(placed)
    return placed


def _placement(
    found: ModuleShardings,
    value: EntryValue,
    other: EntryValue | None,
    told: FrameworkValue | None,
    said: _Said,
) -> ShardedValue:
    """Return the placement of a value, without its spec."""
    shape = _shape_of(found.own, value)
    before = None if other is None or found.before is None else _shape_of(found.before, other)
    whole, part = (before, shape) if found.is_per_device else (shape, None)
    if whole is None and told is not None:
        whole = told.shape
    if whole is not None and part is not None and whole.rank == part.rank:
        whole = dataclasses.replace(whole, layout=part.layout)  # int4 is packed by layout
    sharding, source = None, None
    for number, candidate in enumerate(said):
        if candidate is None:
            continue
        if whole is not None and part is not None:
            made = _part_of(candidate, whole)
            if made is None or made.dimensions != part.dimensions:
                continue  # requested, but XLA divided the value in another way
        sharding, source = candidate, _SOURCES[number]
        break
    is_upper_bound, is_one_device = False, found.num_devices == 1
    if part is None and whole is not None:
        part = whole if is_one_device else _part_of(sharding, whole)
    elif whole is None and part is not None:
        whole = part if is_one_device else _whole_of(sharding, part)
        is_upper_bound = whole is not None and whole != part
    if sharding is None and whole is not None and part is not None:
        sharding = _by_shapes(whole, part, found.meshes)
        source = None if sharding is None else SHAPES
    copies = 1 if is_one_device else None  # 1 on one device, however sharded
    return ShardedValue(
        value=value,
        global_shape=whole,
        device_shape=part,
        is_upper_bound=is_upper_bound,
        sharding=sharding,
        source=source,
        replication_factor=sharding.replication_factor(found.num_devices) if sharding else copies,
    )


def _place_as_their_parameters(values: list[ShardedValue]) -> None:
    parameters = {
        f"{one.value.number}{one.value.index}": one
        for one in values
        if one.value.number is not None
    }
    for place, one in enumerate(values):
        parameter = parameters.get(one.value.aliased_with or "")
        if one.sharding is not None or one.global_shape is not None or parameter is None:
            continue
        shape, own = parameter.device_shape, one.device_shape
        if shape is None or own is None or parameter.sharding is None:
            continue
        if (shape.element_type, shape.dimensions) == (own.element_type, own.dimensions):
            made = dataclasses.replace(parameter, value=one.value, source=ALIAS)
            values[place] = dataclasses.replace(made, cells=_cells(made))


def _shape_of(text: EntryText, value: EntryValue) -> Shape | None:
    if value.shape is None:
        return None
    try:
        return text.module.reader.shape(f"{value.shape}{value.layout or ''}")
    except DumpSyntaxError:
        return None


def _spec_over(
    sharding: HloSharding, meshes: Sequence[Mesh]
) -> tuple[PartitionSpec | None, Mesh | None]:
    for mesh in meshes:
        if mesh.axis_names and sharding.num_devices in (None, mesh.size):
            spec = sharding.to_partition_spec(mesh)
            if spec is not None:
                return spec, mesh
    return None, None


def _part_of(sharding: HloSharding | None, whole: Shape) -> Shape | None:
    if sharding is None or sharding.kind is ShardingKind.TUPLE:
        return None
    try:
        return sharding.shard_shape(whole)
    except (DumpMismatchError, UsageError):
        return None


def _whole_of(sharding: HloSharding | None, part: Shape) -> Shape | None:
    if sharding is None or sharding.kind is ShardingKind.TUPLE:
        return None
    counts = sharding.tile_counts if sharding.kind is ShardingKind.TILED else ()
    if len(counts) > part.rank:
        return None
    pairs = itertools.zip_longest(part.dimensions, counts, fillvalue=1)
    sizes = tuple(None if size is None else size * (count or 1) for size, count in pairs)
    return dataclasses.replace(part, dimensions=sizes)


def _by_shapes(whole: Shape, part: Shape, meshes: Sequence[Mesh]) -> HloSharding | None:
    """Return the sharding over the only mesh that gives these shapes, if there is just one."""
    if len(meshes) != 1 or not meshes[0].axis_names or whole.rank != part.rank:
        return None
    counts = []
    for size, length in zip(whole.dimensions, part.dimensions, strict=True):
        count = 1 if size is None or not length else -(-size // length)
        if length != (None if size is None else -(-size // count)):
            return None
        counts.append(count)
    sizes = {name: size for name, size in meshes[0].sizes.items() if size > 1}
    ways = _ways(counts, sizes)
    if len(ways) != 1 or any(len(axes) > 1 for axes in ways[0]):
        return None  # several axes on one dimension have an order, which shapes do not show
    spec = tuple(axes[0] if axes else None for axes in ways[0])
    return HloSharding.from_partition_spec(meshes[0], spec, rank=whole.rank)


def _ways(counts: Sequence[int], sizes: Mapping[str, int]) -> list[tuple[tuple[str, ...], ...]]:
    """Return ways to divide dimensions into these tile counts by different axes, two at most."""
    if not counts:
        return [()]
    found: list[tuple[tuple[str, ...], ...]] = []
    for number in range(len(sizes) + 1) if counts[0] > 1 else (0,):
        for axes in combinations(sizes, number):
            if prod(sizes[name] for name in axes) != counts[0]:
                continue
            rest = {name: size for name, size in sizes.items() if name not in axes}
            found += [(axes, *way) for way in _ways(counts[1:], rest)]
            if len(found) > 1:
                return found[:2]
    return found


class ShardingRow(NamedTuple):
    """A parameter or output, with the texts of its placement."""

    kind: Annotated[str, "parameter or output"]
    number: Annotated[int | None, "parameter number"]
    index: Annotated[str, "shape index of the leaf"]  # type: ignore[assignment] # hides tuple.index
    name: Annotated[str, "argument name, or the instruction that computes the value"]
    global_shape: Annotated[str | None, "shape of the whole"]
    device_shape: Annotated[str | None, "shape of one device's part"]
    global_bytes: Annotated[int | None, Unit.BYTES, "bytes of the whole, once"]
    device_bytes: Annotated[int | None, Unit.BYTES, "bytes of one device's part"]
    padded_device_bytes: Annotated[int | None, Unit.BYTES, "the same with the padding of tiles"]
    spec: Annotated[str | None, "partition spec over the known mesh"]
    sharding: Annotated[str | None, "sharding as written"]
    sharding_source: Annotated[str | None, "arguments, text, before_optimizations, shapes, alias"]
    replication_factor: Annotated[int | None, Unit.COUNT, "devices that hold each element"]
    is_upper_bound: Annotated[bool, "whether the global shape may be smaller"]
    donation: Annotated[str | None, "may-alias, must-alias or donor"]
    aliased_with: Annotated[str | None, "value that shares its buffer"]


@dataclass(frozen=True, kw_only=True)
class ShardingTable(Records[ShardingRow]):
    """Parameters by number, then outputs by index, a value for each array."""

    KIND: ClassVar[str] = "sharding-table"
    values: tuple[ShardedValue, ...]
    num_devices: int
    meshes: tuple[Mesh, ...]

    @property
    def records(self) -> Sequence[ShardingRow]:
        return Rows(lambda place: sharded_row(self.values[place]), range(len(self.values)))

    @property
    def parameters(self) -> tuple[ShardedValue, ...]:
        return tuple(v for v in self.values if v.value.kind == "parameter")

    @property
    def outputs(self) -> tuple[ShardedValue, ...]:
        return tuple(v for v in self.values if v.value.kind == "output")

    @property
    def unknown(self) -> tuple[ShardedValue, ...]:
        if self.num_devices == 1:
            return ()
        return tuple(v for v in self.values if v.sharding is None)


def sharded_row(value: ShardedValue) -> ShardingRow:
    """Return the row of a value."""
    entry = value.value
    head = (entry.kind, entry.number, entry.index, entry.name)
    return ShardingRow._make((*head, *value.cells, entry.donation, entry.aliased_with))


def _cells(placement: ShardedValue) -> tuple[Any, ...]:
    """Return the cells of a placement, from ``global_shape`` to ``is_upper_bound``."""
    whole, part = placement.global_shape, placement.device_shape
    return (
        _text(whole),
        _text(part),
        None if whole is None else whole.size_bytes,
        None if part is None else part.size_bytes,
        None if part is None else part.padded_size_bytes,
        None if placement.spec is None else partition_spec_text(placement.spec),
        None if placement.sharding is None else placement.sharding.text,
        placement.source,
        placement.replication_factor,
        placement.is_upper_bound,
    )


def _text(shape: Shape | None) -> str | None:
    return None if shape is None else shape.to_text(layout=False)


def sharding_table(found: ModuleShardings) -> ShardingTable:
    """Return the table of parameters and outputs with their placements."""
    values = tuple(_placed(found))
    return ShardingTable(values=values, num_devices=found.num_devices, meshes=found.meshes)
