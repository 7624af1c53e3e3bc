"""Keys used to match instructions of two programs, and pairs of equal keys."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.hlo.opcodes import opcode_traits, opcodes_where

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence, Set

    from hlo_lens.questions.diff.matching.graph import ProgramGraph
    from hlo_lens.shapes.shape import ShapeIndex

Key: TypeAlias = "Callable[[int], Hashable]"
"""Key of a node; None for none."""

Keys: TypeAlias = "tuple[Sequence[int], Sequence[int]]"
"""A number for each node of base and head."""

NodeKey: TypeAlias = "Callable[[ProgramGraph, int], Hashable]"
"""Function that returns the key of a node; None for none."""

_NUMBER = re.compile(r"\d+")
_LOOP = re.compile(r"while/(?:body/|cond/)?|closed_call/|checkpoint/|rematted_computation/")
"""Parts of an operation path that JAX adds for the loop around the operation."""

_WIDE = 16
"""Most operands of a user that are distinguished by place when users are matched."""

TRIVIAL = opcodes_where(lambda traits: traits.is_trivial)
"""Frequent opcodes: a match of two is no evidence that one moved."""


def by_key(
    mine: Sequence[int], yours: Sequence[int], my_key: Key, your_key: Key, mode: str
) -> list[tuple[int, int]]:
    """Return pairs of equal keys, in order.

    Args:
        mine: One side.
        yours: The other.
        my_key: Key of an item; None for none.
        your_key: The same for the other side.
        mode: ``unique`` for keys that appear once on both sides, ``equal`` for keys that appear
            equally often, ``any`` for as many pairs as possible.
    """
    return by_keys(mine, yours, (list(map(my_key, mine)), list(map(your_key, yours))), mode)


def by_keys(
    mine: Sequence[int],
    yours: Sequence[int],
    keys: tuple[Sequence[Hashable], Sequence[Hashable]],
    mode: str,
) -> list[tuple[int, int]]:
    """Return the pairs as `by_key` does, from the keys of all items."""
    my_keys, your_keys = keys
    common = set(my_keys).intersection(your_keys)
    common.discard(None)
    if not common:
        return []
    groups: dict[Hashable, list[int]] = {}
    for item, key in zip(yours, your_keys, strict=True):
        if key in common:
            groups.setdefault(key, []).append(item)
    found: dict[Hashable, list[int]] = {}
    for item, key in zip(mine, my_keys, strict=True):
        if key in common:
            found.setdefault(key, []).append(item)
    pairs: list[tuple[int, int]] = []
    for key, items in found.items():
        others = groups[key]
        if mode == "unique" and not len(items) == len(others) == 1:
            continue
        if mode == "equal" and len(items) != len(others):
            continue
        pairs.extend(zip(items, others, strict=False))
    return pairs


def singles(mine: Sequence[int], yours: Sequence[int], keys: Keys) -> list[tuple[int, int]]:
    """Return pairs of keys that appear once on both sides, in order."""
    my_keys, your_keys = (
        list(map(numbers.__getitem__, items))
        for numbers, items in zip(keys, (mine, yours), strict=True)
    )
    last = dict(zip(your_keys, yours, strict=True))
    if len(last) < len(yours):
        first = dict(zip(reversed(your_keys), reversed(yours), strict=True))
        last = {key: item for key, item in last.items() if first[key] == item}
    found = zip(mine, map(last.get, my_keys), strict=True)
    pairs = [(item, other) for item, other in found if other is not None]
    if len({other for _, other in pairs}) == len(pairs):
        return pairs
    times = Counter(other for _, other in pairs)
    return [pair for pair in pairs if times[pair[1]] == 1]


def same_label(graph: ProgramGraph, node: int) -> Hashable:
    """Return a key of neighbours: the label."""
    return graph.label[node]


def same_opcode(graph: ProgramGraph, node: int) -> Hashable:
    """Return a key of neighbours: opcode and operation path."""
    return graph.opcode(node), graph.hint(node)


def user_key(graph: ProgramGraph, user: int, node: int, accepts: NodeKey) -> Hashable:
    """Return a key of a user of a node: its own key, and the operand number of the node."""
    key = accepts(graph, user)
    operands = graph.operands[user]
    if key is None or len(operands) > _WIDE:
        return key
    place = operands.index(node)
    return key, place, graph.indices[user][place] if user in graph.indices else ()


def label_and_path(graph: ProgramGraph, node: int) -> Hashable:
    """Return label and operation path."""
    return graph.label[node], graph.hint(node)


def opcode_and_path(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and operation path; None without path."""
    return (graph.opcode(node), graph.hint(node)) if graph.hint(node) else None


