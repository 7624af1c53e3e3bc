"""Labels: the meaning of an instruction without names and spellings, one number per meaning.

Both modules share the numbers: two instructions with equal labels compute the same from their
operands. Names, channel ids (except whether there is one), metadata and origins do not count;
shardings, device groups and configurations count by meaning, and shapes with their layout, where a
missing layout is the default one (xla/layout_util.cc, GetDefaultLayoutForRank).
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hlo_lens.hlo.instruction import CALLING_ATTRIBUTES
from hlo_lens.questions.diff.matching.attribute_text import (
    MEANINGS,
    config_meaning,
    split_attributes,
    squeezed,
)
from hlo_lens.questions.diff.matching.axis_names import SHARDY, with_axis_numbers
from hlo_lens.shapes.shape import Layout, Shape
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Set

    from hlo_lens.hlo.text_reader import HloReader

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")

_NAMING = re.compile(
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
        if "=" in head and _NAMING.search(head) is not None:
            return self._with_names(head, reader)
        return self._whole(head, reader)

    def _with_names(self, head: str, reader: HloReader) -> AttributeText:
        """Return the parts of a list with names; the rest is parsed once per distinct text."""
        channels = [match["channel"] for match in _NAMING.finditer(head) if match["channel"]]
        rest = self._whole(_NAMING.sub(_nameless, head), reader)
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
