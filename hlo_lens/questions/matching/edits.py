"""Edits as types, kinds of noise, and the changes of labels and headers in words.

An edit is an instruction that was added, removed, changed or moved: it has the instruction on each
side, and its changes. Header fields are compared as texts that are equal for equal meanings;
aliases and donors by parameter. Of the layouts of parameters and result those count that differ
from the entry's own, as before layout assignment: the caller passes and receives them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import chain, starmap
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from hlo_lens.questions.matching.labels import (
    axis_numbers,
    config_meaning,
    squeezed,
    with_axis_numbers,
)
from hlo_lens.shapes.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction
    from hlo_lens.questions.matching.graphs import ProgramGraph
    from hlo_lens.questions.matching.labels import Labels
    from hlo_lens.shapes.shape import ShapeIndex


@dataclass(frozen=True, slots=True)
class Change:
    """One change of an instruction or of the module; a value is None where it is absent.

    ``what`` is ``opcode``, ``element type``, ``shape``, ``operand 0``, the name of an attribute, or
    ``backend_config.KEY``.
    """

    what: str
    base: str | None
    head: str | None

    def __str__(self) -> str:
        return f"{self.what} {self.base or '(none)'} -> {self.head or '(none)'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """An instruction that only the head has."""

    kind: ClassVar[str] = "added"
    base: ClassVar[None] = None
    head: HloInstruction
    changes: ClassVar[tuple[Change, ...]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """An instruction that only the base has."""

    kind: ClassVar[str] = "removed"
    base: HloInstruction
    head: ClassVar[None] = None
    changes: ClassVar[tuple[Change, ...]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """An instruction that both have and that differs; it has at least one change."""

    kind: ClassVar[str] = "changed"
    base: HloInstruction
    head: HloInstruction
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An instruction in another computation: in or out of a loop, a fusion, a branch."""

    kind: ClassVar[str] = "moved"
    base: HloInstruction
    head: HloInstruction
    changes: tuple[Change, ...] = ()


Edit: TypeAlias = Added | Removed | Changed | Moved


def in_head(edit: Edit) -> HloInstruction:
    """Return the instruction in the head; in the base if it was removed."""
    return edit.base if isinstance(edit, Removed) else edit.head


def in_base(edit: Edit) -> HloInstruction:
    """Return the instruction in the base; in the head if it was added."""
    return edit.head if isinstance(edit, Added) else edit.base


class Noise(Enum):
    """A kind of difference that is counted and ignored, unless it is to count as a change.

    The value is its name in reports and on the command line.
    """

    _value_: str
    meaning: str

    NAMES = "names", "names of instructions, computations and the module"
    IDS = "ids", "numbers at the end of names, and of barriers"
    CHANNEL_IDS = "channel-ids", "channel ids, renumbered"
    STACK_FRAMES = "stack-frames", "numbers of stack frames that are the same place"
    METADATA = "metadata", "metadata: op names, places in the source, origins"
    KEY_ORDER = "key-order", "order of keys in backend configs and frontend attributes"
    SPELLING = "spelling", "spellings of one sharding, device group, shape or value"
    AXIS_NAMES = "axis-names", "names of mesh axes, of shardings that divide the same"
    INSTRUCTION_ORDER = "instruction-order", "order of instructions within their computation"
    COMPUTATION_ORDER = "computation-order", "order of computations in the text"
    PRINTING = "printing", "get-tuple-elements that one text leaves out"

    def __new__(cls, value: str, meaning: str) -> Noise:
        kind = object.__new__(cls)
        kind._value_ = value
        kind.meaning = meaning
        return kind

    __hash__ = object.__hash__  # that of Enum is a Python call, for each instruction with noise


# ---- changes of labels -------------------------------------------------------------------------

_LONGEST = 200
_BARRIER = "barrier_config.id"


