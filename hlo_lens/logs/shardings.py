"""Shardings, meshes, types and drawings that a log prints, in text order.

The grammar ``jax_values.lark`` parses the notation of JAX, which is that of Python; the calls are
interpreted here. A call whose arguments are names is source code and no value. Values are found by
their first word and end where their brackets close. Dumps of Python objects are skipped and
counted, and so are calls in source code. ``mesh.shape`` is an OrderedDict, which programs print of
other things too: it is a mesh only if the lines around it contain the word.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from lark import Lark, Token, Transformer

from hlo_lens.grammar.parsers import build_parser, parse_with
from hlo_lens.logs.messages import Refusals, find_anchors, line_end, line_start
from hlo_lens.shapes.mesh import MOST_DEVICES, Mesh, TileAssignment
from hlo_lens.shapes.named_sharding import named_sharding
from hlo_lens.shapes.shape import element_type, parse_shape
from hlo_lens.shapes.sharding import HloSharding, parse_sharding
from hlo_lens.text.errors import DumpSyntaxError, Gap, HloLensError
from hlo_lens.text.log_words import BOXES, SHARDINGS, SHARDINGS_NEARBY
from hlo_lens.text.source import Source, Span
from hlo_lens.text.units import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hlo_lens.shapes.shape import Shape

UNCONSTRAINED = "UNCONSTRAINED"
"""Entry of a partition spec where XLA may choose."""

_MOST_IDS = 16
"""Most device ids of a mesh that its text lists."""

Entry: TypeAlias = str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxMesh:
    """A mesh as JAX prints it.

    Attributes:
        mesh: Axes and sizes, and device ids if they are printed.
        axis_types: ``Auto``, ``Explicit`` or ``Manual`` for each axis; empty if not printed.
        is_abstract: Whether it is a mesh without devices.
    """

    mesh: Mesh
    axis_types: tuple[str, ...] = ()
    is_abstract: bool = False

    @property
    def text(self) -> str:
        """Axes as ``x=4, y=2``; with device ids as ``x=2 [1,0]`` if their order is not simple."""
        pairs = zip(self.mesh.axis_names, self.mesh.axis_sizes, strict=True)
        axes = ", ".join(f"{name}={size}" for name, size in pairs)
        if self.mesh.device_assignment is None:
            return axes
        return f"{axes} [{listed([str(one) for one in self.mesh.device_ids], _MOST_IDS)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxSpec:
    """A PartitionSpec.

    Attributes:
        entries: Axes of each dimension; `UNCONSTRAINED` where XLA may choose.
        unreduced: Axes along which partial results are not yet summed.
        reduced: Axes along which they are.
    """

    entries: tuple[Entry, ...] = ()
    unreduced: tuple[str, ...] = ()
    reduced: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Text of the spec as JAX prints it since 0.7."""
        words = [e if e == UNCONSTRAINED else repr(e) for e in self.entries]
        words += [
            f"{name}={{{', '.join(map(repr, axes))}}}"
            for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if axes
        ]
        return f"P({', '.join(words)}{',' if len(words) == len(self.entries) == 1 else ''})"

    @property
    def is_constrained(self) -> bool:
        """Whether no entry is left to XLA."""
        return UNCONSTRAINED not in self.entries

    @property
    def divisions(self) -> set[tuple[int, str]]:
        """Dimension and axis of each division."""
        return {(k, axis) for k, entry in enumerate(self.entries) for axis in axes_of(entry)}


