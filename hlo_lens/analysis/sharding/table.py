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
from hlo_lens.model.rows import Rows
from hlo_lens.model.shapes.partition_spec import partition_spec_text
from hlo_lens.model.shapes.sharding import HloSharding, ShardingKind
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.analysis.program.entry_values import EntryValue
    from hlo_lens.analysis.sharding.sources import EntryText, Key, ModuleShardings
    from hlo_lens.model.shapes.mesh import Mesh
    from hlo_lens.model.shapes.partition_spec import PartitionSpec
    from hlo_lens.model.shapes.shape import Shape

SHAPES = "shapes"
"""Source of a sharding that only follows from the shapes."""

ARGUMENTS = "arguments"
"""Source of a sharding that the framework itself knows, from its arguments and results."""

ALIAS = "alias"
"""Source of a sharding that is that of the parameter whose buffer the output has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How values of the same shapes and shardings lie; of thousands of values, few differ.

    Attributes:
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

    global_shape: Shape | None
    device_shape: Shape | None
    is_upper_bound: bool = False
    sharding: HloSharding | None = None
    source: str | None = None
    spec: PartitionSpec | None = None
    mesh: Mesh | None = None
    replication_factor: int | None = None


@dataclass(frozen=True, slots=True)
class ShardedValue:
    """A parameter, an output, or a leaf of one, and how it lies: see `Placement`.

    Attributes:
        value: As the text of the dump has it: name, donation, layout.
        placement: Its shapes and sharding.
    """

    value: EntryValue
    placement: Placement

    @property
    def global_shape(self) -> Shape | None:
        """Shape of the whole."""
        return self.placement.global_shape

    @property
    def device_shape(self) -> Shape | None:
        """Shape of one device's part."""
        return self.placement.device_shape

    @property
    def is_upper_bound(self) -> bool:
        """Whether the global shape was computed and may be smaller."""
        return self.placement.is_upper_bound

    @property
    def sharding(self) -> HloSharding | None:
        """How it lies on the devices."""
        return self.placement.sharding

    @property
    def source(self) -> str | None:
        """Where the sharding is from."""
        return self.placement.source

    @property
    def spec(self) -> PartitionSpec | None:
        """The sharding over `mesh`."""
        return self.placement.spec

    @property
    def mesh(self) -> Mesh | None:
        """The mesh of `spec`."""
        return self.placement.mesh

    @property
    def replication_factor(self) -> int | None:
        """How many devices hold each element."""
        return self.placement.replication_factor

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
    values: Sequence[ShardedValue]
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
    known = _Placements(found)
    placements = [known.of(key, value) for key, value in found.own.items()]
    values = found.own.signature.values
    _place_as_their_parameters(values, placements)
    return ShardingTable(
        values=Rows(lambda row: ShardedValue(values[row], placements[row]), range(len(values))),
        num_devices=found.num_devices,
        meshes=found.meshes,
        has_global_text=found.global_text is not None,
    )


def _place_as_their_parameters(values: Sequence[EntryValue], placements: list[Placement]) -> None:
    """Give outputs of unknown sharding the placement of the parameters whose buffers they have."""
    unknown = {
        place: alias
        for place, placement in enumerate(placements)
        if placement.sharding is None and placement.global_shape is None
        if (alias := values[place].aliased_with) is not None
    }
    if not unknown:
        return
    parameters = {
        f"{value.number}{value.index}": placement
        for value, placement in zip(values, placements, strict=True)
        if value.number is not None
    }
    known: dict[int, Placement] = {}
    for place, alias in unknown.items():
        parameter = parameters.get(alias)
        if parameter is not None and _are_of_one_shape(placements[place], parameter):
            if id(parameter) not in known:
                known[id(parameter)] = dataclasses.replace(parameter, source=ALIAS)
            placements[place] = known[id(parameter)]


def _are_of_one_shape(output: Placement, parameter: Placement) -> bool:
    """Return whether devices hold arrays of one shape and type, and one sharding is known."""
    one, other = output.device_shape, parameter.device_shape
    if one is None or other is None or parameter.sharding is None:
        return False
    return (one.element_type, one.dimensions) == (other.element_type, other.dimensions)


class _Placements:
    """Finds placements; what follows from a text that is met again is found once."""

    def __init__(self, found: ModuleShardings) -> None:
        self._found = found
        self._other = {} if found.before is None else dict(found.before.items())
        self._specs: dict[str, tuple[PartitionSpec | None, Mesh | None]] = {}
        self._same: dict[tuple[str, str], bool] = {}
        self._placements: dict[tuple[object, ...], Placement] = {}

    def of(self, key: Key, value: EntryValue) -> Placement:
        """Return how a value lies."""
        found = self._found
        other = self._other.get(key)
        said = [found.own.sharding(key, value), found.own.shardy.get(key)]
        if found.before is not None:
            said += [found.before.sharding(key, other), found.before.shardy.get(key)]
        told = found.own.told.get(key)
        like = (
            *((told.shape, told.sharding) if told is not None else ()),
            *(value.shape, value.layout),
            *((other.shape, other.layout) if other is not None else ()),
            *map(id, said),
        )
        known = self._placements.get(like)
        if known is None:
            known = self._placements[like] = self._new(key, value)
        return known

    def _new(self, key: Key, value: EntryValue) -> Placement:
        """Return a placement that is like none before: of other shapes or shardings."""
        found = self._found
        own = _shape_of(found.own, value)
        other = self._other.get(key)
        before = None if other is None or found.before is None else _shape_of(found.before, other)
        whole, part = (before, own) if found.is_per_device else (own, None)
        if whole is None and (told := found.own.told.get(key)) is not None:
            whole = told.shape
        if whole is not None and part is not None and whole.rank == part.rank:
            whole = dataclasses.replace(whole, layout=part.layout)  # int4 is packed by layout
        sharding, source = self._sharding(key, value, whole, part)
        is_upper_bound = False
        if part is None and whole is not None:
            part = _part_of(sharding, whole) if found.num_devices != 1 else whole
        elif whole is None and part is not None:
            whole = _whole_of(sharding, part) if found.num_devices != 1 else part
            is_upper_bound = whole is not None and whole != part
        if sharding is None and whole is not None and part is not None:
            sharding = _by_shapes(whole, part, found.meshes)
            source = None if sharding is None else SHAPES
        spec, mesh = (None, None) if sharding is None else self._spec(key, value, sharding)
        return Placement(
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
        self, key: Key, value: EntryValue, whole: Shape | None, part: Shape | None
    ) -> tuple[HloSharding | None, str | None]:
        """Return the first sharding that fits the shapes, and which text has it."""
        own = self._found.own
        for sharding in self._said(key, value):
            if whole is not None and part is not None and not _fits(sharding, whole, part):
                continue
            told = own.told.get(key)
            if told is not None and sharding is told.sharding:
                return sharding, ARGUMENTS
            is_own = sharding in (own.sharding(key, value), own.shardy.get(key))
            return sharding, "text" if is_own else "before_optimizations"
        return None, None

    def _said(self, key: Key, value: EntryValue) -> list[HloSharding]:
        return self._found.shardings_of(key, value, self._other.get(key))

    def _spec(
        self, key: Key, value: EntryValue, sharding: HloSharding
    ) -> tuple[PartitionSpec | None, Mesh | None]:
        """Return a sharding over the mesh of the program.

        A spelling with axis names that means the same tells the axes best: those of size 1 too.
        """
        if not self._found.is_given:
            for other in self._said(key, value):
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
