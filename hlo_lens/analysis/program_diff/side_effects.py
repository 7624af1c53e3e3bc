"""Impure instructions, of which two equal ones may differ: random numbers, input, side effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_lens.model.hlo.opcodes import opcode_traits

if TYPE_CHECKING:
    from hlo_lens.analysis.program_diff.graph import ProgramGraph
    from hlo_lens.analysis.program_diff.labels import Labels

_SIDE_EFFECT = "custom_call_has_side_effect"


def impure_nodes(graph: ProgramGraph) -> set[int]:
    """Return the nodes whose result may differ from that of an equal node.

    They are impure themselves, call impure computations, or compute from such nodes.
    """
    labels = {label for label in range(len(graph.labels.parts)) if _is_impure(graph.labels, label)}
    if labels.isdisjoint(graph.label):
        return set()
    found: set[int] = set()
    computations: set[int] = set()
    for computation in graph.callees_first():
        for node in graph.order(computation):
            if (
                graph.label[node] in labels
                or not found.isdisjoint(graph.operands[node])
                or any(called in computations for _, called in graph.callees.get(node, ()))
            ):
                found.add(node)
                computations.add(computation)
    return found


def _is_impure(labels: Labels, label: int) -> bool:
    parts = labels.parts[label]
    if opcode_traits(parts.opcode).is_impure:
        return True
    attributes = labels.attributes[parts.attributes]
    return _SIDE_EFFECT in attributes and attributes[_SIDE_EFFECT][1] == "true"