def axes_of(entry: Entry) -> tuple[str, ...]:
    """Return the axes of an entry of a spec."""
    return () if entry is None else (entry,) if isinstance(entry, str) else entry


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxValue:
    """One value of a log.

    Attributes:
        kind: ``Mesh``, ``NamedSharding``, ``PartitionSpec``, ``ShapeDtypeStruct``,
            ``ShapedArray``, ``HloSharding``, ``Shape``, ...
        text: As printed, on one line.
        mesh: Mesh of the value, or the value itself.
        spec: Partition spec of the value, or the value itself; of a type the axes in it.
        hlo_sharding: Sharding, if it is printed in XLA's notation.
        shape: Shape, if it is an array type.
        manual_axes: Mesh axes along which each device has an array of its own.
        memory_kind: Such as ``device``; None if it is not printed.
        label: Text before it on its line.
        line: 1-based line of the file.
    """

    kind: str
    text: str = field(default="", compare=False)
    mesh: JaxMesh | None = None
    spec: JaxSpec | None = None
    hlo_sharding: HloSharding | None = None
    shape: Shape | None = None
    manual_axes: tuple[str, ...] = ()
    memory_kind: str | None = None
    label: str = field(default="", compare=False)
    line: int = field(default=1, compare=False)

    def sharding(self, rank: int | None = None) -> HloSharding | None:
        """Return the sharding in XLA's form; None if the text does not determine it.

        Args:
            rank: Dimensions of the array, used if the value has no shape.
        """
        if self.hlo_sharding is not None:
            return self.hlo_sharding
        if self.mesh is None or self.spec is None or not self.spec.is_constrained:
            return None
        known = self.shape.rank if self.shape is not None else rank
        spec = self.spec
        named = named_sharding(self.mesh.mesh, spec.entries, known or 0, spec.unreduced)
        try:
            return HloSharding.from_named(named)
        except HloLensError:
            return None

    def device_shape(self) -> Shape | None:
        """Return the shape of one device's part; None if it is not known."""
        sharding = None if self.shape is None else self.sharding()
        if self.shape is None or sharding is None:
            return None
        try:
            return sharding.shard_shape(self.shape)
        except HloLensError:
            return None

    @property
    def words(self) -> str:
        """The value as a short text: type, spec and mesh, or XLA's notation."""
        if self.kind in ("ShapedArray", "Shape", "type"):
            return self.text.removeprefix("ShapedArray(").removesuffix(")")
        if self.spec is not None:
            return (
                self.spec.text if self.mesh is None else f"{self.spec.text} over {self.mesh.text}"
            )
        if self.hlo_sharding is not None:
            return self.hlo_sharding.text
        return self.text if self.mesh is None else self.mesh.text


# ---- the notation ------------------------------------------------------------------------------


class CodeError(Exception):
    """The text is source code: it has names where printed values have values."""


class _Call(NamedTuple):
    """A call: its name, arguments by position and by keyword, and ``'x': 4`` as axes."""

    name: str
    arguments: tuple[_Item, ...] = ()
    keywords: Mapping[str, _Item] = {}
    axes: tuple[tuple[str, _Item], ...] = ()


class _Keyword(NamedTuple):
    name: str
    value: _Item


class _Axis(NamedTuple):
    name: str
    size: _Item


class _Name(str):
    """A name: of an object in source code, or a word such as ``Auto``."""

    __slots__ = ()


_Item: TypeAlias = "_Call | _Keyword | _Axis | JaxValue | str | int | tuple[_Item, ...] | None"


class _Items(Transformer[Any, Any]):
    """Transformer of the notation into calls, words, numbers and sequences."""

    def NAME(self, token: str) -> _Item:  # noqa: N802 # a terminal
        return None if token == "None" else _Name(token)

    def STRING(self, token: str) -> str:  # noqa: N802
        return str(token[1:-1])

    def NUMBER(self, token: str) -> int:  # noqa: N802
        return int(token.partition(".")[0])

    def ANGLE(self, token: str) -> str:  # noqa: N802
        return _Name(token)

    def SHAPED(self, token: str) -> JaxValue:  # noqa: N802
        return _array_type(str(token))

    def HLO_SHARDING(self, token: str) -> JaxValue:  # noqa: N802
        sharding = parse_sharding(" ".join(token.split()))
        return JaxValue(kind="HloSharding", text=sharding.text, hlo_sharding=sharding)

    def keyword(self, children: list[Any]) -> _Keyword:
        return _Keyword(children[0].rstrip("="), children[1])

    def axis(self, children: list[Any]) -> _Axis:
        return _Axis(*children)

    def sequence(self, children: list[Any]) -> tuple[_Item, ...]:
        return tuple(children)

    def axes(self, children: list[Any]) -> JaxValue:
        return _mesh(_Call("Mesh", axes=tuple(children)))

    def call(self, children: list[Any]) -> _Call | JaxValue:
        name, *given = children
        call = _Call(
            str(name).rpartition(".")[2],
            tuple(one for one in given if not isinstance(one, (_Keyword, _Axis))),
            dict(one for one in given if isinstance(one, _Keyword)),
            tuple(one for one in given if isinstance(one, _Axis)),
        )
        make = _KINDS.get(call.name)
        return call if make is None else make(call)


