"""What the shardings of a log say together: the trail of decisions, arrays, and drawings.

A tracer prints lines ``function => name : value``. Consecutive values of one function are one call;
functions whose name begins with ``OUT`` or ends in ``OUTPUT`` print returned values. Two shardings
place elements alike if every device holds the same part, as ``P('x', 'y')`` and ``P('x', None)`` do
if the axis y has size 1.

Lines such as ``jax.typeof(x): ShapedArray(float32[8@dp,4@mp])`` and ``x.sharding:
NamedSharding(...)`` are about the same array. A type has the axes of explicit meshes only; the data
may be divided along others.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from hlo_lens.logs.shardings import JaxMesh, JaxValue
from hlo_lens.render.result import Records, Unit
from hlo_lens.shapes.mesh import Mesh, TileAssignment
from hlo_lens.shapes.named_sharding import ShardingKind, partition_spec_text
from hlo_lens.shapes.sharding import HloSharding
from hlo_lens.text.errors import HloLensError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hlo_lens.logs.shardings import ShardingBoxes, ShardingLog
    from hlo_lens.shapes.shape import Shape


@dataclass(frozen=True)
class ValueCells:
    """A value as text."""

    kind: Annotated[str, "class of the value"]
    value: Annotated[str, "sharding, mesh or type"]
    shape: Annotated[str | None, "global shape, if the value has one"]
    device_shape: Annotated[str | None, "shape of one device's part"]
    sharding: Annotated[str | None, "in XLA's notation"]

    @classmethod
    def of(cls, value: JaxValue) -> ValueCells:
        """Return the cells of a value."""
        sharding = value.sharding()
        return cls(
            value.kind,
            value.words,
            _shape_text(value.shape),
            _shape_text(value.device_shape()),
            None if sharding is None else sharding.text,
        )


def _shape_text(shape: Shape | None) -> str | None:
    return None if shape is None else shape.to_text(layout=False)


# ---- the trail ---------------------------------------------------------------------------------


class TracedCall(NamedTuple):
    """One call of a function.

    Attributes:
        function: Its name, as printed.
        is_answer: Whether the values are returned, not received.
        steps: Name and values, several for a list, in text order.
        line: Line of the first step.
        times: Number of repeats with equal values, also in a cycle with other repeated calls.
    """

    function: str
    is_answer: bool
    steps: tuple[tuple[str, tuple[JaxValue, ...]], ...]
    line: int
    times: int = 1


@dataclass(frozen=True)
class _Step:
    line: Annotated[int, "1-based line, of the first time"]
    times: Annotated[int, Unit.COUNT, "number of repeats in a row"]
    function: Annotated[str, "function that printed it"]
    direction: Annotated[str, "given (received) or answered (returned)"]
    name: Annotated[str, "printed name of the value"]


@dataclass(frozen=True)
class TracedValue(ValueCells, _Step):
    """A value that a function received or returned."""


class ShardingChange(NamedTuple):
    """Two different shardings of one result, printed one after the other."""

    line: Annotated[int, "1-based line of the first"]
    said: Annotated[str, "sharding"]
    by: Annotated[str, "function that printed it"]
    next_line: Annotated[int, "1-based line of the next"]
    then: Annotated[str, "sharding"]
    next_by: Annotated[str, "function that printed it"]
    places_alike: Annotated[bool, "whether every device holds the same part"]
    values: tuple[JaxValue, JaxValue]


@dataclass(frozen=True)
class ShardingChanges(Records[ShardingChange]):
    """Changes of the printed sharding of the result, in text order."""

    KIND: ClassVar[str] = "sharding-changes"
    changes: tuple[ShardingChange, ...]


class LocalShapeCheck(NamedTuple):
    """A printed per-device shape, compared with that of the result's last sharding."""

    line: Annotated[int, "1-based line"]
    name: Annotated[str, "words before the shape"]
    printed: Annotated[str | None, "shape"]
    expected: Annotated[str | None, "shape of a device's part"]
    agrees: Annotated[bool | None, "whether both are equal"]


@dataclass(frozen=True)
class DeviceShapes(Records[LocalShapeCheck]):
    """Printed per-device shapes, in text order."""

    KIND: ClassVar[str] = "device-shapes"
    checks: tuple[LocalShapeCheck, ...]


@dataclass(frozen=True, kw_only=True)
class ShardingTrail(Records[TracedValue]):
    """Calls of a trace, in text order.

    Attributes:
        values: Their values.
        calls: All calls, repeats folded.
        changes: Changes of the printed sharding of the result.
        checks: Printed per-device shapes, compared with the shardings.
    """

    KIND: ClassVar[str] = "sharding-trail"
    values: tuple[TracedValue, ...]
    calls: tuple[TracedCall, ...]
    changes: tuple[ShardingChange, ...]
    checks: tuple[LocalShapeCheck, ...]


