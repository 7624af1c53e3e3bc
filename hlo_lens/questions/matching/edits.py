"""Edits as types, kinds of noise, and the changes of labels and headers in words.

An edit is an instruction that was added, removed, changed or moved: it has the instruction on each
side, and its changes. Header fields are compared as texts that are equal for equal meanings;
aliases, donors and layouts of the entry by parameter. If a header has a gap they also count as
written.

Before layout assignment the layouts of parameters and result in the header differ from those of the
entry: they are those that the caller passes and receives. Without a header field, they are those of
the entry (xla/hlo/parser/hlo_parser.cc derives one from the other).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import chain, starmap
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from hlo_lens.questions.matching.labels import (
    axis_numbers,
    config_meaning,
    squeezed,
    with_axis_numbers,
)
from hlo_lens.shapes.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from hlo_lens.hlo.module import HloInstruction, HloModule
    from hlo_lens.questions.matching.graphs import ProgramGraph
    from hlo_lens.questions.matching.labels import Labels
    from hlo_lens.shapes.shape import ShapeIndex


@dataclass(frozen=True, slots=True)
class Change:
    """One change of an instruction or of the module.

    Attributes:
        what: Changed property: ``opcode``, ``element type``, ``shape``, ``operand 0``, the name of
            an attribute, ``backend_config.KEY``.
        base: Value in the base; None if absent.
        head: Value in the head; None if absent.
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
    """An instruction that both have and that differs.

    Attributes:
        base: The instruction in the base.
        head: The instruction in the head.
        changes: Its changes; at least one.
    """

    kind: ClassVar[str] = "changed"
    base: HloInstruction
    head: HloInstruction
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An instruction in another computation: in or out of a loop, a fusion, a branch.

    Attributes:
        base: The instruction in the base.
        head: The instruction in the head.
        changes: Its other changes; often none.
    """

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

    Attributes:
        meaning: Description of the difference.
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
    INSTRUCTION_ORDER = (
        "instruction-order",
        "order of instructions within their computation (the schedule)",
    )
    COMPUTATION_ORDER = "computation-order", "order of computations in the text"
    COPIES = "copies", "copies of a computation that others share"
    PRINTING = (
        "printing",
        "what one text prints and the other leaves out: get-tuple-element lines, wrapped async "
        "computations, layouts, shapes, long constants, controls, configs",
    )

    def __new__(cls, value: str, meaning: str) -> Noise:
        """Return a kind with a name and a meaning."""
        kind = object.__new__(cls)
        kind._value_ = value
        kind.meaning = meaning
        return kind

    __hash__ = object.__hash__  # that of Enum is a Python call, for each instruction with noise


# ---- changes of labels -------------------------------------------------------------------------

_LONGEST = 200
_BARRIER = "barrier_config.id"
SHAPE_WORDS = frozenset({"shape", "element type", "layout", "memory space", "tuple elements"})
"""Names of differences of shapes."""


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
    """Return a text, or its start if it is long."""
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
_READ = ("input_output_alias", "buffer_donor", "entry_computation_layout", "frontend_attributes")
_NO_MEANING = frozenset({"debug_attributes", "origin_recovery_table"})
_FINGERPRINTS = frozenset({"fingerprint_before_lhs"})
"""Frontend attributes about the text, without effect on the program."""

_RESULT = -1
"""Key of the result among the numbers of parameters."""


def header_values(module: HloModule, *, as_written: bool) -> dict[str, str]:
    """Return the header fields by name; each frontend attribute has a name of its own.

    Args:
        module: The module.
        as_written: Whether fields that are compared elsewhere are included as well.
    """
    found = {name: str(getattr(module, name)) for name in _COUNTS}
    found[_FLAG] = str(module.is_scheduled).lower()
    elsewhere = _NO_MEANING if as_written else _NO_MEANING.union(_READ)
    for name, value in module.header.items():
        is_flag = name == _FLAG and value in ("true", "false")
        if name == "backend_config":
            found[name] = config_meaning(value, module.reader)[1]
        elif name not in elsewhere and not is_flag and not (name in _COUNTS and value.isdecimal()):
            found[name] = squeezed(value)
    axes = axis_numbers(module)
    for name, value in module.frontend_attributes.items():
        if name not in _FINGERPRINTS:
            found[f"frontend_attributes.{name}"] = with_axis_numbers(value, axes)
    return found


def has_gap(module: HloModule) -> bool:
    """Return whether a part of the header could not be read."""
    if not module.gaps:
        return False
    source = module.columns.source
    end = source.text.find("\n\n", module.start)
    last, _ = source.line_column(end if end >= 0 else len(source.text))
    first, _ = source.line_column(module.start)
    return any(first <= gap.line <= last for gap in module.gaps)


class EntryShape(NamedTuple):
    """A parameter or the result of a program.

    Attributes:
        demanded: Its shape in the header; the printed one if the header has none.
        printed: Its shape in the instruction.
    """

    demanded: Shape
    printed: Shape


def entry_shapes(graph: ProgramGraph) -> dict[int, EntryShape]:
    """Return the shapes of the parameters by number, and of the result, if both are known."""
    labels, module = graph.labels, graph.module
    numbers = graph.parameter_numbers(graph.entry).items()
    printed = {number: labels.shapes[graph.parts(node).shape] for number, node in numbers}
    if module.entry.root is not None:
        text = module.entry.root.shape_text
        printed[_RESULT] = labels.shapes[labels.shape(text, module.reader)]
    demanded: dict[int, Shape] = {}
    program = module.entry_computation_layout
    if program is not None:
        demanded = {**dict(enumerate(program.parameters)), _RESULT: program.result}
    return {
        number: EntryShape(
            labels.plain_shape(demanded[number]) if number in demanded else shape, shape
        )
        for number, shape in printed.items()
        if isinstance(shape, Shape)
    }


def module_changes(
    base: ProgramGraph, head: ProgramGraph, head_of: Sequence[int]
) -> Iterator[Change]:
    """Yield the changes of the module, donations first.

    Args:
        base: Graph of the base.
        head: Graph of the head.
        head_of: For each node of the base, its partner; -1 for none.
    """
    numbers = [graph.parameter_numbers(graph.entry) for graph in (base, head)]
    number_of = {node: number for number, node in numbers[1].items()}
    partners = {  # numbers of parameters
        number: number_of[head_of[node]]
        for number, node in numbers[0].items()
        if head_of[node] in number_of
    }
    yield from _donation_changes((base, head), partners, numbers)
    yield from _layout_changes(base, head, partners)
    as_written = has_gap(base.module) or has_gap(head.module)
    mine, yours = (header_values(graph.module, as_written=as_written) for graph in (base, head))
    for name in dict.fromkeys((*mine, *yours)):
        before, after = mine.get(name), yours.get(name)
        if before != after and not _follows_arity(before, after, base.module, head.module):
            yield Change(name, before, after)


def _follows_arity(before: str | None, after: str | None, *modules: HloModule) -> bool:
    """Return whether two lists have equal values, one for each parameter or result.

    JAX prints such lists; a change of their length is reported elsewhere.
    """
    if before is None or after is None:
        return False
    mine, yours = (re.split("[,;]", text.strip("{}")) for text in (before, after))
    if len(mine) == len(yours) or set(mine) != set(yours):
        return False
    arities: tuple[list[int], list[int]] = [], []  # arrays of the parameters and of the result
    for module in modules:
        root = module.entry.root
        shapes = [*(p.shape for p in module.entry.parameters), None if root is None else root.shape]
        leaves = [0 if shape is None else len(list(shape.leaves())) for shape in shapes]
        arities[0].append(sum(leaves[:-1]))
        arities[1].append(leaves[-1])
    return [len(mine), len(yours)] in arities


def _parameter_name(graph: ProgramGraph, number: int, node: int | None) -> str:
    """Return the name of a parameter: its number, and the framework's name."""
    name = "" if node is None else graph.instruction(node).op_name or ""
    return f"parameter {number} {name}".rstrip()


