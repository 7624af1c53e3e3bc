"""Shapes, literals, shardings and device groups of protos, as XLA prints them.

Mirrors xla/shape_util.cc (PrintHumanStringWithLayout), layout.cc, literal.cc
(PrintWithoutShapeOneline), hlo_sharding.cc and mesh_and_axis.cc, as of August 2026.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

TYPE_NAMES = {
    **{1: "pred", 30: "s1", 26: "s2", 21: "s4", 2: "s8", 3: "s16", 4: "s32", 5: "s64"},
    **{31: "u1", 27: "u2", 22: "u4", 6: "u8", 7: "u16", 8: "u32", 9: "u64"},
    **{10: "f16", 11: "f32", 16: "bf16", 12: "f64", 15: "c64", 18: "c128"},
    **{19: "f8e5m2", 28: "f8e4m3", 20: "f8e4m3fn", 23: "f8e4m3b11fnuz", 29: "f8e3m4"},
    **{24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 32: "f4e2m1fn", 33: "f8e8m0fnu"},
    **{35: "f6e3m2fn", 36: "f6e2m3fn", 14: "opaque", 17: "token"},
}
"""Source: PrimitiveType of xla_data.proto."""
_TUPLE, _BUFFER = 13, 34
_NO_DIMENSIONS = {14, 17}

MOST_PRINTED = 10
"""Elements of the largest array constant that XLA prints (unless large constants are asked for)."""

DEEPEST = 200
"""Deepest nesting of tuples; the reader of text has the same limit."""


def words(data: bytes) -> str:
    """Return the text of a string field."""
    return data.decode("utf-8", "replace")


def numbers(values: Iterable[int]) -> str:
    """Return a list of numbers in braces."""
    return f"{{{','.join(map(str, values))}}}"


def with_counts(texts: Sequence[str], separator: str = ", ") -> str:
    """Return a list with XLA's comment before each fifth element."""
    parts = [f"/*index={k}*/{text}" if k and k % 5 == 0 else text for k, text in enumerate(texts)]
    return separator.join(parts)


