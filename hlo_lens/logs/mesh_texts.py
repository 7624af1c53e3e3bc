"""Meshes printed in parts: the sizes of axes, their types, the ids of devices.

``mesh.shape`` is an OrderedDict of axis names and sizes. Programs print other OrderedDicts too, so
one is read as a mesh only if the lines around it contain the word. ``mesh.device_ids`` and
``mesh.devices`` are numpy arrays; an array after a mesh belongs to it if it has its dimensions and
each device once. Mirrors: jax/_src/mesh.py of jax 0.4.20 to 0.12.0; the repr of OrderedDict in
Python 3.11 and 3.12; numpy/_core/arrayprint.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from hlo_lens.logs.jax_values import JaxMesh, JaxValue
from hlo_lens.logs.log_text import line_end
from hlo_lens.shapes.mesh import MOST_DEVICES, Mesh
from hlo_lens.shapes.tile_assignment import TileAssignment

_PAIR = r"\('[^'\n]{1,80}', \d{1,9}\)"
_ITEM = r"'[^'\n]{1,80}': \d{1,9}"
MESH_SHAPE = re.compile(
    rf"OrderedDict\((?:\[(?P<pairs>{_PAIR}(?:, {_PAIR}){{0,31}})\]"
    rf"|\{{(?P<items>{_ITEM}(?:, {_ITEM}){{0,31}})\}})\)"
)
"""``OrderedDict([('x', 4), ('y', 2)])``, since Python 3.12 ``OrderedDict({'x': 4, 'y': 2})``."""

_AXIS = re.compile(r"'([^']+)'(?:,|:) (\d+)")
_TYPE = r"(?:AxisType\.)?(?:Auto|Explicit|Manual)"
_TYPES = re.compile(rf"(?i:types?)\w*[^\w\n(]{{1,4}}\(({_TYPE}(?:, {_TYPE})*),?\)")
_MESH_WORD = re.compile(r"(?i)mesh")
_LINES_BEFORE = 2
"""Most lines between the word "mesh" and the sizes."""

_LONGEST_TABLE = 1 << 16
_TABLE = re.compile(
    r"[^\S\n]*(?P<label>[^\[\n]{0,120}?)(?:\n[^\S\n]*)?(?:array\()?"
    r"(?P<rows>\[[\[\s]*(?:[A-Za-z]\w*\(id=)?\d[\w\s,=()\[\]]*\])"
)
_DEVICE_WORD = re.compile(r"(?i)\bdevices?\b|device_ids")
_DEVICE = re.compile(r"[A-Za-z]\w*\(id=(\d{1,9})[^()\[\]]*(?:\([\d, ]*\)[^()\[\]]*)*\)")
_ROW = re.compile(r"[\[\]]|\d{1,9}")


def read_mesh_shape(text: str, start: int) -> tuple[JaxValue, int] | None:
    """Return the mesh whose sizes begin at an offset, and its end; None if it is none."""
    match = MESH_SHAPE.match(text, start)
    if match is None or not _speaks_of_mesh(text, start):
        return None
    axes = _AXIS.findall(match["pairs"] or match["items"])
    sizes = tuple(int(size) for _, size in axes)
    names = tuple(name for name, _ in axes)
    if len(set(names)) != len(names) or not 0 < math.prod(sizes) <= MOST_DEVICES:
        return None
    types = _TYPES.search(text, match.end(), line_end(text, match.end()))
    words = () if types is None else tuple(types[1].replace("AxisType.", "").split(", "))
    mesh = JaxMesh(
        mesh=Mesh(axis_names=names, axis_sizes=sizes),
        axis_types=words if len(words) == len(names) else (),
    )
    return JaxValue(kind="Mesh", text=match[0], mesh=mesh), match.end()


def with_device_ids(value: JaxValue, text: str, end: int) -> tuple[JaxValue, int]:
    """Return a mesh with the device ids that are printed below it, and their end.

    Args:
        value: A mesh.
        text: The log.
        end: Offset of the end of the mesh.
    """
    stop = line_end(text, end)
    match = _TABLE.match(text, stop + 1, min(len(text), stop + _LONGEST_TABLE))
    if match is None or value.mesh is None or value.mesh.is_abstract:
        return value, end
    has_names = _DEVICE.search(match["rows"]) is not None
    if not has_names and _DEVICE_WORD.search(match["label"]) is None:
        return value, end
    rows = _closed(_DEVICE.sub(r"\1", match["rows"]))
    mesh = value.mesh.mesh
    found = _dimensions(rows)
    if found is None or found[0] != mesh.axis_sizes or len(set(found[1])) != mesh.size:
        return value, end
    ids = found[1]
    assignment = None
    if ids != tuple(range(len(ids))):
        assignment = TileAssignment(dimensions=mesh.axis_sizes, device_ids=ids)
    table_end = match.start("rows") + len(_closed(match["rows"]))
    whole = replace(value.mesh, mesh=replace(mesh, device_assignment=assignment))
    return replace(value, mesh=whole), table_end


def _speaks_of_mesh(text: str, start: int) -> bool:
    """Whether the line of an offset, or one shortly before it, names a mesh."""
    first = start
    for _ in range(_LINES_BEFORE + 1):
        first = text.rfind("\n", max(0, start - 1000), first)
        if first < 0:
            break
    return _MESH_WORD.search(text, max(0, first, start - 1000), line_end(text, start)) is not None


def _closed(rows: str) -> str:
    """Return a text up to the bracket that closes the first one."""
    depth = 0
    for place, character in enumerate(rows):
        depth += (character == "[") - (character == "]")
        if depth == 0:
            return rows[: place + 1]
    return rows


def _dimensions(rows: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return dimensions and elements of a printed array; None if its rows differ in length."""
    counts: list[int] = []
    sizes: dict[int, set[int]] = {}
    elements: list[int] = []
    for token in _ROW.findall(rows):
        if token == "[":
            counts.append(0)
        elif token == "]":
            if not counts:
                return None
            sizes.setdefault(len(counts), set()).add(counts.pop())
            if counts:
                counts[-1] += 1
        elif counts:
            counts[-1] += 1
            elements.append(int(token))
    dims = tuple(next(iter(sizes[depth])) for depth in sorted(sizes))
    if counts or any(len(found) != 1 for found in sizes.values()):
        return None
    return (dims, tuple(elements)) if math.prod(dims) == len(elements) else None