@functools.cache
def parser() -> Lark:
    """Return the parser of values."""
    return build_parser("jax_values", start="value", transformer=_Items(), has_placeholders=False)


_NAMES = {
    "NAME": "a name",
    "STRING": "a string",
    "NUMBER": "a number",
    "KEYWORD": "a keyword",
    "SHAPED": "a type such as float32[8,4]",
    "HLO_SHARDING": "a sharding in XLA's notation",
}


@functools.lru_cache(maxsize=4096)
def values_of(text: str) -> tuple[JaxValue, ...]:
    """Return the values in a text: those of a list or tuple, or a single one.

    Raises:
        CodeError: If it is source code.
        DumpSyntaxError: If the grammar refuses it.
    """
    try:
        item: Any = parse_with(parser(), Source(text), _NAMES)
    except HloLensError as error:
        raise DumpSyntaxError(str(error)) from error
    items = item if type(item) is tuple else (item,)
    return tuple(one for one in items if isinstance(one, JaxValue))


def parse_value(text: str) -> JaxValue | None:
    """Return the value in a text; None if it is of an unknown kind.

    Raises:
        CodeError: If it is a call in source code.
        DumpSyntaxError: If the grammar refuses it.
    """
    values = values_of(text)
    return replace(values[0], text=" ".join(text.split())) if len(values) == 1 else None


# ---- the calls ---------------------------------------------------------------------------------


def _mesh(call: _Call) -> JaxValue:
    if call.axes:
        names = tuple(name for name, _ in call.axes)
        sizes = _integers(tuple(size for _, size in call.axes))
    else:
        names = _words(call.keywords.get("axis_names"))
        sizes = _integers(_sequence(call.keywords.get("axis_sizes")))
    if len(names) != len(sizes) or not names:
        if call.arguments or not call.keywords:
            raise CodeError
        raise DumpSyntaxError("a mesh without axes, or with another number of sizes")
    types = tuple(word.rpartition(".")[2] for word in _words(call.keywords.get("axis_types")))
    mesh = mesh_of(names, sizes)
    return JaxValue(
        kind=call.name,
        mesh=JaxMesh(mesh=mesh, axis_types=types, is_abstract=call.name == "AbstractMesh"),
    )


def mesh_of(
    names: tuple[str, ...], sizes: tuple[int, ...], ids: tuple[int, ...] | None = None
) -> Mesh:
    """Return a mesh; raises DumpSyntaxError for one that cannot be."""
    if any(size < 1 for size in sizes) or len(set(names)) != len(names):
        raise DumpSyntaxError("a mesh with an axis of no size, or the same axis twice")
    assignment = None
    if ids is not None and ids != tuple(range(len(ids))):
        assignment = TileAssignment(dimensions=sizes, device_ids=ids)
    mesh = Mesh(axis_names=names, axis_sizes=sizes, device_assignment=assignment)
    if mesh.size > MOST_DEVICES:
        raise DumpSyntaxError(f"a mesh of more than {MOST_DEVICES} devices")
    return mesh


def _named_sharding(call: _Call) -> JaxValue:
    given = [*call.arguments, None, None]
    mesh = call.keywords["mesh"] if "mesh" in call.keywords else given.pop(0)
    spec = call.keywords.get("spec", call.keywords.get("partition_spec", given[0]))
    if not isinstance(mesh, JaxValue) or mesh.mesh is None or not isinstance(spec, JaxValue):
        raise CodeError
    memory_kind = _word(call.keywords.get("memory_kind"))
    return JaxValue(kind=call.name, mesh=mesh.mesh, spec=spec.spec, memory_kind=memory_kind)


