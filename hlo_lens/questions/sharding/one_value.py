"""Page of ``hlo-lens shard``: slices of one sharding, drawn and listed, and its spellings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_lens.questions.sharding.boxes import draw_boxes
from hlo_lens.render.envelope import envelope
from hlo_lens.render.table import Report, Section, Table
from hlo_lens.shapes.partition_spec import partition_spec_text
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.sharding.device_slices import DeviceSlices
    from hlo_lens.questions.sharding.spellings import ShardingSpellings
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape
    from hlo_lens.shapes.sharding import HloSharding


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardView:
    """View of ``hlo-lens shard``.

    Attributes:
        sharding: The sharding, in any spelling but a tuple.
        shape: Global shape of the value.
        mesh: Mesh of the spellings; None for a generated one.
        label: Word before the device ids.
        width: Columns for the drawing.
    """

    sharding: HloSharding
    shape: Shape
    mesh: Mesh | None = None
    label: str = "device"
    width: int = 80


def shard_page(view: ShardView, slices: DeviceSlices, spellings: ShardingSpellings) -> Report:
    """Return the report on one sharding."""
    padding = ("padding_bytes",) if slices.is_uneven else ()
    shown = ("device", "slice", "tile", "size_bytes", *padding)
    section = Section(
        title=f"{view.shape.to_text(layout=False)} as {view.sharding.text}",
        facts=tuple(_facts(slices, spellings)),
        drawing=draw_boxes(slices, label=view.label, width=view.width),
        tables=(
            Table.of(slices, title="Slices by device", shown=shown),
            Table.of(spellings, title="Spellings"),
        ),
        notes=tuple(_notes(slices, spellings)),
    )
    data = envelope("shard", **_object(view, slices, spellings))
    return Report(kind="shard", sections=(section,), data=data)


def _facts(slices: DeviceSlices, spellings: ShardingSpellings) -> Iterator[tuple[str, str]]:
    yield "value", _sized(slices.shape)
    yield "device", _sized(slices.shard_shape)
    count = sum(part.device is not None for part in slices.slices)
    tiles = " x ".join(map(str, slices.tile_counts)) or "1"
    many = plural(count, "device") if count else "every device"
    factor = slices.replication_factor
    copies = f", each element on {plural(factor, 'device')}" if factor and factor > 1 else ""
    yield "tiles", f"{tiles} over {many}{', no copies' if factor == 1 else copies}"
    if spellings.mesh is not None:
        sizes = zip(spellings.mesh.axis_names, spellings.mesh.axis_sizes, strict=True)
        made_up = " (no mesh given; generated names)" if spellings.is_made_up else ""
        yield "mesh", ", ".join(f"{name}={size}" for name, size in sizes) + made_up
    if spellings.spec is not None:
        yield "spec", partition_spec_text(spellings.spec)


def _sized(shape: Shape) -> str:
    size = shape.size_bytes
    return shape.to_text(layout=False) + (f", {format_bytes(size)}" if size is not None else "")


def _notes(slices: DeviceSlices, spellings: ShardingSpellings) -> Iterator[str]:
    if slices.is_uneven:
        empty = sum(part.is_empty for part in slices.slices)
        verb = "owns" if empty == 1 else "own"
        also = f"; {plural(empty, 'device')} {verb} nothing" if empty else ""
        yield (
            f"not divided evenly: each device has an array of {slices.shard_shape}, of which the "
            f"last own less{also}; JAX allows this inside programs, but not for arguments"
        )
    if slices.slices[0].device is None:
        yield "this sharding has no number of devices; --mesh gives one"
    if spellings.v2 is None:
        yield "no iota has the devices in this order, so there is no V2 form"


def _object(
    view: ShardView, slices: DeviceSlices, spellings: ShardingSpellings
) -> Mapping[str, object]:
    mesh = spellings.mesh
    return {
        "sharding": view.sharding.text,
        "shape": slices.shape.to_text(layout=False),
        "size_bytes": slices.shape.size_bytes,
        "device_shape": slices.shard_shape.to_text(layout=False),
        "device_bytes": slices.shard_shape.size_bytes,
        "tile_counts": list(slices.tile_counts),
        "replication_factor": slices.replication_factor,
        "is_uneven": slices.is_uneven,
        "mesh": None if mesh is None else dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True)),
        "mesh_is_made_up": spellings.is_made_up,
        "spellings": {
            "v1": spellings.v1,
            "v2": spellings.v2,
            "v3": spellings.v3,
            "spec": spellings.spec,
        },
        "devices": slices.objects(),
    }
