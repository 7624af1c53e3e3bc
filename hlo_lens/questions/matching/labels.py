"""Labels: what an instruction means by itself, as numbers that two modules share.

A label is opcode, shape, attributes, backend config, and the literal of a constant or the number of
a parameter. Names, channel ids and metadata are no part of it: names of computations are edges of
the graph, and channel ids are kept beside it. Values are compared by meaning: shardings, device
groups, configs and layouts may be spelled in several ways. Layouts
and long literals do not count if one of two texts leaves them out (`Counted`).

Names of mesh axes have no meaning either: Shardy's attributes name axes of the meshes in the
module's header, and axes are compared by the order in which the header first names them.
"""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from functools import cache
from itertools import compress, repeat
from operator import ne, sub
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hlo_lens.hlo.columns import END, OPERANDS, OPERANDS_END, STRIDE
from hlo_lens.hlo.text import CALLING_ATTRIBUTES
from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.shapes.shape import Layout, Shape
from hlo_lens.shapes.sharding import MESHES, shardy_meshes
from hlo_lens.text.errors import DumpSyntaxError
from hlo_lens.text.units import bounded_int

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Set

    from hlo_lens.hlo.module import HloModule
    from hlo_lens.hlo.text import HloReader
    from hlo_lens.shapes.sharding import HloSharding

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")

# ---- texts of attributes -----------------------------------------------------------------------

METADATA_KEY = ", metadata={"
CONFIG_KEY = ", backend_config="
"""Starts of the two last parts of an attribute list."""

_IRREGULAR = re.compile(rf"[\"\n\r\t\f\\/]|  |= | ,|{CONFIG_KEY}")
"""Text that XLA never prints between an operand list and the metadata, except in strings."""

_STRING_OR_SPACE = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|/\*.*?\*/|//[^\n]*|\s+', re.DOTALL)


def split_attributes(text: str) -> tuple[str, str, str | None] | None:
    """Return the attributes before the metadata, the metadata, and the backend config.

    The first part may be irregular. None if a string comes before the metadata, or anything but a
    config after it: then the list must be parsed as a whole.
    """
    end = text.find(METADATA_KEY)
    if end >= 0:
        if text.find('"', 0, end) >= 0:
            return None
        close = text.find("}", end) + 1
        metadata = text[end + len(METADATA_KEY) - 1 : close]
    else:
        end = close = text.find(CONFIG_KEY)
        metadata = ""
        if end < 0:
            return text, "", None
    if close == len(text):
        return text[:end], metadata, None
    config = close + len(CONFIG_KEY)
    if text.startswith(CONFIG_KEY, close) and text.startswith(("{", '"'), config):
        return text[:end], metadata, text[config:]
    return None


def is_irregular(attributes: str) -> bool:
    """Return whether the text before the metadata contains what XLA does not print there."""
    return _IRREGULAR.search(attributes) is not None


def squeezed(text: str) -> str:
    """Return a text without white space and comments outside strings."""
    if " " not in text and "\n" not in text and "/" not in text and "\t" not in text:
        return text
    return _STRING_OR_SPACE.sub(lambda match: match[1] or "", text)


# ---- meanings of values ------------------------------------------------------------------------

SHARDY = "sdy"
"""Part of all names and values that Shardy prints."""

_QUOTED = re.compile(r'(\\?")([^"\\]*)\1')
_PAIR = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")


def axis_numbers(module: HloModule) -> Mapping[str, str]:
    """Return the axis names of the meshes in a header to their numbers."""
    numbers: dict[str, str] = {}
    for mesh in shardy_meshes(module.frontend_attributes.get(MESHES, "")).values():
        for name in mesh.axis_names:
            numbers.setdefault(name, f"axis {len(numbers)}")
    return numbers


