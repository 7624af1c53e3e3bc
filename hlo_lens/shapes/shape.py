"""Shapes: layouts, arrays, tuples, buffers, and their sizes in bytes.

Two sizes are kept apart. `Shape.size_bytes` counts the elements alone, whatever the layout does
with them (only ``E(n)`` packs them). `Shape.padded_size_bytes` adds the padding of the first tile,
as a TPU allocates. Neither counts the pointer table of a tuple.

Sources: xla/shape_util.cc (ByteSizeOfElements, ArraySize, PrintHumanString), xla/layout.cc
(Layout::Print), as of August 2026.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from hlo_lens.shapes.primitive_type import primitive_type
from hlo_lens.shapes.tiling import SplitConfig, Tile, padded_count

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
        index_primitive_type: ``#(type)``, None if not printed.
        pointer_primitive_type: ``*(type)``, None if not printed.
        split_configs: ``SC(...)``.
        physical_shape: ``P(shape)`` of a sparse array.
        dynamic_shape_metadata_prefix_bytes: ``M(n)``.
        dim_level_types: ``D(...)`` as printed from 2022 to 2025, for example ``("D", "C+")``.
        other_properties: Unknown properties, as written.
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
        order = ",".join(map(str, self.minor_to_major))
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
        known = [name + value for name, value in parts if value]  # in XLA's order
        properties = "".join((*known, *self.other_properties))
        return f"{{{order}:{properties}}}" if properties else f"{{{order}}}"


def _in_parentheses(value: object) -> str:
    """Return a value in parentheses; empty for None."""
    return "" if value is None else f"({value})"


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
        from hlo_lens.hlo.text_reader import reader

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
        """Yield this shape and all its parts, in any order."""
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
            sizes[split.dimension] = split.largest_part(sizes[split.dimension])
    ordered = [sizes[dimension] for dimension in layout.minor_to_major]
    alignment = layout.tail_padding_alignment_in_elements
    count = padded_count(ordered, layout.tiles[0].dimensions, alignment)
    return _bytes_of(shape, count)