class ShapePrinter:
    """Prints shapes, each distinct one once.

    Raises ValueError for a malformed shape.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bool], str] = {}

    def text(self, shape: Any, *, layout: bool = True) -> str:
        """Return a shape with or without its layout."""
        key = (shape.SerializeToString(deterministic=True), layout)
        if key not in self._known:
            self._known[key] = self._made(shape, layout, 0)
        return self._known[key]

    def _made(self, shape: Any, layout: bool, depth: int) -> str:
        if depth > DEEPEST:
            raise ValueError(f"a shape of tuples nested deeper than {DEEPEST}")
        kind = shape.element_type
        parts = [self._made(part, layout, depth + 1) for part in shape.tuple_shapes]
        if kind == _TUPLE:
            return f"({with_counts(parts)})"
        if kind == _BUFFER:
            return f"b({''.join(parts)})"
        name = TYPE_NAMES.get(kind)
        if name is None:
            raise ValueError(f"an array of unknown type {kind}")
        if kind in _NO_DIMENSIONS:
            return f"{name}[]"
        dynamic = shape.is_dynamic_dimension
        sizes = [
            _size_text(size, k < len(dynamic) and dynamic[k])
            for k, size in enumerate(shape.dimensions)
        ]
        text = f"{name}[{','.join(sizes)}]"
        if layout and shape.HasField("layout"):
            printed = _layout_text(shape.layout)
            if shape.dimensions or printed != "{}":
                text += printed
        return text


def _size_text(size: int, is_dynamic: bool) -> str:
    return "?" if size < 0 else f"<={size}" if is_dynamic else str(size)


def _layout_text(layout: Any) -> str:
    parts: list[str] = []
    if layout.tiles:
        tiles = (
            "".join(f"({','.join('*' if d < 0 else str(d) for d in tile.dimensions)})")
            for tile in layout.tiles
        )
        parts.append(f"T{''.join(tiles)}")
    if layout.tail_padding_alignment_in_elements > 1:
        parts.append(f"L({layout.tail_padding_alignment_in_elements})")
    for mark, kind in (("#", layout.index_primitive_type), ("*", layout.pointer_primitive_type)):
        if kind in TYPE_NAMES:
            parts.append(f"{mark}({TYPE_NAMES[kind]})")
    if layout.element_size_in_bits:
        parts.append(f"E({layout.element_size_in_bits})")
    if layout.memory_space:
        parts.append(f"S({layout.memory_space})")
    if layout.split_configs:
        splits = (
            f"({s.dimension}:{','.join(map(str, s.split_indices))})" for s in layout.split_configs
        )
        parts.append(f"SC{''.join(splits)}")
    if layout.dynamic_shape_metadata_prefix_bytes:
        parts.append(f"M({layout.dynamic_shape_metadata_prefix_bytes})")
    properties = f":{''.join(parts)}" if parts else ""
    return f"{{{','.join(map(str, layout.minor_to_major))}{properties}}}"


# ---- literals ----------------------------------------------------------------------------------


def literal_text(literal: Any) -> str:
    """Return the text between the parentheses of a constant."""
    shape = literal.shape
    if shape.element_type == _TUPLE:
        return "{...}"
    count = math.prod(max(0, size) for size in shape.dimensions)
    if shape.dimensions and count > MOST_PRINTED:
        return "{...}"
    cells = list(islice(_cells(literal, is_scalar=not shape.dimensions), count))
    if len(cells) != count:
        return "{...}"
    return _nested(cells, list(shape.dimensions))


def _nested(cells: list[str], sizes: list[int], *, is_inner: bool = False) -> str:
    if not sizes:
        return cells[0] if cells else "{...}"
    if len(sizes) == 1:
        space = " " if is_inner and len(cells) > 1 else ""
        return f"{{{space}{', '.join(cells)}{space}}}"
    step = len(cells) // sizes[0] if sizes[0] else 0
    parts = (cells[k * step : (k + 1) * step] for k in range(sizes[0]))
    inner = [_nested(part, sizes[1:], is_inner=True) for part in parts]
    return f"{{ {', '.join(inner)} }}" if inner else "{}"


_SMALL = {"s1", "u1", "s2", "u2", "s4", "u4"}
_BYTES = {"s8": "<i1", "u8": "<u1", "s16": "<i2", "u16": "<u2"}


def _cells(literal: Any, *, is_scalar: bool) -> Iterator[str]:
    """Yield the elements of a literal as XLA prints them; none for an unknown type."""
    name = TYPE_NAMES.get(literal.shape.element_type, "")
    if name == "pred":
        words_of = ("false", "true") if is_scalar else ("0", "1")
        yield from (words_of[bool(value)] for value in literal.preds)
    elif name in _SMALL:
        yield from map(str, _small_integers(getattr(literal, f"{name}s"), name))
    elif name in _BYTES:
        kind = np.dtype(_BYTES[name])
        data = getattr(literal, f"{name}s")
        yield from map(str, np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind))
    elif name in ("s32", "s64", "u32", "u64"):
        yield from map(str, getattr(literal, f"{name}s"))
    elif name in ("f16", "bf16"):
        yield from _short_floats(getattr(literal, f"{name}s"), name)
    elif name in ("f32", "f64", "c64", "c128"):
        wide = np.float32 if name in ("f32", "c64") else np.float64
        parts = (_float_text(wide(value)) for value in getattr(literal, f"{name}s"))
        yield from parts if name[0] == "f" else map("({}, {})".format, parts, parts)


def _small_integers(data: bytes, name: str) -> Iterator[int]:
    """Yield integers of less than eight bits, each stored in a byte."""
    width = int(name[1:])
    for byte in data:
        value = byte & ((1 << width) - 1)
        yield value - (1 << width) if name[0] == "s" and value >> (width - 1) else value


def _short_floats(data: bytes, name: str) -> Iterator[str]:
    raw = np.frombuffer(data[: len(data) // 2 * 2], "<u2")
    if name == "f16":
        yield from (_float_text(value) for value in raw.view("<f2"))
        return
    for wide in (raw.astype("<u4") << 16).view("<f4"):
        yield _rounded(float(wide), _BF16_DIGITS, lambda _: True)


_BF16_DIGITS = (4, 4)
_DIGITS = {np.float16: (5, 5), np.float32: (6, 9), np.float64: (15, 17)}
"""Decimal digits that a type always keeps, and those that distinguish all its numbers; of short
types XLA always prints the latter."""


def _float_text(value: Any) -> str:
    """Return a float as XLA prints it: with few digits if they are exact, else with all.

    Source: RoundTripFpToString of xla/util.cc.
    """
    kind = type(value)
    return _rounded(float(value), _DIGITS[kind], lambda text: kind(text) == value)


def _rounded(value: float, digits: tuple[int, int], reads_back: Callable[[str], bool]) -> str:
    if value != value:
        return "-nan" if struct.pack(">d", value)[0] & 0x80 else "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    few = f"{value:.{digits[0]}g}"
    return few if reads_back(few) else f"{value:.{digits[1]}g}"


# ---- shardings and groups ----------------------------------------------------------------------

_KINDS = {0: "replicated", 4: "manual", 5: "unknown", 6: "unreduced"}
_REDUCTIONS = {1: "max", 2: "min"}


def sharding_text(sharding: Any, metadata: Callable[[Any], str]) -> str:
    """Return a sharding, braces included.

    Args:
        sharding: An OpSharding.
        metadata: Prints an OpMetadata, without braces.
    """
    if sharding.HasField("named_sharding"):
        return _named_text(sharding.named_sharding, metadata)
    if sharding.type == 2:
        inner = [sharding_text(one, metadata) for one in sharding.tuple_shardings]
        return f"{{{with_counts(inner)}}}"
    parts = [_kind_text(sharding)]
    if sharding.is_shard_group:
        group = "shard_like" if sharding.shard_group_type else "shard_as"
        parts.append(f"{group} {sharding.shard_group_id}")
    if sharding.metadata:
        inner = [metadata(one) for one in sharding.metadata]
        listed = ", ".join(f"{{{text}}}" for text in inner)
        parts.append(f"metadata={{{inner[0] if len(inner) == 1 else listed}}}")
    return f"{{{' '.join(parts)}}}"


def _kind_text(sharding: Any) -> str:
    if sharding.type in _KINDS:
        return _KINDS[sharding.type]
    if sharding.type == 1:
        return f"maximal device={next(iter(sharding.tile_assignment_devices), 0)}"
    sizes = f"devices=[{','.join(map(str, sharding.tile_assignment_dimensions))}]"
    sizes += _devices_text(
        sharding.tile_assignment_devices, sharding.iota_reshape_dims, sharding.iota_transpose_perm
    )
    if sharding.replicate_on_last_tile_dim:
        sizes += " last_tile_dim_replicate"
    if sharding.last_tile_dims:
        names = ", ".join(_KINDS.get(kind, "unknown") for kind in sharding.last_tile_dims)
        sizes += f" last_tile_dims={{{names}}}"
    return sizes


def _devices_text(devices: Sequence[int], reshape: Sequence[int], order: Sequence[int]) -> str:
    """Return a device list: written out, or as a transposed iota."""
    if not reshape:
        return ",".join(map(str, devices))
    text = f"<=[{','.join(map(str, reshape))}]"
    if list(order) != sorted(order):
        text += f"T({','.join(map(str, order))})"
    return text


def _mesh_text(mesh: Any) -> str:
    devices = list(mesh.device_ids)
    if not mesh.axes and len(devices) == 1:
        return f"maximal_mesh[device_id={devices[0]}]"
    axes = ",".join(f"'{words(axis.name)}'={axis.size}" for axis in mesh.axes)
    text = f"mesh[{axes}]"
    if mesh.HasField("iota_transform"):
        turned = mesh.iota_transform
        order = f"T({','.join(map(str, turned.transpose_perm))})"
        return f"{text}, device_ids=([{','.join(map(str, turned.reshape_dims))}]{order})"
    if devices and devices != list(range(len(devices))):
        return f"{text}, device_ids=({','.join(map(str, devices))})"
    return text


def _axes_text(axes: Iterable[Any], mesh: Any, separator: str = ", ") -> str:
    return separator.join(_axis_text(axis, mesh) for axis in axes)


def _axis_text(axis: Any, mesh: Any) -> str:
    if not 0 <= axis.mesh_axis_index < len(mesh.axes):
        raise ValueError(f"axis {axis.mesh_axis_index} of a mesh that has {len(mesh.axes)}")
    text = f"'{words(mesh.axes[axis.mesh_axis_index].name)}'"
    if axis.HasField("sub_axis_info"):
        text += f":({axis.sub_axis_info.pre_size}){axis.sub_axis_info.size}"
    return text


def _named_text(named: Any, metadata: Callable[[Any], str]) -> str:
    mesh = named.mesh
    if not mesh.axes and mesh.device_ids:
        return f"{{{_mesh_text(mesh)}}}"
    dims = []
    for dim in named.dim_shardings:
        inner = _axes_text(dim.axes, mesh)
        rest = "" if dim.is_closed else f"{', ' if inner else ''}?"
        dims.append(f"{{{inner}{rest}}}")
    fields = [_mesh_text(mesh), f"[{', '.join(dims)}]"]
    reduction = _REDUCTIONS.get(named.reduction_op, "")
    whole = _whole_kind(named)
    for name, axes in (
        ("replicated=", named.replicated_axes),
        (f"unreduced={reduction}", named.unreduced_axes),
        ("manual=", named.manual_axes),
    ):
        if axes and not whole:
            fields.append(f"{name}{{{_axes_text(axes, mesh)}}}")
    if whole:
        fields[1] = whole
    if named.metadata:
        inner = ", ".join(f"{{{metadata(one)}}}" for one in named.metadata)
        fields.append(f"metadata={inner if len(named.metadata) == 1 else f'{{{inner}}}'}")
    return f"{{{', '.join(fields)}}}"


def _whole_kind(named: Any) -> str:
    """Return the kind of a sharding that divides nothing, in one word; empty for others."""
    if named.dim_shardings or named.replicated_axes:
        return ""
    if not named.manual_axes and not named.unreduced_axes:
        return "replicated"
    is_manual = len(named.manual_axes) == len(named.mesh.axes) and not named.unreduced_axes
    return "manual" if is_manual else ""


def groups_text(instruction: Any) -> str:
    """Return the device groups of a collective, in the form of its proto."""
    if instruction.HasField("mesh_axes_replica_group_list"):
        groups = instruction.mesh_axes_replica_group_list
        return f"{_mesh_text(groups.mesh)} {{{_axes_text(groups.axes, groups.mesh, ',')}}}"
    listed = instruction.collective_device_list
    iota = None
    if instruction.HasField("iota_collective_device_list"):
        iota = instruction.iota_collective_device_list
    elif listed.HasField("iota_replica_group_list"):
        iota = listed.iota_replica_group_list
    if iota is not None:
        sizes = f"[{iota.num_replica_groups},{iota.num_devices_per_group}]"
        return sizes + _devices_text((), iota.iota_reshape_dims, iota.iota_transpose_perm)
    groups = listed.replica_groups or instruction.replica_groups
    return f"{{{','.join(numbers(group.replica_ids) for group in groups)}}}"
