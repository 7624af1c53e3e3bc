"""Table of the parameters and outputs of a program over its devices."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.analysis.result import Column, Result, Row, Unit
from hlo_lens.analysis.sharding.placement import Placement, placements_of
from hlo_lens.model.rows import Rows
from hlo_lens.model.shapes.partition_spec import partition_spec_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.analysis.program.entry_values import EntryValue
    from hlo_lens.analysis.sharding.sources import ModuleShardings
    from hlo_lens.model.shapes.mesh import Mesh
    from hlo_lens.model.shapes.shape import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedValue(Placement):
    """Placement of one parameter or output, or of a leaf of one.

    Attributes:
        value: Name, donation and layout, as in the text of the dump.
    """

    value: EntryValue

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
    values: Sequence[ShardedValue]
    num_devices: int
    meshes: tuple[Mesh, ...]

    def rows(self) -> Iterator[Row]:
        """Yield parameters, then outputs."""
        for value in self.values:
            yield sharded_row(value)

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
    """Return the table of parameters and outputs with their placements."""
    values, placements = found.own.signature.values, placements_of(found)
    names = [field.name for field in fields(Placement)]

    def sharded(row: int) -> ShardedValue:
        placement = placements[row]
        return ShardedValue(value=values[row], **{name: getattr(placement, name) for name in names})

    return ShardingTable(
        values=Rows(sharded, range(len(values))),
        num_devices=found.num_devices,
        meshes=found.meshes,
    )
