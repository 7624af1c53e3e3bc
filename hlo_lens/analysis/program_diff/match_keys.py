"""Keys used to match instructions of two programs."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.analysis.program_diff.equal_keys import Key, by_key
from hlo_lens.model.hlo.opcodes import opcode_traits, opcodes_where

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence, Set

    from hlo_lens.analysis.program_diff.graph import ProgramGraph
    from hlo_lens.model.shapes.shape import ShapeIndex

Accepts: TypeAlias = "Callable[[ProgramGraph, int], Hashable]"
"""Function that returns the key of a neighbour of a partner."""

_NUMBER = re.compile(r"\d+")
_LOOP = re.compile(r"while/(?:body/|cond/)?|closed_call/|checkpoint/|rematted_computation/")
"""Parts of an operation path that JAX adds for the loop around the operation."""

_WIDE = 16
"""Most operands of a user that are distinguished by place when users are matched."""

TRIVIAL = opcodes_where(lambda traits: traits.is_trivial)
"""Frequent opcodes: a match of two is no evidence that one moved."""


def same_label(graph: ProgramGraph, node: int) -> Hashable:
    """Return a key of neighbours: the label."""
    return graph.label[node]


def same_opcode(graph: ProgramGraph, node: int) -> Hashable:
    """Return a key of neighbours: opcode and operation path."""
    return graph.opcode(node), graph.hint(node)


def user_key(graph: ProgramGraph, user: int, node: int, accepts: Accepts) -> Hashable:
    """Return a key of a user of a node: its own key, and the operand number of the node."""
    key = accepts(graph, user)
    operands = graph.operands[user]
    if key is None or len(operands) > _WIDE:
        return key
    place = operands.index(node)
    return key, place, graph.indices[user][place] if user in graph.indices else ()


def label_and_path(graph: ProgramGraph) -> Key:
    """Return a key of nodes: label and operation path."""
    return lambda node: (graph.label[node], graph.hint(node))


def opcode_and_path(graph: ProgramGraph) -> Key:
    """Return a key of nodes: opcode and operation path."""
    return lambda node: (graph.opcode(node), graph.hint(node)) if graph.hint(node) else None


def without_path(graph: ProgramGraph, by: str) -> Key:
    """Return a key without the operation path; by opcode and sizes only for nodes without path."""

    def key(node: int) -> Hashable:
        if graph.opcode(node) in TRIVIAL:
            return None
        if by == "label":
            return graph.label[node]
        return None if graph.hint(node) else (graph.opcode(node), _sizes(graph, node))

    return key


def _sizes(graph: ProgramGraph, node: int) -> Hashable:
    """Return the dimensions of a result, or the number of elements of a tuple."""
    shape = graph.labels.shapes[graph.labels.parts[graph.label[node]].shape]
    if isinstance(shape, str):
        return shape
    return len(shape.tuple_shapes) if shape.is_tuple else shape.dimensions


def general_path(graph: ProgramGraph) -> Key:
    """Return a key of nodes: opcode, and operation path without numbers."""

    def key(node: int) -> Hashable:
        if graph.opcode(node) in TRIVIAL or not graph.hint(node):
            return None
        return graph.opcode(node), _NUMBER.sub("*", graph.op_name(node))

    return key


def parameter_key(graph: ProgramGraph) -> Key:
    """Return a key of parameters: their number."""

    def key(node: int) -> Hashable:
        parts = graph.labels.parts[graph.label[node]]
        return parts.detail if parts.opcode == "parameter" else None

    return key


def collective_and_path(graph: ProgramGraph) -> Key:
    """Return a key of collectives of any kind: operation path."""

    def key(node: int) -> Hashable:
        if opcode_traits(graph.opcode(node)).collective_kind is None:
            return None
        return graph.hint(node) or None

    return key


def path_alone(graph: ProgramGraph) -> Key:
    """Return a key of nodes that are not trivial: operation path, and whether it is a fusion.

    A fusion has the path of its result, which is inside: it never matches another opcode.
    """

    def key(node: int) -> Hashable:
        opcode = graph.opcode(node)
        if opcode in TRIVIAL or not graph.hint(node):
            return None
        return opcode == "fusion", graph.hint(node)

    return key


def collective_alone(graph: ProgramGraph, by: str) -> Key:
    """Return a key of collectives: kind, or opcode, element type and whether it is a tuple."""

    def key(node: int) -> Hashable:
        parts = graph.labels.parts[graph.label[node]]
        kind = opcode_traits(parts.opcode).collective_kind
        shape = graph.labels.shapes[parts.shape]
        if kind is None or isinstance(shape, str):
            return None
        return kind if by == "kind" else (parts.opcode, shape.element_type, shape.is_tuple)

    return key


def moved_keys(*, is_between: bool) -> Iterator[tuple[Callable[[ProgramGraph], Key], str]]:
    """Yield the keys of moved instructions and the modes of matching, the strictest first.

    Keys are label and operation path without loops; for collectives also kind and path, label, and
    kind, device groups and element type, if both sides have equally many. Between a fusion and
    other computations: the first key, then opcode and path if unique.
    """
    yield _moved_by_label, "any"
    if is_between:
        yield _moved_by_opcode, "unique"
        return
    yield _moved_collective("path"), "any"
    yield _moved_collective("label"), "any"
    yield _moved_collective("groups"), "equal"


def _moved_by_label(graph: ProgramGraph) -> Key:
    def key(node: int) -> Hashable:
        if graph.opcode(node) in TRIVIAL or not graph.hint(node):
            return None
        return graph.label[node], _without_loops(graph.op_name(node))

    return key


def _moved_by_opcode(graph: ProgramGraph) -> Key:
    def key(node: int) -> Hashable:
        opcode = graph.opcode(node)
        if opcode in TRIVIAL or opcode == "fusion" or not graph.hint(node):
            return None
        return opcode, _without_loops(graph.op_name(node))

    return key


def _moved_collective(by: str) -> Callable[[ProgramGraph], Key]:
    def of(graph: ProgramGraph) -> Key:
        def key(node: int) -> Hashable:
            opcode = graph.opcode(node)
            if opcode_traits(opcode).collective_kind is None:
                return None
            if by == "label":
                return graph.label[node]
            if by == "path":
                path = graph.op_name(node) and _without_loops(graph.op_name(node))
                return (opcode, path) if path else None
            parts = graph.labels.parts[graph.label[node]]
            shape = graph.labels.shapes[parts.shape]
            groups = graph.labels.attributes[parts.attributes].get("replica_groups")
            element = "" if isinstance(shape, str) else shape.element_type
            return opcode, element, groups and groups[0]

        return key

    return of


def _without_loops(path: str) -> str:
    return _LOOP.sub("", path)


def embedded_computations(graph: ProgramGraph) -> set[int]:
    """Return the computations that are part of their caller: fusions, reducers."""
    return {
        computation
        for node, called in graph.callees.items()
        if not opcode_traits(graph.opcode(node)).is_control_flow
        for _, computation in called
    }


def moved_places(graph: ProgramGraph) -> tuple[Set[int], Set[int], Set[int], Set[int]]:
    """Return the nodes outside and inside embedded computations, then those that the entry runs.

    The last set contains only nodes of fusions, not of reducers. A node that was fused, or is no
    longer fused, moves between the last two sets.
    """
    inner, reached = embedded_computations(graph), graph.reachable()
    outer = set(range(len(graph.nodes))) - inner
    fused = {
        computation
        for node, called in graph.callees.items()
        if graph.opcode(node) == "fusion"
        for _, computation in called
    }
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


def computation_names(graph: ProgramGraph) -> list[str]:
    """Return the names of the computations."""
    return [computation.name for computation in graph.module.computations]


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
    entry = graph.nodes[graph.entry]
    for user, taken in zip(entry, graph.operands[entry.start : entry.stop], strict=True):
        if wanted.isdisjoint(taken):
            continue
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