def with_axis_numbers(text: str, numbers: Mapping[str, str]) -> str:
    r"""Return a value of Shardy with numbers instead of axis names; other values as they are.

    >>> with_axis_numbers(r'#sdy.sharding<@mesh, [{\"x\"}, {}]>', {"x": "axis 0"})
    '#sdy.sharding<@mesh, [{\\"axis 0\\"}, {}]>'
    """
    if SHARDY not in text:
        return text
    return _QUOTED.sub(lambda m: f"{m[1]}{numbers.get(m[2], m[2])}{m[1]}", text)


def config_meaning(text: str, reader: HloReader) -> tuple[object, str]:
    """Return a parsed configuration, and a text that is equal for equal ones.

    A string that is not JSON (base64, flags of a backend) is compared as text. The order of keys
    does not count, nor do the ids of barriers, which are assigned like channels (libtpu prints
    ``"barrier_config":{"barrier_type":"CUSTOM","id":"3"}``).
    """
    written = text.strip()
    plain = reader.string(written)
    try:
        value = json.loads(plain)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict | list):
        return plain, plain if written.startswith('"') else squeezed(plain)
    meaning = value
    if isinstance(value, dict):
        barrier = value.get("barrier_config")
        if isinstance(barrier, dict):
            without_id = {name: field for name, field in barrier.items() if name != "id"}
            meaning = {**value, "barrier_config": without_id}
    return value, json.dumps(meaning, sort_keys=True)


def _sharding_key(sharding: HloSharding) -> Hashable:
    if sharding.elements:
        return tuple(map(_sharding_key, sharding.elements))
    if sharding.kind is ShardingKind.UNKNOWN:  # of a form that is kept as text, too
        return sharding.text
    meaning = (
        tuple(sorted(part.items())) if isinstance(part, dict) else part
        for part in sharding.meaning()
    )
    return (*meaning, sharding.shard_group)


_MEANINGS: Mapping[str, Callable[[str, HloReader], Hashable]] = {
    "sharding": lambda value, reader: _sharding_key(reader.sharding(value)),
    "replica_groups": lambda value, reader: reader.device_list(value).flattened_replica_groups(),
    "source_target_pairs": lambda value, _: tuple(
        sorted((bounded_int(a), bounded_int(b)) for a, b in _PAIR.findall(value))
    ),
    "frontend_attributes": lambda value, reader: frozenset(
        reader.frontend_attributes(value).items()
    ),
}
"""Attribute name to the meaning of its values; all others count as written."""

_SHAPED = frozenset({"operand_layout_constraints", "outfeed_shape"})
"""Attributes that contain shapes."""

_NO_MEANING = frozenset(
    {
        *CALLING_ATTRIBUTES,
        *("control-predecessors", "metadata", "origin", "original_value", "backend_config"),
    }
)
"""Attributes without a part in the meaning: edges of the graph, and those that change nothing."""

_NAMING = re.compile(
    r"(?<=, )(?:(to_apply|calls|condition|body|true_computation|false_computation|select|scatter)"
    r"=%?([\w.-]+)"
    r"|(branch_computations|called_computations|calls|control-predecessors)=\{([^{}]*)\}"
    r"|(channel_id)=(?P<channel>-?\d+|_))(?=,|$)"
)
"""Attributes whose values are names or channel ids, as XLA prints them."""

_NAME = re.compile(r"%?[\w.-]+")
_LONG_LITERAL = 10
"""Literals of more elements are printed as dots. Source: literal printing in HloPrintOptions."""


def _nameless(match: re.Match[str]) -> str:
    """Return an attribute with a mark instead of the computation or channel."""
    return f"{match[1] or match[3] or match[5]}=_"


# ---- labels ------------------------------------------------------------------------------------


class Counted(NamedTuple):
    """What counts in a comparison of two texts."""

    layouts: bool = True  # not if one text prints none
    literals: bool = True  # those of more than ten elements; not if a text prints any as dots


def counted_between(*modules: HloModule) -> Counted:
    """Return what counts in a comparison: what no text leaves out."""
    layouts = {any("]{" in shape for shape in module.shape_texts.different) for module in modules}
    has_dots = any(
        module.columns.text(row, OPERANDS, OPERANDS_END) == "{...}"
        for module in modules
        for row in module.opcodes.places_of({"constant"})
    )
    return Counted(layouts=len(layouts) == 1, literals=not has_dots)