_ANSWER = re.compile(r"(?:OUT(?:PUT)?_)|_OUT(?:PUT)?$", re.IGNORECASE)
_RESULT_SHARDING = re.compile(r"(?:result|out)\w*[ .]?\w*shardings?$", re.IGNORECASE)
_RESULT_SHAPE = re.compile(r"(?:result|out)_?(?:shape|aval)s?$", re.IGNORECASE)
_LOCAL = re.compile(r"tiled|out_avals|local|shard", re.IGNORECASE)
_LONGEST_CYCLE = 16


def sharding_trail(log: ShardingLog) -> ShardingTrail:
    """Return the trace in a log; without calls if no line names a function."""
    calls = tuple(_folded(list(_calls(log.values))))
    values = tuple(
        TracedValue(
            *(value.line, call.times, call.function, "answered" if call.is_answer else "given"),
            name,
            *astuple(ValueCells.of(value)),
        )
        for call in calls
        for name, step in call.steps
        for value in step
    )
    changes, checks = tuple(_changes(calls)), tuple(_checks(calls))
    return ShardingTrail(values=values, calls=calls, changes=changes, checks=checks)


def _calls(values: Sequence[JaxValue]) -> Iterator[TracedCall]:
    """Yield the calls in lines ``function => name : value``; a repeated name begins another."""
    function, line, last_line = "", 0, 0
    steps: dict[str, list[JaxValue]] = {}

    def call() -> TracedCall:
        is_answer = _ANSWER.search(function) is not None
        return TracedCall(function, is_answer, tuple((k, tuple(v)) for k, v in steps.items()), line)

    for value in values:
        who, arrow, name = (word.strip() for word in value.label.partition("=>"))
        if not (who and arrow and name):  # a line may name the function once
            who = function if value.line == last_line else ""
            name = value.label.strip(" ,;)|]") or "value"
        if not who:
            continue
        if who != function or (name in steps and value.line != last_line):
            if steps:
                yield call()
            steps = {}
            function, line = who, value.line
        steps.setdefault(name, []).append(value)
        last_line = value.line
    if steps:
        yield call()


