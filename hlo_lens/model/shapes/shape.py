"""Shapes: primitive types, layouts, arrays, tuples, buffers, and how many bytes they take.

Two sizes are kept apart. `Shape.size_bytes` counts the elements alone, whatever the layout does
with them (only ``E(n)`` packs them). `Shape.padded_size_bytes` adds what the first tile pads, which
is what a TPU allocates. Neither counts the pointer table of a tuple: `Shape.tuple_table_bytes`.

Sources: xla/shape_util.cc (ByteSizeOfElements, ArraySize, PrintHumanString), xla/layout.cc
(Layout::Print), xla/primitive_util.h (BitWidth, ByteWidth), as of August 2026.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

from hlo_lens.text.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

ShapeIndex: TypeAlias = tuple[int, ...]
"""Path from a shape to one of its parts: tuple positions, outermost first; ``()`` is the whole."""

MAX_NESTING = 200
"""How deep tuples may be nested; XLA's own parser has such a limit too."""

_WIDTH_IN_NAME = re.compile(r"[a-z]+(\d{1,4})(?:e\d+m\d+[a-z0-9]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveType:
    """An element type.

    Attributes:
        name: As printed, for example ``bf16``.
        bits: Significant width (XLA's BitWidth); 1 for ``pred``, 0 for ``token`` and ``opaque``.
        storage_bits: Bits one element takes in memory where the layout does not pack (``E(n)``).
    """

    name: str
    bits: int
    storage_bits: int

    @property
    def size_bytes(self) -> int:
        """Bytes one element takes where the layout does not pack it."""
        return self.storage_bits // 8


def _known_types() -> dict[str, PrimitiveType]:
    """Return XLA's primitive types by name. Source: formats of primitive_util.h."""
    widths = {
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
    return {
        name: PrimitiveType(name=name, bits=bits, storage_bits=-(-bits // 8) * 8)
        for bits, names in widths.items()
        for name in names.split()
    }


PRIMITIVE_TYPES = _known_types()
"""Every primitive type XLA prints, by name."""


def primitive_type(name: str) -> PrimitiveType | None:
    """Return the primitive type of a name; None where its width is neither known nor in the name.

    A type that XLA added later is taken to be as wide as the first number of its name says:
    ``s128`` has 128 bits, ``f8e9m9`` has 8.
    """
    known = PRIMITIVE_TYPES.get(name)
    if known is not None:
        return known
    match = _WIDTH_IN_NAME.fullmatch(name)
    bits = int(match[1]) if match else 0
    if not bits:
        return None
    return PrimitiveType(name=name, bits=bits, storage_bits=-(-bits // 8) * 8)


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
    """A dimension stored in parts: ``SC(0:2,4)``.

    Attributes:
        dimension: Which dimension is split.
        split_indices: Where each further part begins, ascending.
    """

    dimension: int
    split_indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dimension}:{','.join(map(str, self.split_indices))})"

    def largest_part(self, size: int) -> int:
        """Return the size of the largest part of a dimension of this size."""
        edges = (0, *self.split_indices, size)
        return max(end - start for start, end in itertools.pairwise(edges))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How an array lies in memory.

    Attributes:
        minor_to_major: Dimensions, fastest varying first.
        tiles: Tiles, outermost first; only the first one pads.
        memory_space: ``S(n)``; 0 is the default memory of the device.
        element_size_in_bits: ``E(n)``: elements are packed at n bits each; 0 means not packed.
        tail_padding_alignment_in_elements: ``L(n)``: the element count is rounded up to n.
        index_primitive_type: ``#(type)``, None if not printed.
        pointer_primitive_type: ``*(type)``, None if not printed.
        split_configs: ``SC(...)``.
        physical_shape: ``P(shape)`` of a sparse array.
        dynamic_shape_metadata_prefix_bytes: ``M(n)``.
        dim_level_types: ``D(...)`` as printed from 2022 to 2025, for example ``("D", "C+")``.
        other_properties: Properties that are not known here, as written.
    """

    minor_to_major: tuple[int, ...] = ()
    tiles: tuple[Tile, ...] = ()
    memory_space: int = 0
    element_size_in_bits: int = 0
    tail_padding_alignment_in_elements: int = 1
    index_primitive_type: str | None = None
    pointer_primitive_type: str | None = None
    split_configs: tuple[SplitConfig, ...] = ()
    physical_shape: Shape | None = None
    dynamic_shape_metadata_prefix_bytes: int = 0
    dim_level_types: tuple[str, ...] = ()
    other_properties: tuple[str, ...] = ()

    def __str__(self) -> str:
        properties = self._properties()
        order = ",".join(map(str, self.minor_to_major))
        return f"{{{order}:{properties}}}" if properties else f"{{{order}}}"

    def _properties(self) -> str:
        """Return what follows the colon, in the order in which XLA prints it."""
        alignment = self.tail_padding_alignment_in_elements
        parts = (
            ("D", f"({','.join(self.dim_level_types)})" if self.dim_level_types else ""),
            ("T", "".join(map(str, self.tiles))),
            ("L", _in_parentheses(alignment if alignment != 1 else None)),
            ("#", _in_parentheses(self.index_primitive_type)),
            ("*", _in_parentheses(self.pointer_primitive_type)),
            ("E", _in_parentheses(self.element_size_in_bits or None)),
            ("S", _in_parentheses(self.memory_space or None)),
            ("SC", "".join(map(str, self.split_configs))),
            ("P", _in_parentheses(self.physical_shape)),
            ("M", _in_parentheses(self.dynamic_shape_metadata_prefix_bytes or None)),
        )
        known = "".join(name + value for name, value in parts if value)
        return known + "".join(self.other_properties)


def _in_parentheses(value: object) -> str:
    """Return a value in parentheses; nothing for None."""
    return "" if value is None else f"({value})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Shape:
    """Type of a value: an array, a buffer, a tuple, a token or an opaque handle.

    Two shapes are equal if they have the same content, layout included. Nothing here recurses, so
    that deep and wide tuples cost no stack.

    Attributes:
        element_type: Primitive type as printed (``f32``, ``token``, ``opaque``), or ``tuple``.
        dimensions: Sizes, most major first; None for ``?``, the bound for ``<=N``.
        dynamic_dimensions: For each dimension, whether its size is known only at run time.
        layout: None where none is printed.
        is_tuple: Whether this is a tuple, be it empty.
        tuple_shapes: Element shapes of a tuple.
        is_buffer: Whether it is printed ``b(...)``: a buffer that is written in place.
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
        from hlo_lens.model.text_reader import reader

        return reader().shape(text)

    @classmethod
    def tuple_of(cls, shapes: Sequence[Shape]) -> Self:
        """Return the tuple of these shapes."""
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
        known: dict[int, int] = {}
        hashes = []
        for shape in self._nodes():
            key = id(shape)
            if key not in known:
                known[key] = hash(_own(shape))
            hashes.append(known[key])
        return hash(tuple(hashes))

    def __repr__(self) -> str:
        return f"Shape({self.to_text()!r})"

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, *, layout: bool = True) -> str:
        """Return the shape as XLA prints it, with or without layouts.

        A tuple has ``/*index=N*/`` before each fifth element, as XLA has it since 2021.
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
        """Whether it is a token: an ordering, without data."""
        return self.element_type == "token"

    @property
    def is_opaque(self) -> bool:
        """Whether it is an opaque handle."""
        return self.element_type == "opaque"

    @property
    def rank(self) -> int:
        """Number of dimensions; 0 for a scalar and for a tuple."""
        return len(self.dimensions)

    @property
    def memory_space(self) -> int:
        """Memory space of the layout; 0 (the default one) where none is printed."""
        return self.layout.memory_space if self.layout else 0

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
        """Like `size_bytes`, with what the first tile, ``L(n)`` and splits add or take away.

        Source: ShapeUtil::ArraySize. An array without tiles is not padded.
        """
        return self._sum(_padded_size_bytes)

    def tuple_table_bytes(self, pointer_size: int) -> int:
        """Return the bytes of this tuple's own pointer table; 0 where it is no tuple."""
        return pointer_size * len(self.tuple_shapes)

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

    def subshape(self, index: ShapeIndex) -> Shape:
        """Return the part at an index; raises UnknownNameError where there is none."""
        shape = self
        for position in index:
            if not 0 <= position < len(shape.tuple_shapes):
                message = f"no part {{{','.join(map(str, index))}}} in a shape of "
                message += f"{len(self.tuple_shapes)} elements" if self.is_tuple else "one array"
                raise UnknownNameError(message)
            shape = shape.tuple_shapes[position]
        return shape

    def _nodes(self) -> Iterator[Shape]:
        """Yield this shape and all its parts, in no particular order that users see."""
        stack = [self]
        while stack:
            shape = stack.pop()
            yield shape
            stack.extend(shape.tuple_shapes)

    def _sum(self, measure: Callable[[Shape], int | None]) -> int | None:
        """Return the sum of a measure over the leaves; None if any is unknown.

        Shapes read from one text share equal leaves, which are measured once.
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
    """Signature of a computation: ``(x: f32[8], y: f32[]) -> f32[8]``.

    Attributes:
        parameters: Shapes of the parameters, by number.
        parameter_names: Their names; empty where none are printed.
        result: Shape of the result.
    """

    parameters: tuple[Shape, ...]
    parameter_names: tuple[str, ...] = ()
    result: Shape

    def __str__(self) -> str:
        shapes = [str(shape) for shape in self.parameters]
        if self.parameter_names:
            pairs = zip(self.parameter_names, shapes, strict=True)
            shapes = [f"{name}: {shape}" for name, shape in pairs]
        return f"({', '.join(shapes)}) -> {self.result}"


def _own(shape: Shape) -> tuple[object, ...]:
    """Return what makes a node what it is, without the elements of a tuple."""
    flags = (shape.is_tuple, shape.is_buffer, len(shape.tuple_shapes))
    return (shape.element_type, shape.dimensions, shape.dynamic_dimensions, shape.layout, flags)


def _leaf_text(shape: Shape, *, layout: bool) -> str:
    """Return the text of a shape that is no tuple."""
    sizes = []
    for size, dynamic in zip(shape.dimensions, shape.dynamic_dimensions, strict=True):
        sizes.append("?" if size is None else f"<={size}" if dynamic else str(size))
    text = f"{shape.element_type}[{','.join(sizes)}]"
    if layout and shape.layout is not None:
        text += str(shape.layout)
    return f"b({text})" if shape.is_buffer else text


def _element_count(shape: Shape) -> int | None:
    """Return the number of elements of a leaf."""
    sizes = [size for size in shape.dimensions if size is not None]
    if len(sizes) != len(shape.dimensions):
        return None
    return math.prod(sizes)


def _size_bytes(shape: Shape) -> int | None:
    """Return the logical size of a leaf."""
    count = _element_count(shape)
    return None if count is None else _bytes_of(shape, count)


def _bytes_of(shape: Shape, count: int) -> int | None:
    """Return the bytes of so many elements of a leaf's type, packed where its layout packs."""
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
    if _element_count(shape) is None:
        return None
    sizes = [size or 0 for size in shape.dimensions]
    for split in layout.split_configs:
        if split.dimension < len(sizes):
            sizes[split.dimension] = split.largest_part(sizes[split.dimension])
    count = _padded_count([sizes[dimension] for dimension in layout.minor_to_major], layout)
    return _bytes_of(shape, count)


def _padded_count(sizes: Sequence[int], layout: Layout) -> int:
    """Return the padded number of elements, given the sizes of the dimensions, minor first."""
    count = 1
    joined = 1
    tile: int | None = 1
    for position, tile_size in enumerate(reversed(layout.tiles[0].dimensions)):
        size = sizes[position] if position < len(sizes) else 1
        if tile_size is None:
            joined *= size
        else:
            count *= _round_up(joined, tile or 1)
            joined, tile = size, tile_size
    count *= _round_up(joined, tile or 1)
    count *= math.prod(sizes[len(layout.tiles[0].dimensions) :])
    return _round_up(count, layout.tail_padding_alignment_in_elements)


def _round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple that is not below a number; a multiple of 0 changes nothing."""
    return -(-number // multiple) * multiple if multiple else number