class LabelParts(NamedTuple):
    """Parts of one label; the numbers are keys into `Labels`."""

    opcode: str
    shape: int
    attributes: int
    config: int  # -1 for none
    detail: Hashable  # literal of a constant or number of a parameter; None for others


@dataclass(slots=True, eq=False)
class Labels:
    """Numbers of meanings, the same for both modules."""

    counted: Counted = field(default_factory=Counted)
    parts: list[LabelParts] = field(default_factory=list)
    shapes: list[Shape | str] = field(default_factory=list)  # as text if it cannot be parsed
    attributes: list[Mapping[str, tuple[Hashable, str]]] = field(default_factory=list)
    """Meaning and text of each attribute, for each attribute list."""
    configs: list[tuple[object, str]] = field(default_factory=list)
    """Value and text of each backend config."""
    edges: dict[Hashable, int] = field(default_factory=dict)
    bodies: dict[Hashable, int] = field(default_factory=dict)
    axes: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """Numbers of the mesh axes of each module, by the reader of the module."""
    _labels: dict[LabelParts, int] = field(default_factory=dict)
    _shape_texts: dict[str, int] = field(default_factory=dict)
    _shape_keys: dict[Hashable, int] = field(default_factory=dict)
    _attribute_keys: dict[Hashable, int] = field(default_factory=dict)
    _attribute_texts: dict[str, int] = field(default_factory=dict)
    _config_texts: dict[str, int] = field(default_factory=dict)
    _config_keys: dict[str, int] = field(default_factory=dict)
    _values: dict[tuple[str, str], Hashable] = field(default_factory=dict)

    def label(self, parts: LabelParts) -> int:
        return _number(self._labels, parts, self.parts, parts)

    def shape(self, text: str, reader: HloReader) -> int:
        """Return the number of the shape that a text prints."""
        if text not in self._shape_texts:
            shape: Shape | str
            try:
                shape = self.plain_shape(reader.shape(text)) if text else ""
            except DumpSyntaxError:
                shape = squeezed(text)
            self._shape_texts[text] = _number(self._shape_keys, shape, self.shapes, shape)
        return self._shape_texts[text]

    def plain_shape(self, shape: Shape) -> Shape:
        """Return a shape with the layouts that count; one that is not printed is descending."""
        leaves = []
        for _, leaf in shape.leaves():
            layout = leaf.layout if self.counted.layouts else None
            if self.counted.layouts and layout is None and leaf.dimensions:
                layout = Layout(minor_to_major=tuple(range(len(leaf.dimensions) - 1, -1, -1)))
            leaves.append(dataclasses.replace(leaf, layout=layout))
        return shape.with_leaves(leaves)

    def literal(self, text: str) -> Hashable:
        plain = squeezed(text)
        commas = plain.count(",") - plain.count("(")  # a complex number has a comma of its own
        is_long = plain == "{...}" or commas >= _LONG_LITERAL
        return "{...}" if is_long and not self.counted.literals else plain

    def regular_attributes(self, text: str, reader: HloReader) -> int:
        """Return the number of a regular list without metadata and backend config.

        Names and channel ids are replaced by a mark: what is left is parsed once per distinct text.
        """
        plain = _NAMING.sub(_nameless, text)
        if plain not in self._attribute_texts:
            pairs = reader.attributes(plain) if plain else ()
            self._attribute_texts[plain] = self._read(pairs, reader)
        return self._attribute_texts[plain]

    def attribute_list(
        self, pairs: tuple[tuple[str, str], ...], reader: HloReader
    ) -> tuple[int, int]:
        """Return the numbers of the meaning of a parsed list, and of its backend config."""
        config = next((value for name, value in pairs if name == "backend_config"), None)
        return self._read(pairs, reader), -1 if config is None else self.config(config, reader)

    def _read(self, pairs: tuple[tuple[str, str], ...], reader: HloReader) -> int:
        """Return the number of the meaning; of a channel id only that there is one counts."""
        found: dict[str, tuple[Hashable, str]] = {}
        axes = self.axes.get(id(reader), {})
        for name, value in pairs:
            if name == "channel_id":
                found[name] = ("", "")
            elif name not in _NO_MEANING and name not in found:
                found[name] = (self._value(name, with_axis_numbers(value, axes), reader), value)
        return self._key(found)

    def with_more(self, label: int, pairs: Iterable[tuple[str, str]], reader: HloReader) -> int:
        """Return the number of a label with additional attributes."""
        parts = self.parts[label]
        more = {name: (self._value(name, value, reader), value) for name, value in pairs}
        key = self._key({**self.attributes[parts.attributes], **more})
        return self.label(parts._replace(attributes=key))

    def _key(self, found: Mapping[str, tuple[Hashable, str]]) -> int:
        """Return the number of the meaning of some attributes."""
        meaning = frozenset((name, value) for name, (value, _) in found.items())
        return _number(self._attribute_keys, meaning, self.attributes, found)

    def _value(self, name: str, value: str, reader: HloReader) -> Hashable:
        """Return the meaning of a value; the value as written if it cannot be read."""
        if (name, value) not in self._values:
            try:
                if name in _SHAPED:  # a shape, or a list of shapes in braces
                    shapes = f"({value[1:-1]})" if value.startswith("{") else value
                    meaning: Hashable = self.plain_shape(reader.shape(shapes))
                else:
                    read = _MEANINGS.get(name)
                    meaning = squeezed(value) if read is None else read(value, reader)
            except (DumpSyntaxError, ValueError):
                meaning = squeezed(value)
            self._values[name, value] = meaning
        return self._values[name, value]

    def config(self, text: str, reader: HloReader) -> int:
        """Return the number of a backend config."""
        if text not in self._config_texts:
            value, plain = config_meaning(text, reader)
            number = _number(self._config_keys, plain, self.configs, (value, plain))
            self._config_texts[text] = number
        return self._config_texts[text]