def _partition_spec(call: _Call) -> JaxValue:
    entries: list[Entry] = []
    for entry in call.arguments:
        if isinstance(entry, _Name) and UNCONSTRAINED.lower() in entry.lower():
            entries.append(UNCONSTRAINED)
        elif type(entry) is tuple:
            if any(type(axis) is not str for axis in entry):
                raise CodeError
            entries.append(_words(entry) or None)
        elif entry is None or type(entry) is str:
            entries.append(entry)
        else:
            raise CodeError
    reductions = {name: _words(call.keywords.get(name)) for name in ("unreduced", "reduced")}
    return JaxValue(kind="PartitionSpec", spec=JaxSpec(entries=tuple(entries), **reductions))


def _shape_dtype_struct(call: _Call) -> JaxValue:
    if call.arguments or "shape" not in call.keywords:
        raise CodeError
    dtype = _word(call.keywords.get("dtype")) or ""
    shape = _shape(dtype, _integers(_sequence(call.keywords["shape"])))
    sharding = call.keywords.get("sharding")
    placed = sharding if isinstance(sharding, JaxValue) else JaxValue(kind="")
    return replace(placed, kind=call.name, text="", shape=shape)


def _shaped_array(call: _Call) -> JaxValue:
    if len(call.arguments) != 1 or not isinstance(call.arguments[0], JaxValue):
        raise CodeError
    return replace(call.arguments[0], kind="ShapedArray")


_KINDS: Mapping[str, Callable[[_Call], JaxValue]] = {
    "Mesh": _mesh,
    "AbstractMesh": _mesh,
    "NamedSharding": _named_sharding,
    "PartitionSpec": _partition_spec,
    "P": _partition_spec,
    "ShapeDtypeStruct": _shape_dtype_struct,
    "ShapedArray": _shaped_array,
}


def _sequence(item: _Item) -> tuple[_Item, ...]:
    if item is None:
        return ()
    if isinstance(item, tuple) and not isinstance(item, (_Call, _Keyword, _Axis)):
        return item
    raise CodeError


def _integers(items: tuple[_Item, ...]) -> tuple[int, ...]:
    numbers = tuple(item for item in items if isinstance(item, int))
    if len(numbers) != len(items):
        raise CodeError
    return numbers


def _words(item: _Item) -> tuple[str, ...]:
    """Return the words in a sequence, also in ``frozenset({'x'})``."""
    if isinstance(item, _Call):
        item = item.arguments[0] if item.arguments else ()
    return tuple(str(name) for name in _sequence(item))


def _word(item: _Item) -> str | None:
    return str(item) if isinstance(item, str) else None


# ---- types of arrays ---------------------------------------------------------------------------

_SHAPED = re.compile(r"([a-z]\w*)(?:<([\w, ]*)>)?\[([^\]]*)\](?:\{([^}]*)\})?")
_DIMENSION = re.compile(r"(\d{1,19})(?:@(?:\(([^)]*)\)|([\w.]+(?:\+[\w.]+)*)))?")
_XLA_SHAPE = re.compile(r"(?:pred|token|[sufc]\d+\w*|bf16|f8\w+)\[")


def _array_type(text: str) -> JaxValue:
    """Return the value of ``float32[8@dp,4@mp]{V:mp}`` or of XLA's ``f32[20,16]{1,0}``."""
    if _XLA_SHAPE.match(text):
        return JaxValue(kind="Shape", text=text, shape=parse_shape(text))
    match = _SHAPED.fullmatch(text)
    if match is None:
        raise DumpSyntaxError(f"not a type: {text}")
    dtype, memory, inside, manual = match.groups()
    dims: list[int] = []
    entries: list[Entry] = []
    for word in re.findall(r"(?:[^,()]|\([^)]*\))+", inside.replace(" ", "")):
        if (dimension := _DIMENSION.fullmatch(word)) is None:
            raise CodeError
        dims.append(int(dimension[1]))
        axes = tuple(re.findall(r"[\w.]+", dimension[2] or dimension[3] or ""))
        entries.append(axes[0] if len(axes) == 1 else axes or None)
    # ``{mp,dp}`` of jax 0.6, ``{V:(x,y)}`` later; an XLA layout has numbers
    varying = re.search(r"V:\(?([\w., ]+)\)?", manual or "")
    words = varying[1] if varying else "" if ":" in (manual or "") else manual or ""
    return JaxValue(
        kind="type",
        text=text,
        shape=_shape(dtype, tuple(dims)),
        spec=JaxSpec(entries=tuple(entries)) if any(entries) else None,
        manual_axes=tuple(w for w in re.findall(r"[\w.]+", words) if not w.isdecimal()),
        memory_kind=memory,
    )


