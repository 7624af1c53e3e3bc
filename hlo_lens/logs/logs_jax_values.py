"""Reader of the shardings, meshes and types that JAX prints into logs.

Values are found by their first word and end where their brackets close; the grammar parses them. A
call whose arguments are names is source code (as in notebooks): it is counted, and no gap.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from hlo_lens.logs.jax_items import (
    Call,
    CodeError,
    Item,
    Name,
    Shaped,
    array_type,
    parse_item,
    xla_shape,
)
from hlo_lens.logs.jax_values import UNCONSTRAINED, Entry, JaxMesh, JaxSpec, JaxValue
from hlo_lens.shapes.mesh import MOST_DEVICES, Mesh
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.shapes.tile_assignment import TileAssignment
from hlo_lens.text.errors import DumpSyntaxError, HloLensError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hlo_lens.text.source import Source


LONGEST = 1 << 15
"""Most characters of a value."""

START = re.compile(
    r"(?<![\w.])(?:(?:jax\.sharding\.|jax\.)?"
    r"(?:AbstractMesh|Mesh|NamedSharding|PartitionSpec|ShapeDtypeStruct|ShapedArray"
    r")|P)\("
)
"""Start of a value that is a call."""


def read_value(source: Source, start: int) -> tuple[JaxValue, int] | None:
    """Return the value at an offset and its end; None if its brackets do not close.

    Raises:
        CodeError: If it is a call in source code.
        DumpSyntaxError: If the grammar refuses it, or it has no meaning.
    """
    text = source.text
    end = _end(text, start)
    if end is None:
        if text.find("\n", start, start + LONGEST) < 0 and len(text) - start < LONGEST:
            raise DumpSyntaxError("the value is cut off", path=source.path)
        return None
    value = parse_value(text[start:end])
    return None if value is None else (value, end)


def parse_value(text: str) -> JaxValue | None:
    """Return the value in a text; None if it is of an unknown kind.

    Raises:
        CodeError: If it is a call in source code.
        DumpSyntaxError: If the grammar refuses it.
    """
    printed = " ".join(text.split())
    try:
        value = _meaning(parse_item(text))
    except HloLensError as error:
        raise DumpSyntaxError(str(error)) from error
    return None if value is None else replace(value, text=printed)


def values_of(text: str) -> tuple[JaxValue, ...]:
    """Return the values in a text: those of a list or tuple, or a single one.

    Raises:
        CodeError: If it is source code.
        DumpSyntaxError: If the grammar refuses it.
    """
    found = []
    try:
        item = parse_item(text)
        for one in item if isinstance(item, tuple) else (item,):
            value = _meaning(one)
            if value is not None:
                found.append(value)
    except HloLensError as error:
        raise DumpSyntaxError(str(error)) from error
    return tuple(found)


_PAIRS = {"(": ")", "[": "]", "{": "}"}
_BRACKET = re.compile(r"[()\[\]{}\n]|'(?:[^'\\\n]|\\.){0,1000}+'|\"(?:[^\"\\\n]|\\.){0,1000}+\"")
_MOST_LINES = 64
_DEEPEST = 32
"""Deepest nesting of brackets in a value; without a limit, nested brackets cost quadratic time."""


def _end(text: str, start: int) -> int | None:
    """Return the end of the brackets of a value; None if they do not close."""
    open_ones: list[str] = []
    lines = 0
    for match in _BRACKET.finditer(text, start, start + LONGEST):
        character = match[0]
        if character in _PAIRS:
            open_ones.append(_PAIRS[character])
            if len(open_ones) > _DEEPEST:
                return None
        elif character == "\n":
            lines += 1
            if lines > _MOST_LINES:
                return None
        elif character in ")]}":
            if not open_ones or open_ones.pop() != character:
                return None
            if not open_ones:
                return match.end()
    return None


# ---- items to values ---------------------------------------------------------------------------


def _meaning(item: Item) -> JaxValue | None:
    """Return the value of an item; None if it is of an unknown kind."""
    if isinstance(item, HloSharding):
        return JaxValue(kind="HloSharding", text=item.text, hlo_sharding=item)
    if isinstance(item, Shaped):
        return array_type(item)
    make = _KINDS.get(item.name) if isinstance(item, Call) else None
    return make(item) if make is not None and isinstance(item, Call) else None


def _mesh(call: Call) -> JaxValue:
    ids: tuple[int, ...] | None = None
    if call.axes:
        names = tuple(name for name, _ in call.axes)
        sizes = _integers(tuple(size for _, size in call.axes))
    else:
        names = tuple(str(name) for name in _tuple(call.keywords.get("axis_names")))
        sizes = _integers(_tuple(call.keywords.get("axis_sizes")))
        array = call.keywords.get("device_ids")
        if array is not None:
            dims, ids = _array(array)
            sizes = dims
    if len(names) != len(sizes) or not names:
        if call.arguments or not call.keywords:
            raise CodeError
        raise DumpSyntaxError("a mesh without axes, or with another number of sizes")
    if any(size < 1 for size in sizes) or len(set(names)) != len(names):
        raise DumpSyntaxError("a mesh with an axis of no size, or the same axis twice")
    assignment = None
    if ids is not None and ids != tuple(range(len(ids))):
        assignment = TileAssignment(dimensions=sizes, device_ids=ids)
    types = tuple(str(t).rpartition(".")[2] for t in _tuple(call.keywords.get("axis_types")))
    mesh = Mesh(axis_names=names, axis_sizes=sizes, device_assignment=assignment)
    if mesh.size > MOST_DEVICES:
        raise DumpSyntaxError(f"a mesh of more than {MOST_DEVICES} devices")
    return JaxValue(kind="Mesh", mesh=JaxMesh(mesh=mesh, axis_types=types))


def _abstract_mesh(call: Call) -> JaxValue:
    value = _mesh(call)
    mesh = value.mesh
    return replace(
        value, kind="AbstractMesh", mesh=None if mesh is None else replace(mesh, is_abstract=True)
    )


def _array(item: Item) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the dimensions and elements of ``array([[0, 1], [2, 3]])``."""
    if not isinstance(item, Call):
        raise CodeError
    rows: Item = item.arguments[0] if item.arguments else ()
    dims: list[int] = []
    level: list[Item] = [rows]
    while level and all(isinstance(one, tuple) for one in level):
        sizes = {len(one) for one in level if isinstance(one, tuple)}
        if len(sizes) != 1:
            raise DumpSyntaxError("an array whose rows differ in length")
        dims.append(sizes.pop())
        level = [item for one in level if isinstance(one, tuple) for item in one]
    return tuple(dims), _integers(tuple(level))