def _number(numbers: dict[K, int], key: K, listed: list[V], value: V) -> int:
    """Return the number of a key; a new key is numbered, and its value added to the list."""
    number = numbers.setdefault(key, len(listed))
    if number == len(listed):
        listed.append(value)
    return number


def attribute_columns(
    labels: Labels, module: HloModule, without: Set[int]
) -> tuple[list[int], list[int]]:
    """Return the numbers of attributes and of configs of all rows, of some as if they had none.

    A list that must be parsed as a whole has -1.
    """
    text, spans, reader = module.columns.source.text, module.columns.spans, module.reader
    starts, ends = spans[OPERANDS_END::STRIDE], spans[END::STRIDE]
    cuts = list(map(text.find, repeat(METADATA_KEY), starts, ends))
    closes = map(text.find, repeat("}"), cuts, ends)
    rows = range(len(cuts))
    is_odd = map(ne, closes, map(sub, ends, repeat(1)))
    odd = {*compress(rows, is_odd), *rows[-1:]}  # the text may end with a brace
    configs = [-1] * len(cuts)
    for row in sorted(odd - without):
        if cuts[row] < 0 and text.find(CONFIG_KEY, starts[row], ends[row]) < 0:
            cuts[row] = ends[row]
            continue
        head, _, config = split_attributes(text[starts[row] : ends[row]]) or ("", "", None)
        cuts[row] = starts[row] + len(head)
        if config is not None:
            configs[row] = labels.config(config, reader)
    for row in without:
        cuts[row] = starts[row] + 1

    @cache
    def number(head: str) -> int:
        stem, _, name = head.rpartition("=")
        if name != "_" and stem.endswith((", calls", ", to_apply")) and _NAME.fullmatch(name):
            return number(f"{stem}=_")  # each fusion has a computation of its own
        is_regular = head and not is_irregular(head)
        return labels.regular_attributes(head[1:], reader) if is_regular else -1

    return list(map(number, map(text.__getitem__, map(slice, starts, cuts)))), configs
