"""Fingerprints of what instructions compute, and of what becomes of them.

They are hashes: what has equal ones is compared afterwards, so that a collision hides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from hlo_lens.analysis.diff.program_graph import ProgramGraph

_MASK = (1 << 61) - 1


@dataclass(slots=True)
class Fingerprints:
    """Fingerprints of a graph.

    Attributes:
        up: Of what each node computes; the last is that of an unknown operand.
        down: Of what becomes of each node within its computation.
        content: Of each computation, dead code included.
    """

    up: list[int]
    down: list[int]
    content: list[int]


def fingerprints(graph: ProgramGraph, tokens: Mapping[int, int] | None = None) -> Fingerprints:
    """Return the fingerprints of a graph.

    Args:
        graph: The graph.
        tokens: For parameters that are known by something better than their number: what to take.
    """
    size = len(graph)
    up = [0] * (size + 1)
    up[size] = hash(("unknown",))
    content = [0] * len(graph.nodes)
    labels, operands, indices, callees = graph.label, graph.operands, graph.indices, graph.callees
    for computation in graph.callees_first():
        total = 0
        for node in graph.order(computation):
            label: Hashable = labels[node]
            if node in callees:
                label = (label, *[(role, content[c]) for role, c in callees[node]])
            elif tokens and node in tokens:
                label = ("token", tokens[node])
            taken = operands[node]
            if node in indices:
                pairs = zip(taken, indices[node], strict=True)
                value = hash((label, *[hash((up[o], i)) if i else up[o] for o, i in pairs]))
            elif len(taken) == 1:
                value = hash((label, up[taken[0]]))
            elif len(taken) == 2:
                value = hash((label, up[taken[0]], up[taken[1]]))
            else:
                value = hash((label, *[up[o] for o in taken]))
            up[node] = value
            total += value
        root, index = graph.roots[computation]
        content[computation] = hash((up[root], index, total & _MASK, len(graph.nodes[computation])))
    return Fingerprints(up=up, down=_down(graph), content=content)


def _down(graph: ProgramGraph) -> list[int]:
    """Return fingerprints of what becomes of each node: its label, and its users' down and place.

    The shape of a tuple and the place in it do not count: an element more would change all others.
    """
    parts = graph.labels.parts
    is_tuple = [part.opcode == "tuple" for part in parts]
    found = [0] * len(graph)
    from_users = [0] * (len(graph) + 1)  # the last is for operands that are not in the text
    roots = {node for node, _ in graph.roots}
    operands, indices, labels = graph.operands, graph.indices, graph.label
    for computation in range(len(graph.nodes)):
        for node in reversed(graph.order(computation)):
            label = labels[node]
            if is_tuple[label]:
                value = found[node] = hash((-1, from_users[node] & _MASK, node in roots))
                for operand in operands[node]:
                    from_users[operand] += value
                continue
            value = found[node] = hash((label, from_users[node] & _MASK, node in roots))
            for place, operand in enumerate(operands[node]):
                from_users[operand] += value * (2 * place + 1)
            if node in indices:
                for operand, index in zip(operands[node], indices[node], strict=True):
                    from_users[operand] += hash((value, index))
    return found