def label_changes(labels: Labels, mine: int, yours: int) -> Iterator[Change]:
    """Yield the differences of two labels."""
    a, b = labels.parts[mine], labels.parts[yours]
    if a.opcode != b.opcode:
        yield Change("opcode", a.opcode, b.opcode)
    if a.shape != b.shape:
        yield from shape_changes(labels.shapes[a.shape], labels.shapes[b.shape])
    if a.detail != b.detail and a.opcode == b.opcode:
        what = "parameter number" if a.opcode == "parameter" else "value"
        yield Change(what, _cut(str(a.detail)), _cut(str(b.detail)))
    if a.attributes != b.attributes:
        before, after = labels.attributes[a.attributes], labels.attributes[b.attributes]
        for name in dict.fromkeys((*before, *after)):
            pair = before.get(name), after.get(name)
            meanings = [None if value is None else (value[0],) for value in pair]
            if meanings[0] != meanings[1]:  # of a channel only that there is one
                yield Change(name, *(value and _cut(value[1] or "yes") for value in pair))
    if a.config != b.config:
        yield from _config_changes(labels, a.config, b.config)


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def shape_changes(mine: Shape | str, yours: Shape | str) -> Iterator[Change]:
    """Yield the differences of two shapes: element type, dimensions, layout."""
    if not isinstance(mine, Shape) or not isinstance(yours, Shape):
        yield Change("shape", str(mine) or None, str(yours) or None)
        return
    if mine.is_tuple or yours.is_tuple:
        yield from _tuple_changes(mine, yours)
        return
    if mine.element_type != yours.element_type:
        yield Change("element type", mine.element_type, yours.element_type)
    sizes, layouts = [], []
    for shape in (mine, yours):
        text = shape.to_text(layout=False)
        sizes.append(text[text.find("[") :] if "[" in text else text)
        layout = str(shape.layout or "")  # without its memory space, which is listed separately
        layout = layout.replace(f"S({shape.memory_space})", "").replace(":}", "}")
        layouts.append(layout or None)
    if sizes[0] != sizes[1]:
        yield Change("shape", *sizes)
    if mine.memory_space != yours.memory_space:
        yield Change("memory space", str(mine.memory_space), str(yours.memory_space))
    if mine.rank == yours.rank and layouts[0] != layouts[1]:
        yield Change("layout", *layouts)


def _tuple_changes(mine: Shape, yours: Shape) -> Iterator[Change]:
    """Yield the differences of the elements of two tuples; equal ones once."""
    a, b = mine.tuple_shapes, yours.tuple_shapes
    if mine.is_tuple and yours.is_tuple and len(a) != len(b):
        yield Change("tuple elements", str(len(a)), str(len(b)))
    elif mine.is_tuple and yours.is_tuple:
        pairs = {(id(x), id(y)): (x, y) for x, y in zip(a, b, strict=True) if x is not y}
        yield from dict.fromkeys(chain.from_iterable(starmap(_element_changes, pairs.values())))
    else:
        texts = (
            f"tuple of {len(shape.tuple_shapes)}" if shape.is_tuple else shape.to_text(layout=False)
            for shape in (mine, yours)
        )
        yield Change("shape", *texts)


def _element_changes(mine: Shape, yours: Shape) -> Iterator[Change]:
    if not mine.is_tuple and not yours.is_tuple:
        yield from shape_changes(mine, yours)
    elif mine != yours:
        yield Change("shape", _cut(mine.to_text()), _cut(yours.to_text()))


def _config_changes(labels: Labels, mine: int, yours: int) -> Iterator[Change]:
    a, b = ((None, None) if number < 0 else labels.configs[number] for number in (mine, yours))
    if isinstance(a[0], dict) and isinstance(b[0], dict):
        before, after = dict(_flat(a[0])), dict(_flat(b[0]))
        paths = [path for path in dict.fromkeys((*before, *after)) if path != _BARRIER]
        differ = [path for path in paths if before.get(path) != after.get(path)]
        for path in differ:
            values = _cut(before.get(path)), _cut(after.get(path))
            yield Change(f"backend_config.{path}", *values)
        if differ:
            return  # else paths and values do not show the difference: "1" and 1
    yield Change("backend_config", _cut(a[1]), _cut(b[1]))


