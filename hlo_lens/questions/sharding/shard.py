"""One sharding: slices of devices, drawn and listed, and its spellings (``hlo-lens shard``)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from hlo_lens.render.envelope import envelope
from hlo_lens.render.result import Column, Result, Row, Unit
from hlo_lens.render.table import Report, Section, Table
from hlo_lens.shapes.mesh import AxisRef, Mesh, TileAssignment
from hlo_lens.shapes.named_sharding import (
    DimensionSharding,
    NamedSharding,
    PartitionSpec,
    ShardingKind,
    named_sharding,
    partition_spec_text,
)
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.shapes.shardy import shardy_shardings
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError, UsageError
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.logs.jax_values import JaxValue
    from hlo_lens.shapes.shape import Shape


Bounds: TypeAlias = tuple[tuple[int, int], ...]
"""First index and the index after the last, for each dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSlice:
    """Slice of a value on one device.

    Attributes:
        device: Device id; None means every device, where the sharding names none.
        tile: Tile number in each dimension; all 0 where nothing is divided.
        bounds: Owned range of each dimension.
        size_bytes: Bytes of the owned elements, without padding.
    """

    device: int | None
    tile: tuple[int, ...]
    bounds: Bounds
    size_bytes: int | None

    @property
    def is_empty(self) -> bool:
        """Whether the device owns no element, because earlier tiles hold all of them."""
        return any(start == end for start, end in self.bounds)


@dataclass(frozen=True, kw_only=True)
class DeviceSlices(Result):
    """Slices by device, in order of device ids.

    Attributes:
        shape: Global shape.
        shard_shape: Shape that each device's array has, padding included.
        tile_counts: Number of tiles of each dimension.
        replication_factor: Number of devices that hold each element; None if unknown.
        slices: One for each device.
    """

    KIND: ClassVar[str] = "device-slices"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("device", Unit.NONE, "device id; empty for every device"),
        Column("slice", Unit.NONE, "slice in Python's notation"),
        Column("tile", Unit.NONE, "tile number in each dimension"),
        Column("size_bytes", Unit.BYTES, "bytes of the owned elements"),
        Column("padding_bytes", Unit.BYTES, "bytes of its array beyond these"),
        Column("start", Unit.NONE, "first index of each dimension"),
        Column("end", Unit.NONE, "index after the last of each dimension"),
    )
    RECORDS: ClassVar[str] = "slices"
    shape: Shape
    shard_shape: Shape
    tile_counts: tuple[int, ...]
    replication_factor: int | None
    slices: tuple[DeviceSlice, ...]

    def rows(self) -> Iterator[Row]:
        """Yield device, slice and bytes."""
        whole = self.shard_shape.size_bytes
        for part in self.slices:
            size = part.size_bytes
            yield (
                part.device,
                slice_text(part.bounds),
                part.tile,
                size,
                None if size is None or whole is None else whole - size,
                tuple(start for start, _ in part.bounds),
                tuple(end for _, end in part.bounds),
            )

    @property
    def is_uneven(self) -> bool:
        """Whether some dimension is not divided into equal tiles."""
        sizes = zip(self.shape.dimensions, self.tile_counts, strict=True)
        return any(size is not None and size % count for size, count in sizes)


def device_slices(
    sharding: HloSharding, shape: Shape, *, devices: Sequence[int] | None = None
) -> DeviceSlices:
    """Return the slice of an array on each device.

    Args:
        sharding: Any sharding but a tuple, in any spelling.
        shape: Global shape of an array; dimensions without a size cannot be divided.
        devices: Devices of the program, for a sharding that names none.

    Raises:
        DumpMismatchError: If the sharding is for another number of dimensions.
        UsageError: If there is nothing to divide: a tuple, a token, a dimension of unknown size.
    """
    _check(sharding, shape)
    shard_shape = sharding.shard_shape(shape)
    sizes = tuple(size or 0 for size in shape.dimensions)
    is_tiled = sharding.kind is ShardingKind.TILED
    counts = (sharding.tile_counts if is_tiled else ())[: len(sizes)]
    counts += (1,) * (len(sizes) - len(counts))
    named = tuple(dict.fromkeys(sharding.devices())) or tuple(devices or ())
    bounds_of: dict[tuple[int, ...], tuple[Bounds, int | None]] = {}
    found = []
    holders: list[int | None] = [*sorted(named)] or [None]
    for device in holders:
        tile = sharding.tile_of(device) if is_tiled and device is not None else ()
        tile += (0,) * (len(sizes) - len(tile))
        if tile not in bounds_of:
            bounds = _bounds(sizes, counts, tile)
            bounds_of[tile] = (bounds, _size_bytes(shape, bounds))
        bounds, size_bytes = bounds_of[tile]
        found.append(DeviceSlice(device=device, tile=tile, bounds=bounds, size_bytes=size_bytes))
    return DeviceSlices(
        shape=shape,
        shard_shape=shard_shape,
        tile_counts=counts,
        replication_factor=sharding.replication_factor(len(named) or None),
        slices=tuple(found),
    )