def _shape(dtype: str, dims: tuple[int, ...]) -> Shape | None:
    """Return the shape in XLA's notation; None for an element type that XLA lacks."""
    name = element_type(dtype)
    return None if name is None else parse_shape(f"{name}[{','.join(map(str, dims))}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxCell:
    """One box of a drawing.

    Attributes:
        row: Its row of boxes.
        column: Its column of boxes.
        text: Text in it.
        devices: Device ids, ascending; None if the text has none, or not all.
    """

    row: int
    column: int
    text: str = ""
    devices: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingBoxes:
    """Drawn boxes: which devices hold which part of a value of one or two dimensions.

    Attributes:
        rows: Rows of boxes.
        columns: Columns of boxes.
        cells: The boxes, row by row.
        platform: Word before the device ids, such as ``GPU``.
        label: The last words before it.
        line: 1-based line of the file where it begins.
        lines: Number of its lines.
    """

    rows: int
    columns: int
    cells: tuple[BoxCell, ...]
    platform: str = ""
    label: str = field(default="", compare=False)
    line: int = field(default=1, compare=False)
    lines: int = field(default=1, compare=False)


@dataclass(kw_only=True)
class ShardingLog:
    """Shardings in a log, in text order.

    Attributes:
        values: Meshes, shardings, specs, types.
        boxes: Drawings.
        dumps: Number of skipped dumps of Python objects.
        dump_lines: Number of their lines.
        code_calls: Number of skipped calls in source code, whose arguments are names.
        gaps: Values that could not be read.
        spans: Start and end of values and drawings in the text.
    """

    values: tuple[JaxValue, ...] = ()
    boxes: tuple[ShardingBoxes, ...] = ()
    dumps: int = 0
    dump_lines: int = 0
    code_calls: int = 0
    gaps: tuple[Gap, ...] = field(default=(), repr=False, compare=False)
    spans: tuple[tuple[int, int], ...] = field(default=(), repr=False, compare=False)


_MOST_GAPS = 1000
_SHORT = 1 << 20
"""Texts shorter than this are searched for all words."""


def read_shardings(source: Source, others: Sequence[tuple[int, int]] = ()) -> ShardingLog | None:
    """Return the shardings in a log; None if there are none.

    Args:
        source: The log.
        others: Spans of other messages, which are not searched.
    """
    text, log = source.text, ShardingLog()
    boxes = list(_drawings(source))
    log.boxes = tuple(drawing for drawing, _ in boxes)
    values, gaps, spans = list[JaxValue](), list[Gap](), [span for _, span in boxes]
    skipped = sorted((*others, *_object_dumps(source, log)))
    skip = iter((*skipped, (len(text) + 1, len(text) + 1)))
    (start, stop), end, resume, refusals = next(skip), -1, -1, Refusals(text)
    for place, is_arrow in _candidates(text, has_boxes=bool(boxes)):
        while stop <= place:
            start, stop = next(skip)
        if place < max(end, resume) or start <= place:
            continue
        before = end
        try:
            read, end = _read_values(text, place, is_arrow=is_arrow)
        except (CodeError, DumpSyntaxError) as error:
            resume = refusals.end_after(place)
            if isinstance(error, CodeError) or (not is_arrow and _is_code(text, place)):
                log.code_calls += 1
            elif not is_arrow and len(gaps) < _MOST_GAPS:
                span = Span(place, min(line_end(text, place), place + 60))
                gaps.append(Gap.at(source, span, error.message))
            continue
        if read:
            label, line = _label(text, place, before), source.line_column(place)[0]
            values += [replace(value, label=label, line=line) for value in read]
            spans.append((place, end))
        else:
            resume = refusals.end_after(place)
    log.values, log.gaps, log.spans = tuple(values), tuple(gaps), tuple(spans)
    return log if values or boxes or gaps else None


def _is_code(text: str, place: int) -> bool:
    """Whether a call that was refused has the arguments of source code."""
    arguments = text[place : line_end(text, place)].partition("(")[2]
    return _CODE.match(arguments) is not None or "=" in arguments[:40]


_OBJECT_LINE = re.compile(r"^[ \t]+\"[^\"\n]* - <class '[^\n]*$", re.MULTILINE)
"""A line of a dump of a Python object: name, class, value."""


def _object_dumps(source: Source, log: ShardingLog) -> Iterator[tuple[int, int]]:
    """Yield the spans of dumps of objects, and count them."""
    text = source.text
    if " - <class '" not in text:
        return
    end = brace = -1
    for match in _OBJECT_LINE.finditer(text):
        if match.start() < end:
            continue
        head = text.rfind("\n", 0, max(0, match.start() - 1)) + 1
        if brace < match.end():
            brace = text.find("\n}", match.end())
            brace = len(text) if brace < 0 else brace
        end = match.end() if brace == len(text) else brace + 2
        first, last = (source.line_column(place)[0] for place in (head, end))
        log.dumps += 1
        log.dump_lines += last - first + 1
        yield head, end


# ---- values ------------------------------------------------------------------------------------

_CALL = re.compile(
    r"(?<![\w.])(?:(?:jax\.sharding\.|jax\.)?(?:AbstractMesh|Mesh|NamedSharding|PartitionSpec"
    r"|ShapeDtypeStruct|ShapedArray)|P)\("
)
_PAIR, _ITEM = r"\('[^'\n]{1,80}', \d{1,9}\)", r"'[^'\n]{1,80}': \d{1,9}"
_MESH_SHAPE = re.compile(
    rf"OrderedDict\((?:\[(?:{_PAIR}(?:, {_PAIR}){{0,31}})\]"
    rf"|\{{(?:{_ITEM}(?:, {_ITEM}){{0,31}})\}})\)"
)
"""``OrderedDict([('x', 4), ('y', 2)])``, since Python 3.12 ``OrderedDict({'x': 4, 'y': 2})``."""

_START = re.compile(rf"{_CALL.pattern}|{_MESH_SHAPE.pattern}")
_ARROW = re.compile(
    r"=>[ ]{0,2}(?=\S)[\w. ]{1,80}?[ ]{0,2}:[ ]{0,2}(?P<value>\(?\[?(?:[a-z]\w*\[[\d,]*\]"
    r"|\{(?:devices=|replicated|maximal|manual)))"
)
"""A line of a tracer, ``function => name : value``, with shapes or shardings of XLA."""

_CODE = re.compile(r"\s*(?:$|\)|[A-Za-z_][\w.]*\s*[,.)(\[])")
"""Arguments of a call in source code."""


def _candidates(text: str, *, has_boxes: bool) -> list[tuple[int, bool]]:
    """Return the possible starts of values, in text order, and whether an arrow is before each."""
    is_plain = len(text) >= _SHORT and not has_boxes
    is_plain = is_plain and not any(word in text for word in SHARDINGS)
    words = SHARDINGS if is_plain else (*SHARDINGS, *SHARDINGS_NEARBY)
    places: set[tuple[int, bool]] = set()
    done = -1
    for place in find_anchors(text, words):
        if place < done:
            continue
        start, done = max(line_start(text, place), done), line_end(text, place)
        places |= {(match.start(), False) for match in _START.finditer(text, start, done)}
        arrow = _ARROW.search(text, start, done) if " => " in text[start:done] else None
        if arrow is not None:
            places.add((arrow.start("value"), True))
    return sorted(places)


def _read_values(text: str, start: int, *, is_arrow: bool) -> tuple[tuple[JaxValue, ...], int]:
    """Return the values that begin at an offset, and their end.

    Raises:
        CodeError: If it is a call in source code.
        DumpSyntaxError: If the grammar refuses it, or it has no meaning.
    """
    if is_arrow:
        end = line_end(text, start)
        return values_of(text[start:end]), end
    shape = _MESH_SHAPE.match(text, start)
    if shape is not None:
        end = shape.end()
        value = _mesh_of_sizes(text, shape)
    else:
        stop = _brackets_end(text, start)
        if stop is None:
            if len(text) - start < _LONGEST and "\n" not in text[start:]:
                raise DumpSyntaxError("the value is cut off")
            return (), start
        end, value = stop, parse_value(text[start:stop])
    if value is not None and value.kind == "Mesh" and value.mesh is not None:
        value, end = _with_device_ids(value, value.mesh, text, end)
    return (() if value is None else (value,)), end


_LONGEST = 1 << 15
"""Most characters of a value."""

_BRACKET = re.compile(r"[()\[\]{}\n]|'(?:[^'\\\n]|\\.){0,1000}+'|\"(?:[^\"\\\n]|\\.){0,1000}+\"")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_MOST_LINES, _DEEPEST = 64, 32
"""Limits without which nested brackets that never close cost quadratic time."""


def _brackets_end(text: str, start: int) -> int | None:
    """Return the end of the brackets of a value; None if they do not close."""
    closing: list[str] = []
    lines = 0
    for match in _BRACKET.finditer(text, start, start + _LONGEST):
        character = match[0]
        lines += character == "\n"
        if character in _CLOSING:
            closing.append(_CLOSING[character])
        elif character in (")", "]", "}"):
            if not closing or closing.pop() != character:
                return None
            if not closing:
                return match.end()
        if lines > _MOST_LINES or len(closing) > _DEEPEST:
            return None
    return None


_TYPE = r"(?:AxisType\.)?(?:Auto|Explicit|Manual)"
_TYPES = re.compile(rf"(?i:types?)\w*[^\w\n(]{{1,4}}\(({_TYPE}(?:, {_TYPE})*),?\)")


def _mesh_of_sizes(text: str, shape: re.Match[str]) -> JaxValue | None:
    """Return the mesh of an OrderedDict of sizes; None if no line nearby names a mesh."""
    end = line_end(text, shape.end())
    before = text[max(0, shape.start() - 1000) : shape.start()].rsplit("\n", 3)[-3:]
    if "mesh" not in "\n".join((*before, text[shape.start() : end])).lower():
        return None
    axes = re.findall(r"'([^']+)'(?:,|:) (\d+)", shape[0])
    names, sizes = tuple(name for name, _ in axes), tuple(int(size) for _, size in axes)
    try:
        mesh = mesh_of(names, sizes)
    except DumpSyntaxError:
        return None
    match = _TYPES.search(text, shape.end(), min(end, shape.end() + 400))
    types = () if match is None else tuple(match[1].replace("AxisType.", "").split(", "))
    types = types if len(types) == len(names) else ()
    return JaxValue(kind="Mesh", text=shape[0], mesh=JaxMesh(mesh=mesh, axis_types=types))


_TABLE = re.compile(
    r"[^\S\n]*(?i:[^\[\n]{0,120}devices?\b[^\[\n]{0,60}|[^\[\n]{0,120}device_ids[^\[\n]{0,60})"
    r"(?:\n[^\S\n]*)?(?:array\()?(?P<rows>\[)"
)


def _with_device_ids(
    value: JaxValue, jax_mesh: JaxMesh, text: str, end: int
) -> tuple[JaxValue, int]:
    """Return a mesh with the device ids that the lines below it print, and their end."""
    table = _TABLE.match(text, line_end(text, end) + 1)
    stop = None if table is None else _brackets_end(text, table.start("rows"))
    if table is None or stop is None or jax_mesh.is_abstract:
        return value, end
    rows = text[table.start("rows") : stop]
    mesh = jax_mesh.mesh
    depth = len(rows) - len(rows.lstrip("["))
    ids = tuple(map(int, re.findall(r"\d{1,9}", rows)))
    counts = [len(row.split()) for row in re.findall(r"[\d\s]+\d", rows.replace(",", " "))]
    is_alike = depth == len(mesh.axis_sizes) and set(counts) == {mesh.axis_sizes[-1]}
    if not is_alike or len(ids) != mesh.size or len(set(ids)) != len(ids):
        return value, end
    placed = replace(jax_mesh, mesh=mesh_of(mesh.axis_names, mesh.axis_sizes, ids))
    return replace(value, mesh=placed), stop


_LABEL_END = re.compile(r"(?:[ \t]|[:=(\[,]|\bis\b|->|=>)*$")
_LONGEST_LABEL = 160
_MOST_WORDS = 7
"""Words of a label; a sentence that has more is none."""

_EXCEPTION = re.compile(r"[\w.]*(?:Error|Exception|Warning)\b")


def _label(text: str, start: int, least: int) -> str:
    """Return the text before a value on its line, after the value before it; none of a sentence."""
    begin = max(line_start(text, start), start - _LONGEST_LABEL, least)
    words = _LABEL_END.sub("", text[begin:start]).strip()
    is_label = _EXCEPTION.match(words) is None and len(words.split()) <= _MOST_WORDS
    return words if is_label else ""


# ---- drawings ----------------------------------------------------------------------------------

_LONGEST_DRAWING = 1 << 20
_TOP = re.compile(r"[ \t]*┌[─┬]+┐[ \t]*\n[ \t]*│")
_BOTTOM = re.compile(r"^[ \t]*└[^\n]*(?:\n|\Z)", re.MULTILINE)
_DEVICES = re.compile(r"(?P<word>[A-Za-z][\w ]*?) ?(?P<ids>\d{1,9}(?:,\d{1,9})*)")


@functools.cache
def box_parser() -> Lark:
    """Return the parser of the lines of a drawing, in which spaces count."""
    return build_parser("sharding_boxes", start="drawing")


def _drawings(source: Source) -> Iterator[tuple[ShardingBoxes, tuple[int, int]]]:
    """Yield the drawings of devices, and the span of each."""
    end = -1
    for place in find_anchors(source.text, BOXES):
        drawn = _read_boxes(source, place) if place >= end else None
        if drawn is not None:
            end = drawn[1]
            if any(cell.devices for cell in drawn[0].cells):
                yield drawn[0], (place, end)


def _read_boxes(source: Source, place: int) -> tuple[ShardingBoxes, int] | None:
    """Return the drawing whose corner is at an offset, and its end; None if it is none."""
    text = source.text
    start = line_start(text, place)
    if _TOP.match(text, start) is None:
        return None
    bottom = _BOTTOM.search(text, place, place + _LONGEST_DRAWING)
    if bottom is None:
        return None
    try:
        tree = parse_with(box_parser(), Source(text[start : bottom.end()]), {})
    except DumpSyntaxError:
        return None
    tokens = tree.scan_values(lambda leaf: isinstance(leaf, Token))  # type: ignore[attr-defined] # a tree
    cells = _cells([str(token).rstrip()[place - start :] for token in tokens])
    if not cells:
        return None
    words = Counter(match["word"] for c in cells if (match := _DEVICES.fullmatch(c.text)))
    boxes = ShardingBoxes(
        rows=cells[-1].row + 1,
        columns=cells[-1].column + 1,
        cells=tuple(cells),
        platform=next(iter(words)) if len(words) == 1 else "",
        label=_words_above(text, start),
        line=source.line_column(start)[0],
        lines=text.count("\n", start, bottom.end() - 1) + 1,
    )
    return boxes, bottom.end()


def _cells(lines: Sequence[str]) -> list[BoxCell]:
    """Return the boxes, row by row; none if the lines do not form a grid."""
    walls = [k for k, character in enumerate(lines[0]) if character in "┌┬┐"]
    cells: list[BoxCell] = []
    texts = [""] * (len(walls) - 1)
    for line in lines[1:]:
        if len(line) != len(lines[0]) or any(line[wall] not in "│├┼┤└┴┘" for wall in walls):
            return []
        if line[0] == "│":
            for k, (left, right) in enumerate(pairwise(walls)):
                word = line[left + 1 : right].strip()  # long texts are broken over lines
                is_apart = word and texts[k] and (texts[k][-1].isalpha() or word[0].isalpha())
                texts[k] += " " * bool(is_apart) + word
            continue
        row = len(cells) // len(texts)
        for k, text in enumerate(texts):
            match = _DEVICES.fullmatch(text)
            ids = None if match is None else tuple(sorted(map(int, match["ids"].split(","))))
            cells.append(BoxCell(row=row, column=k, text=text, devices=ids))
        texts = [""] * len(texts)
    return cells


def _words_above(text: str, start: int) -> str:
    """Return the last line of words before an offset, at most two lines above."""
    for line in reversed(text[max(0, start - 1000) : start].split("\n")[-3:-1]):
        words = line.strip()
        if words:
            is_label = any(c.isalpha() for c in words) and not words.startswith("└")
            return words[:120] if is_label else ""
    return ""