def _folded(calls: list[TracedCall]) -> Iterator[TracedCall]:
    """Yield the calls; a repeated cycle of calls is yielded once, with its count."""
    place = 0
    while place < len(calls):
        keys = [(call.function, call.steps) for call in calls[place:]]
        length = times = 1
        for size in range(1, min(_LONGEST_CYCLE, len(keys) // 2) + 1):
            repeats = 1
            while keys[repeats * size : (repeats + 1) * size] == keys[:size]:
                repeats += 1
            if repeats > 1:
                length, times = size, repeats
                break
        for call in calls[place : place + length]:
            yield call._replace(times=times)
        place += length * times


def _changes(calls: Sequence[TracedCall]) -> Iterator[ShardingChange]:
    """Yield the changes of the printed sharding of the result."""
    before: JaxValue | None = None
    who = ""
    for call in calls:
        for name, (value, *_) in call.steps:
            is_said = _RESULT_SHARDING.search(name) or _RESULT_SHAPE.search(name)
            if not is_said or (after := value.sharding()) is None:
                continue
            if before is not None and before.words == value.words:
                continue
            if before is not None and (sharding := before.sharding()) is not None:
                alike = sharding.equivalent(after)
                said = (
                    (before.line, _short(before), who),
                    (value.line, _short(value), call.function),
                )
                yield ShardingChange(*said[0], *said[1], alike, (before, value))
            before, who = value, call.function


def _short(value: JaxValue) -> str:
    return value.spec.text if value.spec is not None else value.words


def _checks(calls: Sequence[TracedCall]) -> Iterator[LocalShapeCheck]:
    """Yield each printed per-device shape and the one of the result's last sharding."""
    shape: Shape | None = None
    result: JaxValue | None = None
    for call in calls:
        for name, (value, *_) in call.steps:
            if _LOCAL.search(name) and value.shape is not None and value.spec is None:
                sharding = None if shape is None or result is None else result.sharding(shape.rank)
                local = None if sharding is None or shape is None else sharding.shard_shape(shape)
                printed, agrees = value.shape, None
                if local is not None:
                    agrees = local.dimensions == printed.dimensions
                texts = _shape_text(printed), _shape_text(local)
                yield LocalShapeCheck(value.line, name, *texts, agrees)
            elif _RESULT_SHAPE.search(name) and value.shape is not None:
                shape = value.shape
            elif _RESULT_SHARDING.search(name):
                result = value


# ---- arrays ------------------------------------------------------------------------------------

_NAMES = re.compile(
    r"(?:jax\.)?typeof\((?P<type>[A-Za-z_]\w*)\)$|(?P<sharding>[A-Za-z_]\w*)\.sharding$"
    r"|(?P<word>[A-Za-z_]\w*)(?:\s+type|\.aval|\.shape)$|type of (?P<of>[A-Za-z_]\w*)$"
)
_SHAPE_WORDS = re.compile(r"(?<=\w) shape: \([\d, ]*\), type$")
_NEAR = 40
"""Most lines between type and sharding of one array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedArray:
    """An array that a log names, with its type, its sharding, or both."""

    line: Annotated[int, "1-based line of its first mention"]
    array: Annotated[str, "its name, or the words before it"]
    type: Annotated[str | None, "type as JAX prints it"]
    spec: Annotated[str | None, "partition spec of its data"]
    mesh: Annotated[str | None, "axes and their sizes"]
    device_shape: Annotated[str | None, "shape of one device's part"]
    sharding: Annotated[str | None, "in XLA's notation"]
    type_says: Annotated[str | None, "the type compared with the sharding"]
    memory_kind: Annotated[str | None, "kind of memory, if printed"]


@dataclass(frozen=True, kw_only=True)
class LoggedArrays(Records[LoggedArray]):
    """The arrays of a log, in text order."""

    KIND: ClassVar[str] = "logged-arrays"
    arrays: tuple[LoggedArray, ...]


def logged_arrays(log: ShardingLog) -> LoggedArrays:
    """Return the arrays that a log names, or prints with the axes of their type."""
    meshes = [value.mesh for value in log.values if value.mesh is not None]
    halves: list[tuple[str, int, dict[str, JaxValue]]] = []
    for value in log.values:
        half = "sharding" if value.kind == "NamedSharding" else ""
        if value.shape is not None and value.kind in ("ShapedArray", "type"):
            half = "type"
        if "=>" in value.label or not half or not value.label:
            continue
        label = _SHAPE_WORDS.sub("", value.label)
        match = _NAMES.search(label)
        name = label if match is None else next(word for word in match.groups() if word)
        for other, line, given in reversed(halves):
            if value.line - line > _NEAR:
                halves.append((name, value.line, {half: value}))
                break
            if other == name and half not in given:
                given[half] = value
                break
        else:
            halves.append((name, value.line, {half: value}))
    return LoggedArrays(arrays=tuple(_array(*half, meshes) for half in halves))


def _array(
    name: str, line: int, given: Mapping[str, JaxValue], meshes: Sequence[JaxMesh]
) -> LoggedArray:
    typed, sharding = given.get("type"), given.get("sharding")
    mesh = sharding.mesh if sharding is not None else _mesh_with_axes(typed, meshes)
    placed = None
    if typed is not None and sharding is not None:
        placed = replace(typed, mesh=sharding.mesh, spec=sharding.spec)
    elif typed is not None and typed.spec is not None:
        placed = replace(typed, mesh=mesh)
    hlo = None if placed is None else placed.sharding()
    hlo = hlo or (None if sharding is None else sharding.sharding())
    spec = (sharding or typed or JaxValue(kind="")).spec
    manual = " (one device's)" if typed is not None and typed.manual_axes else ""
    return LoggedArray(
        line=line,
        array=name,
        type=None if typed is None else f"{typed.words}{manual}",
        spec=None if spec is None else spec.text,
        mesh=None if mesh is None else mesh.text,
        device_shape=None if placed is None else _shape_text(placed.device_shape()),
        sharding=None if hlo is None else hlo.text,
        type_says=_verdict(typed, sharding),
        memory_kind=None if sharding is None else sharding.memory_kind,
    )


def _verdict(typed: JaxValue | None, sharding: JaxValue | None) -> str | None:
    """Return a comparison of the type with the sharding; None unless both are printed."""
    if typed is None or sharding is None:
        return None
    said = set() if typed.spec is None else typed.spec.divisions
    true = set() if sharding.spec is None else sharding.spec.divisions
    if said == true:
        return "agrees"
    return "has no axes" if not said else "has some axes" if said <= true else "differs"


def _mesh_with_axes(value: JaxValue | None, meshes: Sequence[JaxMesh]) -> JaxMesh | None:
    """Return the mesh of the log with the axes of a type; None if meshes differ in size."""
    axes = (
        set() if value is None or value.spec is None else {axis for _, axis in value.spec.divisions}
    )
    fitting = {mesh.mesh: mesh for mesh in meshes if axes and axes <= set(mesh.mesh.axis_names)}
    return next(iter(fitting.values())) if len(fitting) == 1 else None


# ---- drawings ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSharding:
    """One drawing and its sharding."""

    line: Annotated[int, "1-based line where it begins"]
    label: Annotated[str | None, "words before it"]
    boxes: Annotated[str, "rows and columns of boxes"]
    devices: Annotated[str, "devices of each box, row by row"]
    sharding: Annotated[str | None, "the same in XLA's notation"]
    spec: Annotated[str | None, "the same over the mesh of the log"]
    agrees_with: Annotated[int | None, "line of the nearest sharding with equal tiles"]
    sharding_text: Annotated[str | None, "that sharding"]
    agreeing: tuple[JaxValue, ...]
    drawing: ShardingBoxes


@dataclass(frozen=True, kw_only=True)
class DrawnShardings(Records[DrawnSharding]):
    """The drawings of a log, in text order."""

    KIND: ClassVar[str] = "drawn-shardings"
    drawings: tuple[DrawnSharding, ...]


def drawn_shardings(log: ShardingLog) -> DrawnShardings:
    """Return the sharding of each drawing, and the shardings of the log that agree with it.

    A partition spec without a mesh is over the only mesh of the log.
    """
    meshes = {value.mesh.mesh: value.mesh for value in log.values if value.mesh is not None}
    only = next(iter(meshes.values())) if len(meshes) == 1 else None
    placed = (
        replace(value, mesh=only) if value.kind == "PartitionSpec" else value
        for value in log.values
    )
    named = [value for value in placed if value.sharding(2) is not None]
    return DrawnShardings(drawings=tuple(_drawn(one, named, meshes) for one in log.boxes))


def _drawn(
    boxes: ShardingBoxes, named: Sequence[JaxValue], meshes: Collection[Mesh]
) -> DrawnSharding:
    # one row of boxes is a value of one dimension, or one of two that is cut along the second
    drawn = {rank: drawn_sharding(boxes, rank) for rank in ((2, 1) if boxes.rows == 1 else (2,))}
    agreeing: list[JaxValue] = []
    ranks: set[int] = set()
    for value in named:
        fitting = [rank for rank, one in drawn.items() if one and _agrees(value, rank, one)]
        agreeing += [value] if fitting else []
        ranks.update(fitting[:1])
    sharding = drawn[1 if ranks == {1} else 2]
    devices = {device for cell in boxes.cells for device in cell.devices or ()}
    of_devices = [mesh for mesh in meshes if set(mesh.device_ids) == devices]
    spec = None
    if sharding is not None and len(of_devices) == 1:
        try:
            entries = sharding.to_partition_spec(of_devices[0])
        except HloLensError:
            entries = None
        spec = None if entries is None else partition_spec_text(entries)
    before = [value for value in agreeing if value.line < boxes.line]
    nearest = before[-1] if before else next(iter(agreeing), None)
    return DrawnSharding(
        line=boxes.line,
        label=boxes.label or None,
        boxes=f"{boxes.rows} x {boxes.columns}",
        devices="; ".join(cell.text for cell in boxes.cells),
        sharding=None if sharding is None else sharding.text,
        spec=spec,
        agrees_with=None if nearest is None else nearest.line,
        sharding_text=None if nearest is None else nearest.words,
        agreeing=tuple(agreeing),
        drawing=boxes,
    )


def _agrees(value: JaxValue, rank: int, drawn: HloSharding) -> bool:
    """Whether a sharding of a value of a rank gives every device the tile in the drawing."""
    entries = () if value.spec is None else value.spec.entries
    if len(entries) > rank or (value.shape is not None and value.shape.rank != rank):
        return False
    sharding = value.sharding(rank)
    return sharding is not None and len(sharding.tile_counts) <= rank and sharding.equivalent(drawn)


def drawn_sharding(boxes: ShardingBoxes, rank: int = 2) -> HloSharding | None:
    """Return the sharding of a drawing; None if its boxes hold different numbers of devices.

    Args:
        boxes: The drawing.
        rank: Dimensions of the value: 1 for one row of boxes, or 2.
    """
    groups = [cell.devices or () for cell in boxes.cells]
    shares = {len(group) for group in groups}
    if len(shares) != 1 or 0 in shares:
        return None
    share = shares.pop()
    dims = (*(boxes.rows, boxes.columns)[2 - rank :], *((share,) if share > 1 else ()))
    ids = tuple(device for group in groups for device in group)
    if len(set(ids)) != len(ids):
        return None
    if len(groups) == 1 and share > 1:
        return HloSharding(kind=ShardingKind.REPLICATED)
    if ids == tuple(range(len(ids))):
        tiles = TileAssignment(dimensions=dims, reshape_dims=(len(ids),))
    else:
        tiles = TileAssignment(dimensions=dims, device_ids=ids)
    return HloSharding.tiled(tiles, (ShardingKind.REPLICATED,) if share > 1 else ())
