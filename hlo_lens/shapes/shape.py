"""Shapes: layouts, arrays, tuples, buffers, and their sizes in bytes.

Two sizes are kept apart. `Shape.size_bytes` counts the elements alone, whatever the layout does
with them (only ``E(n)`` packs them). `Shape.padded_size_bytes` adds the padding of the first tile,
as a TPU allocates. Neither counts the pointer table of a tuple.

Sources: xla/shape_util.cc (ByteSizeOfElements, ArraySize, PrintHumanString), xla/layout.cc
(Layout::Print), as of August 2026.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, cast

from hlo_lens.grammar.files import MisplacedError, present, whole_number
from hlo_lens.grammar.lines import SmallLanguage
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.source import Source, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveType:
    """An element type.

    Attributes:
        name: As printed, for example ``bf16``.
        bits: Significant width (XLA's BitWidth); 1 for ``pred``, 0 for ``token`` and ``opaque``.
    """

    name: str
    bits: int

    @property
    def size_bytes(self) -> int:
        """Bytes of one element where the layout does not pack it (``E(n)``)."""
        return -(-self.bits // 8)


_WIDTHS = {
    0: "token opaque",
    1: "pred s1 u1",
    2: "s2 u2",
    4: "s4 u4 f4e2m1fn",
    8: "s8 u8 f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz f8e3m4 f8e8m0fnu "
    "f6e3m2fn f6e2m3fn",
    16: "s16 u16 f16 bf16",
    32: "s32 u32 f32",
    64: "s64 u64 f64 c64",
    128: "c128",
}
PRIMITIVE_TYPES = {
    name: PrimitiveType(name=name, bits=bits)
    for bits, names in _WIDTHS.items()
    for name in names.split()
}
"""Every primitive type XLA prints, by name. Source: formats of primitive_util.h."""


def primitive_type(name: str) -> PrimitiveType | None:
    """Return the primitive type of a name; None for one that is not known, nor its width."""
    return PRIMITIVE_TYPES.get(name)


_NUMPY = {
    "bool": "pred",
    "bfloat16": "bf16",
    "half": "f16",
    "double": "f64",
    "single": "f32",
    "float": "f32",
}
_NUMPY_FORM = re.compile(r"(uint|int|float|complex)(\d.*)")


def xla_name(dtype: str) -> str | None:
    """Return XLA's name of an element type by its name in numpy or ml_dtypes; None for others.

    >>> xla_name("bfloat16"), xla_name("uint8"), xla_name("float8_e4m3fn"), xla_name("f32")
    ('bf16', 'u8', 'f8e4m3fn', None)
    """
    match = _NUMPY_FORM.fullmatch(dtype)
    if match is None:
        return _NUMPY.get(dtype)
    return f"{match[1][0].replace('i', 's')}{match[2].replace('_', '')}"


def element_type(dtype: str) -> str | None:
    """Return XLA's name of a type of numpy or ml_dtypes: ``f32`` for float32; None if unknown.

    >>> element_type("float8_e4m3fn"), element_type("int4"), element_type("jax.numpy.bool")
    ('f8e4m3fn', 's4', 'pred')
    """
    name = dtype.rpartition(".")[2]
    name = xla_name(name) or name
    return name if name in PRIMITIVE_TYPES else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One level of tiling: ``T(8,128)``.

    Attributes:
        dimensions: Sizes, most major first; None (``*``) joins a dimension with the next minor one.
    """

    dimensions: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"({','.join('*' if size is None else str(size) for size in self.dimensions)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitConfig:
    """A dimension stored in parts: ``SC(0:2,4)``."""

    dimension: int
    split_indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dimension}:{','.join(map(str, self.split_indices))})"


_LANES = 128


def smaller_tiles(tiles: Sequence[Tile], sizes: Sequence[int]) -> tuple[Tile, ...]:
    """Return the tiles of an array after it became smaller, as TPU compilers choose them.

    The rows of the first tile are a power of two that holds the rows of the array, at least as many
    as share a word; a tile of a vector is 128 of these long, or more: ``f32[3,256]{1,0:T(4,128)}``,
    ``bf16[1,256]{1,0:T(2,128)(2,1)}``, ``f32[200]{0:T(256)}``. So are 99 % of the arrays below a
    tile in texts of libtpu 0.0.42 to 0.0.52; the others have a larger tile.
    """
    first = tiles[0].dimensions if tiles else ()
    if len(first) not in (1, 2) or len(sizes) < len(first) or first[0] is None:
        return tuple(tiles)
    rows = sizes[len(first) - 1]
    packed = tiles[-1].dimensions[0] or 1 if len(tiles) > 1 else 1
    least = packed if len(first) > 1 else packed * _LANES
    fitting = min(first[0], max(least, 1 << max(rows - 1, 0).bit_length()))
    return (Tile(dimensions=(fitting, *first[1:])), *tiles[1:])


