"""How the parameters and outputs of a program lie over its devices.

Each has a global shape, the shape of one device's part, and a sharding, which is taken from where
the dump has it (see `module_shardings`). A sharding counts only if it makes the device's shape of
the global one: a program may leave results to XLA, and then the text before optimizations tells
what was asked for, not what was done.

Where no text has the sharding of a value, its shapes tell into how many tiles each dimension is
divided; if the axes of a known mesh can do that in one way alone, that is the sharding, and its
`source` is ``shapes``.

An output without a sharding in any text, and without a global shape, that has the buffer of a
parameter is taken to lie as that parameter does (`source` is ``alias``): where JAX names both in
``input_output_alias``, it has made sure of that (jax/_src/interpreters/mlir.py, _set_up_aliases).

Global shapes that no text has are computed as tiles times the device's shape: an upper bound where
a dimension is divided, since the last tile may be short. (JAX divides parameters and results evenly
or refuses to.)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Row, Unit
from hlo_lens.model.partition_spec import partition_spec_text
from hlo_lens.model.sharding import HloSharding, ShardingKind
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.analysis.entry_signature import EntryValue
    from hlo_lens.analysis.module_shardings import EntryText, Key, ModuleShardings
    from hlo_lens.model.mesh import Mesh
    from hlo_lens.model.partition_spec import PartitionSpec
    from hlo_lens.model.shape import Shape

SHAPES = "shapes"
"""Source of a sharding that only follows from the shapes."""

ARGUMENTS = "arguments"
"""Source of a sharding that the framework itself knows, from its arguments and results."""

ALIAS = "alias"
"""Source of a sharding that is that of the parameter whose buffer the output has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedValue:
    """A parameter, an output, or a leaf of one.

    Attributes:
        value: As the text of the dump has it: name, donation, layout.
        global_shape: Shape of the whole; None where it is not known.
        device_shape: Shape of one device's part; None where it is not known.
        is_upper_bound: Whether the global shape was computed and may be smaller.
        sharding: How it lies on the devices; None where that is not known.
        source: Where the sharding is from: ``arguments``, ``text``, ``before_optimizations``,
            ``shapes``, ``alias`` or None.
        spec: The sharding over `mesh`; None where there is no mesh or no spec.
        mesh: The mesh of `spec`.
        replication_factor: How many devices hold each element.
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

    @property
    def global_bytes(self) -> int | None:
        """Bytes of the whole value, once."""
        return None if self.global_shape is None else self.global_shape.size_bytes

    @property
    def device_bytes(self) -> int | None:
        """Bytes of one device's part, its share of uneven tiles included."""
        return None if self.device_shape is None else self.device_shape.size_bytes

    @property
    def spec_text(self) -> str | None:
        """The spec as JAX prints it."""
        return None if self.spec is None else partition_spec_text(self.spec)


@dataclass(frozen=True, kw_only=True)
class ShardingTable(Result):
    """Parameters by number, then outputs by index.

    Attributes:
        values: One for each array.
        num_devices: Partitions of the program.
        meshes: Meshes that specs are over.
        has_global_text: Whether global shapes are from a text, not computed.
    """

    KIND: ClassVar[str] = "sharding-table"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("kind", Unit.NONE, "parameter or output"),
        Column("number", Unit.NONE, "parameter number"),
        Column("index", Unit.NONE, "shape index of the leaf"),
        Column("name", Unit.NONE, "argument name, or the instruction that gives the value"),
        Column("global_shape", Unit.NONE, "shape of the whole"),
        Column("device_shape", Unit.NONE, "shape of one device's part"),
        Column("global_bytes", Unit.BYTES, "bytes of the whole, once"),
        Column("device_bytes", Unit.BYTES, "bytes of one device's part"),
        Column("padded_device_bytes", Unit.BYTES, "the same with the padding of tiles"),
        Column("spec", Unit.NONE, "partition spec over the known mesh"),
        Column("sharding", Unit.NONE, "sharding as written"),
        Column(
            "sharding_source", Unit.NONE, "arguments, text, before_optimizations, shapes, alias"
        ),
        Column("replication_factor", Unit.COUNT, "how many devices hold each element"),
        Column("is_upper_bound", Unit.NONE, "whether the global shape may be smaller"),
        Column("donation", Unit.NONE, "may-alias, must-alias or donor"),
        Column("aliased_with", Unit.NONE, "what shares its buffer"),
    )
    values: tuple[ShardedValue, ...]
    num_devices: int
    meshes: tuple[Mesh, ...]
    has_global_text: bool

    def rows(self) -> Iterator[Row]:
        """Yield parameters, then outputs."""
        for value in self.values:
            yield sharded_row(value)

    @property
    def row_count(self) -> int:
        """Number of arrays."""
        return len(self.values)

    @property
    def parameters(self) -> tuple[ShardedValue, ...]:
        """The parameters."""
        return tuple(v for v in self.values if v.value.direction == "parameter")

    @property
    def outputs(self) -> tuple[ShardedValue, ...]:
        """The outputs."""
        return tuple(v for v in self.values if v.value.direction == "output")


