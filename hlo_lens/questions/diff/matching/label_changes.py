"""Differences of two labels in words: opcode, shape, literal, attributes, configuration."""

from __future__ import annotations

from itertools import chain, starmap
from typing import TYPE_CHECKING

from hlo_lens.questions.diff.matching.edits import Change
from hlo_lens.shapes.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hlo_lens.questions.diff.matching.labels import Labels

_LONGEST = 200
_BARRIER = "barrier_config.id"
SHAPE_WORDS = frozenset({"shape", "element type", "layout", "memory space", "tuple elements"})
"""Names of differences of shapes."""


def label_changes(labels: Labels, mine: int, yours: int) -> Iterator[Change]:
    """Yield the differences of two labels."""
    a, b = labels.parts[mine], labels.parts[yours]
    if a.opcode != b.opcode:
        yield Change(what="opcode", base=a.opcode, head=b.opcode)
    if a.shape != b.shape:
        yield from shape_changes(labels.shapes[a.shape], labels.shapes[b.shape])
    if a.detail != b.detail and a.opcode == b.opcode:
        what = "parameter number" if a.opcode == "parameter" else "value"
        yield Change(what=what, base=_cut(str(a.detail)), head=_cut(str(b.detail)))
    if a.attributes != b.attributes:
        mine_read, yours_read = labels.attributes[a.attributes], labels.attributes[b.attributes]
        yield from _attribute_changes(mine_read, yours_read)
    if a.config != b.config:
        yield from _config_changes(labels, a.config, b.config)


def _cut(text: str | None) -> str | None:
    """Return a text, or its start if it is long."""
    return text if text is None or len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def shape_changes(mine: Shape | str, yours: Shape | str) -> Iterator[Change]:
    """Yield the differences of two shapes: element type, dimensions, layout."""
    if not isinstance(mine, Shape) or not isinstance(yours, Shape):
        yield Change(what="shape", base=str(mine) or None, head=str(yours) or None)
        return
    if mine.is_tuple or yours.is_tuple:
        yield from _tuple_changes(mine, yours)
        return
    if mine.element_type != yours.element_type:
        yield Change(what="element type", base=mine.element_type, head=yours.element_type)
    mine_sizes, your_sizes = _sizes(mine), _sizes(yours)
    if mine_sizes != your_sizes:
        yield Change(what="shape", base=mine_sizes, head=your_sizes)
    if mine.memory_space != yours.memory_space:
        yield Change(what="memory space", base=str(mine.memory_space), head=str(yours.memory_space))
    if mine.rank == yours.rank and _layout(mine) != _layout(yours):
        yield Change(what="layout", base=_layout(mine), head=_layout(yours))


def _tuple_changes(mine: Shape, yours: Shape) -> Iterator[Change]:
    """Yield the differences of the elements of two tuples; equal ones once."""
    a, b = mine.tuple_shapes, yours.tuple_shapes
    if mine.is_tuple != yours.is_tuple or len(a) != len(b):
        if mine.is_tuple and yours.is_tuple:
            yield Change(what="tuple elements", base=str(len(a)), head=str(len(b)))
        else:
            yield Change(what="shape", base=_kind(mine), head=_kind(yours))
        return
    pairs = {(id(x), id(y)): (x, y) for x, y in zip(a, b, strict=True) if x is not y}
    yield from dict.fromkeys(chain.from_iterable(starmap(_element_changes, pairs.values())))


def _element_changes(mine: Shape, yours: Shape) -> Iterator[Change]:
    if not mine.is_tuple and not yours.is_tuple:
        yield from shape_changes(mine, yours)
    elif mine != yours:
        yield Change(what="shape", base=_cut(mine.to_text()), head=_cut(yours.to_text()))


def _kind(shape: Shape) -> str:
    """Return an array's shape, or the number of elements of a tuple."""
    if shape.is_tuple:
        return f"tuple of {len(shape.tuple_shapes)}"
    return shape.to_text(layout=False)


def _sizes(shape: Shape) -> str:
    text = shape.to_text(layout=False)
    return text[text.find("[") :] if "[" in text else text


def _layout(shape: Shape) -> str | None:
    """Return a layout without its memory space, which is listed separately."""
    text = "" if shape.layout is None else str(shape.layout)
    return text.replace(f"S({shape.memory_space})", "").replace(":}", "}") or None


def _attribute_changes(
    mine: Mapping[str, tuple[object, str]], yours: Mapping[str, tuple[object, str]]
) -> Iterator[Change]:
    for name in dict.fromkeys((*mine, *yours)):
        a, b = mine.get(name), yours.get(name)
        if (a and a[0]) == (b and b[0]) and (a is None) == (b is None):
            continue
        yield Change(what=name, base=_value(a), head=_value(b))


def _value(value: tuple[object, str] | None) -> str | None:
    """Return an attribute as written; for a channel only that there is one."""
    return None if value is None else _cut(value[1] or "yes")


def _config_changes(labels: Labels, mine: int, yours: int) -> Iterator[Change]:
    a, b = (None if n < 0 else labels.configs[n] for n in (mine, yours))
    left, right = (None if side is None else side[0] for side in (a, b))
    if isinstance(left, dict) and isinstance(right, dict):
        flat, other = dict(_flat(left)), dict(_flat(right))
        paths = [path for path in dict.fromkeys((*flat, *other)) if path != _BARRIER]
        differ = [path for path in paths if flat.get(path) != other.get(path)]
        for path in differ:
            before, after = flat.get(path), other.get(path)
            yield Change(what=f"backend_config.{path}", base=_cut(before), head=_cut(after))
        if differ:
            return  # else paths and values do not show the difference: "1" and 1
    yield Change(what="backend_config", base=_cut(a and a[1]), head=_cut(b and b[1]))


def _flat(value: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield paths and values of a nested configuration; lists are values."""
    stack: list[tuple[str, object]] = [(key, inner) for key, inner in reversed([*value.items()])]
    while stack:
        path, inner = stack.pop()
        if isinstance(inner, dict) and inner:
            stack.extend((f"{path}.{key}", part) for key, part in reversed(list(inner.items())))
        else:
            yield path, repr(inner) if not isinstance(inner, str) else inner