def _layout_changes(
    base: ProgramGraph, head: ProgramGraph, partners: Mapping[int, int]
) -> Iterator[Change]:
    """Yield the changed header layouts of parameters and result, leaf by leaf.

    Without those of the instructions, which the header repeats.
    """
    shapes = entry_shapes(base), entry_shapes(head)
    nodes = base.parameter_numbers(base.entry)
    for number, partner in (*partners.items(), (_RESULT, _RESULT)):
        mine, yours = shapes[0].get(number), shapes[1].get(partner)
        if mine is None or yours is None or mine.demanded == yours.demanded:
            continue
        leaves = [[leaf for _, leaf in shape.leaves()] for shape in (*mine, *yours)]
        is_alike = len({len(part) for part in leaves}) == 1
        quadruples = zip(*leaves, strict=True) if is_alike else [(*mine, *yours)]
        for place, (before, was, after, now) in enumerate(quadruples):
            label = "result"
            if number != _RESULT:
                label = _parameter_name(base, number, nodes[number])
            if len(leaves[0]) > 1 and is_alike:
                label = f"{label} {{{place}}}"
            printed = set(shape_changes(was, now))
            for change in shape_changes(before, after):
                if change not in printed:
                    values = (side or "(none)" for side in (change.base, change.head))
                    texts = [f"{label} {change.what} {value}" for value in values]
                    yield Change("entry_computation_layout", *texts)


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
    pairs = {number: number for number in partners}, {n: number for number, n in partners.items()}
    for what, donated in (("input_output_alias", aliases), ("buffer_donor", donors)):
        keyed: list[dict[Hashable, tuple[int, int, ShapeIndex]]] = [{}, {}]
        for side in (0, 1):
            for number, index in donated[side]:
                pair = pairs[side].get(number)
                if pair is None and number in nodes[side] and number in nodes[1 - side]:
                    continue  # added or removed, and another parameter has its number
                # by number if a text lacks the line of the parameter
                keyed[side][pair, number if pair is None else None, index] = side, number, index
        for key in dict.fromkeys((*keyed[0], *keyed[1])):
            found = [keyed[side].get(key) for side in (0, 1)]
            before, after = (None if f is None else donated[f[0]][f[1:]] for f in found)
            side, number, index = found[0] or found[1] or (0, 0, ())
            is_alone = number not in pairs[side] and number in nodes[side]
            if before == after or (is_alone and None in (before, after)):
                continue
            label = _parameter_name(graphs[side], number, nodes[side].get(number))
            label += f"{{{','.join(map(str, index))}}}" if index else ""
            texts = (None if how is None else f"{label}{how}" for how in (before, after))
            yield Change(what, *texts)
