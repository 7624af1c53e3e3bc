"""Partition specs: mesh axes recovered from an array of devices.

Source: jax/_src/sharding_impls.py (parse_flatten_op_sharding, unflatten_array) of jax 0.10.2; the
steps and their order are the same, so that the results are.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.shapes.tile_assignment import TileAssignment, nested_loops
from hlo_lens.text.errors import UsageError
from hlo_lens.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.shapes.mesh import Mesh

PartitionSpec: TypeAlias = tuple[str | tuple[str, ...] | None, ...]
"""For each dimension: not divided, divided by one mesh axis, or by several, most major first."""


def partition_spec(
    mesh: Mesh, tile_counts: Sequence[int], tiles: TileAssignment
) -> PartitionSpec | None:
    """Return the mesh axes that divide each dimension; None if no axes match these devices.

    Args:
        mesh: The mesh.
        tile_counts: Number of tiles of each dimension.
        tiles: Devices of the tiles; further dimensions are ignored.
    """
    order = _axis_order(mesh, tiles)
    if order is None:
        return None
    axes = iter(order)
    entries: list[tuple[str, ...]] = []
    for count in tile_counts:
        taken = _taken(count, axes)
        if taken is None:
            return None
        entries.append(taken)
    return spec_of_axes(entries)


def spec_of_axes(axes: list[tuple[str, ...]]) -> PartitionSpec:
    """Return the partition spec of the axes of each dimension, without undivided ones at the end.

    >>> spec_of_axes([("x",), (), ("y", "z"), ()])
    ('x', None, ('y', 'z'))
    """
    while axes and not axes[-1]:
        axes.pop()
    return tuple(names[0] if len(names) == 1 else names or None for names in axes)


def partition_spec_text(spec: PartitionSpec) -> str:
    """Return a partition spec as JAX prints it since 0.7.

    >>> partition_spec_text((None, ("x", "y"))), partition_spec_text(("x",))
    ("P(None, ('x', 'y'))", "P('x',)")
    """
    return f"P{spec!r}"


_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_SPEC_WORD = lazy_pattern(rf"{_QUOTED}|(?<![\w.'\"])([A-Za-z_][\w.]*)(?![\w.'\"])")
"""A string, which may be any axis, or a name without quotes."""


def read_partition_spec(text: str) -> PartitionSpec:
    """Return the partition spec of a text: ``x,None``, ``('x','y'),None``, ``P('x')``.

    Quotes are optional, and so are ``P`` and its parentheses. A tuple that is no group of axes is
    the whole spec, as ``str(tuple(spec))`` prints it: ``('x', None)``.

    Raises:
        UsageError: If it is malformed.

    >>> read_partition_spec("(x,y),None"), read_partition_spec("P('x')"), read_partition_spec("")
    ((('x', 'y'), None), ('x',), ())
    """
    words = _SPEC_WORD.sub(
        lambda m: m[0] if m[1] in (None, "None") else repr(m[1]), _without_call(text)
    )
    message = f"not a partition spec: {text!r}; write it like x,None or ('x','y'),None"
    if re.search(r"""[\w'"]\s+[\w'"]""", re.sub(_QUOTED, "''", words)):
        raise UsageError(message)
    try:
        with warnings.catch_warnings(action="error", category=SyntaxWarning):  # 0in: 0 in ...
            found: object = ast.literal_eval(f"({words},)" if words else "()")
    except (
        SyntaxError,
        SyntaxWarning,
        ValueError,
        TypeError,
        MemoryError,
        RecursionError,
    ) as error:
        raise UsageError(message) from error
    if isinstance(found, tuple) and len(found) == 1 and _is_spec(found[0]):
        found = found[0]
    entries: list[str | tuple[str, ...] | None] = []
    for entry in found if isinstance(found, tuple) else ():
        if isinstance(entry, (tuple, list)) and all(isinstance(axis, str) for axis in entry):
            entries.append(tuple(entry) if entry else None)
        elif entry is None or isinstance(entry, str):
            entries.append(entry)
        else:
            raise UsageError(message)
    return tuple(entries)


def _is_spec(entry: object) -> bool:
    """Whether a tuple has an entry that no group of axes has: None, or a group."""
    return isinstance(entry, tuple) and any(e is None or isinstance(e, tuple) for e in entry)


def _without_call(text: str) -> str:
    """Return the entries inside ``P(...)`` or ``PartitionSpec(...)``, without a last comma."""
    match = re.fullmatch(r"\s*(?:P|PartitionSpec)\((.*)\)\s*", text, re.DOTALL)
    return (match[1] if match else text).strip().removesuffix(",").strip()


def _taken(count: int, axes: Iterator[tuple[str, int]]) -> tuple[str, ...] | None:
    """Return the next axes whose sizes multiply to a number of tiles; None if they do not."""
    names = []
    while count > 1:
        name, size = next(axes, ("", 0))
        if not size or count % size:
            return None
        count //= size
        names.append(name)
    return tuple(names)


def _axis_order(mesh: Mesh, tiles: TileAssignment) -> list[tuple[str, int]] | None:
    """Return names and sizes of the axes in the order whose nested loops give the devices."""
    devices = tiles.devices()
    if mesh.device_assignment is not None:
        places = {device: place for place, device in enumerate(mesh.device_ids)}
        devices = tuple(places.get(device, -1) for device in devices)
    if len(devices) != mesh.size:
        return None
    names: dict[tuple[int, int], str] = {}
    sizes: dict[int, int] = {}
    stride = mesh.size
    for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True):
        if size != 1:
            stride //= size
            names[size, stride] = name
            sizes[stride] = size
    loops = nested_loops(devices)
    split = None if loops is None else _split_loops(loops, sizes)
    if split is None:
        return None
    return [(names[loop], loop[0]) for loop in split]


def _split_loops(
    loops: list[tuple[int, int]], sizes: dict[int, int]
) -> list[tuple[int, int]] | None:
    """Return the loops, outermost first, each split into axes; `sizes` is by stride."""
    result: list[tuple[int, int]] = []
    for whole, first_stride in reversed(loops):
        size, stride = whole, first_stride
        split: list[tuple[int, int]] = []
        while size > 1:
            axis = sizes.get(stride, 0)
            if not axis or size % axis:
                return None
            split.append((axis, stride))
            size //= axis
            stride *= axis
        result += reversed(split)
    return result
