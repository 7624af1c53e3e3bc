"""Shardings, meshes and drawings that a log prints, in text order.

The grammar ``jax_values.lark`` has the notation of JAX. Calls that it refuses, such as those with
names of variables, are source code and counted. ``mesh.shape`` is an OrderedDict, which programs
print of other things too: it is a mesh only if the lines around it contain the word.
"""

from __future__ import annotations

import bisect
import functools
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from lark import Lark, Transformer, v_args

from hlo_lens.grammar.parsers import build_parser, parse_with
from hlo_lens.logs.messages import Refusals, find_anchors, line_end, line_start
from hlo_lens.render.result import Records
from hlo_lens.shapes.mesh import Mesh, TileAssignment
from hlo_lens.shapes.named_sharding import ShardingKind, named_sharding, partition_spec_text
from hlo_lens.shapes.sharding import HloSharding, parse_sharding
from hlo_lens.text.errors import DumpSyntaxError, HloLensError, UsageError
from hlo_lens.text.log_words import BOXES, SHARDINGS, SHARDINGS_NEARBY
from hlo_lens.text.source import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

UNCONSTRAINED = "UNCONSTRAINED"
"""Entry of a partition spec where XLA may choose."""

Entry: TypeAlias = str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxValue:
    """One value of a log: a Mesh, a NamedSharding, a PartitionSpec or an HloSharding.

    Values are equal if they print alike, wherever they are printed.
    """

    kind: str
    mesh: Mesh | None = None
    axis_types: str = ""
    spec: tuple[Entry, ...] | None = None
    unreduced: tuple[str, ...] = ()
    hlo_sharding: HloSharding | None = None

    def sharding(self, rank: int = 0) -> HloSharding | None:
        """Return the sharding of a value of a rank; None if the text does not determine it."""
        if self.hlo_sharding is not None or self.spec is None or self.mesh is None:
            return self.hlo_sharding
        if UNCONSTRAINED in self.spec:
            return None
        try:
            return HloSharding.from_named(
                named_sharding(self.mesh, self.spec, rank, self.unreduced)
            )
        except HloLensError:
            return None

    @property
    def words(self) -> str:
        if self.hlo_sharding is not None:
            return self.hlo_sharding.text
        sizes = {} if self.mesh is None else self.mesh.sizes
        mesh = ", ".join(f"{name}={size}" for name, size in sizes.items())
        if self.spec is None:
            return mesh
        spec = partition_spec_text(self.spec).replace(repr(UNCONSTRAINED), UNCONSTRAINED)
        if self.unreduced:
            spec = f"{spec[:-1].rstrip(',')}, unreduced={{{', '.join(map(repr, self.unreduced))}}})"
        return f"{spec} over {mesh}" if mesh else spec


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSharding:
    """A value of a log, with the line and the words before it."""

    line: Annotated[int, "1-based line"]
    label: Annotated[str | None, "words before it on its line"]
    value: JaxValue


class _Values(Transformer[Any, JaxValue]):
    def STRING(self, token: str) -> str:  # noqa: N802 # a terminal
        return str(token[1:-1])

    def NUMBER(self, token: str) -> int:  # noqa: N802
        return int(token)

    def NONE(self, _: str) -> None:  # noqa: N802
        return None

    def UNCONSTRAINED(self, _: str) -> str:  # noqa: N802
        return UNCONSTRAINED

    def UNREDUCED(self, token: str) -> dict[str, tuple[str, ...]]:  # noqa: N802
        name, _, axes = token.partition("=")
        return {name: tuple(re.findall(r"['\"](.*?)['\"]", axes))}

    def OTHER(self, token: str) -> dict[str, tuple[str, ...]]:  # noqa: N802
        name, _, words = token.partition("=")
        return {name: tuple(re.findall(r"[\w.]+", words))}

    SIZES = NAMES = OTHER
    axis = pair = axes = tuple
    entry = v_args(inline=True)(lambda _, item: item)

    def mesh(self, children: list[Any]) -> JaxValue:
        axes = [child for child in children if isinstance(child, tuple)]
        given = {k: v for child in children if isinstance(child, dict) for k, v in child.items()}
        axes = axes or list(zip(given["axis_names"], given["axis_sizes"], strict=True))
        types = (word.rpartition(".")[2] for word in given.get("axis_types", ()))
        mesh = Mesh.from_sizes_text(",".join(f"{name}={size}" for name, size in axes))
        return JaxValue(kind="Mesh", mesh=mesh, axis_types=", ".join(types))

    def partition_spec(self, children: list[Any]) -> JaxValue:
        entries = [child or None for child in children[1:] if not isinstance(child, dict)]
        given = {k: v for child in children if isinstance(child, dict) for k, v in child.items()}
        unreduced = given.get("unreduced", ())
        return JaxValue(kind="PartitionSpec", spec=tuple(entries), unreduced=unreduced)

    def named_sharding(self, children: list[Any]) -> JaxValue:
        mesh, spec = (child for child in children if isinstance(child, JaxValue))
        return replace(spec, kind="NamedSharding", mesh=mesh.mesh, axis_types=mesh.axis_types)


