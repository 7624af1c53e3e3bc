"""Fingerprints of instructions by their operands (up) and by their users (down).

They are hashes: instructions with equal ones are compared afterwards, so that a collision hides no
change. Computations with equal text and equal callees share theirs, found once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from hlo_lens.questions.diff.matching.graphs import ProgramGraph

_MASK = (1 << 61) - 1
_UNKNOWN = hash(("unknown",))
_RESULT = hash(("result",))


@dataclass(slots=True)
class Fingerprints:
    """Fingerprints of a graph.

    Attributes:
        up: Of what each node computes; the last one is for unknown operands.
        down: Of the users of each node within its computation, up to the result; the last one has
            no meaning.
        content: Of each computation, dead code included.
        whole: Number of each computation's text and callees, in order.
        find_entry: Finds those of the entry, which is large and often needs none; None if found.
    """

    up: list[int]
    down: list[int]
    content: list[int]
    whole: list[int]
    find_entry: Callable[[], None] | None = None

    def complete(self) -> None:
        """Find the fingerprints of the entry, unless they are known."""
        if self.find_entry is not None:
            self.find_entry()
            self.find_entry = None


@dataclass(slots=True)
class KnownBodies:
    """Computations with known fingerprints, of all graphs with the same labels."""

    numbers: dict[Hashable, int] = field(default_factory=dict)
    found: dict[int, tuple[list[int], list[int], int]] = field(default_factory=dict)


def fingerprints(
    graph: ProgramGraph, tokens: Mapping[int, int], known: KnownBodies
) -> Fingerprints:
    """Return the fingerprints of a graph; those of the entry as soon as `complete` is called.

    Args:
        graph: The graph.
        tokens: For parameters of the entry with a better key than their number: that key.
        known: Known computations; new ones are added.
    """
    size, numbers = len(graph), known.numbers
    found = Fingerprints(
        up=[0] * (size + 1),
        down=[0] * (size + 1),
        content=[0] * len(graph.nodes),
        whole=[0] * len(graph.nodes),
    )
    found.up[size] = _UNKNOWN
    content = found.content
    for computation in graph.callees_first():
        nodes = graph.nodes[computation]
        first, stop = nodes.start, nodes.stop
        key = graph.bodies[computation], _callees(graph, computation, content)
        number = numbers.setdefault(key, len(numbers))
        found.whole[computation] = number
        if computation == graph.entry:
            found.find_entry = partial(_find, graph, computation, found, tokens)
        elif number in known.found:
            found.up[first:stop], found.down[first:stop], content[computation] = known.found[number]
        else:
            _find(graph, computation, found, {})
            known.found[number] = found.up[first:stop], found.down[first:stop], content[computation]
    return found


def _find(
    graph: ProgramGraph, computation: int, found: Fingerprints, tokens: Mapping[int, int]
) -> None:
    """Find the fingerprints of a computation."""
    _up(graph, computation, found, tokens)
    _down(graph, computation, found.down)


def _callees(
    graph: ProgramGraph, computation: int, content: Sequence[int]
) -> tuple[tuple[int, str, int], ...]:
    """Return node, role and fingerprint of each called computation; nodes from 0."""
    first = graph.nodes[computation].start
    return tuple(
        (node - first, role, content[callee])
        for node in graph.calls_of(computation)
        for role, callee in graph.callees[node]
    )


def _up(
    graph: ProgramGraph, computation: int, found: Fingerprints, tokens: Mapping[int, int]
) -> None:
    """Find the fingerprints up of a computation: labels, and those of operands."""
    up, content, nodes = found.up, found.content, graph.nodes[computation]
    labels, indices, callees = graph.label, graph.indices, graph.callees
    first, operands = nodes.start, graph.operands[nodes.start : nodes.stop]
    special = {*graph.calls_of(computation), *tokens}
    if indices:
        special.update(node for node in nodes if node in indices)
    for node in graph.order(computation):
        taken = operands[node - first]
        if node in special:
            label: Hashable = labels[node]
            if node in callees:
                label = (label, *[(role, content[c]) for role, c in callees[node]])
            elif node in tokens:
                label = ("token", tokens[node])
            if node in indices:
                pairs = zip(taken, indices[node], strict=True)
                up[node] = hash((label, *[hash((up[o], i)) if i else up[o] for o, i in pairs]))
            else:
                up[node] = hash((label, *[up[o] for o in taken]))
        elif len(taken) == 2:
            up[node] = hash((labels[node], up[taken[0]], up[taken[1]]))
        elif len(taken) == 1:
            up[node] = hash((labels[node], up[taken[0]]))
        else:
            up[node] = hash((labels[node], *[up[o] for o in taken]))
    total = sum(up[nodes.start : nodes.stop])
    root, index = graph.roots[computation]
    content[computation] = hash((up[root], index, total & _MASK, len(nodes)))


def _down(graph: ProgramGraph, computation: int, down: list[int]) -> None:
    """Find the fingerprints down of the nodes: label, and those of users with their place.

    Users are visited first: until its own turn, a node has the sum over its users. The shape of a
    tuple and the place in it do not count: one more element would change all others.
    """
    parts, nodes = graph.labels.parts, graph.nodes[computation]
    first, operands = nodes.start, graph.operands[nodes.start : nodes.stop]
    indices, labels = graph.indices, graph.label
    of_tuples = {
        label for label in set(labels[nodes.start : nodes.stop]) if parts[label].opcode == "tuple"
    }
    down[graph.roots[computation][0]] += _RESULT
    for node in reversed(graph.order(computation)):
        label, taken = labels[node], operands[node - first]
        if label in of_tuples:
            value = down[node] = hash((-1, down[node]))
            for operand in taken:
                down[operand] += value
            continue
        value = down[node] = hash((label, down[node]))
        step = value + value
        for operand in taken:
            down[operand] += value
            value += step
        if node in indices:
            value = down[node]
            for operand, index in zip(taken, indices[node], strict=True):
                down[operand] += hash((value, index))