def _named_sharding(call: Call) -> JaxValue:
    given = [*call.arguments]
    mesh = call.keywords.get("mesh", given.pop(0) if given else None)
    spec = call.keywords.get("spec", call.keywords.get("partition_spec"))
    spec = spec or (given.pop(0) if given else None)
    mesh_value, spec_value = _meaning(mesh), _meaning(spec)
    if mesh_value is None or mesh_value.mesh is None or spec_value is None:
        raise CodeError
    return JaxValue(
        kind="NamedSharding",
        mesh=mesh_value.mesh,
        spec=spec_value.spec,
        memory_kind=_word(call.keywords.get("memory_kind")),
    )


def _partition_spec(call: Call) -> JaxValue:
    entries: list[Entry] = []
    for entry in call.arguments:
        if entry is None or (isinstance(entry, str) and not isinstance(entry, (Name, Shaped))):
            entries.append(entry)
        elif isinstance(entry, Name) and UNCONSTRAINED.lower() in entry.lower():
            entries.append(UNCONSTRAINED)
        elif isinstance(entry, tuple):
            if any(not isinstance(axis, str) or isinstance(axis, Name) for axis in entry):
                raise CodeError
            entries.append(tuple(str(axis) for axis in entry) or None)
        else:
            raise CodeError
    return JaxValue(
        kind="PartitionSpec",
        spec=JaxSpec(
            entries=tuple(entries),
            unreduced=_names(call.keywords.get("unreduced")),
            reduced=_names(call.keywords.get("reduced")),
        ),
    )


def _shape_dtype_struct(call: Call) -> JaxValue:
    if call.arguments or "shape" not in call.keywords:
        raise CodeError
    dtype = _word(call.keywords.get("dtype")) or ""
    dims = _integers(_tuple(call.keywords["shape"]))
    sharding = call.keywords.get("sharding")
    found = None if sharding is None else _meaning(sharding)
    value = JaxValue(
        kind="ShapeDtypeStruct", shape=xla_shape(dtype, dims), dtype=dtype.rpartition(".")[2]
    )
    if found is None:
        return value
    return replace(
        value,
        mesh=found.mesh,
        spec=found.spec,
        hlo_sharding=found.hlo_sharding,
        memory_kind=found.memory_kind,
    )


def _shaped_array(call: Call) -> JaxValue:
    if len(call.arguments) != 1 or not isinstance(call.arguments[0], Shaped):
        raise CodeError
    return replace(array_type(call.arguments[0]), kind="ShapedArray")


_KINDS: Mapping[str, Callable[[Call], JaxValue]] = {
    "Mesh": _mesh,
    "AbstractMesh": _abstract_mesh,
    "NamedSharding": _named_sharding,
    "PartitionSpec": _partition_spec,
    "P": _partition_spec,
    "ShapeDtypeStruct": _shape_dtype_struct,
    "ShapedArray": _shaped_array,
}


def _tuple(item: Item) -> tuple[Item, ...]:
    if item is None:
        return ()
    if isinstance(item, tuple):
        return item
    raise CodeError


def _integers(items: tuple[Item, ...]) -> tuple[int, ...]:
    found = tuple(item for item in items if isinstance(item, int))
    if len(found) != len(items):
        raise CodeError
    return found


def _names(item: Item) -> tuple[str, ...]:
    """Return the axes in a set, also in ``frozenset({'x'})``."""
    if isinstance(item, Call):
        item = item.arguments[0] if item.arguments else ()
    return tuple(str(name) for name in _tuple(item))


def _word(item: Item) -> str | None:
    return str(item) if isinstance(item, str) else None