_NAMES = {
    "SIZES": "axis_sizes",
    "SPEC": "'spec='",
    "NONE": "None",
    "MESH": "'Mesh('",
    "ORDERED_DICT": "'OrderedDict('",
    "MESH_KEY": "'mesh='",
}


@functools.cache
def _parser() -> Lark:
    return build_parser("jax_values", start="value", transformer=_Values(), has_placeholders=False)


@functools.lru_cache(maxsize=4096)
def parse_value(text: str) -> JaxValue:
    """Return the value in a text.

    Raises:
        DumpSyntaxError: If it is of another form, such as a call with names of variables.
    """
    try:
        value = parse_with(_parser(), Source(text), _NAMES)
    except UsageError as error:
        raise DumpSyntaxError(str(error)) from error
    if not isinstance(value, JaxValue):
        raise DumpSyntaxError("not a sharding")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingBoxes:
    """Drawn boxes: which devices hold which part of a value of one or two dimensions."""

    rows: int
    columns: int
    texts: tuple[str, ...]
    devices: tuple[tuple[int, ...], ...]
    label: str = ""
    line: int = 1


@dataclass(frozen=True, kw_only=True)
class ShardingLog:
    """Shardings in a log, in text order."""

    values: tuple[LoggedSharding, ...] = ()
    boxes: tuple[ShardingBoxes, ...] = ()
    code_calls: int = 0
    spans: tuple[tuple[int, int], ...] = ()


_ARGUMENTS = _FLAT = r"[^()]{0,1000}+"
for _ in range(3):
    _ARGUMENTS = rf"{_FLAT}(?:\({_ARGUMENTS}\){_FLAT}){{0,64}}+"
_CALL = re.compile(rf"(?<![\w.])\w+\({_ARGUMENTS}\)")
_LONGEST = 1 << 12
"""Most characters of a value."""

_LONGEST_LABEL = 60
_HLO_SHARDING = re.compile(r"\{(?:devices=|replicated|manual|maximal)(?:[^{}\n]|\{[^{}\n]*\})*+\}")
_ARROW = re.compile(r" => [\w. ]{1,80}: ?[(\[]?(?=\{(?:devices=|replicated|manual|maximal))")
"""A line of a tracer, ``function => name : value``, with shardings of XLA."""


def read_shardings(source: Source, others: Sequence[tuple[int, int]] = ()) -> ShardingLog | None:
    """Return the shardings in a log; None if there are none."""
    text, taken = source.text, sorted(others)
    drawings = list(_drawings(source))
    values, spans, calls = list[LoggedSharding](), [span for _, span in drawings], 0
    words = (*SHARDINGS, *SHARDINGS_NEARBY) if any(word in text for word in SHARDINGS) else ()
    end, refusals = 0, Refusals(text)
    for place in find_anchors(text, words):
        k = bisect.bisect(taken, (place, len(text))) - 1
        if place < end or (k >= 0 and place < taken[k][1]) or _is_object(text, place):
            continue
        found = list(_values_at(text, place))
        for start, stop, value in found:
            before = text[max(line_start(text, start), end) : start].strip(" \t:=([,)->")
            label = before if len(before) <= _LONGEST_LABEL else ""
            end = stop
            if value is not None:
                line = source.line_column(start)[0]
                values.append(LoggedSharding(line=line, label=label or None, value=value))
                spans.append((start, stop))
        if all(value is None for _, _, value in found):
            calls += len(found)
            end = refusals.end_after(place)
    if not (values or drawings):
        return None
    boxes = tuple(drawing for drawing, _ in drawings)
    return ShardingLog(values=tuple(values), boxes=boxes, code_calls=calls, spans=tuple(spans))