def _flat(value: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield paths and values of a nested configuration; lists are values."""
    stack: list[tuple[str, object]] = [*reversed([*value.items()])]
    while stack:
        path, inner = stack.pop()
        if isinstance(inner, dict) and inner:
            stack.extend((f"{path}.{key}", value) for key, value in reversed(inner.items()))
        else:
            yield path, repr(inner) if not isinstance(inner, str) else inner


# ---- headers -----------------------------------------------------------------------------------

_COUNTS = ("num_partitions", "replica_count")
_FLAG = "is_scheduled"
_ELSEWHERE = frozenset(
    {
        *("input_output_alias", "buffer_donor", "entry_computation_layout", "frontend_attributes"),
        *("debug_attributes", "origin_recovery_table"),
    }
)
"""Fields that are compared by meaning, or have none."""

_FINGERPRINTS = frozenset({"fingerprint_before_lhs"})
"""Frontend attributes about the text, without effect on the program."""


def header_values(graph: ProgramGraph) -> dict[str, str]:
    """Return the header fields by name, without aliases and donors.

    Each frontend attribute has a name of its own.
    """
    module, labels = graph.module, graph.labels
    found = {name: str(getattr(module, name)) for name in _COUNTS}
    found[_FLAG] = str(module.is_scheduled).lower()
    for name, value in module.header.items():
        is_flag = name == _FLAG and value in ("true", "false")
        if name == "backend_config":
            found[name] = config_meaning(value, module.reader)[1]
        elif name not in _ELSEWHERE and not is_flag and not (name in _COUNTS and value.isdecimal()):
            found[name] = squeezed(value)
    axes = axis_numbers(module)
    for name, value in module.frontend_attributes.items():
        if name not in _FINGERPRINTS:
            found[f"frontend_attributes.{name}"] = with_axis_numbers(value, axes)
    layout, root = module.entry_computation_layout, module.entry.root
    if layout is not None and root is not None:
        numbered = graph.parameter_numbers(graph.entry).items()
        pairs = {f"parameter {k}": (k, graph.parts(node).shape) for k, node in numbered}
        pairs["result"] = -1, labels.shape(root.shape_text, module.reader)
        demanded = [*layout.parameters, layout.result]
        shapes = {
            name: (labels.plain_shape(demanded[k]), labels.shapes[shape])
            for name, (k, shape) in pairs.items()
            if k < len(demanded) - 1
        }
        differ = [f"{name} {mine}" for name, (mine, own) in shapes.items() if mine != own]
        if differ:
            found["entry_computation_layout"] = ", ".join(differ)
    return found


def module_changes(
    base: ProgramGraph, head: ProgramGraph, head_of: Sequence[int]
) -> Iterator[Change]:
    """Yield the changes of the module, donations first; by the partner of each node of the base."""
    numbers = [graph.parameter_numbers(graph.entry) for graph in (base, head)]
    number_of = {node: number for number, node in numbers[1].items()}
    partners = {  # numbers of parameters
        number: number_of[head_of[node]]
        for number, node in numbers[0].items()
        if head_of[node] in number_of
    }
    yield from _donation_changes((base, head), partners, numbers)
    mine, yours = header_values(base), header_values(head)
    for name in dict.fromkeys((*mine, *yours)):
        before, after = mine.get(name), yours.get(name)
        # JAX prints lists of equal flags, one for each parameter or result
        texts = [re.split("[,;]", (text or "").strip("{}")) for text in (before, after)]
        follows_arity = len(texts[0]) != len(texts[1]) and set(texts[0]) == set(texts[1])
        if before != after and not follows_arity:
            yield Change(name, before, after)


def _donation_changes(
    graphs: tuple[ProgramGraph, ProgramGraph],
    partners: Mapping[int, int],
    nodes: Sequence[Mapping[int, int]],
) -> Iterator[Change]:
    """Yield the donations that were lost, gained or changed."""
    roots = [graph.module.entry.root for graph in graphs]
    shapes = [None if root is None else root.shape for root in roots]
    outputs = {len(s.tuple_shapes) if s is not None and s.is_tuple else 1 for s in shapes}
    aliases: list[dict[tuple[int, ShapeIndex], str]] = [{}, {}]
    for side, graph in enumerate(graphs):
        for alias in graph.module.input_output_alias:
            output = ",".join(map(str, alias.output_index))
            how = f" in output {{{output}}}" if len(outputs) == 1 else ""
            how += "" if alias.kind == "may-alias" else f", {alias.kind}"
            aliases[side][alias.parameter_number, alias.parameter_index] = how
    donors = [dict.fromkeys(graph.module.buffer_donor, "") for graph in graphs]
    back = {number: number for number in partners}, {n: number for number, n in partners.items()}
    for what, donated in (("input_output_alias", aliases), ("buffer_donor", donors)):
        keyed = [  # by the number in the base; without those of added and removed parameters
            {
                (back[side].get(number, number), index): (number, how)
                for (number, index), how in donated[side].items()
                if number in back[side] or number not in nodes[0] or number not in nodes[1]
            }
            for side in (0, 1)
        ]
        for key in dict.fromkeys((*keyed[0], *keyed[1])):
            found = [side.get(key) for side in keyed]
            side = 0 if found[0] is not None else 1
            number, _ = found[side] or (0, "")
            node = nodes[side].get(number)
            name = "" if node is None else graphs[side].instruction(node).op_name or ""
            label = f"parameter {number} {name}".rstrip()
            label += f"{{{','.join(map(str, key[1]))}}}" if key[1] else ""
            before, after = (None if one is None else f"{label}{one[1]}" for one in found)
            is_alone = None in found and number not in back[side] and number in nodes[side]
            if before != after and not is_alone:
                yield Change(what, before, after)
