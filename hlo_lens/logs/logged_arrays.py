"""Arrays in a log: their JAX type and their sharding.

Lines such as ``jax.typeof(x): ShapedArray(float32[8@dp,4@mp])`` and ``x.sharding:
NamedSharding(...)`` are about the same array. A type has the axes of explicit meshes only; the data
may be divided along others. Axis sizes are those of the array's own mesh, else of the only mesh in
the log with these axes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from hlo_lens.logs.sharding_trail import value_words
from hlo_lens.render.result import Column, Result, Row, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hlo_lens.logs.jax_values import JaxMesh, JaxSpec, JaxValue, ShardingLog

_NAMES = re.compile(
    r"(?:jax\.)?typeof\((?P<type>[A-Za-z_]\w*)\)$|(?P<sharding>[A-Za-z_]\w*)\.sharding$"
    r"|(?P<word>[A-Za-z_]\w*)(?:\s+type|\.aval|\.shape)$|type of (?P<of>[A-Za-z_]\w*)$"
)
_SHAPE_WORDS = re.compile(r"(?<=\w) shape: \([\d, ]*\), type$")
_NEAR = 40
"""Most lines between type and sharding of one array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedArray:
    """An array of a log.

    Attributes:
        name: Its name, or the words before it.
        line: First line about it.
        type_value: Its type; None if only its sharding is printed.
        sharding_value: Its sharding; None if only its type is printed.
        mesh: Its own mesh, or the only one of the log with the axes of its type.
    """

    name: str
    line: int
    type_value: JaxValue | None
    sharding_value: JaxValue | None
    mesh: JaxMesh | None

    @property
    def placed(self) -> JaxValue | None:
        """The array with its sharding; None without a shape."""
        typed, sharding = self.type_value, self.sharding_value
        if typed is None or typed.shape is None:
            return None
        if sharding is not None:
            given = sharding
            return replace(typed, mesh=given.mesh, spec=given.spec, hlo_sharding=given.hlo_sharding)
        return replace(typed, mesh=self.mesh) if typed.spec is not None else None

    @property
    def verdict(self) -> str | None:
        """Comparison of the type with the sharding; None unless both are printed."""
        if self.type_value is None or self.sharding_value is None:
            return None
        said, true = _entries(self.type_value.spec), _entries(self.sharding_value.spec)
        if said == true:
            return "agrees"
        if not said:
            return "has no axes"
        return "has some axes" if said <= true else "differs"


def _entries(spec: JaxSpec | None) -> set[tuple[int, str]]:
    """Return dimension and axis of each division."""
    found: set[tuple[int, str]] = set()
    for place, entry in enumerate(() if spec is None else spec.entries):
        names = () if entry is None else (entry,) if isinstance(entry, str) else entry
        found |= {(place, name) for name in names}
    return found


@dataclass(frozen=True, kw_only=True)
class LoggedArrays(Result):
    """The arrays of a log, in text order."""

    KIND: ClassVar[str] = "logged-arrays"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("line", Unit.NONE, "1-based line of its first mention"),
        Column("array", Unit.NONE, "its name, or the words before it"),
        Column("type", Unit.NONE, "type as JAX prints it"),
        Column("spec", Unit.NONE, "partition spec of its data"),
        Column("mesh", Unit.NONE, "axes and their sizes"),
        Column("device_shape", Unit.NONE, "shape of one device's part"),
        Column("sharding", Unit.NONE, "in XLA's notation"),
        Column("type_says", Unit.NONE, "the type compared with the sharding"),
        Column("memory_kind", Unit.NONE, "kind of memory, if printed"),
    )
    arrays: tuple[LoggedArray, ...]

    def rows(self) -> Iterator[Row]:
        """Yield a row for each array."""
        for array in self.arrays:
            typed, sharding, placed = array.type_value, array.sharding_value, array.placed
            told = sharding if sharding is not None else typed
            spec = None if told is None else told.spec
            local = None if placed is None else placed.device_shape()
            hlo = None if placed is None else placed.sharding()
            if hlo is None and sharding is not None:
                hlo = sharding.sharding()
            manual = "" if typed is None or not typed.manual_axes else " (one device's)"
            yield (
                array.line,
                array.name,
                None if typed is None else f"{value_words(typed)}{manual}",
                None if spec is None else spec.text,
                None if array.mesh is None else array.mesh.text,
                None if local is None else local.to_text(layout=False),
                None if hlo is None else hlo.text,
                array.verdict,
                None if sharding is None else sharding.memory_kind,
            )


def logged_arrays(log: ShardingLog) -> LoggedArrays:
    """Return the arrays that a log names, or prints with the axes of their type."""
    meshes = [value.mesh for value in log.values if value.mesh is not None]
    found: list[LoggedArray] = []
    for value in log.values:
        is_type = value.shape is not None and value.kind in ("ShapedArray", "type")
        is_sharding = value.kind == "NamedSharding"
        if "=>" in value.label or not (is_type or is_sharding) or not value.label:
            continue
        name = _name(value.label)
        partner = _partner(found, name, value.line, is_type=is_type)
        if partner is not None:
            whole = found[partner]
            found[partner] = (
                replace(whole, type_value=value)
                if is_type
                else replace(whole, sharding_value=value, mesh=value.mesh)
            )
            continue
        found.append(
            LoggedArray(
                name=name,
                line=value.line,
                type_value=value if is_type else None,
                sharding_value=value if is_sharding else None,
                mesh=value.mesh if is_sharding else _mesh_of(value, meshes),
            )
        )
    return LoggedArrays(arrays=tuple(found))


def _name(label: str) -> str:
    label = _SHAPE_WORDS.sub("", label)
    match = _NAMES.search(label)
    if match is None:
        return label
    return match["type"] or match["sharding"] or match["word"] or match["of"]


def _partner(found: Sequence[LoggedArray], name: str, line: int, *, is_type: bool) -> int | None:
    """Return the index of the array of that name that lacks this half."""
    for place in range(len(found) - 1, -1, -1):
        array = found[place]
        if line - array.line > _NEAR:
            return None
        half = array.type_value if is_type else array.sharding_value
        if array.name == name and half is None:
            return place
    return None


def _mesh_of(value: JaxValue, meshes: Sequence[JaxMesh]) -> JaxMesh | None:
    """Return the mesh of the log with the axes of a type; None if meshes differ in size."""
    axes = {axis for _, axis in _entries(value.spec)}
    if not axes:
        return None
    fitting = {mesh.mesh: mesh for mesh in meshes if axes <= set(mesh.mesh.axis_names)}
    return next(iter(fitting.values())) if len(fitting) == 1 else None
