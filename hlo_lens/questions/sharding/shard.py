"""One sharding: slices of devices, drawn and listed, and its spellings (``hlo-lens shard``)."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.load.fact import fact
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.render.result import Records, Unit
from hlo_lens.render.table import Report, Section, Table
from hlo_lens.render.to_json import envelope
from hlo_lens.shapes.named_sharding import (
    PartitionSpec,
    ShardingKind,
    named_sharding,
    partition_spec_text,
)
from hlo_lens.shapes.sharding import HloSharding, shardy_shardings
from hlo_lens.text.errors import DumpMismatchError, DumpSyntaxError, HloLensError, UsageError
from hlo_lens.text.units import format_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.shapes.mesh import Mesh
    from hlo_lens.shapes.shape import Shape


class DeviceSlice(NamedTuple):
    """Slice of a value on one device."""

    device: Annotated[int | None, "device id; empty for every device"]
    slice: Annotated[str, "slice in Python's notation"]
    tile: Annotated[tuple[int, ...], "tile number in each dimension"]
    size_bytes: Annotated[int | None, Unit.BYTES, "bytes of the owned elements"]
    padding_bytes: Annotated[int | None, Unit.BYTES, "bytes of its array beyond these"]
    start: Annotated[tuple[int, ...], "first index of each dimension"]
    end: Annotated[tuple[int, ...], "index after the last of each dimension"]

    @property
    def is_empty(self) -> bool:
        return any(start == end for start, end in zip(self.start, self.end, strict=True))


@dataclass(frozen=True, kw_only=True)
class DeviceSlices(Records[DeviceSlice]):
    """Slices by device, in order of device ids.

    Attributes:
        shard_shape: Shape that each device's array has, padding included.
        replication_factor: Number of devices that hold each element; None if unknown.
    """

    KIND: ClassVar[str] = "device-slices"
    slices: tuple[DeviceSlice, ...]
    shape: Shape
    shard_shape: Shape
    tile_counts: tuple[int, ...]
    replication_factor: int | None

    @property
    def is_uneven(self) -> bool:
        sizes = zip(self.shape.dimensions, self.tile_counts, strict=True)
        return any(size is not None and size % count for size, count in sizes)


def device_slices(
    sharding: HloSharding, shape: Shape, *, devices: Sequence[int] | None = None
) -> DeviceSlices:
    """Return the slice of an array of a global shape on each device.

    `devices` are those of the program, for a sharding that names none.

    Raises:
        DumpMismatchError: If the sharding is for another number of dimensions.
        UsageError: If there is nothing to divide: a tuple, a token, a dimension of unknown size.
    """
    if sharding.kind is ShardingKind.TUPLE or shape.is_tuple:
        raise UsageError("a tuple has no slices; take one of its elements")
    if None in shape.dimensions or shape.is_token or shape.is_opaque:
        raise UsageError(f"{shape} has no sizes to divide")
    shard_shape = sharding.shard_shape(shape)
    sizes = tuple(size or 0 for size in shape.dimensions)
    is_tiled = sharding.kind is ShardingKind.TILED
    counts = (sharding.tile_counts if is_tiled else ())[: len(sizes)]
    counts += (1,) * (len(sizes) - len(counts))
    lengths = [-(-size // count) for size, count in zip(sizes, counts, strict=True)]
    whole = shard_shape.size_bytes
    named = tuple(dict.fromkeys(sharding.devices())) or tuple(devices or ())
    of_tile: dict[tuple[int, ...], DeviceSlice] = {}
    slices = []
    holders: list[int | None] = [*sorted(named)] or [None]
    for device in holders:
        tile = sharding.tile_of(device) if is_tiled and device is not None else ()
        tile += (0,) * (len(sizes) - len(tile))
        if tile not in of_tile:
            pairs = list(zip(tile, lengths, sizes, strict=True))
            start = tuple(min(number * length, size) for number, length, size in pairs)
            end = tuple(min((number + 1) * length, size) for number, length, size in pairs)
            owned = tuple(last - first for first, last in zip(start, end, strict=True))
            size = replace(shape, dimensions=owned, layout=None).size_bytes
            ranges = ", ".join(f"{a}:{b}" for a, b in zip(start, end, strict=True))
            padding = None if size is None or whole is None else whole - size
            of_tile[tile] = DeviceSlice(device, f"[{ranges}]", tile, size, padding, start, end)
        slices.append(of_tile[tile]._replace(device=device))
    return DeviceSlices(
        slices=tuple(slices),
        shape=shape,
        shard_shape=shard_shape,
        tile_counts=counts,
        replication_factor=sharding.replication_factor(len(named) or None),
    )


MOST_DEVICES = 2048
"""Devices over which a value is drawn on the page."""

MOST_DRAWINGS = 200
"""Different drawings that are made."""


class Drawings(NamedTuple):
    """Different drawings as lines, and for each value the number of its own; -1 for none."""

    drawings: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]


@fact
def drawings(module: ModuleDump) -> Drawings:
    """Return the drawings of parameters and outputs whose sharding and global shape are known."""
    results = sharding_results(module)
    made: dict[tuple[str, ...], int] = {}
    number_of: dict[tuple[str, tuple[int | None, ...]], int] = {}
    numbers: list[int] = []
    for value in () if results is None else results.table.values:
        sharding, shape = value.sharding, value.global_shape
        if sharding is None or shape is None:
            numbers.append(-1)
            continue
        key = (sharding.text, shape.dimensions)
        if key not in number_of:
            lines = _drawing(sharding, shape)
            has_room = bool(lines) and (lines in made or len(made) < MOST_DRAWINGS)
            number_of[key] = made.setdefault(lines, len(made)) if has_room else -1
        numbers.append(number_of[key])
    return Drawings(tuple(made), tuple(numbers))


def _drawing(sharding: HloSharding, shape: Shape) -> tuple[str, ...]:
    try:
        slices = device_slices(sharding, shape)
    except HloLensError:
        return ()
    return draw_boxes(slices) if len(slices.slices) <= MOST_DEVICES else ()


BASE_HEIGHT = 10
MOST_ROWS = 16
MOST_SHEETS = 8
"""Limit of rows of boxes, and of drawings of two dimensions; the rest is only counted."""

_COLUMNS_PER_LINE = 2.5
_NARROWEST, _WIDEST = 9, 80
_LISTED = 8


def draw_boxes(slices: DeviceSlices, *, label: str = "device", width: int = 80) -> tuple[str, ...]:
    """Return the lines of a drawing, as ``jax.debug.visualize_array_sharding`` draws it.

    To fit the width, labels are shortened, then columns of boxes cut.
    """
    lines: list[str] = []
    outer = slices.tile_counts[:-2]
    sheets = list(product(*map(range, outer)))
    for sheet in sheets[:MOST_SHEETS]:
        parts = [part for part in slices.slices if part.tile[: len(outer)] == sheet]
        if outer:
            ranges = zip(parts[0].start, parts[0].end, outer, strict=False)
            words = [f"{first}:{last}" if count > 1 else ":" for first, last, count in ranges]
            lines += [*([""] if lines else []), f"[{', '.join([*words, ':', ':'])}]"]
        lines += _sheet(slices, parts, label, width)
    if len(sheets) > MOST_SHEETS:
        lines += ["", f"and {plural(len(sheets) - MOST_SHEETS, 'more sheet')}"]
    return tuple(lines)


def _sheet(
    slices: DeviceSlices, parts: Sequence[DeviceSlice], label: str, width: int
) -> Iterator[str]:
    """Yield the lines of the boxes of the last two dimensions."""
    rank = min(2, len(slices.tile_counts))
    holders: dict[tuple[int, int], list[DeviceSlice]] = {}
    for part in parts:
        row, column = (0, 0, *part.tile[len(part.tile) - rank :])[-2:]
        holders.setdefault((row, column), []).append(part)
    rows, columns = (max(place[axis] for place in holders) + 1 for axis in (0, 1))
    labels = {place: _label(held, label) for place, held in holders.items()}
    least = [max(len(labels[row, k]) for row in range(rows)) for k in range(columns)]
    sizes = [size or 0 for size in slices.shape.dimensions[-2:]]
    wanted = [_box_size(holders[0, k][0], sizes)[1] for k in range(columns)]
    widths = [max(pair) for pair in zip(wanted, least, strict=True)]
    heights = [_box_size(holders[row, 0][0], sizes)[0] for row in range(min(rows, MOST_ROWS))]
    if sum(widths) + columns >= width:
        widths = least
    if sum(widths) + columns >= width:
        labels = {place: text.rpartition(" ")[2] for place, text in labels.items()}
        widths = [max(len(labels[row, k]) for row in range(rows)) + 2 for k in range(columns)]
    ends = itertools.accumulate(size + 1 for size in widths)
    shown = max(1, sum(end < width for end in ends))
    bars = ["─" * size for size in widths[:shown]]
    yield f"┌{'┬'.join(bars)}┐"
    for row, height in enumerate(heights):
        if row:
            yield f"├{'┼'.join(bars)}┤"
        for line in range(height):
            texts = [labels[row, k] if line == (height - 1) // 2 else "" for k in range(shown)]
            cells = [f"{text:^{size}}"[:size] for text, size in zip(texts, widths, strict=False)]
            yield f"│{'│'.join(cells)}│"
    yield f"└{'┴'.join(bars)}┘"
    for count, what in ((rows - MOST_ROWS, "row"), (columns - shown, "column")):
        if count > 0:
            yield f"and {plural(count, f'more {what}')}"


def _box_size(part: DeviceSlice, sizes: Sequence[int]) -> tuple[int, int]:
    if not sizes:
        return 1, _NARROWEST - 2
    shares = [
        (end - start) / max(size, 1)
        for start, end, size in zip(part.start[-2:], part.end[-2:], sizes, strict=True)
    ]
    ratio = (sizes[1] if len(sizes) == 2 else 1) / max(sizes[0], 1)
    wanted = int(shares[-1] * int(BASE_HEIGHT * ratio) * _COLUMNS_PER_LINE)
    lines = max(int(shares[0] * BASE_HEIGHT) - 2, 0) + 1 if len(sizes) == 2 else 1
    return lines, min(max(wanted, _NARROWEST), _WIDEST) - 2


def _label(held: Sequence[DeviceSlice], label: str) -> str:
    ids = sorted(part.device for part in held if part.device is not None)
    if not ids:
        return f"every {label}"
    if len(ids) <= _LISTED:
        text = ",".join(map(str, ids))
    elif ids == list(range(ids[0], ids[-1] + 1)):
        text = f"{ids[0]}-{ids[-1]}"
    else:
        text = f"{ids[0]},{ids[1]},...,{ids[-1]}({len(ids)})"
    return f"{label} {text}{'(empty)' if held[0].is_empty else ''}"


class Spelling(NamedTuple):
    """One form of a sharding."""

    form: Annotated[str, "v1, v2, v3 or spec"]
    text: Annotated[str | None, "the sharding in this form; empty if it cannot express it"]


@dataclass(frozen=True, kw_only=True)
class ShardingSpellings(Records[Spelling]):
    """Spellings of one sharding.

    V1 has a list of devices, V2 an iota, V3 and the partition spec are over `mesh`.
    """

    KIND: ClassVar[str] = "sharding-spellings"
    spellings: tuple[Spelling, ...]
    spec: PartitionSpec | None
    mesh: Mesh | None


def sharding_spellings(
    sharding: HloSharding, mesh: Mesh | None = None, *, rank: int | None = None
) -> ShardingSpellings:
    """Return a sharding, of a value of `rank` dimensions and no tuple, in all spellings.

    `mesh` is that of V3 and the partition spec; None for the sharding's own.
    """
    plain, named = sharding.to_v2(), sharding.named
    tiles = plain.tile_assignment
    mesh = mesh or (named.mesh if named else None)
    if mesh is not None and (named is None or named.mesh != mesh):
        spec = sharding.to_partition_spec(mesh) if mesh.axis_names else None
        count = max(rank or 0, len(sharding.tile_counts))
        named = None if spec is None else named_sharding(mesh, spec, count)
    # Two manual subgroups can divide the devices in an order that V3 cannot express.
    v3 = None
    if named is not None and HloSharding.from_named(named).equivalent(plain):
        v3 = HloSharding.parse(str(named))
    spec = None if v3 is None else v3.to_partition_spec(mesh)
    if spec is not None:  # one entry for each dimension
        spec = (*spec, *(None,) * ((rank or 0) - len(spec)))
    v1: str | None = plain.text
    v2: str | None = plain.text
    if tiles is not None and plain.kind is ShardingKind.TILED:
        v1, v2 = (
            None
            if written is None
            else replace(plain, tile_assignment=written, metadata="", text="").text
            for written in (tiles.as_list(), tiles.as_iota())
        )
    forms = {
        "v1": v1 or plain.text,
        "v2": v2,
        "v3": None if v3 is None else v3.text,
        "spec": None if spec is None else partition_spec_text(spec),
    }
    spellings = tuple(Spelling(*pair) for pair in forms.items())
    return ShardingSpellings(spellings=spellings, spec=spec, mesh=mesh)


ACCEPTED = (
    "{devices=[2,1]<=[2]}, {mesh['x'=2], [{'x'}, {}]}, NamedSharding(mesh=Mesh('x': 2), "
    'spec=P(\'x\', None)), #sdy.sharding<mesh<["x"=2]>, [{"x"}, {}]>, or with --mesh x=2 '
    "P('x', None) or ('x', None)"
)
"""Spellings, for messages."""

_PREFIX = re.compile(r"(?:[\w.]*sharding[ ]*=[ ]*)?(?P<text>.*?)[ ]*,?\Z", re.DOTALL)
_QUOTED = re.compile(r"(['\"])(.*)\1", re.DOTALL)
_MESH_NAME = re.compile(r'<@"?([\w.$-]+)')


def read_sharding(text: str, mesh: Mesh | None, rank: int) -> tuple[HloSharding, Mesh | None]:
    """Return the sharding of a text, and the mesh that names its axes.

    Any spelling that ``hlo-lens report`` reads; a JAX spec as ``P('x', None)`` or ``('x', None)``.
    `mesh` is that of a spelling that names axes alone; the value has `rank` dimensions.

    Raises:
        UsageError: If it is none of these, or has another mesh or more dimensions.
    """
    match = _PREFIX.match(text.strip())
    bare = (match["text"] if match else text).strip()
    quoted = _QUOTED.fullmatch(bare)
    bare = bare if quoted is None else quoted[2].strip()
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


def _shardy(text: str, mesh: Mesh | None) -> HloSharding:
    meshes = {} if mesh is None else dict.fromkeys(_MESH_NAME.findall(text), mesh)
    found = shardy_shardings(text, meshes)
    if len(found) == 1 and found[0] is not None:
        return found[0]
    if mesh is None and "@" in text:
        raise UsageError(f"{text} names its mesh alone; add the axes with --mesh x=4,y=2")
    fits = "" if mesh is None else f" over {mesh}"
    raise UsageError(f"not a sharding{fits}: {text}; write it like {ACCEPTED}")


def _jax(text: str, given: Mesh | None, rank: int) -> tuple[HloSharding, Mesh | None]:
    from hlo_lens.logs.shardings import UNCONSTRAINED, parse_value

    value = parse_value(text)
    own, spec = value.mesh, value.spec
    if spec is None:
        raise UsageError(f"not a sharding: {text}; write it like {ACCEPTED}")
    if own is not None and given is not None and own != given:
        raise UsageError(f"{text} has a mesh of its own, other than --mesh {given}")
    mesh = own or given
    if UNCONSTRAINED in spec:
        raise UsageError(f"{text} leaves a dimension to XLA (UNCONSTRAINED)")
    if mesh is None:
        raise UsageError(f"{text} needs the axes of its mesh: add --mesh x=4,y=2")
    if len(spec) > rank:
        raise UsageError(f"{text} has {len(spec)} entries, the shape {rank} dimensions")
    named = named_sharding(mesh, spec, rank, value.unreduced)
    return HloSharding.from_named(named), mesh


def shard_report(
    sharding: HloSharding,
    shape: Shape,
    *,
    mesh: Mesh | None = None,
    width: int = 80,
) -> Report:
    """Return the report on one sharding of a value of a global shape, drawn in `width` columns.

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
        drawing=draw_boxes(slices, width=width),
        tables=(
            Table.of(slices, title="Slices by device", shown=shown),
            Table.of(spellings, title="Spellings"),
        ),
        notes=tuple(_notes(slices, spellings)),
    )
    data = envelope(
        "shard",
        sharding=sharding.text,
        shape=shape.to_text(layout=False),
        size_bytes=shape.size_bytes,
        device_shape=slices.shard_shape.to_text(layout=False),
        device_bytes=slices.shard_shape.size_bytes,
        tile_counts=list(slices.tile_counts),
        replication_factor=slices.replication_factor,
        is_uneven=slices.is_uneven,
        mesh=None if spellings.mesh is None else spellings.mesh.sizes,
        spellings={**dict(spellings.spellings), "spec": spellings.spec},
        devices=slices.objects(),
    )
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
        yield "mesh", ", ".join(f"{n}={size}" for n, size in spellings.mesh.sizes.items())
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
    if dict(spellings.spellings)["v2"] is None:
        yield "no iota has the devices in this order, so there is no V2 form"