def padded_count(sizes: Sequence[int], tile_sizes: Sequence[int | None], alignment: int) -> int:
    """Return the number of elements with padding.

    Args:
        sizes: Sizes of the dimensions, minor first.
        tile_sizes: Sizes of the first tile, major first.
        alignment: Multiple to which the number of elements is rounded up.
    """
    count = 1
    joined = 1
    tile = 1
    for position, tile_size in enumerate(reversed(tile_sizes)):
        size = sizes[position] if position < len(sizes) else 1
        if tile_size is None:
            joined *= size
        else:
            count *= _round_up(joined, tile)
            joined, tile = size, tile_size
    count *= _round_up(joined, tile)
    count *= math.prod(sizes[len(tile_sizes) :])
    return _round_up(count, alignment)


def _round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple that is not below a number; an alignment of 0 is none."""
    return -(-number // multiple) * multiple if multiple else number


ShapeIndex: TypeAlias = tuple[int, ...]
"""Path from a shape to one of its parts: tuple positions, outermost first; ``()`` is the whole."""

HOST_SPACE = 5
"""Memory space of the host; source: xla/layout.h, kHostMemorySpace."""

MAX_NESTING = 200
"""Deepest nesting of tuples; XLA's own parser has a limit, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layout of an array in memory.

    Attributes:
        minor_to_major: Dimensions, fastest varying first.
        tiles: Tiles, outermost first; only the first one pads.
        memory_space: ``S(n)``; 0 is the default memory of the device.
        element_size_in_bits: ``E(n)``: elements are packed at n bits each; 0 means not packed.
        tail_padding_alignment_in_elements: ``L(n)``: the element count is rounded up to n.
        split_configs: ``SC(...)``.
        other_properties: Properties without effect on sizes (types of indices and pointers,
            physical shape, level types), and unknown ones, as written.
    """

    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[Tile, ...] = ()
    memory_space: int = 0
    element_size_in_bits: int = 0
    tail_padding_alignment_in_elements: int = 1
    split_configs: tuple[SplitConfig, ...] = ()
    other_properties: tuple[str, ...] = ()

    def __str__(self) -> str:
        order = ",".join(map(str, self.minor_to_major))
        alignment = self.tail_padding_alignment_in_elements
        known = (
            ("T", "".join(map(str, self.tiles))),
            ("L", f"({alignment})" if alignment != 1 else ""),
            ("E", f"({self.element_size_in_bits})" if self.element_size_in_bits else ""),
            ("S", f"({self.memory_space})" if self.memory_space else ""),
            ("SC", "".join(map(str, self.split_configs))),
        )
        texts = [*(name + value for name, value in known if value), *self.other_properties]
        order_of = dict(zip(_PRINTED_ORDER, range(len(_PRINTED_ORDER)), strict=True))
        texts.sort(key=lambda text: order_of.get(text.partition("(")[0].strip(), len(order_of)))
        return f"{{{order}{':' * bool(texts)}{''.join(texts)}}}"


_PRINTED_ORDER = ("D", "T", "L", "#", "*", "E", "S", "SC", "P", "M")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Shape:
    """Type of a value: an array, a buffer, a tuple, a token or an opaque handle.

    Two shapes are equal if they have the same content, layout included. No method is recursive, so
    that deep tuples need no stack.

    Attributes:
        element_type: Primitive type as printed (``f32``, ``token``, ``opaque``), or ``tuple``.
        dimensions: Sizes, most major first; None for ``?``, the bound for ``<=N``.
        dynamic_dimensions: For each dimension, whether its size is known only at run time.
        layout: None if none is printed.
        is_tuple: Whether this is a tuple, be it empty.
        tuple_shapes: Element shapes of a tuple.
        is_buffer: Whether it is printed as ``b(...)``: a buffer that is written in place.
    """

    element_type: str = "tuple"
    dimensions: tuple[int | None, ...] = ()
    dynamic_dimensions: tuple[bool, ...] = ()
    layout: Layout | None = None
    is_tuple: bool = False
    tuple_shapes: tuple[Shape, ...] = ()
    is_buffer: bool = False

    def __post_init__(self) -> None:
        if len(self.dynamic_dimensions) != len(self.dimensions):
            flags = tuple(size is None for size in self.dimensions)
            object.__setattr__(self, "dynamic_dimensions", flags)

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Return the shape that a text prints; raises DumpSyntaxError."""
        return parse_shape(text)

    @classmethod
    def tuple_of(cls, shapes: Sequence[Shape]) -> Self:
        return cls(is_tuple=True, tuple_shapes=tuple(shapes))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shape):
            return NotImplemented
        pairs = [(self, other)]
        while pairs:
            left, right = pairs.pop()
            if left is right:
                continue
            if _own(left) != _own(right):
                return False
            pairs.extend(zip(left.tuple_shapes, right.tuple_shapes, strict=True))
        return True

    def __hash__(self) -> int:
        return hash(tuple(map(_own, self._nodes())))

    def __repr__(self) -> str:
        return f"Shape({self.to_text()!r})"

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, *, layout: bool = True) -> str:
        """Return the shape as XLA prints it, with or without layouts.

        A tuple has ``/*index=N*/`` before each fifth element, as in XLA since 2021.
        """
        if not self.is_tuple:
            return _leaf_text(self, layout=layout)
        known: dict[int, str] = {}
        parts = ["("]
        stack = [enumerate(self.tuple_shapes)]
        while stack:
            for position, shape in stack[-1]:
                if position:
                    parts.append(", " if position % 5 else f", /*index={position}*/")
                if shape.is_tuple:
                    parts.append("(")
                    stack.append(enumerate(shape.tuple_shapes))
                    break
                key = id(shape)
                if key not in known:
                    known[key] = _leaf_text(shape, layout=layout)
                parts.append(known[key])
            else:
                parts.append(")")
                stack.pop()
        return "".join(parts)

    @property
    def is_token(self) -> bool:
        return self.element_type == "token"

    @property
    def is_opaque(self) -> bool:
        return self.element_type == "opaque"

    @property
    def rank(self) -> int:
        """Number of dimensions; 0 for a scalar and for a tuple."""
        return len(self.dimensions)

    @property
    def memory_space(self) -> int:
        """Memory space of the layout; 0 (the default) if none is printed."""
        return self.layout.memory_space if self.layout else 0

    @property
    def is_in_host_memory(self) -> bool:
        """Whether the layout is of the host's memory space."""
        return self.memory_space == HOST_SPACE

    @property
    def element_count(self) -> int | None:
        """Number of elements, with the bound for a bounded dimension; None with a ``?`` one.

        For a tuple: the sum over its leaves.
        """
        return self._sum(_element_count)

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the elements: logical, without tiles, padding and pointer tables.

        A bounded dimension counts with its bound, packed elements (``E(n)``) as the product times n
        bits rounded up to bytes, token and opaque as 0, a tuple as the sum over its leaves. None
        where a dimension is ``?`` or the width of the type is unknown.
        """
        return self._sum(_size_bytes)

    @property
    def padded_size_bytes(self) -> int | None:
        """Like `size_bytes`, with the padding of the first tile and ``L(n)``, and with splits.

        Source: ShapeUtil::ArraySize. An array without tiles is not padded.
        """
        return self._sum(_padded_size_bytes)

    def leaves(self) -> Iterator[tuple[ShapeIndex, Shape]]:
        """Yield index and shape of each part that is no tuple, depth first, in printed order."""
        if not self.is_tuple:
            yield (), self
            return
        index = [-1]
        stack = [iter(self.tuple_shapes)]
        while stack:
            shape = next(stack[-1], None)
            if shape is None:
                stack.pop()
                index.pop()
                continue
            index[-1] += 1
            if shape.is_tuple:
                stack.append(iter(shape.tuple_shapes))
                index.append(-1)
            else:
                yield tuple(index), shape

    def with_leaves(self, leaves: Iterable[Shape]) -> Shape:
        """Return the shape with other leaves, given in the order of `leaves`."""
        fresh = iter(leaves)
        if not self.is_tuple:
            return next(fresh)
        stack = [(iter(self.tuple_shapes), list[Shape]())]
        while True:
            for shape in stack[-1][0]:
                if shape.is_tuple:
                    stack.append((iter(shape.tuple_shapes), []))
                    break
                stack[-1][1].append(next(fresh))
            else:
                done = Shape.tuple_of(stack.pop()[1])
                if not stack:
                    return done
                stack[-1][1].append(done)

    def _nodes(self) -> Iterator[Shape]:
        stack = [self]
        while stack:
            shape = stack.pop()
            yield shape
            stack.extend(shape.tuple_shapes)

    def _sum(self, measure: Callable[[Shape], int | None]) -> int | None:
        """Return the sum of a measure over the leaves; None if any is unknown.

        Leaves that are the same object are measured once.
        """
        if not self.is_tuple:
            return measure(self)
        known: dict[int, int | None] = {}
        total = 0
        for shape in self._nodes():
            if shape.is_tuple:
                continue
            key = id(shape)
            size = known[key] if key in known else known.setdefault(key, measure(shape))
            if size is None:
                return None
            total += size
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramShape:
    """Shapes of the parameters of a computation, by number, and of its result."""

    parameters: tuple[Shape, ...]
    result: Shape

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) -> {self.result}"


def _own(shape: Shape) -> tuple[object, ...]:
    """Return the content of a shape without the elements of a tuple."""
    flags = (shape.is_tuple, shape.is_buffer, len(shape.tuple_shapes))
    return (shape.element_type, shape.dimensions, shape.dynamic_dimensions, shape.layout, flags)


def _leaf_text(shape: Shape, *, layout: bool) -> str:
    sizes = []
    for size, dynamic in zip(shape.dimensions, shape.dynamic_dimensions, strict=True):
        sizes.append("?" if size is None else f"<={size}" if dynamic else str(size))
    text = f"{shape.element_type}[{','.join(sizes)}]"
    if layout and shape.layout is not None:
        text += str(shape.layout)
    return f"b({text})" if shape.is_buffer else text


def _element_count(shape: Shape) -> int | None:
    sizes = [size for size in shape.dimensions if size is not None]
    if len(sizes) != len(shape.dimensions):
        return None
    return math.prod(sizes)


def _size_bytes(shape: Shape) -> int | None:
    count = _element_count(shape)
    return None if count is None else _bytes_of(shape, count)


def _bytes_of(shape: Shape, count: int) -> int | None:
    """Return the bytes of `count` elements of a leaf's type, packed if its layout packs."""
    if shape.is_token or shape.is_opaque:
        return 0
    packed_bits = shape.layout.element_size_in_bits if shape.layout else 0
    if packed_bits:
        return -(-count * packed_bits // 8)
    element = primitive_type(shape.element_type)
    return None if element is None else count * element.size_bytes


def _padded_size_bytes(shape: Shape) -> int | None:
    """Return the size of a leaf with padding. Source: ShapeUtil::ArraySize."""
    layout = shape.layout
    if layout is None or not layout.tiles:
        return _size_bytes(shape)
    if _element_count(shape) is None or 0 in layout.tiles[0].dimensions:
        return None
    sizes = [size or 0 for size in shape.dimensions]
    for split in layout.split_configs:
        if split.dimension < len(sizes):
            edges = itertools.pairwise((0, *split.split_indices, sizes[split.dimension]))
            sizes[split.dimension] = max(end - start for start, end in edges)
    ordered = [sizes[dimension] for dimension in layout.minor_to_major]
    alignment = layout.tail_padding_alignment_in_elements
    count = padded_count(ordered, layout.tiles[0].dimensions, alignment)
    return _bytes_of(shape, count)


REMEMBERED_LENGTH = 1 << 16
"""Longest text, in characters, in the cache: a tuple of a million elements has 20 MB."""


def parse_shape(text: str) -> Shape:
    """Return the shape that a text prints; each distinct text is parsed once.

    Raises:
        DumpSyntaxError: If it is malformed; line and column are those within the text.
    """
    return remembered_shape(text) if len(text) <= REMEMBERED_LENGTH else _parse(text)


@functools.lru_cache(maxsize=1 << 14)
def remembered_shape(text: str) -> Shape:
    """Return the shape of a text of at most `REMEMBERED_LENGTH` characters; remembered."""
    return _parse(text)


def _parse(text: str) -> Shape:
    if text.count("(") > MAX_NESTING:
        _check_nesting(Source(text))
    return cast("Shape", SHAPES.parse(text))


SHAPE_NAMES = {
    **dict.fromkeys(("SHAPE_TYPE", "SHAPE_BUFFER"), "a shape"),
    "SHAPE_SIZE": "a number",
    "LAYOUT_OPEN": "a layout",
    **dict.fromkeys(map("LAYOUT_{}".format, (*"TLES", "SC", "OTHER")), "a layout property"),
}
"""Names of the terminals of shape.lark for users."""


def _property(
    name: str, read: Callable[[str], Any]
) -> Callable[[object, str, str], tuple[str, Any]]:
    """Return the rule of a layout property with one value."""
    return lambda _self, _key, value: (name, read(value))


class _ShapeRules:
    """Rules of shape.lark to objects of the model."""

    def shape_array(self, element_type: str, dimensions: _Sizes, layout: _Placed) -> Shape:
        """Return an array; raises MisplacedError if its layout is not of its dimensions."""
        rank = len(dimensions)
        if layout is not None and sorted(layout[1].minor_to_major) != list(range(rank)):
            message = f"expected a layout of {rank} dimensions, each of them once"
            raise MisplacedError.at_token(layout[0], message)
        return Shape(
            element_type=str(element_type),
            dimensions=tuple(size for size, _ in dimensions),
            dynamic_dimensions=tuple(dynamic for _, dynamic in dimensions),
            layout=None if layout is None or layout[1] == Layout() else layout[1],
        )

    def shape_tuple(self, *shapes: Shape | None) -> Shape:
        return Shape.tuple_of(present(shapes))

    def shape_buffer(self, _: str, shape: Shape) -> Shape:
        return replace(shape, is_buffer=True)

    def shape_dimensions(self, *sizes: tuple[int | None, bool] | None) -> _Sizes:
        return present(sizes)

    def shape_size(self, size: str) -> tuple[int | None, bool]:
        return whole_number(size), False

    def shape_bound(self, _: str, size: str) -> tuple[int | None, bool]:
        return whole_number(size), True

    def shape_unknown(self, _: str) -> tuple[int | None, bool]:
        return None, True

    def layout(
        self, brace: str, order: tuple[int, ...], properties: dict[str, Any] | None
    ) -> _Placed:
        return brace, Layout(minor_to_major=order, **(properties or {}))

    def layout_order(self, *dimensions: str | None) -> tuple[int, ...]:
        return tuple(map(whole_number, present(dimensions)))

    def layout_properties(self, *properties: tuple[str, Any]) -> dict[str, Any]:
        """Return field names and values of a Layout; of a repeated property, the first."""
        found = dict(reversed(properties))
        others = tuple(value for name, value in properties if name == "other_properties")
        if others:
            found["other_properties"] = others
        return found

    layout_tail_padding = _property("tail_padding_alignment_in_elements", whole_number)
    layout_element_size = _property("element_size_in_bits", whole_number)
    layout_memory_space = _property("memory_space", whole_number)

    def layout_tiles(self, _: str, *tiles: Tile) -> tuple[str, Any]:
        return "tiles", tiles

    def layout_tile(self, *sizes: str | None) -> Tile:
        found = present(sizes)
        return Tile(dimensions=tuple(None if s == "*" else whole_number(s) for s in found))

    def layout_splits(self, _: str, *splits: SplitConfig) -> tuple[str, Any]:
        return "split_configs", splits

    def layout_split(self, dimension: str, *indices: str) -> SplitConfig:
        numbers = tuple(map(whole_number, indices))
        return SplitConfig(dimension=whole_number(dimension), split_indices=numbers)

    def layout_other(self, text: str) -> tuple[str, Any]:
        return "other_properties", str(text)


_Sizes = list[tuple[int | None, bool]]
_Placed = tuple[str, Layout] | None


SHAPES = SmallLanguage("shape", "hlo_tokens", "shape", results=_ShapeRules(), names=SHAPE_NAMES)

_PROPERTY = re.compile(r"[\w#*](?:\([^()]*\))+")


def _check_nesting(source: Source) -> None:
    """Raise DumpSyntaxError if tuples are nested too deep."""
    tuples = re.findall(r"[()]", _PROPERTY.sub("", source.text))
    depths = itertools.accumulate(1 if one == "(" else -1 for one in tuples)
    if max(depths, default=0) > MAX_NESTING:
        message = f"tuples are nested deeper than {MAX_NESTING}"
        raise DumpSyntaxError.at(source, Span(0, 1), message)