def sharded_row(value: ShardedValue) -> Row:
    """Return the row of a value."""
    entry = value.value
    return (
        entry.direction,
        entry.number,
        entry.index,
        entry.name,
        _text(value.global_shape),
        _text(value.device_shape),
        value.global_bytes,
        value.device_bytes,
        None if value.device_shape is None else value.device_shape.padded_size_bytes,
        value.spec_text,
        None if value.sharding is None else value.sharding.text,
        value.source,
        value.replication_factor,
        value.is_upper_bound,
        entry.donation,
        entry.aliased_with,
    )


def _text(shape: Shape | None) -> str | None:
    return None if shape is None else shape.to_text(layout=False)


def sharding_table(found: ModuleShardings) -> ShardingTable:
    """Return how parameters and outputs lie over the devices."""
    rows = _Rows(found)
    values = [rows.of(key, value) for key, value in found.own.values().items()]
    return ShardingTable(
        values=tuple(_as_their_parameters(values)),
        num_devices=found.num_devices,
        meshes=found.meshes,
        has_global_text=found.global_text is not None,
    )


def _as_their_parameters(values: Sequence[ShardedValue]) -> Iterator[ShardedValue]:
    """Yield the values, outputs of unknown sharding as the parameters whose buffers they have."""
    parameters = {
        f"{value.value.number}{value.value.index}": value
        for value in values
        if value.value.number is not None
    }
    for value in values:
        parameter = parameters.get(value.value.aliased_with or "")
        is_unknown = value.sharding is None and value.global_shape is None
        if parameter is None or not is_unknown or not _are_of_one_shape(value, parameter):
            yield value
        else:
            yield dataclasses.replace(parameter, value=value.value, source=ALIAS)


def _are_of_one_shape(output: ShardedValue, parameter: ShardedValue) -> bool:
    """Return whether devices hold arrays of one shape and type, and one sharding is known."""
    one, other = output.device_shape, parameter.device_shape
    if one is None or other is None or parameter.sharding is None:
        return False
    return (one.element_type, one.dimensions) == (other.element_type, other.dimensions)


class _Rows:
    """Makes the rows; what follows from a text that is met again is found once."""

    def __init__(self, found: ModuleShardings) -> None:
        self._found = found
        self._other = found.before.values() if found.before is not None else {}
        self._specs: dict[str, tuple[PartitionSpec | None, Mesh | None]] = {}
        self._same: dict[tuple[str, str], bool] = {}
        self._rows: dict[tuple[object, ...], ShardedValue] = {}

    def of(self, key: Key, value: EntryValue) -> ShardedValue:
        """Return one row."""
        texts = [self._found.own, *([self._found.before] if self._found.before else [])]
        said = [found.get(key) for text in texts for found in (text.shardings, text.shardy)]
        other = self._other.get(key)
        like = (
            *(value.shape, value.layout),
            *((other.shape, other.layout) if other is not None else ()),
            *map(id, said),
        )
        known = self._rows.get(like)
        if known is None:
            known = self._rows[like] = self._new(key, value)
            return known
        return ShardedValue(
            value=value,
            global_shape=known.global_shape,
            device_shape=known.device_shape,
            is_upper_bound=known.is_upper_bound,
            sharding=known.sharding,
            source=known.source,
            spec=known.spec,
            mesh=known.mesh,
            replication_factor=known.replication_factor,
        )

    def _new(self, key: Key, value: EntryValue) -> ShardedValue:
        """Return a row that is like none before: of other shapes or shardings."""
        found = self._found
        own = _shape_of(found.own, value)
        other = self._other.get(key)
        before = None if other is None or found.before is None else _shape_of(found.before, other)
        whole, part = (before, own) if found.is_per_device else (own, None)
        if whole is None and (told := found.own.told.get(key)) is not None:
            whole = told.shape
        if whole is not None and part is not None and whole.rank == part.rank:
            whole = dataclasses.replace(whole, layout=part.layout)  # int4 is packed by layout
        sharding, source = self._sharding(key, whole, part)
        is_upper_bound = False
        if part is None and whole is not None:
            part = _part_of(sharding, whole) if found.num_devices != 1 else whole
        elif whole is None and part is not None:
            whole = _whole_of(sharding, part) if found.num_devices != 1 else part
            is_upper_bound = whole is not None and whole != part
        if sharding is None and whole is not None and part is not None:
            sharding = _by_shapes(whole, part, found.meshes)
            source = None if sharding is None else SHAPES
        spec, mesh = (None, None) if sharding is None else self._spec(key, sharding)
        return ShardedValue(
            value=value,
            global_shape=whole,
            device_shape=part,
            is_upper_bound=is_upper_bound,
            sharding=sharding,
            source=source,
            spec=spec,
            mesh=mesh,
            replication_factor=_copies(sharding, found.num_devices),
        )

    def _sharding(
        self, key: Key, whole: Shape | None, part: Shape | None
    ) -> tuple[HloSharding | None, str | None]:
        """Return the first sharding that fits the shapes, and which text has it."""
        own = self._found.own
        for sharding in self._found.shardings_of(key):
            if whole is not None and part is not None and not _fits(sharding, whole, part):
                continue
            told = own.told.get(key)
            if told is not None and sharding is told.sharding:
                return sharding, ARGUMENTS
            is_own = sharding in (own.shardings.get(key), own.shardy.get(key))
            return sharding, "text" if is_own else "before_optimizations"
        return None, None

    def _spec(self, key: Key, sharding: HloSharding) -> tuple[PartitionSpec | None, Mesh | None]:
        """Return a sharding over the mesh of the program.

        A spelling with axis names that means the same tells the axes best: those of size 1 too.
        """
        if not self._found.is_given:
            for other in self._found.shardings_of(key):
                if other.named is not None and self._are_same(other, sharding):
                    spec = other.to_partition_spec()
                    if spec is not None:
                        return spec, other.named.mesh
        if sharding.text not in self._specs:
            self._specs[sharding.text] = _spec_over(sharding, self._found.meshes)
        return self._specs[sharding.text]

    def _are_same(self, one: HloSharding, other: HloSharding) -> bool:
        pair = (one.text, other.text)
        if pair not in self._same:
            self._same[pair] = one.equivalent(other)
        return self._same[pair]