def _is_object(text: str, place: int) -> bool:
    return text.find(" - <class '", line_start(text, place), place) >= 0


def _values_at(text: str, place: int) -> Iterator[tuple[int, int, JaxValue | None]]:
    """Yield start, end and value of what begins at an offset; None for one that is refused."""
    if text.startswith(" => ", place):
        arrow = _ARROW.match(text, place)
        end = place if arrow is None else line_end(text, place)
        for match in _HLO_SHARDING.finditer(text, place, end):
            try:
                sharding = parse_sharding(match[0])
            except HloLensError:
                continue
            yield *match.span(), JaxValue(kind="HloSharding", hlo_sharding=sharding)
        return
    call = _CALL.match(text, place, place + _LONGEST)
    if call is None or (text[place] == "O" and not _is_near_mesh(text, place, call.end())):
        return
    try:
        yield *call.span(), parse_value(call[0])
    except DumpSyntaxError:
        yield *call.span(), None


def _is_near_mesh(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 1000) : start].rsplit("\n", 3)[-3:]
    return "mesh" in "\n".join((*before, text[start : line_end(text, end)])).lower()


_LONGEST_DRAWING = 1 << 20
_MARKS = " \t#>/;"
"""Characters of indentation, comments and quotations before each line of a drawing."""

_TOP = re.compile(rf"[{_MARKS}]*+┌[─┬]+┐[ \t]*\n[{_MARKS}]*+│")
_BOTTOM = re.compile(rf"^[{_MARKS}]*+└[─┴]+┘[ \t]*(?:\n|\Z)", re.MULTILINE)
_DEVICES = re.compile(r"[A-Za-z][\w ]*? ?(?P<ids>\d{1,9}(?:,\d{1,9})*)")


def _drawings(source: Source) -> Iterator[tuple[ShardingBoxes, tuple[int, int]]]:
    text, end = source.text, -1
    for place in find_anchors(text, BOXES):
        start = line_start(text, place)
        if place < end or _TOP.match(text, start) is None:
            continue
        bottom = _BOTTOM.search(text, place, place + _LONGEST_DRAWING)
        lines = text[start : bottom.end() if bottom else start].rstrip("\n").split("\n")
        columns, texts = _cells([line[place - start :].rstrip() for line in lines])
        ids = [match and match["ids"].split(",") for match in map(_DEVICES.fullmatch, texts)]
        if bottom is None or not any(ids):
            continue
        end = bottom.end()
        above = text[max(0, start - 1000) : start].split("\n")[-3:-1]
        label = next((words for line in reversed(above) if (words := line.strip(_MARKS))), "")
        is_label = any(c.isalpha() for c in label) and not label.startswith("└")
        drawing = ShardingBoxes(
            rows=len(texts) // columns,
            columns=columns,
            texts=tuple(texts),
            devices=tuple(tuple(sorted(map(int, numbers or ()))) for numbers in ids),
            label=label[:120] if is_label else "",
            line=source.line_column(start)[0],
        )
        yield drawing, (place, end)