def _check(sharding: HloSharding, shape: Shape) -> None:
    """Raise UsageError if there is nothing to divide."""
    if sharding.kind is ShardingKind.TUPLE or shape.is_tuple:
        raise UsageError("a tuple has no slices; take one of its elements")
    if None in shape.dimensions or shape.is_token or shape.is_opaque:
        raise UsageError(f"{shape} has no sizes to divide")


def _bounds(sizes: Sequence[int], counts: Sequence[int], tile: Sequence[int]) -> Bounds:
    """Return the range of a tile in each dimension."""
    found = []
    for size, count, place in zip(sizes, counts, tile, strict=True):
        length = -(-size // count)
        found.append((min(place * length, size), min((place + 1) * length, size)))
    return tuple(found)


def _size_bytes(shape: Shape, bounds: Bounds) -> int | None:
    sizes = tuple(end - start for start, end in bounds)
    return replace(shape, dimensions=sizes, layout=None).size_bytes


def slice_text(bounds: Bounds) -> str:
    """Return a slice in Python's notation.

    >>> slice_text(((0, 5), (16, 32)))
    '[0:5, 16:32]'
    """
    return f"[{', '.join(f'{start}:{end}' for start, end in bounds)}]"


BASE_HEIGHT = 10
MOST_ROWS = 16
MOST_SHEETS = 8
"""Limit of rows of boxes, and of drawings of two dimensions; the rest is only counted."""

_COLUMNS_PER_LINE = 2.5
_NARROWEST, _WIDEST = 9, 80
_LISTED = 8


def draw_boxes(slices: DeviceSlices, *, label: str = "device", width: int = 80) -> tuple[str, ...]:
    """Return the lines of a drawing.

    Args:
        slices: Slice of each device.
        label: Word before the device ids.
        width: Columns of the drawing; to fit, labels are shortened, then columns of boxes cut.
    """
    lines: list[str] = []
    outer = slices.tile_counts[:-2]
    sheets = list(product(*map(range, outer)))
    for sheet in sheets[:MOST_SHEETS]:
        parts = [part for part in slices.slices if part.tile[: len(outer)] == sheet]
        if outer:
            lines += [*([""] if lines else []), _sheet_text(slices, parts[0].bounds[: len(outer)])]
        lines += _sheet(slices, parts, label, width)
    if len(sheets) > MOST_SHEETS:
        lines += ["", f"and {plural(len(sheets) - MOST_SHEETS, 'more sheet')}"]
    return tuple(lines)


def _sheet_text(slices: DeviceSlices, bounds: Bounds) -> str:
    """Return the ranges of a sheet in the outer dimensions: ``[0:4, :, :]``."""
    pairs = zip(bounds, slices.tile_counts, strict=False)
    words = [f"{start}:{end}" if count > 1 else ":" for (start, end), count in pairs]
    return f"[{', '.join([*words, ':', ':'])}]"


def _sheet(
    slices: DeviceSlices, parts: Sequence[DeviceSlice], label: str, width: int
) -> Iterator[str]:
    rank = min(2, len(slices.tile_counts))
    holders: dict[tuple[int, int], list[DeviceSlice]] = {}
    for part in parts:
        row, column = (0, 0, *part.tile[len(part.tile) - rank :])[-2:]
        holders.setdefault((row, column), []).append(part)
    rows = max(row for row, _ in holders) + 1
    columns = max(column for _, column in holders) + 1
    sizes = [size or 0 for size in slices.shape.dimensions[-rank:]] if rank else []
    labels = {place: _label(held, label) for place, held in holders.items()}
    bounds = {place: held[0].bounds[-rank:] if rank else () for place, held in holders.items()}
    widths = [_width(column, sizes, bounds, labels, rows) for column in range(columns)]
    longest = [max(len(labels[row, k]) for row in range(rows)) for k in range(columns)]
    widths = _narrowed(widths, longest, width - columns - 1)
    shown = _columns_that_fit(widths, width)
    if shown < columns:
        labels = {place: text.rpartition(" ")[2] for place, text in labels.items()}
        widths = [max(len(labels[row, k]) for row in range(rows)) + 2 for k in range(columns)]
        shown = _columns_that_fit(widths, width)
    heights = [_height(row, sizes, bounds) for row in range(rows)]
    yield from _drawn(labels, widths[:shown], heights[:MOST_ROWS])
    if rows > MOST_ROWS:
        yield f"and {plural(rows - MOST_ROWS, 'more row')}"
    if columns > shown:
        yield f"and {plural(columns - shown, 'more column')}"


def _label(held: Sequence[DeviceSlice], label: str) -> str:
    """Return the word and the ids of devices, long lists shortened."""
    ids = sorted(part.device for part in held if part.device is not None)
    if not ids:
        return f"every {label}"
    if len(ids) <= _LISTED:
        text = ",".join(map(str, ids))
    elif ids == list(range(ids[0], ids[-1] + 1)):
        text = f"{ids[0]}-{ids[-1]}"
    else:
        text = f"{ids[0]},{ids[1]},...,{ids[-1]}({len(ids)})"
    empty = "(empty)" if held[0].is_empty else ""
    return f"{label} {text}{empty}"


def _width(
    column: int,
    sizes: Sequence[int],
    bounds: Mapping[tuple[int, int], Bounds],
    labels: Mapping[tuple[int, int], str],
    rows: int,
) -> int:
    """Return the columns inside a column of boxes."""
    longest = max(len(labels[row, column]) for row in range(rows))
    if not sizes:
        return max(_NARROWEST - 2, longest)
    start, end = bounds[0, column][-1]
    ratio = (sizes[1] if len(sizes) == 2 else 1) / max(sizes[0], 1)
    base = int(BASE_HEIGHT * ratio)
    wanted = int((end - start) / max(sizes[-1], 1) * base * _COLUMNS_PER_LINE)
    return max(min(max(wanted, _NARROWEST), _WIDEST) - 2, longest)


def _height(row: int, sizes: Sequence[int], bounds: Mapping[tuple[int, int], Bounds]) -> int:
    """Return the lines inside a row of boxes."""
    if len(sizes) < 2:
        return 1
    start, end = bounds[row, 0][0]
    return max(int((end - start) / max(sizes[0], 1) * BASE_HEIGHT) - 2, 0) + 1


def _columns_that_fit(widths: Sequence[int], width: int) -> int:
    """Return the number of columns of boxes that fit, at least one."""
    room, count = width - 1, 0
    while count < len(widths) and room > widths[count]:
        room -= widths[count] + 1
        count += 1
    return max(1, count)


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return widths that fit if possible, none below its minimum; the widest shrink first."""
    limit = max(widths)
    while limit > 1 and sum(widths) > room:
        limit -= 1
        widths = [max(low, min(w, limit)) for w, low in zip(widths, least, strict=True)]
    return list(widths)


def _drawn(
    labels: Mapping[tuple[int, int], str], widths: Sequence[int], heights: Sequence[int]
) -> Iterator[str]:
    bars = ["─" * width for width in widths]
    yield f"┌{'┬'.join(bars)}┐"
    for row, height in enumerate(heights):
        if row:
            yield f"├{'┼'.join(bars)}┤"
        middle = (height - 1) // 2
        for line in range(height):
            cells = [
                f"{labels[row, column] if line == middle else '':^{width}}"[:width]
                for column, width in enumerate(widths)
            ]
            yield f"│{'│'.join(cells)}│"
    yield f"└{'┴'.join(bars)}┘"


_OTHER_USES = {
    ShardingKind.REPLICATED: "replicated_axes",
    ShardingKind.UNREDUCED: "unreduced_axes",
    ShardingKind.MANUAL: "manual_axes",
}


@dataclass(frozen=True, kw_only=True)
class ShardingSpellings(Result):
    """Spellings of one sharding.

    Attributes:
        v1: With a list of devices.
        v2: With an iota; None if no iota has the devices in this order.
        v3: With mesh axes; None if mesh axes cannot express it (maximal, unknown, tuples).
        spec: The partition spec over `mesh`; None where there is none.
        mesh: The mesh of `v3` and `spec`; None where there is none.
        is_made_up: Whether the mesh and its names are generated.
    """

    KIND: ClassVar[str] = "sharding-spellings"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("form", Unit.NONE, "v1, v2, v3 or spec"),
        Column("text", Unit.NONE, "the sharding in this form; empty if it cannot express it"),
    )
    v1: str
    v2: str | None
    v3: str | None
    spec: PartitionSpec | None
    mesh: Mesh | None
    is_made_up: bool = False

    def rows(self) -> Iterator[Row]:
        """Yield the form and its text: v1, v2, v3 and spec, a PartitionSpec."""
        yield "v1", self.v1
        yield "v2", self.v2
        yield "v3", self.v3
        yield "spec", None if self.spec is None else partition_spec_text(self.spec)


def sharding_spellings(
    sharding: HloSharding, mesh: Mesh | None = None, *, rank: int | None = None
) -> ShardingSpellings:
    """Return a sharding in all spellings.

    Args:
        sharding: Any sharding but a tuple.
        mesh: Mesh for V3 and the partition spec; None for the sharding's own, or a generated one.
        rank: Dimensions of the value, for spellings that list each.
    """
    plain = sharding.to_v2()
    known = mesh or (sharding.named.mesh if sharding.named else None)
    is_made_up = known is None or not known.axis_names
    if known is None or is_made_up:
        named = _made_up(plain, rank)
        known = named.mesh if named else None
    else:
        named = _named(sharding, known, rank)
    # Two manual subgroups can divide the devices in an order that V3 cannot express, and jax does
    # not check whether the axes that it finds give these devices.
    v3 = None
    if named is not None and HloSharding.from_named(named).equivalent(plain):
        v3 = HloSharding.parse(str(named))
    spec = None if v3 is None else v3.to_partition_spec(known)
    return ShardingSpellings(
        v1=_with_tiles(plain, as_list=True) or plain.text,
        v2=_with_tiles(plain, as_list=False),
        v3=None if v3 is None else v3.text,
        spec=_padded(spec, rank),
        mesh=known,
        is_made_up=is_made_up and known is not None,
    )


def _with_tiles(plain: HloSharding, *, as_list: bool) -> str | None:
    """Return a sharding with its devices as a list or an iota; unchanged if it has none."""
    tiles = plain.tile_assignment
    if tiles is None or plain.kind is not ShardingKind.TILED:
        return plain.text
    written = tiles.as_list() if as_list else tiles.as_iota()
    if written is None:
        return None
    return replace(plain, tile_assignment=written, metadata="", text="").text


def _named(sharding: HloSharding, mesh: Mesh, rank: int | None) -> NamedSharding | None:
    """Return a sharding by the axes of a mesh; None if they cannot express it."""
    if sharding.named is not None and sharding.named.mesh == mesh:
        return sharding.named
    spec = sharding.to_partition_spec(mesh)
    if spec is not None:
        entries = [() if e is None else (e,) if isinstance(e, str) else e for e in spec]
        entries += [()] * (max(rank or 0, len(sharding.tile_counts)) - len(entries))
        dims = tuple(DimensionSharding(axes=tuple(AxisRef(axis=a) for a in e)) for e in entries)
        return NamedSharding(mesh=mesh, dim_shardings=dims)
    return _by_steps(sharding.to_v2(), mesh, rank)


def _by_steps(plain: HloSharding, mesh: Mesh, rank: int | None) -> NamedSharding | None:
    """Return a tiling by axes and sub-axes of a mesh whose devices are in order."""
    tiles = plain.tile_assignment
    steps = tiles.axes_of_dimensions() if tiles is not None else None
    if steps is None or mesh.device_assignment is not None or plain.num_devices != mesh.size:
        return None
    axes: list[list[AxisRef]] = []
    for group in steps:
        parts = [_parts_of_step(mesh, *step) for step in group]
        if None in parts:
            return None
        axes.append([axis for part in parts for axis in part or ()])
    return _with_uses(plain, mesh, axes, rank)


def _parts_of_step(mesh: Mesh, size: int, stride: int) -> list[AxisRef] | None:
    """Return the axes and sub-axes of `size` steps of `stride`, most major first."""
    found = []
    inner = mesh.size
    for name, whole in zip(mesh.axis_names, mesh.axis_sizes, strict=True):
        outer, inner = inner, inner // whole
        low, high = max(inner, stride), min(outer, stride * size)
        if low >= high:
            continue
        if outer % high or high % low or low % inner:
            return None
        is_whole = (low, high) == (inner, outer)
        sub = AxisRef(axis=name, pre_size=outer // high, size=high // low)
        found.append(AxisRef(axis=name) if is_whole else sub)
    return found


def _made_up(plain: HloSharding, rank: int | None) -> NamedSharding | None:
    """Return a tiling by the axes of a generated mesh."""
    tiles = plain.tile_assignment
    if tiles is None or plain.kind is not ShardingKind.TILED:
        return None
    steps = tiles.axes_of_dimensions()
    listed = None
    if steps is None:  # an axis for each dimension, over devices in this very order
        strides = [math.prod(tiles.dimensions[k + 1 :]) for k in range(len(tiles.dimensions))]
        pairs = zip(tiles.dimensions, strides, strict=True)
        steps = [[(size, stride)] if size > 1 else [] for size, stride in pairs]
        sizes = tuple(size for size in tiles.dimensions if size > 1)
        listed = TileAssignment(dimensions=sizes, device_ids=tiles.devices())
    order = sorted({step for group in steps for step in group}, key=lambda step: -step[1])
    axis_of = {step: AxisRef(axis=f"axis_{n}") for n, step in enumerate(order)}
    mesh = Mesh(
        axis_names=tuple(axis.axis for axis in axis_of.values()),
        axis_sizes=tuple(size for size, _ in order),
        device_assignment=listed,
    )
    return _with_uses(plain, mesh, [[axis_of[step] for step in group] for group in steps], rank)


def _with_uses(
    plain: HloSharding, mesh: Mesh, axes: list[list[AxisRef]], rank: int | None
) -> NamedSharding | None:
    """Return the sharding with these axes for its dimensions, then for its subgroups."""
    divided = len(plain.tile_counts)
    uses: dict[str, tuple[AxisRef, ...]] = {}
    for kind, group in zip(plain.subgroup_types, axes[divided:], strict=True):
        name = _OTHER_USES.get(kind)
        if name is None:
            return None
        if kind is not ShardingKind.REPLICATED:  # unnamed axes are replicated anyway
            uses[name] = tuple(sorted((*uses.get(name, ()), *group), key=lambda a: _place(mesh, a)))
    dims = [DimensionSharding(axes=tuple(group)) for group in axes[:divided]]
    dims += [DimensionSharding()] * ((rank or 0) - len(dims))
    return NamedSharding(
        mesh=mesh,
        dim_shardings=tuple(dims),
        unreduced_axes=uses.get("unreduced_axes", ()),
        manual_axes=uses.get("manual_axes", ()),
        reduction=plain.reduction if "unreduced_axes" in uses else None,
    )


def _place(mesh: Mesh, axis: AxisRef) -> tuple[int, int]:
    """Return the sort key of an axis in the mesh, XLA's order of the axes of a subgroup."""
    return mesh.axis_names.index(axis.axis), axis.pre_size or 1


def _padded(spec: PartitionSpec | None, rank: int | None) -> PartitionSpec | None:
    """Return a spec with None for the dimensions at the end that are not divided."""
    if spec is None:
        return None
    return (*spec, *(None,) * ((rank or 0) - len(spec)))


ACCEPTED = (
    "{devices=[2,1]<=[2]}, {mesh['x'=2], [{'x'}, {}]}, NamedSharding(mesh=Mesh('x': 2), "
    'spec=P(\'x\', None)), #sdy.sharding<mesh<["x"=2]>, [{"x"}, {}]>, or with --mesh x=2 '
    "P('x', None) or ('x', None)"
)
"""Spellings, for messages."""

_PREFIX = re.compile(r"(?:[\w.]*sharding[ ]*=[ ]*)?(?P<text>.*?)[ ]*,?\Z", re.DOTALL)
_MESH_NAME = re.compile(r'<@"?([\w.$-]+)')


def read_sharding(text: str, mesh: Mesh | None, rank: int) -> tuple[HloSharding, Mesh | None]:
    """Return the sharding of a text, and the mesh that names its axes.

    Args:
        text: The sharding in any spelling that ``hlo-lens report`` reads; a JAX spec as
            ``P('x', None)`` or as ``('x', None)``, which ``str(tuple(spec))`` prints.
        mesh: Mesh of a spelling that names axes alone; None if there is none.
        rank: Dimensions of the value.

    Raises:
        UsageError: If it is none of these, or has another mesh or more dimensions.
    """
    match = _PREFIX.match(text.strip())
    bare = _without_quotes(match["text"] if match else text)
    try:
        if "sdy.sharding" in bare or bare.startswith("<"):
            return _shardy(bare, mesh), mesh
        if bare.startswith("("):
            return _jax(f"P{bare}", mesh, rank)
        if bare[:1].isalpha() and ("(" in bare or "@" in bare):
            return _jax(bare, mesh, rank)
        return HloSharding.parse(bare if bare.startswith("{") else f"{{{bare}}}"), mesh
    except DumpSyntaxError as error:
        raise UsageError(
            f"not a sharding: {text}: {error.message}; write it like {ACCEPTED}"
        ) from error


def _without_quotes(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].strip()
    return text


def _shardy(text: str, mesh: Mesh | None) -> HloSharding:
    """Return the sharding of ``#sdy.sharding<@mesh, [...]>``."""
    names = _MESH_NAME.findall(text) if mesh is not None else []
    found = shardy_shardings(text, {name: mesh for name in names if mesh is not None})
    if len(found) == 1 and found[0] is not None:
        return found[0]
    if mesh is None and "@" in text:
        raise UsageError(f"{text} names its mesh alone; add the axes with --mesh x=4,y=2")
    fits = "" if mesh is None else f" over {mesh}"
    raise UsageError(f"not a sharding{fits}: {text}; write it like {ACCEPTED}")


def _jax(text: str, mesh: Mesh | None, rank: int) -> tuple[HloSharding, Mesh | None]:
    """Return the sharding that JAX prints, and its mesh."""
    from hlo_lens.logs.jax_values import CodeError, parse_value

    try:
        value = parse_value(text)
    except CodeError:
        raise UsageError(
            f"{text} is source code: names of variables have no value here; write it like "
            f"{ACCEPTED}"
        ) from None
    if value is None or not (value.spec or value.hlo_sharding):
        raise UsageError(f"not a sharding: {text}; write it like {ACCEPTED}")
    own = None if value.mesh is None else value.mesh.mesh
    if own is not None and mesh is not None and own != mesh:
        raise UsageError(f"{text} has a mesh of its own, other than --mesh {mesh}")
    return _texts_named(value, own or mesh, rank, text), own or mesh


def _texts_named(value: JaxValue, mesh: Mesh | None, rank: int, text: str) -> HloSharding:
    """Return the sharding of a value with a spec over a mesh, or with one of XLA."""
    if value.hlo_sharding is not None:
        return value.hlo_sharding
    if value.spec is None or not value.spec.is_constrained:
        raise UsageError(f"{text} leaves a dimension to XLA (UNCONSTRAINED)")
    if mesh is None:
        raise UsageError(f"{text} needs the axes of its mesh: add --mesh x=4,y=2")
    if len(value.spec.entries) > rank:
        raise UsageError(
            f"{text} has {len(value.spec.entries)} entries, the shape {rank} dimensions"
        )
    named = named_sharding(mesh, value.spec.entries, rank, value.spec.unreduced)
    return HloSharding.from_named(named)


def shard_report(
    sharding: HloSharding,
    shape: Shape,
    *,
    mesh: Mesh | None = None,
    label: str = "device",
    width: int = 80,
) -> Report:
    """Return the report on one sharding.

    Args:
        sharding: The sharding, in any spelling but a tuple.
        shape: Global shape of the value.
        mesh: Mesh of the spellings; None for a generated one.
        label: Word before the device ids.
        width: Columns for the drawing.

    Raises:
        UsageError: If there is nothing to divide, or the sharding is for another number of
            dimensions.
    """
    devices = mesh.device_ids if mesh is not None else None
    try:
        slices = device_slices(sharding, shape, devices=devices)
        spellings = sharding_spellings(sharding, mesh, rank=shape.rank)
    except DumpMismatchError as error:  # the request is wrong, not a dump
        raise UsageError(str(error)) from error
    padding = ("padding_bytes",) if slices.is_uneven else ()
    shown = ("device", "slice", "tile", "size_bytes", *padding)
    section = Section(
        title=f"{shape.to_text(layout=False)} as {sharding.text}",
        facts=tuple(_facts(slices, spellings)),
        drawing=draw_boxes(slices, label=label, width=width),
        tables=(
            Table.of(slices, title="Slices by device", shown=shown),
            Table.of(spellings, title="Spellings"),
        ),
        notes=tuple(_notes(slices, spellings)),
    )
    data = envelope("shard", **_object(sharding, slices, spellings))
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
    sharding: HloSharding, slices: DeviceSlices, spellings: ShardingSpellings
) -> Mapping[str, object]:
    mesh = spellings.mesh
    return {
        "sharding": sharding.text,
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
