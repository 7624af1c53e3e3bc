"""Mesh axes by number: names of axes have no meaning in a program.

Shardy's attributes name axes of the meshes in the module's header. Two programs whose meshes have
equal sizes and other names are the same program, so axes are compared by the order in which the
header first names them.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from itertools import chain, compress, repeat, starmap
from operator import gt, ne, sub
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hlo_lens.hlo.columns import END, OPERANDS_END, STRIDE
from hlo_lens.hlo.text import CALLING_ATTRIBUTES
from hlo_lens.questions.diff.matching.edits import Change
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.shape import Layout, Shape
from hlo_lens.shapes.shardy import MESHES, shardy_meshes
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.text import HloReader
    from hlo_lens.shapes.sharding import HloSharding


SHARDY = "sdy"
"""Part of all names and values that Shardy prints."""

_QUOTED = re.compile(r'(\\?")([^"\\]*)\1')
_NAME = re.compile(r"""(\\?["'])[^"'\\]*\1""")


def axis_numbers(module: HloModule) -> Mapping[str, str]:
    """Return the axis names of the meshes in a header to their numbers."""
    numbers: dict[str, str] = {}
    for mesh in shardy_meshes(module.frontend_attributes.get(MESHES, "")).values():
        for name in mesh.axis_names:
            numbers.setdefault(name, f"axis {len(numbers)}")
    return numbers


def with_axis_numbers(text: str, numbers: Mapping[str, str]) -> str:
    r"""Return a value of Shardy with numbers instead of axis names.

    >>> with_axis_numbers(r'#sdy.sharding<@mesh, [{\"x\"}, {}]>', {"x": "axis 0"})
    '#sdy.sharding<@mesh, [{\\"axis 0\\"}, {}]>'
    """
    return _QUOTED.sub(lambda m: f"{m[1]}{numbers.get(m[2], m[2])}{m[1]}", text)


def differ_in_names(mine: str, yours: str) -> bool:
    """Return whether two attribute lists differ in quoted names alone, such as those of axes."""
    return _NAME.sub("", mine) == _NAME.sub("", yours)


_PAIR = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")
_IRREGULAR = re.compile(r"[\"\n\r\t\f\\/]|  |= | ,")
"""Text that XLA never prints between an operand list and the metadata, except in strings."""

_METADATA = re.compile(
    r', metadata=(\{(?:[^"{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\{[^{}]*\})*+\})'
    r"(?=, backend_config=|$)"
)
METADATA_KEY = ", metadata={"
CONFIG_KEY = ", backend_config="
"""Starts of the two last parts of an attribute list."""

_STRING_OR_SPACE = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|/\*.*?\*/|//[^\n]*|\s+', re.DOTALL)


def split_attributes(text: str) -> tuple[str | None, str, str | None]:
    """Return the attributes before the metadata, the metadata, and the backend config.

    The first is None if the list is not as XLA prints it and must be parsed as a whole.
    """
    end = text.find(METADATA_KEY)
    if end < 0:
        end = text.find(CONFIG_KEY)
        if end < 0:
            return (None if _IRREGULAR.search(text) else text), "", None
    head = text[:end]
    if is_irregular(head):
        return None, "", None
    metadata, after = "", end
    match = _METADATA.match(text, end)
    if match is not None:
        metadata, after = match[1], match.end()
    if after == len(text):
        return head, metadata, None
    config = text[after + len(CONFIG_KEY) :]
    if text.startswith(CONFIG_KEY, after) and config.startswith(("{", '"')):
        return head, metadata, config
    return None, "", None


def is_irregular(head: str) -> bool:
    """Return whether the text before the metadata contains what XLA does not print there."""
    return _IRREGULAR.search(head) is not None or CONFIG_KEY in head


def quick_split(text: str) -> tuple[str | None, str, str | None]:
    """Return the parts as `split_attributes` does; the first part may be irregular."""
    end = text.find(METADATA_KEY)
    if end >= 0 and '"' not in (head := text[:end]):
        close = text.find("}", end) + 1
        if close == len(text):
            return head, text[end + len(METADATA_KEY) - 1 :], None
        config = close + len(CONFIG_KEY)
        if text.startswith(CONFIG_KEY, close) and text.startswith(("{", '"'), config):
            return head, text[end + len(METADATA_KEY) - 1 : close], text[config:]
    return split_attributes(text)


def squeezed(text: str) -> str:
    """Return a text without white space and comments outside strings."""
    if " " not in text and "\n" not in text and "/" not in text and "\t" not in text:
        return text
    return _STRING_OR_SPACE.sub(lambda match: match[1] or "", text)


def config_meaning(
    text: str, reader: HloReader, left_out: Set[str] = frozenset()
) -> tuple[object, str]:
    """Return a parsed configuration, and a text that is equal for equal ones.

    A string that is not JSON (base64, flags of a backend) is compared as text.

    Args:
        text: The configuration as written.
        reader: Reader of its module.
        left_out: Fields of a JSON object that do not count.
    """
    written = text.strip()
    plain = reader.string(written)
    try:
        value = json.loads(plain)
    except (ValueError, RecursionError):
        value = None
    if left_out and isinstance(value, dict):
        value = {name: one for name, one in value.items() if name not in left_out}
    if isinstance(value, dict | list):
        return value, json.dumps(_without_ids(value), sort_keys=True)
    return plain, plain if written.startswith('"') else squeezed(plain)


def _without_ids(value: object) -> object:
    """Return a configuration without the ids of barriers, which are assigned like channels.

    Source: libtpu 0.0.42 to 0.0.51 print ``"barrier_config":{"barrier_type":"CUSTOM","id":"3"}``.
    """
    if isinstance(value, dict) and isinstance(value.get("barrier_config"), dict):
        barrier = {k: v for k, v in value["barrier_config"].items() if k != "id"}
        return {**value, "barrier_config": barrier}
    return value


def _sharding(value: str, reader: HloReader) -> Hashable:
    return _sharding_key(reader.sharding(value))


def _sharding_key(sharding: HloSharding) -> Hashable:
    if sharding.elements:
        return tuple(_sharding_key(element) for element in sharding.elements)
    if sharding.kind is ShardingKind.UNKNOWN:  # of a form that is kept as text, too
        return sharding.text
    meaning = (
        tuple(sorted(part.items())) if isinstance(part, dict) else part
        for part in sharding.meaning()
    )
    return (*meaning, sharding.shard_group)


def _device_list(value: str, reader: HloReader) -> Hashable:
    try:
        return reader.device_list(value).flattened_replica_groups()
    except DumpSyntaxError:  # of a form that is kept as text
        return value


def _pairs(value: str, reader: HloReader) -> Hashable:
    del reader
    return tuple(sorted((int(a), int(b)) for a, b in _PAIR.findall(value)))


def _frontend(value: str, reader: HloReader) -> Hashable:
    return frozenset(reader.frontend_attributes(value).items())


MEANINGS: Mapping[str, Callable[[str, HloReader], Hashable]] = {
    "sharding": _sharding,
    "replica_groups": _device_list,
    "source_target_pairs": _pairs,
    "frontend_attributes": _frontend,
}
"""Attribute name to the reader of its values; all others count as written."""


IRREGULAR = -1
"""Number of an attribute list that must be parsed as a whole."""

_FIRST_CHANNEL = -2

_NAMING = (", calls", ", to_apply")
"""Attributes that often come last, and whose value, the name of a computation, has no meaning."""

_ATTRIBUTE_COLUMNS_NAME = re.compile(r"%?[\w.-]+")


class _Heads(dict[str, int]):
    """Number of each distinct attribute list without metadata and backend config.

    The number of the meaning (`AttributeText.key`) without a channel; `IRREGULAR`; or a lower one
    for lists with a channel.
    """

    def __init__(self, labels: Labels, module: HloModule) -> None:
        super().__init__()
        self.with_channel: list[AttributeText] = []
        self._named: dict[str, int] = {}
        self._labels = labels
        self._reader = module.reader

    def __missing__(self, text: str) -> int:
        stem, _, name = text.rpartition("=")
        is_named = stem.endswith(_NAMING) and _ATTRIBUTE_COLUMNS_NAME.fullmatch(name) is not None
        number = self._named.get(stem) if is_named else None
        if number is None:
            number = self._read(text[1:])  # after the closing parenthesis
            if is_named and number >= 0:
                self._named[stem] = number
        self[text] = number
        return number

    def _read(self, head: str) -> int:
        if is_irregular(head):
            return IRREGULAR
        found = self._labels.head(head, self._reader)
        if found.channel is None:
            return found.key
        self.with_channel.append(found)
        return _FIRST_CHANNEL - len(self.with_channel) + 1


class AttributeColumns:
    """Attributes of each row.

    Args:
        labels: Labels of both modules.
        module: The module.
        without: Rows whose attributes are ignored.

    Attributes:
        keys: Number of the meaning of each row's attributes.
        configs: Row to the number of its backend config, if it has one.
        channels: Row to its channel id as written, if it has one.
        irregular: Rows that must be parsed as a whole; their key has no meaning.
    """

    def __init__(self, labels: Labels, module: HloModule, without: Iterable[int]) -> None:
        self.configs: dict[int, int] = {}
        self.channels: dict[int, str] = {}
        self.irregular: list[int] = []
        self._labels = labels
        self._module = module
        text, spans = module.columns.source.text, module.columns.spans
        cuts, odd = self._cuts(without)
        heads = _Heads(labels, module)
        parts = map(text.__getitem__, map(slice, spans[OPERANDS_END::STRIDE], cuts))
        self.keys = list(map(heads.__getitem__, parts))
        for row in odd:
            self.keys[row] = IRREGULAR
        nothing = labels.head("", module.reader).key
        for row in list(compress(range(len(self.keys)), map(gt, repeat(0), self.keys))):
            number = self.keys[row]
            if number == IRREGULAR:
                self.irregular.append(row)
                self.configs.pop(row, None)
                self.keys[row] = nothing
            else:
                found = heads.with_channel[_FIRST_CHANNEL - number]
                self.keys[row] = found.key
                self.channels[row] = found.channel or ""

    def _cuts(self, without: Iterable[int]) -> tuple[list[int], list[int]]:
        """Return the offset of the metadata or config of each row, and irregular rows.

        Irregular rows have something other than a config after their metadata.
        """
        text, spans = self._module.columns.source.text, self._module.columns.spans
        find = text.find
        starts, ends = spans[OPERANDS_END::STRIDE], spans[END::STRIDE]
        cuts = list(map(find, repeat(METADATA_KEY), starts, ends))
        after = map(sub, ends, map(find, repeat("}"), cuts, ends))
        rows = range(len(cuts))
        ignored = frozenset(without)
        odd: list[int] = []
        configs = {
            row: find("}", cuts[row], ends[row]) + 1
            for row in compress(rows, map(ne, after, repeat(1)))
            if cuts[row] >= 0 and row not in ignored
        }
        for row in ignored:
            cuts[row] = starts[row] + 1
        bare = list(compress(rows, map(gt, repeat(0), cuts)))
        sides = map(starts.__getitem__, bare), map(ends.__getitem__, bare)
        for row, at in zip(bare, map(find, repeat(CONFIG_KEY), *sides), strict=True):
            cuts[row] = at if at >= 0 else ends[row]
            if at >= 0:
                configs[row] = at
        for row, at in sorted(configs.items()):
            config = at + len(CONFIG_KEY)
            if text.startswith(CONFIG_KEY, at) and text.startswith(("{", '"'), config):
                self.configs[row] = self._labels.config(
                    text[config : ends[row]], self._module.reader
                )
            else:
                odd.append(row)
        return cuts, odd


K = TypeVar("K", bound="Hashable")
V = TypeVar("V")

_LABELS_NAMING = re.compile(
    r"(?<=, )(?:(to_apply|calls|condition|body|true_computation|false_computation|select|scatter)"
    r"=%?([\w.-]+)"
    r"|(branch_computations|called_computations|calls|control-predecessors)=\{([^{}]*)\}"
    r"|(channel_id)=(?P<channel>-?\d+|_))(?=,|$)"
)
"""Attributes whose values are names or channel ids, as XLA prints them."""

_NO_MEANING = frozenset(
    {
        *CALLING_ATTRIBUTES,
        "control-predecessors",
        "metadata",
        "origin",
        "original_value",
        "backend_config",
    }
)
"""Attributes without a part in the key: edges of the graph, and those that change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeText:
    """The attribute list of an instruction, in parts.

    Attributes:
        key: Number of the meaning of all attributes, without those that name computations and
            control predecessors; of a channel id only whether there is one.
        channel: Channel id as written; None for none.
    """

    key: int
    channel: str | None = None


class LabelParts(NamedTuple):
    """Parts of one label; the numbers are keys into `Labels`.

    Attributes:
        opcode: Opcode as written.
        shape: Number of the shape.
        attributes: Number of the attributes.
        config: Number of the backend config; -1 for none.
        detail: Literal of a constant or number of a parameter; None for others.
    """

    opcode: str
    shape: int
    attributes: int
    config: int
    detail: Hashable


@dataclass(slots=True, eq=False, kw_only=True)
class Labels:
    """Numbers of meanings, the same for both modules.

    Attributes:
        with_layouts: Whether layouts count; not if one text prints none.
        with_shapes: Whether shapes count at all.
        with_literals: Whether literals of more than ten elements count; not if one text prints
            them as dots.
        with_scalars: Whether other literals count.
        with_configs: Whether backend configs count.
        left_out: Fields of backend configs that do not count.
        with_controls: Whether control predecessors count.
        parts: Parts of each label.
        shapes: Each shape; as text if it cannot be parsed.
        attributes: Meaning and text of each attribute, for each attribute list.
        configs: Value and text of each backend config.
        edges: Numbers of the edges of computations (`ProgramGraph.edges`).
        bodies: Numbers of whole computations (`ProgramGraph.bodies`).
        axes: Numbers of the mesh axes of each module, by the reader of the module.
    """

    with_layouts: bool = True
    with_shapes: bool = True
    with_literals: bool = True
    with_scalars: bool = True
    with_configs: bool = True
    left_out: Set[str] = frozenset()
    with_controls: bool = True
    parts: list[LabelParts] = field(default_factory=list)
    shapes: list[Shape | str] = field(default_factory=list)
    attributes: list[Mapping[str, tuple[Hashable, str]]] = field(default_factory=list)
    configs: list[tuple[object, str]] = field(default_factory=list)
    edges: dict[Hashable, int] = field(default_factory=dict)
    bodies: dict[Hashable, int] = field(default_factory=dict)
    axes: dict[int, Mapping[str, str]] = field(default_factory=dict)
    _labels: dict[LabelParts, int] = field(default_factory=dict)
    _shape_texts: dict[str, int] = field(default_factory=dict)
    _shape_keys: dict[Hashable, int] = field(default_factory=dict)
    _attribute_keys: dict[Hashable, int] = field(default_factory=dict)
    _plain: dict[str, AttributeText] = field(default_factory=dict)
    _config_texts: dict[str, int] = field(default_factory=dict)
    _config_keys: dict[str, int] = field(default_factory=dict)
    _values: dict[tuple[str, str], Hashable] = field(default_factory=dict)

    @property
    def what_counts(self) -> tuple[object, ...]:
        """The fields that say which parts of texts count."""
        is_shown = self.with_layouts, self.with_shapes, self.with_literals, self.with_scalars
        return *is_shown, self.with_configs, self.left_out, self.with_controls

    def label(self, parts: LabelParts) -> int:
        """Return the number of a label."""
        return _number(self._labels, parts, self.parts, parts)

    def adopt(self, other: Labels) -> list[int]:
        """Add the labels of another module with equal `what_counts`; return their numbers here."""
        shapes = [_number(self._shape_keys, one, self.shapes, one) for one in other.shapes]
        attributes = list(map(self._key, other.attributes))
        configs = [
            _number(self._config_keys, plain, self.configs, (value, plain))
            for value, plain in other.configs
        ]
        return [
            self.label(
                parts._replace(
                    shape=shapes[parts.shape],
                    attributes=attributes[parts.attributes],
                    config=parts.config if parts.config < 0 else configs[parts.config],
                )
            )
            for parts in other.parts
        ]

    # ---- shapes --------------------------------------------------------------------------------

    def shape(self, text: str, reader: HloReader) -> int:
        """Return the number of the shape that a text prints."""
        known = self._shape_texts.get(text)
        if known is None:
            known = self._shape_texts[text] = self._read_shape(text, reader)
        return known

    def _read_shape(self, text: str, reader: HloReader) -> int:
        if not self.with_shapes:
            text = ""
        shape: Shape | str
        try:
            shape = self.plain_shape(reader.shape(text)) if text else ""
        except DumpSyntaxError:
            shape = squeezed(text)
        return _number(self._shape_keys, shape, self.shapes, shape)

    def plain_shape(self, shape: Shape) -> Shape:
        """Return a shape with the layouts that count."""
        return shape.with_leaves([self._leaf(leaf) for _, leaf in shape.leaves()])

    def _leaf(self, leaf: Shape) -> Shape:
        if not self.with_layouts:
            return dataclasses.replace(leaf, layout=None)
        if leaf.layout is None and leaf.dimensions:
            order = tuple(range(len(leaf.dimensions) - 1, -1, -1))
            return dataclasses.replace(leaf, layout=Layout(minor_to_major=order))
        return leaf

    # ---- literals ------------------------------------------------------------------------------

    def literal(self, text: str) -> Hashable:
        """Return the meaning of a constant's literal."""
        if not self.with_scalars:
            return "{...}"
        plain = squeezed(text)
        commas = plain.count(",") - plain.count("(")  # a complex number has a comma of its own
        if not self.with_literals and (plain == "{...}" or commas >= _LONG_LITERAL):
            return "{...}"
        return plain

    # ---- attributes ----------------------------------------------------------------------------

    def attribute_text(self, text: str, reader: HloReader) -> tuple[AttributeText, int]:
        """Return the parts of an attribute list, and the number of its backend config."""
        head, _, config = split_attributes(text)
        if head is None:
            return self.attribute_list(reader.attributes(text), reader)
        number = -1 if config is None else self.config(config, reader)
        return self.head(head, reader), number

    def head(self, head: str, reader: HloReader) -> AttributeText:
        """Return the parts of an attribute list without metadata and backend config."""
        known = self._plain.get(head)
        if known is not None:
            return known
        if "=" in head and _LABELS_NAMING.search(head) is not None:
            return self._with_names(head, reader)
        return self._whole(head, reader)

    def _with_names(self, head: str, reader: HloReader) -> AttributeText:
        """Return the parts of a list with names; the rest is parsed once per distinct text."""
        channels = [match["channel"] for match in _LABELS_NAMING.finditer(head) if match["channel"]]
        rest = self._whole(_LABELS_NAMING.sub(_nameless, head), reader)
        return AttributeText(key=rest.key, channel=channels[-1] if channels else rest.channel)

    def _whole(self, head: str, reader: HloReader) -> AttributeText:
        known = self._plain.get(head)
        if known is None:
            pairs = reader.attributes(head) if head else ()
            known = self._plain[head] = self._read(pairs, reader)
        return known

    def attribute_list(
        self, pairs: tuple[tuple[str, str], ...], reader: HloReader
    ) -> tuple[AttributeText, int]:
        """Return the same for a parsed list."""
        config = next((value for name, value in pairs if name == "backend_config"), None)
        number = -1 if config is None else self.config(config, reader)
        return self._read(pairs, reader), number

    def _read(self, pairs: tuple[tuple[str, str], ...], reader: HloReader) -> AttributeText:
        found: dict[str, tuple[Hashable, str]] = {}
        channel: str | None = None
        for name, value in pairs:
            if name in _NO_MEANING or name in found:
                continue
            if name == "channel_id":
                channel = value
                found[name] = ("", "")
            else:
                plain = with_axis_numbers(value, self.axes_of(reader)) if SHARDY in value else value
                found[name] = (self._value(name, plain, reader), value)
        return AttributeText(key=self._key(found), channel=channel)

    def axes_of(self, reader: HloReader) -> Mapping[str, str]:
        """Return the numbers of the mesh axes of the module that a reader reads."""
        return self.axes.get(id(reader), {})

    def merged(self, outer: AttributeText, inner: AttributeText) -> AttributeText:
        """Return the attributes of an operation that an async-start wraps, with the start's own."""
        found = {**self.attributes[inner.key], **self.attributes[outer.key]}
        return AttributeText(key=self._key(found), channel=inner.channel)

    def with_more(self, label: int, pairs: Iterable[tuple[str, str]], reader: HloReader) -> int:
        """Return the number of a label with additional attributes."""
        parts = self.parts[label]
        found = dict(self.attributes[parts.attributes])
        for name, value in pairs:
            found[name] = (self._value(name, value, reader), value)
        return self.label(parts._replace(attributes=self._key(found)))

    def _key(self, found: Mapping[str, tuple[Hashable, str]]) -> int:
        """Return the number of the meaning of some attributes."""
        meaning = frozenset((name, value) for name, (value, _) in found.items())
        return _number(self._attribute_keys, meaning, self.attributes, found)

    def _value(self, name: str, value: str, reader: HloReader) -> Hashable:
        known = self._values.get((name, value))
        if known is None:
            read = self._shapes_in if name in _SHAPED else MEANINGS.get(name)
            try:
                known = squeezed(value) if read is None else read(value, reader)
            except (DumpSyntaxError, ValueError):
                known = squeezed(value)
            self._values[name, value] = known
        return known

    def _shapes_in(self, value: str, reader: HloReader) -> Hashable:
        """Return an attribute that is a shape, or a list of shapes in braces."""
        text = f"({value[1:-1]})" if value.startswith("{") else value
        return self.plain_shape(reader.shape(text))

    # ---- backend configs -----------------------------------------------------------------------

    def config(self, text: str, reader: HloReader) -> int:
        """Return the number of a backend config; the order of keys in JSON does not count."""
        if not self.with_configs:
            return -1
        known = self._config_texts.get(text)
        if known is None:
            value, plain = config_meaning(text, reader, self.left_out)
            known = _number(self._config_keys, plain, self.configs, (value, plain))
            self._config_texts[text] = known
        return known


_SHAPED = frozenset({"operand_layout_constraints", "outfeed_shape"})
"""Attributes that contain shapes."""

_LONG_LITERAL = 10
"""Literals of more elements are printed as dots. Source: literal printing in HloPrintOptions."""


def _number(numbers: dict[K, int], key: K, listed: list[V], value: V) -> int:
    """Return the number of a key; a new key is numbered, and its value added to the list."""
    number = numbers.setdefault(key, len(listed))
    if number == len(listed):
        listed.append(value)
    return number


def _nameless(match: re.Match[str]) -> str:
    """Return an attribute with a mark instead of the computation or channel."""
    return f"{match[1] or match[3] or match[5]}=_"


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
