"""Shardings of a log that agree with its drawn boxes.

Two agree if every device has the same tile (`drawing_agreement`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.logs.drawing_agreement import agreeing_rank
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.partition_spec import partition_spec_text
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.shapes.tile_assignment import TileAssignment
from hlo_lens.text.errors import HloLensError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.logs.jax_values import JaxMesh, JaxValue, ShardingBoxes, ShardingLog


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSharding:
    """One drawing and its sharding.

    Attributes:
        boxes: The drawing.
        sharding: Its sharding in XLA's notation; None if boxes do not name all devices, or name
            different numbers of them.
        spec: The same as a partition spec over `mesh`; None if no spec gives it.
        mesh: The only mesh of the log with the same devices; None if there is none.
        agrees_with: Values of the log that give every device the same tile, in text order.
    """

    boxes: ShardingBoxes
    sharding: HloSharding | None
    spec: str | None
    mesh: JaxMesh | None
    agrees_with: tuple[JaxValue, ...]

    @property
    def nearest(self) -> JaxValue | None:
        """The last agreeing value before the drawing, else the first after it, or None."""
        before = [value for value in self.agrees_with if value.line < self.boxes.line]
        return before[-1] if before else next(iter(self.agrees_with), None)


@dataclass(frozen=True, kw_only=True)
class DrawnShardings(Result):
    """The drawings of a log, in text order."""

    KIND: ClassVar[str] = "drawn-shardings"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("line", Unit.NONE, "1-based line where it begins"),
        Column("label", Unit.NONE, "words before it"),
        Column("boxes", Unit.NONE, "rows and columns of boxes"),
        Column("devices", Unit.NONE, "devices of each box, row by row"),
        Column("sharding", Unit.NONE, "the same in XLA's notation"),
        Column("spec", Unit.NONE, "the same over the mesh of the log"),
        Column("agrees_with", Unit.NONE, "line of the nearest sharding with equal tiles"),
        Column("sharding_text", Unit.NONE, "that sharding"),
    )
    drawings: tuple[DrawnSharding, ...]

    def rows(self) -> Iterator[Row]:
        """Yield a row for each drawing."""
        for drawing in self.drawings:
            boxes = drawing.boxes
            first = drawing.nearest
            yield (
                boxes.line,
                boxes.label or None,
                f"{boxes.rows} x {boxes.columns}",
                "; ".join(cell.text for cell in boxes.cells),
                None if drawing.sharding is None else drawing.sharding.text,
                drawing.spec,
                None if first is None else first.line,
                None if first is None else sharding_words(first),
            )


def drawn_shardings(log: ShardingLog) -> DrawnShardings:
    """Return the sharding of each drawing, and the shardings of the log that agree with it."""
    meshes = [value.mesh for value in log.values if value.mesh is not None]
    different = {mesh.mesh: mesh for mesh in meshes}
    only = next(iter(different.values())) if len(different) == 1 else None
    bare = {"PartitionSpec"} if len(different) <= 1 else set()
    named = [
        value
        for value in log.values
        if value.sharding(2) is not None or (value.kind in bare and value.spec is not None)
    ]
    return DrawnShardings(drawings=tuple(_drawn(boxes, named, meshes, only) for boxes in log.boxes))


def sharding_words(value: JaxValue) -> str:
    """Return a short text of a sharding: spec and mesh, else XLA's notation."""
    if value.spec is not None and value.mesh is not None:
        return f"{value.spec.text} over {value.mesh.text}"
    return value.hlo_sharding.text if value.hlo_sharding is not None else value.text


def _drawn(
    boxes: ShardingBoxes,
    named: Sequence[JaxValue],
    meshes: Sequence[JaxMesh],
    only_mesh: JaxMesh | None,
) -> DrawnSharding:
    tiles = boxes.tiles()
    found = [(value, agreeing_rank(value, boxes, only_mesh)) for value in named]
    ranks = {rank for _, rank in found if rank is not None}
    sharding = None if tiles is None else drawn_sharding(boxes, 1 if ranks == {1} else 2)
    mesh = None if tiles is None else _mesh_of(set(tiles), meshes)
    agrees_with = (
        replace(value, mesh=only_mesh) if value.kind == "PartitionSpec" else value
        for value, rank in found
        if rank is not None
    )
    return DrawnSharding(
        boxes=boxes,
        sharding=sharding,
        spec=None if sharding is None or mesh is None else _spec(sharding, mesh),
        mesh=mesh,
        agrees_with=tuple(agrees_with),
    )


def drawn_sharding(boxes: ShardingBoxes, rank: int = 2) -> HloSharding | None:
    """Return the sharding of a drawing; None if its boxes hold different numbers of devices.

    Args:
        boxes: The drawing.
        rank: Dimensions of the value: 1 for one row of boxes, or 2.
    """
    groups = [cell.devices or () for cell in boxes.cells]
    shares = {len(group) for group in groups}
    if len(shares) != 1 or 0 in shares or len(groups) != boxes.rows * boxes.columns:
        return None
    share = shares.pop()
    if len(groups) == 1 and share > 1:
        return HloSharding(kind=ShardingKind.REPLICATED)
    dims = (*(boxes.rows, boxes.columns)[2 - rank :], *((share,) if share > 1 else ()))
    ids = tuple(device for group in groups for device in group)
    if ids == tuple(range(len(ids))):
        tiles = TileAssignment(dimensions=dims, reshape_dims=(len(ids),))
    else:
        tiles = TileAssignment(dimensions=dims, device_ids=ids)
    return HloSharding.tiled(tiles, (ShardingKind.REPLICATED,) if share > 1 else ())


def _mesh_of(devices: set[int], meshes: Sequence[JaxMesh]) -> JaxMesh | None:
    """Return the mesh with these devices; None if there is none, or several different ones."""
    found = {mesh.mesh: mesh for mesh in meshes if set(mesh.mesh.device_ids) == devices}
    return next(iter(found.values())) if len(found) == 1 else None


def _spec(sharding: HloSharding, mesh: JaxMesh) -> str | None:
    try:
        spec = sharding.to_partition_spec(mesh.mesh)
    except HloLensError:
        return None
    return None if spec is None else partition_spec_text(spec)