def label_alone(graph: ProgramGraph, node: int) -> Hashable:
    """Return the label of a node that is not trivial."""
    return None if graph.opcode(node) in TRIVIAL else graph.label[node]


def opcode_and_sizes(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and sizes of a node that is not trivial and has no operation path."""
    opcode = graph.opcode(node)
    return None if opcode in TRIVIAL or graph.hint(node) else (opcode, _sizes(graph, node))


def _sizes(graph: ProgramGraph, node: int) -> Hashable:
    """Return the dimensions of a result, or the number of elements of a tuple."""
    shape = graph.labels.shapes[graph.labels.parts[graph.label[node]].shape]
    if isinstance(shape, str):
        return shape
    return len(shape.tuple_shapes) if shape.is_tuple else shape.dimensions


def _has_path(graph: ProgramGraph, node: int) -> bool:
    """Return whether a node has an operation path and is not trivial."""
    return graph.opcode(node) not in TRIVIAL and graph.hint(node) > 0


def general_path(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode, and operation path without numbers, of a node that is not trivial."""
    if not _has_path(graph, node):
        return None
    return graph.opcode(node), _NUMBER.sub("*", graph.op_name(node))


def parameter_key(graph: ProgramGraph, node: int) -> Hashable:
    """Return the number of a parameter."""
    parts = graph.labels.parts[graph.label[node]]
    return parts.detail if parts.opcode == "parameter" else None


def path_alone(graph: ProgramGraph, node: int) -> Hashable:
    """Return the operation path of a node that is not trivial, and whether it is a fusion.

    A fusion has the path of its result, which is inside: it never matches another opcode.
    """
    return (graph.opcode(node) == "fusion", graph.hint(node)) if _has_path(graph, node) else None


def _is_collective(graph: ProgramGraph, node: int) -> bool:
    return opcode_traits(graph.opcode(node)).collective_kind is not None


def collective_path(graph: ProgramGraph, node: int) -> Hashable:
    """Return the operation path of a collective of any kind."""
    return (graph.hint(node) or None) if _is_collective(graph, node) else None


def collective_type(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and element type of a collective, and whether it is a tuple."""
    parts = graph.labels.parts[graph.label[node]]
    shape = graph.labels.shapes[parts.shape]
    if not _is_collective(graph, node) or isinstance(shape, str):
        return None
    return parts.opcode, shape.element_type, shape.is_tuple


def collective_kind(graph: ProgramGraph, node: int) -> Hashable:
    """Return the kind of a collective whose shape is known."""
    if collective_type(graph, node) is None:
        return None
    return opcode_traits(graph.opcode(node)).collective_kind


def _moved_label(graph: ProgramGraph, node: int) -> Hashable:
    """Return label and operation path without loops."""
    if not _has_path(graph, node):
        return None
    return graph.label[node], _without_loops(graph.op_name(node))


def _moved_opcode(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and operation path without loops."""
    opcode = graph.opcode(node)
    if opcode == "fusion" or not _has_path(graph, node):
        return None
    return opcode, _without_loops(graph.op_name(node))


def _moved_collective(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode and operation path of a collective without loops."""
    path = _without_loops(graph.op_name(node)) if _is_collective(graph, node) else ""
    return (graph.opcode(node), path) if path else None


def _collective_label(graph: ProgramGraph, node: int) -> Hashable:
    return graph.label[node] if _is_collective(graph, node) else None


def _collective_groups(graph: ProgramGraph, node: int) -> Hashable:
    """Return opcode, element type and device groups of a collective."""
    if not _is_collective(graph, node):
        return None
    parts = graph.labels.parts[graph.label[node]]
    shape = graph.labels.shapes[parts.shape]
    groups = graph.labels.attributes[parts.attributes].get("replica_groups")
    element = "" if isinstance(shape, str) else shape.element_type
    return parts.opcode, element, groups and groups[0]


MOVED = (
    (_moved_label, "any"),
    (_moved_collective, "any"),
    (_collective_label, "any"),
    (_collective_groups, "equal"),
)
"""Keys of moved instructions and the modes of matching, the strictest first."""

FUSED = ((_moved_label, "any"), (_moved_opcode, "unique"))
"""The same between a fusion and other computations."""


def _without_loops(path: str) -> str:
    return _LOOP.sub("", path)


def moved_places(graph: ProgramGraph) -> tuple[Set[int], Set[int], Set[int], Set[int]]:
    """Return the nodes outside and inside embedded computations, then those that the entry runs.

    The last set contains only nodes of fusions, not of reducers. A node that was fused, or is no
    longer fused, moves between the last two sets.
    """
    inner: set[int] = set()
    fused: set[int] = set()
    for node, called in graph.callees.items():
        computations = [computation for _, computation in called]
        if not opcode_traits(graph.opcode(node)).is_control_flow:
            inner.update(computations)
        if graph.opcode(node) == "fusion":
            fused.update(computations)
    outer, reached = set(range(len(graph.nodes))) - inner, graph.reachable()
    return outer, inner, outer & reached, fused & reached


def operands_of(graph: ProgramGraph, node: int) -> Iterator[tuple[int, ShapeIndex]]:
    """Yield the operands of a node, each with its tuple index."""
    operands = graph.operands[node]
    return zip(operands, graph.indices.get(node) or ((),) * len(operands), strict=True)


def parameter_numbers(graph: ProgramGraph, computation: int) -> dict[int, int]:
    """Return the parameters of a computation by their number."""
    parts, labels = graph.labels.parts, graph.label
    found: dict[int, int] = {}
    for node in graph.parameters_of(computation):
        number = parts[labels[node]].detail
        if isinstance(number, int):
            found[number] = node
    return found


def entry_parameters(
    base: ProgramGraph, head: ProgramGraph
) -> tuple[dict[int, int], dict[int, int]]:
    """Return tokens for the parameters of the entry: partners have the same token.

    Matched by name, if names are unique; then, if the numbers of parameters differ, by shape and
    users; then by number and shape, by shape in order, and by number.
    """
    mine, yours = base.parameters_of(base.entry), head.parameters_of(head.entry)
    pairs: list[tuple[int, int]] = []
    stages = [(_parameter_name(base, mine), _parameter_name(head, yours))]
    if mine and yours and len(mine) != len(yours):
        stages.append((_used_by(base, mine), _used_by(head, yours)))
    for my_key, your_key in (
        *stages,
        (_parameter_number(base, shaped=True), _parameter_number(head, shaped=True)),
        (_shape_of(base), _shape_of(head)),
        (_parameter_number(base, shaped=False), _parameter_number(head, shaped=False)),
    ):
        found = {a for a, _ in pairs}, {b for _, b in pairs}
        my_left = [node for node in mine if node not in found[0]]
        your_left = [node for node in yours if node not in found[1]]
        pairs += by_key(my_left, your_left, my_key, your_key, "any")
    return (
        {node: token for token, (node, _) in enumerate(pairs)},
        {node: token for token, (_, node) in enumerate(pairs)},
    )


def _parameter_name(graph: ProgramGraph, nodes: Sequence[int]) -> Key:
    names = Counter(graph.hint(node) for node in nodes)

    def key(node: int) -> Hashable:
        name = graph.hint(node)
        return name if name and names[name] == 1 else None

    return key


def _used_by(graph: ProgramGraph, nodes: Sequence[int]) -> Key:
    """Return a key of parameters of the entry: shape, users, and other operands of these."""
    wanted = frozenset(nodes)
    labels = graph.label
    uses: dict[int, list[int]] = {node: [] for node in nodes}
    for user in graph.operands.users(wanted, graph.nodes[graph.entry]):
        taken = graph.operands[user]
        others = tuple([0 if o in wanted or o < 0 else labels[o] for o in taken])
        others = others if len(others) <= _WIDE else ()
        for place, operand in enumerate(taken):
            if operand in wanted:
                uses[operand].append(hash((labels[user], others, place if others else 0)))
    shape = _shape_of(graph)
    return lambda node: (shape(node), *sorted(uses[node])) if uses[node] else None


def _shape_of(graph: ProgramGraph) -> Key:
    return lambda node: graph.labels.parts[graph.label[node]].shape


def _parameter_number(graph: ProgramGraph, *, shaped: bool) -> Key:
    def key(node: int) -> Hashable:
        parts = graph.labels.parts[graph.label[node]]
        return (parts.detail, parts.shape) if shaped else parts.detail

    return key
