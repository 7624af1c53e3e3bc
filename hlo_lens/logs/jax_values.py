"""Shardings, meshes and array types as JAX prints them.

The grammar parses the notation, which is Python's; this file interprets the calls. A call whose
arguments are names is source code and no value. Source: see ``grammars/jax_values.lark``.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from lark import Lark, Transformer

from hlo_lens.grammar.parsers import build_parser, parse_with
from hlo_lens.shapes.mesh import MOST_DEVICES, Mesh, TileAssignment
from hlo_lens.shapes.named_sharding import named_sharding
from hlo_lens.shapes.shape import element_type, parse_shape
from hlo_lens.shapes.sharding import HloSharding, parse_sharding
from hlo_lens.text.errors import DumpSyntaxError, HloLensError
from hlo_lens.text.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
        ids = self.mesh.device_ids
        more = f",... {len(ids)} in all" if len(ids) > _MOST_IDS else ""
        return f"{axes} [{','.join(map(str, ids[:_MOST_IDS]))}{more}]"


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
    ids: tuple[int, ...] | None = None
    if call.axes:
        names = tuple(name for name, _ in call.axes)
        sizes = _integers(tuple(size for _, size in call.axes))
    else:
        names = _words(call.keywords.get("axis_names"))
        sizes = _integers(_sequence(call.keywords.get("axis_sizes")))
        if "device_ids" in call.keywords:
            sizes, ids = _array(call.keywords["device_ids"])
    if len(names) != len(sizes) or not names:
        if call.arguments or not call.keywords:
            raise CodeError
        raise DumpSyntaxError("a mesh without axes, or with another number of sizes")
    types = tuple(word.rpartition(".")[2] for word in _words(call.keywords.get("axis_types")))
    mesh = mesh_of(names, sizes, ids)
    return JaxValue(
        kind=call.name,
        mesh=JaxMesh(mesh=mesh, axis_types=types, is_abstract=call.name == "AbstractMesh"),
    )


def mesh_of(names: tuple[str, ...], sizes: tuple[int, ...], ids: tuple[int, ...] | None) -> Mesh:
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


def _array(item: _Item) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the dimensions and elements of ``array([[0, 1], [2, 3]])``."""
    if not isinstance(item, _Call):
        raise CodeError
    dims: list[int] = []
    level: list[Any] = [item.arguments[0] if item.arguments else ()]
    while level and all(type(one) is tuple for one in level):
        if len(sizes := {len(one) for one in level}) != 1:
            raise DumpSyntaxError("an array whose rows differ in length")
        dims += sizes
        level = [inner for one in level for inner in one]
    return tuple(dims), _integers(tuple(level))


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
