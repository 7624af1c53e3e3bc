"""Table of the parameters and outputs of a program over its devices."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from hlo_lens.questions.sharding.placement import Placement, placements_of
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.shapes.partition_spec import partition_spec_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.program.signature import EntryValue
    from hlo_lens.questions.sharding.sources import ModuleShardings
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedValue(Placement):
    """Placement of one parameter or output, or of a leaf of one.

    Attributes:
        value: Name, donation and layout, as in the text of the dump.
        cells: Cells of the placement in the table, computed once for equal placements.
    """

    value: EntryValue
    cells: Row = field(repr=False, compare=False)

    @property
    def global_bytes(self) -> int | None:
        """Bytes of the whole value, once."""
        return None if self.global_shape is None else self.global_shape.size_bytes

    @property
    def device_bytes(self) -> int | None:
        """Bytes of one device's part, its share of uneven tiles included."""
        return None if self.device_shape is None else self.device_shape.size_bytes

    @property
    def padded_device_bytes(self) -> int | None:
        """The same with the padding of tiles."""
        return None if self.device_shape is None else self.device_shape.padded_size_bytes

    @property
    def is_in_host_memory(self) -> bool:
        """Whether its layout is of host memory, which is the device's on CPU."""
        return self.device_shape is not None and self.device_shape.is_in_host_memory

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
    """

    KIND: ClassVar[str] = "sharding-table"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("kind", Unit.NONE, "parameter or output"),
        Column("number", Unit.NONE, "parameter number"),
        Column("index", Unit.NONE, "shape index of the leaf"),
        Column("name", Unit.NONE, "argument name, or the instruction that computes the value"),
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
        Column("replication_factor", Unit.COUNT, "devices that hold each element"),
        Column("is_upper_bound", Unit.NONE, "whether the global shape may be smaller"),
        Column("donation", Unit.NONE, "may-alias, must-alias or donor"),
        Column("aliased_with", Unit.NONE, "value that shares its buffer"),
    )
    RECORDS: ClassVar[str] = "values"
    values: tuple[ShardedValue, ...]
    num_devices: int
    meshes: tuple[Mesh, ...]

    def rows(self) -> Iterator[Row]:
        """Yield parameters, then outputs."""
        for value in self.values:
            yield sharded_row(value)

    @property
    def parameters(self) -> tuple[ShardedValue, ...]:
        """The parameters."""
        return tuple(v for v in self.values if v.value.kind == "parameter")

    @property
    def outputs(self) -> tuple[ShardedValue, ...]:
        """The outputs."""
        return tuple(v for v in self.values if v.value.kind == "output")

    @property
    def unknown(self) -> tuple[ShardedValue, ...]:
        """Values of a program of several devices whose sharding is not known."""
        if self.num_devices == 1:
            return ()
        return tuple(v for v in self.values if v.sharding is None)


def sharded_row(value: ShardedValue) -> Row:
    """Return the row of a value."""
    entry = value.value
    head = (entry.kind, entry.number, entry.index, entry.name)
    return (*head, *value.cells, entry.donation, entry.aliased_with)


def _cells(placement: Placement) -> Row:
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
    values, placements = found.own.signature.values, placements_of(found)
    names = [one.name for one in fields(Placement)]
    known: dict[int, dict[str, Any]] = {}

    def sharded(value: EntryValue, placement: Placement) -> ShardedValue:
        parts = known.get(id(placement))
        if parts is None:
            parts = {name: getattr(placement, name) for name in names}
            parts["cells"] = _cells(placement)
            known[id(placement)] = parts
        return ShardedValue(value=value, **parts)

    return ShardingTable(
        values=tuple(map(sharded, values, placements)),
        num_devices=found.num_devices,
        meshes=found.meshes,
    )