def _shape_of(text: EntryText, value: EntryValue) -> Shape | None:
    """Return a value's shape with its layout."""
    if value.shape is None:
        return None
    try:
        return text.module.reader.shape(f"{value.shape}{value.layout or ''}")
    except DumpSyntaxError:
        return None


def _spec_over(
    sharding: HloSharding, meshes: Sequence[Mesh]
) -> tuple[PartitionSpec | None, Mesh | None]:
    """Return a sharding over the first mesh whose axes give its devices."""
    for mesh in meshes:
        if mesh.axis_names and sharding.num_devices in (None, mesh.size):
            spec = sharding.to_partition_spec(mesh)
            if spec is not None:
                return spec, mesh
    return None, None


def _copies(sharding: HloSharding | None, num_devices: int) -> int | None:
    """Return how many devices hold each element; on one device it is one, however sharded."""
    if sharding is None:
        return 1 if num_devices == 1 else None
    return sharding.replication_factor(num_devices)


def _fits(sharding: HloSharding, whole: Shape, part: Shape) -> bool:
    """Return whether a sharding makes the one shape of the other."""
    made = _part_of(sharding, whole)
    return made is not None and made.dimensions == part.dimensions


def _part_of(sharding: HloSharding | None, whole: Shape) -> Shape | None:
    if sharding is None or sharding.kind is ShardingKind.TUPLE:
        return None
    try:
        return sharding.shard_shape(whole)
    except (DumpMismatchError, UsageError):
        return None


def _whole_of(sharding: HloSharding | None, part: Shape) -> Shape | None:
    """Return the largest shape that a sharding makes this part of."""
    if sharding is None or sharding.kind is ShardingKind.TUPLE:
        return None
    counts = sharding.tile_counts if sharding.kind is ShardingKind.TILED else ()
    if len(counts) > part.rank:
        return None
    counts += (1,) * (part.rank - len(counts))
    pairs = zip(part.dimensions, counts, strict=True)
    sizes = tuple(None if size is None else size * count for size, count in pairs)
    return dataclasses.replace(part, dimensions=sizes)


# ---- what shapes alone tell --------------------------------------------------------------------


def _by_shapes(whole: Shape, part: Shape, meshes: Sequence[Mesh]) -> HloSharding | None:
    """Return the only sharding over the only mesh that makes the one shape of the other."""
    if len(meshes) != 1 or not meshes[0].axis_names or whole.rank != part.rank:
        return None
    counts = []
    for size, length in zip(whole.dimensions, part.dimensions, strict=True):
        if size is None or not length:
            if size != length:
                return None
            counts.append(1)
            continue
        count = -(-size // length)
        if -(-size // count) != length:
            return None
        counts.append(count)
    mesh = meshes[0]
    sizes = {n: s for n, s in zip(mesh.axis_names, mesh.axis_sizes, strict=True) if s > 1}
    ways = _ways(counts, sizes)
    if len(ways) != 1 or any(len(axes) > 1 for axes in ways[0]):
        return None  # several axes on one dimension have an order, which shapes do not tell
    spec = tuple(axes[0] if axes else None for axes in ways[0])
    return HloSharding.from_partition_spec(mesh, spec, rank=whole.rank)


def _ways(counts: Sequence[int], sizes: Mapping[str, int]) -> list[tuple[tuple[str, ...], ...]]:
    """Return the ways to divide dimensions into so many tiles by different axes, two at most."""
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