def _cells(lines: Sequence[str]) -> tuple[int, list[str]]:
    """Return the number of columns and the texts of the boxes; none if they form no grid."""
    walls = [k for k, character in enumerate(lines[0]) if character in "┌┬┐"]
    cells: list[str] = []
    row = [""] * (len(walls) - 1)
    for line in lines[1:]:
        if len(line) != len(lines[0]) or any(line[wall] not in "│├┼┤└┴┘" for wall in walls):
            return 0, []
        if line[0] != "│":
            cells += row
            row = [""] * len(row)
            continue
        for k, (left, right) in enumerate(pairwise(walls)):
            word = line[left + 1 : right].strip()  # long texts are broken over lines
            is_apart = word and row[k] and (row[k][-1].isalpha() or word[0].isalpha())
            row[k] += " " * bool(is_apart) + word
    return len(row), cells


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


@dataclass(frozen=True, kw_only=True)
class DrawnShardings(Records[DrawnSharding]):
    """The drawings of a log, in text order."""

    KIND: ClassVar[str] = "drawn-shardings"
    drawings: tuple[DrawnSharding, ...]


def drawn_shardings(log: ShardingLog) -> DrawnShardings:
    """Return the sharding of each drawing, and the shardings of the log that agree with it.

    A partition spec without a mesh is over the only mesh of the log.
    """
    meshes = list(dict.fromkeys(one.value.mesh for one in log.values if one.value.mesh))
    named = list(log.values)
    if len(meshes) == 1:
        named = [replace(one, value=replace(one.value, mesh=meshes[0])) for one in named]
    return DrawnShardings(drawings=tuple(_drawn(boxes, named, meshes) for boxes in log.boxes))


def _drawn(
    boxes: ShardingBoxes, named: Sequence[LoggedSharding], meshes: Collection[Mesh]
) -> DrawnSharding:
    # one row of boxes is a value of one dimension, or one of two that is cut along the second
    drawn = {rank: drawn_sharding(boxes, rank) for rank in ((2, 1) if boxes.rows == 1 else (2,))}
    agreeing: list[LoggedSharding] = []
    ranks: set[int] = set()
    for one in named:
        fitting = [rank for rank, tiles in drawn.items() if tiles and _agrees(one, rank, tiles)]
        agreeing += [one] if fitting else []
        ranks.update(fitting[:1])
    sharding = drawn[1 if ranks == {1} else 2]
    devices = {device for ids in boxes.devices for device in ids}
    of_devices = [mesh for mesh in meshes if set(mesh.device_ids) == devices]
    spec = None
    if sharding is not None and len(of_devices) == 1:
        try:
            spec = sharding.to_partition_spec(of_devices[0])
        except HloLensError:
            spec = None
    before = [one for one in agreeing if one.line < boxes.line]
    nearest = before[-1] if before else next(iter(agreeing), None)
    return DrawnSharding(
        line=boxes.line,
        label=boxes.label or None,
        boxes=f"{boxes.rows} x {boxes.columns}",
        devices="; ".join(boxes.texts),
        sharding=None if sharding is None else sharding.text,
        spec=None if spec is None else partition_spec_text(spec),
        agrees_with=None if nearest is None else nearest.line,
        sharding_text=None if nearest is None else nearest.value.words,
    )


def _agrees(one: LoggedSharding, rank: int, drawn: HloSharding) -> bool:
    sharding = one.value.sharding(rank) if len(one.value.spec or ()) <= rank else None
    return sharding is not None and len(sharding.tile_counts) <= rank and sharding.equivalent(drawn)


def drawn_sharding(boxes: ShardingBoxes, rank: int = 2) -> HloSharding | None:
    """Return the sharding of a drawing; None if its boxes hold different numbers of devices."""
    ids = tuple(device for group in boxes.devices for device in group)
    share = len(ids) // len(boxes.devices)
    if any(len(group) != share for group in boxes.devices) or len(set(ids)) != len(ids):
        return None
    if len(boxes.devices) == 1 and share > 1:
        return HloSharding(kind=ShardingKind.REPLICATED)
    dims = (*(boxes.rows, boxes.columns)[2 - rank :], *((share,) if share > 1 else ()))
    if ids == tuple(range(len(ids))):
        tiles = TileAssignment(dimensions=dims, reshape_dims=(len(ids),))
    else:
        tiles = TileAssignment(dimensions=dims, device_ids=ids)
    return HloSharding.tiled(tiles, (ShardingKind.REPLICATED,) if share > 1 else ())
